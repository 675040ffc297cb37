"""The guard of what is live: what an update would take away, and whether the config says so.

Owns the comparison of the stack's last state with its settings, resource by resource, including
what the provider plans in place although Google refuses it later. Does not own reading the state
(`components.deployed_state`) nor the class of a key (`config_keys`). Destroy is not its business:
deletion protection alone stands before that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpudirect.addressing import parse_range
from gpudirect.findings import Finding, full_key, remove_command, set_command
from gpudirect.settings import Settings

_NETWORK = "gcp:compute/network:Network"
_SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
_FIREWALL = "gcp:compute/firewall:Firewall"
_CLUSTER = "gcp:container/cluster:Cluster"
_FABRIC_COMPONENT = "gpudirect:index:GpuNetworkFabric"
_CLUSTER_COMPONENT = "gpudirect:index:AutopilotCluster"

_PARTS = re.compile(r"\d+|\D+")

Outputs = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A live resource that an update would replace, delete or fail on.

    Attributes:
        part: `fabric` or `cluster`.
        what: The resource, as Google names it.
        because: What changes about it.
    """

    part: str
    what: str
    because: str


def replacement_guard(
    previous: Mapping[str, Outputs], current: Settings, allow: frozenset[str] | None = None
) -> tuple[Finding, ...]:
    """Return a finding for each part that would be replaced without leave.

    Args:
        previous: Outputs of every resource in the stack's last state, by URN.
        current: What the config asks for now.
        allow: What may be replaced; not given, what the config allows.
    """
    allowed = current.allow_replace if allow is None else allow
    losses = find_losses(previous, current)
    needed = {loss.part for loss in losses}
    findings = []
    for part in ("fabric", "cluster"):
        of_part = [loss for loss in losses if loss.part == part]
        if of_part and part not in allowed:
            findings.append(_refusal(part, of_part, current, allowed | needed))
    if "cluster" in needed and "cluster" in allowed:
        findings += _protected(previous, current)
    return tuple(findings)


def spare_leave(previous: Mapping[str, Outputs], current: Settings) -> tuple[Finding, ...]:
    """Return a warning where the config still allows a replacement that is over, or never was."""
    if not previous or not current.allow_replace or find_losses(previous, current):
        return ()
    return (
        Finding(
            key=full_key("allowReplace"),
            value=",".join(sorted(current.allow_replace)),
            message="nothing is to be replaced",
            expected="an empty value, except for the one update that replaces something",
            why="the next mistake would pass unseen",
            fix=remove_command("allowReplace", stack_name=current.stack_name),
            severity="warning",
        ),
    )


def find_losses(previous: Mapping[str, Outputs], current: Settings) -> tuple[Loss, ...]:
    """Return every live resource of fabric and cluster that would not survive the update."""
    losses: list[Loss] = []
    for urn, outputs in previous.items():
        types, _, name = urn.rpartition("::")
        kind = types.rpartition("::")[2]
        leaf = kind.rpartition("$")[2]
        if _FABRIC_COMPONENT in kind:
            losses += (
                Loss(part="fabric", what=_what(leaf, name, outputs), because=reason)
                for reason in _fabric_reasons(leaf, name, outputs, current)
            )
        elif _CLUSTER_COMPONENT in kind:
            losses += (
                Loss(part="cluster", what=_what(leaf, name, outputs), because=reason)
                for reason in _cluster_reasons(leaf, outputs, current)
            )
    return tuple(losses)


def clusters_in(previous: Mapping[str, Outputs]) -> Iterator[Outputs]:
    """Yield the outputs of the program's cluster, if the last state holds it."""
    for urn, outputs in previous.items():
        if urn.rpartition("::")[0].endswith(f"${_CLUSTER}"):
            yield outputs


def has_come_up(cluster: Outputs) -> bool:
    """Return whether a cluster ever had an address: without one nothing has run in it."""
    return bool(cluster.get("endpoint"))


def _fabric_reasons(leaf: str, name: str, outputs: Outputs, current: Settings) -> Iterator[str]:
    if leaf not in (_NETWORK, _SUBNETWORK, _FIREWALL):
        return
    found = re.search(r"-(\d+)$", name)
    nics = current.fabric.nics
    number = int(found[1]) if found else 0
    if not 1 <= number <= len(nics):
        yield f"{current.gpu_stack.name} has {len(nics)} GPU NICs"
        return
    nic = nics[number - 1]
    yield from _changed("project", outputs.get("project"), current.project)
    if leaf == _NETWORK:
        yield from _changed("name", outputs.get("name"), nic.vpc_name)
        # The provider plans it in place; VMs that run would have to be stopped for it.
        yield from _changed("MTU", outputs.get("mtu"), current.fabric.mtu_bytes)
    elif leaf == _SUBNETWORK:
        yield from _changed("name", outputs.get("name"), nic.subnet_name)
        yield from _changed("region", _short(outputs.get("region")), current.region)
        yield from _changed("network", _short(outputs.get("network")), nic.vpc_name)
        yield from _shrunk(outputs.get("ipCidrRange"), nic.cidr)
    else:
        yield from _changed("name", outputs.get("name"), nic.firewall_name)
        # The provider plans it in place; Google moves no rule to another network.
        yield from _changed("network", _short(outputs.get("network")), nic.vpc_name)


