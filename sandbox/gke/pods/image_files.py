"""The files that the known images bring.

Owns a container's root before anything is mounted on it. The scripts are this project's own, in
`image_scripts`, and do what the published ones do [facts gpudirect.md §6 and §7].
"""

from __future__ import annotations

import functools
from pathlib import Path

from sandbox.gke.nccl.hosts import Plugin, Technology
from sandbox.gke.nccl.options import BENCHMARKS
from sandbox.gke.pods.files import FileTree
from sandbox.gke.pods.images import Image, ImageKind
from sandbox.gke.pods.programs.installers import PLUGIN_LIBRARY, plugin_text

BUILT_IN = "#!simulated"
"""First word of a file that stands for a program of the simulation."""
BENCHMARK_FOLDERS = ("/third_party/nccl-tests-mpi/build", "/third_party/nccl-tests/build")
_SCRIPT_FOLDER = Path(__file__).with_name("image_scripts")
_FOLDERS = ("/root", "/tmp", "/run", "/var/lib", "/etc", "/usr/local", "/usr/bin", "/proc", "/dev")  # noqa: S108
_TECHNOLOGIES = {
    ImageKind.TCPXO_PLUGIN: Technology.TCPXO,
    ImageKind.TCPX_PLUGIN: Technology.TCPX,
}
_PROGRAMS = {
    ImageKind.TCPXO_DAEMON: (
        "/fts/entrypoint_rxdm_container.sh",
        "/fts/kernel_tuning.sh",
        "/fts/cleanup_tuning.sh",
    ),
    ImageKind.TCPX_DAEMON: ("/tcpgpudmarxd/build/app/tcpgpudmarxd",),
    ImageKind.INJECTOR: ("/usr/bin/device_injector",),
}


def root_of(image: Image) -> FileTree:
    """Make the root file system of a new container."""
    root = FileTree()
    for folder in _FOLDERS:
        root.make_folder(folder)
    for path in _PROGRAMS.get(image.kind, ()):
        root.write(path, f"{BUILT_IN} {path}\n")
    technology = _TECHNOLOGIES.get(image.kind)
    if technology is not None:
        _add_plugin_image(root, technology, image.version)
    return root


def default_command(image: Image) -> list[str] | None:
    """Return the command that an image runs by itself; None if nobody knows."""
    match image.kind:
        case ImageKind.INJECTOR:
            return ["/usr/bin/device_injector"]
        case ImageKind.PAUSE:
            return ["sleep", "infinity"]
        case ImageKind.SHELL:
            return ["bash"]
        case ImageKind.TCPXO_PLUGIN | ImageKind.TCPX_PLUGIN:
            return ["/scripts/container_entry.sh"]
        case ImageKind.TCPXO_DAEMON:
            return ["/fts/entrypoint_rxdm_container.sh"]
    return None


def _add_plugin_image(root: FileTree, technology: Technology, version: str) -> None:
    for name, text in _scripts(technology.value).items():
        root.write(f"/scripts/{name}", text)
    root.write("/scripts/container_entry.sh", f"{BUILT_IN} /scripts/container_entry.sh\n")
    for folder in BENCHMARK_FOLDERS:
        for program in BENCHMARKS:
            root.write(f"{folder}/{program}", f"{BUILT_IN} {program}\n")
    plugin = Plugin(technology=technology, version=version)
    root.write(f"/plugins/{PLUGIN_LIBRARY}", plugin_text(plugin))
    root.write("/third_party/nccl-netsupport/build/lib/libnccl.so.2", f"nccl of {version}\n")


@functools.cache
def _scripts(technology: str) -> dict[str, str]:
    folder = _SCRIPT_FOLDER / technology
    return {path.name: path.read_text() for path in sorted(folder.glob("*.sh"))}
