"""Streams of manifests: one document at a time in, one at a time out.

Owns where a document begins and ends, documents in JSON, and the text of what is not changed, which
stays as it is to the byte. Does not own how one document's YAML is read and written
(`yaml_reading`, `yaml_writing`). Never holds more than one document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpudirect.yaml_nodes import Tree
from gpudirect.yaml_reading import YamlSyntaxError, check_syntax, read_tree
from gpudirect.yaml_writing import write_tree

# A line that begins like this is a marker wherever it stands: YAML forbids it inside scalars.
_START = re.compile(r"---(?=[ \t\r\n]|$)")
_END = re.compile(r"\.\.\.(?=[ \t\r\n]|$)")
_NULL = re.compile(r"\s*(?:null|~)?\s*(?:#.*)?", re.IGNORECASE)


@dataclass(slots=True)
class SourceDocument:
    """One document of a stream, as text.

    Attributes:
        number: Place among the documents that hold something, the first being 1.
        line: Line of the stream on which `body` begins, the first being 1.
        head: Directives, comments of dropped documents and the marker line, all as they were.
        body: The content with its comments.
    """

    number: int
    line: int
    head: str
    body: str
    _tree: Tree | None = field(default=None, repr=False)
    _json_indent: int | str | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The document as it was."""
        return self.head + self.body

    def data(self) -> Any:
        """Return the content; it may be edited by copies only.

        Raises:
            YamlSyntaxError: the text is no manifest.
        """
        self._check_directives()
        text = self.body.replace("\r\n", "\n")
        if text.lstrip().startswith("{"):
            try:
                found = json.loads(text, object_pairs_hook=_unique)
            except json.JSONDecodeError:
                # Braces are YAML as well, with fewer quotes.
                pass
            else:
                self._json_indent = _json_indent(text)
                return found
        self._tree = read_tree(text)
        return self._tree.data

    def check(self) -> None:
        """Find out whether the text is YAML at all, without keeping its content.

        Raises:
            YamlSyntaxError: it is not.
        """
        self._check_directives()
        check_syntax(self.body)

    def _check_directives(self) -> None:
        """Find out whether the lines in front of the marker are directives at all."""
        if "%" not in self.head:
            return
        try:
            check_syntax(f"{self.head}{self.body}")
        except YamlSyntaxError as error:
            # Lines are counted from the one behind the marker.
            marked = [bool(_START.match(line)) for line in self.head.split("\n")]
            behind = len(marked) - marked[::-1].index(True) if any(marked) else 0
            raise YamlSyntaxError(str(error), error.line - behind) from error

    def rewritten(self, data: Any) -> str:
        """Return the document's text with edited content.

        Args:
            data: What `data` returned, edited.
        """
        if self._tree is not None:
            body = write_tree(self._tree, data)
        else:
            separators = (",", ":") if self._json_indent is None else None
            body = (
                json.dumps(
                    data, indent=self._json_indent, separators=separators, ensure_ascii=False
                )
                + "\n"
            )
        if "\r\n" in self.body:
            body = body.replace("\n", "\r\n")
        return self.head + body


def split_stream(lines: Iterable[str]) -> Iterator[SourceDocument]:
    """Yield the documents of a stream; empty ones are left out, their comments are kept.

    Args:
        lines: The stream, line by line, with line ends as they are.
    """
    number = 0
    head: list[str] = []
    body: list[str] = []
    first_line = 1
    line_number = 0

    def finished() -> Iterator[SourceDocument]:
        nonlocal number, head
        text = "".join(body)
        if _is_empty(body):
            # A document of comments alone says something about the next one.
            comments = [line for line in body if line.lstrip().startswith("#")]
            head = [*(line for line in head if not _START.match(line)), *comments]
            return
        number += 1
        if not text.endswith("\n"):
            text += "\n"
        yield SourceDocument(number=number, line=first_line, head="".join(head), body=text)
        head = []

    for line_number, raw in enumerate(lines, start=1):
        line = raw.removeprefix("\ufeff") if line_number == 1 else raw
        start = _START.match(line)
        if start or _END.match(line):
            yield from finished()
            body = []
            first_line = line_number + 1
            if start:
                rest = line[start.end() :]
                if rest.strip() and not rest.lstrip().startswith("#"):
                    # Content on the marker's own line; the columns stay what they are.
                    head.append("---\n")
                    body.append("   " + rest)
                    first_line = line_number
                else:
                    head.append(line if line.endswith("\n") else f"{line}\n")
        elif line.startswith("%") and not "".join(body).strip():
            head.append(line)
        else:
            body.append(line)
    yield from finished()


class StreamWriter:
    """Puts documents one after another, with a marker between any two."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._is_first = True

    def add(self, text: str) -> None:
        """Write a document's text."""
        if not self._is_first and not any(_START.match(line) for line in _head_lines(text)):
            self._write("---\n")
        self._is_first = False
        self._write(text)


def _head_lines(text: str) -> Iterator[str]:
    """Yield a document's lines up to its marker or its content."""
    position = 0
    while position < len(text):
        end = text.find("\n", position) + 1 or len(text)
        line = text[position:end]
        yield line
        if line.strip() and not line.startswith(("#", "%")):
            return
        position = end


def _is_empty(lines: list[str]) -> bool:
    return all(_NULL.fullmatch(line.rstrip("\r\n")) for line in lines)


def _json_indent(text: str) -> int | str | None:
    match = re.search(r"\{\n([ \t]+)", text)
    if match is None:
        return None
    space = match.group(1)
    return space if "\t" in space else len(space)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _value in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise YamlSyntaxError(f"key {twice!r} stands there twice", 1)
    return found


__all__ = ["SourceDocument", "StreamWriter", "YamlSyntaxError", "split_stream"]
