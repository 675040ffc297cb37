"""Streams: where documents begin and end, what is left alone, and how much is held at a time."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpudirect.manifest_stream import RenderRequest, document_diff, render_stream
from gpudirect.yaml_documents import SourceDocument, StreamWriter, split_stream
from tests.unit.workload_samples import HIGH, MEGA, assert_complete, job, load_all, pod, render_text

CASES = Path(__file__).parent.parent / "cases" / "manifests"
POD = yaml.safe_dump(pod(), sort_keys=False)
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"


def split(text: str) -> list[SourceDocument]:
    return list(split_stream(text.splitlines(keepends=True)))


# Documents


def test_markers_part_documents_and_text_that_looks_like_one_does_not() -> None:
    documents = split('a: |\n  ---\n  x\n---\nb: "---"\n--- # chart/x.yaml\nc: 1\n...\n')
    assert [d.body for d in documents] == ["a: |\n  ---\n  x\n", 'b: "---"\n', "c: 1\n"]
    assert [d.number for d in documents] == [1, 2, 3]
    assert [d.line for d in documents] == [1, 5, 7]
    assert documents[2].head == "--- # chart/x.yaml\n"


@pytest.mark.parametrize("empty", ["", "\n", "null\n", "~ # nothing\n", "# only a comment\n"])
def test_an_empty_document_is_dropped(empty: str) -> None:
    out, summary = render_text(f"{SERVICE}---\n{empty}---\n{SERVICE}")
    assert [d["kind"] for d in load_all(out)] == ["Service", "Service"]
    assert summary.documents == 2
    assert "null" not in out


def test_the_comment_of_an_empty_document_is_kept() -> None:
    out, _ = render_text(f"# all of it\n---\n{SERVICE}---\n# about the next\n---\n{SERVICE}")
    assert out == f"# all of it\n---\n{SERVICE}# about the next\n---\n{SERVICE}"


def test_a_stream_without_documents_is_empty() -> None:
    for text in ("", "\n", "---\n", "# nothing\n"):
        out, summary = render_text(text)
        assert summary.documents == 0
        assert load_all(out) in ([], [None])


def test_content_on_the_markers_line_is_content() -> None:
    out, summary = render_text(f"--- {json.dumps(pod())}\n--- {{kind: Service}}\n")
    assert summary.documents == 2
    assert summary.rendered == 1
    first, second = load_all(out)
    assert_complete(first, MEGA)
    assert second == {"kind": "Service"}


def test_directives_stay_with_their_document() -> None:
    text = f"%YAML 1.1\n---\n{SERVICE}"
    assert render_text(text)[0] == text


def test_a_byte_order_mark_and_a_missing_last_line_end_do_no_harm() -> None:
    out, summary = render_text("\ufeff" + POD.rstrip("\n"))
    assert summary.rendered == 1
    assert_complete(load_all(out)[0], MEGA)


def test_windows_line_ends_stay() -> None:
    text = (POD + "---\n" + SERVICE).replace("\n", "\r\n")
    pieces: list[str] = []
    summary = render_stream(
        text.splitlines(keepends=True),
        RenderRequest(environment=MEGA),
        writer=StreamWriter(pieces.append),
    )
    out = "".join(pieces)
    assert summary.rendered == 1
    assert out.count("\n") == out.count("\r\n")
    assert_complete(load_all(out)[0], MEGA)


def test_documents_without_gpus_come_back_to_the_byte() -> None:
    text = "---\n\n# odd   spacing\napiVersion:   v1\nkind: X   \nmode: 0755\n\n\n---\nlast: yes\n"
    assert render_text(text)[0] == text


# JSON


def test_json_stays_json() -> None:
    for indent in (None, 2, "\t"):
        text = json.dumps(pod(), indent=indent) + "\n"
        out, _ = render_text(text)
        assert_complete(json.loads(out), MEGA)
        assert render_text(out)[0] == out
        assert ("\n  " in out) == (indent == 2)


def test_a_list_of_objects_is_opened() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "Service"}, pod()]}
    out, summary = render_text(yaml.safe_dump(listed, sort_keys=False))
    first, second = load_all(out)[0]["items"]
    assert first == {"kind": "Service"}
    assert_complete(second, MEGA)
    assert summary.rendered == 1


def test_the_items_of_a_typed_list_need_no_kind() -> None:
    item = {key: value for key, value in job().items() if key not in ("apiVersion", "kind")}
    listed = {"apiVersion": "batch/v1", "kind": "JobList", "items": [item]}
    out, summary = render_text(yaml.safe_dump(listed, sort_keys=False))
    (rendered,) = load_all(out)[0]["items"]
    assert_complete(rendered["spec"]["template"], MEGA)
    assert rendered.keys() == item.keys()
    assert summary.rendered == 1
    assert render_text(out)[0] == out


@pytest.mark.parametrize(("text", "words"), [("- nvidia.com/gpu\n", "a list"), ("a\\b\n", "text")])
def test_what_is_no_object_is_told_in_words(text: str, words: str) -> None:
    _, summary = render_text(text)
    assert [finding.value for finding in summary.findings] == [words]


@pytest.mark.parametrize("line_end", ["\x85", "\u2028", "\u2029", "\r"], ids=ascii)
@pytest.mark.parametrize("quote", ["'", '"'])
def test_comments_stay_behind_every_line_end_that_yaml_knows(line_end: str, quote: str) -> None:
    text = f"# first\n{POD}  # last\n  hostname: {quote}a{line_end}b{quote}\n  # end\n# tail\n"
    out, _ = render_text(text)
    for comment in ("# first\n", "  # last\n", "  # end\n", "# tail\n"):
        assert comment in out
    assert load_all(out)[0]["spec"]["hostname"] == load_all(text)[0]["spec"]["hostname"]


def test_a_character_that_yaml_cannot_hold_is_told_with_its_line() -> None:
    _, summary = render_text(f"{POD}  hostname: a\0b\n")
    assert [finding.path for finding in summary.findings] == [f"line {POD.count(chr(10)) + 1}"]


def test_a_finding_in_a_list_names_the_item() -> None:
    listed = {"apiVersion": "v1", "kind": "PodList", "items": [pod(), pod(hostNetwork=True)]}
    _, summary = render_text(yaml.safe_dump(listed))
    assert [f.path for f in summary.findings] == ["items[1].spec.hostNetwork"]


# Trouble


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{SERVICE}---\na: [1\n", 6),
        (f"{POD}---\n{POD}spec: {{}}\n", 2 * POD.count("\n") + 2),
        (f"{SERVICE}---\nb: {{{{ .Values.x }}}}\nc: {{{{- end }}}}\n", 6),
        ('{"kind": "Pod", "kind": "Pod", "x": "nvidia.com/gpu"}\n', 1),
        (f"%{POD}", 1),
        (f"{SERVICE}---\n%{SERVICE}", 5),
    ],
)
def test_text_that_is_no_yaml_is_an_error_with_the_line_of_the_stream(text: str, line: int) -> None:
    _, summary = render_text(text)
    [finding] = summary.findings
    assert finding.severity == "error"
    assert finding.path == f"line {line}"
    assert "no YAML" in finding.message


def test_a_document_that_is_no_object_is_an_error() -> None:
    _, summary = render_text("- nvidia.com/gpu\n- x\n")
    [finding] = summary.findings
    assert "not an object" in finding.message


# Comments


@pytest.mark.parametrize(
    "name",
    [
        "m01_job_own_inits_and_sidecar.yaml",
        "m04_lws_two_templates_with_anchor.yaml",
        "m07_pytorchjob.yaml",
        "m13_nulls_and_strings.yaml",
        "m16_deployment.yaml",
        "m20_env_of_its_own.yaml",
    ],
)
def test_no_comment_is_lost_wherever_it_stands(name: str) -> None:
    lines = []
    for number, line in enumerate((CASES / name).read_text().splitlines()):
        indent = line[: len(line) - len(line.lstrip())]
        lines += [f"{indent}# above {number}.", f"{line} # beside {number}.", ""]
    environment = HIGH if name.startswith(("m07", "m16", "m20")) else MEGA
    out, summary = render_text("\n".join(lines) + "\n", environment)
    assert summary.rendered == 1
    for number in range(len(lines) // 3):
        for word in ("above", "beside"):
            assert out.count(f"# {word} {number}.") == 1
    assert load_all(out) == load_all(render_text((CASES / name).read_text(), environment)[0])
    assert render_text(out, environment)[0] == out


def test_comments_stay_in_front_of_what_they_are_about() -> None:
    text = POD.replace("  containers:", "  # the one that trains\n  containers:").replace(
        "    resources:", "    # all of the node\n    resources: # eight"
    )
    out, _ = render_text(text + "# the end\n")
    assert "  # the one that trains\n  containers:\n" in out
    assert "    # all of the node\n    resources: # eight\n" in out
    assert out.endswith("# the end\n")


# Differences


def test_a_difference_has_the_line_numbers_of_the_stream() -> None:
    found: list[list[str]] = []
    render_stream(
        (SERVICE + "---\n" + POD).splitlines(keepends=True),
        RenderRequest(environment=MEGA),
        writer=None,
        compare=lambda document, text: found.append(document_diff(document, text)),
    )
    [lines] = found
    hunks = [line for line in lines if line.startswith("@@ ")]
    first_change = (SERVICE + "---\n" + POD).splitlines().index("  name: wren") + 2
    assert hunks[0].startswith(f"@@ -{first_change - 3},")
    removed = [line[1:] for line in lines if line.startswith("-")]
    assert all(line in POD for line in removed)


# Size


def test_a_long_stream_is_not_held_in_memory() -> None:
    document = POD + "---\n" + SERVICE + "x: " + "y" * 20_000 + "\n---\n"

    def stream(documents: int) -> Iterator[str]:
        for _ in range(documents):
            yield from document.splitlines(keepends=True)

    def peak(documents: int) -> int:
        tracemalloc.start()
        try:
            written = 0

            def count(text: str) -> None:
                nonlocal written
                written += len(text)

            summary = render_stream(
                stream(documents), RenderRequest(environment=MEGA), writer=StreamWriter(count)
            )
            assert summary.rendered == documents
            assert written > documents * 20_000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)
    assert peak(40) < 2 * peak(4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nvidia.com/gpu: 8\nimage: {{ .Values.image }}\n", "helm template"),
        ("{{- if .Values.gpus }}\nkind: Pod\n{{- end }}\n", "helm template"),
        ("spec:\n\tcontainers: []\n", "a tab in front"),
        ("kind: Service\nspec: *shared\n", "*shared names no anchor"),
        ('{"kind": "Pod"}\n{"kind": "Pod"}\n', "a line --- between them"),
    ],
)
def test_text_that_is_no_yaml_is_told_with_its_likely_cause(text: str, words: str) -> None:
    (finding,) = render_text(text)[1].findings
    assert words in finding.message


def test_an_anchor_that_nothing_refers_to_any_more_stays_for_good() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  labels: &l\n    a: b\n"
        "  annotations: *l\nspec:\n  containers:\n  - &c\n    name: c\n    image: i\n"
        "    resources: {limits: {nvidia.com/gpu: 8}}\n"
    )
    once, _ = render_text(text)
    assert "labels: &l" in once
    assert render_text(once)[0] == once
