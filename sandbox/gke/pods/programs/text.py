"""Commands that read and write text: `cat`, `grep`, `awk` and the like.

Owns the options that scripts around GPU Pods use; an unknown option is refused, as the real
commands refuse it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence

from sandbox.gke.pods.shell.formatting import unescape
from sandbox.gke.pods.shell.process import Process
from sandbox.gke.pods.shell.streams import read_all

_AWK = re.compile(r"\s*(?:/((?:[^/\\]|\\.)*)/)?\s*(?:\{\s*print\s*([^}]*?)\s*;?\s*\})?\s*")


async def cat(process: Process, words: Sequence[str]) -> int:
    """Print files, or standard input as it comes."""
    names = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    code = 0
    for name in names or ["-"]:
        if name == "-":
            while (text := await process.stdin.read()) is not None:
                await process.stdout.write(text)
            continue
        content = process.files.read(process.path(name))
        if content is None:
            code = await _missing(process, words[0], name)
        else:
            await process.stdout.write(content)
    return code


async def tee(process: Process, words: Sequence[str]) -> int:
    """Copy standard input to files and standard output, as it comes."""
    append = "-a" in words
    paths = [process.path(word) for word in words[1:] if not word.startswith("-")]
    for path in paths:
        process.files.write(path, (process.files.read(path) or "") if append else "")
    while (text := await process.stdin.read()) is not None:
        await process.stdout.write(text)
        for path in paths:
            process.files.write(path, (process.files.read(path) or "") + text)
    return 0


async def grep(process: Process, words: Sequence[str]) -> int:
    """Print the lines that match."""
    flags, arguments, patterns = "", [], []
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if word in {"-e", "--regexp"} and rest:
            patterns.append(rest.pop(0))
        elif word == "--":
            arguments += rest
            break
        elif word.startswith("--"):
            flags += {"--quiet": "q", "--invert-match": "v", "--count": "c"}.get(word, "")
        elif word.startswith("-") and len(word) > 1:
            flags += word[1:]
        else:
            arguments.append(word)
    if not patterns and not arguments:
        await process.complain("Usage: grep [OPTION]... PATTERNS [FILE]...")
        return 2
    patterns = patterns or [arguments.pop(0)]
    expression = _grep_expression(patterns, flags)
    found = 0
    async for line in lines_of(process, words[0], arguments):
        if bool(expression.search(line)) == ("v" in flags):
            continue
        found += 1
        if "q" in flags:
            return 0
        if "c" in flags:
            continue
        for shown in _grep_output(line, expression, only_matches="o" in flags):
            await process.say(shown)
    if "c" in flags:
        await process.say(str(found))
    return int(found == 0)


def _grep_output(line: str, expression: re.Pattern[str], *, only_matches: bool) -> list[str]:
    return [match[0] for match in expression.finditer(line)] if only_matches else [line]


def _grep_expression(patterns: Sequence[str], flags: str) -> re.Pattern[str]:
    if "F" in flags:
        patterns = [re.escape(pattern) for pattern in patterns]
    elif "E" not in flags and "P" not in flags:
        patterns = [basic_expression(pattern) for pattern in patterns]
    source = "|".join(f"(?:{pattern})" for pattern in patterns)
    if "w" in flags:
        source = rf"\b(?:{source})\b"
    if "x" in flags:
        source = f"^(?:{source})$"
    return re.compile(source, re.IGNORECASE if "i" in flags else 0)


def basic_expression(pattern: str) -> str:
    r"""Turn a basic regular expression into an extended one: `\|` and `|` change places."""
    return re.sub(r"\\([|+?(){}])|([|+?(){}])", lambda match: match[1] or "\\" + match[2], pattern)


async def awk(process: Process, words: Sequence[str]) -> int:
    """Run programs of the form `/pattern/ {print $1, $2}`."""
    separator: str | None = None
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word.startswith("-F"):
            separator = unescape(word[2:] or (rest.pop(0) if rest else " "))
        elif word == "-v" and rest:
            rest.pop(0)
    if not rest:
        await process.complain("usage: awk [-F fs] prog [file ...]")
        return 2
    program = rest.pop(0)
    match = _AWK.fullmatch(program)
    if match is None:
        await process.complain(f"awk: syntax error in the program: {program}")
        return 2
    pattern, shown = match.groups()
    async for line in lines_of(process, words[0], rest):
        if pattern is not None and not re.search(pattern, line):
            continue
        fields = [line, *(line.split() if separator in (None, " ") else line.split(separator))]
        await process.say(_awk_line(shown, fields))
    return 0


def _awk_line(shown: str | None, fields: Sequence[str]) -> str:
    if not shown:
        return fields[0]
    parts = []
    for part in re.findall(r'\$NF|\$\d+|NF|"[^"]*"|,', shown):
        if part == ",":
            parts.append(" ")
        elif part.startswith('"'):
            parts.append(unescape(part[1:-1]))
        elif part == "NF":
            parts.append(str(len(fields) - 1))
        elif part == "$NF":
            parts.append(fields[-1])
        else:
            number = int(part[1:])
            parts.append(fields[number] if number < len(fields) else "")
    return "".join(parts)


async def cut(process: Process, words: Sequence[str]) -> int:
    """Print chosen fields or characters."""
    values = _values(words[1:], "dfc")
    separator = values.get("d", "\t")
    wanted = values.get("f") or values.get("c")
    if wanted is None:
        await process.complain("cut: you must specify a list of bytes, characters, or fields")
        return 1
    async for line in lines_of(process, words[0], _operands(words[1:], "dfc")):
        parts = line.split(separator) if "f" in values else list(line)
        chosen = [parts[index] for index in _chosen(wanted, len(parts))]
        await process.say((separator if "f" in values else "").join(chosen))
    return 0


def _chosen(wanted: str, count: int) -> Iterator[int]:
    for part in wanted.split(","):
        first, dash, last = part.partition("-")
        start = int(first or 1)
        end = int(last or count) if dash else start
        yield from range(start - 1, min(end, count))


async def head(process: Process, words: Sequence[str]) -> int:
    """Print the first lines."""
    count = _count(words)
    async for line in lines_of(process, words[0], _operands(words[1:], "n")):
        if count <= 0:
            break
        count -= 1
        await process.say(line)
    return 0


async def tail(process: Process, words: Sequence[str]) -> int:
    """Print the last lines; with `-f` wait for ever."""
    follows = any(re.fullmatch(r"-[a-z]*[fF]", word) for word in words[1:])
    names = [name for name in _operands(words[1:], "n") if name != "/dev/null"]
    if names or not follows:
        lines = [line async for line in lines_of(process, words[0], names)]
        for line in lines[-_count(words) :]:
            await process.say(line)
    if follows:
        await process.machine.sleep_for_ever()
    return 0


def _count(words: Sequence[str]) -> int:
    for word in words[1:]:
        if re.fullmatch(r"-\d+", word):
            return int(word[1:])
    value = _values(words[1:], "n").get("n", "10")
    return int(value) if value.lstrip("+-").isdigit() else 10


async def wc(process: Process, words: Sequence[str]) -> int:
    """Count lines, words or characters."""
    text = await _whole(process, words[0], [word for word in words[1:] if word[:1] != "-"])
    counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode())}
    flags = "".join(word[1:] for word in words[1:] if word.startswith("-")) or "lwc"
    await process.say(" ".join(str(counts[flag]) for flag in "lwc" if flag in flags))
    return 0


async def sort(process: Process, words: Sequence[str]) -> int:
    """Sort lines."""
    flags = "".join(word[1:] for word in words[1:] if word.startswith("-"))
    names = [word for word in words[1:] if not word.startswith("-")]
    lines = [line async for line in lines_of(process, words[0], names)]
    if "n" in flags or "h" in flags:
        lines.sort(key=lambda line: float((re.match(r"\s*-?\d+(\.\d+)?", line) or ["0"])[0]))
    elif "V" in flags:
        lines.sort(key=lambda line: [int(part) for part in re.findall(r"\d+", line)])
    else:
        lines.sort()
    if "r" in flags:
        lines.reverse()
    if "u" in flags:
        lines = list(dict.fromkeys(lines))
    for line in lines:
        await process.say(line)
    return 0


async def uniq(process: Process, words: Sequence[str]) -> int:
    """Leave out repeated lines; `-c` counts them."""
    groups: list[tuple[str, int]] = []
    async for line in lines_of(process, words[0], [w for w in words[1:] if w[:1] != "-"]):
        if groups and groups[-1][0] == line:
            groups[-1] = (line, groups[-1][1] + 1)
        else:
            groups.append((line, 1))
    for line, count in groups:
        await process.say(f"{count:7d} {line}" if "-c" in words else line)
    return 0


async def tr(process: Process, words: Sequence[str]) -> int:
    """Replace or delete characters."""
    operands = [unescape(word) for word in words[1:] if not re.fullmatch(r"-[a-z]+", word)]
    flags = "".join(word[1:] for word in words[1:] if re.fullmatch(r"-[a-z]+", word))
    source = _characters(operands[0]) if operands else ""
    text = await read_all(process.stdin)
    if "d" in flags:
        text = "".join(char for char in text if char not in source)
    elif len(operands) > 1:
        target = _characters(operands[1])
        padded = target + target[-1:] * (len(source) - len(target))
        text = text.translate(str.maketrans(source, padded[: len(source)]))
    if "s" in flags:
        squeezed = _characters(operands[-1])
        text = re.sub(rf"([{re.escape(squeezed)}])\1+", r"\1", text)
    await process.stdout.write(text)
    return 0


def _characters(text: str) -> str:
    classes = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:space:]": " \t\n"}
    for name, plain in classes.items():
        text = text.replace(name, plain)
    return re.sub(
        r"(.)-(.)",
        lambda match: "".join(chr(code) for code in range(ord(match[1]), ord(match[2]) + 1)),
        text,
    )


async def seq(process: Process, words: Sequence[str]) -> int:
    """Print numbers."""
    values = _values(words[1:], "s")
    numbers = [int(word) for word in _operands(words[1:], "s") if word.lstrip("-").isdigit()]
    if not numbers:
        await process.complain("seq: missing operand")
        return 1
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) > 2 else 1
    found = range(first, numbers[-1] + (1 if step > 0 else -1), step)
    separator = values.get("s", "\n")
    if len(found):
        await process.stdout.write(separator.join(str(number) for number in found) + "\n")
    return 0


async def lines_of(process: Process, command: str, names: Sequence[str]) -> AsyncIterator[str]:
    """Yield the lines of files, or of standard input as they come."""
    if not [name for name in names if name != "-"]:
        while (line := await process.stdin.line()) is not None:
            yield line.rstrip("\n")
        return
    for line in (await _whole(process, command, names)).splitlines():
        yield line


async def _whole(process: Process, command: str, names: Sequence[str]) -> str:
    if not [name for name in names if name != "-"]:
        return await read_all(process.stdin)
    parts = []
    for name in names:
        content = process.files.read(process.path(name))
        if content is None:
            await _missing(process, command, name)
        else:
            parts.append(content)
    return "".join(parts)


async def _missing(process: Process, command: str, name: str) -> int:
    kind = (
        "Is a directory"
        if process.files.is_folder(process.path(name))
        else "No such file or directory"
    )
    await process.complain(f"{command}: {name}: {kind}")
    return 1


def _values(words: Sequence[str], letters: str) -> dict[str, str]:
    """Read options with values, written `-d x` or `-dx`."""
    values = {}
    for position, word in enumerate(words):
        if len(word) >= 2 and word[0] == "-" and word[1] in letters:
            follows = words[position + 1] if position + 1 < len(words) else ""
            values[word[1]] = word[2:] or follows
    return values


def _operands(words: Sequence[str], letters: str) -> list[str]:
    """Leave options and their values out."""
    operands = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if len(word) == 2 and word[0] == "-" and word[1] in letters and rest:
            rest.pop(0)
        elif not re.fullmatch(r"-[a-zA-Z0-9].*", word):
            operands.append(word)
    return operands


TEXT_COMMANDS = {
    "cat": cat, "tee": tee, "grep": grep, "egrep": grep, "awk": awk, "gawk": awk, "mawk": awk,
    "cut": cut, "head": head, "tail": tail, "wc": wc, "sort": sort, "uniq": uniq,
    "tr": tr, "seq": seq,
}  # fmt: skip
