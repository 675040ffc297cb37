"""Reading of Pod templates as users write them: empty keys, numbers as text, init containers.

Owns the views on a template that rules and rendering share, the collection of findings under a
path, and the check that a template has the shape that Kubernetes gives it. Judges no values.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpudirect.workload_findings import ManifestFinding, Severity, shortened

GPU_RESOURCE = "nvidia.com/gpu"
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([mk]?)")
_SUFFIXES = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000)}
_CONTAINER_LISTS = ("initContainers", "containers")


class Report:
    """Collects findings about one template.

    Args:
        base: Path of the template inside its document; empty for the document itself.
    """

    def __init__(self, base: str = "") -> None:
        self._base = base
        self.findings: list[ManifestFinding] = []

    @property
    def has_errors(self) -> bool:
        """Whether the template is refused."""
        return any(finding.severity == "error" for finding in self.findings)

    def error(self, path: str, value: object, message: str, fix: str) -> None:
        """Add a reason to refuse the template."""
        self._add("error", path, value, message, fix)

    def warning(self, path: str, value: object, message: str, fix: str) -> None:
        """Add something that the user should know."""
        self._add("warning", path, value, message, fix)

    def _add(self, severity: Severity, path: str, value: object, message: str, fix: str) -> None:
        finding = ManifestFinding(
            severity=severity,
            path=f"{self._base}.{path}" if self._base else path,
            value="" if value is None else str(value),
            message=message,
            fix=fix,
        )
        if finding not in self.findings:
            self.findings.append(finding)


@dataclass(frozen=True, slots=True)
class ContainerView:
    """A container and where it stands.

    Attributes:
        section: `containers` or `initContainers`.
        index: Place in that list.
        container: The container itself.
    """

    section: str
    index: int
    container: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container.get("name", ""))

    @property
    def path(self) -> str:
        """Where it stands in the template."""
        return f"spec.{self.section}[{self.index}]"

    @property
    def runs_beside(self) -> bool:
        """Whether it runs beside the others for the Pod's whole life (native sidecars do)."""
        return self.section == "containers" or self.container.get("restartPolicy") == "Always"


def containers_of(spec: Mapping[str, Any]) -> Iterator[ContainerView]:
    """Yield every container in the order in which they start."""
    for section in _CONTAINER_LISTS:
        for index, container in enumerate(items(spec, section)):
            yield ContainerView(section, index, container)


