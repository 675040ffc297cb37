"""Commands on files and folders."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from sandbox.gke.pods.shell.process import Process


async def mkdir(process: Process, words: Sequence[str]) -> int:
    """Make folders."""
    code = 0
    for name in _operands(words, "m"):
        path = process.path(name)
        if "-p" not in "".join(words) and process.files.exists(path):
            await process.complain(f"mkdir: cannot create directory '{name}': File exists")
            code = 1
        else:
            process.files.make_folder(path)
    return code


async def rm(process: Process, words: Sequence[str]) -> int:
    """Remove files and folders."""
    forced = any(re.fullmatch(r"-\w*f\w*", word) for word in words[1:])
    code = 0
    for name in _operands(words):
        if not process.files.remove(process.path(name)) and not forced:
            await process.complain(f"{words[0]}: cannot remove '{name}': No such file or directory")
            code = 1
    return code


async def touch(process: Process, words: Sequence[str]) -> int:
    """Make empty files."""
    for name in _operands(words):
        path = process.path(name)
        if not process.files.exists(path):
            process.files.write(path, "")
    return 0


async def copy(process: Process, words: Sequence[str]) -> int:
    """`cp` and `mv`."""
    operands = _operands(words)
    if len(operands) < 2:
        await process.complain(f"{words[0]}: missing destination file operand")
        return 1
    *sources, target = operands
    files, destination = process.files, process.path(target)
    code = 0
    for source in sources:
        path = process.path(source)
        content = files.read(path)
        if content is not None:
            into = files.is_folder(destination)
            files.write(
                posixpath.join(destination, posixpath.basename(path)) if into else destination,
                content,
            )
        elif files.is_folder(path):
            inner = destination
            if not source.endswith(("/.", "/")) and files.is_folder(destination):
                inner = posixpath.join(destination, posixpath.basename(path))
            files.make_folder(inner)
            for found in list(files.walk(path)):
                files.write(
                    posixpath.join(inner, posixpath.relpath(found, path)), files.read(found) or ""
                )
        else:
            await process.complain(f"{words[0]}: cannot stat '{source}': No such file or directory")
            code = 1
            continue
        if words[0] == "mv":
            files.remove(path)
    return code


async def link(process: Process, words: Sequence[str]) -> int:
    """`ln`: the link becomes a copy of what it points to now."""
    operands = _operands(words)
    content = process.files.read(process.path(operands[0])) if operands else None
    if content is not None and len(operands) > 1:
        process.files.write(process.path(operands[1]), content)
    return 0


async def change_mode(process: Process, words: Sequence[str]) -> int:
    """`chmod` and `chown`: only look whether the files are there."""
    code = 0
    for name in _operands(words)[1:]:
        if not process.files.exists(process.path(name)):
            verb = "access" if words[0] == "chmod" else "change ownership of"
            await process.complain(f"{words[0]}: cannot {verb} '{name}': No such file or directory")
            code = 1
    return code


async def ls(process: Process, words: Sequence[str]) -> int:
    """List folders."""
    code = 0
    names = _operands(words) or ["."]
    for name in names:
        path = process.path(name)
        if process.files.is_folder(path):
            shown = process.files.names(path)
            if not any(re.fullmatch(r"-\w*[aA]\w*", word) for word in words[1:]):
                shown = [entry for entry in shown if not entry.startswith(".")]
            if len(names) > 1:
                await process.say(f"{name}:")
            for entry in shown:
                await process.say(entry)
        elif process.files.exists(path):
            await process.say(name)
        else:
            await process.complain(f"ls: cannot access '{name}': No such file or directory")
            code = 2
    return code


async def find(process: Process, words: Sequence[str]) -> int:
    """List files below folders; knows `-name`."""
    names = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-name"]
    expression = names[0] if names else "*"
    for folder in [word for word in words[1:] if word.startswith(("/", "."))][:1] or ["."]:
        wanted = set(process.files.match(posixpath.join(process.path(folder), expression)))
        for path in process.files.walk(process.path(folder)):
            inner = posixpath.join(posixpath.dirname(path), expression)
            if path in wanted or path in process.files.match(inner):
                await process.say(path)
    return 0


async def resolve(process: Process, words: Sequence[str]) -> int:
    """`readlink -f` and `realpath`: there are no links here."""
    for name in _operands(words):
        await process.say(process.path(name))
    return 0


async def basename(process: Process, words: Sequence[str]) -> int:
    """Print the last part of a path."""
    operands = _operands(words)
    name = posixpath.basename(operands[0].rstrip("/")) if operands else ""
    await process.say(name.removesuffix(operands[1]) if len(operands) > 1 else name)
    return 0


async def dirname(process: Process, words: Sequence[str]) -> int:
    """Print a path without its last part."""
    for name in _operands(words):
        await process.say(posixpath.dirname(name.rstrip("/")) or ".")
    return 0


def _operands(words: Sequence[str], with_value: str = "") -> list[str]:
    operands: list[str] = []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word == "--":
            return operands + rest
        if with_value and word == f"-{with_value}" and rest:
            rest.pop(0)
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    return operands


FILE_COMMANDS = {
    "mkdir": mkdir, "rm": rm, "rmdir": rm, "touch": touch, "cp": copy, "mv": copy, "ln": link,
    "chmod": change_mode, "chown": change_mode, "ls": ls, "find": find, "readlink": resolve,
    "realpath": resolve, "basename": basename, "dirname": dirname,
}  # fmt: skip
