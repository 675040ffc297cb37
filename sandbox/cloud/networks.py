"""VPC networks, and the `default` network of a project.

Owns `compute.networks` and the default auto mode network that Google makes when Compute is first
enabled in a project. Citations: facts google-cloud.md §2 unless said otherwise.
"""

from __future__ import annotations

from sandbox.cloud.compute import (
    Resource,
    begin,
    begin_deletion,
    body_of,
    list_answer,
    new_record,
    patch_of,
    register_effects,
)
from sandbox.cloud.core import Call, Cloud
from sandbox.cloud.errors import OperationError, in_use_text, invalid_field
from sandbox.cloud.firewalls import default_firewalls
from sandbox.cloud.links import link, parse_network, path
from sandbox.cloud.payload import compute_name
from sandbox.cloud.registry import endpoint, rule
from sandbox.cloud.routes import add_default_route
from sandbox.cloud.store import Record
from sandbox.cloud.subnetworks import add_auto_subnetworks

_SECTION = "facts google-cloud.md §2"
_RECORDED = "facts gcloud-requests.md; real-provider.md (requests)"
_UPDATABLE = ("mtu", "routingConfig", "networkFirewallPolicyEnforcementOrder")
MTU_BYTES = (1300, 8896)
_ROUTING = {"routingMode": "REGIONAL", "bgpBestPathSelectionMode": "LEGACY"}

rule(
    "networks.name",
    "a name is RFC 1035, 1 to 63 characters",
    citation="facts google-cloud.md §1.1",
    judges="gcloud",
)
rule(
    "networks.mtu-range",
    "the MTU is 1300 to 8896 bytes",
    citation=f"{_SECTION} (mtu)",
    judges="gcloud",
)
rule(
    "networks.mtu-unset",
    "an MTU that was not given is not in answers",
    citation=f"{_SECTION} [R]",
    judges="gcloud",
)
rule(
    "networks.exists",
    "a second insert of a name answers 409 alreadyExists",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "networks.quota",
    "NETWORKS is checked in the operation, the `default` network counts",
    citation=f"{_SECTION}; §0.2",
    judges="gcloud provider",
)
rule(
    "networks.in-use",
    "deletion of a network in use fails in the operation and names one holder",
    citation=f"{_SECTION}; §0.2",
    judges="gcloud",
)
rule(
    "networks.no-legacy",
    "an insert without autoCreateSubnetworks asks for a legacy network and is refused",
    citation="[K]",
    judges="gcloud",
)
rule(
    "networks.default",
    "enabling Compute makes the auto mode network `default`; S3NS projects have none",
    citation="facts google-cloud.md §2; autopilot.md §5 (no default network)",
    judges="gcloud",
)


def _check_mtu(body: Resource) -> None:
    if "mtu" not in body:
        return
    low, high = MTU_BYTES
    if body["mtu"] < low:
        raise invalid_field("resource.mtu", body["mtu"], f"Must be greater than or equal to {low}")
    if body["mtu"] > high:
        raise invalid_field("resource.mtu", body["mtu"], f"Must be less than or equal to {high}")


def _defaults(body: Resource) -> Resource:
    order = body.get("networkFirewallPolicyEnforcementOrder") or "AFTER_CLASSIC_FIREWALL"
    return {
        **body,
        "routingConfig": {**_ROUTING, **body.get("routingConfig", {})},
        "networkFirewallPolicyEnforcementOrder": order,
    }


@endpoint(
    "compute",
    "POST",
    "projects/{project}/global/networks",
    citation=_RECORDED,
    judges="gcloud provider",
)
def insert(call: Call) -> Resource:
    """Create a network."""
    body = body_of(call, "Network")
    name = compute_name(body)
    _check_mtu(body)
    if "autoCreateSubnetworks" not in body or "IPv4Range" in body:
        raise invalid_field(
            "resource.autoCreateSubnetworks", "", "Legacy networks are not supported."
        )
    if body.get("internalIpv6Range"):
        raise invalid_field(
            "resource.internalIpv6Range",
            body["internalIpv6Range"],
            "This stand-in has no internal IPv6 ranges.",
        )
    call.cloud.refuse_existing("networks", call.project, "global", name)
    call.store.put(new_record("networks", "network", call.project, "global", _defaults(body)))
    return begin(call, "networks", "insert", "global", name)


