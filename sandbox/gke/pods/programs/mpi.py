"""`mpirun`: starts a program on several Pods over ssh.

Owns the options that scripts around nccl-tests use, the hosts and slots, the environment that
ranks get, and what is printed when a rank fails. Does not own the program that runs.
Source: Open MPI 4 manual page; [facts gpudirect.md §6 and §7].
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from sandbox.gke.pods.container import Container
from sandbox.gke.pods.programs.network import SshError, connect, default_port
from sandbox.gke.pods.programs.system import run
from sandbox.gke.pods.shell.process import Process

_RULE = "-" * 74
_OPTIONS_WITH_VALUE = {
    "-np": 1, "-n": 1, "--np": 1, "-c": 1, "-hostfile": 1, "--hostfile": 1, "-machinefile": 1,
    "--machinefile": 1, "-H": 1, "-host": 1, "--host": 1, "-x": 1, "-mca": 2, "--mca": 2,
    "-npernode": 1, "--npernode": 1, "-N": 1, "--map-by": 1, "--bind-to": 1, "--prefix": 1,
    "--wdir": 1, "-wdir": 1, "--rank-by": 1, "--timeout": 1, "--output-filename": 1,
    "--app": 1, "--cpu-set": 1, "--path": 1, "-path": 1,
}  # fmt: skip


@dataclass(slots=True)
class Slot:
    """One host of a hostfile."""

    host: str
    slots: int
    port: int | None = None


@dataclass(slots=True)
class RankPlace:
    """The ranks of one host: where they run and with which environment."""

    host: str
    container: Container
    environment: dict[str, str]
    ranks: int


@dataclass(slots=True)
class MpiJob:
    """What the ranks of one `mpirun` share."""

    places: list[RankPlace]
    joined: dict[int, object] = field(default_factory=dict)
    """What each place's first rank brought to the collective, by its position."""
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once every place joined."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first place when the collective is over."""
    failed_position: int | None = None
    """The place whose ranks failed, if any did."""
    exit_code: int = 0
    """How they failed."""

    @property
    def ranks(self) -> int:
        """Ranks on all hosts."""
        return sum(place.ranks for place in self.places)

    async def join(self, position: int, contribution: object) -> None:
        """Bring one place's part and wait for all the others."""
        self.joined[position] = contribution
        if len(self.joined) == len(self.places):
            self.complete.set()
        await self.complete.wait()


current_job: ContextVar[tuple[MpiJob, int] | None] = ContextVar("current_job", default=None)
"""The job that a program runs in and the position of its place, if `mpirun` started it."""


class _MpiError(Exception):
    """The job cannot start; the text is what mpirun prints."""


@dataclass(slots=True)
class _Command:
    ranks: int = 0
    ranks_per_host: int = 0
    hostfile: str = ""
    hosts: list[Slot] = field(default_factory=list)
    exported: list[str] = field(default_factory=list)
    ssh_port: int | None = None
    as_root: bool = False
    tagged: bool = False
    program: list[str] = field(default_factory=list)


async def mpirun(process: Process, words: Sequence[str]) -> int:
    """Run a program on the hosts given."""
    machine = process.machine
    if not isinstance(machine, Container):
        return 1
    try:
        command = _read(words)
        environment = await _exported(process, command)
        job = MpiJob(_places(process, machine, command, environment))
    except _MpiError as error:
        await process.complain(f"{_RULE}\n{error}\n{_RULE}")
        return 1
    except SshError as error:
        await process.complain(
            f"{error}\n{_RULE}\nORTE was unable to reliably start one or more daemons.\n{_RULE}"
        )
        return 1
    return await _run_job(process, job, command)


async def _run_job(process: Process, job: MpiJob, command: _Command) -> int:
    tasks = [
        asyncio.create_task(_run_place(process, job, position, command))
        for position in range(len(job.places))
    ]
    waiting: set[asyncio.Task[int]] = set(tasks)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            failed = next((task for task in done if task.result()), None)
            if failed is not None:
                await _abort(process, job.places[tasks.index(failed)], failed.result())
                return failed.result()
    finally:
        for task in tasks:
            task.cancel()
    return 0


async def _run_place(process: Process, job: MpiJob, position: int, command: _Command) -> int:
    """Run the program for a place's first rank, and for the others too if it did not join."""
    place = job.places[position]
    first = sum(other.ranks for other in job.places[:position])
    current_job.set((job, position))
    for local in range(place.ranks):
        rank = first + local
        environment = place.environment | {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(job.ranks),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(place.ranks),
        }
        inside = place.container.process(
            _Tagged(process.stdout, rank, "stdout") if command.tagged else process.stdout,
            _Tagged(process.stderr, rank, "stderr") if command.tagged else process.stderr,
        )
        inside.environment = environment
        inside.directory = process.directory if process.files.is_folder(process.directory) else "/"
        code = await run(inside, command.program)
        if code or position in job.joined:
            return code
    return 0


class _Tagged:
    """Puts `[job,rank]<stream>:` in front of each line."""

    def __init__(self, target: object, rank: int, stream: str) -> None:
        self._target = target
        self._tag = f"[1,{rank}]<{stream}>:"

    async def write(self, text: str) -> None:
        """Write the lines with their tag."""
        tagged = "".join(self._tag + line for line in text.splitlines(keepends=True))
        await self._target.write(tagged)  # type: ignore[attr-defined]


