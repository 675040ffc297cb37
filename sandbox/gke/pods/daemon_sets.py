"""Which DaemonSets will put a Pod on a node.

Owns matching their node selectors and affinities with a node's labels, as the DaemonSet
controller does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.gke.pods.images import ImageKind, parse_image
from sandbox.gke.pods.world import World

KubeObject = dict[str, Any]


def expects_injector(world: World, node: str) -> bool:
    """Whether a device injector belongs on a node, by a DaemonSet that is there now."""
    labels = world.node_labels.get(node, {})
    return any(
        _runs_injector(item) and runs_on(item, labels) for item in world.daemon_sets.values()
    )


def runs_on(daemon_set: KubeObject, labels: Mapping[str, str]) -> bool:
    """Whether a DaemonSet wants a Pod on a node with some labels."""
    spec = daemon_set["spec"]["template"]["spec"]
    selector = spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    return not terms or any(
        all(_matches(item, labels) for item in term.get("matchExpressions") or []) for term in terms
    )


def _matches(expression: KubeObject, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def _runs_injector(daemon_set: KubeObject) -> bool:
    for container in daemon_set["spec"]["template"]["spec"].get("containers") or []:
        image = parse_image(container.get("image", ""))
        if image is not None and image.kind is ImageKind.INJECTOR:
            return True
    return False
