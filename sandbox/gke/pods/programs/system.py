"""Commands that start others, wait, or tell about the machine."""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Sequence

from sandbox.gke.pods.container import Container
from sandbox.gke.pods.shell.interpreter import run_script
from sandbox.gke.pods.shell.process import NOT_FOUND, Process, Program

_UNIT_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_TIMED_OUT = 124


async def run(process: Process, words: Sequence[str]) -> int:
    """Run a program with its arguments; complain if there is none."""
    program = process.machine.program(words[0], process)
    if program is None:
        await process.complain(f"{words[0]}: command not found")
        return NOT_FOUND
    return await program(process, words)


async def shell(process: Process, words: Sequence[str]) -> int:
    """`sh` and `bash`: `-c script`, a script file, or a script on standard input."""
    flags, prelude = "", ""
    rest = list(words[1:])
    while rest and re.fullmatch(r"[-+][a-zA-Z]+|--\w+", rest[0]):
        option = rest.pop(0)
        if option.startswith("--"):
            continue
        flags += option[1:]
        if option.endswith("o") and rest:
            prelude += f"set {option[0]}o {rest.pop(0)}\n"
    prelude += "".join(f"set -{flag}\n" for flag in flags if flag in "eux")
    if "c" in flags:
        if not rest:
            await process.complain(f"{words[0]}: -c: option requires an argument")
            return 2
        return await run_script(process, prelude + rest[0], rest[1:] or [words[0]])
    if not rest:
        script = ""
        while (text := await process.stdin.read()) is not None:
            script += text
        return await run_script(process, prelude + script, [words[0]])
    content = process.files.read(process.path(rest[0]))
    if content is None:
        await process.complain(f"{words[0]}: {rest[0]}: No such file or directory")
        return NOT_FOUND
    return await run_script(process, prelude + content, rest)


async def sleep(process: Process, words: Sequence[str]) -> int:
    """Let time pass."""
    seconds = 0.0
    for word in words[1:]:
        if word in {"infinity", "inf"}:
            await process.machine.sleep_for_ever()
        match = re.fullmatch(r"(\d*\.?\d+)([smhd]?)", word)
        if match is None:
            await process.complain(f"sleep: invalid time interval '{word}'")
            return 1
        seconds += float(match[1]) * _UNIT_SECONDS[match[2]]
    await process.machine.sleep(seconds, in_loop=process.in_loop)
    return 0


async def timeout(process: Process, words: Sequence[str]) -> int:
    """Run a command with a limit of real seconds: simulated work that fits takes no time."""
    rest = [word for word in words[1:] if not re.fullmatch(r"-[a-z]?.*", word)]
    match = re.fullmatch(r"(\d*\.?\d+)([smhd]?)", rest[0]) if rest else None
    if match is None or len(rest) < 2:
        await process.complain("timeout: missing operand")
        return 125
    seconds = float(match[1]) * _UNIT_SECONDS[match[2]]
    try:
        async with asyncio.timeout(seconds):
            return await run(process, rest[1:])
    except TimeoutError:
        return _TIMED_OUT


async def env(process: Process, words: Sequence[str]) -> int:
    """Print the environment, or run a command in a changed one."""
    environment = dict(process.environment)
    rest = list(words[1:])
    while rest:
        if rest[0] in {"-i", "-"}:
            environment.clear()
        elif rest[0] == "-u" and len(rest) > 1:
            environment.pop(rest.pop(1), None)
        elif re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL):
            name, _, value = rest[0].partition("=")
            environment[name] = value
        else:
            break
        rest.pop(0)
    if rest:
        return await run(process.child(environment=environment), rest)
    for name, value in environment.items():
        await process.say(f"{name}={value}")
    return 0


def prefix(options_with_value: str = "", operands: int = 0) -> Program:
    """Make a command that only runs the command behind its own options and operands."""

    async def run_rest(process: Process, words: Sequence[str]) -> int:
        rest = list(words[1:])
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if option == "--":
                break
            if len(option) == 2 and option[1] in options_with_value and rest:
                rest.pop(0)
        rest = rest[operands:]
        return await run(process, rest) if rest else 0

    return run_rest


