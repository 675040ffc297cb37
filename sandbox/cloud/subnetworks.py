"""Subnetworks: ranges, overlap, growth, and who uses them.

Owns `compute.subnetworks`. Citations: facts google-cloud.md §3 unless said otherwise.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from sandbox.cloud import catalog, links
from sandbox.cloud.compute import (
    Resource,
    aggregated_answer,
    begin,
    begin_deletion,
    body_of,
    changed,
    check_fingerprint,
    list_answer,
    new_record,
    patch_of,
    region_of,
    register_effects,
    scope_of,
)
from sandbox.cloud.core import Call, Cloud
from sandbox.cloud.errors import ApiError, in_use, invalid_field, required_field
from sandbox.cloud.links import path
from sandbox.cloud.payload import NAME, compute_name, ipv4_range
from sandbox.cloud.registry import endpoint, rule
from sandbox.cloud.routes import add_subnet_route
from sandbox.cloud.store import Record, fingerprint

_SECTION = "facts google-cloud.md §3"
_RECORDED = "facts gcloud-requests.md; real-provider.md (requests)"
_PREFIX = (8, 29)
_UPDATABLE = (
    "logConfig",
    "privateIpGoogleAccess",
    "privateIpv6GoogleAccess",
    "purpose",
    "role",
    "secondaryIpRanges",
    "stackType",
    "ipv6AccessType",
    "allowSubnetCidrRoutesOverlap",
)
_BASE = "projects/{project}/regions/{region}/subnetworks"

rule("subnetworks.cidr", "a range is CIDR without host bits", citation=_SECTION, judges="gcloud")
rule("subnetworks.prefix", "a primary range is /8 to /29", citation=_SECTION, judges="gcloud")
rule(
    "subnetworks.overlap",
    "no two ranges of one VPC overlap, in any region",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "subnetworks.other-vpc",
    "the same range in two VPCs is fine",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "subnetworks.auto-range",
    "in auto mode networks not within 10.128.0.0/9",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "subnetworks.no-network",
    "an unknown network answers 404 notFound",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "subnetworks.not-ready",
    "a network still being made answers resourceNotReady",
    citation="§1.7",
    judges="gcloud",
)
rule(
    "subnetworks.region",
    "an unknown region answers 400",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "subnetworks.in-use",
    "in use: refused in the call, one user named",
    citation=f"{_SECTION}; §0.2",
    judges="gcloud",
)
rule(
    "subnetworks.expand",
    "a range may only grow around the old one",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "subnetworks.outputs",
    "gateway is the first host; PRIVATE, IPV4_ONLY",
    citation=f"{_SECTION} [R]",
    judges="gcloud",
)
rule(
    "subnetworks.fingerprint",
    "a patch needs the present fingerprint",
    citation=f"{_SECTION} [K]",
    judges="gcloud",
)


def ranges(record: Record) -> Iterator[ipaddress.IPv4Network]:
    """Yield the primary and the secondary ranges of a subnetwork."""
    yield ipaddress.IPv4Network(record.body["ipCidrRange"])
    for secondary in record.body.get("secondaryIpRanges", []):
        yield ipaddress.IPv4Network(secondary["ipCidrRange"])


def conflict(
    cloud: Cloud, project: str, network: str, wanted: ipaddress.IPv4Network, *, but: str = ""
) -> Record | None:
    """Return a subnetwork of the VPC that overlaps a range; `but` is a path to leave out."""
    for other in cloud.store.find(kind="subnetworks", project=project):
        if other.body["network"] != network:
            continue
        if path(project, other.location, "subnetworks", other.name) == but:
            continue
        if any(wanted.overlaps(taken) for taken in ranges(other)):
            return other
    return None


def _refuse_overlap(
    cloud: Cloud, project: str, network: str, value: str, field: str, *, but: str = ""
) -> ipaddress.IPv4Network:
    wanted = ipv4_range(value, field)
    other = conflict(cloud, project, network, wanted, but=but)
    if other is not None:
        raise invalid_field(
            field,
            value,
            f"Invalid IPCidrRange: {value} conflicts with existing subnetwork '{other.name}' in "
            f"region '{other.location}'.",
        )
    return wanted


def _check_primary(value: str) -> ipaddress.IPv4Network:
    wanted = ipv4_range(value, "resource.ipCidrRange")
    low, high = _PREFIX
    if not low <= wanted.prefixlen <= high:
        raise invalid_field(
            "resource.ipCidrRange",
            value,
            f"The prefix length must be from /{low} to /{high}.",
        )
    return wanted


def _check_secondary(
    cloud: Cloud, project: str, network: str, body: Resource, primary: str, *, but: str = ""
) -> None:
    seen = [ipaddress.IPv4Network(primary)]
    names: set[str] = set()
    for number, entry in enumerate(body.get("secondaryIpRanges", [])):
        at = f"resource.secondaryIpRanges[{number}]"
        name = entry.get("rangeName", "")
        if not NAME.fullmatch(name) or name in names:
            raise invalid_field(
                f"{at}.rangeName", name, f"Must be unique and match regex '{NAME.pattern}'"
            )
        names.add(name)
        field = f"{at}.ipCidrRange"
        value = entry.get("ipCidrRange", "")
        wanted = _refuse_overlap(cloud, project, network, value, field, but=but)
        if any(wanted.overlaps(other) for other in seen):
            raise invalid_field(field, value, "Overlaps another range of this subnetwork.")
        seen.append(wanted)


@endpoint("compute", "POST", _BASE, citation=_RECORDED, judges="gcloud provider")
def insert(call: Call) -> Resource:
    """Create a subnetwork; the region of the path counts, not the one of the body."""
    region = region_of(call)
    body = body_of(call, "Subnetwork")
    name = compute_name(body)
    given = body.get("network", "")
    if not given:
        raise required_field("resource.network")
    parsed = links.parse_network(given, call.project)
    if parsed is None:
        raise invalid_field("resource.network", given, "The URL is malformed.")
    value = body.get("ipCidrRange", "")
    if not value:
        raise required_field("resource.ipCidrRange")
    wanted = _check_primary(value)
    network = call.cloud.require_ready("networks", parsed[0], "global", parsed[1])
    call.cloud.refuse_existing("subnetworks", call.project, region, name)
    if network.body["autoCreateSubnetworks"] and wanted.overlaps(
        ipaddress.IPv4Network(catalog.AUTO_MODE_RANGE)
    ):
        raise invalid_field(
            "resource.ipCidrRange",
            value,
            "Extended subnetworks in auto subnet mode networks cannot overlap with 10.128.0.0/9.",
        )
    body["network"] = network.body["selfLink"]
    _refuse_overlap(call.cloud, call.project, body["network"], value, "resource.ipCidrRange")
    _check_secondary(call.cloud, call.project, body["network"], body, value)
    call.store.put(_new(call.project, region, body, state="creating"))
    return begin(
        call,
        "subnetworks",
        "insert",
        region,
        name,
        requires=[path(parsed[0], "global", "networks", parsed[1])],
    )


def _new(project: str, region: str, body: Resource, *, state: str, owner: str = "") -> Record:
    primary = ipaddress.IPv4Network(body["ipCidrRange"])
    filled = {**_defaults(body), "gatewayAddress": str(primary[1]), "state": "READY"}
    record = new_record(
        "subnetworks", "subnetwork", project, region, filled, state=state, owner=owner
    )
    record.body["fingerprint"] = fingerprint(record.body)
    return record


def _defaults(body: Resource) -> Resource:
    """Fill what the API fills [R]."""
    return {
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "logConfig": {"enable": False},
        **{key: value for key, value in body.items() if value != ""},
    }


def add_auto_subnetworks(cloud: Cloud, network: Record) -> None:
    """Make the subnetwork that an auto mode network has in each region; its name is the VPC's."""
    for region, known in catalog.regions(network.project).items():
        body = {
            "name": network.name,
            "network": network.body["selfLink"],
            "ipCidrRange": known.auto_range,
        }
        owner = path(network.project, "global", "networks", network.name)
        record = _new(network.project, region, body, state="ready", owner=owner)
        cloud.store.put(record)
        add_subnet_route(cloud, record, network.name)


