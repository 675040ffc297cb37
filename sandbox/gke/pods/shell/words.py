"""Words of a command line: quoting, expansions, field splitting, patterns.

Owns the way from syntax to arguments. Command substitution runs through the interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tree_sitter import Node

from sandbox.gke.pods.files import FileView
from sandbox.gke.pods.shell.arithmetic import ArithmeticSyntaxError, evaluate
from sandbox.gke.pods.shell.parameters import ParameterError, expand_parameter
from sandbox.gke.pods.shell.syntax import parse, pieces_between, text_of
from sandbox.gke.pods.shell.variables import Variables

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_ESCAPED_IN_HEREDOC = re.compile(r"\\([$`\\\n])")
_GLOB = re.compile(r"[*?\[]")
_DOLLAR = re.compile(r"[$`]")


class ExpansionError(Exception):
    """A word cannot be expanded; the text is what the shell prints before it ends."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a word."""

    text: str
    quoted: bool = False
    splits: bool = False
    """Whether blanks in it separate arguments: only in results of unquoted expansions."""
    starts_field: bool = False
    """Whether it begins a new argument, as all but the first element of `"$@"` do."""
    vanishes: bool = False
    """`"$@"` without arguments: leaves no empty argument behind."""


class Words:
    """Expands the words of one shell."""

    def __init__(
        self,
        variables: Variables,
        files: FileView,
        *,
        run: Callable[[Node], Awaitable[str]],
        special: Callable[[str], str | None],
        absolute: Callable[[str], str],
        fails_on_unset: Callable[[], bool],
    ) -> None:
        """Prepare.

        Args:
            variables: The shell's variables.
            files: For patterns.
            run: Runs the statements of a command substitution and returns their output.
            special: Values of `$?`, `$!`, `$$`, `$#`, `$-`.
            absolute: Makes a path absolute.
            fails_on_unset: Whether `set -u` is on.
        """
        self._variables = variables
        self._files = files
        self._run = run
        self._special = special
        self._absolute = absolute
        self._fails_on_unset = fails_on_unset

    async def arguments(self, nodes: list[Node]) -> list[str]:
        """Expand words into arguments."""
        found: list[str] = []
        for node in nodes:
            found += self._fields(await self.pieces(node))
        return found

    async def text(self, node: Node) -> str:
        """Expand one word without splitting, as in assignments and redirections."""
        parts: list[str] = []
        for piece in await self.pieces(node):
            parts.append(" " if piece.starts_field and parts else "")
            parts.append(piece.text)
        return "".join(parts)

    async def pattern(self, node: Node) -> str:
        """Expand one word into a pattern: what was quoted stands for itself."""
        pieces = await self.pieces(node)
        return "".join(
            re.sub(r"([*?\[])", r"[\1]", piece.text) if piece.quoted else piece.text
            for piece in pieces
        )

    async def heredoc(self, body: Node, *, expand: bool) -> str:
        """Return the text of a here-document."""
        if not expand:
            return text_of(body)
        parts = []
        for piece in pieces_between(body, body.start_byte, body.end_byte):
            if isinstance(piece, str):
                parts.append(_ESCAPED_IN_HEREDOC.sub(lambda m: "" if m[1] == "\n" else m[1], piece))
            else:
                parts += [item.text for item in await self._expansion(piece, quoted=True)]
        return "".join(parts)

    async def plain(self, text: str) -> str:
        """Expand the `$` parts of a text that was taken out of its syntax."""
        if not _DOLLAR.search(text):
            return _ESCAPED_IN_QUOTES.sub(r"\1", text) if "\\" in text else text
        quoted = '"' + text.replace('\\"', '"').replace('"', '\\"') + '"'
        argument = parse(f": {quoted}").named_children[0].named_children[1]
        return await self.text(argument)

    async def number(self, expression: str) -> int:
        """Evaluate arithmetic.

        Raises:
            ExpansionError: it is no expression.
        """
        expanded = await self.plain(expression)
        try:
            return evaluate(expanded.replace('"', ""), self._variables.get, self._variables.set)
        except ArithmeticSyntaxError as error:
            raise ExpansionError(str(error)) from error

    async def pieces(self, node: Node) -> list[Piece]:
        """Expand one word into its parts."""
        match node.type:
            case (
                "word" | "number" | "extglob_pattern" | "regex" | "variable_name" | "test_operator"
            ):
                text = text_of(node)
                return [Piece(_ESCAPED.sub(r"\1", text), quoted="\\" in text)]
            case "raw_string":
                return [Piece(text_of(node)[1:-1], quoted=True)]
            case "ansi_c_string":
                raw = text_of(node)[2:-1].encode("latin-1", "backslashreplace")
                return [Piece(raw.decode("unicode_escape"), quoted=True)]
            case "string" | "translated_string":
                return await self._string(node)
            case "concatenation" | "command_name":
                parts: list[Piece] = []
                for child in node.children:
                    parts += await self.pieces(child)
                return parts
            case "brace_expression":
                return self._range(text_of(node))
        if node.type in _EXPANSIONS:
            return await self._expansion(node, quoted=False)
        return [Piece(text_of(node))]

    async def _string(self, node: Node) -> list[Piece]:
        start = node.start_byte + text_of(node).index('"') + 1
        parts = [Piece("", quoted=True)]
        for piece in pieces_between(node, start, node.end_byte - 1):
            if isinstance(piece, str):
                text = _ESCAPED_IN_QUOTES.sub(lambda m: "" if m[1] == "\n" else m[1], piece)
                parts.append(Piece(text, quoted=True))
            else:
                parts += await self._expansion(piece, quoted=True)
        only_list = len(parts) > 1 and all(part.vanishes or not part.text for part in parts)
        if only_list and any(part.vanishes for part in parts):
            return []
        return parts

    async def _expansion(self, node: Node, *, quoted: bool) -> list[Piece]:
        source = text_of(node).lstrip()
        match node.type:
            case "simple_expansion":
                return self._parameter(await self._braced(source[1:]), quoted)
            case "expansion":
                return self._parameter(await self._braced(source[2:-1]), quoted)
            case "command_substitution":
                output = (await self._run(node)).rstrip("\n")
                return [Piece(output, quoted=quoted, splits=not quoted)]
            case "arithmetic_expansion":
                inner = source[3:-2] if source.startswith("$((") else source[2:-1]
                return [Piece(str(await self.number(inner)), quoted=quoted)]
            case "process_substitution":
                return [Piece(await self._run(node), quoted=True)]
        return await self.pieces(node)

    async def _braced(self, inner: str) -> str | list[str]:
        try:
            return await expand_parameter(
                inner,
                self._variables,
                special=self._special,
                expand=self.plain,
                number=self.number,
                fails_on_unset=self._fails_on_unset(),
            )
        except ParameterError as error:
            raise ExpansionError(str(error)) from error

    def _parameter(self, value: str | list[str], quoted: bool) -> list[Piece]:
        if isinstance(value, str):
            return [Piece(value, quoted=quoted, splits=not quoted)]
        if not value:
            return [Piece("", quoted=quoted, vanishes=True)]
        return [
            Piece(item, quoted=quoted, splits=not quoted, starts_field=position > 0)
            for position, item in enumerate(value)
        ]

    def _range(self, text: str) -> list[Piece]:
        match = re.fullmatch(r"\{(-?\d+)\.\.(-?\d+)\}", text)
        if match is None:
            return [Piece(text)]
        first, last = int(match[1]), int(match[2])
        step = 1 if last >= first else -1
        return [
            Piece(str(number), starts_field=position > 0)
            for position, number in enumerate(range(first, last + step, step))
        ]

    def _fields(self, pieces: list[Piece]) -> list[str]:
        """Split a word's pieces into arguments and replace patterns by the files they match."""
        fields: list[list[Piece]] = [[]]
        for piece in pieces:
            if piece.starts_field:
                fields.append([])
            if not piece.splits:
                if not piece.vanishes:
                    fields[-1].append(piece)
                continue
            parts = piece.text.split()
            if not parts:
                if piece.text and fields[-1]:
                    fields.append([])
                continue
            if piece.text[0].isspace() and fields[-1]:
                fields.append([])
            for position, part in enumerate(parts):
                if position:
                    fields.append([])
                fields[-1].append(Piece(part))
            if piece.text[-1].isspace():
                fields.append([])
        found: list[str] = []
        for field in fields:
            if field:
                found += self._matched(field)
        return found

    def _matched(self, field: list[Piece]) -> list[str]:
        text = "".join(piece.text for piece in field)
        if not any(not piece.quoted and _GLOB.search(piece.text) for piece in field):
            return [text]
        pattern = "".join(
            re.sub(r"([*?\[])", r"[\1]", piece.text) if piece.quoted else piece.text
            for piece in field
        )
        found = self._files.match(self._absolute(pattern))
        if not found:
            return [text]
        if text.startswith("/"):
            return found
        base = self._absolute(".").rstrip("/") + "/"
        return [path.removeprefix(base) for path in found]


_EXPANSIONS = frozenset(
    {
        "simple_expansion",
        "expansion",
        "command_substitution",
        "arithmetic_expansion",
        "process_substitution",
    }
)
