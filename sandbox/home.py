"""The sandbox's folder: where everything lies, and which server runs on it.

Owns the layout of the folder, its token and the record of the running server. Does not own what the
server keeps in it (`sandbox.cloud.store`, `sandbox.gke.runtime`).
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

PROJECT_FOLDER = Path(__file__).resolve().parent.parent
DEFAULT_HOME = PROJECT_FOLDER / ".sandbox"


class HomeError(RuntimeError):
    """The folder cannot be used; the text says why and how to go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRecord:
    """The server that was started last.

    Attributes:
        pid: Its process.
        created: When the process began, as the system tells it: a reused pid has another value.
        port: Where it answers on loopback.
        pace: 0 = at once, 1 = Google's usual times.
    """

    pid: int
    created: float
    port: int
    pace: float

    def process(self) -> psutil.Process | None:
        """Return the process, or None if it has ended, whoever has its number now."""
        try:
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.created) > 1:
                return None
            return None if process.status() == psutil.STATUS_ZOMBIE else process
        except psutil.NoSuchProcess:
            return None


@dataclass(frozen=True, slots=True)
class Home:
    """One sandbox's folder."""

    root: Path

    @property
    def bin(self) -> Path:
        """Programs: the toolchain and the launchers of the plug-ins."""
        return self.root / "bin"

    @property
    def database(self) -> Path:
        """The stand-in cloud's state."""
        return self.root / "cloud.db"

    @property
    def log(self) -> Path:
        """What the server prints."""
        return self.root / "server.log"

    @property
    def _record(self) -> Path:
        return self.root / "server.json"

    def prepare(self) -> None:
        """Make the folders.

        Raises:
            HomeError: they cannot be made or written.
        """
        try:
            for folder in ("bin", "pulumi", "pulumi-home", "gcloud"):
                (self.root / folder).mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
        except OSError as error:
            raise HomeError(
                f"{self.root}: {error.strerror}; choose another folder with --home"
            ) from error

    def token(self) -> str:
        """Return the token of the sandbox's user; made once, readable by its owner only."""
        path = self.root / "token"
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32))
        return path.read_text()

    def record(self) -> ServerRecord | None:
        """Return the record of the last server, whether it still runs or not."""
        try:
            data: dict[str, Any] = json.loads(self._record.read_text())
            return ServerRecord(**data)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            # Half a record, as a full disk leaves it, names nobody.
            return None

    def running(self) -> ServerRecord | None:
        """Return the record of the server if its process lives."""
        record = self.record()
        return record if record is not None and record.process() is not None else None

    def write_record(self, record: ServerRecord) -> None:
        """Keep the record of a server that has just started."""
        temporary = self._record.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(record)))
        temporary.replace(self._record)
