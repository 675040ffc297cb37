"""A running container: what its processes see and may do.

Owns the machine that a container's processes run on. Does not own how it came to be (`runtime`)
or what its programs do: programs are found through a function that it is given.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field

from sandbox.gke.pods.files import FileView
from sandbox.gke.pods.images import Image
from sandbox.gke.pods.shell.process import Process, Program
from sandbox.gke.pods.shell.streams import Writer
from sandbox.gke.pods.world import Node, PodRecord, World

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOGIN_ENVIRONMENT = {"PATH": DEFAULT_PATH, "HOME": "/root", "USER": "root", "SHELL": "/bin/bash"}
"""What a process gets that came in through ssh: none of the container's variables."""

ProgramFinder = Callable[["Container", str, Process], Program | None]


@dataclass(kw_only=True, slots=True)
class Container:
    """One container that runs."""

    name: str
    image: Image
    pod: PodRecord
    world: World
    files: FileView
    environment: dict[str, str]
    find_program: ProgramFinder
    devices: frozenset[str] = frozenset()
    """Device files that it may use, given by the GPU device plug-in or the device injector."""
    capabilities: frozenset[str] = frozenset()
    privileged: bool = False
    host_pid: bool = False
    runs_to_completion: bool = False
    """Whether the Pod is expected to end: programs that nobody knows then end at once."""
    gpus: int = 0
    """GPUs that CUDA finds in it."""
    ssh_ports: set[int] = field(default_factory=set)

    def program(self, name: str, process: Process) -> Program | None:
        """Find what runs under a command name or path."""
        return self.find_program(self, name, process)

    def has_device(self, path: str) -> bool:
        """Whether a device file is usable."""
        return self.privileged or path in self.devices

    def has_capability(self, name: str) -> bool:
        """Whether the container may do what a capability guards."""
        return self.privileged or name in self.capabilities

    async def sleep(self, seconds: float, *, in_loop: bool) -> None:
        """Let simulated time pass."""
        await self.world.clock.sleep(seconds, in_loop=in_loop)

    async def sleep_for_ever(self) -> None:
        """Wait until the process is ended."""
        await self.world.clock.sleep_for_ever()

    def process(self, stdout: Writer, stderr: Writer, *, login: bool = False) -> Process:
        """Make a process as an entry point, `exec` or ssh starts it."""
        environment = LOGIN_ENVIRONMENT if login else self.environment
        return Process(
            machine=self,
            environment=dict(environment),
            directory="/root" if login else "/",
            stdout=stdout,
            stderr=stderr,
        )


@dataclass(kw_only=True, slots=True)
class NodeMachine:
    """A node as processes see it that left their container (`nsenter`)."""

    node: Node
    world: World
    files: FileView
    find_program: Callable[[NodeMachine, str, Process], Program | None]

    def program(self, name: str, process: Process) -> Program | None:
        """Find what runs under a command name or path."""
        return self.find_program(self, posixpath.basename(name), process)

    async def sleep(self, seconds: float, *, in_loop: bool) -> None:
        """Let simulated time pass."""
        await self.world.clock.sleep(seconds, in_loop=in_loop)

    async def sleep_for_ever(self) -> None:
        """Wait until the process is ended."""
        await self.world.clock.sleep_for_ever()
