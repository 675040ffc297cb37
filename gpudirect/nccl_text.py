"""NCCL runs as people read them in a terminal: verdict, table, comparison, history.

Owns the wording and the layout. Does not own the figures nor the plots (`nccl_plots`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpudirect.nccl_bands import Reference, format_size, interpolate
from gpudirect.nccl_data import Measurement, NcclRun
from gpudirect.nccl_plots import PlottedRun

if TYPE_CHECKING:
    from rich.table import Table

_TRANSPORTS = {
    "fastrak": "FasTrak (GPUDirect-TCPXO)",
    "tcpx": "GPUDirectTCPX (GPUDirect-TCPX)",
    "socket": "Socket (no GPUDirect)",
    "unknown": "not named in the output",
}


def describe_verdict(verdict: str, reasons: Sequence[str], *, simulated: bool) -> str:
    """Return the verdict and its reasons, weightiest first."""
    mark = " (simulated: no GPU was involved)" if simulated else ""
    return "\n".join([f"verdict: {verdict}{mark}", *(f"  - {reason}" for reason in reasons)])


def describe_run(run: NcclRun) -> str:
    """Return what took part and what was measured overall, one fact a line."""
    checked = {True: "yes", False: "no", None: "unknown"}[run.data_checked]
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    average = run.average_bus_bandwidth_gbps
    facts = {
        "collective": run.collective,
        "ranks": run.ranks,
        "transport": _TRANSPORTS[run.transport],
        "NICs used": _nics(run),
        "values checked": checked,
        "wrong values": run.out_of_bounds,
        "average": None if average is None else f"{average:g} GB/s over all sizes",
        "versions": versions or None,
    }
    return "\n".join(f"{name}: {value}" for name, value in facts.items() if value is not None)


def _nics(run: NcclRun) -> str | None:
    """Say how many network devices the channels of each host went through."""
    if not run.nics_per_host:
        return None
    numbers = [len(nics) for nics in run.nics_per_host.values()]
    least, most = min(numbers), max(numbers)
    return f"{least} on each host" if least == most else f"{least} to {most} on each host"


def run_table(run: NcclRun, reference: Reference) -> Table:
    """Return the rows of a run beside the reference."""
    table = _table("size", "out-of-place", "in-place", "reference", "share", "wrong")
    for row in run.rows:
        expected = interpolate(reference, row.size_bytes)
        values = [d.bus_bandwidth_gbps for d in row.directions if d.bus_bandwidth_gbps is not None]
        share = f"{min(values) / expected:.0%}" if values and expected else "-"
        table.add_row(
            format_size(row.size_bytes),
            _bandwidth(row.out_of_place),
            _bandwidth(row.in_place),
            "-" if expected is None else f"{expected:.2f}",
            share if row.size_bytes else "-",
            _wrong(row.directions),
        )
    return table


def comparison_table(runs: Sequence[PlottedRun]) -> Table:
    """Return the lower direction of each run by size, and its change against the first run."""
    lower = [_lower_by_size(run) for run in runs]
    table = _table("size", *(run.label for run in runs))
    for size in sorted({size for values in lower for size in values}):
        first = lower[0].get(size)
        cells = ["-" if first is None else f"{first:.2f}"]
        for values in lower[1:]:
            value = values.get(size)
            if value is None:
                cells.append("-")
            elif first:
                cells.append(f"{value:.2f} ({value / first - 1:+.1%})")
            else:
                cells.append(f"{value:.2f}")
        table.add_row(format_size(size), *cells)
    return table


def history_table(history: Sequence[Mapping[str, Any]]) -> Table:
    """Return the runs of a stack, the newest first."""
    table = _table("started", "verdict", "release", "nodes", "largest", "out-of-place", "in-place")
    for entry in reversed(history):
        size, out_of_place, in_place = (entry.get("rows") or [[None, None, None]])[-1]
        table.add_row(
            str(entry.get("startedAt") or "-"),
            f"{entry.get('verdict')}{' (simulated)' if entry.get('simulated') else ''}",
            str(entry.get("release") or "-"),
            "-" if entry.get("nodes") is None else str(int(entry["nodes"])),
            "-" if size is None else format_size(int(size)),
            "-" if out_of_place is None else f"{out_of_place:.2f}",
            "-" if in_place is None else f"{in_place:.2f}",
        )
    return table


def history_runs(history: Sequence[Mapping[str, Any]]) -> list[PlottedRun]:
    """Return the runs of a stack as a plot shows them, oldest first."""
    return [
        PlottedRun(
            label=f"{entry.get('startedAt') or 'unknown time'} {entry.get('verdict')}",
            points=[(int(size), out, inside) for size, out, inside in entry.get("rows") or ()],
            simulated=bool(entry.get("simulated")),
        )
        for entry in history
    ]


def _table(first: str, *others: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption="bus bandwidth in GB/s (10^9 bytes)")
    table.add_column(first, justify="right", no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _bandwidth(measurement: Measurement | None) -> str:
    value = None if measurement is None else measurement.bus_bandwidth_gbps
    return "-" if value is None else f"{value:.2f}"


def _wrong(directions: Sequence[Measurement]) -> str:
    counts = [d.wrong for d in directions if d.wrong is not None]
    return str(sum(counts)) if counts else "not checked"


def _lower_by_size(run: PlottedRun) -> dict[int, float]:
    lower: dict[int, float] = {}
    for size, *directions in run.points:
        for value in directions:
            if value is not None:
                lower[size] = min(value, lower.get(size, value))
    return lower
