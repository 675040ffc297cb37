"""The nccl-tests programs in simulated containers.

Owns how a rank's container looks to NCCL (library path, devices, daemon, NICs, firewall) and
where the lines of a run go. The model itself is `sandbox.gke.nccl`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.gke.nccl.hosts import Host, Plugin, Run
from sandbox.gke.nccl.log_lines import LogLine
from sandbox.gke.nccl.options import BENCHMARKS, OptionError, Options, parse_options
from sandbox.gke.nccl.performance import Performance, perform
from sandbox.gke.nccl.verdict import DEFAULT_SOCKET_PREFIX, Outcome
from sandbox.gke.pods.container import Container
from sandbox.gke.pods.firewall import closed_networks
from sandbox.gke.pods.node_hardware import PCI_FOLDER
from sandbox.gke.pods.programs.daemons import TCPX_SOCKET
from sandbox.gke.pods.programs.installers import PLUGIN_LIBRARY, read_plugin
from sandbox.gke.pods.programs.mpi import MpiJob, current_job
from sandbox.gke.pods.shell.process import Process

_ALONE_FOLDER = "nccl-tests"
"""Build folder of the binaries without MPI: each rank then measures alone [R49]."""
_CONFIG_VARIABLE = "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE"
_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _Part:
    """What one host brings to a run."""

    host: Host
    container: Container


async def benchmark(process: Process, words: Sequence[str]) -> int:
    """Run one of the nccl-tests programs."""
    machine = process.machine
    if not isinstance(machine, Container):
        return 1
    try:
        options = parse_options(words[1:])
    except OptionError as error:
        await process.complain(f"{words[0]}: {error}")
        return 1
    folders = process.path(words[0]).split("/")
    joined = current_job.get()
    if joined is None or _ALONE_FOLDER in folders:
        ranks = options.gpus_per_rank * options.threads_per_rank
        result = _play(words[0], options, [_part(process, machine, ranks)])
        await _print(process, result, [_part(process, machine, ranks)])
        return result.exit_code
    job, position = joined
    ranks = job.places[position].ranks * options.gpus_per_rank * options.threads_per_rank
    await job.join(position, _part(process, machine, ranks))
    if position == 0:
        parts = [part for part in _parts(job) if part is not None]
        result = _play(words[0], options, parts)
        await _print(process, result, parts)
        failed = [i for i, part in enumerate(parts) if part.host.name == result.failed_host]
        if result.exit_code and failed:
            job.failed_position, job.exit_code = failed[0], result.exit_code
        job.ended.set()
    await job.ended.wait()
    return job.exit_code if job.failed_position == position else 0


def _parts(job: MpiJob) -> list[_Part | None]:
    found = [job.joined[position] for position in range(len(job.places))]
    return [part if isinstance(part, _Part) else None for part in found]


def _play(program: str, options: Options, parts: Sequence[_Part]) -> Performance:
    hosts = [part.host for part in parts]
    context = parts[0].container.world.context
    closed = closed_networks(context, [host.nics for host in hosts])
    return perform(
        Run(hosts=hosts, closed_networks=closed),
        BENCHMARKS[posixpath.basename(program)],
        options,
        seed="/".join(part.container.pod.uid for part in parts),
    )


async def _print(process: Process, result: Performance, parts: Sequence[_Part]) -> None:
    world = parts[0].container.world
    for line in result.opening:
        await process.say(line)
    await world.clock.pass_seconds(_START_SECONDS)
    for entry in result.log:
        part = next(part for part in parts if part.host.name == entry.host)
        await _log(process, part, entry)
    if result.outcome is Outcome.HANGS:
        await world.clock.sleep_for_ever()
    if result.outcome is Outcome.COMPLETES:
        await world.clock.pass_seconds(result.seconds)
    for line in result.results:
        await process.say(line)


async def _log(process: Process, part: _Part, entry: LogLine) -> None:
    """Write one line of NCCL's log where `NCCL_DEBUG_FILE` says, else to standard output."""
    name = part.host.setting("NCCL_DEBUG_FILE")
    if not name:
        await process.say(entry.text)
        return
    path = name.replace("%h", part.host.name).replace("%p", str(entry.process))
    files = part.container.files
    path = posixpath.normpath(posixpath.join("/", path))
    files.write(path, (files.read(path) or "") + entry.text + "\n")


def _part(process: Process, container: Container, ranks: int) -> _Part:
    pod = container.pod
    environment = process.environment
    plugin = _plugin(process)
    host = Host(
        name=pod.hostname,
        machine_type=pod.node.machine.name,
        zone=pod.node.zone,
        ranks=ranks,
        gpus=container.gpus,
        environment=environment,
        plugin=plugin,
        daemon=pod.daemon,
        nics=pod.nics,
        apertures_visible=_sees_apertures(process),
        daemon_socket_visible=_sees_daemon_socket(process),
        guest_config=_guest_config(process),
    )
    return _Part(host, container)


def _plugin(process: Process) -> Plugin | None:
    """Find the network plug-in as the dynamic loader does: first in the library path."""
    environment = process.environment
    if environment.get("NCCL_NET_PLUGIN") == "none" or environment.get("NCCL_NET") == "Socket":
        return None
    for folder in environment.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            text = process.files.read(process.path(f"{folder}/{PLUGIN_LIBRARY}"))
            if text is not None:
                return read_plugin(text)
    return None


def _sees_apertures(process: Process) -> bool:
    """Whether the LLCM devices are there and open for writing.

    The default folder is sysfs, which is read-only in a container; a trailing slash is not allowed
    [facts gpudirect.md §8].
    """
    folder = process.environment.get("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", "").strip() or PCI_FOLDER
    if folder.endswith("/") or folder == PCI_FOLDER:
        return False
    path = process.path(folder)
    return any(
        process.files.read(f"{path}/{name}/resource4") is not None
        for name in process.files.names(path)
    )


def _sees_daemon_socket(process: Process) -> bool:
    prefix = process.environment.get("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX")
    path = process.path(f"{prefix or DEFAULT_SOCKET_PREFIX}/{TCPX_SOCKET}")
    return process.files.read(path) is not None


def _guest_config(process: Process) -> str | None:
    name = process.environment.get(_CONFIG_VARIABLE)
    text = process.files.read(process.path(name)) if name else None
    words = (text or "").split()
    return words[1] if len(words) == 2 and words[0] == "profile" else None


BENCHMARK_COMMANDS = dict.fromkeys(BENCHMARKS, benchmark)
