"""Nodes that were made for Pods and that no Pod has taken yet.

Owns the question whether a waiting Pod needs another node. The scheduler puts Pods where there is
room, not where a node was made for them: of two alike, one may take the other's node. Does not own
the nodes themselves (`provisioner`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sandbox.gke.nodes.demand import Demand

_STALE_SECONDS = 20.0
"""For how long a node that is up counts as about to be taken."""


@dataclass(slots=True)
class _Coming:
    demands: Sequence[Demand]
    up_since: float | None = None


class ComingNodes:
    """The nodes that count when a Pod waits, by name."""

    def __init__(
        self, is_taken: Callable[[str], bool], now: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare.

        Args:
            is_taken: Whether a Pod has a node for itself already.
            now: Seconds of a clock that never goes back.
        """
        self._is_taken = is_taken
        self._now = now
        self._nodes: dict[str, _Coming] = {}

    def made(self, name: str, demands: Sequence[Demand]) -> None:
        """Take note of a node that is being made."""
        self._nodes[name] = _Coming(demands)

    def came_up(self, name: str) -> None:
        """Take note that its Node object exists: from now on a Pod can take it."""
        if name in self._nodes:
            self._nodes[name].up_since = self._now()

    def gone(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)

    def may_take(self, name: str) -> bool:
        """Whether a node comes, or is up and is not taken."""
        found = self._nodes.get(name)
        if found is None:
            return False
        if found.up_since is None:
            return True
        return self._now() - found.up_since < _STALE_SECONDS and not self._is_taken(name)

    def free_for(self, demands: Sequence[Demand], claimed: Collection[str]) -> str | None:
        """Return a node that was made for the same demands and that no waiting Pod counts on."""
        return next(
            (
                name
                for name, node in self._nodes.items()
                if name not in claimed and node.demands == demands and self.may_take(name)
            ),
            None,
        )
