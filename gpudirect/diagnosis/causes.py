"""Every cause that the diagnosis knows, weightiest first.

Owns identifiers, wording and order. The order is that of a Pod's life: what stops an earlier step
makes everything after it a symptom. Does not own how a cause is recognised (the rule modules).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause.

    Attributes:
        name: Its identifier, a contract of `doctor --json`.
        summary: What it is.
        remedy: What to do about it.
    """

    name: str
    summary: str
    remedy: str


_ORDER: Final = (
    Cause(
        "login-helper-missing",
        "The login helper gke-gcloud-auth-plugin is not on PATH.",
        "Install it with `gcloud components install gke-gcloud-auth-plugin`, or the package of "
        "that name, and put it on PATH.",
    ),
    Cause(
        "admission-denied",
        "Autopilot refused the Pod.",
        "Change what the refusal names.",
    ),
    Cause(
        "multi-networking-missing",
        "The cluster does not know the kinds Network and GKENetworkParamSet: multi-networking is "
        "not enabled on this cluster?",
        "Multi-networking can only be chosen when a cluster is created: create it anew with this "
        "program. On a cluster that is seconds old, try again.",
    ),
    Cause(
        "network-missing",
        "A Network object that the Pods name does not exist.",
        "Run `pulumi refresh` and `pulumi up`: it creates the missing object. If the name is not "
        "one of this stack, use the names in the stack output `networks`.",
    ),
    Cause(
        "network-not-ready",
        "A GPU network is not ready.",
        "Mend what the condition names (VPC, subnet, device mode), then change the object or wait "
        "a minute: GKE looks again when the object changes.",
    ),
    Cause(
        "interfaces-invalid",
        "The annotation networking.gke.io/interfaces of the Pod is wrong.",
        "Write it with a JSON encoder, eth0 on `default` and one device network for each GPU NIC; "
        "`python -m gpudirect inject` does it.",
    ),
    Cause(
        "cluster-too-old",
        "The cluster's version is too old for nodes of this machine.",
        "Raise `clusterVersion` to the version that the event names, or a later one.",
    ),
    Cause(
        "quota-exceeded",
        "The project's quota does not allow the GPU nodes.",
        "Ask for more quota of the machine's GPU family in this region (8 GPUs a node; Spot and "
        "flex-start use the preemptible quota), or choose another region.",
    ),
    Cause(
        "reservation-mismatch",
        "The reservation cannot be used by these Pods.",
        "Compare `reservationName`, `reservationProject`, `zone` and machine type with the "
        "reservation; it must be shared with this project and require to be named.",
    ),
    Cause(
        "zone-without-machine",
        "The zone has no such machine type.",
        "Choose a zone that offers the machine type (config key `zone`).",
    ),
    Cause(
        "placement-refused",
        "Compute Engine refused the compact placement.",
        "Use another `placementGroup`, or none; a group lives in one zone and has one user.",
    ),
    Cause(
        "no-capacity",
        "The zone has no free machines of this type now.",
        "Wait, choose another `zone`, or another `capacity` (reservation, flex-start, spot).",
    ),
    Cause(
        "not-schedulable",
        "No node fits the Pod, and none was asked for.",
        "Compare the Pod's node selectors with what Autopilot offers: accelerator, capacity, "
        "zone; the event names what did not match.",
    ),
    Cause(
        "node-lost",
        "The node of the Pod went away or is not ready.",
        "Run again; Spot and flex-start nodes can be taken back at any time.",
    ),
    Cause(
        "image-not-pulled",
        "An image cannot be pulled.",
        "Check the image reference (config keys `release`, `imageRegistry`), the right to read "
        "the registry, and on private nodes the way out to it.",
    ),
    Cause(
        "installer-missing",
        "The DaemonSet that installs NCCL and the GPUDirect plug-in does not exist.",
        "Run `pulumi refresh` and `pulumi up`: it creates the addons again.",
    ),
    Cause(
        "installer-failed",
        "The installer of NCCL and the GPUDirect plug-in failed on the node.",
        "Read the log of the init container that is named; it says what it could not do.",
    ),
    Cause(
        "injector-missing",
        "The device injector is not there, so the containers have no GPU devices.",
        "Set `deviceInjector: true` and run `pulumi up`, or `pulumi refresh` first if it was "
        "deleted by hand.",
    ),
    Cause(
        "injector-doubled",
        "Two device injectors claim the same device.",
        "GKE brings an injector of its own here: set `deviceInjector: false` and run `pulumi up`.",
    ),
    Cause(
        "devices-missing",
        "A container lacks devices of the node.",
        "The installer must have run on the node, and the device annotation must name the "
        "daemon's container and its devices; `python -m gpudirect inject` writes it.",
    ),
    Cause(
        "installer-waiting",
        "The installer has not finished on the node of the Pod.",
        "Wait about two minutes after a node appears; a Pod that started before needs a restart.",
    ),
    Cause(
        "gpu-count",
        "Fewer GPUs are visible than the machine has.",
        "With 7 of 8, a network beside the stack's own takes a GPU NIC's slot: list only `default` "
        "and the stack's networks. With 0 of 8, the daemon lacks the mount of /sys at /hostsysfs "
        "or its devices. If a node itself has fewer GPUs, delete the node.",
    ),
    Cause(
        "versions-do-not-fit",
        "Plug-in and receive daemon are not of one release.",
        "Take both from one release: `python -m gpudirect inject` sets the daemon, the installer "
        "brings the plug-in; after a change of release restart old Pods.",
    ),
    Cause(
        "daemon-too-old",
        "The receive daemon is older than the kernel of the node wants.",
        "Take a newer release: GKE 1.34 and later need the TCPX daemon v2.0.12 or later.",
    ),
    Cause(
        "capability-missing",
        "The receive daemon lacks a capability.",
        "Add NET_ADMIN (and NET_BIND_SERVICE on A3 Mega) to its container; `python -m gpudirect "
        "inject` does it.",
    ),
    Cause(
        "library-missing",
        "A container does not find the driver's libraries.",
        "Mount /home/kubernetes/bin/nvidia/lib64 of the node at /usr/local/nvidia/lib64 and name "
        "that folder in LD_LIBRARY_PATH.",
    ),
    Cause(
        "daemon-flags",
        "The receive daemon does not know one of its flags.",
        "Use the arguments of its release: `python -m gpudirect releases` shows them.",
    ),
    Cause(
        "daemon-missing",
        "The Pod has no receive daemon beside its GPU containers.",
        "Let `python -m gpudirect inject` add it.",
    ),
    Cause(
        "daemon-stopped",
        "The receive daemon stopped; exit code 0 is no success for it.",
        "Read the daemon's log. On A3 Mega an installer without its device preparation step ends "
        "it without an error.",
    ),
    Cause(
        "checker-aborted",
        "The guest config checker of the plug-in aborted the workload: an NCCL variable is not "
        "what this release wants.",
        "Use the environment of the release's profile: source its profile script or let "
        "`python -m gpudirect inject` write the variables.",
    ),
    Cause(
        "wrong-profile",
        "The NCCL settings are not those of the release's profile.",
        "Source the profile script of the release with NCCL_LIB_DIR set, or let `python -m "
        "gpudirect inject` write the variables.",
    ),
    Cause(
        "wrong-nccl",
        "NCCL or a library of it is not the one that the installer put on the node.",
        "Put /usr/local/nvidia/lib64 first in LD_LIBRARY_PATH, or a compatible NCCL before it.",
    ),
    Cause(
        "old-image",
        "The workload's image is older than the plug-in needs.",
        "Use an image with glibc 2.35 or later: Ubuntu 22.04, Debian 12.",
    ),
    Cause(
        "driver-too-old",
        "The GPU driver of the node is older than CUDA needs.",
        "Select `cloud.google.com/gke-gpu-driver-version: latest`, or a release that fits.",
    ),
    Cause(
        "plugin-not-loaded",
        "NCCL did not load the GPUDirect plug-in and fell back to plain TCP.",
        "The folder /usr/local/nvidia/lib64 of the node must be mounted and be in LD_LIBRARY_PATH "
        "before any other libnccl-net.so.",
    ),
    Cause(
        "apertures-missing",
        "The plug-in does not find its aperture devices.",
        "Mount /dev/aperture_devices, set NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY to it without a "
        "trailing slash; a Pod that started before the installer needs a restart.",
    ),
    Cause(
        "interface-missing",
        "The Pod lacks a network interface that the NCCL settings name.",
        "List one device network for each GPU NIC in networking.gke.io/interfaces (eth1 to eth4 "
        "on A3 High, eth1 to eth8 on A3 Mega).",
    ),
    Cause(
        "nic-unused",
        "NCCL does not use every GPU NIC of a node.",
        "NCCL_FASTRAK_IFNAME (A3 Mega) or NCCL_GPUDIRECTTCPX_SOCKET_IFNAME (A3 High) must name one "
        "interface for each GPU NIC, as the profile does, and networking.gke.io/interfaces must "
        "list them; if the node itself lacks one, delete the node.",
    ),
    Cause(
        "zones-differ",
        "The Pods of one job run in different zones.",
        "Choose one `zone`; all Pods of a job must be in it.",
    ),
    Cause(
        "wrong-mtu",
        "A GPU NIC has another MTU than 8244.",
        "Set the MTU of the VPC back to 8244 (`pulumi refresh`, `pulumi up`) and let the nodes be "
        "made anew: a running VM keeps its MTU.",
    ),
    Cause(
        "daemon-refused",
        "The receive daemon of a Pod refused the connection: it is not there or not ready.",
        "Look at the daemon's container in every Pod of the job; it must run before NCCL starts.",
    ),
    Cause(
        "peers-unreachable",
        "The launcher cannot reach the other Pods of the run over SSH.",
        "Look at the other Pods: each must run its SSH server on port 222, and no NetworkPolicy "
        "may stand between them.",
    ),
    Cause(
        "firewall-closed",
        "The ranks wait for one another: traffic between the GPU NICs does not get through.",
        "Each GPU VPC needs a firewall rule that lets TCP, UDP and ICMP in from the fabric's "
        "ranges: `pulumi refresh` and `pulumi up` restore it.",
    ),
    Cause(
        "stalled",
        "The run stopped in the middle of its table.",
        "Compare the MTU of all GPU networks (8244) and the logs of the receive daemons; a GPU or "
        "NIC that failed on the way looks like this too.",
    ),
    Cause(
        "sidecar-never-ends",
        "The work is done and the receive daemon keeps the Pod, and its GPUs, alive.",
        "Make the daemon an init container with `restartPolicy: Always`; `python -m gpudirect "
        "inject` does it for everything that can end.",
    ),
    Cause(
        "gpu-fault",
        "A GPU reports a hardware error.",
        "Delete the node and run again; if it comes back, tell Google support.",
    ),
    Cause(
        "out-of-memory",
        "A container was killed for its memory use.",
        "Raise its memory request; NCCL also needs /dev/shm as a memory volume.",
    ),
    Cause(
        "quota-of-namespace",
        "A ResourceQuota of the namespace does not allow the Pod.",
        "Raise the ResourceQuota or use another namespace.",
    ),
    Cause(
        "low-bandwidth",
        "The run is complete and slow, and nothing else was found.",
        "Compare what the release says with the Pod: all GPU NICs listed, MTU 8244 on each VPC, "
        "the profile's variables, one zone, compact placement.",
    ),
    Cause(
        "container-failed",
        "A container failed.",
        "Read its log.",
    ),
)

CAUSES: Final[Mapping[str, Cause]] = MappingProxyType({cause.name: cause for cause in _ORDER})


def weight(cause: str) -> int:
    """Return the place of a cause in the order, smallest first; unknown ones come last."""
    return _WEIGHTS.get(cause, len(_WEIGHTS))


_WEIGHTS: Final = {cause.name: index for index, cause in enumerate(_ORDER)}
