"""Decides whether an NCCL run proves the GPU network: the verdict of the gate and its reasons.

Owns what makes a run pass: values, ranks, transport, and bandwidth per band of message sizes
against a release's reference curve. Does not own reading (`nccl_results`) nor why a run went wrong
(`gpudirect.diagnosis`).

Why bands and not one average: a table cut off at half its peak keeps most of its average, because
the many small sizes are bound by latency and stay as they were. Why 0.8 as the least fraction: of
two public runs on sound hardware every size from 64 MiB up lies within 5 % of the published
curve, a lost NIC of eight costs 12.5 % and one of four 25 %, and a table at three quarters of the
curve must not pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal

from gpudirect.diagnosis.causes import CAUSES
from gpudirect.diagnosis.text_rules import most_telling
from gpudirect.nccl_bands import (
    LATENCY_BOUND_BELOW_BYTES,
    Band,
    Comparison,
    Reference,
    compare,
    format_size,
    split_into_bands,
)
from gpudirect.nccl_data import NcclRun

Verdict = Literal["passed", "degraded", "failed", "incomplete"]

DEFAULT_MIN_FRACTION = 0.8

# What mpirun and a dying process say; ranks that warn and go on are nobody's failure.
_ENDED_BADLY = re.compile(r"mpirun (?:detected|noticed)|Segmentation fault|Test NCCL failure")
# Sizes at which even the reference uses less of the network than this decide nothing.
_DECISIVE_SHARE_OF_PEAK = 0.5
_MOST_HOSTS_SHOWN = 3
# Bus bandwidth is defined so that ring collectives are comparable; all-to-all is none of them.
_COMPARABLE = {None, "all_gather", "all_reduce", "reduce_scatter"}


class Weight(IntEnum):
    """What a reason does to the verdict, weightiest first."""

    INCOMPLETE = 0
    WRONG = 1
    BANDWIDTH = 2
    NOTE = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One reason of a verdict, in one sentence."""

    weight: Weight
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The verdict on one run.

    Attributes:
        verdict: passed; failed; degraded, which is bandwidth that would fail, where the gate only
            reports; incomplete, where there is no number to judge.
        reasons: Weightiest first; notes that do not touch the verdict come last.
        bands: What was compared with the reference; empty where nothing was.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...]
    bands: tuple[Band, ...] = field(default=())

    @property
    def texts(self) -> tuple[str, ...]:
        """The reasons as sentences, weightiest first."""
        return tuple(reason.text for reason in self.reasons)


def judge(
    run: NcclRun,
    *,
    reference: Reference,
    nodes: int,
    gpus_per_node: int = 8,
    min_fraction: float = DEFAULT_MIN_FRACTION,
    mode: str = "gate",
    nic_count: int | None = None,
    reference_nodes: int = 2,
    collective: str | None = None,
) -> Judgement:
    """Judge a run.

    Args:
        run: What the test printed.
        reference: Points (message size in bytes, bus bandwidth in GB/s) of the release's all-gather
            curve, in any order.
        nodes: Nodes that took part.
        gpus_per_node: Ranks that each of them must run.
        min_fraction: The least part of the reference that the largest sizes must reach.
        mode: `gate` or `report`; in a report low bandwidth is `degraded`, not `failed`.
        nic_count: GPU NICs of a node; a run in which a node used fewer fails.
        reference_nodes: Nodes that the reference was measured with.
        collective: What was run, such as `all-to-all`, for outputs that do not say: only newer
            versions of nccl-tests do.
    """
    if run.collective is None and collective is not None:
        run = replace(run, collective=collective.replace("-", "_"))
    curve = sorted((size, value) for size, value in reference if size > 0 and value > 0)
    bands, bandwidth_reasons = _compare(run, curve, min_fraction, reference_nodes, nodes)
    reasons = [
        *_run_reasons(run),
        *_rank_reasons(run, nodes, gpus_per_node),
        *_transport_reasons(run),
        *_nic_reasons(run, nodes, nic_count),
        *bandwidth_reasons,
        *_notes(run),
    ]
    # The sort is stable: within one weight the order above is the order of weight.
    reasons.sort(key=lambda reason: reason.weight)
    return Judgement(verdict=_verdict(run, reasons, mode), reasons=tuple(reasons), bands=bands)


def _verdict(run: NcclRun, reasons: Iterable[Reason], mode: str) -> Verdict:
    weights = {reason.weight for reason in reasons}
    if run.status in ("incomplete", "ambiguous"):
        return "incomplete"
    if Weight.WRONG in weights:
        return "failed"
    if Weight.INCOMPLETE in weights:
        return "incomplete"
    if Weight.BANDWIDTH in weights:
        return "degraded" if mode == "report" else "failed"
    return "passed"


