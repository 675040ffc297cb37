"""`inject`: GPUDirect into manifests, from files, folders or a stream.

Owns the options, what is printed where, the exit code, and that a refused call writes nothing. Does
not own what is put in (`workloads`) nor the pass over a stream (`manifest_stream`).
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import click

from gpudirect.deployed_stack import StackOutputError
from gpudirect.environment_options import EnvironmentOptions, selectors_from, split_networks
from gpudirect.krm_function import FunctionConfigError, run_function
from gpudirect.manifest_files import (
    FileRewrite,
    ManifestFileError,
    manifest_files,
    not_utf8,
    reading,
)
from gpudirect.manifest_stream import RenderRequest, StreamSummary, document_diff, render_stream
from gpudirect.stacks import STACKS
from gpudirect.workload_environment import NcclDebug, debug_file_pattern
from gpudirect.workload_findings import ManifestFinding, errors_in
from gpudirect.workload_kinds import kind_from_path
from gpudirect.yaml_documents import SourceDocument, StreamWriter, YamlSyntaxError
from gpudirect.yaml_reading import read_tree
from gpudirect.yaml_writing import write_tree

STDIN = "-"
# What is rendered waits here until the last document is known to be right.
_MEMORY_BYTES = 8 << 20
_COLOURS = {"error": "red", "warning": "yellow"}
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class _Trouble(click.ClickException):
    """Anything but a finding: exit code 1 is for those alone."""

    exit_code = 2


@dataclass(slots=True)
class _Total:
    """Sum over all sources of a call."""

    documents: int = 0
    rendered: int = 0
    changed: int = 0
    findings: list[ManifestFinding] = field(default_factory=list)

    def add(self, summary: StreamSummary) -> None:
        self.documents += summary.documents
        self.rendered += summary.rendered
        self.changed += summary.changed
        self.findings += summary.findings


_EXAMPLES = """\b
Examples:
  python -m gpudirect inject --stack dev job.yaml | kubectl apply -f -
  python -m gpudirect inject --gpu-stack a3-mega --check -R manifests/
