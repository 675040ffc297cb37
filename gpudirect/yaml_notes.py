"""Comments and blank lines of a YAML document, which its events do not hold.

Owns finding them and handing each out once, to the node that it is kept with: what follows it, or
what ends on its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from ruamel.yaml.error import CommentMark
from ruamel.yaml.tokens import CommentToken

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")


@dataclass(slots=True)
class _Note:
    """A comment, or a blank line where `text` is empty."""

    line: int
    column: int
    text: str
    is_used: bool = False

    def token(self) -> CommentToken:
        return CommentToken(f"{self.text}\n", CommentMark(self.column), None)


class Notes:
    """The notes of one document, in order.

    Args:
        lines: The document's lines.
        events: Its events.
    """

    def __init__(self, lines: Sequence[str], events: Sequence[Any]) -> None:
        self._notes = list(_find(lines, events))
        self._position = 0
        self._beside = {n.line: n for n in self._notes if lines[n.line][: n.column].strip()}

    def take_before(self, line: int) -> list[CommentToken]:
        """Return the notes in front of a line that have no other place."""
        return [note.token() for note in self._unused(line)]

    def take_text(self, line: int) -> str:
        """Return the lines in front of a line that have no other place, as text."""
        return "".join(f"{' ' * note.column}{note.text}\n" for note in self._unused(line))

    def take_beside(self, line: int, column: int) -> CommentToken | None:
        """Return the comment at the end of a line, behind a column."""
        note = self._beside.get(line)
        if note is None or note.is_used or note.column < column:
            return None
        note.is_used = True
        return note.token()

    def _unused(self, line: int) -> Iterator[_Note]:
        while self._position < len(self._notes) and self._notes[self._position].line < line:
            note = self._notes[self._position]
            self._position += 1
            if not note.is_used:
                note.is_used = True
                yield note


def _find(lines: Sequence[str], events: Sequence[Any]) -> Iterator[_Note]:
    inside, ends = _occupied(lines, events)
    for number, line in enumerate(lines):
        if number in inside:
            continue
        end = ends.get(number, 0)
        if "#" in line[end:]:
            match = _COMMENT.search(line, end)
            if match:
                yield _Note(number, match.start(), match.group().rstrip())
        elif not end and not line.strip() and number < len(lines) - 1:
            yield _Note(number, 0, "")


def _occupied(lines: Sequence[str], events: Sequence[Any]) -> tuple[set[int], dict[int, int]]:
    """Return the lines inside scalars, and where the last node of each other line ends."""
    inside: set[int] = set()
    ends: dict[int, int] = {}
    for event in events:
        start, end = event.start_mark, event.end_mark
        if isinstance(event, yaml.ScalarEvent) and end.line > start.line:
            if event.style in ("|", ">"):
                inside.update(range(start.line + 1, _last_text_line(lines, event) + 1))
                continue
            inside.update(range(start.line + 1, end.line))
        # What takes no room ends where the next node begins.
        if end.index > start.index and end.column:
            ends[end.line] = max(end.column, ends.get(end.line, 0))
    return inside, ends


def _last_text_line(lines: Sequence[str], event: Any) -> int:
    """Return a block scalar's last line; blank lines behind it are its own only with `+`."""
    last: int = event.end_mark.line - (0 if event.end_mark.column else 1)
    if not event.value.endswith("\n\n"):
        while last > event.start_mark.line and not lines[last].strip():
            last -= 1
    return last
