"""What the Pods of a run say: how far it has come, what will not mend itself, and in few words.

Owns the reading of Pod objects of the Kubernetes client. Does not own waiting (`nccl_run`) nor
causes (`gpudirect.diagnosis`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from components.nccl_run_provider import LAUNCHER_CONTAINER
from gpudirect.diagnosis.evidence import DAEMON_CONTAINERS

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"

# The kubelet tries these again for ever, and it ends the same each time.
_HOPELESS = {"ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
_PULL_FAILED = {"ErrImagePull", "ImagePullBackOff"}
# An image that a registry does not have; other failures of a pull can be of a moment.
_NO_SUCH_IMAGE = ("code = NotFound", "not found", "manifest unknown")
_PULLING = {*_PULL_FAILED, "ContainerCreating", "RegistryUnavailable"}
_LONGEST_DETAIL = 160


class Phase(StrEnum):
    """What a run waits for; each has a deadline of its own."""

    CAPACITY = "capacity"
    PULL = "pull"
    START = "start"
    RUN = "run"
    DONE = "done"


_ORDER = list(Phase)


def phase_of(pods: Sequence[Any], wanted: int) -> Phase:
    """Return how far the Pods have come, the slowest deciding."""
    state = _launcher_state(launcher(pods))
    if state is not None and state.terminated is not None:
        return Phase.DONE
    if len(pods) < wanted or not all(pod.spec.node_name for pod in pods):
        return Phase.CAPACITY
    return min((_pod_phase(pod) for pod in pods), key=_ORDER.index)


def launcher(pods: Sequence[Any]) -> Any | None:
    """Return the Pod that launches the test."""
    return next((pod for pod in pods if (pod.metadata.labels or {}).get(INDEX_LABEL) == "0"), None)


def hopeless_problem(pods: Sequence[Any]) -> str | None:
    """Return what will not mend itself however long one waits."""
    for pod in pods:
        name = pod.metadata.name
        for status in _statuses(pod):
            where = f"{name}, container {status.name}"
            waiting = status.state and status.state.waiting
            if waiting is not None and _is_hopeless(waiting):
                return f"{where}: {_short(f'{waiting.reason}: {waiting.message}')}"
            ended = status.state and status.state.terminated
            if waiting is not None and waiting.reason == "CrashLoopBackOff":
                ended = status.last_state and status.last_state.terminated
            if ended is None:
                continue
            # A receive daemon that stopped before its Pod's work is a failure whatever its exit
            # code [R04]; afterwards the kubelet stops it.
            if status.name in DAEMON_CONTAINERS:
                if not _is_over(pod):
                    return f"{where} stopped with exit code {ended.exit_code}"
            elif ended.exit_code != 0:
                return f"{where} ended with exit code {ended.exit_code}"
        if pod.status.phase == "Failed":
            return f"{name} failed: {_short(f'{pod.status.reason}: {pod.status.message}')}"
    return None


def end_problem(pods: Sequence[Any]) -> str | None:
    """Return what was wrong with how the launcher ended."""
    ended = _launcher_state(launcher(pods))
    if ended is None or ended.terminated.exit_code == 0:
        return None
    return f"the launcher ended with exit code {ended.terminated.exit_code}"


def summary(pods: Sequence[Any]) -> str:
    """Say in a few words where the Pods stand, whatever their number."""
    if not pods:
        return "no Pod"
    counts = Counter(_standing(pod) for pod in pods)
    return ", ".join(f"{text} ({count})" for text, count in sorted(counts.items()))


def _statuses(pod: Any) -> list[Any]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def _launcher_state(pod: Any | None) -> Any | None:
    if pod is None:
        return None
    return next((s.state for s in _statuses(pod) if s.name == LAUNCHER_CONTAINER), None)


def _is_over(pod: Any) -> bool:
    state = _launcher_state(pod)
    return state is not None and state.terminated is not None


def _pod_phase(pod: Any) -> Phase:
    current = next(_unfinished(pod), None)
    if current is None:
        return Phase.RUN if _statuses(pod) else Phase.PULL
    waiting = current.state and current.state.waiting
    if waiting is not None and waiting.reason in _PULLING:
        return Phase.PULL
    return Phase.START


def _unfinished(pod: Any) -> Iterator[Any]:
    """Yield the containers that are still to start, in the order in which they do."""
    for status in _statuses(pod):
        state = status.state
        runs = state is not None and state.running is not None and status.started is not False
        ended = state is not None and state.terminated is not None
        if not runs and not ended:
            yield status


def _is_hopeless(waiting: Any) -> bool:
    message = str(waiting.message or "")
    return waiting.reason in _HOPELESS or (
        waiting.reason in _PULL_FAILED and any(text in message for text in _NO_SUCH_IMAGE)
    )


def _standing(pod: Any) -> str:
    if not pod.spec.node_name:
        return "waiting for a node"
    current = next(_unfinished(pod), None)
    if current is None:
        return "running" if _statuses(pod) else "bound to a node"
    waiting = current.state and current.state.waiting
    if waiting is None:
        return f"{current.name} starting"
    return f"{current.name} {waiting.reason}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 1]}…"
