"""Rows of an nccl-tests table: which column holds what, and rows that arrive in pieces.

Owns the columns of all layouts and the reading of single cells. Does not own what is around the
rows (`nccl_results`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpudirect.nccl_data import Measurement, Row

DATA_TYPES: Final = (
    "float", "half", "double", "bfloat16", "int8", "uint8", "int32", "uint32", "int64", "uint64",
    "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2",
)  # fmt: skip

_HEADER_START = re.compile(r"(?<!\S)size(?!\S)")
_TOKEN = re.compile(r"\S{1,256}")
_NUMBER = re.compile(
    r"[+-]?\d{1,24}(?:\.\d{0,24})?(?:[eE][+-]?\d{1,4})?|N/A|[+-]?nan|[+-]?inf", re.ASCII
)
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_WORD = re.compile(r"[A-Za-z]\w{0,31}", re.ASCII)
_NAMES = {"#wrong": "wrong", "cputime": "time"}
_CELL_PATTERNS = {
    "size": _INTEGER,
    "count": _INTEGER,
    "root": _INTEGER,
    "type": _WORD,
    "redop": _WORD,
    "time": _NUMBER,
    "algbw": _NUMBER,
    "busbw": _NUMBER,
    "wrong": _NUMBER,
    "error": _NUMBER,
}
_MAX_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one table.

    Attributes:
        names: Names from the left; `wrong` counts values, `error` is a distance (before 2.13).
        common: How many columns come before the first direction.
        directions: First column and number of columns of out-of-place and, if there, in-place.
    """

    names: tuple[str, ...]
    common: int
    directions: tuple[tuple[int, int], ...]

    @property
    def needed(self) -> int:
        """How many columns a row must have; what is right of them (timestamps) may be missing."""
        first, width = self.directions[-1]
        return first + width

    @property
    def breaks(self) -> tuple[int, ...]:
        """After how many columns nccl-tests flushes: other writers' text gets in there only."""
        return (self.common, *(first + width for first, width in self.directions))


_SINCE_2_13: Final = Columns(
    ("size", "count", "type", "redop", "root", *(("time", "algbw", "busbw", "wrong") * 2)),
    5,
    ((5, 4), (9, 4)),
)
_BEFORE_2_13: Final = Columns(
    ("size", "count", "type", *(("time", "algbw", "busbw", "error") * 2)), 3, ((3, 4), (7, 4))
)


def read_header(line: str) -> Columns | None:
    """Return the columns that a header line names, None if it is no header of nccl-tests."""
    start = _HEADER_START.search(line)
    if start is None:
        return None
    names = [_column_name(word) for word in line[start.start() :].split(None, _MAX_COLUMNS)]
    times = [index for index, name in enumerate(names) if name == "time"]
    if not times or "busbw" not in names or names[:3] != ["size", "count", "type"]:
        return None
    first = times[0]
    if len(times) == 1:
        width = max(i for i, name in enumerate(names) if name in _CELL_PATTERNS) + 1 - first
        return Columns(tuple(names), first, ((first, width),))
    second = times[1]
    width = min(second - first, len(names) - second)
    return Columns(tuple(names), first, ((first, second - first), (second, width)))


def guess_columns(row: str) -> Columns:
    """Return the columns of a row whose header was not seen."""
    words = row.split(None, 4)
    has_reduction = len(words) > 3 and _WORD.match(words[3]) is not None
    return _SINCE_2_13 if has_reduction else _BEFORE_2_13


def read_number(text: str) -> float | None:
    """Return a finite number; None for `N/A`, `nan`, infinities and what is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class PendingRow:
    """A row that may arrive in pieces, with lines of other writers in between."""

    __slots__ = ("_cells", "_columns")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._cells: list[str] = []

    @property
    def complete(self) -> bool:
        """Whether every needed column has come."""
        return len(self._cells) >= self._columns.needed

    def take(self, text: str) -> bool:
        """Take the next piece of the row from the start of a text.

        Returns:
            False where the text does not continue the row; nothing is taken then.
        """
        cells = list(self._cells)
        needed = self._columns.needed
        for token in _TOKEN.finditer(text):
            if len(cells) >= needed:
                break
            cell = _cell(self._columns.names[len(cells)], token[0])
            if cell is None:
                break
            cells.append(cell)
            # Some builds put an asterisk behind the number of wrong values.
            if cell != token[0].removesuffix("*"):
                break
        if len(cells) == len(self._cells) or len(cells) not in self._columns.breaks:
            return False
        self._cells = cells
        return True

    def row(self) -> Row:
        """Return the complete row."""
        names, cells = self._columns.names, self._cells
        common = dict(zip(names[: self._columns.common], cells, strict=False))
        directions = [
            _measurement(names[first : first + width], cells[first : first + width])
            for first, width in self._columns.directions
        ]
        return Row(
            size_bytes=int(common["size"]),
            count=int(common["count"]),
            data_type=common.get("type"),
            reduction=common.get("redop"),
            root=int(common["root"]) if "root" in common else None,
            out_of_place=directions[0],
            in_place=directions[1] if len(directions) > 1 else None,
        )


def _column_name(word: str) -> str:
    # Text of another writer may hang on the last name of the line.
    return "wrong" if word.startswith("#wrong") else _NAMES.get(word, word)


def _cell(column: str, token: str) -> str | None:
    """Return the part of a token that is a cell of this column, None if none is."""
    pattern = _CELL_PATTERNS.get(column)
    if pattern is None:
        return token
    match = pattern.match(token)
    if match is None:
        return None
    rest = token[match.end() :]
    # A number that goes on is another number; a word that goes on is another word.
    if rest and (rest[0].isdigit() or rest[0] in "._" or pattern is _WORD):
        return None
    return match[0]


def _measurement(names: Sequence[str], cells: Sequence[str]) -> Measurement:
    cell = dict(zip(names, cells, strict=True))
    error = read_number(cell.get("error", ""))
    wrong = read_number(cell.get("wrong", ""))
    if error == 0:
        wrong = 0
    return Measurement(
        time_us=read_number(cell.get("time", "")),
        alg_bandwidth_gbps=read_number(cell.get("algbw", "")),
        bus_bandwidth_gbps=read_number(cell.get("busbw", "")),
        wrong=None if wrong is None else int(wrong),
        error=error,
    )
