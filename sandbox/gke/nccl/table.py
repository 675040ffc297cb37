"""The text that nccl-tests prints.

Owns the layout of version 2.13 to 2.17 (header, device list, rows, summary). Does not own the
times in the rows. Source: NVIDIA/nccl-tests, src/common.cu; compared with real outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sandbox.gke.nccl.options import Benchmark, Message, Options

NOTICE = "# simulated: no GPU took part, the rows come from a model of published runs"
"""First line of every output, so that nobody takes it for a measurement."""

_GPU_NAME = "NVIDIA H100 80GB HBM3"
_FIRST_BUS = 0x04


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where one rank runs."""

    rank: int
    host: str
    process: int
    device: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of one operation on one message, out of place and in place."""

    out_of_place_us: float
    in_place_us: float


def header(options: Options, places: Sequence[RankPlace]) -> list[str]:
    """Return the lines before NCCL starts: options and devices."""
    lines = [
        NOTICE,
        f"# nThread {options.threads_per_rank} nGpus {options.gpus_per_rank}"
        f" minBytes {options.min_bytes} maxBytes {options.max_bytes}"
        f" step: {_step(options)} warmup iters: {options.warmup} iters: {options.iterations}"
        f" agg iters: 1 validation: {options.checks} graph: 0",
        "#",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {place.rank:2d} Group  0 Pid {place.process:6d} on {place.host:>10}"
        f" device {place.device:2d} [0x{_FIRST_BUS + place.device:02x}] {_GPU_NAME}"
        for place in places
    ]
    return lines


def column_header() -> list[str]:
    """Return the three lines above the rows; nccl-tests prints them once NCCL is up."""
    return [
        "#",
        "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place" + " " * 10,
        "#       size         count      type   redop    root"
        "     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
        "#        (B)    (elements)                          "
        "     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       ",
    ]


def row(
    benchmark: Benchmark, sent: Message, timing: Timing, *, ranks: int, checked: bool
) -> tuple[str, tuple[float, float]]:
    """Format one row.

    Returns:
        The line, and the bus bandwidths of both halves in GB/s (10^9) as the average counts them.
    """
    halves = []
    bandwidths = []
    for position, time_us in enumerate((timing.out_of_place_us, timing.in_place_us)):
        algorithm = sent.size_bytes / time_us / 1e3
        bus = algorithm * benchmark.bus_share(ranks)
        bandwidths.append(bus)
        unchecked = not checked or (benchmark.program == "alltoall_perf" and position == 1)
        wrong = "N/A" if unchecked else "0"
        halves.append(f"  {_time(time_us):>7}  {algorithm:6.2f}  {bus:6.2f}  {wrong:>5}")
    front = (
        f"{sent.size_bytes:12d}  {sent.count:12d}  {'float':>8}  {benchmark.reduction:>6}  {-1:6d}"
    )
    return front + "".join(halves), (bandwidths[0], bandwidths[1])


def summary(bandwidths: Iterable[float]) -> list[str]:
    """Return the closing lines; the average counts every row and both halves."""
    values = list(bandwidths)
    average = sum(values) / len(values) if values else 0.0
    return [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {average:g} ",
        "#",
        "",
    ]


def _step(options: Options) -> str:
    if options.step_factor > 1:
        return f"{options.step_factor}(factor)"
    return f"{options.step_bytes}(bytes)"


def _time(time_us: float) -> str:
    if time_us >= 10000:
        return f"{time_us:.0f}"
    if time_us >= 100:
        return f"{time_us:.1f}"
    return f"{time_us:.2f}"
