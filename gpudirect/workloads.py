"""GPUDirect into manifests: documents in, documents out.

Owns the pass over documents and the templates in them, and the interface that the command, the
Pulumi transform and the smoke test share. Does not own the change to one Pod (`pod_template`), the
rules (`workload_rules`) nor YAML (`yaml_documents`). Pure: what is given stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from gpudirect.autopilot_rules import check_namespace
from gpudirect.pod_reading import GPU_RESOURCE, Report, fields, mentions_gpus, type_name
from gpudirect.pod_template import TemplateContext, has_gpus, render_template
from gpudirect.tree_edit import TreeEditor
from gpudirect.workload_environment import Environment, NcclDebug, pod_annotations
from gpudirect.workload_findings import ManifestFinding, WorkloadError, errors_in
from gpudirect.workload_kinds import (
    KINDS,
    LIST_KINDS,
    WorkloadKind,
    kind_from_path,
    kinds_for,
    node_at,
    path_text,
    template_places,
)

__all__ = [
    "Environment",
    "ManifestFinding",
    "NcclDebug",
    "WorkloadError",
    "errors_in",
    "pod_annotations",
    "render_document",
    "render_documents",
    "render_pod_template",
]

Document = dict[str, Any]


def render_documents(
    documents: Sequence[Document],
    environment: Environment,
    *,
    template_paths: Sequence[str] = (),
    debug: NcclDebug | None = None,
    nodes: int | None = None,
) -> tuple[list[Document], list[ManifestFinding]]:
    """Put GPUDirect into every Pod template that has GPUs.

    Args:
        documents: Objects as plain data; empty documents (None) are left out.
        environment: What the stack offers.
        template_paths: Where further kinds keep their templates: `PATH` or `KIND=PATH`.
        debug: NCCL's log, where it is wanted.
        nodes: How many nodes each workload spans; read from its object where not given.

    Returns:
        The documents and the findings. With an error among them the documents are those given.

    Raises:
        ValueError: a template path that is none.
    """
    extra = [kind_from_path(text) for text in template_paths]
    rendered: list[Document] = []
    findings: list[ManifestFinding] = []
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue
        result, found = render_document(
            document, environment, extra_kinds=extra, debug=debug, nodes=nodes
        )
        rendered.append(result)
        findings += [replace(finding, document=number) for finding in found]
    if errors_in(findings):
        return [document for document in documents if document is not None], findings
    return rendered, findings


def render_document(
    document: Document,
    environment: Environment,
    *,
    extra_kinds: Sequence[WorkloadKind] = (),
    debug: NcclDebug | None = None,
    nodes: int | None = None,
) -> tuple[Document, list[ManifestFinding]]:
    """Put GPUDirect into one object, or into each item of a list of objects.

    Args:
        document: The object.
        environment: What the stack offers.
        extra_kinds: Kinds beside the table's, from `kind_from_path`.
        debug: NCCL's log, where it is wanted.
        nodes: How many nodes the workload spans; read from the object where not given.

    Returns:
        The object and the findings. It is the one given where there is nothing to put in, and
        where a finding is an error.
    """
    if not isinstance(document, dict):
        report = Report()
        report.error("", type_name(document), "a document is not an object", "Write kind and spec.")
        return document, report.findings
    editor = TreeEditor()
    findings: list[ManifestFinding] = []
    result = document
    for prefix, item, header in _objects(document):
        kind, name = str(header.get("kind") or ""), _name(item)
        kinds = kinds_for(header, extra_kinds)
        places = [
            place for place in template_places(item, kinds) if has_gpus(node_at(item, place.path))
        ]
        spanned = sum(place.nodes for place in places) if nodes is None else nodes
        for place in places:
            report = Report(path_text((*prefix, *place.path)))
            context = TemplateContext(
                can_end=place.can_end,
                nodes=spanned,
                owner_selector=place.owner_selector,
                claims=place.claims,
                debug=debug,
            )
            template = node_at(item, place.path)
            rendered = render_template(template, environment, context, report, editor)
            findings += [replace(f, kind=kind, name=name) for f in report.findings]
            result = _put(editor, result, (*prefix, *place.path), rendered)
        if places:
            findings += [replace(f, kind=kind, name=name) for f in _check_object(item, prefix)]
        else:
            unreached = _unreached(item, kind, kinds, path_text(prefix))
            findings += [replace(f, kind=kind, name=name) for f in unreached]
    return (document if errors_in(findings) else result), findings


def render_pod_template(
    template: Document,
    environment: Environment,
    *,
    can_end: bool,
    debug: NcclDebug | None = None,
    nodes: int = 1,
) -> Document:
    """Put GPUDirect into a Pod template: a mapping with `metadata` and `spec`.

    Args:
        template: The template; at least one container asks for GPUs.
        environment: What the stack offers.
        can_end: Whether the Pod must be able to end by itself, as a Job's must: the daemon becomes
            a native sidecar.
        debug: NCCL's log, where it is wanted.
        nodes: How many nodes the workload spans.

    Returns:
        A new template. Parts that did not change are shared with the one given.

    Raises:
        WorkloadError: the template cannot be given GPUDirect; the text lists every reason.
    """
    report = Report()
    if not has_gpus(template):
        report.error(
            "spec.containers",
            None,
            f"no container asks for {GPU_RESOURCE}",
            f"Set a limit of {GPU_RESOURCE}: {environment.stack.gpus_per_node}.",
        )
        raise WorkloadError(report.findings)
    context = TemplateContext(can_end=can_end, nodes=nodes, debug=debug)
    result = render_template(template, environment, context, report, TreeEditor())
    if report.has_errors:
        raise WorkloadError(errors_in(report.findings))
    return result


def _objects(
    document: Document, of_list: Mapping[str, Any] | None = None
) -> Iterator[tuple[tuple[str | int, ...], Document, Mapping[str, Any]]]:
    """Yield the objects of a document: itself, or the items of a `kubectl get` list.

    Args:
        document: The document, or an item of a list.
        of_list: What the list says about its items, where they do not say it themselves: a JobList
            holds Jobs.

    Yields:
        The path of an object, the object, and where its `apiVersion` and `kind` stand.
    """
    header: Mapping[str, Any] = document if document.get("kind") else of_list or document
    kind, listed = str(header.get("kind") or ""), document.get("items")
    if LIST_KINDS.match(kind) and isinstance(listed, list):
        items = {**header, "kind": kind.removesuffix("List")}
        for index, item in enumerate(listed):
            if isinstance(item, dict):
                for path, inner, inner_header in _objects(item, items):
                    yield ("items", index, *path), inner, inner_header
    else:
        yield (), document, header


def _put(
    editor: TreeEditor, root: Document, path: tuple[str | int, ...], template: Document
) -> Document:
    """Return the object with another template at a path."""
    if not path:
        return template
    root = editor.root(root)
    node: Any = root
    for step, following in pairwise(path):
        node = (
            editor.sequence(node, step)
            if isinstance(following, int)
            else editor.mapping(node, step)
        )
    node[path[-1]] = template
    return root


def _check_object(item: Mapping[str, Any], prefix: tuple[str | int, ...]) -> list[ManifestFinding]:
    """Report what the object around the templates gets wrong."""
    report = Report(path_text(prefix))
    check_namespace(fields(item, "metadata").get("namespace"), report)
    launcher = fields(item, "spec", "mpiReplicaSpecs", "Launcher", "template")
    if launcher and not has_gpus(launcher) and "NCCL" not in str(launcher).upper():
        report.warning(
            "spec.mpiReplicaSpecs.Launcher",
            None,
            "ranks that the launcher starts over SSH do not see the variables of the worker's "
            "container, so NCCL would not find the GPU network",
            "Pass them on (mpirun -x NCCL_...), or have the ranks source the profile script.",
        )
    return report.findings


def _unreached(
    item: Mapping[str, Any], kind: str, kinds: Sequence[WorkloadKind], prefix: str
) -> list[ManifestFinding]:
    """Report GPUs in an object whose Pod templates nobody knows, rather than pass it as done."""
    report = Report(prefix)
    if kind == "TrainJob":
        if mentions_gpus(item):
            report.warning(
                "spec",
                None,
                "a TrainJob's Pods are made from its runtime, and GPUDirect goes in there",
                "Render the TrainingRuntime or ClusterTrainingRuntime, with the GPUs as limits.",
            )
    elif (path := _first(item, "", _is_pod_with_gpus)) is not None:
        if kinds:
            places = " or ".join(".".join(steps) for each in kinds for steps in each.templates)
            report.error(
                path,
                None,
                f"there are GPUs where a {kind} has no Pod template, expected it at "
                f"{places or 'the top'}",
                "Move it there.",
            )
        else:
            report.error(
                path,
                None,
                f"there are GPUs in a {kind or 'document without a kind'}, whose Pod templates are "
                "not known",
                _way_to(kind, path),
            )
    elif not kinds and (path := _first(item, "", _asks_for_gpus)) is not None:
        report.warning(
            f"{path}.resources".lstrip("."),
            None,
            "GPUs are asked for outside of a Pod template, so nothing is put in",
            "Use a kind that holds a Pod template, and render that.",
        )
    return report.findings


def _way_to(kind: str, path: str) -> str:
    """Return how to make a Pod template known."""
    if not kind:
        return "Write its apiVersion and kind."
    same = next((known.kind for known in KINDS if known.kind.lower() == kind.lower()), None)
    if same is not None:
        version = f" and the apiVersion of a {same}" if same == kind else ""
        return f"Write kind: {same}{version}."
    if not path:
        return "Write apiVersion: v1 and kind: Pod, if that is what it is."
    return f"Say where they are: --template-path {kind}={path}."


def _is_pod_with_gpus(node: Mapping[str, Any]) -> bool:
    """Whether something looks like a Pod template with GPUs."""
    return "containers" in fields(node, "spec") and has_gpus(node)


def _asks_for_gpus(node: Mapping[str, Any]) -> bool:
    """Whether something asks for GPUs as a container does."""
    resources = fields(node, "resources")
    return any(GPU_RESOURCE in fields(resources, key) for key in ("limits", "requests"))


def _first(node: Any, path: str, wanted: Callable[[Mapping[str, Any]], bool]) -> str | None:
    """Return the path of the first wanted mapping in a tree, outer ones before inner ones."""
    if isinstance(node, Mapping):
        if wanted(node):
            return path
        children = [(f"{path}.{key}".lstrip("."), value) for key, value in node.items()]
    elif isinstance(node, list):
        children = [(f"{path}.*", value) for value in node]
    else:
        return None
    found = (_first(value, inner, wanted) for inner, value in children)
    return next((each for each in found if each is not None), None)


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    return str(metadata.get("name") or metadata.get("generateName") or "")
