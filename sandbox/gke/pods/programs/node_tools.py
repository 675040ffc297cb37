"""Commands of the node itself, for privileged containers that enter it.

Owns `nsenter` and what the TCPXO installer's `pre-installation` step uses on the node
[facts gpudirect.md §2]: kernel modules, the host firewall, PCI devices, bind mounts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import partial

from sandbox.gke.nodes.machines import A3_MEGA
from sandbox.gke.pods.container import Container, NodeMachine
from sandbox.gke.pods.files import FileView
from sandbox.gke.pods.node_hardware import (
    APERTURE_ID,
    IMPORT_HELPER,
    aperture_addresses,
)
from sandbox.gke.pods.programs.filesystem import FILE_COMMANDS
from sandbox.gke.pods.programs.stream_editor import sed
from sandbox.gke.pods.programs.system import SYSTEM_COMMANDS, run
from sandbox.gke.pods.programs.text import TEXT_COMMANDS
from sandbox.gke.pods.shell.process import Process, Program

_IMPORT_HELPER_MODULES = frozenset({"import-helper", "import_helper"})


async def nsenter(process: Process, words: Sequence[str]) -> int:
    """Run a command in the namespaces of another process: PID 1 of a host PID namespace."""
    rest = list(words[1:])
    target = ""
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        if option in {"-t", "--target"} or (option[1:2] != "-" and option.endswith("t")):
            target = rest.pop(0) if rest else ""
        elif option.startswith("--target="):
            target = option.partition("=")[2]
    machine = process.machine
    if not isinstance(machine, Container):
        return await run(process, rest)
    if not machine.privileged:
        await process.complain(f"nsenter: cannot open /proc/{target}/ns/mnt: Permission denied")
        return 1
    if target != "1" or not machine.host_pid:
        return await run(process, rest)
    node = NodeMachine(
        node=machine.pod.node,
        world=machine.world,
        files=FileView(machine.pod.node.files),
        find_program=_find,
    )
    inside = process.child(machine=node, directory="/")
    # Such a script takes a fraction of a second, less than a container takes to be created.
    machine.pod.node.preparing += 1
    try:
        return await run(inside, rest or ["sh"])
    finally:
        machine.pod.node.preparing -= 1
        machine.world.news.changed()


def _find(machine: NodeMachine, name: str, _: Process) -> Program | None:
    own = _NODE_COMMANDS.get(name)
    if own is not None:
        return partial(_run_own, machine, name)
    shared = SYSTEM_COMMANDS | TEXT_COMMANDS | FILE_COMMANDS | {"sed": sed}
    return shared.get(name)


async def _run_own(machine: NodeMachine, name: str, process: Process, words: Sequence[str]) -> int:
    return await _NODE_COMMANDS[name](machine, process, words)


async def _iptables(_: NodeMachine, process: Process, words: Sequence[str]) -> int:
    """The host firewall: inserting works, and asking finds what was inserted before."""
    path = "/run/xtables.rules"
    rules = (process.files.read(path) or "").splitlines()
    action = next((word for word in words if word in {"-C", "-I", "-A", "-D"}), "")
    rule = " ".join(word for word in words[1:] if word != action and not word.isdigit())
    if action == "-C":
        if rule in rules:
            return 0
        await process.complain("iptables: Bad rule (does a matching rule exist in that chain?).")
        return 1
    if action in {"-I", "-A"}:
        process.files.write(path, "\n".join([*rules, rule]) + "\n")
    return 0


async def _modprobe(machine: NodeMachine, process: Process, words: Sequence[str]) -> int:
    """Load a kernel module; A3 Mega nodes have the one that makes the import helper's device."""
    names = [word for word in words[1:] if not word.startswith("-")]
    for name in names:
        if name not in _IMPORT_HELPER_MODULES:
            continue
        if machine.node.machine != A3_MEGA:
            await process.complain(f"modprobe: FATAL: Module {name} not found in directory.")
            return 1
        machine.node.files.write(IMPORT_HELPER, "")
        machine.world.news.changed()
    return 0


async def _lspci(machine: NodeMachine, process: Process, words: Sequence[str]) -> int:
    """List PCI devices: the apertures are all that matters here."""
    flags = "".join(word[1:] for word in words[1:] if word.startswith("-"))
    vendor, device = (part.removeprefix("0x") for part in APERTURE_ID)
    for address in aperture_addresses(machine.node.machine):
        shown = address if "D" in flags else address.removeprefix("0000:")
        if "nn" in flags:
            kind = f"Unassigned class [ff00]: Google, Inc. Device [{vendor}:{device}]"
        elif "n" in flags:
            kind = f"ff00: {vendor}:{device}"
        else:
            kind = f"Unassigned class: Google, Inc. Device {device}"
        await process.say(f"{shown} {kind}")
    return 0


async def _mount(machine: NodeMachine, process: Process, words: Sequence[str]) -> int:
    """`mount --bind SOURCE TARGET`."""
    operands = [word for word in words[1:] if not word.startswith("-")]
    if not ({"--bind", "--rbind", "-B"} & set(words)) or len(operands) != 2:
        return 0
    source, target = (process.path(operand) for operand in operands)
    files = machine.node.files
    if not files.is_folder(source) or not files.is_folder(target):
        wrong = source if not files.is_folder(source) else target
        await process.complain(f"mount: {target}: special device {wrong} does not exist.")
        return 32
    for name in files.names(source):
        content = files.read(posixpath.join(source, name))
        if content is not None:
            files.write(posixpath.join(target, name), content)
    files.bind(target)
    machine.world.news.changed()
    return 0


async def _umount(machine: NodeMachine, process: Process, words: Sequence[str]) -> int:
    """Take mounts away."""
    code = 0
    for word in words[1:]:
        if word.startswith("-"):
            continue
        if not machine.node.files.unbind(process.path(word)):
            await process.complain(f"umount: {word}: not mounted.")
            code = 32
    return code


_NODE_COMMANDS = {
    "iptables": _iptables,
    "modprobe": _modprobe,
    "lspci": _lspci,
    "mount": _mount,
    "umount": _umount,
}
NODE_TOOLS = {"nsenter": nsenter}