async def xargs(process: Process, words: Sequence[str]) -> int:
    """Run a command with the words of standard input."""
    rest = list(words[1:])
    replaced = ""
    each = 0
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-I" and rest:
            replaced = rest.pop(0)
        elif option == "-n" and rest:
            each = int(rest.pop(0))
    text = ""
    while (piece := await process.stdin.read()) is not None:
        text += piece
    command = rest or ["echo"]
    if replaced:
        groups = [[part.replace(replaced, line) for part in command] for line in text.splitlines()]
    else:
        found = text.split()
        size = each or len(found) or 1
        groups = [[*command, *found[i : i + size]] for i in range(0, len(found), size)]
    code = 0
    for group in groups:
        code = max(code, await run(process, group))
    return code


async def hostname(process: Process, words: Sequence[str]) -> int:
    """Print the host name, or with `-i` and `-I` the address."""
    machine = process.machine
    if not isinstance(machine, Container):
        await process.say("node")
        return 0
    asks_address = any(word in {"-i", "-I"} for word in words[1:])
    await process.say(machine.pod.address if asks_address else machine.pod.hostname)
    return 0


async def date(process: Process, words: Sequence[str]) -> int:
    """Print a time; simulated output has no use for the real one."""
    await process.say("0" if "+%s" in words else "Thu Jan  1 00:00:00 UTC 1970")
    return 0


async def nvidia_smi(process: Process, words: Sequence[str]) -> int:
    """List the GPUs that the container may use."""
    machine = process.machine
    if not isinstance(machine, Container):
        return 0
    if not machine.gpus:
        await process.say(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
        )
        return 9
    for number in range(machine.gpus):
        shown = f"GPU {number}: NVIDIA H100 80GB HBM3 (simulated)"
        await process.say("NVIDIA H100 80GB HBM3" if "--query-gpu=name" in words else shown)
    return 0


async def built_in(process: Process, words: Sequence[str]) -> int:
    """`echo`, `true` and other built-in commands, which exist as programs too."""
    name = posixpath.basename(words[0])
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in [name, *words[1:]])
    return await run_script(process, quoted, ["sh"])


async def nothing(_: Process, __: Sequence[str]) -> int:
    """Succeed at once: package managers and other tools whose work has no effect here."""
    return 0


def constant(text: str) -> Program:
    """Make a command that prints one line."""

    async def show(process: Process, _: Sequence[str]) -> int:
        await process.say(text)
        return 0

    return show


SYSTEM_COMMANDS = {
    **dict.fromkeys(("echo", "printf", "true", "false", "test", "pwd"), built_in),
    "sh": shell, "bash": shell, "dash": shell, "sleep": sleep, "timeout": timeout, "env": env,
    "printenv": env, "xargs": xargs, "hostname": hostname, "date": date,
    "nvidia-smi": nvidia_smi, "sudo": prefix("u"), "nohup": prefix(), "time": prefix("f"),
    "stdbuf": prefix("oie"), "taskset": prefix("", 1), "numactl": prefix(), "nice": prefix("n"),
    "setsid": prefix(), "chrt": prefix("", 1), "tini": prefix(), "dumb-init": prefix(),
    "unbuffer": prefix(), "id": constant("uid=0(root) gid=0(root) groups=0(root)"),
    "whoami": constant("root"), "uname": constant("Linux"), "nproc": constant("208"),
    "uptime": constant("up 1 min"), "sync": nothing, "ldconfig": nothing, "sysctl": nothing,
    "apt-get": nothing, "apt": nothing, "pip": nothing, "pip3": nothing, "logger": nothing,
    "update-ca-certificates": nothing, "stty": nothing, "clear": nothing, "yum": nothing,
    "git": nothing, "wget": nothing, "tar": nothing, "ip": nothing, "ifconfig": nothing,
}  # fmt: skip
