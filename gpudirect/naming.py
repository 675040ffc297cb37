"""Physical names: made from the prefix in one place, with the rules of whoever reads them.

Owns patterns, lengths and reserved names. Does not own logical names (`components`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudirect.config_text import shown
from gpudirect.config_values import ConfigReader
from gpudirect.stacks import GpuStack

COMPUTE_NAME_LENGTH = 63
CLUSTER_NAME_LENGTH = 40
"""Of a cluster and of a placement group, whose name GKE gives to the node pool."""

RESERVED_NETWORK_NAMES = ("default", "pod-network")
"""Objects that GKE makes and keeps itself; taking them over breaks the cluster [R33]."""

_COMPUTE_NAME = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_PATTERN_WORDS = "small letters, digits and hyphens, a letter first and no hyphen last"


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Every physical name of an environment.

    Attributes:
        prefix: What they start with.
        vpcs: One for each GPU NIC.
        subnets: One for each GPU NIC.
        firewalls: One for each GPU NIC.
        cluster: The cluster.
        cluster_vpc: The cluster's own VPC, where the stack makes one.
        cluster_subnet: Its subnet.
    """

    prefix: str
    vpcs: tuple[str, ...]
    subnets: tuple[str, ...]
    firewalls: tuple[str, ...]
    cluster: str
    cluster_vpc: str
    cluster_subnet: str


def is_compute_name(name: str, *, longest: int = COMPUTE_NAME_LENGTH) -> bool:
    """Return whether Compute Engine and GKE take a name [facts google-cloud.md §1.1]."""
    return len(name) <= longest and _COMPUTE_NAME.fullmatch(name) is not None


def read_names(reader: ConfigReader, stack: GpuStack) -> Names | None:
    """Read the prefix and the cluster's name, and check all that follows from them."""
    said = reader.text("prefix")
    prefix = said or reader.stack_name
    cluster = reader.text("clusterName")
    if said is None or cluster is None:
        return None
    numbers = range(1, stack.nic_count + 1)
    names = Names(
        prefix=prefix,
        vpcs=tuple(f"{prefix}-net-{number}" for number in numbers),
        subnets=tuple(f"{prefix}-sub-{number}" for number in numbers),
        firewalls=tuple(f"{prefix}-internal-{number}" for number in numbers),
        cluster=cluster or f"{prefix}-cluster",
        cluster_vpc=f"{prefix}-net",
        cluster_subnet=f"{prefix}-sub",
    )
    right = _check_prefix(reader, names, said=said)
    if cluster:
        right &= check_name(reader, "clusterName", cluster, longest=CLUSTER_NAME_LENGTH)
    elif right and len(names.cluster) > CLUSTER_NAME_LENGTH:
        right = False
        reader.report(
            "clusterName",
            f"PREFIX-cluster would be {names.cluster}, {len(names.cluster)} characters",
            f"{CLUSTER_NAME_LENGTH} characters at most",
            "GKE takes no longer name for a cluster",
            fix=reader.set_to("clusterName", f"{prefix[: CLUSTER_NAME_LENGTH - 8]}-cluster"),
        )
    return names if right else None


def check_name(
    reader: ConfigReader, key: str, name: str, *, longest: int = COMPUTE_NAME_LENGTH
) -> bool:
    """Report a name that Compute Engine or GKE would refuse."""
    if is_compute_name(name, longest=longest):
        return True
    too_long = len(name) > longest
    reader.report(
        key,
        f"{len(name)} characters" if too_long else "no name that Google takes",
        f"{longest} characters at most" if too_long else _PATTERN_WORDS,
        "Google refuses the resource otherwise",
        fix=reader.set_to(key, _mended(name, longest)),
    )
    return False


def read_network_names(reader: ConfigReader, stack: GpuStack) -> tuple[str, ...] | None:
    """Return the names of the cluster's `Network` objects, in the order of the GPU NICs."""
    names = reader.texts("networkNames")
    if names is None:
        return None
    if not names:
        return stack.default_network_names
    count = len(reader.findings)
    if len(names) != stack.nic_count:
        reader.report(
            "networkNames",
            f"{len(names)} name{'' if len(names) == 1 else 's'}",
            f"{stack.nic_count} names, one for each GPU NIC of {stack.name}",
            "a Pod lists every NIC of its node by the name of its network",
        )
    for number, name in enumerate(names):
        if name is not None:
            _check_network_name(reader, f"networkNames[{number}]", name, names[:number])
    right = tuple(name for name in names if name is not None)
    return right if len(reader.findings) == count else None


def _check_network_name(
    reader: ConfigReader, place: str, name: str, before: tuple[str | None, ...]
) -> None:
    if name in RESERVED_NETWORK_NAMES or name == "kube-system":
        message, why = "a reserved name", "GKE makes and keeps the object of that name itself"
        expected = "another name"
    elif name in before:
        message, why = "named twice", "each GPU NIC has a network of its own"
        expected = "a name of its own"
    elif len(name) > COMPUTE_NAME_LENGTH or not _OBJECT_NAME.fullmatch(name):
        message, why = "no name of a Kubernetes object", "the API server refuses it"
        expected = f"small letters, digits and hyphens, {COMPUTE_NAME_LENGTH} characters at most"
    else:
        return
    number = len(before) + 1
    reader.report(
        place, message, expected, why, fix=reader.set_to(place, f"vpc{number}"), value=name
    )


def _check_prefix(reader: ConfigReader, names: Names, *, said: str) -> bool:
    prefix = names.prefix
    source = "" if said else f"no prefix is set, so the stack's name {prefix} is taken: "
    room = COMPUTE_NAME_LENGTH - (len(names.firewalls[-1]) - len(prefix))
    if prefix == "kube-system":
        message, expected = "a reserved name", "another prefix"
        why = "kube-system is the cluster's own namespace"
    elif not _COMPUTE_NAME.fullmatch(prefix):
        message, expected = "no name that Google takes", _PATTERN_WORDS
        why = f"it starts every name, such as {shown(f'{prefix}-net-1')}"
    elif len(prefix) > room:
        message, expected = f"{len(prefix)} characters", f"{room} characters at most"
        why = f"{shown(names.firewalls[-1])} may have {COMPUTE_NAME_LENGTH} characters"
    else:
        return True
    reader.report(
        "prefix",
        f"{source}{message}",
        expected,
        why,
        fix=reader.set_to("prefix", "gpu" if prefix == "kube-system" else _mended(prefix, room)),
        value=said,
    )
    return False


def _mended(name: str, longest: int) -> str:
    """Return a name near to the given one that Google takes."""
    # Google's APIs name things by a path; here the last part of it is meant.
    last = name.rstrip("/").rpartition("/")[2]
    mended = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
    if not mended[:1].isalpha() or not mended[:1].isascii():
        mended = f"gpu-{mended}".rstrip("-")
    return mended[:longest].rstrip("-")
