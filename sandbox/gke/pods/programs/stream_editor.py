"""`sed`, as far as scripts around GPU Pods use it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sandbox.gke.pods.programs.text import basic_expression, lines_of
from sandbox.gke.pods.shell.process import Process


async def sed(process: Process, words: Sequence[str]) -> int:
    """Run `s///`, `/pattern/d` and `-n '…p'` programs."""
    quiet = False
    in_place = False
    programs, operands = [], []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in {"-e", "--expression"} and rest:
            programs.append(rest.pop(0))
        elif word in {"-n", "--quiet"}:
            quiet = True
        elif word.startswith("-i"):
            in_place = True
        elif word not in {"-E", "-r"}:
            operands.append(word)
    if not programs and operands:
        programs.append(operands.pop(0))
    extended = "-E" in words or "-r" in words
    try:
        edits = [_sed_edit(part.strip(), extended) for part in ";".join(programs).split(";")]
    except ValueError as error:
        await process.complain(f"sed: {error}")
        return 1
    targets = [[name] for name in operands] if in_place else [operands]
    for names in targets:
        lines = []
        async for line in lines_of(process, words[0], names):
            lines += _sed_line(line, edits, quiet=quiet)
        text = "".join(line + "\n" for line in lines)
        if in_place:
            process.files.write(process.path(names[0]), text)
        else:
            await process.stdout.write(text)
    return 0


_Edit = Callable[[str], tuple[str | None, bool]]


def _sed_edit(program: str, extended: bool) -> _Edit:
    """Return a function from a line to the new line (None: deleted) and whether to print it."""
    substitute = re.fullmatch(r"s(.)(.*?)(?<!\\)\1(.*?)(?<!\\)\1([gip]*)", program)
    if substitute is not None:
        source = substitute[2] if extended else basic_expression(substitute[2])
        expression = re.compile(source, re.IGNORECASE if "i" in substitute[4] else 0)
        text = re.sub(r"&(?<!\\&)", r"\\g<0>", substitute[3])
        count = 0 if "g" in substitute[4] else 1
        return lambda line: (expression.sub(text, line, count=count), "p" in substitute[4])
    command = re.fullmatch(r"/(.*)/([dp])", program)
    if command is not None:
        chosen = re.compile(command[1] if extended else basic_expression(command[1]))
        if command[2] == "d":
            return lambda line: (None if chosen.search(line) else line, False)
        return lambda line: (line, bool(chosen.search(line)))
    if not program:
        return lambda line: (line, False)
    raise ValueError(f"-e expression #1, char 1: unknown command: '{program[:1]}'")


def _sed_line(line: str, edits: Sequence[_Edit], *, quiet: bool) -> list[str]:
    extra = []
    current: str | None = line
    for edit in edits:
        if current is None:
            break
        current, printed = edit(current)
        if printed and current is not None:
            extra.append(current)
    return extra + ([] if quiet or current is None else [current])
