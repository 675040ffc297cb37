"""The fabric part of the settings: one network, subnet and rule for each GPU NIC.

Owns the keys `fabric…`, and the ranges that all parts of an environment share out among themselves.
Does not own the arithmetic (`addressing`) nor the names (`naming`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from gpudirect.addressing import (
    AUTO_MODE_RANGE,
    GPU_NETWORK_MTU_BYTES,
    LARGEST_SUBNET_PREFIX,
    LEAST_SUBNET_PREFIX,
    NamedRange,
    RangeError,
    carve,
    free_range,
    is_covered,
    is_private,
    least_supernet_prefix,
    node_capacity,
    overlaps,
    parse_range,
    unusable_part,
)
from gpudirect.config_values import ConfigReader
from gpudirect.findings import full_key
from gpudirect.naming import Names
from gpudirect.stacks import GpuStack


@dataclass(frozen=True, kw_only=True, slots=True)
class NicPlan:
    """One GPU NIC of a node and all that belongs to it.

    Attributes:
        index: Number of the NIC, from 1.
        interface: Its name in a Pod.
        network_object: Name of the cluster's `Network` and `GKENetworkParamSet`.
        vpc_name: Physical name of its VPC.
        subnet_name: Physical name of its subnet.
        firewall_name: Physical name of its firewall rule.
        cidr: Range of its subnet.
    """

    index: int
    interface: str
    network_object: str
    vpc_name: str
    subnet_name: str
    firewall_name: str
    cidr: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FabricSettings:
    """The GPU networks.

    Attributes:
        mtu_bytes: MTU of each.
        nics: One entry for each GPU NIC, in order.
        source_ranges: Who may send to them.
    """

    mtu_bytes: int
    nics: tuple[NicPlan, ...]
    source_ranges: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FabricPlan:
    """The ranges of a fabric, before they have names; what could not be read is not there.

    Attributes:
        subnets: One for each GPU NIC, in order.
        ranges: What the fabric takes up: the subnets, or the range that they are carved from.
        source_ranges: Who may send to the GPU NICs.
    """

    subnets: tuple[NamedRange, ...]
    ranges: tuple[NamedRange, ...]
    source_ranges: tuple[str, ...]


def read_range(
    reader: ConfigReader, key: str, text: str, *, label: str, public: bool, is_subnet: bool = True
) -> NamedRange | None:
    """Read a range that something of the environment will use, or report why nothing can.

    Args:
        reader: Takes the findings.
        key: The key, or the place inside one.
        text: The value.
        label: What the range is for.
        public: Whether ranges outside RFC 1918 are allowed.
        is_subnet: Whether Google's bounds for a subnet hold.
    """
    try:
        network = parse_range(text)
    except RangeError as error:
        fix = reader.set_to(key, error.mended) if error.mended else ""
        reader.report(
            key, str(error), error.expected, "Google refuses the range", fix=fix, value=text
        )
        try:
            # What was meant is judged too: one mistake hides no other.
            network = parse_range(error.mended)
        except RangeError:
            return None
    part = unusable_part(network)
    prefix = network.prefixlen
    if part:
        reader.report(
            key,
            f"it meets {part}",
            "a private range, in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
            "no subnet may be there",
            value=text,
        )
        return None
    if not public and not is_private(network):
        reader.report(
            key,
            "not a private range",
            "a range in 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16",
            "these addresses belong to somebody on the internet, whom no Pod could reach any more",
            fix=f"{reader.remove(key)}, or {reader.set_to('allowPublicRanges', 'true')}",
            value=text,
        )
    if is_subnet and not LARGEST_SUBNET_PREFIX <= prefix <= LEAST_SUBNET_PREFIX:
        reader.report(
            key,
            f"a /{prefix}",
            f"/{LARGEST_SUBNET_PREFIX} to /{LEAST_SUBNET_PREFIX}",
            "Google makes no other subnets",
            value=text,
        )
        return None
    written = text if text != str(network) else ""
    return NamedRange(key=key, label=label, network=network, written=written)


def read_fabric(reader: ConfigReader, stack: GpuStack, *, public: bool, nodes: int) -> FabricPlan:
    """Read the ranges of the fabric.

    Args:
        reader: Takes the findings.
        stack: The GPU stack.
        public: Whether ranges outside RFC 1918 are allowed.
        nodes: GPU nodes that each subnet must have room for.
    """
    explicit = reader.texts("fabricSubnets")
    sources = _read_sources(reader, public=public)
    whole: list[NamedRange]
    supernet = _read_supernet(reader, public=public)
    if explicit:
        whole = subnets = _explicit_subnets(reader, explicit, stack, public=public)
    else:
        whole = [] if explicit is None else supernet
        subnets = _carved_subnets(reader, whole, stack, nodes=nodes)
    _check_room(reader, subnets, nodes)
    if sources:
        _check_sources(reader, subnets, sources)
    return FabricPlan(
        subnets=tuple(subnets),
        ranges=tuple(whole),
        source_ranges=tuple(str(source.network) for source in sources or whole),
    )


def fabric_settings(
    plan: FabricPlan, stack: GpuStack, names: Names, network_names: Sequence[str]
) -> FabricSettings:
    """Put ranges and names together, one entry for each GPU NIC."""
    return FabricSettings(
        mtu_bytes=GPU_NETWORK_MTU_BYTES,
        nics=tuple(
            NicPlan(
                index=number + 1,
                interface=interface,
                network_object=network_names[number],
                vpc_name=names.vpcs[number],
                subnet_name=names.subnets[number],
                firewall_name=names.firewalls[number],
                cidr=str(plan.subnets[number].network),
            )
            for number, interface in enumerate(stack.interfaces)
        ),
        source_ranges=plan.source_ranges,
    )


def check_overlaps(reader: ConfigReader, ranges: Sequence[NamedRange]) -> None:
    """Report every two ranges of an environment that share addresses."""
    for first, second in overlaps(ranges):
        mine, other = (second, first) if second.stated else (first, second)
        if not mine.stated:
            continue
        named = f" ({full_key(other.key)})" if other.stated else ""
        others = [item.network for item in ranges if item is not mine]
        free = free_range(mine.network.prefixlen, others)
        reader.report(
            mine.key,
            f"it shares addresses with the {other.label}, {other.network}{named}",
            "ranges that have no address in common",
            "a Pod has a NIC in each GPU network beside its own, and one address can be in only "
            "one of them",
            value=mine.seen,
            fix=reader.set_to(mine.key, free) if free else "",
        )


def _read_sources(reader: ConfigReader, *, public: bool) -> list[NamedRange] | None:
    texts = reader.texts("fabricSourceRanges")
    if texts is None:
        return None
    found = []
    for number, text in enumerate(texts):
        if text is None:
            continue
        place = f"fabricSourceRanges[{number}]"
        source = read_range(
            reader, place, text, label="firewall source", public=public, is_subnet=False
        )
        if source:
            found.append(source)
    return found if len(found) == len(texts) else None


def _explicit_subnets(
    reader: ConfigReader, texts: Sequence[str | None], stack: GpuStack, *, public: bool
) -> list[NamedRange]:
    if len(texts) != stack.nic_count:
        reader.report(
            "fabricSubnets",
            f"{len(texts)} range{'' if len(texts) == 1 else 's'}",
            f"{stack.nic_count} ranges, one for each GPU NIC of {stack.name}",
            "a missing NIC leaves a GPU without network, and one more takes the PCI slot of a GPU's"
            " NIC",
            fix=f"{reader.remove('fabricSubnets')}, to carve fabricCidr instead",
        )
    places = [
        (f"fabricSubnets[{number}]", text, f"subnet of NIC {number + 1}")
        for number, text in enumerate(texts)
    ]
    found = [
        read_range(reader, place, text, label=label, public=public)
        for place, text, label in places
        if text is not None
    ]
    return [subnet for subnet in found if subnet]


def _read_supernet(reader: ConfigReader, *, public: bool) -> list[NamedRange]:
    text = reader.text("fabricCidr")
    if text is None:
        return []
    whole = read_range(reader, "fabricCidr", text, label="fabric", public=public)
    return [whole] if whole else []


def _carved_subnets(
    reader: ConfigReader, whole: Sequence[NamedRange], stack: GpuStack, *, nodes: int
) -> list[NamedRange]:
    if not whole:
        return []
    network = whole[0].network
    try:
        parts = carve(network, stack.nic_count)
    except ValueError:
        longest = least_supernet_prefix(stack.nic_count, nodes)
        reader.report(
            "fabricCidr",
            f"no room for {stack.nic_count} subnets",
            f"/{longest} or larger",
            f"each GPU NIC has a subnet of its own, /{LEAST_SUBNET_PREFIX} at least",
            fix=reader.set_to("fabricCidr", _widened(network, longest)),
        )
        return []
    return [
        NamedRange(key="fabricCidr", label=f"subnet of NIC {number}", network=part)
        for number, part in enumerate(parts, 1)
    ]


def _check_room(reader: ConfigReader, subnets: Sequence[NamedRange], nodes: int) -> None:
    small = [subnet for subnet in subnets if node_capacity(subnet.network) < nodes]
    carved = [subnet for subnet in small if subnet.key == "fabricCidr"]
    # Parts of one range are of one size: once is enough.
    for subnet in carved[:1] or small:
        longest = 32 - (nodes + 3).bit_length()
        bits = (len(subnets) - 1).bit_length() if carved else 0
        fix = reader.set_to(subnet.key, _widened(subnet.network, longest - bits))
        reader.report(
            subnet.key,
            f"room for {node_capacity(subnet.network)} nodes in {'each' if carved else 'the'}"
            " subnet",
            f"room for {nodes}: subnets of /{longest} or larger",
            "every node has an address in each, and Google keeps 4",
            value=None if carved else subnet.seen,
            fix=fix,
        )


def _check_sources(
    reader: ConfigReader, subnets: Sequence[NamedRange], sources: Sequence[NamedRange]
) -> None:
    parts = [source.network for source in sources]
    for subnet in subnets:
        if is_covered(subnet.network, parts):
            continue
        reader.report(
            "fabricSourceRanges",
            f"it leaves out {subnet.network}, the {subnet.label}",
            "ranges that hold every subnet of the fabric",
            "the firewall would drop what the node's peers send, and NCCL would hang",
            fix=reader.set_to(f"fabricSourceRanges[{len(parts)}]", str(subnet.network)),
        )


def _widened(network: IPv4Network, prefix: int) -> str:
    """Return a larger range round a private one; where that is none, another private range."""
    # Google takes no range larger than a /8 [facts google-cloud.md §3].
    prefix = min(max(prefix, LARGEST_SUBNET_PREFIX), network.prefixlen)
    wider = network.supernet(new_prefix=prefix)
    return str(wider) if is_private(wider) else free_range(prefix, [AUTO_MODE_RANGE]) or str(wider)
