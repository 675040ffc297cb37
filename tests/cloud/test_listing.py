"""Filters, order and pages of list calls."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cloud.errors import ApiError
from sandbox.cloud.listing import page, parse_filter
from tests.cloud.proofs import proves
from tests.cloud.stand_in import Client, compute

ITEMS: list[dict[str, Any]] = [
    {"name": "a-net-1", "mtu": 8244, "auto": False, "labels": {"team": "x"}, "tags": ["t"]},
    {"name": "a-net-10", "mtu": 1460, "auto": False, "network": "https://h/global/networks/n"},
    {"name": "default", "auto": True},
]


@proves("listing.filter")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('name eq ".*\\ba\\-net\\-1\\b.*"', [0]),
        ('(name eq ".*(a-net).*")(auto eq false)', [0, 1]),
        ("name eq a-net-1", [0]),
        ("name ne a-net-1", [1, 2]),
        ('name="a-net-1"', [0]),
        ("name = a-net-*", [0, 1]),
        ("name != default", [0, 1]),
        ("name:net", [0, 1]),
        ("labels.team:*", [0]),
        ("labels.team=x AND mtu>1460", [0]),
        ("mtu<=1460", [1]),
        ("mtu<8244 OR auto=true", [1, 2]),
        ("NOT auto=true", [0, 1]),
        ("(name=default) OR (tags=t)", [0, 2]),
        ('(network="https://h/global/networks/n") AND (auto=false)', [1]),
        ("nothing.at.all=x", []),
        ("name='default'", [2]),
    ],
)
def test_a_filter_finds_what_it_says(text: str, expected: list[int]) -> None:
    test = parse_filter(text)
    assert [number for number, item in enumerate(ITEMS) if test(item)] == expected


@pytest.mark.parametrize(
    "text",
    ["name", "name eq", "(name=a", "name=a)", "=a", 'name eq "["', "a > b", "AND", '"a"=b', '"'],
)
def test_a_filter_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_filter(text)
    assert (caught.value.code, caught.value.reason) == (400, "invalid")
    assert "Invalid list filter expression." in caught.value.message


@proves("listing.filter")
def test_pages_hold_every_item_once() -> None:
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        shown, token = page(ITEMS, {"maxResults": "2", "pageToken": token})
        assert len(shown) <= 2
        seen += [item["name"] for item in shown]
    assert seen == ["a-net-1", "a-net-10", "default"]


@pytest.mark.parametrize(
    "query",
    [{"maxResults": "x"}, {"maxResults": "-1"}, {"pageToken": "%%"}, {"orderBy": "mtu"}],
)
def test_bad_page_parameters_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        page(ITEMS, query)
    assert caught.value.code == 400


def test_order() -> None:
    items = [
        {"name": "b", "creationTimestamp": "2026-01-01"},
        {"name": "a", "creationTimestamp": "2026-01-02"},
        {"name": "c", "creationTimestamp": "2025-01-02"},
    ]
    assert [item["name"] for item in page(items, {"orderBy": "name"})[0]] == ["a", "b", "c"]
    newest = page(items, {"orderBy": "creationTimestamp desc"})[0]
    assert [item["name"] for item in newest] == ["a", "b", "c"]


def test_a_list_call_takes_them_all(client: Client) -> None:
    for number in range(3):
        client.network(f"n{number}")
    first = client.ok("GET", compute('global/networks?maxResults=2&filter=name eq "n.*"'))
    assert [item["name"] for item in first["items"]] == ["n0", "n1"]
    query = f'maxResults=2&filter=name eq "n.*"&pageToken={first["nextPageToken"]}'
    second = client.ok("GET", compute(f"global/networks?{query}"))
    assert [item["name"] for item in second["items"]] == ["n2"]
    assert "nextPageToken" not in second
