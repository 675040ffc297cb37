"""The Node object and the VM of a new node.

Owns their fields. Sources: [facts autopilot.md §1.7, §2], labels as GKE sets them.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from sandbox.contracts import ClusterContext, Resource
from sandbox.gke.nccl.hosts import Nic
from sandbox.gke.network_resources import offered_by_node
from sandbox.gke.nodes.decision import NodePlan
from sandbox.gke.nodes.demand import (
    ACCELERATOR,
    DRIVER_VERSION,
    INSTANCE_TYPE,
    PLACEMENT_GROUP,
    REGION,
    SPOT,
    ZONE,
)
from sandbox.gke.nodes.machines import MachineType, machine_named

KubeObject = dict[str, Any]
NICS_ANNOTATION = "networking.gke.io/nic-info"
"""Holds what the simulation must know of a node again after a restart."""
KUBELET_ADDRESS = "127.0.0.1"
"""Where the API server reaches every kubelet; shown as the node's `InternalDNS`."""
_MOST_PODS = 32


def node_labels(plan: NodePlan, name: str, pool: str, region: str) -> dict[str, str]:
    """Return the labels of a node."""
    demand = plan.demand
    labels = {
        key: value
        for key, value in demand.selector.items()
        # What the Pod selects by is there, or the scheduler would not take the node.
        if key.startswith("cloud.google.com/")
    }
    labels |= dict(demand.separated)
    labels |= {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        INSTANCE_TYPE: plan.machine.name,
        ZONE: plan.zone,
        REGION: region,
        "topology.gke.io/zone": plan.zone,
        "cloud.google.com/gke-nodepool": pool,
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/machine-family": plan.machine.family,
        "cloud.google.com/gke-provisioning": _provisioning(plan),
    }
    if plan.machine.gpus:
        labels |= {
            ACCELERATOR: plan.machine.accelerator,
            "cloud.google.com/gke-accelerator-count": str(plan.machine.gpus),
            DRIVER_VERSION: demand.driver_version,
            "cloud.google.com/gke-gpu": "true",
        }
    if demand.spot:
        labels[SPOT] = "true"
    if demand.placement_group:
        # Without compact placement A3 nodes get no topology labels.
        labels |= {
            PLACEMENT_GROUP: demand.placement_group,
            "cloud.google.com/gce-topology-block": f"block-{demand.placement_group}",
            "cloud.google.com/gce-topology-subblock": f"subblock-{demand.placement_group}",
            "cloud.google.com/gce-topology-host": f"host-{name[-4:]}",
        }
    return labels


def node_object(
    plan: NodePlan,
    name: str,
    pool: str,
    address: str,
    nics: Mapping[str, Nic],
    context: ClusterContext,
    *,
    region: str,
    kubelet_port: int,
) -> KubeObject:
    """Make the Node object as a kubelet registers it: ready, with its resources."""
    resources = _resources(plan.machine, nics)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    cluster = context.cluster
    version = str(cluster.get("currentNodeVersion") or cluster.get("currentMasterVersion") or "")
    taints = [
        {"key": key, "value": value, "effect": "NoSchedule"}
        for key, value in plan.demand.separated.items()
    ]
    if plan.machine.gpus:
        taints.append({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": node_labels(plan, name, pool, region),
            "annotations": {
                NICS_ANNOTATION: nics_text(address, nics),
            },
        },
        "spec": {
            "providerID": f"gce://{context.key.project}/{plan.zone}/{name}",
            **({"taints": taints} if taints else {}),
        },
        "status": {
            "phase": "Running",
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "InternalDNS", "address": KUBELET_ADDRESS},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
            "conditions": _conditions(now),
            "nodeInfo": _node_info(version),
        },
    }


def instance_resource(
    plan: NodePlan, name: str, address: str, nics: Mapping[str, Nic], context: ClusterContext
) -> Resource:
    """Make the VM as Compute Engine's API would answer it."""
    project, cluster = context.key.project, context.cluster
    config = cluster.get("networkConfig") or {}
    network = str(config.get("network") or cluster.get("network") or "default")
    subnetwork = str(config.get("subnetwork") or cluster.get("subnetwork") or "default")
    region = plan.zone.rpartition("-")[0]
    interfaces = [_interface(0, project, region, network, subnetwork, address)]
    for number, item in enumerate(plan.networks, start=1):
        nic = nics[item.network_object]
        interfaces.append(
            _interface(number, project, region, item.vpc, item.subnetwork, nic.address)
        )
    return {
        "name": name,
        "machineType": f"projects/{project}/zones/{plan.zone}/machineTypes/{plan.machine.name}",
        "status": "RUNNING",
        "networkInterfaces": interfaces,
        "scheduling": {"provisioningModel": _model(plan)},
        "labels": {
            "goog-k8s-cluster-name": context.key.name,
            "goog-k8s-cluster-location": context.key.location,
            "goog-k8s-node-pool-name": name.rpartition("-")[0],
            "goog-gke-node": "",
        },
    }


