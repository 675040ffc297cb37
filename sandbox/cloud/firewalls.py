"""VPC firewall rules.

Owns `compute.firewalls`, the four rules of the `default` network and the rules that GKE makes for
a cluster. Citations: facts google-cloud.md §4 unless said otherwise.
"""

from __future__ import annotations

import ipaddress
import re

from sandbox.cloud import links
from sandbox.cloud.compute import (
    Resource,
    begin,
    begin_deletion,
    body_of,
    changed,
    list_answer,
    new_record,
    patch_of,
    register_effects,
)
from sandbox.cloud.core import Call, Cloud
from sandbox.cloud.errors import ApiError, invalid_field
from sandbox.cloud.links import path
from sandbox.cloud.payload import compute_name, parse_range
from sandbox.cloud.registry import endpoint, rule

_SECTION = "facts google-cloud.md §4"
_RECORDED = "facts gcloud-requests.md; real-provider.md (requests)"
_PROTOCOLS = frozenset({"tcp", "udp", "icmp", "esp", "ah", "sctp", "ipip", "all"})
_WITH_PORTS = frozenset({"tcp", "udp", "sctp", "6", "17", "132"})
_SOURCES = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
_MAX_SERVICE_ACCOUNTS = 10
_UPDATABLE = (
    "allowed",
    "denied",
    "description",
    "destinationRanges",
    "disabled",
    "logConfig",
    "params",
    "priority",
    *_SOURCES,
    "targetServiceAccounts",
    "targetTags",
)

rule(
    "firewalls.allow-or-deny",
    "exactly one of allowed and denied",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "firewalls.ports",
    "ports are text, a number or a range, of tcp, udp, sctp",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "firewalls.protocol",
    "a protocol is a known name or a number",
    citation=_SECTION,
    judges="gcloud",
)
rule("firewalls.ranges", "ranges are CIDR without host bits", citation=_SECTION, judges="gcloud")
rule(
    "firewalls.priority",
    "priority is 0 to 65535, 1000 unless given",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "firewalls.sources",
    "sources for INGRESS, destinations for EGRESS",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "firewalls.no-move", "a rule cannot move to another network", citation=f"{_SECTION} [K: words]"
)
rule(
    "firewalls.network-link",
    "the network reads back as full link",
    citation="facts §0.1 [R]",
    judges="gcloud",
)
rule(
    "firewalls.exists",
    "a second insert of a name answers 409 alreadyExists",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "firewalls.quota",
    "FIREWALLS is checked in the operation",
    citation="facts §0.2 (as NETWORKS)",
    judges="gcloud",
)


def _check_entries(body: Resource) -> None:
    if bool(body.get("allowed")) == bool(body.get("denied")):
        raise ApiError(
            400,
            "Invalid value for field 'resource': ''. Exactly one of allowed and denied must be "
            "specified.",
            "invalid",
        )
    for side in ("allowed", "denied"):
        for number, entry in enumerate(body.get(side, [])):
            at = f"resource.{side}[{number}]"
            protocol = entry.get("IPProtocol", "").lower()
            if not _is_protocol(protocol):
                raise invalid_field(
                    f"{at}.IPProtocol", protocol, "Must be a protocol name or number."
                )
            entry["IPProtocol"] = protocol
            for place, port in enumerate(entry.get("ports", [])):
                _check_port(protocol, port, f"{at}.ports[{place}]")


def _is_protocol(protocol: str) -> bool:
    return protocol in _PROTOCOLS or (
        re.fullmatch(r"[0-9]{1,3}", protocol) is not None and int(protocol) <= 255
    )


def _check_port(protocol: str, port: str, at: str) -> None:
    match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", port)
    numbers = [int(text) for text in match.groups() if text is not None] if match else []
    if not numbers or max(numbers) > 65535 or numbers != sorted(numbers):
        raise invalid_field(at, port, "Must be an integer or a range from 0 to 65535.")
    if protocol not in _WITH_PORTS:
        raise invalid_field(at, port, f"Ports may not be specified for protocol {protocol}.")


def _check_ranges(body: Resource) -> None:
    for field in ("sourceRanges", "destinationRanges"):
        for number, value in enumerate(body.get(field, [])):
            if parse_range(value) is None and not _is_ipv6_range(value):
                raise invalid_field(
                    f"resource.{field}[{number}]", value, "Must be a valid CIDR address range."
                )


