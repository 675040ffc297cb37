"""Where each kind of object keeps its Pod templates, and whether its Pods must be able to end.

Owns the table of kinds and the walk to the templates. Reads objects only; changes none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpudirect.pod_reading import is_label_selector

Path = tuple[str | int, ...]
"""Keys and list places from an object's root to a template."""

_EVERY = "*"
_COUNTS = ("replicas", "parallelism", "numOfHosts", "size")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadKind:
    """One kind of object.

    Attributes:
        group: API group, empty for the core one.
        kind: Kind.
        templates: Paths of its Pod templates, `*` standing for every key or item; an empty path
            is the object itself.
        can_end: Whether its Pods must be able to end; None where the Pod's restart policy says so.
    """

    group: str
    kind: str
    templates: tuple[tuple[str, ...], ...]
    can_end: bool | None


@dataclass(frozen=True, slots=True)
class TemplatePlace:
    """One Pod template inside an object.

    Attributes:
        path: Where it is.
        can_end: Whether its Pod must be able to end.
        nodes: How many of its Pods, so how many nodes, the object asks for.
        owner_selector: Label selector by which the owner finds its Pods, where it has one.
        claims: Names of volume claims that the owner adds to each Pod.
    """

    path: Path
    can_end: bool
    nodes: int
    owner_selector: Mapping[str, Any] | None
    claims: frozenset[str]

    @property
    def text(self) -> str:
        """The path as users write it."""
        return path_text(self.path)


def _kind(group: str, kind: str, *templates: str, can_end: bool | None) -> WorkloadKind:
    paths = tuple(tuple(path.split(".")) if path else () for path in templates)
    return WorkloadKind(group=group, kind=kind, templates=paths, can_end=can_end)


def _kubeflow(kind: str, field: str) -> WorkloadKind:
    return _kind("kubeflow.org", kind, f"spec.{field}.*.template", can_end=True)


def _ray(kind: str, prefix: str) -> WorkloadKind:
    return _kind(
        "ray.io",
        kind,
        f"{prefix}.headGroupSpec.template",
        f"{prefix}.workerGroupSpecs.*.template",
        can_end=False,
    )


_JOB_TEMPLATES = "spec.replicatedJobs.*.template.spec.template"

KINDS: tuple[WorkloadKind, ...] = (
    _kind("", "Pod", "", can_end=None),
    _kind("", "PodTemplate", "template", can_end=None),
    _kind("", "ReplicationController", "spec.template", can_end=False),
    _kind("apps", "Deployment", "spec.template", can_end=False),
    _kind("apps", "ReplicaSet", "spec.template", can_end=False),
    _kind("apps", "StatefulSet", "spec.template", can_end=False),
    _kind("apps", "DaemonSet", "spec.template", can_end=False),
    _kind("batch", "Job", "spec.template", can_end=True),
    _kind("batch", "CronJob", "spec.jobTemplate.spec.template", can_end=True),
    _kind("jobset.x-k8s.io", "JobSet", _JOB_TEMPLATES, can_end=True),
    _kind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        "spec.leaderWorkerTemplate.leaderTemplate",
        "spec.leaderWorkerTemplate.workerTemplate",
        can_end=False,
    ),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs"),
    _kubeflow("TFJob", "tfReplicaSpecs"),
    _kubeflow("MPIJob", "mpiReplicaSpecs"),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs"),
    _kubeflow("PaddleJob", "paddleReplicaSpecs"),
    _kubeflow("JAXJob", "jaxReplicaSpecs"),
    _kubeflow("MXJob", "mxReplicaSpecs"),
    _kind(
        "trainer.kubeflow.org",
        "TrainingRuntime",
        f"spec.template.{_JOB_TEMPLATES}",
        can_end=True,
    ),
    _kind(
        "trainer.kubeflow.org",
        "ClusterTrainingRuntime",
        f"spec.template.{_JOB_TEMPLATES}",
        can_end=True,
    ),
    _ray("RayCluster", "spec"),
    _ray("RayJob", "spec.rayClusterSpec"),
    _ray("RayService", "spec.rayClusterConfig"),
    _kind("batch.volcano.sh", "Job", "spec.tasks.*.template", can_end=True),
)

_BY_NAME = {(known.group, known.kind): known for known in KINDS}
LIST_KINDS = re.compile(r"^[A-Z]\w*List$|^List$")


def find_kind(document: Mapping[str, Any]) -> WorkloadKind | None:
    """Return what is known about an object's kind."""
    version = str(document.get("apiVersion") or "")
    group = version.rpartition("/")[0]
    return _BY_NAME.get((group, str(document.get("kind") or "")))


