"""The sandbox's folder: where everything is, and what must survive between commands.

Owns: the layout, its version, the secrets of one sandbox, and the record of its server. Does not
own what other parts keep below it (`sandbox.cloud`: the database, `sandbox.gke`: `clusters/`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.errors import SandboxError

MARKER = ".made-by-the-sandbox"
"""A file of this name lies in every folder of programs that a sandbox made."""
LAYOUT_VERSION = 1
PROJECT_FOLDER = Path(__file__).resolve().parents[1]
DEFAULT_HOME = PROJECT_FOLDER / ".sandbox"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a sandbox keeps as long as it exists."""

    port: int
    pace: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRecord:
    """The server that runs, or that ended without saying so.

    Attributes:
        pid: Its process id, which may belong to another process by now.
        create_time: When it started (Unix time): together with the pid it names one process.
    """

    pid: int
    create_time: float


@dataclass(frozen=True, slots=True)
class Home:
    """Paths in one sandbox's folder, and what is read from and written to it."""

    root: Path

    @property
    def programs(self) -> Path:
        """What goes first on PATH."""
        return self.root / "bin"

    @property
    def database(self) -> Path:
        """The cloud's state."""
        return self.root / "cloud.db"

    @property
    def clusters(self) -> Path:
        """One folder per cluster."""
        return self.root / "clusters"

    @property
    def kubeconfig(self) -> Path:
        """The users' kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def pulumi_state(self) -> Path:
        """The stacks' state: Pulumi's file backend."""
        return self.root / "pulumi"

    @property
    def pulumi_home(self) -> Path:
        """Pulumi's own folder: selected stacks, plug-ins, logs."""
        return self.root / "pulumi-home"

    @property
    def stack_files(self) -> Path:
        """Stack files with the salt that must not get into those of the project."""
        return self.root / "stack-files"

    @property
    def gcloud_config(self) -> Path:
        """The gcloud CLI's own folder."""
        return self.root / "gcloud"

    @property
    def server_log(self) -> Path:
        """What the server has to say."""
        return self.root / "server.log"

    @property
    def _version(self) -> Path:
        return self.root / "layout-version"

    @property
    def _settings(self) -> Path:
        return self.root / "settings.json"

    @property
    def _server(self) -> Path:
        return self.root / "server.json"

    @property
    def exists(self) -> bool:
        """Whether a sandbox was ever started here."""
        return self._version.exists()

    def prepare(self) -> None:
        """Make the folder if it is new; refuse one that this version cannot work with.

        Raises:
            SandboxError: it cannot be written, it is somebody else's, or another version made it.
        """
        self._refuse_others_folder()
        try:
            for folder in (self.root, self.programs, self.pulumi_state, self.pulumi_home):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._version.exists():
                write_private(self._version, f"{LAYOUT_VERSION}\n")
        except OSError as error:
            raise SandboxError(
                f"{error.filename or self.root} cannot be written: {error.strerror}. Name another "
                "folder with --home, or change its owner or mode."
            ) from error
        self.check_version()

    def _refuse_others_folder(self) -> None:
        if self.exists or not self.root.is_dir():
            return
        # What `reset` leaves behind is no obstacle.
        foreign = sorted({path.name for path in self.root.iterdir()} - {"bin", ".lock"})
        if self.programs.is_dir() and not (self.programs / MARKER).exists():
            foreign += [f"bin/{path.name}" for path in sorted(self.programs.iterdir())]
        if foreign:
            raise SandboxError(
                f"{self.root} was not made by the sandbox: it holds {', '.join(foreign[:5])}"
                f"{' and more' if len(foreign) > 5 else ''}. Name a new or an empty folder with "
                "--home."
            )

    def check_version(self) -> None:
        """Refuse a folder of another version.

        Raises:
            SandboxError: the text says how to go on.
        """
        try:
            text = self._version.read_text().strip()
        except FileNotFoundError:
            return
        if text != str(LAYOUT_VERSION):
            newer = text.isdecimal() and int(text) > LAYOUT_VERSION
            raise SandboxError(
                f"{self.root} was made by {'a newer' if newer else 'another'} version of the "
                f"sandbox (layout {text!r}, this one works with {LAYOUT_VERSION}). Nothing was "
                "changed in it. Go on with the version that made it, name another folder with "
                "--home, or give up what it holds with `python -m sandbox reset`."
            )

    def token(self) -> str:
        """Return the bearer token of this sandbox's user, made at first use."""
        return self._secret("token")

    def passphrase(self) -> str:
        """Return the passphrase that protects the stacks' secrets, made at first use."""
        return self._secret("passphrase")

    def _secret(self, name: str) -> str:
        path = self.root / name
        with contextlib.suppress(FileNotFoundError):
            if text := path.read_text().strip():
                return text
        write_private(path, secrets.token_urlsafe(32))
        return path.read_text().strip()

    def settings(self) -> Settings | None:
        """Return what `up` has chosen before, or None."""
        content = _read_json(self._settings, "port", "pace")
        return None if content is None else Settings(**content)

    def write_settings(self, settings: Settings) -> None:
        """Keep what `up` has chosen."""
        write_private(self._settings, json.dumps(asdict(settings)) + "\n")

    def server(self) -> ServerRecord | None:
        """Return the record of the server, or None if none runs or ended unnoticed."""
        content = _read_json(self._server, "pid", "create_time")
        return None if content is None else ServerRecord(**content)

    def write_server(self, record: ServerRecord) -> None:
        """Write down which process the server is."""
        write_private(self._server, json.dumps(asdict(record)) + "\n")

    def forget_server(self) -> None:
        """Write down that no server runs."""
        self._server.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep two commands from starting or stopping the same sandbox at once."""
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; a reader sees the old or the new content."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    unfinished.replace(path)


def _read_json(path: Path, *keys: str) -> dict[str, Any] | None:
    """Return the content of a file that this module writes, or None if it is not there.

    Raises:
        SandboxError: it was damaged.
    """
    try:
        content = json.loads(path.read_text())
        return {key: content[key] for key in keys}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxError(
            f"{path} is damaged ({error!r}, expected {' and '.join(keys)}). It holds nothing that "
            "cannot be found anew: remove the file and run the same command again."
        ) from error
