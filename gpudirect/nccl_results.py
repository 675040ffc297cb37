"""Reads the output of nccl-tests into data.

Owns the text layouts from before 2.13 to today, with whatever mpirun, a terminal, `kubectl logs` or
NCCL itself put around and between the rows; a JSON report is handed to `nccl_json`. Does not own
the verdict of the gate (`nccl_judgement`).

The text is read line by line in bounded memory and linear time: a log of any size, or one that
somebody made to hurt, costs no more than its length.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import IO

from gpudirect.nccl_data import Largest, Measurement, NcclRun, Row, worst
from gpudirect.nccl_json import (
    EmbeddedReport,
    read_report,
    starts_like_report,
    take_report_text,
)
from gpudirect.nccl_log import LogFacts
from gpudirect.nccl_outcome import MAX_ROWS, MAX_TABLES, Table, conclude
from gpudirect.nccl_rows import (
    DATA_TYPES,
    Columns,
    PendingRow,
    guess_columns,
    read_header,
    read_number,
)

__all__ = [
    "Largest",
    "Measurement",
    "NcclRun",
    "Row",
    "bounded_lines",
    "lines_of_chunks",
    "read_results",
    "worst",
]

MAX_LINE_CHARACTERS = 65536
_LAST_LINES = 15
_LAST_LINE_CHARACTERS = 500
_MAX_STREAMS = 1024
_MAX_HOSTS = 4096
_MAX_RANKS = 65536

_TAG = re.compile(r"\[(?:[^\]\s]{0,200}@)?(\d+,\d+)\](?:\[[^\]]{0,200}\])?<std(?:out|err|diag)>: ?")
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_ROW_START = re.compile(rf"(?<!\S)\d{{1,19}}[ \t]+\d{{1,19}}[ \t]+(?:{'|'.join(DATA_TYPES)})(?!\S)")
_RANK = re.compile(
    r"Rank +(\d{1,6}) +(?:Group +(\d{1,6}) +)?Pid +\d{1,10} +on +(\S{1,255}) +device +\d"
)
_OUT_OF_BOUNDS = re.compile(
    r"Out of bounds values[ \t]{0,20}:[ \t]{0,20}(\d{1,18})[ \t]{0,20}(\w*)"
)
_AVERAGE = re.compile(
    r"Avg bus bandwidth[ \t]{0,20}:[ \t]{0,20}([0-9.]{1,32}(?:e[+-]?\d{1,3})?|\S{1,8})"
    r"(?:[ \t]{1,20}(FAILED))?"
)
_VALIDATION = re.compile(r"validation: *(\d)")
_MAX_BYTES = re.compile(r"maxBytes +(\d{1,19})")
_STEP_FACTOR = re.compile(r"step: *(\d{1,9})\(factor\)")
_TESTS_VERSION = re.compile(r"nccl-tests version (\S{1,40})(?:.*?nccl-library=(\d{4,6}))?")
_COLLECTIVE = re.compile(r"Collective test (?:starting|concluded): *(\w{1,60}?)(?:_perf)?\b")


def read_results(lines: Iterable[str]) -> NcclRun:
    """Read what one NCCL test printed, or its JSON report.

    Args:
        lines: The output, line by line; line ends may be there or not.

    Returns:
        What could be read. Nothing in the input raises: an output without a table is an incomplete
        run with the reason and its last lines.
    """
    iterator = iter(lines)
    head: list[str] = []
    for line in iterator:
        head.append(line)
        if line.strip(" \t\r\n\ufeff"):
            break
    if head and starts_like_report(head[-1]):
        text, exhausted = take_report_text(head, iterator)
        run = read_report("".join(text)) if exhausted else None
        if run is not None:
            return run
        head = text
    reader = _TextReader()
    for line in chain(head, iterator):
        reader.feed(line)
    return reader.finish()


def bounded_lines(stream: IO[str]) -> Iterator[str]:
    """Yield the lines of a stream, cutting off what a line has beyond the longest sensible one."""
    while line := stream.readline(MAX_LINE_CHARACTERS):
        yield line
        while line and not line.endswith("\n"):
            line = stream.readline(MAX_LINE_CHARACTERS)


def lines_of_chunks(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a log that comes in pieces, cut off like those of `bounded_lines`."""
    rest = b""
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        # Of a line that never ends, no more than what is yielded is kept.
        rest += first[: MAX_LINE_CHARACTERS - len(rest)]
        for line in others:
            yield rest.decode("utf-8", "replace")
            rest = line[:MAX_LINE_CHARACTERS]
    if rest:
        yield rest.decode("utf-8", "replace")


def _has_rare_type(line: str) -> bool:
    return "half" in line or "double" in line or "f8" in line or "fp8" in line


class _Stream:
    """What one writer (one mpirun tag) has said so far."""

    __slots__ = (
        "columns",
        "largest_announced",
        "pending",
        "ranks",
        "step_factor",
        "tables",
        "validation",
    )

    def __init__(self) -> None:
        self.columns: Columns | None = None
        self.pending: PendingRow | None = None
        self.ranks: dict[int, str] = {}
        self.tables: list[Table] = []
        self.validation: bool | None = None
        self.largest_announced: int | None = None
        self.step_factor: int | None = None


