"""Refusals in Google's words and shapes.

Owns the error body of each API and the sentences that several resources share. A sentence that
belongs to one resource kind stands in that kind's module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
API_TITLES = {
    "compute.googleapis.com": "Compute Engine API",
    "container.googleapis.com": "Kubernetes Engine API",
}


class ApiError(Exception):
    """A request that the API refuses; nothing was changed.

    Args:
        code: HTTP status.
        message: Google's sentence.
        reason: `errors[].reason`, which clients print after the message.
        status: Canonical name where it differs from the usual one of `code`.
        details: Entries for `error.details`.
        domain: `errors[].domain`.
    """

    def __init__(
        self,
        code: int,
        message: str,
        reason: str,
        *,
        status: str | None = None,
        details: Sequence[Mapping[str, Any]] = (),
        domain: str = "global",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.status = status or _STATUS.get(code, "UNKNOWN")
        self.details = list(details)
        self.domain = domain

    def body(self, api: str) -> dict[str, Any]:
        """Return the JSON body.

        GKE always adds `details` with a request id, Compute and the others only what the case
        itself brings [facts google-cloud.md §1.7].
        """
        details = list(self.details)
        if api == "container" and not details:
            digest = hashlib.sha256(self.message.encode()).hexdigest()[:16]
            details.append(
                {"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": f"0x{digest}"}
            )
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "errors": [{"message": self.message, "domain": self.domain, "reason": self.reason}],
            "status": self.status,
        }
        if details:
            error["details"] = details
        return {"error": error}


class OperationError(Exception):
    """An operation that was accepted and then failed.

    Args:
        code: `error.errors[].code` of a Compute operation, or a canonical name for GKE.
        message: Google's sentence.
        http_status: `httpErrorStatusCode` of a Compute operation.
    """

    def __init__(self, code: str, message: str, *, http_status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = http_status


def not_found(path: str) -> ApiError:
    """Compute's 404 for a resource path without scheme or version [facts google-cloud.md §3]."""
    return ApiError(404, f"The resource '{path}' was not found", "notFound")


def already_exists(path: str) -> ApiError:
    """Compute's 409 [facts google-cloud.md §2, kubefirst#1702]."""
    return ApiError(409, f"The resource '{path}' already exists", "alreadyExists")


def not_ready(path: str) -> ApiError:
    """Compute's answer while a resource is still being made or removed [facts §1.7]."""
    return ApiError(400, f"The resource '{path}' is not ready", "resourceNotReady")


def in_use(kind: str, path: str, holder: str) -> ApiError:
    """Compute's synchronous in-use refusal, naming one holder [facts google-cloud.md §3]."""
    return ApiError(400, in_use_text(kind, path, holder), "resourceInUseByAnotherResource")


def in_use_text(kind: str, path: str, holder: str) -> str:
    """Return the sentence that names what holds a resource [facts google-cloud.md §2, §3]."""
    return f"The {kind} resource '{path}' is already being used by '{holder}'"


def invalid_field(field: str, value: object, expectation: str) -> ApiError:
    """Compute's refusal of one field [facts google-cloud.md §3, §4]."""
    return ApiError(
        400, f"Invalid value for field '{field}': '{_shown(value)}'. {expectation}", "invalid"
    )


def required_field(field: str) -> ApiError:
    """Compute's refusal of a missing field [K: wording]."""
    return ApiError(
        400,
        f"Invalid value for field '{field}': ''. Required field is missing.",
        "required",
    )


def bad_request(message: str) -> ApiError:
    """GKE's refusal of a request [facts google-cloud.md §6.4]."""
    return ApiError(400, message, "badRequest")


def failed_precondition(message: str) -> ApiError:
    """Refusal because of the state that the resource is in."""
    return ApiError(400, message, "failedPrecondition", status="FAILED_PRECONDITION")


def forbidden(message: str) -> ApiError:
    """A 403 without details [facts google-cloud.md §6.4]."""
    return ApiError(403, message, "forbidden")


def api_disabled(service: str, project_number: str) -> ApiError:
    """The answer of an API that is off in the project [facts google-cloud.md §6.4].

    Uses the project's *number*; the details carry ErrorInfo with reason SERVICE_DISABLED.
    """
    url = f"https://console.developers.google.com/apis/api/{service}/overview?project={project_number}"
    title = API_TITLES.get(service, service)
    return ApiError(
        403,
        f"{title} has not been used in project {project_number} before or it is disabled. Enable "
        f"it by visiting {url} then retry. If you enabled this API recently, wait a few minutes "
        "for the action to propagate to our systems and retry.",
        "accessNotConfigured",
        domain="usageLimits",
        details=[
            {
                "@type": "type.googleapis.com/google.rpc.Help",
                "links": [{"description": "Google developers console API activation", "url": url}],
            },
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "SERVICE_DISABLED",
                "domain": "googleapis.com",
                "metadata": {"service": service, "consumer": f"projects/{project_number}"},
            },
        ],
    )


def quota_exceeded(
    metric: str, limit: int, limit_name: str, service_metric: str, dimensions: Mapping[str, str]
) -> OperationError:
    """The NETWORKS-style quota failure inside an operation [facts google-cloud.md §2].

    Two spaces before "Limit" and the tab-indented lines are Google's.
    """
    where = dimensions.get("region")
    scope = f"in region {where}" if where else "globally"
    shown = " ".join(f"{key}:{value}" for key, value in dimensions.items())
    return OperationError(
        "QUOTA_EXCEEDED",
        f"Quota '{metric}' exceeded.  Limit: {float(limit)} {scope}.\n"
        f"\tmetric name = {service_metric}\n\tlimit name = {limit_name}\n"
        f"\tlimit = {limit}\n\tdimensions = map[{shown}]\n",
        http_status=403,
    )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
