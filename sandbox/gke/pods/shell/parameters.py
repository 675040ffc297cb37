"""`${name…}`: defaults, lengths, substrings, patterns, arrays.

Owns the meaning of the text between the braces.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Awaitable, Callable

from sandbox.gke.pods.shell.variables import Variables

Value = str | list[str]
_NAME = re.compile(r"([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^\]]*)\])?")
_SUBSTRING = re.compile(r":\s*([^:]+?)\s*(?::\s*(.+?)\s*)?")


class ParameterError(Exception):
    """The expansion fails; the text is what the shell prints."""


async def expand_parameter(
    inner: str,
    variables: Variables,
    *,
    special: Callable[[str], str | None],
    expand: Callable[[str], Awaitable[str]],
    number: Callable[[str], Awaitable[int]],
    fails_on_unset: bool,
) -> Value:
    """Expand the text between `${` and `}`.

    Args:
        inner: That text.
        variables: The shell's variables.
        special: Values of `$?` and its like.
        expand: Expands the word after an operator.
        number: Evaluates offsets and subscripts.
        fails_on_unset: Whether an unset variable is an error (`set -u`).

    Returns:
        A text, or a list for `$@` and whole arrays.

    Raises:
        ParameterError: the variable is unset and must not be, or the syntax is unknown.
    """
    if inner.startswith("#") and len(inner) > 1:
        value = await _value(inner[1:], variables, special, number)
        return str(len(value if value is not None else ""))
    if inner.startswith("!") and len(inner) > 1:
        target = variables.get(inner[1:])
        inner = target or ""
    match = _NAME.match(inner)
    if match is None:
        raise ParameterError(f"${{{inner}}}: bad substitution")
    name, rest = match[1], inner[match.end() :]
    value = await _value(match[0], variables, special, number)
    if not rest:
        if value is None and fails_on_unset and name not in {"@", "*"}:
            raise ParameterError(f"{name}: unbound variable")
        return value if value is not None else ""
    default = re.match(r"(:?)([-=?+])(.*)", rest, re.DOTALL)
    if default is not None:
        counts_empty = bool(default[1])
        is_set = value is not None and (not counts_empty or bool(value))
        return await _default(name, value, is_set, default[2], default[3], variables, expand)
    if value is None and fails_on_unset:
        raise ParameterError(f"{name}: unbound variable")
    return await _changed(inner, rest, value if value is not None else "", expand, number)


async def _value(
    reference: str,
    variables: Variables,
    special: Callable[[str], str | None],
    number: Callable[[str], Awaitable[int]],
) -> Value | None:
    match = _NAME.fullmatch(reference)
    if match is None:
        return None
    name, subscript = match.groups()
    if name in {"@", "*"}:
        return list(variables.arguments)
    if subscript in {"@", "*"}:
        return list(variables.elements(name))
    if subscript is not None:
        elements = variables.elements(name)
        index = await number(subscript)
        return elements[index] if -len(elements) <= index < len(elements) else None
    found = special(name)
    return found if found is not None else variables.get(name)


async def _default(
    name: str,
    value: Value | None,
    is_set: bool,
    sign: str,
    word: str,
    variables: Variables,
    expand: Callable[[str], Awaitable[str]],
) -> Value:
    if sign == "+":
        return await expand(_unquoted(word)) if is_set else ""
    if is_set:
        return value if value is not None else ""
    if sign == "?":
        message = await expand(_unquoted(word)) or "parameter null or not set"
        raise ParameterError(f"{name}: {message}")
    text = await expand(_unquoted(word))
    if sign == "=":
        variables.set(name, text)
    return text


async def _changed(
    inner: str,
    rest: str,
    value: Value,
    expand: Callable[[str], Awaitable[str]],
    number: Callable[[str], Awaitable[int]],
) -> Value:
    """Apply a substring, a removal, a replacement or a change of case."""
    substring = _SUBSTRING.fullmatch(rest)
    if substring is not None:
        start = await number(substring[1])
        length = None if substring[2] is None else await number(substring[2])
        if isinstance(value, list):
            start = max(start - 1, 0)
        end = None if length is None else (length if length < 0 else start + length)
        return value[start:end]
    removal = re.match(r"(##?|%%?)(.*)", rest, re.DOTALL)
    if removal is not None:
        pattern = await expand(_unquoted(removal[2]))
        return _each(value, lambda text: _removed(text, removal[1], pattern))
    replacement = re.match(r"/(/?)((?:\\.|[^/])*)(?:/(.*))?", rest, re.DOTALL)
    if replacement is not None:
        pattern = fnmatch.translate(await expand(_unquoted(replacement[2])))
        expression = re.compile(pattern.removesuffix(r"\Z").removesuffix(r"\z"))
        text = await expand(_unquoted(replacement[3] or ""))
        count = 0 if replacement[1] else 1
        return _each(value, lambda item: expression.sub(lambda _: text, item, count=count))
    if rest in {"^^", "^", ",,", ","}:
        upper = rest.startswith("^")
        return _each(value, lambda item: _cased(item, upper=upper, whole=len(rest) == 2))
    raise ParameterError(f"${{{inner}}}: bad substitution")


def _each(value: Value, change: Callable[[str], str]) -> Value:
    return [change(item) for item in value] if isinstance(value, list) else change(value)


def _removed(text: str, sign: str, pattern: str) -> str:
    positions = range(len(text) + 1)
    if sign.startswith("#"):
        ends = positions if sign == "#" else reversed(positions)
        for end in ends:
            if fnmatch.fnmatchcase(text[:end], pattern):
                return text[end:]
        return text
    starts = reversed(positions) if sign == "%" else positions
    for start in starts:
        if fnmatch.fnmatchcase(text[start:], pattern):
            return text[:start]
    return text


def _cased(text: str, *, upper: bool, whole: bool) -> str:
    if whole:
        return text.upper() if upper else text.lower()
    return (text[:1].upper() if upper else text[:1].lower()) + text[1:]


def _unquoted(word: str) -> str:
    """Take the quotes around a word away."""
    if len(word) >= 2 and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    return word
