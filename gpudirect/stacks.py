"""The two GPU stacks: machine, NICs, devices and what the receive daemon needs on each.

Owns what the hardware and its node image decide. Does not own versions, images and NCCL settings
(`releases`), which change without the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

LIBRARY_PATH = "/usr/local/nvidia/lib64"
"""Folder of NCCL, plug-in and driver libraries in a container [facts gpudirect.md §12]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostMount:
    """A folder of the node inside a container."""

    volume: str
    host_path: str
    mount_path: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SocketFolder:
    """One emptyDir that daemon and workload see at different paths [facts gpudirect.md §5]."""

    daemon_path: str
    workload_path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuStack:
    """What a machine type and its GPUDirect technology ask for.

    Attributes:
        name: Value of the config key `gpuStack`.
        technology: Name of the technology.
        machine_type: Compute Engine machine type; no other A3 type is supported (the page).
        accelerator: Value of the node label `cloud.google.com/gke-accelerator`.
        gpu_family: Dimension `gpu_family` of the GPU quota.
        nic_count: GPU NICs of a node, each in a VPC of its own.
        gpus_per_node: GPUs of a node; a workload takes all of them.
        installer: Name of the installer DaemonSet.
        daemon_container: Name of the receive daemon's container.
        devices: Paths that the device annotation lists, in order [facts gpudirect.md §4].
        daemon_capabilities: Capabilities of the daemon.
        daemon_mounts: Folders of the node in the daemon.
        daemon_requests: Resource requests of the daemon, as published.
        workload_mounts: Folders of the node in each GPU container.
        workload_environment: Variables of each GPU container beside the NCCL profile.
        socket: The folder of the daemon's sockets, where the technology has one.
        health_check: Variable and file by which the daemon says that it is ready.
        exclusive_label: Pod label that keeps a second such Pod off the node.
        shared_memory_size: Size of `/dev/shm` in each GPU container.
        library_path: Folder of the libraries in each container.
    """

    name: str
    technology: str
    machine_type: str
    accelerator: str
    gpu_family: str
    nic_count: int
    installer: str
    daemon_container: str
    devices: tuple[str, ...]
    daemon_capabilities: tuple[str, ...]
    daemon_mounts: tuple[HostMount, ...]
    workload_mounts: tuple[HostMount, ...]
    exclusive_label: tuple[str, str]
    workload_environment: Mapping[str, str] = field(default_factory=dict)
    daemon_requests: Mapping[str, str] = field(default_factory=dict)
    socket: SocketFolder | None = None
    health_check: tuple[str, str] | None = None
    gpus_per_node: int = 8
    shared_memory_size: str = "1Gi"
    library_path: str = LIBRARY_PATH

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Names of the GPU NICs in a Pod, eth1 to ethN; eth0 is the Pod's own network."""
        return tuple(f"eth{number}" for number in range(1, self.nic_count + 1))

    @property
    def default_network_names(self) -> tuple[str, ...]:
        """Names of the cluster's `Network` objects, vpc1 to vpcN, unless config says otherwise."""
        return tuple(f"vpc{number}" for number in range(1, self.nic_count + 1))


_HOST_LIBRARIES = "/home/kubernetes/bin/nvidia/lib64"
_GPU_DEVICES = (
    *(f"/dev/nvidia{number}" for number in range(8)),
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
)
_DAEMON_MOUNTS = (
    HostMount(volume="libraries", host_path=_HOST_LIBRARIES, mount_path=LIBRARY_PATH),
    HostMount(volume="sys", host_path="/sys", mount_path="/hostsysfs"),
    HostMount(volume="proc-sys", host_path="/proc/sys", mount_path="/hostprocsysfs"),
)
# Autopilot's published samples mount libraries read-only into workloads [facts autopilot.md §3.3].
_WORKLOAD_LIBRARIES = HostMount(
    volume="libraries", host_path=_HOST_LIBRARIES, mount_path=LIBRARY_PATH, read_only=True
)
_APERTURES = "/dev/aperture_devices"

A3_MEGA = GpuStack(
    name="a3-mega",
    technology="GPUDirect-TCPXO",
    machine_type="a3-megagpu-8g",
    accelerator="nvidia-h100-mega-80gb",
    gpu_family="NVIDIA_H100_MEGA",
    nic_count=8,
    installer="nccl-tcpxo-installer",
    daemon_container="tcpxo-daemon",
    devices=(*_GPU_DEVICES, "/dev/dmabuf_import_helper"),
    daemon_capabilities=("NET_ADMIN", "NET_BIND_SERVICE"),
    daemon_mounts=_DAEMON_MOUNTS,
    workload_mounts=(
        _WORKLOAD_LIBRARIES,
        HostMount(volume="aperture-devices", host_path=_APERTURES, mount_path=_APERTURES),
    ),
    exclusive_label=("tcpxo", "daemon"),
    workload_environment=MappingProxyType(
        {"NCCL_LIB_DIR": LIBRARY_PATH, "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": _APERTURES}
    ),
    health_check=("HEALTH_CHECK_LOG_FILE", "/run/health-check"),
)

A3_HIGH = GpuStack(
    name="a3-high",
    technology="GPUDirect-TCPX",
    machine_type="a3-highgpu-8g",
    accelerator="nvidia-h100-80gb",
    gpu_family="NVIDIA_H100",
    nic_count=4,
    installer="nccl-tcpx-installer",
    daemon_container="tcpx-daemon",
    devices=_GPU_DEVICES,
    daemon_capabilities=("NET_ADMIN",),
    daemon_mounts=_DAEMON_MOUNTS,
    workload_mounts=(_WORKLOAD_LIBRARIES,),
    exclusive_label=("tcpx", "daemon"),
    daemon_requests=MappingProxyType({"cpu": "1", "memory": "2Gi", "ephemeral-storage": "10Gi"}),
    socket=SocketFolder(daemon_path="/run/tcpx", workload_path="/tmp"),  # noqa: S108 - in the Pod
)

STACKS: Mapping[str, GpuStack] = MappingProxyType({s.name: s for s in (A3_MEGA, A3_HIGH)})
