"""What `echo` and `printf` print."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "a": "\a", "0": "\0", "e": "\x1b"}
_FORMAT = re.compile(r"%([-+ 0#]*)(\*|\d+)?(?:\.(\d+))?([sdiuxXofgeGqbc%])")


def unescape(text: str) -> str:
    r"""Replace `\n` and its like."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text)


def echo_text(words: Sequence[str]) -> str:
    """Return what `echo` prints for its arguments."""
    words = list(words)
    flags = ""
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags += words.pop(0)
    text = " ".join(words)
    if "e" in flags:
        text = unescape(text)
    return text if "n" in flags else text + "\n"


def printf_text(template: str, arguments: Sequence[str]) -> str:
    """Return what `printf` prints; the template is used again while arguments are left."""
    template = unescape(template)
    remaining = list(arguments)
    parts = []
    while True:
        count = len(remaining)
        parts.append(_FORMAT.sub(lambda match: _converted(match, remaining), template))
        if not remaining or len(remaining) == count:
            return "".join(parts)


def _converted(match: re.Match[str], remaining: list[str]) -> str:
    flags, width, precision, kind = match.groups()
    if kind == "%":
        return "%"
    text = remaining.pop(0) if remaining else ""
    size = f"{flags}{width or ''}" + (f".{precision}" if precision else "")
    if kind in "sqbc":
        return f"%{size}s" % (unescape(text) if kind == "b" else text)
    try:
        if kind in "fgeG":
            return f"%{size}{kind}" % float(text or 0)
        return f"%{size}{'d' if kind in 'iu' else kind}" % int(text or "0", 0)
    except ValueError:
        return "0"
