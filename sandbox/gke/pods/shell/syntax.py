"""Reading shell scripts into syntax trees.

Owns the one parser and helpers on its nodes. Source of the grammar: tree-sitter-bash.
"""

from __future__ import annotations

import functools

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_MISSING = "ERROR"
WORDS = frozenset(
    {
        "word", "number", "string", "raw_string", "ansi_c_string", "translated_string",
        "concatenation", "simple_expansion", "expansion", "command_substitution",
        "arithmetic_expansion", "process_substitution", "brace_expression", "extglob_pattern",
        "regex",
    }
)  # fmt: skip
"""Kinds of nodes that expand to words."""


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def parse(script: str) -> Node:
    """Parse a script; what the grammar does not know becomes an ERROR node."""
    return _parser().parse(script.encode()).root_node


def text_of(node: Node) -> str:
    """Return a node's source text."""
    return (node.text or b"").decode()


def is_error(node: Node) -> bool:
    """Whether the grammar gave up on this part."""
    return node.type == _MISSING


def operator_of(node: Node, operators: frozenset[str]) -> str:
    """Return the first anonymous child that is one of some operators, or the empty text."""
    for child in node.children:
        if not child.is_named and child.type in operators:
            return child.type
    return ""


def ends_line(parent: Node, child: Node) -> bool:
    """Whether a line ends between an assignment and what follows it in a command."""
    following = child.next_sibling
    if child.type != "variable_assignment" or following is None:
        return False
    source = parent.text or b""
    gap = source[child.end_byte - parent.start_byte : following.start_byte - parent.start_byte]
    return b"\n" in gap.replace(b"\\\n", b"")


def pieces_between(node: Node, start: int, end: int) -> list[Node | str]:
    """Split a node's text from byte `start` to `end` into its named children and plain text."""
    source = node.text or b""
    offset = node.start_byte
    pieces: list[Node | str] = []
    position = start
    for child in node.named_children:
        if child.type in {"string_content", "heredoc_content"}:
            continue
        if child.start_byte < position or child.end_byte > end:
            continue
        # The grammar takes blanks in front of `$name` in a string for a part of it.
        inner = child.text or b""
        begin = child.start_byte + len(inner) - len(inner.lstrip())
        if begin > position:
            pieces.append(source[position - offset : begin - offset].decode())
        pieces.append(child)
        position = child.end_byte
    if position < end:
        pieces.append(source[position - offset : end - offset].decode())
    return pieces
