"""Whether NICs in a VPC may reach each other.

Owns the reading of firewall rules. Source: Compute Engine's semantics (ingress denied and egress
allowed unless a rule says otherwise, lowest priority number wins, deny before allow).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from sandbox.contracts import ClusterContext, Resource
from sandbox.gke.nccl.hosts import Nic

_DEFAULT_PRIORITY = 1000
_PROTOCOL_NUMBERS = {"6": "tcp", "17": "udp", "1": "icmp"}
_SAMPLE_PORTS = (222, 5201, 8888, 32768, 60999)
"""Data ports are chosen at run time: a rule that leaves any of them out breaks connections."""


def closed_networks(context: ClusterContext, hosts: Sequence[Mapping[str, Nic]]) -> tuple[str, ...]:
    """List the VPCs in which some host's NIC cannot reach another host's.

    Args:
        context: The cluster.
        hosts: The NICs of each host by interface.
    """
    nics: dict[str, list[Nic]] = {}
    for host in hosts:
        for nic in host.values():
            nics.setdefault(nic.network, []).append(nic)
    closed = []
    for network, members in nics.items():
        rules = context.cloud.firewalls(context.key.project, network)
        if not all(
            _admits(rules, "INGRESS", source.address) and _admits(rules, "EGRESS", target.address)
            for source in members
            for target in members
            if source.address != target.address
        ):
            closed.append(network)
    return tuple(closed)


def _admits(rules: Iterable[Resource], direction: str, peer: str) -> bool:
    relevant = [
        rule
        for rule in rules
        if rule.get("direction", "INGRESS") == direction
        and not rule.get("disabled")
        # Nodes of Autopilot carry none of the user's tags or accounts.
        and not rule.get("targetTags")
        and not rule.get("targetServiceAccounts")
        and _names_peer(rule, direction, peer)
    ]
    relevant.sort(key=lambda rule: (rule.get("priority", _DEFAULT_PRIORITY), "allowed" in rule))
    implied = direction == "EGRESS"
    return all(_port_open(relevant, port, implied=implied) for port in _SAMPLE_PORTS)


def _port_open(rules: Sequence[Resource], port: int, *, implied: bool) -> bool:
    for rule in rules:
        if _covers(rule.get("denied") or [], port):
            return False
        if _covers(rule.get("allowed") or [], port):
            return True
    return implied


def _names_peer(rule: Resource, direction: str, peer: str) -> bool:
    ranges = rule.get("sourceRanges" if direction == "INGRESS" else "destinationRanges") or []
    if not ranges:
        return not rule.get("sourceTags") and not rule.get("sourceServiceAccounts")
    address = ipaddress.ip_address(peer)
    return any(address in ipaddress.ip_network(item, strict=False) for item in ranges)


def _covers(entries: Iterable[Resource], port: int) -> bool:
    for entry in entries:
        protocol = str(entry.get("IPProtocol", "")).lower()
        protocol = _PROTOCOL_NUMBERS.get(protocol, protocol)
        if protocol not in {"tcp", "all"}:
            continue
        ports = entry.get("ports") or ["0-65535"]
        if any(_in_range(str(item), port) for item in ports):
            return True
    return False


def _in_range(item: str, port: int) -> bool:
    first, _, last = item.partition("-")
    return first.isdigit() and int(first) <= port <= int(last or first)
