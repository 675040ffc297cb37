"""GPUDirect into one Pod template.

Owns what goes where in a Pod: selectors, annotations, daemon, mounts, environment, anti-affinity.
Does not own the values (`workload_environment`, `stacks`, `releases`), what is refused
(`workload_rules`) nor where an object keeps its templates (`workload_kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpudirect.annotation_rules import check_annotation
from gpudirect.autopilot_rules import check_mounts, check_names
from gpudirect.container_environment import WantedVariables, merge_variables
from gpudirect.daemon_container import DaemonPlacement
from gpudirect.pod_reading import (
    Report,
    check_shape,
    fields,
    gpu_containers,
    gpus_elsewhere,
    in_shape,
    mentions_gpus,
)
from gpudirect.pod_selectors import put_in_selectors
from gpudirect.pod_volumes import PodVolumes
from gpudirect.releases import with_registry
from gpudirect.stacks import STACKS
from gpudirect.tree_edit import TreeEditor, put_first
from gpudirect.workload_environment import (
    RECORD,
    Environment,
    NcclDebug,
    RenderRecord,
    container_variables,
    pod_annotations,
)
from gpudirect.workload_rules import check_rules

_HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateContext:
    """What the object around a template decides.

    Attributes:
        can_end: Whether the Pod must be able to end by itself, as a Job's must.
        nodes: How many nodes the object spans.
        owner_selector: Label selector by which the owner finds its Pods, where it has one.
        claims: Names of volume claims that the owner adds to each Pod.
        debug: NCCL's log, where it is wanted.
    """

    can_end: bool
    nodes: int = 1
    owner_selector: Mapping[str, Any] | None = None
    claims: frozenset[str] = frozenset()
    debug: NcclDebug | None = None


@dataclass(slots=True)
class _Edit:
    """One template under edit."""

    environment: Environment
    context: TemplateContext
    report: Report
    editor: TreeEditor
    template: dict[str, Any]
    spec: dict[str, Any]
    record: RenderRecord | None


def has_gpus(template: Mapping[str, Any]) -> bool:
    """Whether a Pod template has a container with GPUs, or asks for them somewhere else.

    One of another shape than Kubernetes' counts if GPUs are mentioned anywhere in it, so that it
    is not passed as done.
    """
    try:
        spec = fields(template, "spec")
        if gpu_containers(spec) or gpus_elsewhere(spec):
            return True
    except (AttributeError, TypeError):
        pass
    return mentions_gpus(template) and not check_shape(template, Report())


def render_template(
    template: dict[str, Any],
    environment: Environment,
    context: TemplateContext,
    report: Report,
    editor: TreeEditor,
) -> dict[str, Any]:
    """Return a template with GPUDirect in it; the given one stays as it is.

    Args:
        template: Mapping with `metadata` and `spec`; has a container with GPUs.
        environment: What the stack offers.
        context: What the object around the template decides.
        report: Takes the findings; with an error among them the result is not to be used.
        editor: Edits the tree that the template is part of.
    """
    has_shape = check_shape(template, report)
    if not has_shape:
        template = in_shape(template)
    record = RenderRecord.from_text(fields(template, "metadata", "annotations").get(RECORD))
    if record is not None and _is_for_another_stack(record, environment, report):
        return template
    check_rules(template, environment, report)
    if has_shape:
        check_names(template["spec"], report)
        check_mounts(template["spec"], context.claims, report)
    result = editor.root(template)
    edit = _Edit(
        environment=environment,
        context=context,
        report=report,
        editor=editor,
        template=result,
        spec=editor.mapping(result, "spec"),
        record=record,
    )
    if result.get("metadata") is None:
        result.pop("metadata", None)
        put_first(result, "metadata", {})
    debug = context.debug.variables(context.nodes) if context.debug else {}
    added = put_in_selectors(editor, edit.spec, environment, record, report)
    _put_in_anti_affinity(edit)
    _put_in_containers(edit, debug)
    _put_in_annotations(
        edit,
        RenderRecord(
            release=environment.release.name,
            profile=environment.profile,
            registry=environment.image_registry,
            debug=debug,
            selectors=added,
        ),
    )
    return result


def _is_for_another_stack(record: RenderRecord, environment: Environment, report: Report) -> bool:
    others = [stack for stack in STACKS.values() if stack is not environment.stack]
    if not any(record.find_release(stack) for stack in others):
        return False
    report.error(
        f"metadata.annotations[{RECORD}]",
        record.release,
        f"the Pod was rendered for another stack than {environment.stack.name}",
        "Render the manifest as it was before.",
    )
    return True


def _previous_variables(environment: Environment, record: RenderRecord | None) -> dict[str, str]:
    """Return the variables that the recorded render had put in; none where nobody knows."""
    if record is None:
        return {}
    release = record.find_release(environment.stack)
    if release is None or record.profile not in release.profiles:
        return dict(record.debug)
    return container_variables(environment.stack, release, record.profile, record.debug)


def _previous_daemon(
    environment: Environment, record: RenderRecord | None
) -> tuple[str, list[str]] | None:
    """Return image and words of the daemon that the recorded render had put in."""
    release = record.find_release(environment.stack) if record is not None else None
    if record is None or release is None:
        return None
    image = with_registry(release.daemon_image, record.registry)
    return image, [*release.daemon_command, *release.daemon_args]


def _put_in_annotations(edit: _Edit, record: RenderRecord) -> None:
    metadata = edit.editor.mapping(edit.template, "metadata")
    annotations = edit.editor.mapping(metadata, "annotations")
    check = Report() if edit.record is not None else edit.report
    for key, value in pod_annotations(edit.environment).items():
        written = annotations.get(key)
        # What is written another way but says the same stays; what says something else is the
        # user's mistake, unless an older render wrote it.
        if written is not None and (
            check_annotation(key, str(written), edit.environment, check) or edit.record is None
        ):
            continue
        annotations[key] = value
    annotations[RECORD] = record.to_text()


def _put_in_anti_affinity(edit: _Edit) -> None:
    """Keep two Pods of the GPU network off one node (facts gpudirect.md 11.3)."""
    stack = edit.environment.stack
    selector = edit.context.owner_selector
    if selector is None:
        metadata = edit.editor.mapping(edit.template, "metadata")
        key, value = stack.exclusive_label
        labels = edit.editor.mapping(metadata, "labels")
        if labels.get(key) not in (None, value):
            edit.report.error(
                f"metadata.labels[{key}]",
                labels[key],
                f"label {key} marks the Pods that take a whole node, expected {value!r}",
                "Rename your label.",
            )
        labels[key] = value
        selector = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    # Labels of a Pod that a selector finds belong to its owner: its own selector is used there.
    affinity = edit.editor.mapping(edit.spec, "affinity")
    terms = edit.editor.sequence(edit.editor.mapping(affinity, "podAntiAffinity"), _REQUIRED)
    wanted = _plain_selector(selector)
    for term in terms:
        if term.get("topologyKey") == _HOSTNAME and (
            _plain_selector(fields(term, "labelSelector")) == wanted
        ):
            return
    terms.append({"labelSelector": _copied(selector), "topologyKey": _HOSTNAME})


def _plain_selector(selector: Mapping[str, Any]) -> frozenset[tuple[str, str, frozenset[str]]]:
    """Return a label selector in one form for both ways of writing it."""
    pairs = {
        (str(key), "In", frozenset({str(value)}))
        for key, value in fields(selector, "matchLabels").items()
    }
    expressions = {
        (str(e.get("key")), str(e.get("operator")), frozenset(map(str, e.get("values") or ())))
        for e in selector.get("matchExpressions") or ()
    }
    return frozenset(pairs | expressions)


def _copied(value: Any) -> Any:
    """Return plain data of one's own, without the comments and anchors of the source."""
    if isinstance(value, Mapping):
        return {str(key): _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _put_in_containers(edit: _Edit, debug: Mapping[str, str]) -> None:
    stack, environment = edit.environment.stack, edit.environment
    volumes = PodVolumes(edit.editor, edit.spec, edit.context.claims, edit.report)
    placement = DaemonPlacement(
        edit.editor,
        edit.spec,
        environment,
        can_end=edit.context.can_end,
        previous=_previous_daemon(environment, edit.record),
        report=edit.report,
    )
    for mount in stack.daemon_mounts:
        volumes.mount_host_path(placement.container, placement.view, mount)
    socket = stack.socket
    socket_volume = ""
    if socket is not None:
        socket_volume = volumes.socket_volume(placement.container, socket.daemon_path)
        volumes.mount_socket(
            placement.container,
            placement.view,
            mount_path=socket.daemon_path,
            volume=socket_volume,
        )
    profile = environment.release.profiles[environment.profile]
    wanted = WantedVariables(
        values=container_variables(stack, environment.release, environment.profile, debug),
        previous=_previous_variables(environment, edit.record),
        required={
            name: value
            for name, value in environment.release.required_environment.items()
            if name in profile
        },
        debug=debug,
        library_path=stack.library_path,
        nodes=edit.context.nodes,
    )
    for view in gpu_containers(edit.spec):
        section = edit.editor.sequence(edit.spec, view.section)
        container = edit.editor.mapping(section, view.index)
        merge_variables(edit.editor, container, view, wanted, edit.report)
        for mount in stack.workload_mounts:
            volumes.mount_host_path(container, view, mount)
        if socket is not None:
            volumes.mount_socket(
                container, view, mount_path=socket.workload_path, volume=socket_volume
            )
        volumes.mount_shared_memory(container, size=stack.shared_memory_size)
    # Last: it shifts the places that the findings name.
    placement.place()
