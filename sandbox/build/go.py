"""Runs the Go command.

Owns: finding it, running it so that an interruption ends it with all its compilers, and passing on
what it is doing. Does not own what is built (`parts.py`) or where it goes (`builder.py`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.build.errors import BuildError, explain

Watch = Callable[[str], None]
"""Is told each line that Go prints to standard error, while it runs."""

_END_SECONDS = 10


class Go:
    """The Go command of this machine."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Find it.

        Raises:
            BuildError: there is none on PATH.
        """
        self._environ = dict(environ)
        # A go.work or a vendor mode of the user's would resolve other versions.
        self._environ["GOWORK"] = "off"
        found = shutil.which("go", path=environ.get("PATH", ""))
        if found is None:
            raise BuildError(
                "Go was not found on PATH, and the toolchain is not built yet. Install Go 1.26 or "
                "newer (https://go.dev/dl/) and run the same command again. Go is needed once per "
                "machine: what it builds is kept."
            )
        self._program = found

    def build(
        self, what: str, folder: Path, package: str, flags: str, target: Path, watch: Watch
    ) -> None:
        """Build one program.

        Args:
            what: Its name in messages.
            folder: The module's folder.
            package: Import path of its main package.
            flags: Value of `-ldflags`.
            target: The file to write.
            watch: Is told each line: packages as they are compiled, modules as they are fetched.

        Raises:
            BuildError: it could not be built.
        """
        arguments = [
            "build",
            "-v",
            "-mod=readonly",
            f"-ldflags={flags}",
            "-o",
            str(target),
            package,
        ]
        self._run(what, folder, arguments, watch)

    def package_count(self, what: str, folder: Path, package: str, watch: Watch) -> int:
        """Fetch what a program is made of, and return of how many packages."""
        arguments = ["list", "-mod=readonly", "-deps", package]
        return len(self._run(what, folder, arguments, watch).splitlines())

    def module_folder(self, what: str, folder: Path, module: str, watch: Watch) -> Path:
        """Return where a required module's files are, fetched if they were not here yet."""
        self._run(what, folder, ["mod", "download", module], watch)
        arguments = ["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]
        return Path(self._run(what, folder, arguments, watch).strip())

    def _run(self, what: str, folder: Path, arguments: Sequence[str], watch: Watch) -> str:
        command = [self._program, *arguments]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # Its own group: an interruption of ours must reach the compilers that it started.
            start_new_session=True,
        )
        try:
            return _collect(what, command, process, watch)
        except BaseException:
            # Before its streams are closed: a thread reads one of them until Go has ended.
            _end(process)
            raise


def _collect(
    what: str, command: Sequence[str], process: subprocess.Popen[str], watch: Watch
) -> str:
    if process.stdout is None or process.stderr is None:
        raise ValueError("both streams of Go must be pipes")
    errors = process.stderr
    printed: list[str] = []

    def read_errors() -> None:
        with errors:
            for line in errors:
                printed.append(line.rstrip())
                watch(printed[-1])

    reader = threading.Thread(target=read_errors, daemon=True)
    reader.start()
    with process.stdout as stdout:
        output = stdout.read()
    reader.join()
    code = process.wait()
    if code != 0:
        raise explain(what, ["go", *command[1:]], code, printed)
    return output


def _end(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_END_SECONDS)
            return
