"""GKE operations as clients see them.

Owns the JSON shape [facts gcloud-requests.md, real-provider.md], get, list and cancel; the life of
an operation is in `operations`.
"""

from __future__ import annotations

from typing import Any

from sandbox.cloud import links
from sandbox.cloud.core import Call, container_time, project_number
from sandbox.cloud.errors import ApiError, failed_precondition
from sandbox.cloud.payload import parse
from sandbox.cloud.registry import endpoint, rule
from sandbox.cloud.store import OperationRecord

_CITATION = "facts gcloud-requests.md; real-provider.md (operations)"
_BASE = "projects/{project}/locations/{location}/operations"
_CODES = {"INTERNAL": 13, "RESOURCE_EXHAUSTED": 8, "PERMISSION_DENIED": 7, "INVALID_ARGUMENT": 3}

rule(
    "container-operations.error",
    "a failed operation carries error and statusMessage; without a failure neither is there",
    citation="facts real-provider.md (a non-empty statusMessage is a failure)",
    judges="gcloud",
)


def render(operation: OperationRecord, version: str) -> dict[str, Any]:
    """Return an operation in GKE's JSON form."""
    body = operation.body
    base = f"{links.CONTAINER_BASE}{version}/projects/{project_number(operation.project)}"
    where = f"{base}/locations/{operation.location}"
    target = operation.target.partition("/clusters/")[2]
    answer: dict[str, Any] = {
        "name": operation.name,
        "zone": operation.location,
        "location": operation.location,
        "operationType": body["type"],
        "status": operation.status,
        "selfLink": f"{where}/operations/{operation.name}",
        "targetLink": f"{where}/clusters/{target}",
        "startTime": container_time(body["requested"]),
    }
    if "ended" in body:
        answer["endTime"] = container_time(body["ended"])
    if "error" in body:
        error = body["error"]
        code = _CODES.get(error["code"], 13)
        answer["error"] = {"code": code, "message": error["message"]}
        answer["statusMessage"] = error["message"]
    return answer


def _find(call: Call) -> OperationRecord:
    name, location = call.params["operation"], call.params["location"]
    operation = call.store.get_operation(name)
    if (
        operation is None
        or operation.api != "container"
        or (operation.project, operation.location) != (call.project, location)
    ):
        raise ApiError(
            404,
            f"Not found: projects/{call.project}/locations/{location}/operations/{name}.",
            "notFound",
        )
    return operation


@endpoint("container", "GET", _BASE + "/{operation}", citation=_CITATION, judges="gcloud provider")
def get(call: Call) -> dict[str, Any]:
    """Read an operation."""
    return render(_find(call), call.version)


@endpoint("container", "GET", _BASE, citation="[K]", judges="gcloud")
def list_(call: Call) -> dict[str, Any]:
    """List the operations of a location, or of all with `-`."""
    location = call.params["location"]
    found = call.store.operations(api="container", project=call.project)
    shown = [
        render(operation, call.version)
        for operation in found
        if location in ("-", operation.location)
    ]
    return {"operations": shown} if shown else {}


@endpoint("container", "POST", _BASE + "/{operation}:cancel", citation="[K]", judges="gcloud")
def cancel(call: Call) -> dict[str, Any]:
    """Refuse: nothing that an Autopilot cluster does can be cancelled."""
    parse("container", "CancelOperationRequest", call.body if call.body is not None else {})
    operation = _find(call)
    raise failed_precondition(f"Operation {operation.name} cannot be cancelled.")
