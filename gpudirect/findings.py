"""What is wrong with a stack's config: one finding each, and how it reads.

Owns the form of a finding (key, value seen, expectation, reason, remedy) and the error that carries
all of them at once. Does not own any rule.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

PROJECT = "gpudirect"
"""Name of the Pulumi project, which is the namespace of its config keys."""

Severity = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing in a stack's config that is wrong, or that its owner should know.

    Attributes:
        key: Full key, with the place inside where it is an array or object: `gpudirect:prefix`,
            `gpudirect:labels.team`, `gpudirect:fabricSubnets[2]`.
        value: The value as the program sees it; `[secret]` for a secret.
        message: What is wrong with it.
        expected: What would be right.
        why: The reason of the rule, one clause.
        fix: The command that mends it, or what to do where there is none.
        details: What it is about, item by item, where that is more than a value.
        severity: A `warning` refuses nothing.
        file: The stack file, where one was read.
        line: Line of the key in it, from 1; 0 where the key is not in the file.
    """

    key: str
    value: str
    message: str
    expected: str
    why: str
    fix: str
    details: tuple[str, ...] = ()
    severity: Severity = "error"
    file: str = ""
    line: int = 0

    @property
    def sentence(self) -> str:
        """Everything but key, place and remedy, in one sentence."""
        details = f" ({'; '.join(self.details)})" if self.details else ""
        expected = f"expected {self.expected}, because {self.why}"
        return f"{_seen(self.value)}: {self.message}{details}; {expected}"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        mark = "warning: " if self.severity == "warning" else ""
        return "\n".join(
            (
                f"{place}{mark}{self.key}: {_seen(self.value)}: {self.message}",
                *(f"  - {detail}" for detail in self.details),
                f"  expected: {self.expected}",
                f"  why:      {self.why}",
                f"  fix:      {self.fix}",
            )
        )

    def to_json(self) -> dict[str, object]:
        """Return the finding in the form of `check --json`."""
        return {
            "file": self.file,
            "line": self.line,
            "key": self.key,
            "value": self.value,
            "message": self.sentence,
            "fix": self.fix,
        }


class SettingsError(ValueError):
    """A config that no environment can be made of; the text holds every finding."""

    def __init__(self, findings: Iterable[Finding], *, stack_name: str = "") -> None:
        self.findings = tuple(findings)
        count = len(self.findings)
        stack = f" of stack {stack_name}" if stack_name else ""
        head = f"{count} problem{'' if count == 1 else 's'} in the config{stack}:"
        super().__init__("\n\n".join((head, *map(str, self.findings))))


def full_key(name: str) -> str:
    """Return a key with its namespace: the project's, unless it has one."""
    return name if ":" in name else f"{PROJECT}:{name}"


def set_command(name: str, value: str, *, stack_name: str) -> str:
    """Return the command that gives a key, or a place inside one, a value."""
    path = "--path " if any(mark in name for mark in ".[") else ""
    dashes = "-- " if value.startswith("-") else ""
    words = f"{shlex.quote(name)} {dashes}{shlex.quote(value)}"
    return f"pulumi config set {path}{words}{_stack_option(stack_name)}"


def remove_command(name: str, *, stack_name: str) -> str:
    """Return the command that takes a key, or a place inside one, out of the stack file."""
    path = "--path " if any(mark in name for mark in ".[") else ""
    return f"pulumi config rm {path}{shlex.quote(name)}{_stack_option(stack_name)}"


def _stack_option(stack_name: str) -> str:
    return f" --stack {shlex.quote(stack_name)}" if stack_name else ""


def _seen(value: str) -> str:
    return f"got {value}" if value else "empty"
