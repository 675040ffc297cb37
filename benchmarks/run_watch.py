"""How long the smoke test's Pods live: what the cluster needs, whoever waits for it.

Nodes, images, the installer and the collective itself take their time in the cluster; a watch
beside `pulumi up` sees when the run's first Pod appears and when the last one has ended.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.ground import Ground

_LINE = '{.object.metadata.uid} {.object.status.phase}{"\\n"}'
_OF_JOBS = "batch.kubernetes.io/job-name"
_RETRY_SECONDS = 0.2


class RunWatch:
    """Watches the Pods of Jobs in the only cluster of a sandbox, as soon as there is one."""

    def __init__(self, at: Ground) -> None:
        self._at = at
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._appeared: float | None = None
        self._ended: dict[str, float | None] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch in a thread of its own."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            if self._process is not None:
                self._process.terminate()
            thread.join()

    @property
    def seconds(self) -> float:
        """Seconds from the first Pod to the end of the last one; 0 if none has ended."""
        ends = [end for end in self._ended.values() if end is not None]
        return max(ends) - self._appeared if ends and self._appeared is not None else 0.0

    def _run(self) -> None:
        while not self._stopped.wait(_RETRY_SECONDS):
            running = [c for c in self._at.cloud.clusters() if c["status"] == "RUNNING"]
            if running:
                self._follow(running[0]["context"])

    def _follow(self, context: str) -> None:
        command = ("kubectl", "--context", context, "get", "pods", "-A", "-l", _OF_JOBS)
        with self._at.box.popen(
            *command, "--watch", "--output-watch-events", "-o", f"jsonpath={_LINE}"
        ) as self._process:
            if self._stopped.is_set():
                self._process.terminate()
            for line in self._process.stdout or ():
                self._note(line.split())

    def _note(self, words: list[str]) -> None:
        if len(words) != 2:
            return
        uid, phase = words
        self._appeared = self._appeared or time.time()
        self._ended.setdefault(uid, None)
        if phase in ("Succeeded", "Failed") and self._ended[uid] is None:
            self._ended[uid] = time.time()
