"""The ground that a benchmark stands on: a sandbox of its own in a temporary folder."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.sandbox.cloud_client import CloudClient
from tests.sandbox.harness import Done, Sandbox, clone_project

Say = Callable[[str], None]
LONGEST_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """A running sandbox with a clone of the project beside it, and its cloud."""

    box: Sandbox
    cloud: CloudClient

    def pulumi(self, *words: str) -> Done:
        """Run a command of Pulumi, which has to succeed."""
        return self.box.pulumi(*words, timeout=LONGEST_SECONDS).ok()

    def preview_seconds(self, *words: str, times: int = 5) -> float:
        """Return the median seconds of a preview that finds no change; the first is not counted."""
        command = ("preview", "--expect-no-changes", *words)
        self.pulumi(*command)
        return statistics.median(self.pulumi(*command).seconds for _ in range(times))


@contextmanager
def ground(pace: float) -> Iterator[Ground]:
    """Start a sandbox at a pace, and end it with everything in it."""
    with tempfile.TemporaryDirectory(prefix="sandbox-benchmark-") as folder:
        box = Sandbox(Path(folder))
        clone_project(box.project)
        box.sandbox("up", "--pace", str(pace)).ok()
        try:
            box.environment = json.loads(box.sandbox("env", "--json").ok().text)
            yield Ground(box=box, cloud=CloudClient(box.environment))
        finally:
            box.stop()


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory of processes in MB (10^6 bytes).

    Attributes:
        resident: What is in memory, shared pages counted for each process anew.
        proportional: The same with shared pages divided by their users: what would become free.
    """

    resident: float
    proportional: float


def memory(box: Sandbox) -> dict[str, Memory]:
    """Return the memory of a sandbox's processes by kind (server, etcd, …), `all` last."""
    found: dict[str, list[tuple[float, float]]] = {}
    for process in box.status()["processes"]:
        info = psutil.Process(process["pid"]).memory_full_info()
        found.setdefault(process["name"], []).append((info.rss / 1e6, info.pss / 1e6))
    found["all"] = [pair for pairs in found.values() for pair in pairs]
    return {
        name: Memory(
            resident=sum(pair[0] for pair in pairs), proportional=sum(pair[1] for pair in pairs)
        )
        for name, pairs in found.items()
    }