@endpoint("compute", "GET", _BASE + "/{name}", citation=_RECORDED, judges="gcloud provider")
def get(call: Call) -> Resource:
    """Read a subnetwork."""
    return call.cloud.require(
        "subnetworks", call.project, region_of(call), call.params["name"]
    ).body


@endpoint("compute", "GET", _BASE, citation="facts gcloud-requests.md (list)", judges="gcloud")
def list_(call: Call) -> Resource:
    """List the subnetworks of a region."""
    region = region_of(call)
    items = [record.body for record in call.cloud.visible("subnetworks", call.project, region)]
    return list_answer(call, "subnetwork", items, f"regions/{region}")


@endpoint(
    "compute",
    "GET",
    "projects/{project}/aggregated/subnetworks",
    citation="facts gcloud-requests.md (list)",
    judges="gcloud",
)
def aggregated(call: Call) -> Resource:
    """List the subnetworks of all regions."""
    records = call.cloud.visible("subnetworks", call.project)
    items = [(scope_of(call.project, record.location), record.body) for record in records]
    return aggregated_answer(call, "subnetwork", "subnetworks", items)


def _begin_patch(call: Call, record: Record, changes: Resource, verb: str = "patch") -> Resource:
    changes["fingerprint"] = fingerprint(changed(record.body, changes))
    answer = begin(
        call, "subnetworks", "patch", record.location, record.name, params={"changes": changes}
    )
    return {**answer, "operationType": verb}


