"""What a diagnosis is made from, and what it says.

Owns the two data types and the reading of Kubernetes objects as plain mappings in the API's own
JSON form. Holds no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gpudirect.diagnosis.causes import CAUSES
from gpudirect.nccl_data import NcclRun
from gpudirect.redaction import redact

KubeObject = Mapping[str, Any]
LogKey = tuple[str, str]
"""Pod name, container name."""

Confidence = Literal["evidence of failure", "no evidence"]
EVIDENCE_OF_FAILURE: Final = "evidence of failure"
NO_EVIDENCE: Final = "no evidence"

DAEMON_CONTAINERS: Final = ("tcpxo-daemon", "tcpx-daemon")
INSTALLERS: Final = ("nccl-tcpxo-installer", "nccl-tcpx-installer")
INJECTOR: Final = "device-injector"

_MAX_EVIDENCE_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What was seen, in the JSON form of the Kubernetes API.

    Attributes:
        pods: Pods of the workload and of the addons.
        jobs: Jobs of the workload.
        events: Events about any of these objects.
        networks: Network objects; None where the cluster does not know the kind.
        parameter_sets: GKENetworkParamSet objects; None where the kind is unknown.
        daemonsets: DaemonSets of the addons; None where they were not looked at.
        nodes: The GPU nodes.
        logs: The last lines of each container.
        silent_seconds: For how long a running container has printed nothing.
        messages: Error texts that a caller met, such as a refusal of the API server.
        unreadable: What could not be looked at, and why.
        expected_networks: Names of the networks that the environment is to have; empty where the
            Pods' own interface lists decide.
        expected_environment: NCCL variables that workloads are to have.
        expected_mtu_bytes: MTU of every GPU network.
        timed_out: Whether a caller waited for the work as long as it may take.
        run: What the launcher of a test printed, as far as it was read.
        run_verdict: What the gate says of it.
    """

    pods: Sequence[KubeObject] = ()
    jobs: Sequence[KubeObject] = ()
    events: Sequence[KubeObject] = ()
    networks: Sequence[KubeObject] | None = ()
    parameter_sets: Sequence[KubeObject] | None = ()
    daemonsets: Sequence[KubeObject] | None = None
    nodes: Sequence[KubeObject] = ()
    logs: Mapping[LogKey, Sequence[str]] = field(default_factory=dict)
    silent_seconds: Mapping[LogKey, float] = field(default_factory=dict)
    messages: Sequence[str] = ()
    unreadable: Sequence[str] = ()
    expected_networks: Sequence[str] = ()
    expected_environment: Mapping[str, str] = field(default_factory=dict)
    expected_mtu_bytes: int = 8244
    timed_out: bool = False
    run: NcclRun | None = None
    run_verdict: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """One cause, or the statement that a place shows none.

    Attributes:
        cause: Identifier of the cause; `none` where nothing was found.
        confidence: Whether the evidence line proves a failure or there is no such line.
        where: The object, with its container where there is one.
        evidence: The line that proves it, redacted.
        summary: What the cause is, in one sentence.
        remedy: What to do.
    """

    cause: str
    confidence: Confidence
    where: str
    evidence: str
    summary: str
    remedy: str

    @property
    def is_failure(self) -> bool:
        """Whether this is evidence of a failure."""
        return self.confidence == EVIDENCE_OF_FAILURE

    def to_json(self) -> dict[str, str]:
        """Return the form of `doctor --json` and of a stored result."""
        return {
            "cause": self.cause,
            "confidence": self.confidence,
            "where": self.where,
            "evidence": self.evidence,
            "summary": self.summary,
            "remedy": self.remedy,
        }

    def __str__(self) -> str:
        """Describe it in one or two lines for a terminal."""
        if not self.is_failure:
            return f"{self.where}: no evidence of failure ({self.evidence})"
        return f"{self.where}: {self.summary} Seen: {self.evidence}. To do: {self.remedy}"


def failure(cause: str, where: str, evidence: str, *, remedy: str | None = None) -> Diagnosis:
    """Return evidence of a failure, with the text of the cause."""
    return Diagnosis(
        cause=cause,
        confidence=EVIDENCE_OF_FAILURE,
        where=where,
        evidence=one_line(evidence),
        summary=CAUSES[cause].summary,
        remedy=remedy or CAUSES[cause].remedy,
    )


def nothing_found(where: str, seen: str) -> Diagnosis:
    """Return the statement that a place shows no failure."""
    return Diagnosis(
        cause="none",
        confidence=NO_EVIDENCE,
        where=where,
        evidence=one_line(seen),
        summary="Nothing here points at a failure.",
        remedy="",
    )


def one_line(text: str) -> str:
    """Return a text as one short, redacted line."""
    line = " ".join(redact(text[: 4 * _MAX_EVIDENCE_CHARACTERS]).split())
    if len(line) > _MAX_EVIDENCE_CHARACTERS:
        return line[: _MAX_EVIDENCE_CHARACTERS - 1] + "…"
    return line


def name_of(item: KubeObject) -> str:
    """Return the name of an object."""
    return str((item.get("metadata") or {}).get("name") or item.get("name") or "?")


def namespace_of(item: KubeObject) -> str:
    """Return the namespace of an object, empty for a cluster-wide one."""
    return str((item.get("metadata") or {}).get("namespace") or "")


def annotations_of(item: KubeObject) -> Mapping[str, str]:
    """Return the annotations of an object."""
    return (item.get("metadata") or {}).get("annotations") or {}


def conditions_of(item: KubeObject) -> dict[str, KubeObject]:
    """Return the conditions of an object by their type."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return {str(condition.get("type")): condition for condition in conditions}


def container_specs(pod: KubeObject) -> Iterator[tuple[KubeObject, bool]]:
    """Yield the containers of a Pod, and whether each is an init container."""
    spec = pod.get("spec") or {}
    for container in spec.get("initContainers") or ():
        yield container, True
    for container in spec.get("containers") or ():
        yield container, False


def container_statuses(pod: KubeObject) -> Iterator[tuple[KubeObject, bool]]:
    """Yield the statuses of a Pod's containers, and whether each is of an init container."""
    status = pod.get("status") or {}
    for container in status.get("initContainerStatuses") or ():
        yield container, True
    for container in status.get("containerStatuses") or ():
        yield container, False


def owner_name(pod: KubeObject) -> str:
    """Return the name of a Pod's controller."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(owner.get("name")) for owner in owners if owner.get("controller")), "")


def addon_of(pod: KubeObject) -> str | None:
    """Return which addon a Pod belongs to, None for a workload."""
    owner = owner_name(pod) or name_of(pod)
    for addon in (*INSTALLERS, INJECTOR):
        if owner == addon or name_of(pod).startswith(f"{addon}-"):
            return addon
    return None


def gpu_container_names(pod: KubeObject) -> set[str]:
    """Return the containers that ask for GPUs."""
    return {
        str(container.get("name"))
        for container, _ in container_specs(pod)
        if ((container.get("resources") or {}).get("limits") or {}).get("nvidia.com/gpu")
    }


def pod_place(pod: KubeObject, container: str | None = None) -> str:
    """Name a Pod, or one of its containers."""
    namespace = namespace_of(pod)
    place = f"Pod {namespace}/{name_of(pod)}" if namespace else f"Pod {name_of(pod)}"
    return place if container is None else f"{place}, container {container}"
