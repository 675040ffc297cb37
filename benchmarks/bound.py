"""The longest chain of operations that the API itself imposes: no client can be faster.

Computed from the cloud's operation log (`/sandbox/v1/operations`), and from nothing that a client
does: which operation waits for which follows from what the resources refer to, how long each takes
from the log. Everything that no reference orders is taken to run side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Any

Entry = Mapping[str, Any]
"""One operation as the log has it; times are Unix seconds."""

_SERVICES = {"compute": "compute.googleapis.com", "container": "container.googleapis.com"}
_MAKING = (".insert", ".create", ".enable")


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """An operation, how long it took, and the operations (by name) that have to end before it."""

    name: str
    action: str
    target: str
    seconds: float
    after: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Chain:
    """Operations of which each waits for the one before it."""

    operations: tuple[Operation, ...]

    @property
    def seconds(self) -> float:
        """How long the chain takes if nothing is lost between its operations."""
        return sum(operation.seconds for operation in self.operations)

    def describe(self) -> str:
        """Return the chain as one line: action, last word of the target, seconds."""
        return " -> ".join(
            f"{operation.action} {operation.target.rpartition('/')[2]} ({operation.seconds:.1f} s)"
            for operation in self.operations
        )


def creation(log: Iterable[Entry], since: float) -> list[Operation]:
    """Return what made things, each after what made the things that it refers to.

    An API has to be on before its first call; `default`, the network that a cluster may live in,
    comes with the Compute API.

    Args:
        log: The cloud's operation log.
        since: Unix time; what was asked for earlier is there already and costs nothing.
    """
    entries = [
        entry
        for entry in _succeeded(log)
        if entry["requested"] >= since and entry["action"].endswith(_MAKING)
    ]
    made_by = {entry["target"]: entry["name"] for entry in entries}
    operations = []
    for entry in entries:
        needs = set(entry["requires"])
        if entry["api"] in _SERVICES:
            needs.add(f"projects/{entry['project']}/services/{_SERVICES[entry['api']]}")
        after = frozenset(made_by[target] for target in needs if target in made_by)
        operations.append(_operation(entry, after))
    return operations


def deletion(
    log: Sequence[Entry], since: float, held: Mapping[str, Set[str]] | None = None
) -> list[Operation]:
    """Return what deleted things, each after what deleted the things that referred to it.

    Args:
        log: The cloud's operation log, from the creation of the resources on.
        since: Unix time; earlier deletions are over.
        held: Target path of a cluster -> target paths of the networks and subnetworks in which its
            nodes hold NICs when the deletion begins.
    """
    done = _succeeded(log)
    entries = [
        entry
        for entry in done
        if entry["requested"] >= since and entry["action"].endswith(".delete")
    ]
    users: dict[str, set[str]] = {}
    for entry in done:
        for target in entry["requires"] if entry["action"].endswith(_MAKING) else ():
            users.setdefault(target, set()).add(entry["target"])
    for cluster, targets in (held or {}).items():
        for target in targets:
            users.setdefault(target, set()).add(cluster)
    deleted_by = {entry["target"]: entry["name"] for entry in entries}
    return [
        _operation(
            entry,
            frozenset(
                deleted_by[user]
                for user in users.get(entry["target"], ())
                if user in deleted_by and user != entry["target"]
            ),
        )
        for entry in entries
    ]


def longest(operations: Iterable[Operation]) -> Chain:
    """Return the chain that takes longest; an empty one of no operations."""
    by_name = {operation.name: operation for operation in operations}

    @cache
    def ending_with(name: str) -> Chain:
        operation = by_name[name]
        before = max(
            (ending_with(other) for other in sorted(operation.after)),
            key=lambda chain: chain.seconds,
            default=Chain(operations=()),
        )
        return Chain(operations=(*before.operations, operation))

    return max(
        (ending_with(name) for name in by_name),
        key=lambda chain: chain.seconds,
        default=Chain(operations=()),
    )


def holdings(instances: Iterable[Entry], clusters: Mapping[str, str]) -> dict[str, set[str]]:
    """Return which networks and subnetworks the nodes of each cluster hold NICs in.

    Args:
        instances: Nodes as Compute shows them.
        clusters: Name of a cluster -> its target path.
    """
    held: dict[str, set[str]] = {}
    for instance in instances:
        cluster = clusters.get(instance.get("labels", {}).get("goog-k8s-cluster-name", ""))
        if cluster is None:
            continue
        for nic in instance.get("networkInterfaces", ()):
            for key in ("network", "subnetwork"):
                if nic.get(key):
                    held.setdefault(cluster, set()).add(_path(nic[key]))
    return held


def _path(link: str) -> str:
    """Return the path that the log uses for what a link names."""
    return "projects/" + link.rpartition("projects/")[2]


def _succeeded(log: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in log if entry["ended"] and not entry["error"]]


def _operation(entry: Entry, after: frozenset[str]) -> Operation:
    return Operation(
        name=entry["name"],
        action=entry["action"],
        target=entry["target"],
        seconds=entry["ended"] - entry["requested"],
        after=after,
    )
