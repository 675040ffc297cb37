"""Google APIs that a project may use.

Owns Service Usage: get, list, enable, batch enable, disable and their operations. Compute and GKE
start out disabled, as in a new project [facts google-cloud.md §6.4, §7].
"""

from __future__ import annotations

import re
import time
from typing import Any

from sandbox.cloud import catalog
from sandbox.cloud.core import Call, Cloud, project_number
from sandbox.cloud.errors import ApiError, OperationError, failed_precondition
from sandbox.cloud.listing import page
from sandbox.cloud.networks import add_default_network
from sandbox.cloud.operations import EFFECTS, Effect
from sandbox.cloud.payload import parse
from sandbox.cloud.registry import endpoint, rule
from sandbox.cloud.store import OperationRecord, Record

_SECTION = "facts google-cloud.md §7"
_BASE = "projects/{project}/services"
_MOST_AT_ONCE = 20
_NOTHING_TO_DO = "operations/noop.DONE_OPERATION"

rule(
    "services.start-disabled",
    "compute and container are off at first",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "services.gate",
    "an API that is off answers 403 accessNotConfigured with the project's number",
    citation="facts google-cloud.md §6.4",
    judges="gcloud",
)
rule(
    "services.dependency",
    "enabling container enables compute too",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "services.idempotent", "enabling what is on is done at once", citation=_SECTION, judges="gcloud"
)
rule("services.unknown", "an unknown service name is refused", citation="[K]", judges="gcloud")
rule(
    "services.disable-in-use",
    "what an enabled API depends on stays on",
    citation="[K]",
    judges="gcloud",
)


def _state(cloud: Cloud, project: str, name: str) -> dict[str, Any]:
    on = name in catalog.ALWAYS_ON_SERVICES or cloud.service_enabled(project, name)
    number = project_number(project)
    return {
        "name": f"projects/{number}/services/{name}",
        "config": {"name": name, "title": name, "documentation": {}, "usage": {}},
        "state": "ENABLED" if on else "DISABLED",
        "parent": f"projects/{number}",
    }


def _known(name: str) -> str:
    if name not in catalog.SERVICES:
        raise ApiError(
            403,
            f"Not found or permission denied for service(s): {name}.",
            "forbidden",
            details=[
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED",
                    "domain": "serviceusage.googleapis.com",
                    "metadata": {"services": name},
                }
            ],
        )
    return name


@endpoint(
    "serviceusage",
    "GET",
    _BASE + "/{service}",
    citation="facts gcloud-requests.md (create-auto)",
    judges="gcloud",
)
def get(call: Call) -> dict[str, Any]:
    """Read whether a service is on."""
    return _state(call.cloud, call.project, _known(call.params["service"]))


@endpoint(
    "serviceusage",
    "GET",
    _BASE,
    citation="facts real-provider.md (projects.Service)",
    judges="gcloud provider",
)
def list_(call: Call) -> dict[str, Any]:
    """List services; `filter` knows `state:ENABLED` and `state:DISABLED`."""
    wanted = call.query.get("filter", "")
    match = re.fullmatch(r"state:(ENABLED|DISABLED)", wanted)
    if wanted and match is None:
        raise ApiError(400, f"Invalid filter: {wanted}", "badRequest")
    items = [_state(call.cloud, call.project, name) for name in catalog.SERVICES]
    if match is not None:
        items = [item for item in items if item["state"] == match[1]]
    query = {key: value for key, value in call.query.items() if key != "filter"}
    shown, token = page(items, query, size_key="pageSize")
    answer: dict[str, Any] = {"services": shown} if shown else {}
    return {**answer, "nextPageToken": token} if token else answer


def _enable(call: Call, names: list[str]) -> dict[str, Any]:
    wanted: list[str] = []
    for name in names:
        wanted += [_known(name), *catalog.SERVICES[name]]
    missing = [
        name
        for name in dict.fromkeys(wanted)
        if name not in catalog.ALWAYS_ON_SERVICES
        and not call.cloud.service_enabled(call.project, name)
    ]
    if not missing:
        services = [_state(call.cloud, call.project, name) for name in names]
        return {
            "name": _NOTHING_TO_DO,
            "done": True,
            "response": {"service": services[0]} if len(services) == 1 else {"services": services},
        }
    operation = call.cloud.operations.begin(
        api="serviceusage",
        project=call.project,
        location="global",
        action="services.enable",
        operation_type="enable",
        target=f"projects/{call.project}/services/{names[0]}",
        params={"names": names, "missing": missing},
    )
    return render(call.cloud, operation)


