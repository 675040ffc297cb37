"""The receive daemons of both stacks: what they check, what they say, how they end.

Owns their start on a node with its devices, libraries and NICs. Sources: [facts gpudirect.md §5,
§7, §9], google/nccl-plugin-gpudirect-tcpxo (buffer_mgmt_daemon, scripts), field reports R01, R04,
R06, R08.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sandbox.gke.nccl.hosts import Daemon, Technology
from sandbox.gke.nccl.verdict import version_key
from sandbox.gke.pods.container import Container
from sandbox.gke.pods.node_hardware import DRIVER_LIBRARY, IMPORT_HELPER, gpu_devices
from sandbox.gke.pods.shell.process import Process
from sandbox.gke.pods.world import PodRecord

TCPX_SOCKET = "rx_rule_manager"
_LIBRARY_FOLDER = "/usr/local/nvidia/lib64"
_HEALTH_VARIABLE = "HEALTH_CHECK_LOG_FILE"
_READY_SECONDS = 30.0
_EXIT_SECONDS = 5.0
_ALLOWED_NICS = (4, 8)
_RETIRED_FLAGS = {"uid": (1, 0, 18), "alsologtostderr": (1, 0, 18), "num_nics": (1, 0, 20)}
_OPEN_SINCE = (1, 0, 18)
"""From here on the daemon's flags are public, and an unknown one ends it."""
_FLAG_NAMES = (
    "num_hops nics_to_use use_gpu_mem num_gpus_to_use http_port http_num_threads"
    " http_bind_address wait_time_before_exit dmabuf_import_path set_up_llcm keep_eth0"
    " shutdown_when_all_clients_exited nic_metric_directory max_rx_rules verbose v"
    " stderrthreshold minloglevel log_dir"
)
_KNOWN_FLAGS = frozenset(_FLAG_NAMES.split())
_MULTI_NIC_CLUSTER = (1, 34)
_TCPX_ON_NEW_KERNEL = (2, 0, 12)


async def rxdm_entrypoint(process: Process, words: Sequence[str]) -> int:
    """`/fts/entrypoint_rxdm_container.sh` of the TCPXO daemon's image.

    The script's exit code is that of the clean-up after the daemon, so a daemon that could not
    work leaves 0 behind: only its log tells [R04].
    """
    machine = process.machine
    if not isinstance(machine, Container):
        return 1
    errors = await _tune_kernel(process, machine)
    if errors:
        # (inf.) upstream's script goes on to the daemon; the sheet reads that it ends here.
        return errors
    await _run_rxdm(process, machine, words[1:])
    await process.say("Fastrak tuning cleanup completes...")
    return 0


async def _tune_kernel(process: Process, container: Container) -> int:
    await process.say("Fastrak tuning setup starts...")
    files = process.files
    if files.is_folder("/hostsysfs") and files.is_folder("/hostprocsysfs"):
        await process.say("Use mounted '/hostprocsysfs' and '/hostsysfs' .")
    else:
        await process.say("Fall back to '/proc/sys' and '/sys' .")
        for name in ("net/ipv4/conf/all/rp_filter", "net/ipv4/tcp_mtu_probing"):
            await process.complain(f"/proc/sys/{name}: Read-only file system")
        await process.say("Setup incomplete and incorrect! Number of Errors: 2")
        return 2
    if not container.has_capability("NET_ADMIN"):
        for interface in sorted(container.pod.nics):
            await process.complain(f"netlink error: Operation not permitted ({interface})")
        count = max(len(container.pod.nics), 1)
        await process.say(f"Setup incomplete and incorrect! Number of Errors: {count}")
        return count
    await process.say("Fastrak tuning setup completes...")
    return 0


async def _run_rxdm(process: Process, container: Container, flags: Sequence[str]) -> None:
    version = container.image.version
    problem = await _flag_problem(process, flags, version) or _rxdm_problem(process, container)
    if problem:
        await process.complain(problem)
        await container.world.clock.pass_seconds(_EXIT_SECONDS)
        return
    log = "I0000 fastrak_gpumem_manager.cc"
    await process.complain(f"{log} Starting up buffer manager, version: {version.lstrip('v')}")
    await process.complain(f"{log} Number of fabric NICs detected: {len(container.pod.nics)}")
    await container.world.clock.pass_seconds(_READY_SECONDS)
    await process.say("Buffer manager initialization completed.")
    health_file = process.environment.get(_HEALTH_VARIABLE)
    if health_file:
        text = "Buffer manager initialization completed.\n"
        process.files.write(process.path(health_file), text)
    await _serve(container, Daemon(technology=Technology.TCPXO, version=version))


async def _flag_problem(process: Process, flags: Sequence[str], version: str) -> str:
    """Complain about retired flags, and return the text for an unknown one."""
    key = version_key(version)
    for flag in flags:
        name = flag.lstrip("-").partition("=")[0]
        retired = _RETIRED_FLAGS.get(name)
        if retired is not None and key >= retired:
            await process.complain(
                f"E0000 commandlineflag.cc Flag '{name}' is retired and should not be set."
            )
        elif key >= _OPEN_SINCE and name not in _KNOWN_FLAGS and retired is None:
            return f"ERROR: Unknown command line flag '{name}'"
    return ""


