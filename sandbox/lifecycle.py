"""Starting and stopping one sandbox.

Owns: `up`, `down` and `reset`, and what they do when things are not as they were left: a port taken
meanwhile, a server that was killed, a binary that is gone, state of another version. Nothing here
throws away what a user has made, except `reset`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sandbox import launchers, processes
from sandbox.build import builder, existing
from sandbox.errors import SandboxError
from sandbox.home import PROJECT_FOLDER, Home, ServerRecord, Settings

Say = Callable[[str], None]
"""Prints one line for the user."""

_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOG_LINES = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """A server that answers."""

    pid: int
    port: int
    pace: float
    started: bool
    """Whether it was started just now."""


def build(home: Home, environ: Mapping[str, str], say: Say) -> None:
    """Build what is missing of the toolchain and put everything into the sandbox's folder.

    Raises:
        SandboxError: something could not be built, or the folder cannot be written.
    """
    found = existing.find(environ, launchers.provider_versions())
    for remark in found.remarks:
        say(remark)
    cache = builder.cache_folder(environ)
    have = builder.build(cache, environ, skip=found.programs.keys())
    launchers.install(home, {**have, **found.programs})


def up(
    home: Home, environ: Mapping[str, str], say: Say, *, pace: float | None, port: int | None
) -> Running:
    """Start the sandbox, or find it running.

    Args:
        home: The sandbox.
        environ: The environment of the caller.
        say: Prints remarks.
        pace: 0 = operations end at once, 1 = Google's usual times; None = as before, at first 0.
        port: Where the cloud shall answer; None = as before, at first any free port.

    Raises:
        SandboxError: it cannot be started; the text says why and how to go on.
    """
    home.prepare()
    with home.locked():
        build(home, environ, say)
        process = processes.find(home.server())
        if process is not None:
            return _running(home, process, pace, port)
        if home.server() is not None:
            say("The server of last time ended without `down`; what it held is taken up again.")
            home.forget_server()
        before = home.settings()
        # Held from here on and handed to the server: nobody can take the port in between.
        with _listener(home, before, port) as listener:
            settings = Settings(
                port=listener.getsockname()[1],
                pace=pace if pace is not None else (before.pace if before else 0),
            )
            home.write_settings(settings)
            if home.clusters.is_dir() and any(home.clusters.iterdir()):
                say("The clusters of last time come up again first.")
            process = _start(home, settings, listener, environ)
        _wait_until_ready(home, settings.port, process)
        return Running(pid=process.pid, port=settings.port, pace=settings.pace, started=True)


def _running(home: Home, process: psutil.Process, pace: float | None, port: int | None) -> Running:
    settings = home.settings()
    if settings is None:
        raise SandboxError(
            f"A server runs (pid {process.pid}), but {home.root} does not say where it answers. "
            "End it with `python -m sandbox down` and start it again."
        )
    for name, asked, has in (("port", port, settings.port), ("pace", pace, settings.pace)):
        if asked is not None and asked != has:
            raise SandboxError(
                f"The sandbox in {home.root} runs with {name} {has}, and {asked} was asked for. "
                "Stop it first: `python -m sandbox down`. Nothing is lost by that."
            )
    try:
        ask(settings.port, "/healthz")
    except OSError as error:
        raise SandboxError(
            f"The sandbox's server runs (pid {process.pid}) and does not answer on port "
            f"{settings.port}: {error}. Its log is {home.server_log}. Stop it with "
            "`python -m sandbox down` and start it again; nothing is lost by that."
        ) from error
    return Running(pid=process.pid, port=settings.port, pace=settings.pace, started=False)


def _listener(home: Home, before: Settings | None, port: int | None) -> socket.socket:
    """Return a socket that listens: where it is asked for, else where it did before, else anywhere.

    Raises:
        SandboxError: somebody else listens there.
    """
    wanted = port or (before.port if before else 0)
    try:
        return processes.listen(wanted)
    except OSError:
        holder = processes.holder(wanted)
    if port is not None:
        raise SandboxError(
            f"Port {wanted} was asked for, and {holder} listens on it. Choose another one with "
            "--port, or leave the choice to the sandbox."
        )
    raise SandboxError(
        f"The sandbox in {home.root} answers on port {wanted}, and {holder} listens there now. "
        "End that process, or move the sandbox: `python -m sandbox up --port N`. Shells that "
        "have its environment must take it anew after a move; nothing is lost."
    )


def _start(
    home: Home, settings: Settings, listener: socket.socket, environ: Mapping[str, str]
) -> psutil.Process:
    command = [
        sys.executable,
        "-P",
        "-m",
        "sandbox.server",
        f"--home={home.root}",
        f"--listener={listener.fileno()}",
        f"--pace={settings.pace}",
    ]
    # Compiled modules are kept whatever the caller's environment says: the next start is faster.
    inherited = {key: value for key, value in environ.items() if not key.startswith("PYTHON")}
    with home.server_log.open("w") as log:
        started = subprocess.Popen(
            command,
            env={**inherited, "PYTHONPATH": str(PROJECT_FOLDER)},
            cwd=home.root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[listener.fileno()],
        )
    # The server outlives this process: nobody is to wait for it here.
    started.returncode = 0
    process = psutil.Process(started.pid)
    home.write_server(ServerRecord(pid=process.pid, create_time=process.create_time()))
    return process


def _wait_until_ready(home: Home, port: int, process: psutil.Process) -> None:
    """Wait for the server's first answer: then the clusters that it held run again."""
    try:
        ask(port, "/healthz", timeout_seconds=_START_SECONDS)
    except BaseException as error:
        if isinstance(error, ConnectionError):
            # Its listener closes a moment before it has written why, and a signal would come first.
            processes.wait(process, _STOP_SECONDS)
        processes.end(process, _STOP_SECONDS)
        home.forget_server()
        if isinstance(error, TimeoutError):
            raise SandboxError(
                f"The sandbox's server (pid {process.pid}) did not answer within "
                f"{_START_SECONDS:.0f} s, and was ended. Its last lines:\n{_last_lines(home)}\n"
                f"(log: {home.server_log})"
            ) from error
        if isinstance(error, (OSError, http.client.HTTPException)):
            raise SandboxError(
                f"The sandbox's server ended while it started:\n{_last_lines(home)}\n"
                f"(log: {home.server_log})"
            ) from error
        raise


