"""Logs of simulated containers, in the files and the format that a kubelet keeps.

Owns writing (one line per entry, `TIME STREAM F TEXT`) and where the files are. Does not own
serving them (`sandbox.gke.kwok`).
"""

from __future__ import annotations

import datetime
from pathlib import Path


def log_file(home: Path, namespace: str, pod: str, uid: str, container: str, restart: int) -> Path:
    """Return the path of one container run's log."""
    return home / "pods" / f"{namespace}_{pod}_{uid}" / container / f"{restart}.log"


def timestamp() -> str:
    """Return the time as log entries carry it."""
    now = datetime.datetime.now(datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


class ContainerLog:
    """The log of one run of a container; give its streams to the processes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        self.stdout = LogStream(self, "stdout")
        self.stderr = LogStream(self, "stderr")
        self.last_line = ""

    def write_line(self, stream: str, text: str) -> None:
        """Append one entry."""
        self.last_line = text
        if not self._file.closed:
            self._file.write(f"{timestamp()} {stream} F {text}\n")
            self._file.flush()

    def close(self) -> None:
        """Write what has no line end yet, and close the file."""
        self.stdout.finish()
        self.stderr.finish()
        self._file.close()


class LogStream:
    """One stream of a container's log; a `Writer`."""

    def __init__(self, log: ContainerLog, name: str) -> None:
        self._log = log
        self._name = name
        self._rest = ""

    async def write(self, text: str) -> None:
        """Take text and log the lines that are complete."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._log.write_line(self._name, line)

    def finish(self) -> None:
        """Log an unfinished line."""
        if self._rest:
            self._log.write_line(self._name, self._rest)
            self._rest = ""
