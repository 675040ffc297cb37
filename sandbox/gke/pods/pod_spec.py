"""Reading Pod objects.

Owns plain questions about a Pod's spec. Objects come from an API server that checked them, so
only what is optional is handled with care.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KubeObject = dict[str, Any]
GPU_RESOURCE = "nvidia.com/gpu"


def init_containers(pod: KubeObject) -> list[KubeObject]:
    """List the init containers, native sidecars included, in order."""
    return list(pod["spec"].get("initContainers") or [])


def main_containers(pod: KubeObject) -> list[KubeObject]:
    """List the ordinary containers."""
    return list(pod["spec"].get("containers") or [])


def is_sidecar(container: KubeObject) -> bool:
    """Whether an init container goes on running beside the others."""
    return container.get("restartPolicy") == "Always"


def restart_policy(pod: KubeObject) -> str:
    """Return the Pod's restart policy."""
    return str(pod["spec"].get("restartPolicy") or "Always")


def gpu_limit(container: KubeObject) -> int:
    """Return how many GPUs a container asks for."""
    resources = container.get("resources") or {}
    value = (resources.get("limits") or {}).get(GPU_RESOURCE, 0)
    return int(str(value)) if str(value).isdigit() else 0


def gpus_of(pod: KubeObject) -> int:
    """Return how many GPUs a Pod takes from its node."""
    main = sum(gpu_limit(container) for container in main_containers(pod))
    sidecars = sum(gpu_limit(item) for item in init_containers(pod) if is_sidecar(item))
    largest_init = max(
        (gpu_limit(item) for item in init_containers(pod) if not is_sidecar(item)), default=0
    )
    return max(main + sidecars, largest_init)


def annotations_of(pod: KubeObject) -> Mapping[str, str]:
    """Return the annotations."""
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found


def owner_kind(pod: KubeObject) -> str:
    """Return the kind of the controller that made a Pod, or the empty text."""
    for owner in pod["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            return str(owner["kind"])
    return ""


def is_finished(pod: KubeObject) -> bool:
    """Whether all of a Pod's containers ended for good."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def is_going(pod: KubeObject) -> bool:
    """Whether somebody deleted the Pod and it has not gone yet."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def key_of(pod: KubeObject) -> str:
    """Return `namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def waits_for_node(pod: KubeObject) -> bool:
    """Whether the scheduler found no node for a Pod."""
    if pod["spec"].get("nodeName") or is_going(pod) or is_finished(pod):
        return False
    if owner_kind(pod) == "DaemonSet":
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(
        item["type"] == "PodScheduled"
        and item["status"] == "False"
        and item.get("reason") == "Unschedulable"
        for item in conditions
    )
