"""What does not go with GPUDirect in a Pod, said before anything is created.

Owns the rules about GPUs, nodes and daemons that look at the user's template alone. Does not own
what Autopilot refuses in any Pod (`autopilot_rules`), annotations (`annotation_rules`), nor what
can clash only once something is put in: `pod_template` and its helpers report that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpudirect.annotation_rules import check_annotation_keys
from gpudirect.autopilot_rules import check_autopilot
from gpudirect.pod_reading import (
    GPU_RESOURCE,
    Report,
    containers_of,
    fields,
    gpu_containers,
    gpus_elsewhere,
    items,
    quantity,
)
from gpudirect.stacks import STACKS, GpuStack
from gpudirect.workload_environment import Environment

ACCELERATOR = "cloud.google.com/gke-accelerator"
COMPUTE_CLASS = "cloud.google.com/compute-class"
BUILT_IN_CLASSES = frozenset(
    ("Accelerator", "Balanced", "Performance", "Scale-Out", "general-purpose")
)

# facts autopilot.md 1.6: GKE refuses these beside a custom ComputeClass.
NOT_WITH_A_CLASS = frozenset(
    f"cloud.google.com/{name}"
    for name in (
        "machine-family",
        "machine-type",
        "gke-spot",
        "gke-accelerator",
        "gke-gpu-driver-version",
        "reservation-name",
        "reservation-project",
        "reservation-affinity",
        "gke-ephemeral-storage-local-ssd",
        "gke-boot-disk",
        "gke-boot-disk-size",
        "gke-node-pool-group-name",
        "gke-workload-type",
    )
) | {"node.kubernetes.io/instance-type"}

ACCELERATOR_COUNT = "cloud.google.com/gke-accelerator-count"
DRIVER = "cloud.google.com/gke-gpu-driver-version"
_DRIVER_VERSIONS = ("default", "latest")
_LOCAL_SSD = "cloud.google.com/gke-ephemeral-storage-local-ssd"
_NODE_POOL = "cloud.google.com/gke-nodepool"
_SHARED_GPU = {
    "cloud.google.com/gke-gpu-partition-size": "multi-instance GPUs",
    "cloud.google.com/gke-gpu-sharing-strategy": "GPU time-sharing and MPS",
    "cloud.google.com/gke-max-shared-clients-per-gpu": "GPU time-sharing and MPS",
}
_FAST_SOCKET = "cloud.google.com/gke-nccl-fastsocket"
_MACHINE_KEYS = ("node.kubernetes.io/instance-type", "cloud.google.com/machine-type")
_DAEMON_IMAGES = frozenset(("tcpgpudmarxd", "tcpgpudmarxd-dev"))


def check_rules(template: Mapping[str, Any], environment: Environment, report: Report) -> None:
    """Report everything in a template that GPUDirect or Autopilot will not have."""
    spec = template["spec"]
    _check_gpus(spec, environment.stack, report)
    _check_gpus_elsewhere(spec, report)
    _check_selectors(spec, environment.stack, report)
    check_autopilot(spec, environment.stack, report)
    _check_fast_socket(spec, report)
    _check_daemons(spec, environment.stack, report)
    check_annotation_keys(template, environment.stack, report)


def selected_values(spec: Mapping[str, Any], key: str) -> list[tuple[str, Sequence[str]]]:
    """Return what a Pod asks of a node label: path of the selector, and the values it allows."""
    found: list[tuple[str, Sequence[str]]] = []
    value = fields(spec, "nodeSelector").get(key)
    if value is not None:
        found.append((f"spec.nodeSelector[{key}]", [str(value)]))
    for path, expression in _node_expressions(spec):
        if expression.get("key") == key and expression.get("operator") == "In":
            found.append((path, [str(value) for value in items(expression, "values")]))
    return found


def selected_keys(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return every node label that a Pod asks about, with the path of the selector."""
    keys = {str(key): f"spec.nodeSelector[{key}]" for key in fields(spec, "nodeSelector")}
    for path, expression in _node_expressions(spec):
        keys.setdefault(str(expression.get("key")), path)
    return keys


def custom_class(spec: Mapping[str, Any]) -> str | None:
    """Return the custom ComputeClass that a Pod selects, if any."""
    for _path, values in selected_values(spec, COMPUTE_CLASS):
        for value in values:
            if value not in BUILT_IN_CLASSES:
                return value
    return None