@endpoint(
    "serviceusage",
    "POST",
    _BASE + "/{service}:enable",
    citation="facts real-provider.md (projects.Service)",
    judges="gcloud provider",
)
def enable(call: Call) -> dict[str, Any]:
    """Switch a service on."""
    parse("serviceusage", "EnableServiceRequest", call.body)
    return _enable(call, [call.params["service"]])


@endpoint("serviceusage", "POST", _BASE + ":batchEnable", citation=_SECTION, judges="gcloud")
def batch_enable(call: Call) -> dict[str, Any]:
    """Switch up to 20 services on."""
    body = parse("serviceusage", "BatchEnableServicesRequest", call.body)
    names = body.get("serviceIds", [])
    if not 1 <= len(names) <= _MOST_AT_ONCE:
        raise ApiError(
            400,
            f"Invalid number of services: {len(names)}. From 1 to {_MOST_AT_ONCE} are allowed.",
            "badRequest",
        )
    return _enable(call, names)


@endpoint(
    "serviceusage",
    "POST",
    _BASE + "/{service}:disable",
    citation=f"{_SECTION} [K]",
    judges="gcloud",
)
def disable(call: Call) -> dict[str, Any]:
    """Switch a service off, unless another that is on needs it."""
    body = parse("serviceusage", "DisableServiceRequest", call.body)
    name = _known(call.params["service"])
    if name in catalog.ALWAYS_ON_SERVICES:
        raise failed_precondition(f"The service {name} cannot be disabled in this sandbox.")
    users = [
        other
        for other, needs in catalog.SERVICES.items()
        if name in needs and call.cloud.service_enabled(call.project, other)
    ]
    if users and not body.get("disableDependentServices"):
        raise failed_precondition(
            f"The service {name} is depended on by the following active service(s): "
            f"{','.join(users)}; Please specify disable_dependent_services=true if you want to "
            "proceed with disabling all services."
        )
    operation = call.cloud.operations.begin(
        api="serviceusage",
        project=call.project,
        location="global",
        action="services.disable",
        operation_type="disable",
        target=f"projects/{call.project}/services/{name}",
        params={"names": [name], "off": [name, *users]},
    )
    return render(call.cloud, operation)


@endpoint(
    "serviceusage",
    "GET",
    "operations/{operation}",
    citation="facts real-provider.md (pending operations)",
    judges="gcloud provider",
)
def operation(call: Call) -> dict[str, Any]:
    """Read an operation; its name alone says which project it belongs to."""
    name = call.params["operation"]
    if f"operations/{name}" == _NOTHING_TO_DO:
        return {"name": _NOTHING_TO_DO, "done": True, "response": {}}
    found = call.store.get_operation(name)
    if found is None or found.api != "serviceusage":
        raise ApiError(404, f"Operation {name} not found.", "notFound")
    return render(call.cloud, found)


def render(cloud: Cloud, operation: OperationRecord) -> dict[str, Any]:
    """Return an operation in Service Usage's JSON form."""
    answer: dict[str, Any] = {"name": f"operations/{operation.name}"}
    if operation.status != "DONE":
        return answer
    answer["done"] = True
    if "error" in operation.body:
        error = operation.body["error"]
        return {**answer, "error": {"code": 13, "message": error["message"], "details": []}}
    services = [
        _state(cloud, operation.project, name) for name in operation.body["params"]["names"]
    ]
    one = len(services) == 1
    return {**answer, "response": {"service": services[0]} if one else {"services": services}}


def _apply_enable(cloud: Cloud, operation: OperationRecord, _: Any) -> None:
    for name in operation.body["params"]["missing"]:
        switch_on(cloud, operation.project, name)


def switch_on(cloud: Cloud, project: str, name: str) -> None:
    """Enable a service; Compute brings the `default` network with it."""
    if name in catalog.ALWAYS_ON_SERVICES or cloud.service_enabled(project, name):
        return
    cloud.store.put(
        Record(
            kind="services",
            project=project,
            location="global",
            name=name,
            body={},
            owner=f"projects/{project}",
            created=time.time(),
        )
    )
    if name == "compute.googleapis.com":
        add_default_network(cloud, project)


def _apply_disable(cloud: Cloud, operation: OperationRecord, _: Any) -> None:
    for name in operation.body["params"]["off"]:
        if name == "compute.googleapis.com" and cloud.store.find(
            kind="instances", project=operation.project
        ):
            raise OperationError(
                "FAILED_PRECONDITION", f"The service {name} is in use by instances."
            )
        cloud.store.delete("services", operation.project, "global", name)


EFFECTS["services.enable"] = Effect(apply=_apply_enable)
EFFECTS["services.disable"] = Effect(apply=_apply_disable)