def _last_lines(home: Home) -> str:
    lines = home.server_log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-_LOG_LINES:])


def ask(port: int, path: str, *, timeout_seconds: float = 10.0) -> Any:
    """Return what the server answers to a GET, read as JSON.

    Raises:
        OSError: it does not answer.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        if response.status != http.client.OK:
            raise ConnectionError(f"{path}: {response.status} {body[:200]!r}")
        return json.loads(body)
    finally:
        connection.close()


def down(home: Home, say: Say) -> None:
    """Stop the server and everything that it started; data stays.

    Raises:
        SandboxError: another version made the folder.
    """
    if not home.exists:
        say(f"There is no sandbox in {home.root}.")
        return
    home.check_version()
    with home.locked():
        process = processes.find(home.server())
        if process is None:
            say("The sandbox does not run.")
        elif processes.end(process, _STOP_SECONDS):
            say(f"Stopped the sandbox (server {process.pid}). Its state is kept in {home.root}.")
        else:
            say(
                f"The server {process.pid} did not end by itself and was killed; its state is kept."
            )
        for name in _end_lost_processes(home):
            say(f"Ended {name}, which an earlier server had left behind.")
        home.forget_server()


def _end_lost_processes(home: Home) -> list[str]:
    """End what a killed server has left of its clusters."""
    if not home.clusters.is_dir():
        return []
    # Loads the certificates' library and asyncio: only where there are clusters to look at.
    from sandbox.gke.child_process import end_leftovers
    from sandbox.gke.cluster_folder import ClusterFolder

    ended: list[str] = []
    for folder in sorted(home.clusters.iterdir()):
        try:
            record = ClusterFolder(folder).read_record()
        except RuntimeError as error:
            raise SandboxError(str(error)) from error
        if record is not None:
            ended += asyncio.run(end_leftovers(record.processes, _STOP_SECONDS))
    return ended


def reset(home: Home, say: Say) -> None:
    """Stop the sandbox and remove all that it holds: cloud, clusters, stacks. Programs stay.

    Raises:
        SandboxError: the folder cannot be removed, or is not a sandbox's.
    """
    if not home.root.exists():
        say(f"There is no sandbox in {home.root}.")
        return
    if not home.exists:
        raise SandboxError(
            f"{home.root} was not made by the sandbox (it has no layout-version): nothing removed."
        )
    with home.locked():
        process = processes.find(home.server())
        if process is not None:
            processes.end(process, _STOP_SECONDS)
        # A record that cannot be read names no process that could be ended safely.
        with contextlib.suppress(SandboxError):
            _end_lost_processes(home)
        for path in home.root.iterdir():
            if path != home.programs and path.name != ".lock":
                _remove(path)
    say(f"Removed everything that the sandbox in {home.root} held.")


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise SandboxError(f"{path} cannot be removed: {error.strerror}") from error