def _node_expressions(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = fields(spec, "affinity", "nodeAffinity", required)
    for i, term in enumerate(items(affinity, "nodeSelectorTerms")):
        yield from _expressions(
            term, f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[{i}]"
        )


def _preferences(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what a Pod would rather have of its node: admission reads it, scheduling may not."""
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for i, term in enumerate(items(fields(spec, "affinity", "nodeAffinity"), preferred)):
        yield from _expressions(
            fields(term, "preference"), f"spec.affinity.nodeAffinity.{preferred}[{i}].preference"
        )


def _expressions(term: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for index, expression in enumerate(items(term, "matchExpressions")):
        yield f"{path}.matchExpressions[{index}]", expression


def _check_gpus(spec: Mapping[str, Any], stack: GpuStack, report: Report) -> None:
    wanted = stack.gpus_per_node
    beside = 0
    for view in gpu_containers(spec):
        resources = fields(view.container, "resources")
        path = f"{view.path}.resources.limits"
        limit = fields(resources, "limits").get(GPU_RESOURCE)
        if limit is None:
            report.error(
                f"{view.path}.resources.requests",
                f"{GPU_RESOURCE}: {fields(resources, 'requests').get(GPU_RESOURCE)}",
                f"container {view.name!r} requests GPUs without a limit, which Kubernetes refuses",
                f"Write {GPU_RESOURCE}: {wanted} under limits.",
            )
        elif quantity(limit) != wanted:
            report.error(
                path,
                f"{GPU_RESOURCE}: {limit}",
                f"container {view.name!r} asks for {limit} GPUs, but a Pod on the GPU network must "
                f"take all {wanted} GPUs and all {stack.nic_count} GPU NICs of its node",
                f"Ask for {GPU_RESOURCE}: {wanted}, or run it on another machine type.",
            )
        elif quantity(fields(resources, "requests").get(GPU_RESOURCE, limit)) != wanted:
            report.error(
                f"{view.path}.resources.requests",
                f"{GPU_RESOURCE}: {fields(resources, 'requests')[GPU_RESOURCE]}",
                f"container {view.name!r} requests another number of GPUs than its limit, which "
                "Kubernetes refuses",
                f"Write {GPU_RESOURCE}: {wanted} under limits alone.",
            )
        elif view.runs_beside:
            beside += 1
            if beside > 1:
                report.error(
                    path,
                    f"{GPU_RESOURCE}: {limit}",
                    f"container {view.name!r} is the second that takes all {wanted} GPUs of a node",
                    "Let one container of the Pod have the GPUs.",
                )


def _check_gpus_elsewhere(spec: Mapping[str, Any], report: Report) -> None:
    for path in gpus_elsewhere(spec):
        report.error(
            path,
            GPU_RESOURCE,
            "GPUs are asked for where Kubernetes gives none",
            "Ask for them under a container's resources.limits.",
        )


def _check_selectors(spec: Mapping[str, Any], stack: GpuStack, report: Report) -> None:
    keys = selected_keys(spec)
    for path, expression in _preferences(spec):
        if expression.get("key") == _NODE_POOL:
            keys.setdefault(_NODE_POOL, path)
    for path, values in selected_values(spec, ACCELERATOR):
        if stack.accelerator not in values:
            report.error(
                path,
                ", ".join(values),
                f"the Pod selects other GPUs, but the stack is {stack.name} and expects "
                f"{stack.accelerator}",
                _other_stack(values) or f"Select {stack.accelerator} or leave the selector out.",
            )
    for path, expression in _node_expressions(spec):
        if (
            expression.get("key") == ACCELERATOR
            and expression.get("operator") == "NotIn"
            and stack.accelerator in items(expression, "values")
        ):
            report.error(
                path,
                f"NotIn {stack.accelerator}",
                f"the Pod keeps away from {stack.accelerator}, the GPUs of {stack.name}",
                "Leave the selector out.",
            )
    for path, values in selected_values(spec, DRIVER):
        if not set(values) & set(_DRIVER_VERSIONS):
            report.error(
                path,
                ", ".join(values),
                f"{DRIVER} asks for no driver that GKE installs, and without one there are no "
                f"GPUs; expected one of {', '.join(_DRIVER_VERSIONS)}",
                "Leave the selector out.",
            )
    for key, expected in (
        *((key, stack.machine_type) for key in _MACHINE_KEYS),
        (ACCELERATOR_COUNT, str(stack.gpus_per_node)),
    ):
        for path, values in selected_values(spec, key):
            if expected not in values:
                report.error(
                    path,
                    ", ".join(values),
                    f"the Pod selects another machine by {key}, but the stack is {stack.name} and "
                    f"expects {expected}",
                    "Leave the selector out.",
                )
    for key, problem, fix in (
        (
            _NODE_POOL,
            "is refused by Autopilot, which makes its own node pools",
            "Remove it; the accelerator selector finds the nodes.",
        ),
        (
            _LOCAL_SSD,
            "must not be set: these machines always have their local SSDs as ephemeral storage",
            "Remove it.",
        ),
        (
            _FAST_SOCKET,
            f"selects NCCL FastSocket, which does not work with {stack.technology}",
            "Remove it.",
        ),
        *(
            (
                key,
                f"selects {what}, which does not work with {stack.technology}",
                "Remove it; the Pod takes whole GPUs.",
            )
            for key, what in _SHARED_GPU.items()
        ),
    ):
        if key in keys:
            value = fields(spec, "nodeSelector").get(key)
            if value is None:
                value = ", ".join(v for _path, found in selected_values(spec, key) for v in found)
            report.error(keys[key], value or None, f"{key} {problem}", fix)
    if (name := custom_class(spec)) is not None:
        for key in sorted(NOT_WITH_A_CLASS & keys.keys()):
            report.error(
                keys[key],
                fields(spec, "nodeSelector").get(key),
                f"GKE refuses {key} beside the ComputeClass {name!r}, which decides it",
                f"Remove the selector or {COMPUTE_CLASS}.",
            )
    spot, flex = (f"cloud.google.com/gke-{name}" for name in ("spot", "flex-start"))
    if flex in keys:
        for key in sorted({spot, "cloud.google.com/reservation-name"} & keys.keys()):
            report.error(
                keys[key],
                fields(spec, "nodeSelector").get(key),
                f"GKE refuses {key} together with {flex}",
                "Choose one of the two.",
            )


def _other_stack(values: Sequence[str]) -> str | None:
    for stack in STACKS.values():
        if stack.accelerator in values:
            return f"Render it for a stack of {stack.name}, or leave the selector out."
    return None


def _check_fast_socket(spec: Mapping[str, Any], report: Report) -> None:
    for view in gpu_containers(spec):
        for index, entry in enumerate(items(view.container, "env")):
            name, value = str(entry["name"]), str(entry.get("value") or "")
            text = f"{name}={value}".lower().replace("_", "").replace("-", "")
            if "fastsocket" in text and name.startswith(("NCCL_", "LD_")):
                report.error(
                    f"{view.path}.env[{index}]",
                    f"{name}={value}",
                    f"container {view.name!r} turns on NCCL FastSocket, which does not work with "
                    "GPUDirect",
                    f"Remove {name}.",
                )


def runs_daemon(container: Mapping[str, Any]) -> bool:
    """Whether a container's image is a receive daemon of either technology."""
    return _image_base(str(container.get("image") or "")) in _DAEMON_IMAGES


def _check_daemons(spec: Mapping[str, Any], stack: GpuStack, report: Report) -> None:
    other_names = {other.daemon_container for other in STACKS.values()} - {stack.daemon_container}
    for view in containers_of(spec):
        image = str(view.container.get("image") or "")
        is_daemon = runs_daemon(view.container)
        if view.name == stack.daemon_container:
            if not is_daemon:
                report.error(
                    f"{view.path}.image",
                    image,
                    f"container {view.name!r} has the daemon's name but runs something else",
                    "Rename it, or remove it: the daemon is put in.",
                )
        elif is_daemon or view.name in other_names:
            report.error(
                view.path,
                f"{view.name}, {image}",
                f"the Pod brings a receive daemon that is not this stack's: on {stack.name} it is "
                f"the container {stack.daemon_container!r}",
                "Remove it: the right one is put in.",
            )


def _image_base(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
