"""The files that a node has before anything was installed on it.

Owns what GKE and the hardware bring: the GPU driver's devices and libraries, the PCI devices, the
network interfaces. Sources: [facts gpudirect.md §2, §4 and §12].
"""

from __future__ import annotations

from sandbox.gke.nccl.hosts import Nic
from sandbox.gke.nodes.machines import A3_MEGA, MachineType
from sandbox.gke.pods.files import FileTree
from sandbox.gke.pods.world import Node

DRIVER_FOLDER = "/home/kubernetes/bin/nvidia"
LIBRARY_FOLDER = f"{DRIVER_FOLDER}/lib64"
DRIVER_LIBRARY = "libcuda.so.1"
IMPORT_HELPER = "/dev/dmabuf_import_helper"
PCI_FOLDER = "/sys/bus/pci/devices"
APERTURE_ID = ("0x1ae0", "0x0084")
_APERTURE_COUNT = 8


def gpu_devices(count: int) -> tuple[str, ...]:
    """List the device files of the GPU driver."""
    gpus = tuple(f"/dev/nvidia{number}" for number in range(count))
    return (*gpus, "/dev/nvidiactl", "/dev/nvidia-uvm")


def aperture_addresses(machine: MachineType) -> tuple[str, ...]:
    """List the PCI addresses of the LLCM apertures; only A3 Mega has them."""
    if machine != A3_MEGA:
        return ()
    return tuple(f"0000:{bus:02x}:00.1" for bus in range(0x06, 0x06 + _APERTURE_COUNT))


def make_node(
    name: str, machine: MachineType, zone: str, address: str, nics: dict[str, Nic]
) -> Node:
    """Make a node as it is when its kubelet starts.

    Args:
        name: Name of the Node object.
        machine: Its machine type.
        zone: Its zone.
        address: Its address in the cluster's own VPC.
        nics: GPU NICs by the name of their `Network` object.
    """
    files = FileTree()
    for folder in ("/var/lib", "/var/run/nri", "/sys", "/proc/sys", "/dev", "/tmp", "/var/log"):  # noqa: S108
        files.make_folder(folder)
    files.write("/sys/class/net/eth0/address", "42:01:0a:80:00:02\n")
    for number in range(1, len(nics) + 1):
        files.write(f"/sys/class/net/eth{number}/address", f"42:01:c0:a8:{number:02x}:02\n")
    if machine.gpus:
        for device in gpu_devices(machine.gpus):
            files.write(device, "")
        files.write(f"{LIBRARY_FOLDER}/{DRIVER_LIBRARY}", "driver\n")
        files.write(f"{DRIVER_FOLDER}/bin/nvidia-smi", "driver\n")
    for aperture in aperture_addresses(machine):
        vendor, device = APERTURE_ID
        files.write(f"{PCI_FOLDER}/{aperture}/vendor", f"{vendor}\n")
        files.write(f"{PCI_FOLDER}/{aperture}/device", f"{device}\n")
        files.write(f"{PCI_FOLDER}/{aperture}/resource4", "")
    return Node(name=name, machine=machine, zone=zone, files=files, address=address, nics=nics)
