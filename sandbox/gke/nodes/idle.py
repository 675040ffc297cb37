"""When a node is idle for long enough to be removed.

Owns the waiting times. Source: GKE removes a node after 10 minutes without use; at pace 0 that is
about a second, but nodes that hold finished Pods stay a while, because their logs go with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.gke.pods.clock import Clock
from sandbox.gke.pods.pod_spec import is_finished, owner_kind

KubeObject = dict[str, Any]
_IDLE_SECONDS = 600.0
_LEAST_IDLE_SECONDS = 1.0
_LEAST_WITH_FINISHED_SECONDS = 60.0
_LEAST_NEW_SECONDS = 15.0
"""A node is made for a Pod, which needs a moment to be bound to it."""


class IdleNodes:
    """Watches how long each node has had nothing to do."""

    def __init__(self, clock: Clock, now: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._now = now
        self._idle_since: dict[str, float] = {}
        self._seen_busy: set[str] = set()

    @property
    def waiting(self) -> bool:
        """Whether some node is idle and its time has not come."""
        return bool(self._idle_since)

    def due(
        self, nodes: Mapping[str, KubeObject], pods: Mapping[str, KubeObject], own: set[str]
    ) -> list[str]:
        """List the nodes to remove now.

        Args:
            nodes: Node objects by name.
            pods: Pods by UID.
            own: Names of the nodes that the simulation made.
        """
        now = self._now()
        finished: set[str] = set()
        busy: set[str] = set()
        for pod in pods.values():
            node = pod["spec"].get("nodeName", "")
            if node and owner_kind(pod) != "DaemonSet":
                (finished if is_finished(pod) else busy).add(node)
        self._seen_busy = (self._seen_busy | busy) & set(nodes)
        removable = []
        for name in nodes:
            if name not in own or name in busy:
                self._idle_since.pop(name, None)
                continue
            since = self._idle_since.setdefault(name, now)
            least = _LEAST_IDLE_SECONDS if name in self._seen_busy else _LEAST_NEW_SECONDS
            if name in finished:
                least = _LEAST_WITH_FINISHED_SECONDS
            if now - since >= max(_IDLE_SECONDS * self._clock.pace, least):
                removable.append(name)
        for name in set(self._idle_since) - set(nodes):
            del self._idle_since[name]
        for name in removable:
            self._idle_since.pop(name, None)
        return removable
