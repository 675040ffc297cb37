"""From what was read of one output to one run: does it have a result, and which?

Owns the run's status (complete, incomplete, failed, ambiguous) and the figures that count when an
output holds several tables. Does not own reading, nor whether the figures are good enough
(`nccl_judgement`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpudirect.nccl_data import NcclRun, Row, RunStatus
from gpudirect.nccl_log import LogFacts
from gpudirect.redaction import redact

MAX_ROWS: Final = 50_000
MAX_TABLES: Final = 4_096


@dataclass(slots=True)
class Table:
    """One table while it is being read."""

    ranks: int | None = None
    validation: bool | None = None
    largest_announced: int | None = None
    step_factor: int | None = None
    rows: list[Row] = field(default_factory=list)
    out_of_bounds: int | None = None
    failed: bool = False
    average: float | None = None
    summarized: bool = False
    below_minimum: bool = False


def conclude(
    *,
    tables: Sequence[Table],
    tables_seen: int,
    rows_dropped: int,
    ranks_per_host: Mapping[str, int],
    groups: int,
    collective: str | None,
    simulated: bool,
    unreadable_rows: int,
    facts: LogFacts,
    last_lines: Iterable[str],
) -> NcclRun:
    """Return the run that these tables make."""
    rows = tuple(row for table in tables for row in table.rows)
    ranks = _ranks(tables, rows)
    out_of_bounds = [t.out_of_bounds for t in tables if t.out_of_bounds is not None]
    averages = {table.average for table in tables if table.summarized}
    status, reason = _status(tables, tables_seen, rows, ranks, rows_dropped)
    announced = [t.largest_announced for t in tables if t.largest_announced is not None]
    return NcclRun(
        status=status,
        reason=reason,
        rows=rows,
        tables=tables_seen,
        ranks=ranks,
        ranks_per_host=dict(ranks_per_host),
        groups=groups,
        data_checked=_data_checked(tables, rows),
        out_of_bounds=sum(out_of_bounds) if out_of_bounds else None,
        average_bus_bandwidth_gbps=averages.pop() if len(averages) == 1 else None,
        transport=facts.transport,
        nics=facts.nics,
        nics_per_host=facts.nics_per_host,
        collective=collective,
        versions=dict(facts.versions),
        simulated=simulated,
        unreadable_rows=unreadable_rows,
        announced_largest_bytes=max(announced, default=None),
        step_factor=tables[0].step_factor if len(tables) == 1 else None,
        problem_lines=facts.problems,
        last_lines=tuple(redact(line) for line in last_lines),
    )


def _status(
    tables: Sequence[Table],
    tables_seen: int,
    rows: Sequence[Row],
    ranks: int | None,
    rows_dropped: int,
) -> tuple[RunStatus, str | None]:
    wrong = sum(row.wrong for row in rows)
    if ranks == 1:
        return "failed", (
            f"single-rank run: {_tables(tables_seen)} of one rank each, no byte crossed the network"
        )
    if wrong or any(table.failed or table.out_of_bounds for table in tables):
        return "failed", f"wrong values: {wrong or 'an unknown number'} in the rows read"
    if any(table.below_minimum for table in tables):
        return "failed", "the average is below the minimum that the test was given"
    if not tables_seen:
        return "incomplete", "no table: the test printed no header and no row"
    summarized = sum(table.summarized for table in tables)
    if not summarized:
        return "incomplete", f"no summary lines: the run ended after {len(rows)} rows"
    if tables_seen > 1:
        return "ambiguous", (
            f"{tables_seen} tables, {summarized} of them with a summary: which one is the result?"
        )
    if not rows:
        return "incomplete", "no rows: the table has a summary and nothing else"
    if rows_dropped:
        return "incomplete", f"{rows_dropped} rows beyond the first {MAX_ROWS} were not kept"
    return "complete", None


def _tables(number: int) -> str:
    return "one table" if number == 1 else f"{number} tables"


def _ranks(tables: Sequence[Table], rows: Sequence[Row]) -> int | None:
    known = [table.ranks for table in tables if table.ranks is not None]
    if known:
        return known[0] if len(set(known)) == 1 else None
    # Bus bandwidth is what crosses between ranks: data that moved without any is one rank's own.
    moved = [d for row in rows if row.size_bytes for d in row.directions if d.alg_bandwidth_gbps]
    return 1 if moved and all(d.bus_bandwidth_gbps == 0 for d in moved) else None


def _data_checked(tables: Sequence[Table], rows: Sequence[Row]) -> bool | None:
    if any(table.validation is False for table in tables):
        return False
    relevant = [row for row in rows if row.size_bytes] or rows
    if not relevant:
        return None
    # In-place all-to-all does not exist: nccl-tests leaves that direction unchecked.
    return all(any(d.checked for d in row.directions) for row in relevant)
