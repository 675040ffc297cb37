"""The programs that prepare a node: the NCCL plug-in installers and the NRI device injector.

Owns what they write to the node and register there [facts gpudirect.md §1 to §3].
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sandbox.gke.nccl.hosts import Plugin, Technology
from sandbox.gke.pods import nccl_profiles
from sandbox.gke.pods.container import Container
from sandbox.gke.pods.files import FileView
from sandbox.gke.pods.images import ImageKind
from sandbox.gke.pods.shell.process import Process

PLUGIN_LIBRARY = "libnccl-net.so"
_INNER_LIBRARY = "libnccl-net_internal.so"
_NCCL_LIBRARIES = ("libnccl.so", "libnccl.so.2")
_MARK = "simulated-plugin"
_INSTALL_SECONDS = 20.0
_LEAST_INSTALL_SECONDS = 0.5
"""At any pace a Pod that came with the node starts before the libraries are there: it pulled the
same image meanwhile, and the copying comes after that [facts gpudirect.md §11.2]."""
_NRI_FOLDER = "/var/run/nri"


def plugin_text(plugin: Plugin) -> str:
    """Return the content of a plug-in's library file."""
    technology = plugin.technology.value if plugin.technology else "other"
    return f"{_MARK} {technology} {plugin.version} {'checker' if plugin.checker else 'plain'}\n"


def read_plugin(text: str) -> Plugin:
    """Tell a plug-in from its library file; any other content is another maker's."""
    words = text.split()
    if len(words) != 4 or words[0] != _MARK or words[1] not in set(Technology):
        return Plugin(technology=None, version="")
    return Plugin(technology=Technology(words[1]), version=words[2], checker=words[3] == "checker")


async def container_entry(process: Process, words: Sequence[str]) -> int:
    """`/scripts/container_entry.sh` of the plug-in images."""
    machine = process.machine
    if not isinstance(machine, Container):
        return 1
    command = words[1] if len(words) > 1 else ""
    await process.say(command)
    if command == "install":
        return await _install(process, machine, words[2:])
    if command == "daemon":
        await machine.sleep_for_ever()
    if command in {"shell", "debug-info"}:
        return 0
    await process.say(f"Usage: {words[0]} <subcommand> [options]")
    return 0


async def _install(process: Process, container: Container, flags: Sequence[str]) -> int:
    clock = container.world.clock
    await asyncio.sleep(max(_INSTALL_SECONDS * clock.pace, _LEAST_INSTALL_SECONDS))
    version = container.image.version
    with_nccl = "--install-nccl" in flags
    if container.image.kind is ImageKind.TCPX_PLUGIN:
        plugin = Plugin(technology=Technology.TCPX, version=version)
        _write_libraries(process.files, "/var/lib/tcpx/lib64", plugin, with_nccl=with_nccl)
    else:
        checked = "--no-install-nccl-shim-net" not in flags
        plugin = Plugin(technology=Technology.TCPXO, version=version, checker=checked)
        for folder in ("/var/lib/tcpxo/lib64", "/var/lib/fastrak/lib64"):
            _write_libraries(process.files, folder, plugin, with_nccl=with_nccl)
            _write_tcpxo_files(process.files, folder, plugin)
    await process.say(f"Installing NCCL plugin {version} (simulated).")
    return 0


def _write_libraries(files: FileView, folder: str, plugin: Plugin, *, with_nccl: bool) -> None:
    files.write(f"{folder}/{PLUGIN_LIBRARY}", plugin_text(plugin))
    if with_nccl:
        for name in _NCCL_LIBRARIES:
            files.write(f"{folder}/{name}", f"nccl of {plugin.version}\n")


def _write_tcpxo_files(files: FileView, folder: str, plugin: Plugin) -> None:
    if plugin.checker:
        inner = Plugin(technology=plugin.technology, version=plugin.version)
        files.write(f"{folder}/{_INNER_LIBRARY}", plugin_text(inner))
    files.write(f"{folder}/libnccl-tuner.so", f"tuner of {plugin.version}\n")
    for profile in (nccl_profiles.DEFAULT, nccl_profiles.SIMPLE):
        script = nccl_profiles.profile_script(profile, plugin.version)
        files.write(f"{folder}/{nccl_profiles.FILES[profile]}", script)
        files.write(f"{folder}/{nccl_profiles.GUEST_CONFIGS[profile]}", f"profile {profile}\n")
        files.write(f"{folder}/{nccl_profiles.TUNER_CONFIGS[profile]}", f"profile {profile}\n")


async def device_injector(process: Process, _: Sequence[str]) -> int:
    """`/usr/bin/device_injector`: registers with containerd until it ends."""
    machine = process.machine
    if not isinstance(machine, Container):
        return 1
    mount = process.files.mount_of(f"{_NRI_FOLDER}/nri.sock")
    if not machine.privileged or mount.tree is not machine.pod.node.files:
        await process.complain(
            f"failed to connect to NRI service: dial unix {_NRI_FOLDER}/nri.sock: no such file"
        )
        return 1
    node = machine.pod.node
    node.injectors += 1
    machine.world.news.changed()
    await process.complain('level=info msg="Registered plugin device_injector_nri"')
    try:
        await machine.sleep_for_ever()
    finally:
        node.injectors -= 1
        machine.world.news.changed()
    return 0