@endpoint("compute", "PATCH", _BASE + "/{name}", citation=_SECTION, judges="gcloud")
def patch(call: Call) -> Resource:
    """Change secondary ranges, logging or access; the primary range grows by another call."""
    record = call.cloud.require_ready(
        "subnetworks", call.project, region_of(call), call.params["name"]
    )
    body = body_of(call, "Subnetwork")
    check_fingerprint(record, body)
    where = path(call.project, record.location, "subnetworks", record.name)
    _check_secondary(
        call.cloud,
        call.project,
        record.body["network"],
        body,
        record.body["ipCidrRange"],
        but=where,
    )
    changes = patch_of(call, record.body, body, _UPDATABLE, defaults=_defaults)
    return _begin_patch(call, record, changes)


@endpoint(
    "compute",
    "POST",
    _BASE + "/{name}/expandIpCidrRange",
    citation="facts real-provider.md (updates)",
    judges="gcloud provider",
)
def expand(call: Call) -> Resource:
    """Grow the primary range around the old one."""
    record = call.cloud.require_ready(
        "subnetworks", call.project, region_of(call), call.params["name"]
    )
    body = body_of(call, "SubnetworksExpandIpCidrRangeRequest")
    value = body.get("ipCidrRange", "")
    wanted = _check_primary(value)
    old = ipaddress.IPv4Network(record.body["ipCidrRange"])
    if not old.subnet_of(wanted) or wanted == old:
        raise invalid_field("ipCidrRange", value, f"The new range must contain the old one, {old}.")
    where = path(call.project, record.location, "subnetworks", record.name)
    network = record.body["network"]
    _refuse_overlap(call.cloud, call.project, network, value, "ipCidrRange", but=where)
    if any(wanted.overlaps(own) for own in list(ranges(record))[1:]):
        raise invalid_field("ipCidrRange", value, "Overlaps a secondary range of this subnetwork.")
    changes = {"ipCidrRange": value, "gatewayAddress": str(wanted[1])}
    return _begin_patch(call, record, changes, "expandIpCidrRange")


@endpoint(
    "compute", "POST", _BASE + "/{name}/setPrivateIpGoogleAccess", citation="[K]", judges="gcloud"
)
def set_private_access(call: Call) -> Resource:
    """Switch access to Google's services without public addresses."""
    record = call.cloud.require_ready(
        "subnetworks", call.project, region_of(call), call.params["name"]
    )
    body = body_of(call, "SubnetworksSetPrivateIpGoogleAccessRequest")
    changes = {"privateIpGoogleAccess": body.get("privateIpGoogleAccess", False)}
    return _begin_patch(call, record, changes, "setPrivateIpGoogleAccess")


@endpoint("compute", "DELETE", _BASE + "/{name}", citation=_RECORDED, judges="gcloud provider")
def delete(call: Call) -> Resource:
    """Delete a subnetwork that nothing uses."""
    region = region_of(call)
    record = call.cloud.require_ready("subnetworks", call.project, region, call.params["name"])
    where = path(call.project, region, "subnetworks", record.name)
    user = holder(call.cloud, record)
    if user is not None:
        raise in_use("subnetwork", where, user)
    if record.owner:
        raise ApiError(
            400,
            f"Cannot delete auto subnetwork '{where}' of an auto subnet mode network.",
            "invalid",
        )
    return begin_deletion(call, record)


def holder(cloud: Cloud, record: Record) -> str | None:
    """Return the path of one thing that uses a subnetwork: a VM's NIC or a control plane's.

    A cluster without nodes holds its subnetwork through the forwarding rule of its private
    endpoint [facts google-cloud.md §3: rules made by GKE block too; the name's form is K].
    """
    link = record.body["selfLink"]
    for instance in cloud.store.find(kind="instances", project=record.project):
        for nic in instance.body.get("networkInterfaces", []):
            parsed = links.parse_subnetwork(
                str(nic.get("subnetwork", "")), record.project, record.location
            )
            if parsed == (record.project, record.location, record.name):
                return path(instance.project, instance.location, "instances", instance.name)
    for rule_ in cloud.store.find(kind="forwardingRules", project=record.project):
        if rule_.body["subnetwork"] == link:
            return path(rule_.project, rule_.location, "forwardingRules", rule_.name)
    return None


def _after_insert(cloud: Cloud, record: Record) -> None:
    add_subnet_route(cloud, record, record.body["network"].rpartition("/")[2])


def _before_delete(cloud: Cloud, record: Record) -> None:
    owner = path(record.project, record.location, "subnetworks", record.name)
    network = path(record.project, "global", "networks", record.body["network"].rpartition("/")[2])
    cloud.store.delete_owned(f"{network}/{owner}")


register_effects(
    "subnetworks",
    quota="SUBNETWORKS",
    after_insert=_after_insert,
    before_delete=_before_delete,
)
