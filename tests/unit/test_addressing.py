from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudirect.addressing import (
    NamedRange,
    RangeError,
    carve,
    is_covered,
    is_private,
    least_supernet_prefix,
    node_capacity,
    overlaps,
    parse_range,
    unusable_part,
)

networks = st.builds(
    lambda address, prefix: IPv4Network((address, prefix), strict=False),
    st.integers(0, 2**32 - 1),
    st.integers(4, 32),
)


@given(networks.filter(lambda n: n.prefixlen <= 26), st.sampled_from([4, 8]))
def test_carved_subnets_share_out_the_whole_range_in_equal_parts(
    supernet: IPv4Network, count: int
) -> None:
    parts = carve(supernet, count)
    assert len(parts) == count
    assert len({part.prefixlen for part in parts}) == 1
    assert not any(a.overlaps(b) for n, a in enumerate(parts) for b in parts[n + 1 :])
    assert list(collapse_addresses(parts)) == [supernet]


def test_a_number_of_subnets_that_is_no_power_of_two_leaves_the_rest_free() -> None:
    assert [str(n) for n in carve(IPv4Network("10.0.0.0/24"), 3)] == [
        "10.0.0.0/26",
        "10.0.0.64/26",
        "10.0.0.128/26",
    ]


@pytest.mark.parametrize(("text", "count"), [("10.0.0.0/27", 8), ("10.0.0.0/28", 4)])
def test_a_range_without_room_for_google_s_least_subnet_is_refused(text: str, count: int) -> None:
    with pytest.raises(ValueError, match="no room"):
        carve(IPv4Network(text), count)


@given(st.sampled_from([4, 8]), st.integers(1, 4000))
def test_the_least_supernet_has_room_and_one_half_the_size_has_not(count: int, nodes: int) -> None:
    prefix = least_supernet_prefix(count, nodes)
    subnet = carve(IPv4Network((0x0A000000, prefix), strict=False), count)[0]
    assert node_capacity(subnet) >= nodes
    half = subnet.prefixlen + 1
    assert half > 29 or 2 ** (32 - half) - 4 < nodes


def test_google_keeps_four_addresses_of_each_subnet() -> None:
    assert node_capacity(IPv4Network("10.0.0.0/29")) == 4
    assert node_capacity(IPv4Network("10.0.0.0/32")) == 0


@given(networks)
def test_a_range_in_cidr_form_is_read_as_it_is(network: IPv4Network) -> None:
    assert parse_range(str(network)) == network


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("192.168.0.0", "no range"),
        ("", "no range"),
        ("192.168.0.0/33", "no range"),
        ("192.168.0.0/016", "no range"),
        ("192.168.0.0/255.255.0.0", "no range"),
        ("192.168.0/16", "no range"),
        ("192.168.00.0/16", "no range"),
        ("192.168.0.0/16 ", "blanks round it"),
        ("١٩٢.168.0.0/16", "no range"),
        ("fd00::/8", "IPv6"),
        ("192.168.4.5/24", "bits are set below the /24"),
    ],
)
def test_what_is_no_range_is_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(RangeError, match=message) as raised:
        parse_range(text)
    assert raised.value.expected


def test_host_bits_are_mended_to_the_range_that_was_meant() -> None:
    with pytest.raises(RangeError) as raised:
        parse_range("192.168.4.5/24")
    assert raised.value.mended == "192.168.4.0/24"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("169.254.0.0/24", "link-local"),
        ("127.0.0.0/8", "loopback"),
        ("224.0.0.0/8", "multicast"),
        ("240.0.0.0/8", "reserved"),
        ("0.0.0.0/8", "this network"),
        ("0.0.0.0/0", "this network"),
        ("10.0.0.0/8", ""),
    ],
)
def test_parts_of_the_address_space_that_no_subnet_may_touch_are_named(
    text: str, part: str
) -> None:
    found = unusable_part(IPv4Network(text))
    assert found.startswith(part)
    assert bool(found) == bool(part)


def test_only_rfc_1918_space_is_private() -> None:
    private = ["10.0.0.0/8", "172.16.0.0/12", "172.31.255.0/24", "192.168.0.0/16"]
    public = ["192.169.0.0/16", "172.32.0.0/16", "100.64.0.0/10", "9.0.0.0/8", "172.0.0.0/8"]
    assert all(is_private(IPv4Network(text)) for text in private)
    assert not any(is_private(IPv4Network(text)) for text in public)


def test_two_halves_cover_the_whole_and_one_does_not() -> None:
    halves = [IPv4Network("10.0.0.0/25"), IPv4Network("10.0.0.128/25")]
    assert is_covered(IPv4Network("10.0.0.0/24"), halves)
    assert not is_covered(IPv4Network("10.0.0.0/24"), halves[:1])


@given(st.lists(networks, max_size=8))
def test_a_pair_overlaps_exactly_when_an_address_is_in_both(ranges: list[IPv4Network]) -> None:
    named = [NamedRange(key=str(n), label="", network=item) for n, item in enumerate(ranges)]
    found = {(a.key, b.key) for a, b in overlaps(named)}
    for n, first in enumerate(ranges):
        for m, second in enumerate(ranges[n + 1 :], n + 1):
            low = max(int(first.network_address), int(second.network_address))
            high = min(int(first.broadcast_address), int(second.broadcast_address))
            assert ((str(n), str(m)) in found) == (low <= high)