def _run_reasons(run: NcclRun) -> list[Reason]:
    if run.status == "failed":
        return [Reason(weight=Weight.WRONG, text=run.reason or "the run failed")]
    if run.status == "complete":
        return []
    text = run.reason or f"the run is {run.status}"
    if run.status == "incomplete":
        if run.problem_lines:
            line, cause = most_telling(run.problem_lines)
            meaning = f"{CAUSES[cause].summary} " if cause else ""
            text += f". {meaning}The log says: {line}"
        elif run.last_lines:
            text += f". The log ends with: {run.last_lines[-1].strip()}"
    return [Reason(weight=Weight.INCOMPLETE, text=text)]


def _rank_reasons(run: NcclRun, nodes: int, gpus_per_node: int) -> list[Reason]:
    wanted = nodes * gpus_per_node
    if nodes < 2:
        text = "a run on one node proves nothing: no byte crosses the GPU network"
        return [Reason(weight=Weight.INCOMPLETE, text=text)]
    if run.ranks is None or run.status == "incomplete":
        if run.rows and run.ranks is None:
            return [
                Reason(
                    weight=Weight.NOTE,
                    text=f"the output does not say how many ranks took part (wanted: {wanted})",
                )
            ]
        return []
    reasons = []
    if run.ranks != wanted and run.ranks != 1:
        reasons.append(
            f"{run.ranks} ranks took part, {wanted} are wanted: "
            f"{gpus_per_node} on each of {nodes} nodes"
        )
    elif run.tables == 1 and run.ranks_per_host and len(run.ranks_per_host) != nodes:
        reasons.append(
            f"the ranks sit on {len(run.ranks_per_host)} hosts, {nodes} nodes are wanted"
        )
    if run.groups > 1:
        reasons.append(
            f"the ranks were split into {run.groups} groups that do not speak to one another"
        )
    return [Reason(weight=Weight.WRONG, text=text) for text in reasons]


def _transport_reasons(run: NcclRun) -> list[Reason]:
    if run.transport == "socket":
        return [
            Reason(
                weight=Weight.WRONG,
                text="transport is Socket: NCCL did not use GPUDirect between the nodes",
            )
        ]
    if run.transport == "unknown" and run.rows:
        text = (
            "the output does not say which transport was used (NCCL names it with NCCL_DEBUG=INFO)"
        )
        return [Reason(weight=Weight.NOTE, text=text)]
    return []


def _nic_reasons(run: NcclRun, nodes: int, nic_count: int | None) -> list[Reason]:
    """Compare the NICs that channels went through with those that a node has.

    One NIC of eight costs 12.5 %, which a bar of 80 % lets through; yet it is not the network that
    the machine has, and every job on it is slower. The log proves it only where all nodes speak:
    of a part of a log, a part of the NICs is all that can be seen.
    """
    if not nic_count or run.transport not in ("fastrak", "tcpx"):
        return []
    few = {host: nics for host, nics in run.nics_per_host.items() if len(nics) < nic_count}
    if not few:
        return []
    shown = [
        f"{len(nics)} of {nic_count} GPU NICs: {', '.join(map(str, nics))} on {host}"
        for host, nics in sorted(few.items())[:_MOST_HOSTS_SHOWN]
    ]
    more = len(few) - len(shown)
    text = "channels went through " + "; ".join(shown) + (f"; and {more} more hosts" * bool(more))
    if len(run.nics_per_host) >= nodes:
        return [Reason(weight=Weight.WRONG, text=text)]
    return [Reason(weight=Weight.NOTE, text=f"as far as the log goes, {text}")]


def _notes(run: NcclRun) -> list[Reason]:
    notes = []
    if run.data_checked is False and run.rows:
        notes.append("values were not checked: the test ran without data validation")
    if run.unreadable_rows:
        notes.append(f"{run.unreadable_rows} rows could not be read: other text is in them")
    if run.status == "complete":
        ended = next((line for line in run.problem_lines if _ENDED_BADLY.search(line)), None)
        if ended is not None:
            notes.append(f"the table is whole, yet the log reports a failed end: {ended}")
    if run.simulated:
        notes.append("simulated: no hardware produced these figures")
    return [Reason(weight=Weight.NOTE, text=text) for text in notes]


