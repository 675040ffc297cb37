"""Commands that are part of the shell itself.

Owns those that change the shell's own state. `sleep`, `cat` and the like are programs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from sandbox.gke.pods.shell import conditions
from sandbox.gke.pods.shell.control import FunctionReturn, LoopBreak, LoopContinue, ShellExit
from sandbox.gke.pods.shell.formatting import echo_text, printf_text
from sandbox.gke.pods.shell.syntax import parse

if TYPE_CHECKING:
    from sandbox.gke.pods.shell.interpreter import Interpreter

Builtin = Callable[["Interpreter", Sequence[str]], Awaitable[int]]
_OPTION_NAMES = {
    "errexit": "exit_on_error",
    "nounset": "fail_on_unset",
    "xtrace": "trace",
    "pipefail": "pipe_fail",
}
_OPTION_LETTERS = {"e": "exit_on_error", "u": "fail_on_unset", "x": "trace"}


async def _true(_: Interpreter, __: Sequence[str]) -> int:
    return 0


async def _false(_: Interpreter, __: Sequence[str]) -> int:
    return 1


async def _echo(shell: Interpreter, words: Sequence[str]) -> int:
    await shell.process.stdout.write(echo_text(words[1:]))
    return 0


async def _printf(shell: Interpreter, words: Sequence[str]) -> int:
    arguments = list(words[1:])
    if arguments[:1] == ["-v"] and len(arguments) > 2:
        shell.variables.set(arguments[1], printf_text(arguments[2], arguments[3:]))
        return 0
    if not arguments:
        return 2
    await shell.process.stdout.write(printf_text(arguments[0], arguments[1:]))
    return 0


async def _test(shell: Interpreter, words: Sequence[str]) -> int:
    inner = words[1:]
    if words[0] == "[":
        inner = inner[:-1]
    return int(not conditions.evaluate(inner, shell.process.files, shell.process.directory))


async def _cd(shell: Interpreter, words: Sequence[str]) -> int:
    targets = [word for word in words[1:] if word not in {"--", "-P", "-L"}]
    target = targets[0] if targets else shell.variables.get("HOME") or "/root"
    if target == "-":
        target = shell.variables.get("OLDPWD") or shell.process.directory
    path = shell.process.path(target)
    if not shell.process.files.is_folder(path):
        await shell.process.complain(f"cd: {target}: No such file or directory")
        return 1
    shell.variables.set("OLDPWD", shell.process.directory)
    shell.variables.set("PWD", path)
    shell.process.directory = path
    return 0


async def _pwd(shell: Interpreter, _: Sequence[str]) -> int:
    await shell.process.say(shell.process.directory)
    return 0


async def _pushd(shell: Interpreter, words: Sequence[str]) -> int:
    before = shell.process.directory
    code = await _cd(shell, words)
    if code == 0:
        shell.folder_stack.append(before)
        shown = [shell.process.directory, *reversed(shell.folder_stack)]
        await shell.process.say(" ".join(shown))
    return code


async def _popd(shell: Interpreter, _: Sequence[str]) -> int:
    if not shell.folder_stack:
        await shell.process.complain("popd: directory stack empty")
        return 1
    code = await _cd(shell, ["cd", shell.folder_stack.pop()])
    shown = [shell.process.directory, *reversed(shell.folder_stack)]
    await shell.process.say(" ".join(shown))
    return code


async def _exit(shell: Interpreter, words: Sequence[str]) -> int:
    raise ShellExit(_code(words, shell.state.status))


async def _return(shell: Interpreter, words: Sequence[str]) -> int:
    raise FunctionReturn(_code(words, shell.state.status))


async def _break(_: Interpreter, words: Sequence[str]) -> int:
    raise LoopBreak(_code(words, 1) - 1)


async def _continue(_: Interpreter, words: Sequence[str]) -> int:
    raise LoopContinue(_code(words, 1) - 1)


async def _shift(shell: Interpreter, words: Sequence[str]) -> int:
    count = _code(words, 1)
    if count > len(shell.variables.arguments):
        return 1
    shell.variables.arguments = shell.variables.arguments[count:]
    return 0


async def _set(shell: Interpreter, words: Sequence[str]) -> int:
    arguments = list(words[1:])
    while arguments:
        word = arguments.pop(0)
        if word == "--":
            shell.variables.arguments = arguments
            return 0
        if not re.fullmatch(r"[-+][a-zA-Z]+", word):
            shell.variables.arguments = [word, *arguments]
            return 0
        switch = word[0] == "-"
        for letter in word[1:]:
            name = _OPTION_LETTERS.get(letter, "")
            if letter == "o" and arguments:
                name = _OPTION_NAMES.get(arguments.pop(0), "")
            if name:
                setattr(shell.state.options, name, switch)
    return 0


async def _source(shell: Interpreter, words: Sequence[str]) -> int:
    if len(words) < 2:
        await shell.process.complain(f"{words[0]}: filename argument required")
        return 2
    content = shell.process.files.read(shell.process.path(words[1]))
    if content is None:
        await shell.process.complain(
            f"{shell.variables.script}: {words[1]}: No such file or directory"
        )
        return 1
    before = shell.variables.arguments
    if len(words) > 2:
        shell.variables.arguments = list(words[2:])
    try:
        return await shell.run_body(parse(content))
    except FunctionReturn as end:
        return end.code
    finally:
        shell.variables.arguments = before


async def _eval(shell: Interpreter, words: Sequence[str]) -> int:
    return await shell.run_body(parse(" ".join(words[1:])))


async def _exec(shell: Interpreter, words: Sequence[str]) -> int:
    arguments = list(words[1:])
    if not arguments:
        return 0
    raise ShellExit(await shell.execute(arguments, shell.variables.environment))


async def _command(shell: Interpreter, words: Sequence[str]) -> int:
    arguments = list(words[1:])
    if arguments[:1] in (["-v"], ["-V"]):
        return await _type(shell, ["type", *arguments[1:]])
    if not arguments:
        return 0
    builtin = BUILTINS.get(arguments[0])
    if builtin is not None:
        return await builtin(shell, arguments)
    return await shell.execute(arguments, shell.variables.environment)


async def _type(shell: Interpreter, words: Sequence[str]) -> int:
    code = 0
    for name in [word for word in words[1:] if not word.startswith("-")]:
        known = name in BUILTINS or name in shell.state.functions
        if known or shell.process.machine.program(name, shell.process) is not None:
            await shell.process.say(name)
        else:
            code = 1
    return code


async def _read(shell: Interpreter, words: Sequence[str]) -> int:
    names = []
    arguments = list(words[1:])
    while arguments:
        word = arguments.pop(0)
        if word in {"-p", "-t", "-n", "-d", "-u"}:
            arguments[:1] = []
        elif not word.startswith("-"):
            names.append(word)
    line = await shell.process.stdin.line()
    if line is None:
        for name in names:
            shell.variables.set(name, "")
        return 1
    text = line.rstrip("\n")
    separator = shell.variables.get("IFS")
    if separator == "" or not names:
        parts = [text]
    else:
        parts = text.split(separator or None, len(names) - 1)
    for position, name in enumerate(names or ["REPLY"]):
        shell.variables.set(name, parts[position] if position < len(parts) else "")
    return 0


async def _wait(shell: Interpreter, words: Sequence[str]) -> int:
    chosen = [job for number, job in enumerate(shell.jobs) if str(101 + number) in words[1:]]
    jobs = chosen or (shell.jobs if len(words) == 1 or words[1] == "-n" else [])
    codes = await asyncio.gather(*jobs)
    return codes[-1] if codes and len(words) > 1 else 0


async def _kill(shell: Interpreter, words: Sequence[str]) -> int:
    asks_only = "-0" in words[1:]
    code = 1
    for number, job in enumerate(shell.jobs):
        if str(101 + number) in words[1:] and not job.done():
            code = 0
            if not asks_only:
                job.cancel()
    return code


async def _let(shell: Interpreter, words: Sequence[str]) -> int:
    value = 0
    for expression in words[1:]:
        value = await shell.words.number(expression)
    return int(not value)


async def _compgen(shell: Interpreter, words: Sequence[str]) -> int:
    flags = [word for word in words[1:] if word.startswith("-")]
    prefix = words[-1] if len(words) > 1 and not words[-1].startswith("-") else ""
    names = shell.variables.names(exported_only="-e" in flags)
    found = [name for name in names if name.startswith(prefix)]
    for name in found:
        await shell.process.say(name)
    return int(not found)


async def _mapfile(shell: Interpreter, words: Sequence[str]) -> int:
    lines = []
    while (line := await shell.process.stdin.line()) is not None:
        lines.append(line.rstrip("\n") if "-t" in words else line)
    name = words[-1] if len(words) > 1 and not words[-1].startswith("-") else "MAPFILE"
    shell.variables.set(name, lines)
    return 0


def _code(words: Sequence[str], default: int) -> int:
    if len(words) < 2:
        return default
    return int(words[1]) & 255 if words[1].lstrip("-").isdigit() else 2


BUILTINS: dict[str, Builtin] = {
    ":": _true, "true": _true, "false": _false, "echo": _echo, "printf": _printf,
    "test": _test, "[": _test, "cd": _cd, "pwd": _pwd, "pushd": _pushd, "popd": _popd,
    "exit": _exit, "return": _return, "break": _break, "continue": _continue, "shift": _shift,
    "set": _set, "source": _source, ".": _source, "eval": _eval, "exec": _exec,
    "command": _command, "builtin": _command, "type": _type, "read": _read, "wait": _wait,
    "kill": _kill, "let": _let, "compgen": _compgen, "mapfile": _mapfile, "readarray": _mapfile,
    "trap": _true, "ulimit": _true, "umask": _true, "shopt": _true, "hash": _true,
    "disown": _true, "jobs": _true, "bg": _true, "fg": _true,
}  # fmt: skip
