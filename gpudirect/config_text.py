"""The forms of a config value: as a person reads it, as a duration, as a place inside another.

Owns the conversions. Does not own what is right (`config_values`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

SECRET = "[secret]"  # noqa: S105 - what is shown in place of one
EMPTY = ""

_LONGEST_SHOWN = 120
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_PLAIN_NAME = re.compile(r"[^.\[\]\"\s]+")
_DURATION = re.compile(r"([0-9]{1,9})([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def root_of(place: str) -> str:
    """Return the key of a place such as `labels.team` or `fabricSubnets[2]`."""
    return place if ":" in place else re.split(r"[.\[]", place, maxsplit=1)[0]


def place_in(key: str, name: str) -> str:
    """Return the place of an entry of an object, as `pulumi config set --path` takes it."""
    return f"{key}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{key}[{json.dumps(name)}]"


def value_at(values: Mapping[str, object], place: str) -> object:
    """Return the value at a place, or None where there is none."""
    root = root_of(place)
    value: Any = values.get(root)
    for key, number, quoted in _STEP.findall(place[len(root) :]):
        name = json.loads(quoted) if quoted else key
        if isinstance(value, list) and number and int(number) < len(value):
            value = value[int(number)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return None
    return value


def shown(value: object) -> str:
    """Return a value for a message: short, its blanks to be seen, and nothing moves the cursor."""
    if value is None:
        return EMPTY
    is_plain = isinstance(value, str) and value.isprintable() and value == value.strip()
    text = str(value) if is_plain else json.dumps(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def is_json_structure(text: str) -> bool:
    """Return whether a text is a JSON array or object, the engine's form of one."""
    if not text.startswith(("[", "{")):
        return False
    try:
        return isinstance(json.loads(text), list | dict)
    except (ValueError, RecursionError):
        return False


def seconds_of(text: str) -> int | None:
    """Return the seconds of `90`, `90s`, `10m`, `2h` or `7d`, or None for no such text."""
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _SECONDS[found[2]] if found else None
