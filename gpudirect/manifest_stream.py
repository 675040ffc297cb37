"""GPUDirect into a stream of manifests, document by document, in memory that does not grow.

Owns the pass over a stream: which documents need reading at all, what is written, which findings
come with which place. Does not own the rendering (`workloads`) nor the text (`yaml_documents`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpudirect.pod_reading import GPU_RESOURCE
from gpudirect.workload_environment import Environment, NcclDebug
from gpudirect.workload_findings import ManifestFinding
from gpudirect.workload_kinds import WorkloadKind
from gpudirect.workloads import render_document
from gpudirect.yaml_documents import SourceDocument, StreamWriter, YamlSyntaxError, split_stream


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderRequest:
    """What to put into manifests.

    Attributes:
        environment: What the stack offers.
        extra_kinds: Kinds beside the known ones.
        debug: NCCL's log, where it is wanted.
        nodes: How many nodes each workload spans; read from its object where not given.
    """

    environment: Environment
    extra_kinds: Sequence[WorkloadKind] = ()
    debug: NcclDebug | None = None
    nodes: int | None = None


@dataclass(slots=True)
class StreamSummary:
    """What a pass over a stream came to.

    Attributes:
        documents: How many documents there were.
        rendered: How many of them GPUDirect is in now, changed or not.
        changed: How many came out with another text.
        findings: What there is to say.
    """

    documents: int = 0
    rendered: int = 0
    changed: int = 0
    findings: list[ManifestFinding] = field(default_factory=list)


def render_stream(
    lines: Iterable[str],
    request: RenderRequest,
    *,
    writer: StreamWriter | None,
    source: str = "",
    compare: Callable[[SourceDocument, str], None] | None = None,
) -> StreamSummary:
    """Render a stream of manifests.

    Args:
        lines: The stream, line by line, with line ends as they are.
        request: What to put in.
        writer: Takes the documents that come out, or None to have none. They are of no use where
            the summary holds an error.
        source: Name of the stream's file, for the findings.
        compare: Called with every document that changed and its new text.

    Returns:
        The summary.
    """
    summary = StreamSummary()
    for document in split_stream(lines):
        summary.documents += 1
        text, findings, is_rendered = _render(document, request)
        summary.findings += [
            replace(finding, document=document.number, source=source) for finding in findings
        ]
        summary.rendered += is_rendered
        if text != document.text:
            summary.changed += 1
            if compare is not None:
                compare(document, text)
        if writer is not None:
            writer.add(text)
    return summary


def document_diff(document: SourceDocument, text: str) -> list[str]:
    """Return what changed in a document as the lines of a unified diff without its two headers.

    The line numbers are those of the stream on the old side.
    """
    old, new = document.text.splitlines(keepends=True), text.splitlines(keepends=True)
    shift = document.line - 1 - document.head.count("\n")
    lines = list(difflib.unified_diff(old, new))[2:]
    return [_shifted(line, shift) if line.startswith("@@ ") else line for line in lines]


def _render(
    document: SourceDocument, request: RenderRequest
) -> tuple[str, list[ManifestFinding], bool]:
    """Return a document's new text, its findings, and whether GPUDirect is in it."""
    try:
        if not _may_have_gpus(document.body):
            document.check()
            return document.text, [], False
        data = document.data()
    except YamlSyntaxError as error:
        finding = ManifestFinding(
            severity="error",
            path=f"line {document.line + error.line - 1}",
            value="",
            message=f"this is no YAML that Kubernetes reads: {error}",
            fix="Mend the text there.",
        )
        return document.text, [finding], False
    result, findings = render_document(
        data,
        request.environment,
        extra_kinds=request.extra_kinds,
        debug=request.debug,
        nodes=request.nodes,
    )
    if result is data:
        return document.text, findings, False
    return document.rewritten(result), findings, True


def _may_have_gpus(text: str) -> bool:
    # The name of the resource can also stand there in escapes; whoever writes those is read.
    return GPU_RESOURCE in text or "\\" in text


def _shifted(hunk: str, lines: int) -> str:
    head, old, new, tail = hunk.split(" ", 3)
    return " ".join((head, _moved(old, lines), _moved(new, lines), tail))


def _moved(place: str, lines: int) -> str:
    start, comma, count = place[1:].partition(",")
    return f"{place[0]}{int(start) + lines}{comma}{count}"