def kind_from_path(text: str) -> WorkloadKind:
    """Read `KIND=PATH` or `PATH`, a template's place in a kind that the table does not hold.

    Without a kind it stands for every kind that is not in the table.

    Raises:
        ValueError: the text is no such path.
    """
    kind, _equals, path = text.rpartition("=")
    steps = re.sub(r"\[\*?\]", ".*", path.strip()).strip(".").split(".")
    if not path.strip() or not all(re.fullmatch(r"\*|[A-Za-z_][\w-]*", step) for step in steps):
        raise ValueError(
            f"template path: {text!r}, expected keys joined by dots with * for every key or item, "
            "such as spec.template or Rollout=spec.groups.*.template"
        )
    return WorkloadKind(group=_EVERY, kind=kind or _EVERY, templates=(tuple(steps),), can_end=None)


def kinds_for(
    document: Mapping[str, Any], extra: Sequence[WorkloadKind]
) -> tuple[WorkloadKind, ...]:
    """Return the entries of the table that apply to an object; `extra` ones by kind alone."""
    known = find_kind(document)
    name = str(document.get("kind") or "")
    found = [entry for entry in extra if entry.kind == name]
    if known is not None:
        return (known, *found)
    return tuple(found or [entry for entry in extra if entry.kind == _EVERY])


def template_places(
    document: Mapping[str, Any], kinds: Sequence[WorkloadKind]
) -> Iterator[TemplatePlace]:
    """Yield the Pod templates that an object holds, in order, whether they have GPUs or not."""
    for entry in kinds:
        for steps in entry.templates:
            for path in _walk(document, steps, ()):
                yield TemplatePlace(
                    path=path,
                    can_end=_can_end(document, path, entry),
                    nodes=_nodes(document, path),
                    owner_selector=_owner_selector(document, entry, path),
                    claims=_claims(document, path),
                )


def path_text(path: Path) -> str:
    """Return a path as users write it, such as `spec.tasks[0].template`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.lstrip(".")


def node_at(document: Any, path: Path) -> Any:
    """Return what stands at a path."""
    for step in path:
        document = document[step]
    return document


def _walk(node: Any, steps: tuple[str, ...], path: Path) -> Iterator[Path]:
    if not steps:
        if isinstance(node, Mapping):
            yield path
        return
    step, rest = steps[0], steps[1:]
    if step == _EVERY:
        if isinstance(node, Mapping):
            for key, item in node.items():
                yield from _walk(item, rest, (*path, key))
        elif isinstance(node, list):
            for index, item in enumerate(node):
                yield from _walk(item, rest, (*path, index))
    elif isinstance(node, Mapping) and node.get(step) is not None:
        yield from _walk(node[step], rest, (*path, step))


def _can_end(document: Mapping[str, Any], path: Path, entry: WorkloadKind) -> bool:
    if entry.can_end is not None:
        return entry.can_end
    spec = node_at(document, path).get("spec")
    policy = spec.get("restartPolicy") if isinstance(spec, Mapping) else None
    return policy in ("Never", "OnFailure")


def _nodes(document: Mapping[str, Any], path: Path) -> int:
    """Multiply the counts that stand above a template: replicas, parallelism, hosts, group size."""
    nodes = 1
    node: Any = document
    for step in path:
        node = node[step]
        if not isinstance(node, Mapping):
            continue
        for key in _COUNTS:
            nodes *= _count(node.get(key))
        if "size" in node and node.get("leaderTemplate") is not None:
            # Of a group's Pods one comes from the leader's template, the others from the workers'.
            size = _count(node["size"])
            nodes = nodes // size * (1 if path[-1] == "leaderTemplate" else size - 1)
    return nodes


def _count(value: object) -> int:
    """Read a count; what is none, or not known, stands for one."""
    # Pulumi hands over every number as a float.
    if isinstance(value, float) and not math.isfinite(value):
        return 1
    return max(int(value), 1) if isinstance(value, int | float) else 1


def _owner_selector(
    document: Mapping[str, Any], entry: WorkloadKind, path: Path
) -> Mapping[str, Any] | None:
    if path != ("spec", "template"):
        return None
    selector = document["spec"].get("selector")
    if not isinstance(selector, Mapping) or not selector:
        return None
    if entry.kind != "ReplicationController" and not is_label_selector(selector):
        return None
    if entry.kind == "ReplicationController":
        return {"matchLabels": selector}
    # A Job's selector is the cluster's own work and holds a number that no manifest knows.
    return None if entry.can_end else selector


def _claims(document: Mapping[str, Any], path: Path) -> frozenset[str]:
    names = set()
    node: Any = document
    for step in path:
        node = node[step]
        claims = node.get("volumeClaimTemplates") if isinstance(node, Mapping) else None
        for claim in claims if isinstance(claims, list) else ():
            if isinstance(claim, Mapping) and isinstance(claim.get("metadata"), Mapping):
                names.add(str(claim["metadata"].get("name")))
    return frozenset(names)
