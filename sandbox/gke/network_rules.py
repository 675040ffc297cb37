"""What GKE says about a GKENetworkParamSet and the Network that refers to it.

Owns: the checks, their order and their reasons, as pure functions. Does not own reading or writing
objects (`sandbox.gke.networks`). Everything here is [facts autopilot.md §4.3] unless a line names
another source; message texts are the sandbox's own, since no source gives Google's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandbox.contracts import Resource
from sandbox.gke.api import KubeObject

_NETWORK_ATTACHMENT = re.compile(r"projects/[^/]+/regions/[^/]+/networkAttachments/[^/]+")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition: status, reason, message."""

    ok: bool
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectView:
    """The part of the cloud that the checks look at."""

    region: str
    cluster_network: str
    """Short name of the cluster's own VPC."""
    shared_vpc: bool
    """Whether that VPC belongs to another project: then VPCs are not looked up."""
    network: Callable[[str], Resource | None]
    subnetwork: Callable[[str], Resource | None]


def check_param_set(
    param_set: KubeObject, others: Sequence[KubeObject], project: ProjectView
) -> Verdict:
    """Decide the `Ready` condition of a parameter set; the first check that fails names it.

    That the subnet lies in the VPC, its MTU, its firewall rules and overlaps are not checked: GKE
    does not either, and a wrong one shows later as bad throughput or a hang.

    Args:
        param_set: The object.
        others: All other parameter sets of the cluster.
        project: What exists in the cloud.
    """
    spec = param_set.get("spec") or {}
    name = param_set["metadata"]["name"]
    vpc, subnet = spec.get("vpc"), spec.get("vpcSubnet")
    ranges = (spec.get("podIPv4Ranges") or {}).get("rangeNames")
    device_mode, attachment = spec.get("deviceMode"), spec.get("networkAttachment")

    if attachment:
        if vpc or subnet or ranges or device_mode:
            return _bad("GNPConfigInvalid", "networkAttachment excludes all other fields")
        if not _NETWORK_ATTACHMENT.fullmatch(attachment):
            return _bad(
                "NetworkAttachmentInvalid",
                f"networkAttachment {attachment!r} is not of the form "
                "projects/PROJECT/regions/REGION/networkAttachments/NAME",
            )
        return Verdict(True, "GNPReady", "")
    if not vpc or not subnet:
        return _bad(
            "GNPConfigInvalid", "spec.vpc and spec.vpcSubnet are required without networkAttachment"
        )
    if not ranges and not device_mode:
        return _bad(
            "SecondaryRangeAndDeviceModeUnspecified",
            "one of spec.podIPv4Ranges and spec.deviceMode is required",
        )
    if ranges and device_mode:
        return _bad(
            "DeviceModeCantBeUsedWithSecondaryRange",
            "spec.deviceMode and spec.podIPv4Ranges are mutually exclusive",
        )
    found = project.subnetwork(subnet)
    if found is None:
        return _bad("SubnetNotFound", f"subnet {subnet!r} not found in region {project.region!r}")
    if not project.shared_vpc and project.network(vpc) is None:
        return _bad("VPCNotFound", f"VPC {vpc!r} not found")
    if ranges:
        present = {entry["rangeName"] for entry in found.get("secondaryIpRanges") or ()}
        for missing in (each for each in ranges if each not in present):
            return _bad(
                "SecondaryRangeNotFound", f"secondary range {missing!r} not found in {subnet!r}"
            )
        return Verdict(True, "GNPReady", "")
    if vpc == project.cluster_network:
        return _bad(
            "DeviceModeCantUseDefaultVPC",
            f"spec.deviceMode cannot use the cluster's own VPC {vpc!r}",
        )
    for other in others:
        same_subnet = (other.get("spec") or {}).get("vpcSubnet") == subnet
        if same_subnet and _age(other) < _age(param_set):
            return _bad(
                "DeviceModeSubnetAlreadyInUse",
                f"subnet {subnet!r} of {name!r} is already in use by the older parameter set "
                f"{other['metadata']['name']!r}",
            )
    return Verdict(True, "GNPReady", "")


def pod_cidrs(param_set: KubeObject, project: ProjectView) -> list[str]:
    """Return the ranges that Pods get addresses from: the subnet's own one in device mode."""
    spec = param_set.get("spec") or {}
    subnet = project.subnetwork(spec["vpcSubnet"]) if spec.get("vpcSubnet") else None
    if subnet is None:
        return []
    wanted = (spec.get("podIPv4Ranges") or {}).get("rangeNames")
    if not wanted:
        return [subnet["ipCidrRange"]]
    by_name = {
        entry["rangeName"]: entry["ipCidrRange"] for entry in subnet.get("secondaryIpRanges") or ()
    }
    return [by_name[name] for name in wanted if name in by_name]


def check_network(network: KubeObject, param_set: KubeObject, param_set_ready: bool) -> Verdict:
    """Decide the `ParamsReady` condition of a Network from the parameter set it refers to."""
    name = param_set["metadata"]["name"]
    spec, params = network["spec"], param_set.get("spec") or {}
    if param_set["metadata"].get("deletionTimestamp"):
        return _bad("GNPDeleted", f"GKENetworkParamSet {name!r} is being deleted")
    if not param_set_ready:
        return _bad("GNPParamsNotReady", f"GKENetworkParamSet {name!r} is not ready")
    if params.get("networkAttachment") and spec["type"] != "Device":
        return _bad(
            "NetworkAttachmentUnsupported", f"type {spec['type']} cannot use a network attachment"
        )
    if spec["type"] == "L3" and not params.get("podIPv4Ranges"):
        return _bad("L3SecondaryMissing", f"type L3 needs spec.podIPv4Ranges in {name!r}")
    if spec["type"] == "Device" and not (
        params.get("deviceMode") or params.get("networkAttachment")
    ):
        return _bad("DeviceModeMissing", f"type Device needs spec.deviceMode in {name!r}")
    return Verdict(True, "GNPParamsReady", "")


def network_ready(params: Verdict) -> Verdict:
    """Decide the `Ready` condition of a Network; a part of GKE that is not public sets it."""
    if params.ok:
        return Verdict(True, "NetworkReady", "")
    return _bad("ParamsNotReady", f"parameters are not ready: {params.reason}")


def refers_to(network: KubeObject, param_set_name: str) -> bool:
    """Whether a Network's parametersRef means this parameter set.

    The kind is compared without regard to case, and the group not at all [facts autopilot.md §4.2].
    """
    reference = network["spec"].get("parametersRef") or {}
    kind = str(reference.get("kind", "")).lower()
    return kind == "gkenetworkparamset" and reference.get("name") == param_set_name


def _age(item: KubeObject) -> tuple[str, str]:
    """Order of creation; equal seconds are told apart by name."""
    return item["metadata"]["creationTimestamp"], item["metadata"]["name"]


def _bad(reason: str, message: str) -> Verdict:
    return Verdict(False, reason, message)