async def _abort(process: Process, place: RankPlace, code: int) -> None:
    if code > 128:
        names = {6: "Aborted", 9: "Killed", 11: "Segmentation fault", 15: "Terminated"}
        number = code - 128
        how = f"exited on signal {number} ({names.get(number, 'Unknown signal')})."
        text = f"mpirun noticed that process rank 0 with PID 0 on node {place.host} {how}"
    else:
        text = (
            "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
            "the job to be terminated. The first process to do so was:\n\n"
            f"  Process name: [[1,1],0] on node {place.host}\n  Exit code:    {code}"
        )
    await process.complain(f"{_RULE}\n{text}\n{_RULE}")


def _read(words: Sequence[str]) -> _Command:
    command = _Command()
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        option, joined, value = (
            option.partition("=") if option.startswith("--") else (option, "", "")
        )
        count = _OPTIONS_WITH_VALUE.get(option, 0)
        values = [value] if joined else rest[:count]
        if not joined:
            del rest[:count]
        if count and len(values) < min(count, 1):
            raise _MpiError(f'mpirun: Error: option "{option}" did not have enough parameters')
        _take(command, option, values)
    command.program = rest
    if not rest:
        raise _MpiError("mpirun could not find anything to do.")
    if not command.as_root:
        raise _MpiError(
            "mpirun has detected an attempt to run as root.\nYou can override this protection by"
            " adding the --allow-run-as-root option to the\ncmd line."
        )
    return command


def _take(command: _Command, option: str, values: list[str]) -> None:
    match option:
        case "-np" | "-n" | "--np" | "-c":
            command.ranks = _whole(values[0])
        case "-npernode" | "--npernode" | "-N":
            command.ranks_per_host = _whole(values[0])
        case "-hostfile" | "--hostfile" | "-machinefile" | "--machinefile":
            command.hostfile = values[0]
        case "-H" | "-host" | "--host":
            for entry in values[0].split(","):
                name, _, slots = entry.partition(":")
                command.hosts.append(Slot(name, _whole(slots or "1")))
        case "-x":
            command.exported.append(values[0])
        case "-mca" | "--mca":
            port = re.search(r"-p\s*(\d+)", values[1]) if len(values) > 1 else None
            if values[0] in {"plm_rsh_args", "plm_rsh_agent"} and port:
                command.ssh_port = int(port[1])
        case "--map-by":
            found = re.match(r"ppr:(\d+):node", values[0])
            command.ranks_per_host = int(found[1]) if found else command.ranks_per_host
        case "--allow-run-as-root" | "-allow-run-as-root":
            command.as_root = True
        case "--tag-output" | "-tag-output":
            command.tagged = True


def _whole(text: str) -> int:
    if not text.isdigit():
        raise _MpiError(f"mpirun: Error: unparsable number of processes: {text}")
    return int(text)


async def _exported(process: Process, command: _Command) -> dict[str, str]:
    """Read the `-x` options: `NAME=value`, or `NAME` with this process's value."""
    found = {}
    for entry in command.exported:
        name, has_value, value = entry.partition("=")
        if has_value:
            found[name] = value
        elif name in process.environment:
            found[name] = process.environment[name]
        else:
            await process.complain(f'Warning: could not find environment variable "{name}"')
    return found


def _places(
    process: Process, container: Container, command: _Command, exported: dict[str, str]
) -> list[RankPlace]:
    slots = list(command.hosts)
    if command.hostfile:
        content = process.files.read(process.path(command.hostfile))
        if content is None:
            raise _MpiError(
                f"Open RTE was unable to open the hostfile:\n    {command.hostfile}\n"
                "Check to make sure the path and filename are correct."
            )
        slots += [slot for line in content.splitlines() if (slot := _slot(line)) is not None]
    slots = slots or [Slot("localhost", command.ranks or 1)]
    if command.ranks_per_host:
        for slot in slots:
            slot.slots = command.ranks_per_host
    wanted = command.ranks or sum(slot.slots for slot in slots)
    places = []
    for slot in slots:
        count = min(slot.slots, wanted)
        wanted -= count
        if count:
            places.append(_place(process, container, command, slot, count, exported))
    if wanted:
        raise _MpiError(
            f"There are not enough slots available in the system to satisfy the {command.ranks}\n"
            f"slots that were requested by the application:\n\n  {command.program[0]}"
        )
    return places


def _slot(line: str) -> Slot | None:
    words = line.partition("#")[0].split()
    if not words:
        return None
    options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    port = options.get("port", "")
    return Slot(words[0], int(options.get("slots", "1")), int(port) if port.isdigit() else None)


def _place(
    process: Process,
    container: Container,
    command: _Command,
    slot: Slot,
    count: int,
    exported: dict[str, str],
) -> RankPlace:
    """Start the helper on one host: here without ssh, elsewhere with none of this environment."""
    local = {"localhost", "127.0.0.1", container.pod.hostname, container.pod.name}
    local.add(container.pod.address)
    if slot.host in local:
        environment = process.environment | exported
        return RankPlace(container.pod.hostname, container, environment, count)
    port = command.ssh_port or slot.port or default_port(container)
    peer = connect(process, slot.host, port)
    if peer.pod is container.pod:
        return RankPlace(slot.host, container, process.environment | exported, count)
    login = peer.container.process(process.stdout, process.stderr, login=True).environment
    return RankPlace(slot.host, peer.container, login | exported, count)


MPI_COMMANDS = {"mpirun": mpirun, "mpiexec": mpirun, "orterun": mpirun}