def _cluster_reasons(leaf: str, outputs: Outputs, current: Settings) -> Iterator[str]:
    cluster = current.cluster
    if leaf == _CLUSTER and not has_come_up(outputs):
        return
    if leaf == _CLUSTER:
        wanted = cluster.network_name if cluster.create_network else cluster.network
        subnet = cluster.subnetwork_name if cluster.create_network else cluster.subnetwork
        yield from _changed("project", outputs.get("project"), current.project)
        yield from _changed("name", outputs.get("name"), cluster.name)
        yield from _changed("location", outputs.get("location"), current.region)
        yield from _changed("network", _short(outputs.get("network")), _short(wanted))
        yield from _changed("subnetwork", _short(outputs.get("subnetwork")), _short(subnet))
        policy = _block(outputs, "ipAllocationPolicy")
        yield from _changed("podCidr", policy.get("clusterIpv4CidrBlock"), cluster.pod_cidr)
        yield from _changed(
            "serviceCidr", policy.get("servicesIpv4CidrBlock"), cluster.service_cidr
        )
        private = _block(outputs, "privateClusterConfig")
        yield from _changed(
            "controlPlaneCidr", private.get("masterIpv4CidrBlock"), cluster.control_plane_cidr
        )
        # The provider plans it in place; Google takes it at creation alone.
        yield from _changed("multi-networking", outputs.get("enableMultiNetworking"), True)
    elif leaf in (_NETWORK, _SUBNETWORK) and not cluster.create_network:
        yield f"clusterNetwork is {cluster.network}"
    elif leaf == _NETWORK:
        yield from _changed("name", outputs.get("name"), cluster.network_name)
    elif leaf == _SUBNETWORK:
        yield from _changed("name", outputs.get("name"), cluster.subnetwork_name)
        yield from _changed("region", _short(outputs.get("region")), current.region)
        yield from _shrunk(outputs.get("ipCidrRange"), cluster.subnetwork_cidr)


def _refusal(part: str, losses: list[Loss], current: Settings, wanted: frozenset[str]) -> Finding:
    lost: dict[str, list[str]] = {}
    for loss in losses:
        lost.setdefault(loss.what, []).append(loss.because)
    details = tuple(f"{what}: {', '.join(lost[what])}" for what in sorted(lost, key=_natural))
    value = ",".join(name for name in ("fabric", "cluster") if name in wanted)
    inside = "everything that runs in it" if part == "cluster" else "every Pod that has a NIC in it"
    count = f"{len(details)} resource{'' if len(details) == 1 else 's'}"
    return Finding(
        key=full_key("allowReplace"),
        value=",".join(sorted(current.allow_replace)),
        message=f"the {part} is live, and this update would take away {count} of it",
        details=details,
        expected=f"the config as it was, or allowReplace {value} where that is meant",
        why=f"{inside} goes with it",
        fix=set_command("allowReplace", value, stack_name=current.stack_name),
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts net-2 before net-10."""
    return [(int(part or 0), "") if part.isdigit() else (-1, part) for part in _PARTS.findall(text)]


def _protected(previous: Mapping[str, Outputs], current: Settings) -> list[Finding]:
    clusters = [outputs for urn, outputs in previous.items() if f"${_CLUSTER}::" in urn]
    if not any(outputs.get("deletionProtection") is True for outputs in clusters):
        return []
    off = set_command("deletionProtection", "false", stack_name=current.stack_name)
    return [
        Finding(
            key=full_key("deletionProtection"),
            value="true in the last state",
            message="the cluster that is to be replaced is protected",
            expected="false, deployed by an update that changes nothing else",
            why="the provider asks the last state, and an update turns it off too late for itself",
            fix=f"{off}, take the other change back, pulumi up, then make it again",
        )
    ]


def _what(leaf: str, name: str, outputs: Outputs) -> str:
    kind = leaf.rpartition(":")[2]
    return f"{kind} {outputs.get('name') or name}"


def _changed(what: str, before: object, after: object) -> Iterator[str]:
    """Yield a reason where both are known and differ; what nobody states is not a change."""
    if before in (None, "") or after in (None, ""):
        return
    if isinstance(after, int) and not isinstance(before, bool) and not isinstance(after, bool):
        before = int(before) if isinstance(before, float) else before
    if before != after:
        yield f"{what} {before} -> {after}"


def _shrunk(before: object, after: str | None) -> Iterator[str]:
    """Yield a reason unless the new range holds the old one: Google only lets subnets grow."""
    if before and after and not parse_range(str(before)).subnet_of(parse_range(after)):
        yield f"range {before} -> {after}"


def _short(link: object) -> object:
    return link.rpartition("/")[2] if isinstance(link, str) else link


def _block(outputs: Outputs, name: str) -> Outputs:
    block = outputs.get(name)
    return block if isinstance(block, Mapping) else {}
