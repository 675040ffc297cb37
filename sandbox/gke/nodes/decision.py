"""Autopilot's decision: which node a pending Pod gets, or why it gets none.

Owns the rules as a pure function of the Pod's wishes and of what exists. Does not own making the
node (`provisioner`). Sources: [facts autopilot.md §0, §1, §2], [facts google-cloud.md §6.5].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.contracts import CloudView
from sandbox.gke.nodes.demand import Demand
from sandbox.gke.nodes.machines import (
    A3_HIGH,
    MachineType,
    machine_for_gpus,
    machine_named,
    ordinary_machine,
)

KubeObject = dict[str, Any]
_PLACEMENT_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_PLACEMENT_NAME = 40
_AT_RISK = "Pod is at risk of not being scheduled."
_A3_HIGH_FLOORS = {(1, 34): (1, 34, 5, 1153000), (1, 35): (1, 35, 2, 1485000)}
"""Below these GKE makes no A3 High nodes [facts gpudirect.md §9 row 28]."""
NOT_TRIGGERED = "NotTriggerScaleUp"
FAILED = "FailedScaleUp"


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkPlan:
    """One additional NIC of a new node."""

    network_object: str
    vpc: str
    subnetwork: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePlan:
    """A node to make."""

    machine: MachineType
    zone: str
    demand: Demand
    networks: tuple[NetworkPlan, ...]

    @property
    def preemptible(self) -> bool:
        """Whether it counts against the preemptible quota: Spot and flex-start do."""
        return self.demand.spot or self.demand.flex_start


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """No node now."""

    reason: str
    """Reason of the event on the Pod."""
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What exists around the decision."""

    cloud: CloudView
    project: str
    region: str
    version: str
    networks: Mapping[str, KubeObject]
    param_sets: Mapping[str, KubeObject]
    group_zones: Mapping[str, str]
    """Zones of the placement groups that have nodes."""
    preferred_zones: Sequence[str] = ()
    """Zones to try first: where Pods of the same owner already are."""


def decide(demands: Sequence[Demand], around: Circumstances) -> NodePlan | Refusal:
    """Decide on a node; a ComputeClass's rules are tried in order.

    Args:
        demands: What the Pod wishes, in order of preference; at least one.
        around: What exists.
    """
    refusal: Refusal | None = None
    for demand in demands:
        found = _decide(demand, around)
        if isinstance(found, NodePlan):
            return found
        refusal = refusal or found
    return refusal or _not_triggered("1 node(s) didn't match Pod's node affinity/selector")


def _decide(demand: Demand, around: Circumstances) -> NodePlan | Refusal:
    machine = _machine(demand)
    if isinstance(machine, Refusal):
        return machine
    for check in (_fits, _version_allows):
        refusal = check(demand, machine, around)
        if refusal is not None:
            return refusal
    networks = _networks(demand, around)
    if isinstance(networks, Refusal):
        return networks
    zones = _zones(demand, around)
    if isinstance(zones, Refusal):
        return zones
    zone = _zone_with_room(demand, machine, zones, around)
    if isinstance(zone, Refusal):
        return zone
    return NodePlan(machine=machine, zone=zone, demand=demand, networks=networks)


def _machine(demand: Demand) -> MachineType | Refusal:
    mismatch = _not_triggered("1 node(s) didn't match Pod's node affinity/selector")
    if not demand.gpus:
        if demand.accelerator:
            return mismatch
        machine = ordinary_machine(demand.cpus, demand.memory_gib)
        return machine or _not_triggered("1 Insufficient cpu, 1 Insufficient memory")
    if demand.machine_type:
        named = machine_named(demand.machine_type)
        if named is None or named.gpus < demand.gpus:
            return mismatch
        if demand.accelerator and named.accelerator != demand.accelerator:
            return mismatch
        return named
    found = machine_for_gpus(demand.accelerator, demand.gpus)
    if found is None:
        return mismatch
    partial = found.gpus < A3_HIGH.gpus and not (demand.spot or demand.flex_start)
    # 1, 2 and 4 GPUs exist on Spot and flex-start alone.
    return mismatch if partial else found


