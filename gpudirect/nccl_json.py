"""Reads the JSON report of nccl-tests (`-J`, file version 3).

Owns the report's traps: truth values as text, padded numbers, `nan` as text, null for what was not
checked, a report cut off in the middle, and `env`, the whole environment of the process with its
tokens, which is never looked at. Does not own the text layouts (`nccl_results`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpudirect.nccl_data import Measurement, NcclRun, Row
from gpudirect.nccl_log import LogFacts, version_of_code
from gpudirect.nccl_outcome import MAX_ROWS, Table, conclude
from gpudirect.nccl_rows import read_number
from gpudirect.redaction import redact

# A report has about 500 bytes a row; what is larger is no report.
MAX_REPORT_CHARACTERS: Final = 32 * 1024 * 1024
# One inside of a log is kept line by line beside all else that is kept of the log.
_MAX_EMBEDDED: Final = MAX_REPORT_CHARACTERS // 2
_LINE_OVERHEAD: Final = 64

# Inside a JSON text quotes are escaped, so these find keys only, never a value of `env`.
_RESULTS = re.compile(r'"results"\s{0,100}:\s{0,100}\[')
_DEVICES = re.compile(r'"devices"\s{0,100}:\s{0,100}\[')
_VALIDATION = re.compile(r'"validation"\s{0,100}:\s{0,100}(\d)')
_MAXIMUM = re.compile(r'"maximum_bytes"\s{0,100}:\s{0,100}(\d{1,19})')
_REPORT_KEYS: Final = frozenset(("results", "nccl_version", "args"))
# Either is in the first lines of a report; a run that was killed early wrote no more.
_HEAD = re.compile(r'"nccl_version"\s{0,100}:|"args"\s{0,100}:\s{0,100}\[')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BETWEEN_ITEMS = re.compile(r"[\s,]{0,1000}")


def starts_like_report(line: str) -> bool:
    """Say whether a first line may begin a report."""
    text = line.lstrip("\ufeff \t")
    return text.startswith("{")


class EmbeddedReport:
    """Finds a report among the lines of a log, as where a script prints the file after the run."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._depth = 0
        self._run: NcclRun | None = None

    def feed(self, line: str) -> None:
        """Take one line, without its end and without the tag of its writer."""
        if not self._depth and not line.startswith("{"):
            return
        self._lines.append(line)
        self._size += len(line) + _LINE_OVERHEAD
        outside = _STRING.sub("", line)
        self._depth += outside.count("{") - outside.count("}")
        if self._depth <= 0:
            self._end()
        elif self._size > _MAX_EMBEDDED:
            self._forget()

    def finish(self) -> NcclRun | None:
        """Return the last report that was found, whole or cut off by the end of the log."""
        self._end()
        return self._run

    def _end(self) -> None:
        self._run = read_report("\n".join(self._lines)) or self._run
        self._forget()

    def _forget(self) -> None:
        self._lines, self._size, self._depth = [], 0, 0


def take_report_text(head: Sequence[str], rest: Iterator[str]) -> tuple[list[str], bool]:
    """Take lines as long as a report can be.

    Returns:
        The lines taken, and whether the input ended within the limit.
    """
    taken = list(head)
    size = sum(map(len, taken))
    for line in rest:
        taken.append(line if line.endswith("\n") else line + "\n")
        size += len(line)
        if size > MAX_REPORT_CHARACTERS:
            return taken, False
    return taken, True


