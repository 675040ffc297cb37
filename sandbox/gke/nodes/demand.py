"""What a pending Pod asks of its node.

Owns reading selectors, affinities, ComputeClass and network annotation into one description.
Sources: [facts autopilot.md §1.1, §1.5, §1.6].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox.gke.pods.interfaces import (
    INTERFACES_ANNOTATION,
    Interface,
    InterfacesError,
    additional,
    read_interfaces,
)
from sandbox.gke.pods.pod_spec import annotations_of, gpus_of, init_containers, main_containers

KubeObject = dict[str, Any]
ACCELERATOR = "cloud.google.com/gke-accelerator"
COMPUTE_CLASS = "cloud.google.com/compute-class"
SPOT = "cloud.google.com/gke-spot"
FLEX_START = "cloud.google.com/gke-flex-start"
PLACEMENT_GROUP = "cloud.google.com/gke-placement-group"
RESERVATION = "cloud.google.com/reservation-name"
DRIVER_VERSION = "cloud.google.com/gke-gpu-driver-version"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
_BUILT_IN_CLASSES = frozenset(
    {"Accelerator", "Performance", "Balanced", "Scale-Out", "general-purpose", "autopilot"}
)
_UNITS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "K": 10**3, "M": 10**6,
    "G": 10**9, "T": 10**12, "m": 1e-3, "": 1,
}  # fmt: skip


class DemandError(Exception):
    """No node can be made for the Pod; the text is the autoscaler's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """One Pod's wishes."""

    gpus: int
    cpus: float
    memory_gib: float
    storage_gib: float
    selector: Mapping[str, str]
    """The node selector, and what a required node affinity adds with a single value."""
    zones: frozenset[str] | None = None
    accelerator: str = ""
    machine_type: str = ""
    spot: bool = False
    flex_start: bool = False
    reservation: str = ""
    placement_group: str = ""
    driver_version: str = "default"
    interfaces: tuple[Interface, ...] = ()
    """Additional networks; a list that cannot be read leaves none, as on GKE [R03]."""
    separated: Mapping[str, str] = field(default_factory=dict)
    """Labels of the user's own that a toleration repeats: workload separation."""


def read_demand(pod: KubeObject, classes: Mapping[str, KubeObject]) -> list[Demand]:
    """Read a Pod's wishes: one, or several to be tried in order for a ComputeClass.

    Args:
        pod: The Pod.
        classes: The cluster's ComputeClasses by name.

    Raises:
        DemandError: the wishes contradict themselves.
    """
    selector = _selector(pod)
    cpus, memory, storage = _requests(pod)
    zones = _zones(pod, selector)
    base = Demand(
        gpus=gpus_of(pod),
        cpus=cpus,
        memory_gib=memory / 2**30,
        storage_gib=storage / 2**30,
        selector=selector,
        zones=zones,
        accelerator=selector.get(ACCELERATOR, ""),
        machine_type=selector.get(INSTANCE_TYPE, ""),
        spot=selector.get(SPOT) == "true",
        flex_start=selector.get(FLEX_START) == "true",
        reservation=selector.get(RESERVATION, ""),
        placement_group=selector.get(PLACEMENT_GROUP, ""),
        driver_version=selector.get(DRIVER_VERSION, "default"),
        interfaces=_interfaces(pod),
        separated=_separated(pod, selector),
    )
    if base.flex_start and base.spot:
        raise DemandError("pod has misconfigured Flex Start selectors")
    name = selector.get(COMPUTE_CLASS, "")
    if not name or name in _BUILT_IN_CLASSES:
        return [base]
    chosen = classes.get(name)
    if chosen is None:
        raise DemandError(f'Pod incompatible with requested ComputeClass: "{name}" not found')
    return _by_class(base, chosen)