"""


@click.command("inject", epilog=_EXAMPLES)
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Same as an argument, as kubectl has it.",
)
@click.option("-R", "--recursive", is_flag=True, help="Open the folders inside folders as well.")
@click.option(
    "--stack",
    envvar="GPUDIRECT_STACK",
    metavar="NAME",
    help="Pulumi stack that the Pods will run in: its outputs say everything below.",
)
@click.option(
    "--program",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the Pulumi program.  [default: this checkout]",
)
@click.option(
    "--gpu-stack",
    envvar="GPUDIRECT_GPU_STACK",
    type=click.Choice(list(STACKS)),
    help="GPU nodes, where there is no Pulumi stack to ask.",
)
@click.option(
    "--networks",
    metavar="NAME,...",
    help="Network objects in the order of the GPU NICs.  [default: the stack's, or vpc1,...]",
)
@click.option("--profile", metavar="NAME", help="NCCL profile, such as simple.")
@click.option("--release", metavar="NAME", help="Release from the lock.")
@click.option("--image-registry", metavar="HOST", help="Registry in place of the published one.")
@click.option(
    "--node-selector",
    "node_selectors",
    multiple=True,
    metavar="KEY=VALUE",
    help="Selector of the capacity choice, such as cloud.google.com/gke-spot=true.",
)
@click.option("--debug", is_flag=True, help="Turn on NCCL's own log.")
@click.option(
    "--debug-file",
    metavar="PATH",
    help="Turn it on, each rank writing to PATH.<host>.<process>.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    help="Nodes of each workload.  [default: read from the object]",
)
@click.option(
    "--template-path",
    "template_paths",
    multiple=True,
    metavar="[KIND=]PATH",
    help="Where another kind keeps its Pod template, such as Rollout=spec.template.",
)
@click.option("--diff", "shows_diff", is_flag=True, help="Show what would change; write nothing.")
@click.option("--check", "checks", is_flag=True, help="Write nothing; exit 1 with findings.")
@click.option("--errors-only", is_flag=True, help="Let warnings pass a --check.")
@click.option("--in-place", is_flag=True, help="Write the files that change.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
@click.option("--krm", is_flag=True, help="Be a KRM function: ResourceList in, ResourceList out.")
@click.pass_context
def command(context: click.Context, /, **said: Any) -> None:
    """Put GPUDirect into manifests.

    Each Pod template with GPUs gets what its Pods need to use the GPU network: receive daemon,
    devices, interfaces, mounts, NCCL settings, selectors. Everything else stays as it is, and so
    does what is there already. A manifest that could not work is refused with every reason, and
    then nothing at all is written. Manifests go to standard output, findings to standard error.
    """
    sources = [*said["paths"], *said["filenames"]]
    if said["in_place"] and (said["shows_diff"] or said["checks"]):
        raise click.UsageError("--in-place writes, --diff and --check do not: choose one.")
    try:
        options = _environment_options(said)
        if said["krm"]:
            context.exit(_run_krm(options))
        request = RenderRequest(
            environment=options.environment(),
            extra_kinds=[kind_from_path(text) for text in said["template_paths"]],
            debug=_debug(said),
            nodes=said["nodes"],
        )
    except StackOutputError as error:
        raise _Trouble(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if not sources:
        if sys.stdin.isatty():
            raise click.UsageError("no manifest: name files or folders, or - for standard input.")
        sources = [STDIN]
    if said["in_place"] and STDIN in sources:
        raise click.UsageError("--in-place needs files: standard input cannot be written back.")
    total = _Total()
    try:
        files = _sources(sources, recursive=said["recursive"])
        if said["in_place"]:
            _rewrite(files, request, total)
        else:
            _print(files, request, total, shows_diff=said["shows_diff"], checks=said["checks"])
    except ManifestFileError as error:
        raise _Trouble(str(error)) from error
    _report(total, request, said, writes=not (said["checks"] or said["shows_diff"]))
    strict = said["checks"] and not said["errors_only"]
    context.exit(1 if (total.findings if strict else errors_in(total.findings)) else 0)


def _environment_options(said: dict[str, Any]) -> EnvironmentOptions:
    return EnvironmentOptions(
        pulumi_stack=said["stack"],
        program=said["program"],
        gpu_stack=said["gpu_stack"],
        networks=split_networks(said["networks"]),
        profile=said["profile"],
        release=said["release"],
        image_registry=said["image_registry"],
        node_selector=selectors_from(said["node_selectors"]),
    )


def _debug(said: dict[str, Any]) -> NcclDebug | None:
    if said["debug_file"]:
        return NcclDebug(file=debug_file_pattern(said["debug_file"]))
    return NcclDebug() if said["debug"] else None


def _sources(paths: Sequence[str], *, recursive: bool) -> list[Path | None]:
    """Return the files to read, None standing for standard input."""
    found: list[Path | None] = []
    for path in paths:
        if path == STDIN:
            found.append(None)
        else:
            found += manifest_files([path], recursive=recursive)
    return found


def _print(
    files: Sequence[Path | None],
    request: RenderRequest,
    total: _Total,
    *,
    shows_diff: bool,
    checks: bool,
) -> None:
    """Render all sources; print the manifests or what changed, unless a document is refused."""
    with tempfile.SpooledTemporaryFile(
        max_size=_MEMORY_BYTES, mode="w+", encoding="utf-8", newline=""
    ) as spool:
        writer = StreamWriter(spool.write)
        for file in files:
            differences = _Differences(file, spool) if shows_diff else None
            total.add(
                _render(
                    file,
                    request,
                    writer=None if shows_diff or checks else writer,
                    compare=differences,
                )
            )
        if errors_in(total.findings) and not shows_diff:
            return
        spool.seek(0)
        if shows_diff and sys.stdout.isatty():
            for line in spool:
                click.secho(line, nl=False, fg=_DIFF_COLOURS.get(line[:1]))
        else:
            out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
            shutil.copyfileobj(spool, out)
            out.flush()
            out.detach()


class _Differences:
    """Writes what changed in the documents of one source as a unified diff."""

    def __init__(self, file: Path | None, out: IO[str]) -> None:
        self._name = str(file) if file else STDIN
        self._out = out
        self._is_first = True

    def __call__(self, document: SourceDocument, text: str) -> None:
        if self._is_first:
            self._out.write(f"--- a/{self._name}\n+++ b/{self._name}\n")
            self._is_first = False
        self._out.writelines(document_diff(document, text))


def _render(
    file: Path | None,
    request: RenderRequest,
    *,
    writer: StreamWriter | None,
    compare: _Differences | None,
) -> StreamSummary:
    if file is not None:
        with reading(file) as lines:
            return render_stream(lines, request, writer=writer, source=str(file), compare=compare)
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="")
    try:
        return render_stream(lines, request, writer=writer, compare=compare)
    except UnicodeDecodeError as error:
        raise ManifestFileError(not_utf8("standard input", error)) from error
    finally:
        lines.detach()


def _rewrite(files: Sequence[Path | None], request: RenderRequest, total: _Total) -> None:
    """Render files in place, all of them or none."""
    with FileRewrite() as rewrite:
        for file in files:
            if file is None:
                continue
            new = rewrite.open(file)
            summary = _render(file, request, writer=StreamWriter(new.write), compare=None)
            total.add(summary)
            if not summary.changed:
                rewrite.drop(new)
        if not errors_in(total.findings):
            rewrite.commit()


def _run_krm(options: EnvironmentOptions) -> int:
    try:
        tree = read_tree(sys.stdin.buffer.read().decode("utf-8"))
        answer, findings = run_function(tree.data, options)
    except UnicodeDecodeError as error:
        raise _Trouble(not_utf8("standard input", error)) from error
    except (FunctionConfigError, YamlSyntaxError) as error:
        raise _Trouble(str(error)) from error
    click.echo(write_tree(tree, answer), nl=False)
    for finding in findings:
        _say(finding)
    return 1 if errors_in(findings) else 0


def _report(total: _Total, request: RenderRequest, said: dict[str, Any], *, writes: bool) -> None:
    errors = errors_in(total.findings)
    environment = request.environment
    if said["as_json"]:
        data = {
            "documents": total.documents,
            "rendered": total.rendered,
            "changed": total.changed,
            "gpuStack": environment.stack.name,
            "release": environment.release.name,
            "profile": environment.profile,
            "networks": list(environment.networks),
            "findings": [finding.to_json() for finding in total.findings],
        }
        click.echo(json.dumps(data, indent=2), err=writes or said["shows_diff"])
        return
    for finding in total.findings:
        _say(finding)
    if errors:
        words = "nothing was written" if writes else "they would be refused"
        click.echo(f"{len(errors)} of {len(total.findings)} findings are errors; {words}", err=True)
        return
    click.echo(
        f"{total.rendered} of {total.documents} documents use the GPU network "
        f"({environment.stack.name}, {environment.release.name}, profile {environment.profile}, "
        f"{', '.join(environment.networks)}); {total.changed} changed",
        err=True,
    )


def _say(finding: ManifestFinding) -> None:
    severity, _colon, rest = str(finding).partition(":")
    click.echo(f"{click.style(severity, fg=_COLOURS[finding.severity])}:{rest}", err=True)
