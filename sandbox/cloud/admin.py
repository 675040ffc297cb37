"""The sandbox's own namespace, `/sandbox/v1/`: nothing of it exists at Google.

Owns reading the whole state (for `python -m sandbox status`), fault plans, quotas and other project
settings, machine stock, pace, the operation and request logs, and reset.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.cloud import catalog
from sandbox.cloud.clusters import key_of
from sandbox.cloud.core import Cloud, project_number
from sandbox.cloud.faults import FaultRuleError
from sandbox.cloud.registry import as_table
from sandbox.cloud.services import switch_on
from sandbox.cloud.store import Record

Handler = Callable[[Cloud, Request], Awaitable[object]]
_MOST_PACE = 100


class AdminError(Exception):
    """A request to the sandbox's own namespace that makes no sense."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


async def resources(cloud: Cloud, request: Request) -> object:
    """List resources with who made them.

    `madeBy` is `user`, `gke` (for a cluster, a network or a subnetwork) or `project` (what each
    project has from the start). Without `?all=true` the latter and the routes of a network, which
    come and go with it, are left out.
    """
    wanted = request.query_params.get("project")
    everything = request.query_params.get("all") == "true"
    shown = []
    for record in cloud.store.find(project=wanted):
        made_by = _made_by(record)
        if everything or made_by in ("user", "gke"):
            shown.append(
                {
                    "kind": record.kind,
                    "project": record.project,
                    "location": record.location,
                    "name": record.name,
                    "state": record.state,
                    "madeBy": made_by,
                    "for": record.owner,
                }
            )
    return {"resources": shown}


def _made_by(record: Record) -> str:
    if not record.owner:
        return "user"
    if "/clusters/" in record.owner:
        return "gke"
    return "network" if "/networks/" in record.owner else "project"


async def clusters(cloud: Cloud, _: Request) -> object:
    """List clusters with what a kubeconfig needs, and what does not work in them."""
    return {
        "clusters": [
            {
                "project": record.project,
                "location": record.location,
                "name": record.name,
                "context": key_of(record).context,
                "status": record.body["status"],
                "statusMessage": record.body.get("statusMessage", ""),
                "version": record.body["currentMasterVersion"],
                "endpoint": record.body.get("endpoint", ""),
                "clusterCaCertificate": record.body["masterAuth"].get("clusterCaCertificate", ""),
                "problems": list(cloud.runtime.problems(key_of(record))),
            }
            for record in cloud.store.find(kind="clusters")
        ]
    }


async def processes(cloud: Cloud, _: Request) -> object:
    """List the processes of the clusters."""
    return {
        "processes": [
            {"name": process.name, "pid": process.pid, "cluster": process.cluster}
            for process in cloud.runtime.processes()
        ]
    }


async def operations(cloud: Cloud, request: Request) -> object:
    """Return the operation log: times are Unix seconds, `requires` names what had to be there."""
    wanted = request.query_params.get("project")
    return {
        "operations": [
            {
                "name": operation.name,
                "api": operation.api,
                "project": operation.project,
                "location": operation.location,
                "action": operation.action,
                "target": operation.target,
                "status": operation.status,
                "requires": operation.body["requires"],
                "requested": operation.body["requested"],
                "started": operation.body.get("started"),
                "ended": operation.body.get("ended"),
                "error": operation.body.get("error"),
            }
            for operation in cloud.store.operations(project=wanted)
        ]
    }


async def requests(cloud: Cloud, _: Request) -> object:
    """Return the latest requests of clients, oldest first."""
    return {"requests": list(cloud.requests)}


async def settings(cloud: Cloud, _: Request) -> object:
    """Return pace, seed and whether operations are answered before they are done."""
    return {"pace": cloud.pace, "seed": cloud.seed, "pendingFirst": cloud.answers_pending}


