"""Causes outside of any one Pod: networks, addons, nodes, and errors that a caller met.

Owns the rules over cluster-wide objects. Does not own the Pods' own rules (`pod_rules`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpudirect.diagnosis.cluster_status import installer_status, network_readiness, not_ready_reason
from gpudirect.diagnosis.denials import explain_denial
from gpudirect.diagnosis.evidence import (
    INJECTOR,
    INSTALLERS,
    Diagnosis,
    Evidence,
    KubeObject,
    addon_of,
    annotations_of,
    conditions_of,
    failure,
    gpu_container_names,
    name_of,
    nothing_found,
    pod_place,
)
from gpudirect.diagnosis.text_rules import causes_in

INTERFACES_ANNOTATION = "networking.gke.io/interfaces"
_ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
_ZONE_LABEL = "topology.kubernetes.io/zone"
_WHOLE_MACHINES = ("nvidia-h100-80gb", "nvidia-h100-mega-80gb")
_GPUS_PER_NODE = 8


def cluster_diagnoses(evidence: Evidence) -> Iterator[Diagnosis]:
    """Yield what cluster-wide objects and met errors show."""
    yield from _messages(evidence.messages)
    yield from _networks(evidence)
    yield from _addons(evidence)
    yield from _nodes(evidence)
    for text in evidence.unreadable:
        yield nothing_found("Cluster", f"could not be looked at: {text}")


def explain_text(cause: str, where: str, text: str) -> Diagnosis:
    """Return the diagnosis of a cause that a text names; refusals are explained."""
    if cause != "admission-denied":
        return failure(cause, where, text)
    denial = explain_denial(text)
    rules = ", ".join(denial.constraints) or "a rule that the text does not name"
    container = f", container {', '.join(denial.containers)}" if denial.containers else ""
    said = "; ".join(message for _, message in denial.violations) or denial.text
    return failure(
        cause,
        where + container,
        f"{rules}: {said}",
        remedy=f"{denial.hint}. {denial.remedy}".strip(),
    )


def named_networks(pod: KubeObject) -> tuple[list[str], str | None]:
    """Return the device networks that a Pod asks for, and what is wrong with its list."""
    text = annotations_of(pod).get(INTERFACES_ANNOTATION)
    if text is None:
        return [], None
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [], f"no JSON: {error}"
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return [], "not a list of objects with interfaceName and network"
    names = [str(entry.get("network")) for entry in entries]
    return [name for name in names if name != "default"], None


def _messages(messages: Sequence[str]) -> Iterator[Diagnosis]:
    for text in messages:
        for cause in causes_in(text, "message"):
            yield explain_text(cause, "Cluster", text)


def _networks(evidence: Evidence) -> Iterator[Diagnosis]:
    if evidence.networks is None or evidence.parameter_sets is None:
        yield failure(
            "multi-networking-missing",
            "Cluster",
            "the API server has no kind Network or GKENetworkParamSet in networking.gke.io/v1",
        )
        return
    wanted = list(evidence.expected_networks)
    templates = [(job.get("spec") or {}).get("template") or {} for job in evidence.jobs]
    for pod in (*evidence.pods, *templates):
        wanted += [name for name in named_networks(pod)[0] if name not in wanted]
    if not wanted and not evidence.networks:
        return
    readiness = network_readiness(evidence.networks, wanted)
    parameter_sets = {name_of(item): item for item in evidence.parameter_sets}
    references = {name_of(item): _parameters_name(item) for item in evidence.networks}
    for name in readiness.missing:
        yield failure("network-missing", f"Network {name}", "there is no object of this name")
    for name, reason in readiness.not_ready.items():
        yield _not_ready(name, reason, references.get(name), parameter_sets)
    if readiness.is_ready:
        yield nothing_found("Networks", str(readiness))


def _parameters_name(network: KubeObject) -> str:
    reference = (network.get("spec") or {}).get("parametersRef") or {}
    return str(reference.get("name") or name_of(network))


def _not_ready(
    name: str, reason: str, parameters: str | None, parameter_sets: Mapping[str, KubeObject]
) -> Diagnosis:
    """Name the parameter set where it holds the reason: there GKE says what it looked for."""
    if parameters is not None and parameters not in parameter_sets:
        text = f"{reason}; its parameter set {parameters} does not exist"
        return failure("network-not-ready", f"Network {name}", text)
    own = not_ready_reason(parameter_sets[parameters]) if parameters is not None else None
    if own is None or not conditions_of(parameter_sets[parameters or ""]):
        return failure("network-not-ready", f"Network {name}", reason)
    return failure("network-not-ready", f"Network {name}, GKENetworkParamSet {parameters}", own)


def _addons(evidence: Evidence) -> Iterator[Diagnosis]:
    if evidence.daemonsets is None:
        return
    names = {name_of(item): item for item in evidence.daemonsets}
    installers = [name for name in INSTALLERS if name in names]
    if not installers:
        yield failure(
            "installer-missing", "DaemonSet", f"none of {' and '.join(INSTALLERS)} exists"
        )
    for name in installers:
        yield nothing_found(f"DaemonSet {name}", installer_status(names[name]))
    if INJECTOR in names:
        yield nothing_found(f"DaemonSet {INJECTOR}", installer_status(names[INJECTOR]))


def _nodes(evidence: Evidence) -> Iterator[Diagnosis]:
    zones: dict[str, str] = {}
    used = {
        str((pod.get("spec") or {}).get("nodeName"))
        for pod in evidence.pods
        if addon_of(pod) is None and gpu_container_names(pod)
    }
    for node in evidence.nodes:
        labels: Mapping[str, Any] = (node.get("metadata") or {}).get("labels") or {}
        name = name_of(node)
        if name in used and _ZONE_LABEL in labels:
            zones[name] = str(labels[_ZONE_LABEL])
        ready = conditions_of(node).get("Ready")
        if ready is not None and ready.get("status") != "True":
            text = f"Ready is {ready.get('status')}: {ready.get('reason')}: {ready.get('message')}"
            yield failure("node-lost", f"Node {name}", text)
        gpus = str(
            ((node.get("status") or {}).get("allocatable") or {}).get("nvidia.com/gpu") or ""
        )
        is_whole = labels.get(_ACCELERATOR_LABEL) in _WHOLE_MACHINES and gpus.isdigit()
        if is_whole and 0 < int(gpus) < _GPUS_PER_NODE:
            yield failure("gpu-count", f"Node {name}", f"{gpus} of {_GPUS_PER_NODE} GPUs")
    if len(set(zones.values())) > 1:
        placed = ", ".join(f"{node} in {zone}" for node, zone in sorted(zones.items()))
        yield failure("zones-differ", "Nodes", placed)


def injector_is_missing(evidence: Evidence, pod: KubeObject) -> bool:
    """Say whether nothing injects devices on the node of a Pod, as far as can be seen."""
    if evidence.daemonsets is None:
        return False
    if all(name_of(item) != INJECTOR for item in evidence.daemonsets):
        return True
    node = (pod.get("spec") or {}).get("nodeName")
    return bool(node) and not any(
        addon_of(other) == INJECTOR and (other.get("spec") or {}).get("nodeName") == node
        for other in evidence.pods
    )


def interfaces_problem(pod: KubeObject) -> Diagnosis | None:
    """Return what is wrong with the interface list of a Pod."""
    _, problem = named_networks(pod)
    if problem is None:
        return None
    text = annotations_of(pod)[INTERFACES_ANNOTATION]
    return failure("interfaces-invalid", pod_place(pod), f"{problem}, in {text}")
