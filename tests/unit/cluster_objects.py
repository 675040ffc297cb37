"""Kubernetes objects in the API's JSON form, as small as a diagnosis needs them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Document = dict[str, Any]

NAMESPACE = "gpudirect-system"
NODE = "gk3-demo-node-1"
NETWORKS = [f"vpc{number}" for number in range(1, 9)]
RUNNING: Document = {"running": {"startedAt": "2026-12-01T10:00:00Z"}}


def ended(code: int, at: str = "2026-12-01T10:05:00Z", **more: str) -> Document:
    reason = "Completed" if code == 0 else "Error"
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at, **more}}


def waiting(reason: str, message: str = "") -> Document:
    return {"waiting": {"reason": reason, "message": message}}


def interfaces(networks: Sequence[str] = NETWORKS) -> str:
    entries = [{"interfaceName": "eth0", "network": "default"}]
    entries += [
        {"interfaceName": f"eth{number}", "network": name}
        for number, name in enumerate(networks, start=1)
    ]
    return json.dumps(entries)


def gpu_pod(
    name: str = "nccl-test-0",
    *,
    test: Document | None = RUNNING,
    daemon: Document | None = RUNNING,
    node: str | None = NODE,
    native_sidecar: bool = True,
    annotations: Document | None = None,
    env: Sequence[Document] = (),
    phase: str = "Running",
) -> Document:
    """Return a Pod of a test; `daemon=None` leaves the daemon out."""
    gpus = {"limits": {"nvidia.com/gpu": 8}}
    test_spec = {"name": "nccl-test", "resources": gpus, "env": list(env)}
    daemon_spec = {"name": "tcpxo-daemon"}
    test_status = {"name": "nccl-test", "ready": test == RUNNING, "state": test or {}}
    daemon_status = {"name": "tcpxo-daemon", "ready": daemon == RUNNING, "state": daemon}
    spec: Document = {"restartPolicy": "Never", "containers": [test_spec]}
    status: Document = {"phase": phase, "containerStatuses": [test_status]}
    if daemon is not None:
        kind = "initContainers" if native_sidecar else "containers"
        statuses = "initContainerStatuses" if native_sidecar else "containerStatuses"
        spec.setdefault(kind, []).insert(0, daemon_spec)
        status.setdefault(statuses, []).insert(0, daemon_status)
    if node is not None:
        spec["nodeName"] = node
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "annotations": annotations or {"networking.gke.io/interfaces": interfaces()},
            "ownerReferences": [{"kind": "Job", "name": "nccl-test", "controller": True}],
        },
        "spec": spec,
        "status": status,
    }


def pending_pod(name: str = "nccl-test-0") -> Document:
    """Return a Pod that no node has taken."""
    pod = gpu_pod(name, test=None, node=None, phase="Pending")
    pod["status"] = {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no nodes available to schedule pods",
            }
        ],
    }
    return pod


def event(pod: Document, reason: str, message: str) -> Document:
    metadata = pod["metadata"]
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }


def owner_event(kind: str, name: str, reason: str, message: str) -> Document:
    involved = {"kind": kind, "name": name, "namespace": NAMESPACE}
    return {"reason": reason, "message": message, "involvedObject": involved}


def addon_pod(addon: str, *, node: str = NODE, ready: bool = True) -> Document:
    """Return a Pod of an addon's DaemonSet."""
    return {
        "metadata": {
            "name": f"{addon}-x7k2p",
            "namespace": NAMESPACE,
            "ownerReferences": [{"kind": "DaemonSet", "name": addon, "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "pause"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": "pause", "ready": ready, "state": RUNNING}],
        },
    }


def daemonset(name: str, nodes: int = 1, ready: int | None = None) -> Document:
    ready = nodes if ready is None else ready
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "generation": 1},
        "status": {
            "observedGeneration": 1,
            "desiredNumberScheduled": nodes,
            "numberReady": ready,
            "updatedNumberScheduled": nodes,
        },
    }


def network(name: str, *, ready: str | None = "True", reason: str = "NetworkReady") -> Document:
    condition = {"type": "Ready", "status": ready, "reason": reason}
    return {
        "kind": "Network",
        "metadata": {"name": name},
        "spec": {
            "type": "Device",
            "parametersRef": {"kind": "GKENetworkParamSet", "name": f"{name}-params"},
        },
        "status": {"conditions": [condition] if ready is not None else []},
    }


def parameter_set(
    name: str, *, ready: str = "True", reason: str = "GNPReady", message: str = ""
) -> Document:
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": message}
    return {
        "kind": "GKENetworkParamSet",
        "metadata": {"name": f"{name}-params"},
        "status": {"conditions": [condition]},
    }


def gpu_node(name: str = NODE, *, gpus: int = 8, zone: str = "us-central1-c") -> Document:
    return {
        "metadata": {
            "name": name,
            "labels": {
                "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb",
                "topology.kubernetes.io/zone": zone,
            },
        },
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def healthy(**changes: Any) -> dict[str, Any]:
    """Return the parts of an evidence in which nothing is wrong, with changes."""
    parts: dict[str, Any] = {
        "pods": [
            gpu_pod("nccl-test-0"),
            gpu_pod("nccl-test-1", node="gk3-demo-node-2"),
            *(
                addon_pod(addon, node=node)
                for addon in ("nccl-tcpxo-installer", "device-injector")
                for node in (NODE, "gk3-demo-node-2")
            ),
        ],
        "networks": [network(name) for name in NETWORKS],
        "parameter_sets": [parameter_set(name) for name in NETWORKS],
        "daemonsets": [daemonset("nccl-tcpxo-installer", 2), daemonset("device-injector", 2)],
        "nodes": [gpu_node(), gpu_node("gk3-demo-node-2")],
    }
    return parts | changes
