"""What Pulumi's YAML reader makes of an unquoted scalar.

Owns the rules of the reader (gopkg.in/yaml.v3) as far as stack files need them, and how Pulumi
turns its values into texts. They differ from PyYAML's: `off` stays a word, `010` is eight, `1e3` is
a thousand. Tried with Pulumi 3.274.
"""

from __future__ import annotations

import math
import re
from datetime import date

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGERS = (
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8),
    (re.compile(r"([-+]?)(0|[1-9][0-9]*)"), 10),
)
_MOST_DIGITS = 64
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")


def resolve(text: str) -> Scalar:
    """Return the value of an unquoted scalar; a date comes back as the text Pulumi makes of it."""
    if text in _WORDS:
        return _WORDS[text]
    day = _DATE.fullmatch(text)
    if day:
        try:
            return f"{date(*(int(part) for part in day.groups()))} 00:00:00 +0000 UTC"
        except ValueError:
            return text
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    for pattern, base in _INTEGERS:
        found = pattern.fullmatch(plain)
        # Longer ones are beyond 64 bits, and Python does not even turn them into numbers.
        if found and len(found[2].lstrip("0")) <= _MOST_DIGITS:
            number = int(found[2].lstrip("0").rjust(1, "0"), base)
            # Beyond 64 bits the reader falls back to a float.
            signed = -number if found[1] == "-" else number
            if -(1 << 63) <= signed < 1 << 63:
                return signed
    value = float(plain) if _FLOAT.fullmatch(plain) else math.inf
    # What fits into no float is text.
    return value if math.isfinite(value) else text


def as_text(value: Scalar) -> str:
    """Return what Pulumi hands to the program for a value at the top of a config."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value)
    return str(value)


def _float_text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
