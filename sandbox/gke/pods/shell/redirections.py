"""Redirections: files, descriptors, here-documents.

Owns the change of a shell's three streams. Does not own putting the old ones back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tree_sitter import Node

from sandbox.gke.pods.files import FileView
from sandbox.gke.pods.shell.streams import LineReader, NoInput, NoOutput, TextInput, Writer
from sandbox.gke.pods.shell.syntax import operator_of, text_of

if TYPE_CHECKING:
    from sandbox.gke.pods.shell.interpreter import Interpreter

_OPERATORS = frozenset({"<", ">", ">>", "&>", "&>>", "<&", ">&", ">|", "<&-", ">&-"})


class RedirectionError(Exception):
    """A file cannot be opened; the text is what the shell prints."""


class FileOutput:
    """Writes to a file; the text is there as soon as it is written."""

    def __init__(self, files: FileView, path: str, *, append: bool) -> None:
        self._files = files
        self._path = path
        self._text = (files.read(path) or "") if append else ""
        files.write(path, self._text)

    async def write(self, text: str) -> None:
        """Append to the file."""
        self._text = (self._files.read(self._path) or "") + text
        self._files.write(self._path, self._text)


async def open_redirections(shell: Interpreter, redirects: Sequence[Node]) -> None:
    """Redirect the streams of a shell's process, in order.

    Raises:
        RedirectionError: a file to read is not there.
        ReadOnlyError: a file to write lies below a read-only mount.
    """
    for redirect in redirects:
        if redirect.type == "heredoc_redirect":
            nested = [child for child in redirect.named_children if child.type == "file_redirect"]
            await open_redirections(shell, nested)
            shell.process.stdin = LineReader(TextInput(await _heredoc(shell, redirect)))
        elif redirect.type == "herestring_redirect":
            text = await shell.words.text(redirect.named_children[-1])
            shell.process.stdin = LineReader(TextInput(text + "\n"))
        else:
            await _open_file(shell, redirect)


async def _heredoc(shell: Interpreter, redirect: Node) -> str:
    start = next(child for child in redirect.children if child.type == "heredoc_start")
    body = next((child for child in redirect.children if child.type == "heredoc_body"), None)
    if body is None:
        return ""
    quoted = any(sign in text_of(start) for sign in "'\"\\")
    text = await shell.words.heredoc(body, expand=not quoted)
    if any(child.type == "<<-" for child in redirect.children):
        text = "".join(line.lstrip("\t") for line in text.splitlines(keepends=True))
    return text


async def _open_file(shell: Interpreter, redirect: Node) -> None:
    sign = operator_of(redirect, _OPERATORS)
    descriptor = next(
        (text_of(child) for child in redirect.children if child.type == "file_descriptor"), ""
    )
    targets = [child for child in redirect.named_children if child.type != "file_descriptor"]
    target = await shell.words.text(targets[-1]) if targets else ""
    process = shell.process
    if sign == "<":
        process.stdin = LineReader(_input(shell, target))
        return
    if sign in {"<&", "<&-", ">&-"}:
        return
    output: Writer
    if sign == ">&" and target in {"1", "2"}:
        output = process.stdout if target == "1" else process.stderr
    elif target == "/dev/null":
        output = NoOutput()
    elif target in {"/dev/stdout", "/proc/self/fd/1"}:
        output = process.stdout
    elif target in {"/dev/stderr", "/proc/self/fd/2", "/proc/1/fd/2"}:
        output = process.stderr
    elif process.files.is_folder(process.path(target)):
        raise RedirectionError(f"{target}: Is a directory")
    else:
        output = FileOutput(process.files, process.path(target), append=sign in {">>", "&>>"})
    if sign in {"&>", "&>>"} or (sign == ">&" and target not in {"1", "2"} and not descriptor):
        process.stdout = process.stderr = output
    elif descriptor == "2":
        process.stderr = output
    elif descriptor in {"", "1"}:
        process.stdout = output


def _input(shell: Interpreter, target: str) -> TextInput | NoInput:
    if target == "/dev/null":
        return NoInput()
    content = shell.process.files.read(shell.process.path(target))
    if content is None:
        raise RedirectionError(f"{target}: No such file or directory")
    return TextInput(content)
