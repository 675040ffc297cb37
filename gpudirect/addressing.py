"""The address plan: carving the fabric, and what makes a range, or two of them, wrong.

Owns the arithmetic over IPv4 ranges and Google's rules about them. Does not own which keys hold
ranges (`fabric_settings`, `cluster_settings`) nor the wording of findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses
from itertools import islice

GPU_NETWORK_MTU_BYTES = 8244
"""MTU of every GPU network (the page); no other works with GPUDirect-TCPX and TCPXO."""

LEAST_SUBNET_PREFIX = 29
LARGEST_SUBNET_PREFIX = 8
_KEPT_BY_GOOGLE = 4
_LENGTH = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

AUTO_MODE_RANGE = IPv4Network("10.128.0.0/9")
"""Where the subnets of an auto-mode VPC such as `default` lie [facts google-cloud.md §3]."""

_PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
# Where GPU networks are looked for first: Google takes ranges of its own choice from 10.0.0.0/8.
_PRIVATE_BY_CHOICE = _PRIVATE[::-1]
_MOST_TRIED = 256
_UNUSABLE = (
    (IPv4Network("0.0.0.0/8"), "this network"),
    (IPv4Network("127.0.0.0/8"), "loopback"),
    (IPv4Network("169.254.0.0/16"), "link-local, where the metadata server is"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
)


class RangeError(ValueError):
    """A text that is no range of addresses.

    Attributes:
        expected: What would be right.
        mended: A range near to what was meant, or empty.
    """

    def __init__(self, message: str, expected: str, mended: str = "") -> None:
        super().__init__(message)
        self.expected = expected
        self.mended = mended


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedRange:
    """A range and the config key, or place inside one, that it comes from.

    Attributes:
        key: The key.
        label: What the range is for.
        network: The range.
        stated: Whether it is the environment's own and can be mended. A range that follows from
            something else, or that belongs to others, is not.
        written: How it is written where that is not how the range is written right.
    """

    key: str
    label: str
    network: IPv4Network
    stated: bool = True
    written: str = ""

    @property
    def seen(self) -> str:
        """The range as its owner wrote it."""
        return self.written or str(self.network)


def parse_range(text: str) -> IPv4Network:
    """Read a range in CIDR form.

    Raises:
        RangeError: not IPv4 in CIDR form and that alone, or bits are set below the prefix.
    """
    if text != text.strip():
        raise RangeError("blanks round it", "the range alone", text.strip())
    address, slash, length = text.partition("/")
    if not slash:
        raise RangeError("no range", "a range in CIDR form, such as 192.168.0.0/16")
    if ":" in address:
        raise RangeError("an IPv6 range", "an IPv4 range: the GPU networks carry IPv4 alone")
    # ip_network also takes netmasks and other digits; Google does not.
    if not _LENGTH.fullmatch(length):
        raise RangeError("no range", "a prefix length after the slash, 0 to 32")
    try:
        network = IPv4Network(text, strict=False)
    except ValueError as error:
        raise RangeError(
            "no range", "four numbers of 0 to 255, a slash, and a length of 0 to 32"
        ) from error
    if str(network.network_address) != address:
        raise RangeError(
            f"bits are set below the /{length}",
            f"the range's first address: {network}",
            f"{network}",
        )
    return network


def unusable_part(network: IPv4Network) -> str:
    """Return the name of the part of the address space that no subnet may touch, or nothing."""
    return next((name for part, name in _UNUSABLE if part.overlaps(network)), "")


def is_private(network: IPv4Network) -> bool:
    """Return whether a range lies in RFC 1918 space."""
    return any(network.subnet_of(part) for part in _PRIVATE)


def carve(supernet: IPv4Network, count: int) -> tuple[IPv4Network, ...]:
    """Return the first `count` equal parts of a range, as large as they can be.

    Raises:
        ValueError: the parts would be smaller than Google's least subnet.
    """
    bits = (count - 1).bit_length()
    if supernet.prefixlen + bits > LEAST_SUBNET_PREFIX:
        raise ValueError(f"{supernet} has no room for {count} subnets")
    parts = supernet.subnets(prefixlen_diff=bits)
    return tuple(next(parts) for _ in range(count))


def node_capacity(subnet: IPv4Network) -> int:
    """Return how many nodes can have a NIC in a subnet; Google keeps 4 addresses of each."""
    return max(subnet.num_addresses - _KEPT_BY_GOOGLE, 0)


def least_supernet_prefix(count: int, nodes: int = 0) -> int:
    """Return the longest prefix of a range that holds `count` subnets with room for `nodes`."""
    needed = (nodes + _KEPT_BY_GOOGLE - 1).bit_length()
    return min(LEAST_SUBNET_PREFIX, 32 - needed) - (count - 1).bit_length()


def is_covered(network: IPv4Network, by: Iterable[IPv4Network]) -> bool:
    """Return whether one of the ranges, or several together, hold a whole range."""
    return any(network.subnet_of(part) for part in collapse_addresses(by))


def free_range(prefix: int, taken: Sequence[IPv4Network]) -> str:
    """Return a private range of a size that meets none of others, or nothing."""
    for supernet in _PRIVATE_BY_CHOICE:
        if supernet.prefixlen <= prefix:
            for part in islice(supernet.subnets(new_prefix=prefix), _MOST_TRIED):
                if not any(part.overlaps(network) for network in taken):
                    return str(part)
    return ""


def overlaps(ranges: Sequence[NamedRange]) -> list[tuple[NamedRange, NamedRange]]:
    """Return each pair of ranges that share addresses, the earlier one in the sequence first.

    A range is compared with those of other keys and with those of its own; the number of ranges of
    an environment is small, so every pair is looked at.
    """
    return [
        (first, second)
        for number, first in enumerate(ranges)
        for second in ranges[number + 1 :]
        if first.network.overlaps(second.network)
    ]