class _TextReader:
    """Takes lines one by one; what it holds does not grow with their number."""

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {"": _Stream()}
        self._facts = LogFacts()
        self._report = EmbeddedReport()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._rows = 0
        self._rows_dropped = 0
        self._tables = 0
        self._unreadable = 0
        self._hosts: dict[str, int] = {}
        self._groups: set[int] = set()
        self._collective: str | None = None
        self._simulated = False

    def feed(self, line: str) -> None:
        if len(line) > MAX_LINE_CHARACTERS:
            line = line[:MAX_LINE_CHARACTERS]
        line = line.rstrip()
        if not line:
            return
        if "\r" in line:
            # A terminal overwrites a line; what was overwritten was still printed.
            for part in line.split("\r"):
                self.feed(part)
            return
        stream = self._streams[""]
        if "<std" in line and (tag := _TAG.search(line)) is not None:
            stream = self._stream(tag[1])
            line = line[: tag.start()] + line[tag.end() :]
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        self._report.feed(line)
        self._last.append(line)
        if " NCCL " in line or "NET/" in line:
            self._facts.note(line)
        elif "#" in line or "bus bandwidth" in line or "Out of bounds" in line:
            if self._comment(stream, line):
                return
        else:
            self._facts.note_problem(line)
        # Most lines of a log are no rows: a few cheap looks spare them the search for one.
        if stream.pending is not None or "float" in line or "int" in line or _has_rare_type(line):
            self._row(stream, line)

    def _stream(self, tag: str) -> _Stream:
        stream = self._streams.get(tag)
        if stream is None:
            if len(self._streams) >= _MAX_STREAMS:
                return self._streams[""]
            stream = self._streams[tag] = _Stream()
        return stream

    def _comment(self, stream: _Stream, line: str) -> bool:
        """Read a line of the table's frame; say whether it was one."""
        if "busbw" in line:
            columns = read_header(line)
            if columns is None:
                return False
            self._drop_pending(stream)
            stream.columns = columns
            self._open_table(stream)
        elif "Rank" in line and (rank := _RANK.search(line)) is not None:
            self._rank(stream, int(rank[1]), rank[3], int(rank[2] or 0))
        elif "nThread" in line:
            stream.ranks = {}
            match = _VALIDATION.search(line)
            stream.validation = match[1] != "0" if match else None
            match = _MAX_BYTES.search(line)
            stream.largest_announced = int(match[1]) if match else None
            match = _STEP_FACTOR.search(line)
            stream.step_factor = int(match[1]) if match else None
        elif "bounds" in line and (match := _OUT_OF_BOUNDS.search(line)) is not None:
            self._drop_pending(stream)
            table = self._table_without(stream, "out_of_bounds")
            table.out_of_bounds = int(match[1])
            table.failed = match[2].upper() == "FAILED"
        elif "Avg" in line and (match := _AVERAGE.search(line)) is not None:
            table = self._table_without(stream, "average")
            table.summarized = True
            table.average = read_number(match[1])
            # The test compares it with NCCL_TESTS_MIN_BW, if that is set.
            table.below_minimum = match[2] is not None
        elif "nccl-tests version" in line and (match := _TESTS_VERSION.search(line)) is not None:
            self._facts.tests_version(match[1], match[2])
        elif "Collective test" in line and (match := _COLLECTIVE.search(line)) is not None:
            self._collective = self._collective or match[1]
        elif "simulated" in line.lower():
            self._simulated = True
        else:
            return False
        return True

    def _rank(self, stream: _Stream, rank: int, host: str, group: int) -> None:
        if len(stream.ranks) < _MAX_RANKS:
            stream.ranks[rank] = host
        if len(self._groups) < _MAX_RANKS:
            self._groups.add(group)

    def _open_table(self, stream: _Stream) -> Table:
        table = Table(
            ranks=len(stream.ranks) or None,
            validation=stream.validation,
            largest_announced=stream.largest_announced,
            step_factor=stream.step_factor,
        )
        self._tables += 1
        if self._tables <= MAX_TABLES:
            stream.tables.append(table)
        for host in stream.ranks.values():
            if host in self._hosts or len(self._hosts) < _MAX_HOSTS:
                self._hosts[host] = self._hosts.get(host, 0) + 1
        return table

    def _table_without(self, stream: _Stream, summary: str) -> Table:
        """Return the latest table that still lacks a summary line.

        Ranks that each print a table of their own may print all summaries at the end.
        """
        for table in reversed(stream.tables):
            missing = (
                table.out_of_bounds is None if summary == "out_of_bounds" else not table.summarized
            )
            if missing:
                return table
        return self._open_table(stream)

    def _row(self, stream: _Stream, line: str) -> None:
        start = _ROW_START.search(line)
        if start is not None:
            self._drop_pending(stream)
            line = line[start.start() :]
            stream.pending = PendingRow(stream.columns or guess_columns(line))
        elif stream.pending is None:
            return
        if not stream.pending.take(line):
            if start is not None:
                self._drop_pending(stream)
        elif stream.pending.complete:
            self._keep(stream, stream.pending.row())
            stream.pending = None

    def _drop_pending(self, stream: _Stream) -> None:
        if stream.pending is not None:
            self._unreadable += 1
            stream.pending = None

    def _keep(self, stream: _Stream, row: Row) -> None:
        self._rows += 1
        if self._rows > MAX_ROWS:
            self._rows_dropped += 1
            return
        table = stream.tables[-1] if stream.tables else self._open_table(stream)
        table.rows.append(row)

    def finish(self) -> NcclRun:
        report = self._report.finish()
        if report is not None and not self._tables:
            return report
        for stream in self._streams.values():
            self._drop_pending(stream)
        return conclude(
            tables=[table for stream in self._streams.values() for table in stream.tables],
            tables_seen=self._tables,
            rows_dropped=self._rows_dropped,
            ranks_per_host=self._hosts,
            groups=max(1, len(self._groups)),
            collective=self._collective,
            simulated=self._simulated,
            unreadable_rows=self._unreadable,
            facts=self._facts,
            last_lines=(line[:_LAST_LINE_CHARACTERS] for line in self._last),
        )
