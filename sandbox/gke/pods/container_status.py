"""What a Pod's status says about each container, and what follows for the Pod.

Owns the states of one container and the way from them to phase and conditions. Source: the
kubelet's own rules (pkg/kubelet: getPhase, status generation).
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

KubeObject = dict[str, Any]


def now() -> str:
    """Return the time as API objects carry it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(kw_only=True, slots=True)
class ContainerStatus:
    """One container's status, changed in place while it lives."""

    name: str
    image: str
    sidecar: bool = False
    init: bool = False
    state: KubeObject = field(default_factory=dict)
    last_state: KubeObject = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    restarts: int = 0
    image_id: str = ""
    container_id: str = ""

    def wait(self, reason: str, message: str = "") -> None:
        """Set the state to waiting."""
        waiting = {"reason": reason} | ({"message": message} if message else {})
        self.state = {"waiting": waiting}
        self.ready = self.started = False

    def run(self, container_id: str) -> None:
        """Set the state to running."""
        self.container_id = container_id
        self.state = {"running": {"startedAt": now()}}

    def end(self, exit_code: int, reason: str = "", message: str = "") -> None:
        """Set the state to terminated."""
        started = (self.state.get("running") or {}).get("startedAt") or now()
        terminated: KubeObject = {
            "exitCode": exit_code,
            "reason": reason or ("Completed" if exit_code == 0 else "Error"),
            "startedAt": started,
            "finishedAt": now(),
            "containerID": self.container_id,
        }
        if message:
            terminated["message"] = message
        self.state = {"terminated": terminated}
        # A finished init container counts as ready, as the kubelet reports it.
        self.ready = self.init and not self.sidecar and exit_code == 0
        self.started = False

    def restart(self) -> None:
        """Remember how it ended and count the next start."""
        self.last_state = self.state
        self.restarts += 1

    @property
    def exit_code(self) -> int | None:
        """Exit code of a terminated container."""
        terminated = self.state.get("terminated")
        return None if terminated is None else int(terminated["exitCode"])

    @property
    def is_running(self) -> bool:
        """Whether it runs now."""
        return "running" in self.state

    def as_object(self) -> KubeObject:
        """Return the entry in the Pod's status."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image_id,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
        } | ({"containerID": self.container_id} if self.container_id else {})


def phase_of(policy: str, init: Sequence[ContainerStatus], main: Sequence[ContainerStatus]) -> str:
    """Work out a Pod's phase from its restart policy and its containers."""
    begun = any(item.is_running or item.exit_code is not None or item.last_state for item in main)
    for status in init:
        if status.sidecar:
            # A sidecar that fails holds the others up only before they began.
            if not status.started and not begun:
                return "Pending"
            continue
        if status.exit_code is None:
            return "Pending"
        if status.exit_code:
            return "Failed" if policy == "Never" else "Pending"
    if any(item.is_running for item in main):
        return "Running"
    codes = [item.exit_code for item in main]
    if all(code is not None for code in codes):
        if policy == "Always":
            return "Running"
        if all(code == 0 for code in codes):
            return "Succeeded"
        return "Failed" if policy == "Never" else "Running"
    return "Running" if begun else "Pending"


def conditions_of(
    phase: str,
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    *,
    sandbox_ready: bool,
    before: Sequence[KubeObject],
) -> list[KubeObject]:
    """Work out the Pod's conditions; those of other writers stay as they are."""
    initialized = all(
        item.started or item.exit_code == 0 if item.sidecar else item.exit_code == 0
        for item in init
    )
    unready = [item.name for item in main if not item.ready]
    unready += [item.name for item in init if item.sidecar and not item.ready]
    completed = phase == "Succeeded"
    not_ready = {
        "status": "False",
        "reason": "PodCompleted" if completed else "ContainersNotReady",
        "message": "" if completed else f"containers with unready status: [{' '.join(unready)}]",
    }
    incomplete = [item.name for item in init if not (item.started or item.exit_code == 0)]
    wanted: dict[str, KubeObject] = {
        "PodReadyToStartContainers": {"status": str(sandbox_ready)},
        "Initialized": {"status": "True"}
        if initialized or completed
        else {
            "status": "False",
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(incomplete)}]",
        },
    }
    ready = not unready and phase == "Running"
    for name in ("Ready", "ContainersReady"):
        wanted[name] = {"status": "True"} if ready else dict(not_ready)
    if completed:
        wanted["Initialized"]["reason"] = "PodCompleted"
    known = {item["type"]: item for item in before}
    conditions = [item for item in before if item["type"] not in wanted]
    for name, condition in wanted.items():
        old = known.get(name, {})
        changed = old.get("status") != condition["status"]
        stamp = now() if changed or "lastTransitionTime" not in old else old["lastTransitionTime"]
        conditions.append(
            {"type": name, "lastTransitionTime": stamp}
            | {key: value for key, value in condition.items() if value}
        )
    return conditions
