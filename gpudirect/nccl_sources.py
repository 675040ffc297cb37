"""Where the results of NCCL runs come from: files, standard input, a stack's output.

Owns finding a run, the reference it is compared with, and its verdict. Does not own the reading of
a log (`nccl_results`) nor judging (`nccl_judgement`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gpudirect.deployed_stack import read_stack_outputs
from gpudirect.nccl_bands import Reference
from gpudirect.nccl_data import NcclRun
from gpudirect.nccl_exports import run_from_json, to_json
from gpudirect.nccl_judgement import DEFAULT_MIN_FRACTION, judge
from gpudirect.nccl_results import bounded_lines, read_results
from gpudirect.releases import Release, load_releases
from gpudirect.stacks import STACKS, GpuStack

_STACK_OF_TRANSPORT = {"fastrak": "a3-mega", "tcpx": "a3-high"}
_MAX_RESULT_CHARACTERS = 16 * 1024 * 1024


class ResultSourceError(ValueError):
    """A source that cannot be read, or that holds no result; the text says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """What a run is measured against; None leaves the choice to what the source says.

    Attributes:
        gpu_stack: Name of the GPU stack, `a3-high` or `a3-mega`.
        release: Name of the release.
        nodes: Nodes that took part.
        min_fraction: Least part of the reference.
        mode: `gate` or `report`.
        collective: What was run, where the output does not say.
    """

    gpu_stack: str | None = None
    release: str | None = None
    nodes: int | None = None
    min_fraction: float | None = None
    mode: str = "gate"
    collective: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRun:
    """One run with its verdict.

    Attributes:
        label: Where it comes from, in a few words.
        run: The run.
        document: The JSON contract of it.
        reference: The curve it was compared with; empty where none is known.
        min_fraction: The part of it that was asked for.
        is_stack: Whether it comes from the outputs of a stack.
        history: The runs of the stack before and with it, oldest first.
    """

    label: str
    run: NcclRun
    document: Mapping[str, Any]
    reference: Reference
    min_fraction: float
    is_stack: bool = False
    history: Sequence[Mapping[str, Any]] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the gate."""
        return str(self.document["verdict"])


def run_of_file(source: str, bar: Bar) -> JudgedRun:
    """Read and judge a log, a report of nccl-tests, or a result that this program exported.

    Args:
        source: Path of the file, `-` for standard input.
        bar: What it is measured against.

    Raises:
        ResultSourceError: the file cannot be read.
    """
    if source == "-":
        return _judged("standard input", _read(sys.stdin), bar)
    try:
        # Carriage returns are the reader's business; a byte that is no UTF-8 spoils no row.
        with Path(source).open(encoding="utf-8", errors="replace", newline="\n") as stream:
            run = _exported_run(stream) or _read(stream)
    except OSError as error:
        raise ResultSourceError(f"{source} cannot be read: {error.strerror}") from error
    return _judged(Path(source).name, run, bar)


def run_of_stack(stack: str, bar: Bar, *, program: Path | None = None) -> JudgedRun:
    """Return the last run of a stack, with the verdict that its gate gave.

    Args:
        stack: Name of the Pulumi stack.
        bar: Another bar to judge by; the stored verdict stands where it names none.
        program: Folder of the Pulumi program.

    Raises:
        ResultSourceError: the stack has no result.
        StackOutputError: its outputs cannot be read.
    """
    outputs = read_stack_outputs(stack, program=program)
    result = outputs.get("smokeTest")
    if not isinstance(result, dict) or "rows" not in result:
        verdict = result.get("verdict") if isinstance(result, dict) else None
        seen = "smokeTest is off" if verdict == "off" else "there is no output smokeTest"
        raise ResultSourceError(
            f"stack {stack!r} has no NCCL result: {seen}. Set it with `pulumi config set smokeTest "
            "report` (or gate) and run `pulumi up`."
        )
    try:
        run = run_from_json(result)
        nodes = int(result.get("nodes") or 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise ResultSourceError(f"stack {stack!r}: output smokeTest holds {error}") from error
    release = outputs.get("release") or {}
    own = Bar(
        gpu_stack=bar.gpu_stack or str(outputs.get("gpuStack")),
        release=bar.release or (release.get("name") if isinstance(release, dict) else None),
        nodes=bar.nodes or nodes or None,
        min_fraction=bar.min_fraction,
        mode=bar.mode,
        collective=bar.collective,
    )
    judged = _judged(stack, run, own)
    document = judged.document
    if bar == Bar(mode=bar.mode, collective=bar.collective):
        stored = {key: result[key] for key in ("verdict", "reasons") if key in result}
        document = {**document, **stored}
    return JudgedRun(
        label=stack,
        run=run,
        document=document,
        reference=judged.reference,
        min_fraction=judged.min_fraction,
        is_stack=True,
        history=result.get("history") or (),
    )


def _judged(label: str, run: NcclRun, bar: Bar) -> JudgedRun:
    release, stack = _release(run, bar)
    reference = release.reference_bandwidth if release else ()
    min_fraction = DEFAULT_MIN_FRACTION if bar.min_fraction is None else bar.min_fraction
    judgement = judge(
        run,
        reference=reference,
        nodes=bar.nodes or len(run.ranks_per_host) or 2,
        gpus_per_node=stack.gpus_per_node if stack else 8,
        min_fraction=min_fraction,
        mode=bar.mode,
        nic_count=stack.nic_count if stack else None,
        reference_nodes=release.reference.nodes if release else 2,
        collective=bar.collective,
    )
    return JudgedRun(
        label=label,
        run=run,
        document=to_json(run, judgement),
        reference=reference,
        min_fraction=min_fraction,
    )


def _release(run: NcclRun, bar: Bar) -> tuple[Release | None, GpuStack | None]:
    """Return the release to compare with: the one named, or the default of the stack at hand."""
    name = bar.gpu_stack or _STACK_OF_TRANSPORT.get(run.transport)
    if name is None and bar.release is not None:
        name = next((r.stack for r in load_releases().releases if r.name == bar.release), None)
        if name is None:
            raise ResultSourceError(
                f"--release {bar.release} is not in the release lock. `python -m gpudirect "
                "releases` lists them."
            )
    if name is None or name not in STACKS:
        return None, None
    lock = load_releases()
    release = lock.get(bar.release, name) if bar.release else lock.default(name)
    return release, STACKS[name]


def _read(stream: IO[str]) -> NcclRun:
    return read_results(bounded_lines(stream))


def _exported_run(stream: IO[str]) -> NcclRun | None:
    """Return the run of a file that `results --json` wrote, None for any other file."""
    if stream.read(1) != "{":
        stream.seek(0)
        return None
    stream.seek(0)
    text = stream.read(_MAX_RESULT_CHARACTERS)
    stream.seek(0)
    try:
        result = json.loads(text)
        return run_from_json(result) if isinstance(result, dict) and "run" in result else None
    except (ValueError, RecursionError):
        return None