def items(mapping: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return the list under a key; an absent or empty key holds none."""
    return mapping.get(key) or ()


def fields(mapping: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the mapping at the end of a path of keys.

    Absent or empty keys hold none, and neither does what is no mapping (`check_shape` reports it).
    """
    for key in keys:
        inner = mapping.get(key)
        if not isinstance(inner, dict):
            return {}
        mapping = inner
    return mapping


def gpu_limit(container: Mapping[str, Any]) -> object | None:
    """Return what a container asks for in GPUs, as written; None where it asks for none.

    A request alone counts as asking, and so does text that is no number: both are mistakes.
    """
    resources = fields(container, "resources")
    for section in ("limits", "requests"):
        written: object | None = fields(resources, section).get(GPU_RESOURCE)
        if written is not None and quantity(written) != 0:
            return written
    return None


def gpu_containers(spec: Mapping[str, Any]) -> list[ContainerView]:
    """Return the containers with GPUs, wherever they stand."""
    return [view for view in containers_of(spec) if gpu_limit(view.container) is not None]


def gpus_elsewhere(spec: Mapping[str, Any]) -> list[str]:
    """Return the fields of a Pod spec that ask for GPUs and cannot have them.

    A Pod as a whole asks for CPU and memory alone, an ephemeral container for nothing, any other
    under the limits of its resources.
    """
    keys = ("resources", "ephemeralContainers")
    found = [f"spec.{key}" for key in keys if mentions_gpus(spec.get(key))]
    for view in containers_of(spec):
        resources = fields(view.container, "resources")
        rest = {key: value for key, value in resources.items() if key not in ("limits", "requests")}
        if mentions_gpus(rest):
            found.append(f"{view.path}.resources")
        found += [
            f"{view.path}.{key}"
            for key in ("limits", "requests")
            if mentions_gpus(view.container.get(key))
        ]
    return found


def mentions_gpus(node: Any) -> bool:
    """Whether the name of the GPU resource is a key anywhere in plain data."""
    if isinstance(node, dict):
        return GPU_RESOURCE in node or any(map(mentions_gpus, node.values()))
    return isinstance(node, list) and any(map(mentions_gpus, node))


def quantity(value: object) -> Decimal | None:
    """Read a count as Kubernetes does; None for what is no count.

    GPUs are whole numbers, so the suffixes of sizes do not matter here.
    """
    written = _QUANTITY.fullmatch(str(value))
    if written is None:
        return None
    try:
        return Decimal(written[1]) * _SUFFIXES[written[2]]
    except ArithmeticError:
        # An exponent that no count has.
        return None


def normal_path(path: object) -> str:
    """Return a mount path without a trailing slash or doubled ones."""
    return posixpath.normpath(str(path))


def mounts_by_path(container: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a container's mounts by their path."""
    return {normal_path(m.get("mountPath")): m for m in items(container, "volumeMounts")}


def host_path_of(volume: Mapping[str, Any]) -> str | None:
    """Return the node's folder that a volume shows, or None for another kind of volume."""
    path = fields(volume, "hostPath").get("path")
    return None if path is None else normal_path(path)


def check_shape(template: Mapping[str, Any], report: Report) -> bool:
    """Report every field that is not of the type Kubernetes gives it.

    Returns:
        Whether the template can be worked on at all.
    """
    _check(template, _TEMPLATE, "", report)
    return not report.has_errors


def in_shape(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a template in which stand-ins take the place of what `check_shape` reports.

    The other rules can judge it then, so that one mistake hides no other; it is of no other use.
    """
    result: dict[str, Any] = _in_shape(template, _TEMPLATE)
    return result


def is_label_selector(value: Any) -> bool:
    """Whether something has the shape that Kubernetes gives a label selector."""
    report = Report()
    _check(value, _SELECTOR, "", report)
    return not report.has_errors


# A mapping describes the fields that this project touches, a list holds the shape of its items, a
# type stands for itself. Whatever is not named may be anything; null counts as absent.
_MOUNT = {"name!": str, "mountPath!": str}
_CONTAINER = {
    "name!": str,
    "image": str,
    "command": [str],
    "args": [str],
    "env": [{"name!": str, "value": str, "valueFrom": {}}],
    "envFrom": [{}],
    "volumeMounts": [_MOUNT],
    "ports": [{}],
    "resources": {"limits": {}, "requests": {}},
    "securityContext": {"capabilities": {"add": [str]}},
}
_SELECTOR = {
    "matchLabels": {"*": str},
    "matchExpressions": [{"key!": str, "operator!": str, "values": [str]}],
}
_NODE_TERM = {"matchExpressions": [{"key!": str, "values": [str]}]}
_TEMPLATE = {
    "metadata": {"annotations": {"*": str}, "labels": {"*": str}},
    "spec!": {
        "containers!": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "volumes": [{"name!": str, "hostPath": {"path!": str}, "emptyDir": {}}],
        "nodeSelector": {"*": str},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [_NODE_TERM]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [{"preference": _NODE_TERM}],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": _SELECTOR}]
            },
        },
    },
}


def _check(value: Any, shape: Any, path: str, report: Report) -> None:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            _wrong(path, value, "a mapping", report)
            return
        for key, inner in shape.items():
            if key == "*":
                for name, item in value.items():
                    if item is not None:
                        _check(item, inner, f"{path}.{name}", report)
                continue
            name = key.rstrip("!")
            if value.get(name) is not None:
                _check(value[name], inner, f"{path}.{name}" if path else name, report)
            elif key.endswith("!"):
                _missing(path, name, report)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            _wrong(path, value, "a list", report)
            return
        for index, item in enumerate(value):
            # Kubernetes takes null for an empty text, but for nothing else in a list.
            if item is not None or shape[0] is not str:
                _check(item, shape[0], f"{path}[{index}]", report)
    elif not isinstance(value, shape):
        _wrong(path, value, "text", report)


def _in_shape(value: Any, shape: Any) -> Any:
    if isinstance(shape, dict):
        result = dict(value) if isinstance(value, dict) else {}
        for key, inner in shape.items():
            if key == "*":
                result = {name: _in_shape(item, inner) for name, item in result.items()}
                continue
            name = key.rstrip("!")
            if result.get(name) is not None or key.endswith("!"):
                result[name] = _in_shape(result.get(name), inner)
        return result
    if isinstance(shape, list):
        return [_in_shape(item, shape[0]) for item in value] if isinstance(value, list) else []
    return value if isinstance(value, shape) else str("" if value is None else value)


def _wrong(path: str, value: Any, expected: str, report: Report) -> None:
    fix = "Put quotes around it." if expected == "text" else f"Write {expected} there."
    report.error(path, _seen(value), f"Kubernetes expects {expected} here", fix)


def _seen(value: Any) -> str:
    """Return a value for a message: in short, and nothing of what a collection may keep secret."""
    name = type_name(value)
    if isinstance(value, dict):
        keys = ", ".join(map(str, value))
        return f"{name} with {shortened(keys)}" if keys else f"{name} with nothing in it"
    if isinstance(value, list):
        return f"{name} of {len(value)}"
    return name if value is None else f"{shortened(repr(value))}, {name}"


def _missing(path: str, name: str, report: Report) -> None:
    where = f"{path}.{name}" if path else name
    report.error(where, None, f"{name} is missing", f"Write {name} there.")


def type_name(value: Any) -> str:
    """Return what a value is, in the words of a finding."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    for kind, words in ((dict, "a mapping"), (list, "a list"), (str, "text")):
        if isinstance(value, kind):
            return words
    return type(value).__name__
