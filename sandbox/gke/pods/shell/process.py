"""A simulated process and the machine that it runs on.

Owns what a program is given: environment, working directory, streams. Does not own what any
program does; machines find programs by name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from sandbox.gke.pods.files import FileView
from sandbox.gke.pods.shell.streams import LineReader, NoInput, NoOutput, Writer

NOT_EXECUTABLE = 126
NOT_FOUND = 127


@dataclass(kw_only=True, slots=True)
class Process:
    """One process; programs get it together with their arguments."""

    machine: Machine
    environment: dict[str, str]
    directory: str = "/"
    stdin: LineReader = field(default_factory=lambda: LineReader(NoInput()))
    stdout: Writer = field(default_factory=NoOutput)
    stderr: Writer = field(default_factory=NoOutput)
    in_loop: bool = False
    """Whether a loop runs it again and again; a `sleep` in there waits for something to change."""

    @property
    def files(self) -> FileView:
        """The files that the process sees."""
        return self.machine.files

    def path(self, name: str) -> str:
        """Make a path absolute and plain."""
        return posixpath.normpath(posixpath.join(self.directory, name))

    def child(self, **changes: object) -> Self:
        """Make a process that starts with this one's environment."""
        values: dict[str, object] = {"environment": dict(self.environment)} | changes
        return replace(self, **values)  # type: ignore[arg-type]

    async def say(self, text: str) -> None:
        """Write one line to standard output."""
        await self.stdout.write(text + "\n")

    async def complain(self, text: str) -> None:
        """Write one line to standard error."""
        await self.stderr.write(text + "\n")


Program = Callable[[Process, Sequence[str]], Awaitable[int]]
"""Runs with its arguments, the program's name first, and returns the exit code."""


class Machine(Protocol):
    """What processes run on: a container, or a node for processes that left their container."""

    @property
    def files(self) -> FileView:
        """The files, with everything that is mounted."""
        ...

    def program(self, name: str, process: Process) -> Program | None:
        """Find what runs under a command name or path; None: there is no such program."""
        ...

    async def sleep(self, seconds: float, *, in_loop: bool) -> None:
        """Let simulated time pass; in a loop, wait for something to change (see `Clock`)."""
        ...

    async def sleep_for_ever(self) -> None:
        """Wait until the process is ended."""
        ...
