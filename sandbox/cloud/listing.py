"""List calls: filter, order, pages.

Owns the filter language of Compute lists in both its forms, `name eq "a.*"` (regular expression)
and `name = "a" AND ...`, and page tokens. A filter that cannot be read is refused with 400 [K:
wording].
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.cloud.errors import invalid_field
from sandbox.cloud.registry import rule

rule(
    "listing.filter",
    "list filters are understood in both of Compute's forms, pages hold every item once",
    citation="recorded from gcloud 528; provider: google-cloud.md §2 (delete_default_routes)",
    judges="gcloud",
)
Resource = Mapping[str, Any]
_Test = Callable[[Resource], bool]
_TOKEN = re.compile(
    r"""\s*(?:(?P<paren>[()])|(?P<op>!=|>=|<=|=|:|<|>)"""
    r"""|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[^\s()=!<>:"']+))"""
)
_MAX_RESULTS = 500


def page(
    items: Sequence[dict[str, Any]], query: Mapping[str, str], *, size_key: str = "maxResults"
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the items of one page and the token of the next.

    Args:
        items: All items, rendered.
        query: May hold `filter`, `orderBy`, `pageToken` and the page size.
        size_key: Name of the page size in the query.
    """
    if query.get("filter"):
        test = parse_filter(query["filter"])
        items = [item for item in items if test(item)]
    items = _ordered(items, query.get("orderBy", ""))
    size = _number(size_key, query.get(size_key, str(_MAX_RESULTS)))
    start = _start(query.get("pageToken", ""))
    end = start + min(max(size, 1), _MAX_RESULTS)
    token = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(items) else None
    return list(items[start:end]), token


def _ordered(items: Sequence[dict[str, Any]], order: str) -> Sequence[dict[str, Any]]:
    if not order or order == "name":
        return sorted(items, key=lambda item: str(item.get("name", ""))) if order else items
    if order == "creationTimestamp desc":
        return sorted(items, key=lambda item: str(item.get("creationTimestamp", "")), reverse=True)
    raise invalid_field("orderBy", order, 'Expected "name" or "creationTimestamp desc".')


def _number(field: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise invalid_field(field, text, "Must be a number from 0 to 500.")
    return int(text)


def _start(token: str) -> int:
    if not token:
        return 0
    try:
        return _number("pageToken", base64.urlsafe_b64decode(token.encode()).decode())
    except ValueError:
        raise invalid_field("pageToken", token, "The page token is not valid.") from None


def parse_filter(text: str) -> _Test:
    """Return the test that a filter expression stands for.

    Raises:
        ApiError: 400, the expression cannot be read.
    """
    try:
        return _Reader(text).whole()
    except (ValueError, re.error):
        raise invalid_field("filter", text, "Invalid list filter expression.") from None


class _Reader:
    """Recursive descent over `OR`, `AND` (also by juxtaposition), `NOT`, parentheses."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError
            self._tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            position = match.end()
        self._next = 0

    def peek(self) -> str | None:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else None

    def _take(self) -> tuple[str, str]:
        if self._next == len(self._tokens):
            raise ValueError
        self._next += 1
        return self._tokens[self._next - 1]

    def whole(self) -> _Test:
        test = self.either()
        if self.peek() is not None:
            raise ValueError
        return test

    def either(self) -> _Test:
        tests = [self._all()]
        while self.peek() == "OR":
            self._take()
            tests.append(self._all())
        return lambda item: any(test(item) for test in tests)

    def _all(self) -> _Test:
        tests = [self._one()]
        while self.peek() not in (None, ")", "OR"):
            if self.peek() == "AND":
                self._take()
            tests.append(self._one())
        return lambda item: all(test(item) for test in tests)

    def _one(self) -> _Test:
        kind, token = self._take()
        if token == "NOT":  # noqa: S105 - a word of the filter language
            inner = self._one()
            return lambda item: not inner(item)
        if token == "(":  # noqa: S105 - as above
            test = self.either()
            if self._take()[1] != ")":
                raise ValueError
            return test
        if kind != "word":
            raise ValueError
        operator = self._take()[1]
        value_kind, value = self._take()
        if value_kind == "quoted":
            # Only the quote is unescaped: gcloud sends regular expressions as they are.
            value = value[1:-1].replace('\\"', '"')
        elif value_kind != "word":
            raise ValueError
        return _comparison(token, operator, value)


def _comparison(field: str, operator: str, value: str) -> _Test:
    if operator in ("eq", "ne"):
        pattern = re.compile(value, re.IGNORECASE)
        return _over(field, lambda seen: pattern.fullmatch(seen) is not None, operator == "ne")
    if operator in ("=", "!="):
        wanted = re.compile(".*".join(map(re.escape, value.split("*"))), re.IGNORECASE)
        return _over(field, lambda seen: wanted.fullmatch(seen) is not None, operator == "!=")
    if operator == ":":
        if value == "*":
            return lambda item: _look(item, field) is not None
        return _over(field, lambda seen: value.strip("*").lower() in seen.lower(), False)
    if operator in ("<", ">", "<=", ">="):
        number = float(value)
        return lambda item: _ordering(_look(item, field), operator, number)
    raise ValueError


def _over(field: str, test: Callable[[str], bool], negated: bool) -> _Test:
    def check(item: Resource) -> bool:
        seen = _look(item, field)
        values = seen if isinstance(seen, list) else [seen]
        return any(test(_text(value)) for value in values) != negated

    return check


def _ordering(seen: object, operator: str, number: float) -> bool:
    try:
        value = float(seen)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return {
        "<": value < number,
        ">": value > number,
        "<=": value <= number,
        ">=": value >= number,
    }[operator]


def _look(item: Any, field: str) -> object:
    for part in field.split("."):
        if not isinstance(item, Mapping):
            return None
        item = item.get(part)
    return item if item is not None else None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