@endpoint(
    "compute",
    "GET",
    "projects/{project}/global/networks/{name}",
    citation=_RECORDED,
    judges="gcloud provider",
)
def get(call: Call) -> Resource:
    """Read a network."""
    name = call.params["name"]
    return render(call.cloud, call.cloud.require("networks", call.project, "global", name))


@endpoint(
    "compute",
    "GET",
    "projects/{project}/global/networks",
    citation="facts gcloud-requests.md (networks list)",
    judges="gcloud",
)
def list_(call: Call) -> Resource:
    """List networks."""
    records = call.cloud.visible("networks", call.project)
    items = [render(call.cloud, record) for record in records]
    return list_answer(call, "network", items, "global")


@endpoint(
    "compute",
    "PATCH",
    "projects/{project}/global/networks/{name}",
    citation="facts real-provider.md (updates)",
    judges="gcloud provider",
)
def patch(call: Call) -> Resource:
    """Change MTU, routing or the firewall policy order; nothing else can change in place."""
    name = call.params["name"]
    body = body_of(call, "Network")
    record = call.cloud.require_ready("networks", call.project, "global", name)
    _check_mtu(body)
    changes = patch_of(call, record.body, body, _UPDATABLE, defaults=_defaults)
    return begin(call, "networks", "patch", "global", name, params={"changes": changes})


@endpoint(
    "compute",
    "DELETE",
    "projects/{project}/global/networks/{name}",
    citation=_RECORDED,
    judges="gcloud provider",
)
def delete(call: Call) -> Resource:
    """Delete a network; what holds it shows in the operation [facts google-cloud.md §0.2]."""
    record = call.cloud.require_ready("networks", call.project, "global", call.params["name"])
    return begin_deletion(call, record)


def render(cloud: Cloud, record: Record) -> Resource:
    """Return a network as clients see it: with the links of its subnetworks."""
    subnetworks = [
        subnetwork.body["selfLink"]
        for subnetwork in cloud.visible("subnetworks", record.project)
        if subnetwork.body["network"] == record.body["selfLink"]
    ]
    return {**record.body, "subnetworks": subnetworks} if subnetworks else record.body


def holder(cloud: Cloud, record: Record) -> str | None:
    """Return the path of one resource that keeps a network from being deleted, or None."""
    network = record.body["selfLink"]
    for kind in ("firewalls", "subnetworks", "routes"):
        for other in cloud.store.find(kind=kind, project=record.project):
            made_by_network = other.owner.startswith(path(record.project, "global", "networks", ""))
            if other.body["network"] == network and not made_by_network:
                return path(other.project, other.location, kind, other.name)
    for instance in cloud.store.find(kind="instances", project=record.project):
        interfaces = instance.body.get("networkInterfaces", [])
        given = [parse_network(str(nic.get("network", "")), record.project) for nic in interfaces]
        if (record.project, record.name) in given:
            return path(instance.project, instance.location, "instances", instance.name)
    return None


def _after_insert(cloud: Cloud, record: Record) -> None:
    add_default_route(cloud, record)
    if record.body["autoCreateSubnetworks"]:
        add_auto_subnetworks(cloud, record)


def _before_delete(cloud: Cloud, record: Record) -> None:
    where = path(record.project, "global", "networks", record.name)
    blocker = holder(cloud, record)
    if blocker is not None:
        raise OperationError(
            "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", in_use_text("network", where, blocker)
        )
    cloud.store.delete_owned(where)


register_effects(
    "networks", quota="NETWORKS", after_insert=_after_insert, before_delete=_before_delete
)


def add_default_network(cloud: Cloud, project: str) -> None:
    """Make the `default` network with its subnetworks and firewall rules.

    Left out for S3NS projects (their cloud makes none) and for projects whose admin setting
    `defaultNetwork` is false.
    """
    wanted = cloud.project_setting(project).get("defaultNetwork", not project.startswith("s3ns:"))
    if not wanted or cloud.store.get("networks", project, "global", "default") is not None:
        return
    body = _defaults(
        {
            "name": "default",
            "autoCreateSubnetworks": True,
            "description": "Default network for the project",
        }
    )
    record = new_record(
        "networks", "network", project, "global", body, state="ready", owner=f"projects/{project}"
    )
    cloud.store.put(record)
    _after_insert(cloud, record)
    default_firewalls(cloud, project, link(project, "global", "networks", "default"))