def _is_ipv6_range(value: str) -> bool:
    try:
        ipaddress.IPv6Network(value, strict=True)
    except ValueError:
        return False
    return "/" in value


def _check_direction(body: Resource) -> None:
    ingress = body["direction"] == "INGRESS"
    if ingress and body.get("destinationRanges") and not any(body.get(key) for key in _SOURCES):
        raise invalid_field(
            "resource.sourceRanges", "", "An INGRESS rule needs ranges, tags or service accounts."
        )
    if not ingress and any(body.get(key) for key in _SOURCES):
        raise invalid_field("resource.sourceRanges", "", "An EGRESS rule cannot have sources.")
    accounts = [*body.get("sourceServiceAccounts", []), *body.get("targetServiceAccounts", [])]
    if accounts and (body.get("sourceTags") or body.get("targetTags")):
        raise invalid_field(
            "resource.sourceServiceAccounts", "", "Tags and service accounts cannot be combined."
        )
    if len(accounts) > _MAX_SERVICE_ACCOUNTS:
        raise invalid_field("resource.sourceServiceAccounts", "", "At most 10 service accounts.")


def _check_priority(body: Resource) -> None:
    if not 0 <= body["priority"] <= 65535:
        raise invalid_field("resource.priority", body["priority"], "Must be from 0 to 65535.")


def _check(body: Resource) -> None:
    _check_entries(body)
    _check_ranges(body)
    _check_direction(body)
    _check_priority(body)


def _defaults(body: Resource) -> Resource:
    """Fill what the API fills: INGRESS, priority 1000, any source, logging off [R]."""
    direction = body.get("direction") or "INGRESS"
    filled = {"priority": 1000, "disabled": False, "logConfig": {"enable": False}, **body}
    filled["direction"] = direction
    ranges = "sourceRanges" if direction == "INGRESS" else "destinationRanges"
    if not any(filled.get(key) for key in (ranges, "sourceTags", "sourceServiceAccounts")):
        filled[ranges] = ["0.0.0.0/0"]
    return filled


def _network_of(call: Call, body: Resource) -> tuple[str, str]:
    given = body.get("network") or "global/networks/default"
    parsed = links.parse_network(given, call.project)
    if parsed is None:
        raise invalid_field("resource.network", given, "The URL is malformed.")
    return parsed


@endpoint(
    "compute",
    "POST",
    "projects/{project}/global/firewalls",
    citation=_RECORDED,
    judges="gcloud provider",
)
def insert(call: Call) -> Resource:
    """Create a firewall rule."""
    body = _defaults(body_of(call, "Firewall"))
    name = compute_name(body)
    owner, network = _network_of(call, body)
    _check(body)
    call.cloud.require_ready("networks", owner, "global", network)
    call.cloud.refuse_existing("firewalls", call.project, "global", name)
    body["network"] = links.link(owner, "global", "networks", network)
    call.store.put(new_record("firewalls", "firewall", call.project, "global", body))
    requires = [path(owner, "global", "networks", network)]
    return begin(call, "firewalls", "insert", "global", name, requires=requires)


@endpoint(
    "compute",
    "GET",
    "projects/{project}/global/firewalls/{name}",
    citation=_RECORDED,
    judges="gcloud provider",
)
def get(call: Call) -> Resource:
    """Read a firewall rule."""
    return call.cloud.require("firewalls", call.project, "global", call.params["name"]).body


@endpoint(
    "compute",
    "GET",
    "projects/{project}/global/firewalls",
    citation="facts gcloud-requests.md (list)",
    judges="gcloud",
)
def list_(call: Call) -> Resource:
    """List firewall rules."""
    items = [record.body for record in call.cloud.visible("firewalls", call.project)]
    return list_answer(call, "firewall", items, "global")


def _change(call: Call, *, replace: bool) -> Resource:
    record = call.cloud.require_ready("firewalls", call.project, "global", call.params["name"])
    body = body_of(call, "Firewall")
    if body.get("network"):
        owner, network = _network_of(call, body)
        if links.link(owner, "global", "networks", network) != record.body["network"]:
            raise invalid_field(
                "resource.network", body["network"], "The network of a rule cannot be changed."
            )
    if body.get("direction", record.body["direction"]) != record.body["direction"]:
        raise invalid_field(
            "resource.direction", body["direction"], "The direction of a rule cannot be changed."
        )
    if replace:
        after = {"direction": record.body["direction"], **body}
    else:
        changes = patch_of(call, record.body, body, _UPDATABLE)
        for side, other in (("allowed", "denied"), ("denied", "allowed")):
            if side in changes:
                changes.setdefault(other, None)
        after = changed(record.body, changes)
    after = _defaults(after)
    _check(after)
    changes = {
        field: after.get(field)
        for field in _UPDATABLE
        if after.get(field) != record.body.get(field)
    }
    return begin(call, "firewalls", "patch", "global", record.name, params={"changes": changes})