async def put_settings(cloud: Cloud, request: Request) -> object:
    """Change settings; the pace holds for operations that begin later."""
    body = await _object(request)
    unknown = body.keys() - {"pace", "seed", "pendingFirst"}
    if unknown:
        raise AdminError(f"unknown settings {', '.join(sorted(unknown))}")
    pace, seed = body.get("pace", 0), body.get("seed", 0)
    if isinstance(pace, bool) or not isinstance(pace, int | float) or not 0 <= pace <= _MOST_PACE:
        raise AdminError(f"pace is {pace!r}, expected a number from 0 to {_MOST_PACE}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise AdminError(f"seed is {seed!r}, expected a whole number")
    if not isinstance(body.get("pendingFirst", False), bool):
        raise AdminError(f"pendingFirst is {body['pendingFirst']!r}, expected true or false")
    for key, value in body.items():
        if key == "pace":
            cloud.pace = float(value)
        else:
            cloud.store.put_setting(key, value)
    return await settings(cloud, request)


async def project(cloud: Cloud, request: Request) -> object:
    """Return a project's number, limits and services."""
    name = request.path_params["project"]
    setting = cloud.project_setting(name)
    quotas: dict[str, int] = {**catalog.PROJECT_QUOTAS, **catalog.REGION_QUOTAS}
    return {
        "project": name,
        "number": project_number(name),
        "quotas": {**quotas, **setting.get("quotas", {})},
        "defaultNetwork": setting.get("defaultNetwork", not name.startswith("s3ns:")),
        "enabledServices": [
            record.name for record in cloud.store.find(kind="services", project=name)
        ],
    }


async def put_project(cloud: Cloud, request: Request) -> object:
    """Change a project.

    Keys: `quotas` ({metric or region/metric: limit}, merged), `defaultNetwork` (decided before
    Compute is enabled), `enabledServices` (switched on at once, none is switched off).
    """
    name = request.path_params["project"]
    body = await _object(request)
    unknown = body.keys() - {"quotas", "defaultNetwork", "enabledServices"}
    if unknown:
        raise AdminError(f"unknown keys {', '.join(sorted(unknown))}")
    setting = cloud.project_setting(name)
    setting["quotas"] = {**setting.get("quotas", {}), **_quotas(body.get("quotas", {}))}
    if "defaultNetwork" in body:
        if not isinstance(body["defaultNetwork"], bool):
            raise AdminError(
                f"defaultNetwork is {body['defaultNetwork']!r}, expected true or false"
            )
        setting["defaultNetwork"] = body["defaultNetwork"]
    services = body.get("enabledServices", [])
    if not isinstance(services, list) or any(
        not isinstance(service, str) or service not in catalog.SERVICES for service in services
    ):
        raise AdminError(f"enabledServices is {services!r}, expected a list of known services")
    with cloud.store.transaction():
        cloud.store.put_setting(f"project:{name}", setting)
        for service in services:
            for needed in (*catalog.SERVICES[service], service):
                switch_on(cloud, name, needed)
    return await project(cloud, request)


def _quotas(given: object) -> dict[str, int]:
    known = catalog.PROJECT_QUOTAS.keys() | catalog.REGION_QUOTAS.keys()
    if not isinstance(given, dict):
        raise AdminError(f"quotas is {given!r}, expected an object of limits")
    for metric, limit in given.items():
        if metric.rpartition("/")[2] not in known:
            raise AdminError(f"unknown metric {metric!r}; known are {', '.join(sorted(known))}")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise AdminError(f"the limit of {metric} is {limit!r}, expected a number from 0")
    return given


async def stock(cloud: Cloud, _: Request) -> object:
    """Return the changes to the machine stock: {zone: {machine type or type:spot: machines}}."""
    return cloud.store.setting("stock") or {}


async def put_stock(cloud: Cloud, request: Request) -> object:
    """Replace the changes to the machine stock."""
    body = await _object(request)
    for zone, machines in body.items():
        if not isinstance(machines, dict):
            raise AdminError(f"the stock of {zone} is {machines!r}, expected an object")
        for machine_type, count in machines.items():
            if machine_type.removesuffix(":spot") not in catalog.MACHINE_TYPES:
                raise AdminError(f"unknown machine type {machine_type!r}")
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise AdminError(f"the stock of {machine_type} is {count!r}, expected a number")
    cloud.store.put_setting("stock", body)
    return body


async def faults(cloud: Cloud, _: Request) -> object:
    """Return the fault plans with their counts."""
    return {"faults": cloud.faults.describe()}


async def put_fault(cloud: Cloud, request: Request) -> object:
    """Set one fault plan."""
    name = request.path_params["name"]
    try:
        cloud.faults.put(name, await _object(request))
    except FaultRuleError as error:
        raise AdminError(str(error)) from error
    return cloud.faults.describe()[name]


async def delete_fault(cloud: Cloud, request: Request) -> object:
    """Remove one fault plan."""
    name = request.path_params["name"]
    if not cloud.faults.remove(name):
        raise AdminError(f"no fault plan is called {name!r}", status=404)
    return {}


async def delete_faults(cloud: Cloud, _: Request) -> object:
    """Remove all fault plans."""
    cloud.faults.clear()
    return {}


async def fidelity(_: Cloud, __: Request) -> object:
    """Return the registry of endpoints and rules."""
    return as_table()


async def reset(cloud: Cloud, _: Request) -> object:
    """Delete every cluster and all state."""
    await cloud.operations.close()
    for record in cloud.store.find(kind="clusters"):
        await cloud.runtime.stop(key_of(record), delete=True)
    cloud.faults.clear()
    cloud.store.clear()
    cloud.requests.clear()
    return {}


async def _object(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError as error:
        raise AdminError(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise AdminError("the body must be a JSON object")
    return body


_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/resources", resources),
    ("GET", "/clusters", clusters),
    ("GET", "/processes", processes),
    ("GET", "/operations", operations),
    ("GET", "/requests", requests),
    ("GET", "/settings", settings),
    ("PUT", "/settings", put_settings),
    ("GET", "/projects/{project}", project),
    ("PUT", "/projects/{project}", put_project),
    ("GET", "/stock", stock),
    ("PUT", "/stock", put_stock),
    ("GET", "/faults", faults),
    ("DELETE", "/faults", delete_faults),
    ("PUT", "/faults/{name}", put_fault),
    ("DELETE", "/faults/{name}", delete_fault),
    ("GET", "/fidelity", fidelity),
    ("POST", "/reset", reset),
)


def routes(cloud: Cloud) -> list[Route]:
    """Return the routes of the namespace."""
    return [
        Route(f"/sandbox/v1{path}", _serve(cloud, handler), methods=[method])
        for method, path, handler in _ROUTES
    ]


def _serve(cloud: Cloud, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            return JSONResponse(await handler(cloud, request))
        except AdminError as error:
            return JSONResponse({"error": str(error)}, status_code=error.status)

    return serve