def nics_text(address: str, nics: Mapping[str, Nic]) -> str:
    """Write down a node's address and NICs."""
    entries = [
        {"network": key, "vpc": nic.network, "address": nic.address, "mtu": nic.mtu_bytes}
        for key, nic in nics.items()
    ]
    return json.dumps({"address": address, "nics": entries})


def read_nics(node: KubeObject) -> tuple[str, dict[str, Nic]]:
    """Read what `nics_text` wrote; a node without it has no NICs."""
    text = (node["metadata"].get("annotations") or {}).get(NICS_ANNOTATION)
    if not text:
        return "", {}
    found = json.loads(text)
    nics = {
        entry["network"]: Nic(
            interface=f"eth{number}",
            network=entry["vpc"],
            address=entry["address"],
            mtu_bytes=entry["mtu"],
        )
        for number, entry in enumerate(found["nics"], start=1)
    }
    return found["address"], nics


def machine_of(node: KubeObject) -> MachineType | None:
    """Tell a node's machine type from its labels."""
    labels = node["metadata"].get("labels") or {}
    return machine_named(labels.get(INSTANCE_TYPE, ""))


def _resources(machine: MachineType, nics: Mapping[str, Nic]) -> dict[str, str]:
    resources = {
        "cpu": str(machine.cpus - 1),
        "memory": f"{int(machine.memory_gib * 0.97)}Gi",
        "ephemeral-storage": f"{machine.ephemeral_storage_gib}Gi",
        "pods": str(_MOST_PODS),
    }
    if machine.gpus:
        resources["nvidia.com/gpu"] = str(machine.gpus)
    return resources | offered_by_node(nics)


def _provisioning(plan: NodePlan) -> str:
    if plan.demand.spot:
        return "spot"
    return "flex-start" if plan.demand.flex_start else "standard"


def _model(plan: NodePlan) -> str:
    if plan.demand.spot:
        return "SPOT"
    if plan.demand.flex_start:
        return "FLEX_START"
    return "STANDARD"


def _interface(
    number: int, project: str, region: str, network: str, subnetwork: str, address: str
) -> Resource:
    return {
        "name": f"nic{number}",
        "network": _link(network, f"projects/{project}/global/networks"),
        "subnetwork": _link(subnetwork, f"projects/{project}/regions/{region}/subnetworks"),
        "networkIP": address,
        "nicType": "GVNIC",
    }


def _link(name: str, parent: str) -> str:
    path = name if "/" in name else f"{parent}/{name}"
    if path.startswith("https://"):
        return path
    return f"https://www.googleapis.com/compute/v1/{path}"


def _conditions(now: str) -> list[KubeObject]:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
    }
    pressures = [
        {
            "type": name,
            "status": "False",
            "reason": f"KubeletHas{reason}",
            "message": f"kubelet has {text}",
        }
        for name, reason, text in (
            ("MemoryPressure", "SufficientMemory", "sufficient memory available"),
            ("DiskPressure", "NoDiskPressure", "no disk pressure"),
            ("PIDPressure", "SufficientPID", "sufficient PID available"),
        )
    ]
    return [
        item | {"lastHeartbeatTime": now, "lastTransitionTime": now} for item in (*pressures, ready)
    ]


def _node_info(version: str) -> Mapping[str, str]:
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "containerd://2.1.5",
        "kernelVersion": "6.12.55+",
        "kubeProxyVersion": f"v{version}",
        "kubeletVersion": f"v{version}",
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "Container-Optimized OS from Google (simulated)",
        "systemUUID": "",
    }


def pool_name(plan: NodePlan) -> str:
    """Name the node pool; a placement group's name is the pool's [facts autopilot.md §2]."""
    if plan.demand.placement_group:
        return plan.demand.placement_group
    wanted = f"nap-{plan.machine.name.replace('-', '')[:14]}"
    wanted += "-spot" if plan.demand.spot else "-flex" if plan.demand.flex_start else ""
    return wanted if plan.machine.gpus else "pool-1"