def _fits(demand: Demand, machine: MachineType, _: Circumstances) -> Refusal | None:
    lacking = []
    if demand.cpus > machine.cpus - 1:
        lacking.append("1 Insufficient cpu")
    if demand.memory_gib > machine.memory_gib * 0.97:
        lacking.append("1 Insufficient memory")
    if demand.storage_gib > machine.ephemeral_storage_gib:
        lacking.append("1 Insufficient ephemeral-storage")
    return _not_triggered(", ".join(lacking)) if lacking else None


def _version_allows(_: Demand, machine: MachineType, around: Circumstances) -> Refusal | None:
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)-gke\.(\d+)", around.version)
    if match is None or machine != A3_HIGH:
        return None
    version = tuple(int(part) for part in match.groups())
    floor = _A3_HIGH_FLOORS.get((version[0], version[1]))
    if floor is None or version >= floor:
        return None
    wanted = f"{floor[0]}.{floor[1]}.{floor[2]}-gke.{floor[3]}"
    return _not_triggered(
        f"node pools of {machine.name} need version {wanted} or later, the cluster has"
        f" {around.version}"
    )


def _networks(demand: Demand, around: Circumstances) -> tuple[NetworkPlan, ...] | Refusal:
    """Map the Pod's networks to VPCs; order on the VM is that of the interface names."""
    found = []
    for interface in demand.interfaces:
        network = around.networks.get(interface.network)
        if network is None:
            return _not_triggered(f'Network "{interface.network}" not found')
        reference = (network.get("spec") or {}).get("parametersRef") or {}
        param_set = around.param_sets.get(reference.get("name", ""))
        status = (param_set or {}).get("status") or {}
        ready = _is_true(network, "ParamsReady") and status.get("networkName")
        if param_set is None or not ready:
            return _not_triggered(
                f'GKENetworkParamSet "{reference.get("name", "")}" for Network'
                f' "{interface.network}" not found'
            )
        spec = param_set["spec"]
        found.append(
            NetworkPlan(
                network_object=interface.network,
                # Written as a path or as a name; both mean the same VPC.
                vpc=str(spec.get("vpc", "")).rpartition("/")[2],
                subnetwork=str(spec.get("vpcSubnet", "")).rpartition("/")[2],
            )
        )
    return tuple(found)


def _is_true(item: KubeObject, condition: str) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def _zones(demand: Demand, around: Circumstances) -> list[str] | Refusal:
    zones = [
        zone
        for zone in around.cloud.zones(around.region)
        if demand.zones is None or zone in demand.zones
    ]
    if not zones:
        return _not_triggered("1 node(s) didn't match Pod's node affinity/selector")
    group = demand.placement_group
    if group:
        if not _PLACEMENT_NAME.fullmatch(group) or len(group) > _LONGEST_PLACEMENT_NAME:
            return _not_triggered(f'placement group name "{group}" is invalid')
        if demand.zones is not None and len(demand.zones) > 1:
            return _not_triggered("Cannot create node pool for multiple specified locations")
        taken = around.group_zones.get(group)
        if taken is not None:
            if taken not in zones:
                return _not_triggered(f"node group {group} already exists in {taken}")
            return [taken]
    return sorted(zones, key=_preference(around.preferred_zones, zones))


def _preference(preferred: Sequence[str], zones: Sequence[str]) -> Callable[[str], tuple[int, int]]:
    order = list(zones)

    def rank(zone: str) -> tuple[int, int]:
        return (0 if zone in preferred else 1, order.index(zone))

    return rank


def _zone_with_room(
    demand: Demand, machine: MachineType, zones: Sequence[str], around: Circumstances
) -> str | Refusal:
    if not machine.gpus:
        return zones[0]
    preemptible = demand.spot or demand.flex_start
    left = around.cloud.gpu_quota_left(
        around.project, around.region, machine.accelerator, spot=preemptible
    )
    stocked = [
        zone
        for zone in zones
        if around.cloud.machine_capacity(around.project, zone, machine.name, spot=preemptible) > 0
    ]
    shown = ", ".join(zones)
    start = f"Node scale up in zones {shown} associated with this pod failed:"
    if left < machine.gpus:
        return Refusal(reason=FAILED, message=f"{start} GCE quota exceeded. {_AT_RISK}")
    if not stocked:
        return Refusal(reason=FAILED, message=f"{start} GCE out of resources. {_AT_RISK}")
    return stocked[0]


def _not_triggered(why: str) -> Refusal:
    return Refusal(reason=NOT_TRIGGERED, message=f"pod didn't trigger scale-up: {why}")
