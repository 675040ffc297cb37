"""One NCCL run as data: rows with units, ranks, transport, versions, and how it ended.

Owns the data types that reading produces and judging consumes. Does not own reading
(`nccl_results`, `nccl_json`) nor the verdict of the gate (`nccl_judgement`).

Units: sizes in bytes, times in microseconds, bandwidths in GB/s with 1 GB = 10^9 bytes, as
nccl-tests prints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

RunStatus = Literal["complete", "incomplete", "failed", "ambiguous"]
Transport = Literal["fastrak", "tcpx", "socket", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What one row says of one direction, out-of-place or in-place.

    Attributes:
        time_us: Time of one operation in microseconds.
        alg_bandwidth_gbps: Algorithm bandwidth in GB/s (10^9 bytes).
        bus_bandwidth_gbps: Bus bandwidth in GB/s (10^9 bytes).
        wrong: Number of wrong values; None where the data were not checked.
        error: The greatest distance from the right value, which versions before 2.13 print
            instead of a count; a small one is fine for sums.
    """

    time_us: float | None = None
    alg_bandwidth_gbps: float | None = None
    bus_bandwidth_gbps: float | None = None
    wrong: int | None = None
    error: float | None = None

    @property
    def checked(self) -> bool:
        """Whether the values of this row were compared."""
        return self.wrong is not None or self.error is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message size of one table; `in_place` is None where the table has no such columns."""

    size_bytes: int
    count: int
    out_of_place: Measurement
    in_place: Measurement | None
    data_type: str | None = None
    reduction: str | None = None
    root: int | None = None

    @property
    def directions(self) -> tuple[Measurement, ...]:
        """The directions that the table has."""
        return (self.out_of_place,) if self.in_place is None else (self.out_of_place, self.in_place)

    @property
    def wrong(self) -> int:
        """Wrong values of both directions together."""
        return sum(direction.wrong or 0 for direction in self.directions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Largest:
    """The largest message size; the worse value where it was measured more than once."""

    size_bytes: int
    out_of_place_bus_bandwidth_gbps: float | None
    in_place_bus_bandwidth_gbps: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclRun:
    """What the output of one NCCL test says.

    Attributes:
        status: complete; incomplete (no table, or no summary under it); failed (wrong values, or
            ranks that never spoke to one another); ambiguous (tables that differ).
        reason: Why it is not complete, in one sentence; None for a complete run.
        rows: All rows of all tables, as printed.
        tables: How many tables there are.
        ranks: Ranks of the communicator, None where the output does not say.
        ranks_per_host: Host name -> ranks on it.
        groups: Number of communicators that the ranks were split into.
        data_checked: Whether values were compared; None where there is nothing to tell it from.
        out_of_bounds: What the summary says; None without a summary.
        average_bus_bandwidth_gbps: What the summary says; None without, or where tables differ.
        transport: What carried the data between the nodes.
        nics: Indexes of the network devices that channels were opened on.
        nics_per_host: The same by host name, for hosts that the log names some for.
        collective: Name of the benchmark without its suffix, such as `all_gather`.
        versions: `ncclTests`, `nccl` and `plugin`, each only where the output names it.
        simulated: Whether the output says that no hardware produced it.
        unreadable_rows: Lines that begin like a row and could not be read to the end.
        announced_largest_bytes: The size up to which the run set out to measure.
        step_factor: The factor between sizes; None where sizes grow by a constant.
        problem_lines: Lines that report an error, redacted, first ones first.
        last_lines: The end of the output, redacted.
    """

    status: RunStatus
    reason: str | None = None
    rows: tuple[Row, ...] = ()
    tables: int = 0
    ranks: int | None = None
    ranks_per_host: Mapping[str, int] = field(default_factory=dict)
    groups: int = 1
    data_checked: bool | None = None
    out_of_bounds: int | None = None
    average_bus_bandwidth_gbps: float | None = None
    transport: Transport = "unknown"
    nics: tuple[int, ...] = ()
    nics_per_host: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    collective: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False
    unreadable_rows: int = 0
    announced_largest_bytes: int | None = None
    step_factor: int | None = None
    problem_lines: tuple[str, ...] = ()
    last_lines: tuple[str, ...] = ()

    @property
    def wrong_values(self) -> int:
        """Wrong values counted in the rows."""
        return sum(row.wrong for row in self.rows)

    @property
    def largest(self) -> Largest | None:
        """The largest message size measured, None without a row that moved data."""
        size = max((row.size_bytes for row in self.rows), default=0)
        if size == 0:
            return None
        rows = [row for row in self.rows if row.size_bytes == size]
        return Largest(
            size_bytes=size,
            out_of_place_bus_bandwidth_gbps=worst(row.out_of_place for row in rows),
            in_place_bus_bandwidth_gbps=worst(row.in_place for row in rows if row.in_place),
        )


def worst(measurements: Iterable[Measurement]) -> float | None:
    """Return the least bus bandwidth, None where none was measured."""
    return min(
        (m.bus_bandwidth_gbps for m in measurements if m.bus_bandwidth_gbps is not None),
        default=None,
    )
