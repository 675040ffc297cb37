"""What the status of the addons and of the network objects really says.

Owns the honest reading of statuses that look ready and prove nothing: a DaemonSet without a node, a
`Network` without a condition. Does not own the rules that make causes of them (`cluster_rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpudirect.diagnosis.evidence import KubeObject, addon_of, conditions_of, name_of


def installer_status(daemonset: KubeObject | None) -> str:
    """Say in a few words whether an installer has done its work.

    A DaemonSet that wants no Pod counts as ready everywhere; on Autopilot it only means that there
    is no GPU node yet [R32].
    """
    if daemonset is None:
        return "not installed: the DaemonSet does not exist"
    status = daemonset.get("status") or {}
    metadata = daemonset.get("metadata") or {}
    generation = int(metadata.get("generation") or daemonset.get("generation") or 0)
    if int(status.get("observedGeneration") or 0) < generation:
        return "waiting"
    wanted = int(status.get("desiredNumberScheduled") or 0)
    if wanted == 0:
        return "not installed yet: no GPU node"
    ready = min(int(status.get("numberReady") or 0), int(status.get("updatedNumberScheduled") or 0))
    if ready < wanted:
        return "waiting"
    return f"installed on {ready} node{'s' if ready > 1 else ''}"


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkReadiness:
    """Which GPU networks of a cluster can be used.

    Attributes:
        ready: Names of the networks that are ready.
        missing: Expected names that no Network object has.
        not_ready: Name -> reason, for objects that are there and not ready.
    """

    ready: tuple[str, ...]
    missing: tuple[str, ...]
    not_ready: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        """Whether every network can be used."""
        return bool(self.ready) and not self.missing and not self.not_ready

    def __str__(self) -> str:
        """Describe it in one line."""
        expected = len(self.ready) + len(self.missing) + len(self.not_ready)
        if self.is_ready:
            return f"ready: {len(self.ready)} of {expected}"
        if expected == 0:
            return "not ready: no GPU network"
        bad = [*self.missing, *self.not_ready]
        return f"not ready: {', '.join(sorted(bad))}; {len(self.ready)} of {expected}"


def network_readiness(
    items: Iterable[KubeObject], expected: Sequence[str] = ()
) -> NetworkReadiness:
    """Say which GPU networks are ready.

    Args:
        items: Network objects; those that are no device networks, `default` among them, are not
            counted.
        expected: Names that must be there; without it, every device network found.
    """
    devices = {name_of(item): item for item in items if _is_device(item)}
    names = list(expected) or sorted(devices)
    missing = tuple(name for name in names if name not in devices)
    not_ready = {
        name: reason
        for name in names
        if name in devices and (reason := not_ready_reason(devices[name])) is not None
    }
    ready = tuple(name for name in names if name in devices and name not in not_ready)
    return NetworkReadiness(ready=ready, missing=missing, not_ready=not_ready)


def not_ready_reason(item: KubeObject) -> str | None:
    """Return why a network object is not ready, None if it is."""
    conditions = conditions_of(item)
    for kind in ("ParamsReady", "Ready"):
        condition = conditions.get(kind)
        if condition is not None and condition.get("status") != "True":
            reason, message = condition.get("reason"), condition.get("message")
            return (
                ": ".join(str(part) for part in (reason, message) if part) or f"{kind} is not True"
            )
    if "Ready" not in conditions:
        return "it has no Ready condition yet"
    return None


def nodes_without_installer(pods: Iterable[KubeObject], nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes on which no installer has finished, in the order given.

    An installer has finished on a node when its Pod there is ready: its init containers, which do
    the work, have ended with success.
    """
    done = set()
    for pod in pods:
        addon = addon_of(pod)
        if addon is None or "installer" not in addon:
            continue
        ready = conditions_of(pod).get("Ready")
        if ready is not None and ready.get("status") == "True":
            done.add(str((pod.get("spec") or {}).get("nodeName")))
    return tuple(node for node in nodes if node not in done)


def _is_device(item: KubeObject) -> bool:
    return (item.get("spec") or {}).get("type") == "Device"