def read_report(text: str) -> NcclRun | None:
    """Read a report, whole or cut off; None where the text is no report of nccl-tests."""
    if _RESULTS.search(text) is None and _HEAD.search(text) is None:
        return None
    try:
        # What another writer put behind the report belongs to nobody here.
        report, _ = json.JSONDecoder().raw_decode(text.lstrip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        report = _cut_off_report(text)
    if not isinstance(report, dict) or not _REPORT_KEYS & report.keys():
        return None
    config = _mapping(report.get("config"))
    table = _table(report, config)
    facts = LogFacts()
    if (code := _integer(report.get("nccl_version"))) is not None:
        facts.versions["nccl"] = version_of_code(code)
    for error in _sequence(report.get("errors")):
        facts.note_problem(f"ERROR {error if isinstance(error, str) else json.dumps(error)}")
    hosts, groups = _placement(config)
    return conclude(
        tables=[table],
        tables_seen=1 if table.rows or table.summarized else 0,
        rows_dropped=max(0, len(_sequence(report.get("results"))) - MAX_ROWS),
        ranks_per_host=hosts,
        groups=groups,
        collective=_collective(report),
        simulated=_truth(report.get("simulated")) is True,
        unreadable_rows=0,
        facts=facts,
        last_lines=facts.problems,
    )


def _table(report: Mapping[str, Any], config: Mapping[str, Any]) -> Table:
    bounds = _mapping(report.get("out_of_bounds"))
    average = _mapping(report.get("average_bus_bandwidth"))
    validation = _integer(config.get("validation"))
    devices = [_mapping(device) for device in _sequence(config.get("devices"))]
    results = _sequence(report.get("results"))[:MAX_ROWS]
    return Table(
        ranks=len({_integer(device.get("rank")) for device in devices}) or None,
        validation=None if validation is None else validation != 0,
        largest_announced=_integer(config.get("maximum_bytes")),
        step_factor=_factor(config),
        rows=[row for row in map(_row, results) if row is not None],
        out_of_bounds=_integer(bounds.get("count")),
        failed=_truth(bounds.get("okay")) is False,
        average=_number(average.get("bandwidth")),
        summarized="bandwidth" in average,
        below_minimum=_truth(average.get("okay")) is False,
    )


def _factor(config: Mapping[str, Any]) -> int | None:
    factor = _integer(config.get("step_factor"))
    return factor if factor is not None and factor > 1 else None


def _row(result: object) -> Row | None:
    item = _mapping(result)
    size, count = _integer(item.get("size")), _integer(item.get("count"))
    if size is None or size < 0:
        return None
    in_place = item.get("in_place")
    return Row(
        size_bytes=size,
        count=count or 0,
        data_type=_text(item.get("type")),
        reduction=_text(item.get("redop")),
        root=_integer(item.get("root")),
        out_of_place=_measurement(item.get("out_of_place")),
        in_place=None if in_place is None else _measurement(in_place),
    )


def _measurement(value: object) -> Measurement:
    item = _mapping(value)
    return Measurement(
        time_us=_number(item.get("time")),
        alg_bandwidth_gbps=_number(item.get("alg_bw")),
        bus_bandwidth_gbps=_number(item.get("bus_bw")),
        wrong=_integer(item.get("nwrong")),
    )


def _placement(config: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    hosts: dict[str, int] = {}
    groups = set()
    for device in map(_mapping, _sequence(config.get("devices"))):
        host = _text(device.get("hostname"))
        if host:
            hosts[host] = hosts.get(host, 0) + 1
        groups.add(_integer(device.get("group")))
    return hosts, max(1, len(groups))


def _collective(report: Mapping[str, Any]) -> str | None:
    arguments = _sequence(report.get("args"))
    if not arguments or not isinstance(arguments[0], str):
        return None
    name = arguments[0].rsplit("/", 1)[-1].removesuffix("_perf")
    return redact(name[:60]) or None


def _cut_off_report(text: str) -> dict[str, Any]:
    """Read what a killed run had written of its report."""
    report: dict[str, Any] = {"results": _items_after(_RESULTS, text)}
    config: dict[str, Any] = {"devices": _items_after(_DEVICES, text)}
    for key, pattern in (("validation", _VALIDATION), ("maximum_bytes", _MAXIMUM)):
        if (match := pattern.search(text)) is not None:
            config[key] = match[1]
    report["config"] = config
    return report


def _items_after(pattern: re.Pattern[str], text: str) -> list[Any]:
    start = pattern.search(text)
    if start is None:
        return []
    decoder = json.JSONDecoder()
    items: list[Any] = []
    position = start.end()
    while len(items) <= MAX_ROWS:
        gap = _BETWEEN_ITEMS.match(text, position)
        position = gap.end() if gap else position
        if not text.startswith("{", position):
            break
        try:
            item, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        items.append(item)
    return items


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str | None:
    return value.strip()[:255] if isinstance(value, str) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return read_number(str(value).strip())
    except ValueError:
        # Python refuses to turn a whole number of thousands of digits into text.
        return None


def _integer(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _truth(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return (
        {"true": True, "false": False}.get(value.strip().lower())
        if isinstance(value, str)
        else None
    )
