"""What people usually did where a YAML parser only says what it met."""

from __future__ import annotations

from collections.abc import Sequence


def likely_cause(lines: Sequence[str], line: int) -> str:
    """Return what to put behind a parser's message; empty where nothing is likely.

    Args:
        lines: The text, line by line.
        line: Where the parser stopped, counted from 1.
    """
    written = _written(lines, line)
    if "{{" in written or "{%" in written:
        return "; it looks like a template, which has to be rendered first (helm template)"
    tab = tab_in_front(lines, line)
    if not tab and line > 1 and written.startswith("{"):
        return "; two objects need a line --- between them"
    return tab


def tab_in_front(lines: Sequence[str], line: int) -> str:
    """Return that a line begins with a tab, to put behind a message; empty if it does not."""
    written = _written(lines, line)
    has_tab = "\t" in written[: len(written) - len(written.lstrip())]
    return "; there is a tab in front, where YAML takes spaces alone" if has_tab else ""


def _written(lines: Sequence[str], line: int) -> str:
    return lines[line - 1] if line <= len(lines) else ""
