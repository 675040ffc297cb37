"""Processes that the sandbox starts and must not leave behind.

Owns: starting one program in a session of its own, ending it, and finding those that an earlier
server lost. Does not own what the programs are (`sandbox.gke.components`) or when they are started
again (`sandbox.gke.control_plane`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_PR_SET_PDEATHSIG = 1
_LOG_TAIL_BYTES = 4000
_LOG_BYTES = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """One program to run: what, where and with which log file."""

    name: str
    arguments: tuple[str, ...]
    """The command line, the binary's path first."""
    folder: Path
    """Working directory."""
    log: Path
    """Standard output and standard error go to the end of this file."""
    environment: tuple[tuple[str, str], ...] = ()
    """What it gets beside PATH and HOME."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessRecord:
    """What is written down about a process, so that a later server can know it again."""

    name: str
    pid: int
    create_time: float
    arguments: tuple[str, ...]


class ChildProcess:
    """One running program. Make it with `start`."""

    def __init__(self, program: Program, process: asyncio.subprocess.Process) -> None:
        self.program = program
        self._process = process
        self.create_time = _create_time(process.pid)

    @classmethod
    async def start(cls, program: Program) -> Self:
        """Start a program; it dies with this process even if that is killed (Linux).

        Call it from a thread that lives as long as the program should: the kernel watches the
        thread that forked.

        Raises:
            FileNotFoundError: the binary is not there.
        """
        program.log.parent.mkdir(parents=True, exist_ok=True)
        if program.log.exists() and program.log.stat().st_size > _LOG_BYTES:
            program.log.replace(program.log.with_suffix(".log.previous"))
        with program.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *program.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=program.folder,
                # Nothing of the caller's environment decides how a control plane behaves.
                env={"PATH": os.defpath, "HOME": str(program.folder)} | dict(program.environment),
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        return cls(program, process)

    @property
    def pid(self) -> int:
        """Process id; also the id of its session and process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    @property
    def record(self) -> ProcessRecord:
        """What to write down about it."""
        return ProcessRecord(
            name=self.program.name,
            pid=self.pid,
            create_time=self.create_time,
            arguments=self.program.arguments,
        )

    async def wait(self) -> int:
        """Wait until it ends and return its exit code, negative for a signal."""
        return await self._process.wait()

    async def stop(self, grace_seconds: float) -> None:
        """End it and its group: SIGTERM, then SIGKILL after a while; 0 kills at once."""
        if self.running and grace_seconds > 0:
            _signal_group(self.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self.wait()
        if self.running:
            _signal_group(self.pid, signal.SIGKILL)
        await self.wait()

    def last_words(self) -> str:
        """The lines at the end of its log that say why it ended."""
        try:
            with self.program.log.open("rb") as log:
                log.seek(max(0, self.program.log.stat().st_size - _LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        errors = [line for line in lines if line.startswith(("E", "F", "Error", "panic"))]
        return "\n".join((errors or lines)[-5:])


async def end_leftovers(records: Iterable[ProcessRecord], grace_seconds: float) -> list[str]:
    """End the processes of an earlier server that still run, and only those.

    A pid alone proves nothing, as it may belong to somebody else by now: start time and command
    line must be the recorded ones.

    Returns:
        The names of what was ended.
    """
    processes = [process for record in records if (process := _same_process(record)) is not None]
    names = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.append(Path(process.cmdline()[0]).name)
            process.terminate()
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, timeout=grace_seconds)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    await asyncio.to_thread(psutil.wait_procs, alive, timeout=grace_seconds)
    return names


def _create_time(pid: int) -> float:
    """Return when a process was started: now, for one that has ended and been reaped already."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return time.time()


def _same_process(record: ProcessRecord) -> psutil.Process | None:
    try:
        process = psutil.Process(record.pid)
        # psutil derives the time from the boot time, which moves a little with the clock.
        same_start = abs(process.create_time() - record.create_time) < 1.0
        if same_start and process.cmdline() == list(record.arguments):
            return process
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    return None


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _die_with_parent() -> Callable[[], None] | None:
    """Return what the child does between fork and exec, or None where the kernel cannot."""
    if sys.platform != "linux":
        return None
    # Loaded before the fork: the child of a process with threads must not import or allocate much.
    prctl = ctypes.PyDLL(None).prctl
    parent = os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask_kernel
