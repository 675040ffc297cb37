"""The text of one YAML scalar.

Owns the choice between plain, quoted and block form, and quoting. Keeps the form that a scalar had
in its file where that form can hold it.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import yaml.emitter
from ruamel.yaml.scalarstring import (
    DoubleQuotedScalarString,
    FoldedScalarString,
    LiteralScalarString,
    SingleQuotedScalarString,
)

from gpudirect.yaml_scalars import float_text, is_safe_text

_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\0": "\\0",
    "\x85": "\\N",
    "\u2028": "\\L",
    "\u2029": "\\P",
}


def block_text(value: Any, indent: int, step: int) -> str:
    """Return a scalar's text where it may go on over the lines below.

    Args:
        value: The scalar.
        indent: Column of those lines.
        step: How much deeper that is than the key or dash in front.

    Returns:
        The text without a line end; empty for null.
    """
    if isinstance(value, str) and "\n" in value:
        is_block = not isinstance(value, SingleQuotedScalarString | DoubleQuotedScalarString)
        if is_block and _fits_a_block(value, step):
            return _block(value, indent, step)
    elif isinstance(value, LiteralScalarString | FoldedScalarString) and _fits_a_block(value, step):
        return _block(value, indent, step)
    return "" if value is None else flow_text(value)


def flow_text(value: Any, *, in_flow: bool = False) -> str:
    """Return a scalar's text on one line.

    Args:
        value: The scalar.
        in_flow: Whether it stands in brackets.
    """
    kind = type(value)
    if kind is str:
        return _free(value, in_flow)
    if isinstance(value, str):
        if kind is SingleQuotedScalarString:
            return _single(value)
        if kind is DoubleQuotedScalarString:
            return _double(value)
        return _free(str(value), in_flow)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    written: str | None = getattr(value, "text", None)
    if written is not None:
        return written
    return float_text(value) if isinstance(value, float) else str(int(value))


@lru_cache(maxsize=4096)
def _free(text: str, in_flow: bool) -> str:
    """Return text in the simplest form that every reader takes for text."""
    if "\n" not in text and _is_printable(text):
        if is_safe_text(text) and _may_be_plain(text, in_flow):
            return text
        if '"' in text or "\\" in text:
            return _single(text)
    return _double(text)


def _may_be_plain(text: str, in_flow: bool) -> bool:
    analysis = yaml.emitter.Emitter(io.StringIO(), allow_unicode=True).analyze_scalar(text)
    if in_flow:
        # What is written in brackets was read there: only what is new could break them. PyYAML's
        # own scanner, unlike libyaml's, ends a word there at a question mark.
        return analysis.allow_flow_plain or (
            analysis.allow_block_plain and not any(c in text for c in ",[]{}?")
        )
    return bool(analysis.allow_block_plain)


@lru_cache(maxsize=1024)
def _single(text: str) -> str:
    if "\n" in text or not _is_printable(text):
        return _double(text)
    return "'" + text.replace("'", "''") + "'"


@lru_cache(maxsize=1024)
def _double(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_printable(text: str) -> bool:
    return text.isprintable() or text.replace("\t", "").isprintable()


def _fits_a_block(text: str, step: int) -> bool:
    """Whether every reader takes a block for the text: nothing can be escaped there.

    Readers part over blanks in the first line and after the last word: what is indentation, and
    what an empty line.
    """
    if not _is_printable(text.replace("\n", "")):
        return False
    lines = text.strip("\n").split("\n")
    first, last = lines[0], lines[-1]
    if not first.strip() or not last.strip() or first.lstrip(" ").startswith("\t"):
        return False
    # The indentation of a text that begins with a blank is said in one digit.
    return step <= 9 or not first.startswith(" ")


def _block(text: str, indent: int, step: int) -> str:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    chomping = "-" if ends == 0 else "" if ends == 1 else "+"
    style = "|"
    lines = body.split("\n")
    if isinstance(text, FoldedScalarString) and len(lines) == 1:
        # More than one paragraph is written line by line: the same text, and plain to see.
        style = ">"
        lines = _folded(body, getattr(text, "fold_pos", ()))
    hint = str(step) if body.lstrip("\n").startswith(" ") else ""
    space = " " * indent
    lines += [""] * (ends - 1)
    return f"{style}{hint}{chomping}\n" + "\n".join(
        f"{space}{line}" if line else "" for line in lines
    )


def _folded(text: str, places: Any) -> list[str]:
    lines, start = [], 0
    for place in places:
        lines.append(text[start:place])
        start = place + 1
    return [*lines, text[start:]]