def _compare(
    run: NcclRun, curve: Reference, min_fraction: float, reference_nodes: int, nodes: int
) -> tuple[tuple[Band, ...], list[Reason]]:
    """Compare with the reference, where both have something to compare."""
    if run.status in ("ambiguous", "failed") or not any(row.size_bytes for row in run.rows):
        return (), []
    if not curve:
        text = "bandwidth was not judged: there is no reference to compare with"
        return (), [Reason(weight=Weight.INCOMPLETE, text=text)]
    if run.collective not in _COMPARABLE:
        text = f"bandwidth was not judged: the reference is of all_gather, not of {run.collective}"
        return (), [Reason(weight=Weight.NOTE, text=text)]
    comparisons = compare(run.rows, curve)
    bands = split_into_bands(comparisons)
    reasons = [] if run.status == "incomplete" else _band_reasons(bands, curve, min_fraction)
    reasons += _coverage_reasons(run, curve, comparisons)
    if comparisons and nodes != reference_nodes:
        text = f"reference measured with {reference_nodes} nodes, this run with {nodes}"
        reasons.append(Reason(weight=Weight.NOTE, text=text))
    if comparisons and run.collective not in (None, "all_gather"):
        text = f"reference measured with all_gather, this run with {run.collective}"
        reasons.append(Reason(weight=Weight.NOTE, text=text))
    return bands, reasons


def _band_reasons(bands: Sequence[Band], curve: Reference, min_fraction: float) -> list[Reason]:
    by_name = {band.name: band for band in bands}
    largest = by_name.get("largest")
    peak = max(value for _, value in curve)
    if largest is None or largest.comparisons[-1].reference_gbps < _DECISIVE_SHARE_OF_PEAK * peak:
        text = (
            "no size large enough was compared: bandwidth is judged where the reference reaches "
            f"{_DECISIVE_SHARE_OF_PEAK:.0%} of its peak of {peak:.2f} GB/s"
        )
        return [Reason(weight=Weight.INCOMPLETE, text=text)]
    reasons = []
    if low := largest.low(min_fraction):
        text = f"bandwidth is low at the largest sizes: {_describe(low, low[-1], min_fraction)}"
        reasons.append(Reason(weight=Weight.BANDWIDTH, text=text))
    if "middle" in by_name and (low := by_name["middle"].low(min_fraction)):
        deepest = min(low, key=lambda comparison: comparison.fraction)
        text = f"bandwidth dips in the middle: {_describe(low, deepest, min_fraction)}"
        reasons.append(Reason(weight=Weight.NOTE, text=text))
    if "small" in by_name and (low := by_name["small"].low(min_fraction)):
        text = (
            f"{len(low)} sizes below {format_size(LATENCY_BOUND_BELOW_BYTES)} are slower than the "
            "reference; they are bound by latency and decide nothing"
        )
        reasons.append(Reason(weight=Weight.NOTE, text=text))
    return reasons


def _describe(low: Sequence[Comparison], shown: Comparison, min_fraction: float) -> str:
    """Describe one low size with its figures, and name all of them."""
    values = []
    for name, value in shown.directions:
        if value is None:
            values.append(f"{name} was not measured")
        else:
            values.append(f"{name} {value:.2f} GB/s ({value / shown.reference_gbps:.0%})")
    sizes = ", ".join(format_size(comparison.size_bytes) for comparison in low)
    return (
        f"{' and '.join(values)} at {format_size(shown.size_bytes)}, where the reference has "
        f"{shown.reference_gbps:.2f} GB/s and {min_fraction:.0%} of it are wanted; low at {sizes}"
    )


def _coverage_reasons(
    run: NcclRun, curve: Reference, comparisons: Sequence[Comparison]
) -> list[Reason]:
    """Say which sizes were not compared, and which are missing from the output."""
    reasons = []
    compared = {comparison.size_bytes for comparison in comparisons}
    outside = sorted({row.size_bytes for row in run.rows if row.size_bytes} - compared)
    if outside:
        text = (
            f"not compared, outside of the reference ({format_size(curve[0][0])} to "
            f"{format_size(curve[-1][0])}): {', '.join(map(format_size, outside))}"
        )
        reasons.append(Reason(weight=Weight.NOTE, text=text))
    largest, announced, factor = run.largest, run.announced_largest_bytes, run.step_factor
    if (
        run.status == "complete"
        and largest is not None
        and announced is not None
        and factor is not None
        and largest.size_bytes * factor <= announced
    ):
        text = (
            f"the largest sizes are missing from the output: the run was to go up to "
            f"{format_size(announced)}, the largest row is {format_size(largest.size_bytes)}"
        )
        reasons.append(Reason(weight=Weight.INCOMPLETE, text=text))
    return reasons
