"""Conditions: `[ ]`, `test` and the leaves of `[[ ]]`.

Owns the operators on files, texts and numbers. Does not own `&&`, `||` and patterns of `[[ ]]`,
which the interpreter walks.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Sequence

from sandbox.gke.pods.files import FileView


class ConditionSyntaxError(Exception):
    """The condition cannot be read; the text is what the shell prints."""


_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
}


def unary(sign: str, operand: str, files: FileView, directory: str) -> bool:
    """Evaluate `-z text`, `-f path` and the like."""
    if sign == "-z":
        return not operand
    if sign == "-n":
        return bool(operand)
    path = posixpath.normpath(posixpath.join(directory, operand))
    if not operand:
        return False
    if sign == "-d":
        return files.is_folder(path)
    if sign == "-s":
        return bool(files.read(path)) or files.is_folder(path)
    if sign == "-f":
        return files.read(path) is not None and not path.startswith("/dev/")
    if sign in {"-e", "-r", "-w", "-x", "-S", "-c", "-b", "-p", "-a"}:
        return files.exists(path)
    if sign in {"-L", "-h", "-t"}:
        return False
    raise ConditionSyntaxError(f"{sign}: unary operator expected")


def binary(left: str, sign: str, right: str) -> bool:
    """Evaluate `left = right`, `1 -lt 2` and the like."""
    if sign in _TEXTS:
        return _TEXTS[sign](left, right)
    if sign in _NUMBERS:
        try:
            return _NUMBERS[sign](int(left), int(right))
        except ValueError as error:
            wrong = right if left.strip().lstrip("-").isdigit() else left
            raise ConditionSyntaxError(f"{wrong}: integer expression expected") from error
    raise ConditionSyntaxError(f"{sign}: binary operator expected")


def matches(text: str, pattern: str) -> bool:
    """Compare with a shell pattern, as `==` in `[[ ]]` and `case` do."""
    return fnmatch.fnmatchcase(text, pattern)


def matches_expression(text: str, expression: str) -> bool:
    """Compare with a regular expression, as `=~` does."""
    try:
        return re.search(expression, text) is not None
    except re.error as error:
        raise ConditionSyntaxError(f"{expression}: invalid regular expression: {error}") from error


def evaluate(words: Sequence[str], files: FileView, directory: str) -> bool:
    """Evaluate the words of `test` or `[`, the closing bracket left out.

    Raises:
        ConditionSyntaxError: they are no condition.
    """
    condition = _Condition(list(words), files, directory)
    return condition.evaluate()


class _Condition:
    def __init__(self, words: list[str], files: FileView, directory: str) -> None:
        self._words = words
        self._files = files
        self._directory = directory

    def evaluate(self) -> bool:
        if not self._words:
            return False
        result = self._either()
        if self._words:
            raise ConditionSyntaxError("too many arguments")
        return result

    def _either(self) -> bool:
        result = self._both()
        while self._words[:1] == ["-o"]:
            self._words.pop(0)
            result = self._both() or result
        return result

    def _both(self) -> bool:
        result = self._single()
        while self._words[:1] == ["-a"]:
            self._words.pop(0)
            result = self._single() and result
        return result

    def _single(self) -> bool:
        words = self._words
        if not words:
            raise ConditionSyntaxError("argument expected")
        if words[0] == "!" and len(words) > 1:
            words.pop(0)
            return not self._single()
        if len(words) >= 3 and words[1] in _TEXTS.keys() | _NUMBERS.keys():
            left, sign, right = words[:3]
            del words[:3]
            return binary(left, sign, right)
        if len(words) >= 2 and re.fullmatch(r"-[a-zA-Z]", words[0]):
            sign, operand = words[:2]
            del words[:2]
            return unary(sign, operand, self._files, self._directory)
        return bool(words.pop(0))
