"""Where a cluster lives in the VPC: network, subnetwork, Pod and Service ranges.

Owns what GKE does to the VPC of a cluster: it takes ranges, adds secondary ranges to the
subnetwork, holds the subnetwork, makes firewall rules, and takes all of it back on deletion.
Citations: facts google-cloud.md §6.3, §6.4, §11.4.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.cloud import links
from sandbox.cloud.compute import new_record
from sandbox.cloud.core import Cloud
from sandbox.cloud.errors import bad_request
from sandbox.cloud.firewalls import add_cluster_rules
from sandbox.cloud.payload import parse_range
from sandbox.cloud.registry import rule
from sandbox.cloud.store import Record, fingerprint
from sandbox.cloud.subnetworks import conflict

_SECTION = "facts google-cloud.md §6.4"
_READ_BACK = "facts google-cloud.md §6.3"
_POD_PREFIX = 17
GOOGLE_SERVICE_RANGE = "34.118.224.0/20"
"""Services of an Autopilot cluster that asks for no range of its own [facts §6.3, K]."""
_POOL = ipaddress.IPv4Network("10.0.0.0/8")

rule(
    "clusters.network",
    "an unknown network is refused",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "clusters.subnetwork",
    "a subnetwork must be of the cluster's network",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "clusters.secondary-range",
    "a named secondary range must exist",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "clusters.ranges",
    "Pods get a /17 in a secondary range, Services Google's",
    citation=_READ_BACK,
    judges="gcloud",
)
rule(
    "clusters.range-overlap",
    "given ranges must not overlap the VPC's",
    citation="[K: wording]",
    judges="gcloud",
)
rule(
    "clusters.firewalls",
    "GKE's firewall rules come and go with the cluster, in its own network alone",
    citation="facts google-cloud.md §11.4",
    judges="gcloud",
)
rule(
    "clusters.hold-subnetwork",
    "a cluster's subnetwork cannot be deleted while the cluster exists",
    citation="facts google-cloud.md §3, §11.1",
    judges="gcloud",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where a cluster goes; ranges as CIDR, range names empty where there is none."""

    network: str
    subnetwork: str
    region: str
    pod_range: str
    pod_range_name: str
    service_range: str
    service_range_name: str
    pods_are_new: bool
    services_are_new: bool


def place(
    cloud: Cloud, project: str, region: str, body: Mapping[str, Any], name: str, digest: str
) -> Placement:
    """Decide where a cluster goes.

    Raises:
        ApiError: 400 in the words of facts google-cloud.md §6.4.
    """
    network = _network(cloud, project, body)
    subnetwork = _subnetwork(cloud, project, region, network, body)
    policy = body.get("ipAllocationPolicy", {})
    if policy.get("createSubnetwork"):
        raise bad_request(
            "This stand-in makes no subnetwork for a cluster: make it first and name it in the "
            "field subnetwork."
        )
    taken: list[ipaddress.IPv4Network] = []
    pods = _range(
        cloud,
        subnetwork,
        named=policy.get("clusterSecondaryRangeName", ""),
        asked=policy.get("clusterIpv4CidrBlock")
        or body.get("clusterIpv4Cidr")
        or f"/{_POD_PREFIX}",
        what="Pod",
        taken=taken,
    )
    pod_name = policy.get("clusterSecondaryRangeName") or f"gke-{name}-pods-{digest}"
    service_name = policy.get("servicesSecondaryRangeName", "")
    asked = policy.get("servicesIpv4CidrBlock", "")
    google_range = asked in ("", GOOGLE_SERVICE_RANGE) and not service_name
    if google_range:
        services = GOOGLE_SERVICE_RANGE
    else:
        services = _range(
            cloud, subnetwork, named=service_name, asked=asked, what="Services", taken=taken
        )
        service_name = service_name or f"gke-{name}-services-{digest}"
    return Placement(
        network=network.name,
        subnetwork=subnetwork.name,
        region=region,
        pod_range=pods,
        pod_range_name=pod_name,
        service_range=services,
        service_range_name=service_name,
        pods_are_new=not policy.get("clusterSecondaryRangeName"),
        services_are_new=not google_range and not policy.get("servicesSecondaryRangeName"),
    )


def _network(cloud: Cloud, project: str, body: Mapping[str, Any]) -> Record:
    given = body.get("networkConfig", {}).get("network") or body.get("network") or "default"
    parsed = links.parse_network(given, project)
    record = cloud.store.get("networks", project, "global", parsed[1]) if parsed else None
    if parsed is None or parsed[0] != project or record is None or record.state != "ready":
        name = parsed[1] if parsed else given
        raise bad_request(f'Project "{project}" has no network named "{name}".')
    return record


