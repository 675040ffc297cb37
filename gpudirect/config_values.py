"""Reads a stack's config as Pulumi hands it over, and collects what is wrong with it.

Owns types, choices, empty and unknown keys, secrets, and what YAML makes of unquoted scalars. Does
not own what a value means (`settings` and the modules it calls).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpudirect.config_keys import CONFIG_KEYS, OTHER_NAMES, ConfigKey
from gpudirect.config_text import (
    EMPTY,
    SECRET,
    is_json_structure,
    place_in,
    root_of,
    seconds_of,
    shown,
    value_at,
)
from gpudirect.findings import Finding, Severity, full_key, remove_command, set_command

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,14})?(?:\.[0-9]*)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_BOOLEAN_WORDS = ("yes", "no", "on", "off", "y", "n")


class ConfigReader:
    """A stack's config and everything found wrong with it so far.

    A getter that cannot give a value reports why and returns None, so that the caller can go on and
    find the rest.

    Attributes:
        stack_name: Name of the stack, for the commands in remedies.
        findings: What was found so far.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        *,
        stack_name: str,
        secret_keys: Iterable[str] = (),
        written: Mapping[str, str] | None = None,
    ) -> None:
        """Take over a config.

        Args:
            values: Keys of the project's namespace without it; arrays and objects as JSON text or
                as what that text means.
            stack_name: Name of the stack.
            secret_keys: Those of the keys whose values are, or hold, secrets.
            written: How unquoted scalars stand in the stack file, by key or place inside one;
                None where the values come from the engine.
        """
        self.stack_name = stack_name
        self.findings: list[Finding] = []
        self._values = values
        self._secret_keys = frozenset(secret_keys)
        self._written = written or {}
        self._is_file = written is not None

    def check_keys(self) -> None:
        """Report unknown keys and secrets."""
        for name in self._values:
            if name in CONFIG_KEYS:
                if name in self._secret_keys:
                    self.report(
                        name,
                        "a secret where none belongs",
                        "the value in clear",
                        "names and ranges are no secrets, and a secret here would reach resource "
                        "names, outputs and logs",
                        fix=f"{remove_command(name, stack_name=self.stack_name)}, then set it "
                        "without --secret",
                    )
            else:
                self._report_unknown(name)

    def check_scalars(self) -> None:
        """Report scalars that YAML changes on the way and about which nothing was said yet."""
        reported = {finding.key for finding in self.findings}
        for place, text in self._written.items():
            if root_of(place) not in CONFIG_KEYS or full_key(place) in reported:
                continue
            if self._changed_by_yaml(place, text):
                seen = self._seen_at(place) or EMPTY
                self.report(
                    place,
                    "its text changes on the way",
                    "quotes round it where the text is meant, or the value in its plain form",
                    "what a reviewer reads in the stack file is not what the program gets",
                    value=seen,
                    fix=self.set_to(place, seen),
                )

    def text(self, name: str) -> str | None:
        """Return a text; the empty one only where it has a meaning."""
        value = self._scalar(name)
        if value is None or value or CONFIG_KEYS[name].optional:
            return value
        self._report_empty(name)
        return None

    def choice(self, name: str) -> str | None:
        """Return one of the key's choices, or the empty text where it has a meaning."""
        value = self.text(name)
        choices = CONFIG_KEYS[name].choices
        if not value or value in choices:
            return value
        near = difflib.get_close_matches(value.lower(), [c.lower() for c in choices], n=1)
        best = next((c for c in choices if near and c.lower() == near[0]), choices[0])
        # The same words in another order.
        best = next((c for c in choices if _words_of(c) == _words_of(value)), best)
        hint = ""
        if value in _BOOLEANS and "off" in choices:
            hint, best = " (off is a word here: true and false are others)", "off"
        self.report(
            name,
            f"no such choice{hint}",
            f"one of {', '.join(choices)}",
            "the program knows these alone",
            fix=self.set_to(name, best),
        )
        return None

    def boolean(self, name: str) -> bool | None:
        """Return a truth value."""
        value = self.text(name)
        if value is None:
            return None
        if value in _BOOLEANS:
            return _BOOLEANS[value]
        said = value.lower()
        meant = "false" if said in ("no", "off", "n", "0", "false") else "true"
        hint = " (to Pulumi it is a word, though YAML 1.1 has it for a truth value)"
        self.report(
            name,
            f"neither true nor false{hint if said in _BOOLEAN_WORDS else ''}",
            "true or false",
            "Pulumi knows no other words for it",
            fix=self.set_to(name, meant),
        )
        return None

    def integer(self, name: str, *, least: int, most: int | None, why: str) -> int | None:
        """Return a whole number within bounds; `most` None stands for no upper one."""
        value = self.text(name)
        if value is None:
            return None
        bounds = f"{least} to {most}" if most is not None else f"{least} or more"
        if not _INTEGER.fullmatch(value):
            self.report(
                name,
                "no whole number",
                f"a whole number, {bounds}",
                why,
                fix=self.set_to(name, str(least)),
            )
            return None
        number = int(value) if len(value) <= 18 else None
        if number is None or number < least or (most is not None and number > most):
            near = least if number is not None and number < least else most
            self.report(
                name,
                "out of bounds",
                bounds,
                why,
                fix=self.set_to(name, str(least if near is None else near)),
            )
            return None
        return number

    def duration(self, name: str, *, least: str, most: str, why: str) -> int | None:
        """Return a time in seconds, from texts such as `90`, `90s`, `10m`, `2h`, `7d`."""
        value = self.text(name)
        if not value:
            return None
        bounds = f"{least} to {most}"
        seconds = seconds_of(value)
        if seconds is None:
            self.report(
                name,
                "no duration",
                f"a whole number with s, m, h or d, {bounds}",
                why,
                fix=self.set_to(name, least),
            )
            return None
        shortest, longest = seconds_of(least) or 0, seconds_of(most) or 0
        if not shortest <= seconds <= longest:
            near = least if seconds < shortest else most
            self.report(name, "out of bounds", bounds, why, fix=self.set_to(name, near))
            return None
        return seconds

    def texts(self, name: str) -> tuple[str | None, ...] | None:
        """Return an array of texts, with None in the place of an item that is none."""
        data = self._structure(name, list, "a list")
        if data is None:
            return None
        for number, item in enumerate(data):
            if not isinstance(item, str):
                self._report_no_text(f"{name}[{number}]", item)
        return tuple(item if isinstance(item, str) else None for item in data)

    def mapping(self, name: str) -> dict[str, str]:
        """Return an object whose values are texts, without those that are none."""
        data = self._structure(name, dict, "a mapping") or {}
        found = {}
        for key, item in data.items():
            place = place_in(name, str(key))
            if not key:
                self.report(
                    name,
                    "an entry without a name",
                    "a name in front of each value",
                    "the entries are told apart by their names",
                    fix="give the entry a name in the stack file, or delete its line",
                )
            elif isinstance(item, str):
                found[str(key)] = item
            else:
                self._report_no_text(place, item)
        return found

    def report(
        self,
        name: str,
        message: str,
        expected: str,
        why: str,
        *,
        fix: str = "",
        value: str | None = None,
        severity: Severity = "error",
    ) -> None:
        """Record a finding about a key, or about a place inside it.

        Args:
            name: The key, without namespace where it is the project's.
            message: What is wrong.
            expected: What would be right.
            why: The reason, one clause.
            fix: What mends it; where not given, taking the key out of the stack file does.
            value: The value seen, where it is not the key's own.
            severity: Whether the config is refused.
        """
        root = root_of(name)
        if root in self._secret_keys:
            seen = SECRET
        else:
            seen = shown(value) if value is not None else self._shown(name)
        self.findings.append(
            Finding(
                key=full_key(name),
                value=seen,
                message=message + self._trap(name),
                expected=expected,
                why=why,
                fix=fix or remove_command(name, stack_name=self.stack_name),
                severity=severity,
            )
        )

    def is_written(self, place: str) -> bool:
        """Return whether it is known how an unquoted scalar stands in the stack file."""
        return place in self._written

    def set_to(self, name: str, value: str) -> str:
        """Return the command that gives a key a value."""
        return set_command(name, value, stack_name=self.stack_name)

    def remove(self, name: str) -> str:
        """Return the command that takes a key out of the stack file."""
        return remove_command(name, stack_name=self.stack_name)

    def _scalar(self, name: str) -> str | None:
        if name in self._secret_keys:
            return None  # Reported once, by `check_keys`; its value goes nowhere.
        value = self._values.get(name, EMPTY)
        if value is None:
            return EMPTY
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        if isinstance(value, str) and not is_json_structure(value):
            return value
        self.report(
            name,
            "a list or mapping",
            f"a single {_words(CONFIG_KEYS[name])}",
            "there is one value to give",
        )
        return None

    def _structure(self, name: str, kind: type, wanted: str) -> Any:
        if name in self._secret_keys:
            return None
        value = self._values.get(name)
        if value is None or value == EMPTY:
            if self._is_file and name in self._values:
                self._report_empty(name)
            return kind()
        # The engine hands arrays and objects over as JSON, but takes no such text for one itself.
        if isinstance(value, str) and not self._is_file:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = value.strip()
        if isinstance(value, list | tuple) and kind is list:
            return list(value)
        if isinstance(value, kind):
            return value
        example = f"{name}[0]" if kind is list else f"{name}.NAME"
        self.report(
            name,
            f"not {wanted}",
            wanted,
            "the key holds several values",
            fix=f"{self.remove(name)}, then {self.set_to(example, 'VALUE')}",
        )
        return None

    def _report_unknown(self, name: str) -> None:
        near = difflib.get_close_matches(name, CONFIG_KEYS, n=1, cutoff=0.6)
        lower = {key.lower(): key for key in CONFIG_KEYS}
        best = lower.get(re.sub(r"[^a-z]", "", name.lower())) or (near[0] if near else "")
        why, fix = "a key that nothing reads would change nothing, in silence", ""
        if root_of(name) != name:
            # The commands would take it for a place inside another key.
            fix = "delete its line in the stack file"
        if name in OTHER_NAMES:
            expected, why = "no such key", OTHER_NAMES[name]
        elif best:
            expected = f"gpudirect:{best}, the nearest known key"
            value = self._values[name]
            if fix == "" and isinstance(value, str) and value and name not in self._secret_keys:
                fix = f"{self.remove(name)} && {self.set_to(best, value)}"
        else:
            expected = "one of the keys in the README's config reference"
        value = shown(self._values[name]) if name not in self._secret_keys else SECRET
        self.report(name, "unknown key", expected, why, fix=fix, value=value)

    def _report_empty(self, name: str) -> None:
        key = CONFIG_KEYS[name]
        # Left out, this key has an empty default.
        known = name in self._values and name != "gpuStack"
        self.report(
            name,
            "a key with nothing after it" if known else "not set",
            f"one of {', '.join(key.choices)}" if key.choices else f"a {_words(key)}",
            "the default of Pulumi.yaml holds only where the key is left out"
            if known
            else "it has no default",
            fix=self.set_to(name, key.choices[0]) if name == "gpuStack" else "",
        )

    def _report_no_text(self, place: str, item: object) -> None:
        text = shown(item)
        scalar = isinstance(item, bool | int | float)
        self.report(
            place,
            "a number or truth value where text is wanted" if scalar else "no text",
            "text, in quotes where YAML would take it for something else",
            "YAML turns unquoted scalars into numbers, dates and truth values",
            value=text,
            fix=self.set_to(place, self._written.get(place, text)) if scalar else "",
        )

    def _shown(self, name: str) -> str:
        return shown(self._values.get(root_of(name), EMPTY))

    def _changed_by_yaml(self, place: str, written: str) -> bool:
        value = value_at(self._values, place)
        if value in (None, EMPTY):
            return False
        text = value if isinstance(value, str) else json.dumps(value)
        if text.lower() == written.lower():
            return False
        key = CONFIG_KEYS.get(place)
        is_number = key is not None and (key.is_number or key.type == "integer")
        # 0.80 is 0.8 to everybody; 010, 1_0 and 1e1 are not what they look like.
        return not (is_number and _DECIMAL.fullmatch(written) and _is_same_number(written, text))

    def _seen_at(self, place: str) -> str | None:
        value = value_at(self._values, place)
        return None if value in (None, EMPTY) else shown(value)

    def _trap(self, place: str) -> str:
        written = self._written.get(place)
        if written is None or not self._changed_by_yaml(place, written):
            return ""
        seen = self._seen_at(place)
        return f" (the stack file says {written} without quotes, which YAML reads as {seen})"


def _is_same_number(written: str, text: str) -> bool:
    try:
        return float(written) == float(text)
    except ValueError:
        return False


def _words_of(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.lower().split(","))


def _words(key: ConfigKey) -> str:
    return {"integer": "whole number", "boolean": "truth value"}.get(key.type, "value")
