"""Finding the program behind a command name or path in a container.

Owns the order: files that scripts or volumes put there, the programs of the known images, the
common commands, and what becomes of programs that nobody knows.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import partial

from sandbox.gke.nccl.options import BENCHMARKS
from sandbox.gke.pods.container import Container
from sandbox.gke.pods.image_files import BUILT_IN
from sandbox.gke.pods.images import ImageKind
from sandbox.gke.pods.programs.benchmarks import BENCHMARK_COMMANDS
from sandbox.gke.pods.programs.daemons import rxdm_entrypoint, tcpgpudmarxd
from sandbox.gke.pods.programs.filesystem import FILE_COMMANDS
from sandbox.gke.pods.programs.installers import container_entry, device_injector
from sandbox.gke.pods.programs.mpi import MPI_COMMANDS
from sandbox.gke.pods.programs.network import NETWORK_COMMANDS
from sandbox.gke.pods.programs.node_tools import NODE_TOOLS
from sandbox.gke.pods.programs.stream_editor import sed
from sandbox.gke.pods.programs.system import SYSTEM_COMMANDS
from sandbox.gke.pods.programs.text import TEXT_COMMANDS
from sandbox.gke.pods.shell.interpreter import run_script
from sandbox.gke.pods.shell.process import Process, Program

_IMAGE_PROGRAMS: dict[str, Program] = {
    "/scripts/container_entry.sh": container_entry,
    "/fts/entrypoint_rxdm_container.sh": rxdm_entrypoint,
    "/tcpgpudmarxd/build/app/tcpgpudmarxd": tcpgpudmarxd,
    "/usr/bin/device_injector": device_injector,
}
_COMMON: dict[str, Program] = {
    **TEXT_COMMANDS,
    **FILE_COMMANDS,
    **NETWORK_COMMANDS,
    **SYSTEM_COMMANDS,
    **NODE_TOOLS,
    "sed": sed,
}
_COMMAND_FOLDERS = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}
)
_CLOSED_IMAGES = frozenset(
    {
        ImageKind.TCPXO_PLUGIN,
        ImageKind.TCPX_PLUGIN,
        ImageKind.TCPXO_DAEMON,
        ImageKind.TCPX_DAEMON,
        ImageKind.INJECTOR,
        ImageKind.SHELL,
    }
)
"""Images whose content is known: what is not in them is missing."""


def find_program(container: Container, name: str, process: Process) -> Program | None:
    """Find what a container runs under a name; None: it has no such program."""
    if "/" in name:
        path = process.path(name)
        text = process.files.read(path)
        if text is not None:
            return _from_file(path, text)
        if process.files.is_folder(path):
            return None
    base = posixpath.basename(name)
    if "/" not in name or posixpath.dirname(name) in _COMMAND_FOLDERS:
        found = _COMMON.get(base) or MPI_COMMANDS.get(base)
        if found is not None:
            return found
    if container.image.kind in _CLOSED_IMAGES:
        return None
    return BENCHMARK_COMMANDS.get(base) or partial(_run_unknown, container)


def _from_file(path: str, text: str) -> Program | None:
    if text.startswith(BUILT_IN):
        base = posixpath.basename(path)
        if base in BENCHMARKS:
            return BENCHMARK_COMMANDS[base]
        return _IMAGE_PROGRAMS.get(path, _succeed)
    return partial(_run_file, text)


async def _run_file(text: str, process: Process, words: Sequence[str]) -> int:
    return await run_script(process, text, words)


async def _succeed(_: Process, __: Sequence[str]) -> int:
    return 0


async def _run_unknown(container: Container, process: Process, words: Sequence[str]) -> int:
    """A user's own program: a server runs for ever, work in a Pod that ends is done at once."""
    await process.say(f"(simulated: {posixpath.basename(words[0])} is not run)")
    if not container.runs_to_completion:
        await container.sleep_for_ever()
    return 0
