"""Waiting for long-running operations of the three kinds of API [facts real-provider.md].

The real provider looks at once and then every 10 s. Here the pause follows the time that has
passed: a fixed share of it, from a tenth of a second up to the same 10 s. What a fast server ends
within a second would otherwise cost ten, what takes minutes is noticed with the same relative
delay, and is asked for no more often than at the real provider. `gcp:pollInterval` sets a fixed
pause, as there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .configuration import COMPUTE, CONTAINER, SERVICE_USAGE
from .errors import OperationError
from .transport import Client, Deadline

_SHORTEST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0
_SHARE_OF_ELAPSED = 0.04

Json = Mapping[str, Any]


class Poller:
    """The pauses between looks at something that takes time."""

    def __init__(self, client: Client, deadline: Deadline) -> None:
        self._fixed = client.config.poll_interval_seconds
        self._deadline = deadline
        self._started = time.monotonic()

    def wait(self) -> bool:
        """Pause before the next look; False once the time is over."""
        if self._deadline.remaining <= 0:
            return False
        self._deadline.pause(pause_after(time.monotonic() - self._started, self._fixed))
        return True


def pause_after(elapsed: float, fixed: float | None = None) -> float:
    """Return how long to wait, in seconds, when so many have passed already."""
    if fixed is not None:
        return fixed
    return min(max(elapsed * _SHARE_OF_ELAPSED, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)


def wait_compute(
    client: Client, operation: Json, project: str, activity: str, deadline: Deadline
) -> None:
    """Wait for a compute operation; where it lives follows from its own `region` or `zone`.

    Raises:
        OperationError: it failed, or did not end in time.
    """
    scope = "global"
    if operation.get("zone"):
        scope = "zones/" + str(operation["zone"]).rsplit("/", 1)[-1]
    elif operation.get("region"):
        scope = "regions/" + str(operation["region"]).rsplit("/", 1)[-1]
    path = f"projects/{project}/{scope}/operations/{operation.get('name', '')}"

    def look() -> Json:
        return client.request(COMPUTE, "GET", path, deadline=deadline)

    _wait(
        client, operation, look, activity, deadline,
        done=lambda answer: answer.get("status") == "DONE",
        failure=_compute_failure,
    )  # fmt: skip


def wait_container(
    client: Client, operation: Json, project: str, location: str, activity: str, deadline: Deadline
) -> None:
    """Wait for a GKE operation; a `statusMessage` at its end is a failure.

    Raises:
        OperationError: it failed, or did not end in time.
    """
    path = f"projects/{project}/locations/{location}/operations/{operation.get('name', '')}"

    def look() -> Json:
        return client.request(CONTAINER, "GET", path, deadline=deadline)

    _wait(
        client, operation, look, activity, deadline,
        done=lambda answer: answer.get("status") == "DONE",
        failure=lambda answer: str(answer.get("statusMessage") or ""),
    )  # fmt: skip


def wait_service_usage(client: Client, operation: Json, activity: str, deadline: Deadline) -> None:
    """Wait for a service usage operation.

    Raises:
        OperationError: it failed, or did not end in time.
    """

    def look() -> Json:
        name = str(operation.get("name", ""))
        return client.request(SERVICE_USAGE, "GET", name, deadline=deadline)

    _wait(
        client, operation, look, activity, deadline,
        done=lambda answer: bool(answer.get("done")),
        failure=_rpc_failure,
    )  # fmt: skip


def _wait(
    client: Client,
    operation: Json,
    look: Callable[[], Json],
    activity: str,
    deadline: Deadline,
    *,
    done: Callable[[Json], bool],
    failure: Callable[[Json], str],
) -> None:
    poller = Poller(client, deadline)
    answer, at_once = operation, True
    while not done(answer):
        if not at_once and not poller.wait():
            raise OperationError(
                "timeout while waiting for state to become 'done: true' "
                f"(last state: 'done: false', timeout: {go_duration(deadline.seconds)})",
                activity,
                at_once=False,
            )
        answer, at_once = look(), False
    text = failure(answer)
    if text:
        raise OperationError(text, activity, at_once=at_once)


def go_duration(seconds: float) -> str:
    """Write a duration as Go does: `1h30m0s`, `20m0s`, `45s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _compute_failure(operation: Json) -> str:
    """Return the text of a failed compute operation, with the figures of a quota [§2]."""
    errors = (operation.get("error") or {}).get("errors") or []
    return "\n".join(_compute_error(item) for item in errors).rstrip("\n")


def _compute_error(item: Json) -> str:
    text = str(item.get("message", ""))
    for detail in item.get("errorDetails") or []:
        quota = detail.get("quotaInfo")
        if quota:
            pairs = sorted((quota.get("dimensions") or {}).items())
            dimensions = " ".join(f"{key}:{value}" for key, value in pairs)
            text += (
                f"\n\tmetric name = {quota.get('metricName', '')}"
                f"\n\tlimit name = {quota.get('limitName', '')}"
                f"\n\tlimit = {quota.get('limit', '')}"
                f"\n\tdimensions = map[{dimensions}]"
            )
    return text


def _rpc_failure(operation: Json) -> str:
    error = operation.get("error")
    if not error:
        return ""
    return f"Error code {error.get('code', 0)}, message: {error.get('message', '')}"
