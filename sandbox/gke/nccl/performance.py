"""One benchmark run from its description to the lines it prints.

Owns the timing model (reference curve, latency, share, noise) and the order of the lines. Does
not own processes: the caller prints the parts at the right time and keeps a hanging run hanging.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.gke.nccl import log_lines, table
from sandbox.gke.nccl.hosts import Host, Run
from sandbox.gke.nccl.log_lines import LogLine
from sandbox.gke.nccl.options import Benchmark, Options, message
from sandbox.gke.nccl.reference import MEASURED_NODES, curve_for
from sandbox.gke.nccl.table import RankPlace, Timing
from sandbox.gke.nccl.verdict import NO_PLUGIN, Outcome, Verdict, decide

_NOISE = 0.01
_ZERO_SIZE_US = 0.18

# Assumptions, each for lack of a published curve:
_SOCKET_BUS_GBPS = 4.1
"""GB/s over plain sockets on eth0; NVIDIA/aicr (docs on NCCL checks) reports about 4."""
_SOCKET_LATENCY_US = 160.0
_NVLINK_BUS_GBPS = 350.0
"""GB/s inside one host with 8 H100 over NVSwitch."""
_NVLINK_LATENCY_US = 32.0
_COLLECTIVE_FACTORS = {
    # Bus bandwidth relative to all-gather on the same two nodes. All-reduce on A3 Mega reaches
    # about 335 GB/s at 8 GiB (NVIDIA/aicr), 1.77 of the all-gather; the rest is arithmetic: a
    # ring costs the same for reduce-scatter, and in all-to-all half of all data leaves the host.
    ("all_reduce_perf", "a3-megagpu-8g"): 1.77,
    ("alltoall_perf", "a3-megagpu-8g"): 0.25,
    ("alltoall_perf", "a3-highgpu-8g"): 0.25,
}
_NODE_DOUBLING_SHARE = 0.97
"""Bus bandwidth kept with each doubling of nodes beyond the two that were measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Performance:
    """Everything that a run prints, in its parts."""

    outcome: Outcome
    opening: tuple[str, ...]
    """Standard output before NCCL starts."""
    log: tuple[LogLine, ...]
    """NCCL's log lines that `NCCL_DEBUG` lets through."""
    results: tuple[str, ...]
    """Standard output after that; empty when the run hangs."""
    exit_code: int
    signal: int
    """Signal that ended the failing rank, 0 if none."""
    failed_host: str
    seconds: float
    """How long the measuring takes on real hardware."""


def perform(run: Run, benchmark: Benchmark, options: Options, *, seed: str) -> Performance:
    """Play one run.

    Args:
        run: The hosts as their processes see them.
        benchmark: The program.
        options: Its options.
        seed: Any text; equal texts give equal noise.
    """
    places = _places(run.hosts)
    verdict = decide(run)
    start = log_lines.start_lines(run.hosts, places)
    opening = tuple(table.header(options, places))
    if verdict.outcome is Outcome.ABORTS and verdict.failure is not None:
        failure = verdict.failure
        log = [*start, log_lines.failure_line(failure, places)]
        return Performance(
            outcome=verdict.outcome,
            opening=opening,
            log=tuple(log_lines.visible(log, run.hosts)),
            results=() if failure.by_signal else tuple(_failure_text(verdict, places)),
            exit_code=134 if failure.by_signal else 3,
            signal=6 if failure.by_signal else 0,
            failed_host=failure.host,
            seconds=5.0,
        )
    if verdict.outcome is Outcome.HANGS:
        return Performance(
            outcome=verdict.outcome,
            opening=opening,
            log=tuple(log_lines.visible(start, run.hosts)),
            results=(),
            exit_code=0,
            signal=0,
            failed_host="",
            seconds=math.inf,
        )
    log = start + log_lines.channel_lines(run.hosts, places)
    results, seconds = _results(run, benchmark, options, verdict, seed)
    return Performance(
        outcome=verdict.outcome,
        opening=opening,
        log=tuple(log_lines.visible(log, run.hosts)),
        results=tuple(results),
        exit_code=0,
        signal=0,
        failed_host="",
        seconds=seconds,
    )


def _results(
    run: Run, benchmark: Benchmark, options: Options, verdict: Verdict, seed: str
) -> tuple[list[str], float]:
    noise = random.Random(seed)  # noqa: S311 - jitter of a model, nothing secret
    lines = table.column_header()
    bandwidths: list[float] = []
    seconds = 0.0
    for size_bytes in options.sizes():
        sent = message(benchmark, size_bytes, run.ranks)
        times = [
            _time_us(run, benchmark, verdict, sent.size_bytes, in_place=in_place)
            * noise.uniform(1 - _NOISE, 1 + _NOISE)
            for in_place in (False, True)
        ]
        line, row_bandwidths = table.row(
            benchmark, sent, Timing(*times), ranks=run.ranks, checked=options.checks > 0
        )
        lines.append(line)
        bandwidths += row_bandwidths
        seconds += sum(times) * (options.iterations + options.warmup) / 1e6
    return lines + table.summary(bandwidths), seconds


def _time_us(
    run: Run, benchmark: Benchmark, verdict: Verdict, size_bytes: int, *, in_place: bool
) -> float:
    """Model the time of one operation.

    The latency part of the reference stays, the rest grows as the share of bandwidth shrinks.
    """
    if size_bytes == 0:
        return _ZERO_SIZE_US
    wire_bytes = size_bytes * benchmark.bus_share(run.ranks)
    curve = curve_for(run.hosts[0].machine_type)
    if len(run.hosts) == 1:
        return _NVLINK_LATENCY_US + wire_bytes / (_NVLINK_BUS_GBPS * 1e3)
    if verdict.network == NO_PLUGIN or curve is None:
        return _SOCKET_LATENCY_US + wire_bytes / (_SOCKET_BUS_GBPS * 1e3)
    doublings = math.log2(len(run.hosts) / MEASURED_NODES)
    factor = _COLLECTIVE_FACTORS.get((benchmark.program, run.hosts[0].machine_type), 1.0)
    share = verdict.share * factor * math.pow(_NODE_DOUBLING_SHARE, doublings)
    measured_ranks = MEASURED_NODES * 8
    measured_wire_share = (measured_ranks - 1) / measured_ranks
    equivalent_bytes = max(int(wire_bytes / measured_wire_share), 1)
    reference = curve.time_us(equivalent_bytes, in_place=in_place)
    latency = min(curve.latency_us, reference)
    return latency * (1 + 0.2 * doublings) + (reference - latency) / share


def _places(hosts: Sequence[Host]) -> list[RankPlace]:
    places = []
    rank = 0
    for position, host in enumerate(hosts):
        for device in range(host.ranks):
            places.append(RankPlace(rank, host.name, 300 + 1000 * position + device, device))
            rank += 1
    return places


def _failure_text(verdict: Verdict, places: Sequence[RankPlace]) -> list[str]:
    """What nccl-tests itself prints when a call returns an error."""
    failure = verdict.failure
    if failure is None:
        return []
    process = next(place.process for place in places if place.host == failure.host)
    if failure.message.startswith("Test CUDA"):
        first = (
            f"{failure.host}: {failure.message.replace('failure', f'failure {failure.source}', 1)}"
        )
    else:
        first = (
            f"{failure.host}: Test NCCL failure common.cu:958 'remote process exited or there was"
            " a network error (run with NCCL_DEBUG=INFO for details) / '"
        )
    return [first, f" .. {failure.host} pid {process}: Test failure common.cu:844"]