def _by_class(base: Demand, chosen: KubeObject) -> list[Demand]:
    spec = chosen.get("spec") or {}
    if not (spec.get("nodePoolAutoCreation") or {}).get("enabled"):
        raise DemandError(
            "Pod incompatible with requested ComputeClass: node pool auto-creation is not enabled"
        )
    found = []
    for rule in spec.get("priorities") or []:
        gpu = rule.get("gpu") or {}
        location = rule.get("location") or {}
        specific = (rule.get("reservations") or {}).get("specific") or [{}]
        zones = frozenset(location.get("zones") or [])
        found.append(
            replace(
                base,
                accelerator=gpu.get("type", ""),
                machine_type=rule.get("machineType", ""),
                spot=bool(rule.get("spot")),
                flex_start=bool((rule.get("flexStart") or {}).get("enabled")),
                reservation=specific[0].get("name", ""),
                driver_version=gpu.get("driverVersion", "default"),
                zones=zones & base.zones if zones and base.zones else (zones or base.zones),
            )
        )
    if not found:
        raise DemandError("Pod incompatible with requested ComputeClass: it has no priorities")
    return found


def _selector(pod: KubeObject) -> dict[str, str]:
    selector = dict(pod["spec"].get("nodeSelector") or {})
    for term in _required_terms(pod)[:1]:
        for expression in term.get("matchExpressions") or []:
            values = expression.get("values") or []
            if expression.get("operator") == "In" and len(values) == 1:
                selector.setdefault(expression["key"], values[0])
    return selector


def _required_terms(pod: KubeObject) -> list[KubeObject]:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or [])


def _zones(pod: KubeObject, selector: Mapping[str, str]) -> frozenset[str] | None:
    if ZONE in selector:
        return frozenset({selector[ZONE]})
    found = [
        frozenset(expression.get("values") or [])
        for term in _required_terms(pod)
        for expression in term.get("matchExpressions") or []
        if expression.get("key") == ZONE and expression.get("operator") == "In"
    ]
    return frozenset().union(*found) if found else None


def _interfaces(pod: KubeObject) -> tuple[Interface, ...]:
    try:
        found = read_interfaces(annotations_of(pod).get(INTERFACES_ANNOTATION))
    except InterfacesError:
        return ()
    return tuple(additional(found))


def _separated(pod: KubeObject, selector: Mapping[str, str]) -> dict[str, str]:
    own = {key: value for key, value in selector.items() if not _is_known(key)}
    tolerated = {
        item.get("key")
        for item in pod["spec"].get("tolerations") or []
        if item.get("effect", "NoSchedule") == "NoSchedule"
    }
    unknown = [key for key in own if key not in tolerated]
    if unknown:
        raise DemandError(
            f"1 node(s) didn't match Pod's node affinity/selector ({unknown[0]}={own[unknown[0]]})"
        )
    return own


def _is_known(key: str) -> bool:
    domain = key.partition("/")[0]
    return domain in {
        "cloud.google.com",
        "kubernetes.io",
        "beta.kubernetes.io",
        "node.kubernetes.io",
        "topology.kubernetes.io",
        "topology.gke.io",
        "iam.gke.io",
        "networking.gke.io",
        "autoscaling.gke.io",
    }


def _requests(pod: KubeObject) -> tuple[float, float, float]:
    """Return CPUs, bytes of memory and of ephemeral storage that the whole Pod requests."""
    containers = main_containers(pod)
    containers += [item for item in init_containers(pod) if item.get("restartPolicy") == "Always"]
    totals = [0.0, 0.0, 0.0]
    for container in containers:
        resources = container.get("resources") or {}
        wanted = (resources.get("limits") or {}) | (resources.get("requests") or {})
        for position, name in enumerate(("cpu", "memory", "ephemeral-storage")):
            totals[position] += quantity(wanted.get(name, "0"))
    return totals[0], totals[1], totals[2]


def quantity(value: object) -> float:
    """Read a resource quantity such as `500m`, `2Gi` or `100`; what is none counts as 0."""
    text = str(value)
    for unit in sorted(_UNITS, key=len, reverse=True):
        if unit and text.endswith(unit):
            number = text[: -len(unit)]
            break
    else:
        unit, number = "", text
    try:
        return float(number) * _UNITS[unit]
    except ValueError:
        return 0.0
