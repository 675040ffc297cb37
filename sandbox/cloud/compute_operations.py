"""Compute operations as clients see them: global, regional and zonal get, list and wait.

Owns the JSON shape [facts gcloud-requests.md]; the life of an operation is in `operations`.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sandbox.cloud import links
from sandbox.cloud.core import Call, compute_time
from sandbox.cloud.errors import ApiError
from sandbox.cloud.links import path
from sandbox.cloud.listing import page
from sandbox.cloud.registry import endpoint
from sandbox.cloud.store import OperationRecord

_WAIT_SECONDS = 120.0
"""`wait` answers after two minutes at the latest [K]."""
_HTTP_NAMES = {400: "BAD REQUEST", 403: "FORBIDDEN", 404: "NOT FOUND", 503: "SERVICE UNAVAILABLE"}
_CITATION = "facts gcloud-requests.md; real-provider.md (operations)"


def render(operation: OperationRecord) -> dict[str, Any]:
    """Return an operation in Compute's JSON form."""
    body, project, location = operation.body, operation.project, operation.location
    answer: dict[str, Any] = {
        "kind": "compute#operation",
        "id": str(int(hashlib.sha256(operation.name.encode()).hexdigest()[:15], 16) + 10**18),
        "name": operation.name,
        "operationType": body["type"],
        "targetLink": links.COMPUTE_BASE + operation.target,
        "targetId": body["params"].get("targetId") or "0",
        "status": operation.status,
        "user": "sandbox@example.com",
        "progress": {"PENDING": 0, "RUNNING": 50}.get(operation.status, 100),
        "insertTime": compute_time(body["requested"]),
        "selfLink": links.link(project, location, "operations", operation.name),
    }
    if location != "global":
        answer[links.scope(location)] = links.scope_link(project, location)
    if "started" in body:
        answer["startTime"] = compute_time(body["started"])
    if "ended" in body:
        answer["endTime"] = compute_time(body["ended"])
    if "error" in body:
        error = body["error"]
        answer["error"] = {"errors": [{"code": error["code"], "message": error["message"]}]}
        answer["httpErrorStatusCode"] = error["httpStatus"]
        answer["httpErrorMessage"] = _HTTP_NAMES.get(error["httpStatus"], "ERROR")
    return answer


def _location(call: Call) -> str:
    return call.params.get("region") or call.params.get("zone") or "global"


def _find(call: Call) -> OperationRecord:
    operation = call.store.get_operation(call.params["operation"])
    location = _location(call)
    if (
        operation is None
        or operation.api != "compute"
        or (operation.project, operation.location) != (call.project, location)
    ):
        where = path(call.project, location, "operations", call.params["operation"])
        raise ApiError(404, f"The resource '{where}' was not found", "notFound")
    return operation


def _get(call: Call) -> dict[str, Any]:
    return render(_find(call))


async def _wait(call: Call) -> dict[str, Any]:
    operation = _find(call)
    await call.cloud.operations.wait(operation.name, _WAIT_SECONDS)
    return render(_find(call))


def _list(call: Call) -> dict[str, Any]:
    location = _location(call)
    found = call.store.operations(api="compute", project=call.project)
    items = [render(operation) for operation in found if operation.location == location]
    shown, token = page(items, call.query)
    answer: dict[str, Any] = {"kind": "compute#operationList", "items": shown}
    return {**answer, "nextPageToken": token} if token else answer


@endpoint(
    "compute", "GET", "projects/{project}/aggregated/operations", citation="[K]", judges="gcloud"
)
def aggregated(call: Call) -> dict[str, Any]:
    """List the operations of all scopes."""
    found = call.store.operations(api="compute", project=call.project)
    shown, token = page([render(operation) for operation in found], call.query)
    scopes: dict[str, Any] = {}
    locations = {operation.name: operation.location for operation in found}
    for item in shown:
        location = locations[item["name"]]
        scope = links.scope(location)
        key = "global" if scope == "global" else f"{scope}s/{location}"
        scopes.setdefault(key, {"operations": []})["operations"].append(item)
    answer: dict[str, Any] = {"kind": "compute#operationAggregatedList", "items": scopes}
    return {**answer, "nextPageToken": token} if token else answer


for _scope in ("global", "regions/{region}", "zones/{zone}"):
    _base = f"projects/{{project}}/{_scope}/operations"
    # Nothing here is changed in a zone: gcloud can look for an operation there, not wait for one.
    _zonal = _scope.startswith("zones")
    endpoint("compute", "GET", _base, citation=_CITATION, judges="gcloud")(_list)
    endpoint(
        "compute",
        "GET",
        _base + "/{operation}",
        citation=_CITATION,
        judges="gcloud" if _zonal else "gcloud provider",
    )(_get)
    endpoint(
        "compute",
        "POST",
        _base + "/{operation}/wait",
        citation="recorded from gcloud 528: it waits, it does not poll",
        judges="" if _zonal else "gcloud",
    )(_wait)