@endpoint(
    "compute",
    "PATCH",
    "projects/{project}/global/firewalls/{name}",
    citation="facts real-provider.md (updates)",
    judges="gcloud provider",
)
def patch(call: Call) -> Resource:
    """Change the given fields of a firewall rule."""
    return _change(call, replace=False)


@endpoint("compute", "PUT", "projects/{project}/global/firewalls/{name}", citation="[K]")
def update(call: Call) -> Resource:
    """Replace a firewall rule."""
    return _change(call, replace=True)


@endpoint(
    "compute",
    "DELETE",
    "projects/{project}/global/firewalls/{name}",
    citation=_RECORDED,
    judges="gcloud provider",
)
def delete(call: Call) -> Resource:
    """Delete a firewall rule."""
    record = call.cloud.require_ready("firewalls", call.project, "global", call.params["name"])
    return begin_deletion(call, record)


register_effects("firewalls", quota="FIREWALLS")


def add_rule(cloud: Cloud, project: str, owner: str, body: Resource) -> None:
    """Write a rule that Google makes for `owner`."""
    record = new_record(
        "firewalls", "firewall", project, "global", _defaults(body), state="ready", owner=owner
    )
    cloud.store.put(record)


def default_firewalls(cloud: Cloud, project: str, network: str) -> None:
    """Make the four rules of the `default` network [K]."""
    everything = ["0-65535"]
    tcp = {"IPProtocol": "tcp"}
    entries: dict[str, tuple[list[str], list[Resource]]] = {
        "default-allow-internal": (
            ["10.128.0.0/9"],
            [
                {**tcp, "ports": everything},
                {"IPProtocol": "udp", "ports": everything},
                {"IPProtocol": "icmp"},
            ],
        ),
        "default-allow-ssh": (["0.0.0.0/0"], [{**tcp, "ports": ["22"]}]),
        "default-allow-rdp": (["0.0.0.0/0"], [{**tcp, "ports": ["3389"]}]),
        "default-allow-icmp": (["0.0.0.0/0"], [{"IPProtocol": "icmp"}]),
    }
    for name, (ranges, allowed) in entries.items():
        body = {
            "name": name,
            "network": network,
            "allowed": allowed,
            "sourceRanges": ranges,
            "priority": 65534,
        }
        add_rule(cloud, project, f"projects/{project}", body)


def add_cluster_rules(
    cloud: Cloud, project: str, owner: str, prefix: str, network: str, pod_range: str
) -> None:
    """Make GKE's rules of a cluster [facts google-cloud.md §11.4].

    `prefix` is `gke-<cluster>-<hash8>`; priority 1000 and target tag `<prefix>-node`.
    """
    subnets = [
        record.body["ipCidrRange"]
        for record in cloud.visible("subnetworks", project)
        if record.body["network"] == network
    ]
    kubelet = {"IPProtocol": "tcp", "ports": ["10255"]}
    entries: dict[str, Resource] = {
        "all": {
            "sourceRanges": [pod_range],
            "allowed": [
                {"IPProtocol": name} for name in ("ah", "sctp", "tcp", "udp", "icmp", "esp")
            ],
        },
        "vms": {
            "sourceRanges": subnets or ["10.128.0.0/9"],
            "allowed": [
                {"IPProtocol": "icmp"},
                {"IPProtocol": "tcp", "ports": ["1-65535"]},
                {"IPProtocol": "udp", "ports": ["1-65535"]},
            ],
        },
        "inkubelet": {"sourceRanges": [pod_range], "allowed": [kubelet], "priority": 999},
        "exkubelet": {"sourceRanges": ["0.0.0.0/0"], "denied": [kubelet]},
    }
    for suffix, entry in entries.items():
        body = {
            "name": f"{prefix}-{suffix}",
            "network": network,
            "targetTags": [f"{prefix}-node"],
            **entry,
        }
        add_rule(cloud, project, owner, body)
