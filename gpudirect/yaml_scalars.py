"""How Kubernetes reads an unquoted YAML scalar, and which ones every YAML reader reads alike.

Owns the reading of plain scalars. `kubectl` and the API server decode YAML with go.yaml.in/yaml v2:
YAML 1.1 without base-60 numbers and dates (resolve.go there, v2.4.3). Readers of YAML 1.1 (PyYAML)
and 1.2 (ruamel.yaml) disagree with it and with each other on scalars such as `0777`, `12:30:00` or
`on` [R66]; what is written must be read alike by all three.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

PlainValue = str | int | float | bool | None

_TRUE = frozenset("y Y yes Yes YES true True TRUE on On ON".split())  # noqa: SIM905
_FALSE = frozenset("n N no No NO false False FALSE off Off OFF".split())  # noqa: SIM905
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_SPECIAL_FLOATS = {
    f"{sign}{word}": value
    for sign, factor in (("", 1.0), ("+", 1.0), ("-", -1.0))
    for words, value in (
        ((".inf", ".Inf", ".INF"), factor * float("inf")),
        ((".nan", ".NaN", ".NAN"), float("nan")),
    )
    for word in words
    if not (sign and "n" in word.lower()[1])
}
_GO_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_GO_INTEGERS = (
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8),
    (re.compile(r"([-+]?)(0|[1-9][0-9]*)"), 10),
)
_GO_RANGE = range(-(2**63), 2**64)
_MOST_DIGITS = 64
# Whole numbers of so many digits are in a float what they are.
_EXACT_DIGITS = 15

# Forms that PyYAML (YAML 1.1), the YAML 1.2 core schema and Go all take for the same thing.
_SAFE_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_SAFE_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)\.[0-9]+([eE][-+][0-9]+)?")
_SAFE_BOOLEANS = frozenset("true True TRUE false False FALSE".split())  # noqa: SIM905

# What a reader of YAML 1.1 or 1.2 takes for a number or a date; a little more than PyYAML's and
# ruamel.yaml's resolvers together, which costs no more than a pair of quotes.
_NUMBER_ELSEWHERE = re.compile(
    r"[-+]?0[bo][0-7_]+|[-+]?0x[0-9a-fA-F_]+|[-+][0-9_]+"
    r"|[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9_]+)?|[-+]?\.[0-9_]+([eE][-+]?[0-9_]+)?"
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?"
)
_OTHER_WORDS = frozenset(("=", "<<"))


@lru_cache(maxsize=4096)
def read_plain(text: str) -> PlainValue:
    """Return what Kubernetes takes an unquoted scalar for.

    Args:
        text: The scalar as it stands in the file.
    """
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text in _SPECIAL_FLOATS:
        return _SPECIAL_FLOATS[text]
    if text[0] not in "+-.0123456789" or _is_timestamp(text):
        return text
    if text[0] == ".":
        return _float_or_text(text, text)
    digits = text.replace("_", "")
    for pattern, base in _GO_INTEGERS:
        match = pattern.fullmatch(digits)
        # Longer ones are beyond 64 bits, and Python does not even turn them into numbers.
        if match and len(match.group(2).lstrip("0")) <= _MOST_DIGITS:
            number = int(match.group(1) + match.group(2).lstrip("0").rjust(1, "0"), base)
            if number in _GO_RANGE:
                return number
    value = _float_or_text(digits, text)
    # Digits alone that are no octal number (`08`): the same number in JSON, whole.
    is_whole = len(digits) <= _EXACT_DIGITS and digits.lstrip("+-").isdigit()
    return int(digits) if is_whole and isinstance(value, float) else value


def _float_or_text(digits: str, text: str) -> float | str:
    """Return a number that fits into a float; what does not is text to Go's readers."""
    value = float(digits) if _GO_FLOAT.fullmatch(digits) else math.inf
    return value if math.isfinite(value) else text


@lru_cache(maxsize=4096)
def is_read_alike(text: str, value: PlainValue) -> bool:
    """Whether every reader takes an unquoted scalar for the value that Kubernetes does.

    Args:
        text: The scalar as it stands in the file.
        value: What `read_plain` says about it.
    """
    if value is None:
        return True
    if isinstance(value, bool):
        return text in _SAFE_BOOLEANS
    if isinstance(value, int):
        return _SAFE_INTEGER.fullmatch(text) is not None
    if isinstance(value, float):
        return _SAFE_FLOAT.fullmatch(text) is not None or text in _SPECIAL_FLOATS
    return is_safe_text(text)


@lru_cache(maxsize=4096)
def is_safe_text(text: str) -> bool:
    """Whether every reader takes the text for text when it is written without quotes."""
    return not (
        text in _NULL
        or text in _TRUE
        or text in _FALSE
        or text in _OTHER_WORDS
        or text.lower() in _SPECIAL_FLOATS
        or _NUMBER_ELSEWHERE.fullmatch(text) is not None
        or not isinstance(read_plain(text), str)
    )


def float_text(value: float) -> str:
    """Return a float in the form that every reader takes for one.

    YAML 1.1 wants a dot, and a sign in front of the exponent.
    """
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    mantissa, exponent, power = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    if exponent and power[0] not in "+-":
        power = f"+{power}"
    return f"{mantissa}{exponent}{power}"


def _is_timestamp(text: str) -> bool:
    """Whether Go's reader finds a date, which it then leaves as text."""
    return re.match(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}($|[Tt ])", text) is not None