def _rxdm_problem(process: Process, container: Container) -> str:
    if not _finds_driver_library(process):
        return _LIBRARY_MISSING.format("/fts/fastrak_gpumem_manager")
    devices = gpu_devices(container.pod.node.machine.gpus)
    if not all(container.has_device(device) for device in devices):
        return "E0000 fastrak_gpumem_manager.cc CUDA initialization failed"
    paired, gpus = _paired_gpus(container.pod), container.pod.node.machine.gpus
    if paired != gpus:
        return (
            "E0000 fastrak_gpumem_manager.cc Number of GPUs detected in the PCI tree"
            f" {paired} is not equal to the actual number of GPUs reported by CUDA {gpus}."
        )
    if len(container.pod.nics) not in _ALLOWED_NICS:
        return (
            "E0000 fastrak_gpumem_manager.cc Incorrect number of fabric NICs detected:"
            f" {len(container.pod.nics)}."
        )
    if (
        not container.has_device(IMPORT_HELPER)
        or container.pod.node.files.read(IMPORT_HELPER) is None
    ):
        address = next(iter(container.pod.nics.values())).address
        return (
            "E0000 fastrak_gpu_mem_importer.cc Memory importer: failed to initialize addr"
            f" translator on NIC IP {address}."
        )
    return ""


def _paired_gpus(pod: PodRecord) -> int:
    """Count the GPUs that have a NIC next to them.

    NICs beyond the machine's slots take the place of GPU NICs [R01].
    """
    machine = pod.node.machine
    if not machine.gpu_nics:
        return 0
    surplus = max(len(pod.node.nics) - machine.gpu_nics, 0)
    usable = max(min(len(pod.nics), machine.gpu_nics) - surplus, 0)
    return usable * machine.gpus // machine.gpu_nics


def _finds_driver_library(process: Process) -> bool:
    folders = [*process.environment.get("LD_LIBRARY_PATH", "").split(":"), _LIBRARY_FOLDER]
    return any(
        folder and process.files.read(process.path(f"{folder}/{DRIVER_LIBRARY}")) is not None
        for folder in folders
    )


_LIBRARY_MISSING = (
    "{}: error while loading shared libraries: "
    + DRIVER_LIBRARY
    + ": cannot open shared object file: No such file or directory"
)


async def tcpgpudmarxd(process: Process, words: Sequence[str]) -> int:
    """`/tcpgpudmarxd/build/app/tcpgpudmarxd` of the TCPX daemon's image."""
    machine = process.machine
    if not isinstance(machine, Container):
        return 1
    problem, code = _tcpx_problem(process, machine, words)
    if problem:
        await process.complain(problem)
        return code
    folder = process.path(_flag(words, "--uds_path") or "/run/tcpx")
    await process.complain(f"I0000 tcpgpudmarxd {machine.image.version}: 4 GPU NICs, preset a3vm")
    await machine.world.clock.pass_seconds(_READY_SECONDS)
    process.files.write(f"{folder}/{TCPX_SOCKET}", "")
    await process.complain(f"I0000 Rx Rule Manager server listens on {folder}/{TCPX_SOCKET}")
    try:
        await _serve(machine, Daemon(technology=Technology.TCPX, version=machine.image.version))
    finally:
        process.files.remove(f"{folder}/{TCPX_SOCKET}")
    return 0


def _tcpx_problem(process: Process, container: Container, words: Sequence[str]) -> tuple[str, int]:
    if not _finds_driver_library(process):
        return _LIBRARY_MISSING.format(words[0]), 127
    if _flag(words, "--gpu_nic_preset") not in {"a3vm", "auto", "manual"}:
        return "F0000 Unsupported GPU NIC preset", 134
    devices = gpu_devices(container.pod.node.machine.gpus)
    if not all(container.has_device(device) for device in devices):
        return "F0000 cuda_context_manager.cc Check failed: cuInit(0) no CUDA device", 134
    if not container.has_capability("NET_ADMIN"):
        return "E0000 ethtool ioctl on eth1: Operation not permitted", 1
    paired, gpus = _paired_gpus(container.pod), container.pod.node.machine.gpus
    if paired != gpus:
        return f"F0000 GPU/NIC pairs: found {paired} GPUs with a NIC, CUDA reports {gpus}", 134
    version = version_key(container.image.version)
    if _cluster_minor(container) >= _MULTI_NIC_CLUSTER and version < _TCPX_ON_NEW_KERNEL:
        # [facts gpudirect.md §9 row 28]: from 1.34 on at least daemon v2.0.12.
        return "E0000 setsockopt(SO_DEVMEM_DONTNEED): Protocol not available", 1
    return "", 0


def _cluster_minor(container: Container) -> tuple[int, int]:
    version = str(container.world.context.cluster.get("currentMasterVersion") or "")
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _flag(words: Sequence[str], name: str) -> str:
    for position, word in enumerate(words):
        if word == name and position + 1 < len(words):
            return words[position + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


async def _serve(container: Container, daemon: Daemon) -> None:
    """Be healthy until ended."""
    container.pod.daemon = daemon
    container.world.news.changed()
    try:
        await container.sleep_for_ever()
    finally:
        container.pod.daemon = None
        container.world.news.changed()
