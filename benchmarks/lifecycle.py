"""How long an environment's life takes in the sandbox, and which part takes it.

At pace 0: wall seconds of each step for both stacks, and the CPU seconds that each part of the
machinery has used in it. Works in a clone and a sandbox of its own, in a temporary folder.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.figures import Result
from benchmarks.ground import Say
from tests.sandbox.harness import Sandbox

STACKS = ("dev", "staging")
AIMS = {"sandbox start": 3.0, "dev up": 25.0, "dev preview": 2.0, "dev destroy": 6.0}
"""Wall seconds on two cores with nothing else to do."""
PARTS = {
    "pulumi_language_python": "program",
    "pulumi_resource_gcp": "gcp",
    "pulumi-resource-kubernetes": "k8s",
    "pulumi_python_dynamic": "test",
    "sandbox.server": "server",
    "kube-": "cluster",
    "etcd": "cluster",
    "kwok": "cluster",
    "pulumi": "engine",
}
"""Word in a command line -> part, the first that fits: the user's program in its language host, the
stand-in gcp plug-in, the real Kubernetes plug-in, the provider that runs the smoke test, the
sandbox's server, the processes of the clusters, the Pulumi CLI with its engine."""
_SAMPLE_SECONDS = 0.1
_SETTLED_SECONDS = 3.0


@dataclass
class Step:
    """One step's figures."""

    name: str
    wall_seconds: float = 0.0
    cpu_seconds: dict[str, float] = field(default_factory=dict)


def _no_seconds() -> defaultdict[str, float]:
    return defaultdict(float)


class Sampler:
    """Watches which processes use the CPU, as far as they belong to the sandbox or its clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._stop = threading.Event()
        self._used: defaultdict[str, defaultdict[str, float]] = defaultdict(_no_seconds)
        self._seen: dict[tuple[int, float], float] = {}
        self._parts: dict[tuple[int, float], str | None] = {}
        self._step = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sample in a thread of its own."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def begin(self, step: str) -> None:
        """Count for a step from now on."""
        self._step = step

    def cpu_seconds(self, step: str) -> dict[str, float]:
        """Return what each part has used in a step."""
        return {part: round(seconds, 2) for part, seconds in self._used[step].items()}

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            for process in psutil.process_iter():
                self._sample(process)

    def _sample(self, process: psutil.Process) -> None:
        try:
            key = (process.pid, process.create_time())
            if key not in self._parts:
                part = self._part(process)
                # A launcher becomes another program within moments.
                if part is not None or time.time() - key[1] > _SETTLED_SECONDS:
                    self._parts[key] = part
            part = self._parts.get(key)
            if part is None:
                return
            times = process.cpu_times()
        except psutil.Error:
            return
        used = times.user + times.system
        self._used[self._step][part] += used - self._seen.get(key, 0.0)
        self._seen[key] = used

    def _part(self, process: psutil.Process) -> str | None:
        words = " ".join(process.cmdline())
        environ = process.environ() if "pulumi" in words else {}
        ours = self._folder in words or self._folder in environ.get("PULUMI_HOME", "")
        if not ours or "sandbox.try_it" in words:
            return None
        return next((part for word, part in PARTS.items() if word in words), None)


def measure(say: Say) -> Result:
    """Live through both stacks' lives and return the figures."""
    with tempfile.TemporaryDirectory(prefix="sandbox-benchmark-") as folder:
        steps = _run(Path(folder), say)
    result = Result(name="life")
    for step in steps:
        result.add(step.name, step.wall_seconds, aim=AIMS.get(step.name))
        shares = ", ".join(f"{part} {seconds:.1f}" for part, seconds in step.cpu_seconds.items())
        result.notes.append(f"{step.name}, CPU seconds: {shares}")
    return result


def _run(folder: Path, say: Say) -> list[Step]:
    steps: list[Step] = []
    sandbox = Sandbox(folder)
    sampler = Sampler(folder)

    @contextmanager
    def step(name: str) -> Iterator[None]:
        say(name)
        sampler.begin(name)
        started = time.monotonic()
        yield
        steps.append(Step(name, round(time.monotonic() - started, 2)))
        sampler.begin("between steps")

    sandbox.start()
    sandbox.stop()
    with sampler.watching():
        with step("sandbox start"):
            sandbox.sandbox("up").ok()
        try:
            for stack in STACKS:
                sandbox.pulumi("stack", "init", stack).ok()
                with step(f"{stack} up"):
                    sandbox.up(stack).ok()
                with step(f"{stack} preview"):
                    sandbox.pulumi("preview", "--expect-no-changes", "--stack", stack).ok()
            for stack in STACKS:
                with step(f"{stack} destroy"):
                    sandbox.destroy(stack).ok()
        finally:
            sandbox.stop()
    for done in steps:
        done.cpu_seconds = sampler.cpu_seconds(done.name)
    return steps