def _subnetwork(
    cloud: Cloud, project: str, region: str, network: Record, body: Mapping[str, Any]
) -> Record:
    given = body.get("networkConfig", {}).get("subnetwork") or body.get("subnetwork") or ""
    if not given:
        if not network.body["autoCreateSubnetworks"]:
            raise bad_request(
                f'Network "{network.name}" requires a subnetwork to be specified, since it is in '
                "custom subnet mode."
            )
        given = network.name
    parsed = links.parse_subnetwork(given, project, region)
    record = cloud.store.get("subnetworks", *parsed) if parsed else None
    if parsed is None or parsed[1] != region or record is None or record.state != "ready":
        shown = links.path(*parsed[:2], "subnetworks", parsed[2]) if parsed else given
        raise bad_request(f'Subnetwork "{shown}" not found in region "{region}".')
    if record.body["network"] != network.body["selfLink"]:
        shown = links.path(project, region, "subnetworks", record.name)
        raise bad_request(f'Subnetwork "{shown}" is not valid for Network "{network.name}".')
    return record


def _range(
    cloud: Cloud,
    subnetwork: Record,
    *,
    named: str,
    asked: str,
    what: str,
    taken: list[ipaddress.IPv4Network],
) -> str:
    if named:
        for secondary in subnetwork.body.get("secondaryIpRanges", []):
            if secondary["rangeName"] == named:
                return str(secondary["ipCidrRange"])
        raise bad_request(
            f'{what} secondary range "{named}" not found in network '
            f'"{subnetwork.body["network"]}", subnetwork "{subnetwork.name}".'
        )
    prefix = re.fullmatch(r"/([0-9]{1,2})", asked)
    if prefix and 9 <= int(prefix[1]) <= 29:
        found = _free(cloud, subnetwork, int(prefix[1]), taken)
    else:
        found = _parsed(asked, what)
        other = conflict(cloud, subnetwork.project, subnetwork.body["network"], found)
        if other is not None or any(found.overlaps(range_) for range_ in taken):
            holder = f'subnetwork "{other.name}"' if other else "another range of the cluster"
            raise bad_request(f'{what} address range "{asked}" conflicts with {holder}.')
    taken.append(found)
    return str(found)


def _parsed(asked: str, what: str) -> ipaddress.IPv4Network:
    found = parse_range(asked)
    if found is None:
        raise bad_request(f'{what} address range "{asked}" is not a valid CIDR range.')
    return found


def _free(
    cloud: Cloud, subnetwork: Record, prefix: int, taken: list[ipaddress.IPv4Network]
) -> ipaddress.IPv4Network:
    """Return the first free range of a size, leaving the ranges of auto mode networks alone."""
    auto = ipaddress.IPv4Network("10.128.0.0/9")
    network = subnetwork.body["network"]
    for candidate in _POOL.subnets(new_prefix=prefix):
        if candidate.overlaps(auto) or any(candidate.overlaps(range_) for range_ in taken):
            continue
        if conflict(cloud, subnetwork.project, network, candidate) is None:
            return candidate
    raise bad_request(f'No free /{prefix} range is left in network "{network}".')


def reserve(cloud: Cloud, project: str, placement: Placement, owner: str, prefix: str) -> None:
    """Add the secondary ranges to the subnetwork and hold it.

    The hold is the forwarding rule of the control plane's private endpoint
    [facts google-cloud.md §3: forwarding rules made by GKE block; the name's form is K].
    """
    record = cloud.require("subnetworks", project, placement.region, placement.subnetwork)
    ranges = record.body.setdefault("secondaryIpRanges", [])
    if placement.pods_are_new:
        ranges.append({"rangeName": placement.pod_range_name, "ipCidrRange": placement.pod_range})
    if placement.services_are_new:
        ranges.append(
            {"rangeName": placement.service_range_name, "ipCidrRange": placement.service_range}
        )
    record.body["fingerprint"] = fingerprint(record.body)
    cloud.store.put(record)
    hold = {"name": f"{prefix}-pe", "subnetwork": record.body["selfLink"]}
    cloud.store.put(
        new_record(
            "forwardingRules",
            "forwardingRule",
            project,
            placement.region,
            hold,
            state="ready",
            owner=owner,
        )
    )


def add_firewalls(cloud: Cloud, project: str, cluster: Mapping[str, Any], owner: str) -> None:
    """Make GKE's firewall rules for a cluster."""
    add_cluster_rules(
        cloud,
        project,
        owner,
        f"gke-{cluster['name']}-{cluster['id'][:8]}",
        links.link(project, "global", "networks", cluster["network"]),
        cluster["clusterIpv4Cidr"],
    )


def release(cloud: Cloud, project: str, cluster: Mapping[str, Any], owner: str) -> None:
    """Take back what the cluster had: its nodes, rules, hold and the ranges that GKE made."""
    cloud.store.delete_owned(owner)
    region = cluster["location"]
    record = cloud.store.get("subnetworks", project, region, cluster["subnetwork"])
    if record is None or "secondaryIpRanges" not in record.body:
        return
    digest = cluster["id"][:8]
    made = {f"gke-{cluster['name']}-{use}-{digest}" for use in ("pods", "services")}
    record.body["secondaryIpRanges"] = [
        entry for entry in record.body["secondaryIpRanges"] if entry["rangeName"] not in made
    ]
    if not record.body["secondaryIpRanges"]:
        del record.body["secondaryIpRanges"]
    record.body["fingerprint"] = fingerprint(record.body)
    cloud.store.put(record)
