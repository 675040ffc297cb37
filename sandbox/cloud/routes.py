"""Routes: the default route of each network, one per subnetwork, and those that users add.

Owns `compute.routes`. The routes that come with a network or subnetwork go with it and never block
its deletion; a user's route does [facts google-cloud.md §2].
"""

from __future__ import annotations

import secrets

from sandbox.cloud import links
from sandbox.cloud.compute import (
    Resource,
    begin,
    begin_deletion,
    body_of,
    list_answer,
    new_record,
    register_effects,
)
from sandbox.cloud.core import Call, Cloud
from sandbox.cloud.errors import ApiError, invalid_field, required_field
from sandbox.cloud.links import path
from sandbox.cloud.payload import compute_name, ipv4_range
from sandbox.cloud.registry import endpoint, rule
from sandbox.cloud.store import Record

_SECTION = "facts google-cloud.md §2 (delete_default_routes_on_create; default route)"
_NEXT_HOPS = (
    "nextHopGateway",
    "nextHopInstance",
    "nextHopIp",
    "nextHopIlb",
    "nextHopVpnTunnel",
)

rule(
    "routes.default",
    "a new network has a route 0.0.0.0/0 and one route per subnetwork; they do not block deletion",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "routes.custom-blocks",
    "a user's route blocks the deletion of its network",
    citation=_SECTION,
    judges="gcloud",
)


def add_default_route(cloud: Cloud, network: Record) -> None:
    """Add the route to the internet that each new network gets."""
    body = {
        "name": f"default-route-{secrets.token_hex(8)}",
        "description": "Default route to the Internet.",
        "network": network.body["selfLink"],
        "destRange": "0.0.0.0/0",
        "priority": 1000,
        "nextHopGateway": links.link(
            network.project, "global", "gateways", "default-internet-gateway"
        ),
        "routeType": "STATIC",
    }
    _add(cloud, network, body, path(network.project, "global", "networks", network.name))


def add_subnet_route(cloud: Cloud, subnetwork: Record, network: str) -> None:
    """Add the route of a subnetwork's primary range."""
    body = {
        "name": f"default-route-r-{secrets.token_hex(8)}",
        "description": f"Default local route to the subnetwork {subnetwork.body['ipCidrRange']}.",
        "network": subnetwork.body["network"],
        "destRange": subnetwork.body["ipCidrRange"],
        "priority": 0,
        "nextHopNetwork": subnetwork.body["network"],
        "routeType": "SUBNET",
    }
    owner = path(subnetwork.project, subnetwork.location, "subnetworks", subnetwork.name)
    _add(
        cloud,
        subnetwork,
        body,
        f"{path(subnetwork.project, 'global', 'networks', network)}/{owner}",
    )


def _add(cloud: Cloud, beside: Record, body: Resource, owner: str) -> None:
    cloud.store.put(
        new_record("routes", "route", beside.project, "global", body, state="ready", owner=owner)
    )


@endpoint("compute", "GET", "projects/{project}/global/routes", citation=_SECTION, judges="gcloud")
def list_(call: Call) -> Resource:
    """List routes."""
    items = [record.body for record in call.cloud.visible("routes", call.project)]
    return list_answer(call, "route", items, "global")


@endpoint(
    "compute", "GET", "projects/{project}/global/routes/{name}", citation=_SECTION, judges="gcloud"
)
def get(call: Call) -> Resource:
    """Read a route."""
    return call.cloud.require("routes", call.project, "global", call.params["name"]).body


@endpoint("compute", "POST", "projects/{project}/global/routes", citation="[K]", judges="gcloud")
def insert(call: Call) -> Resource:
    """Create a route."""
    body = body_of(call, "Route")
    name = compute_name(body)
    ipv4_range(body.get("destRange", ""), "resource.destRange")
    parsed = links.parse_network(body.get("network", ""), call.project)
    if not body.get("network"):
        raise required_field("resource.network")
    if parsed is None:
        raise invalid_field("resource.network", body["network"], "The URL is malformed.")
    if sum(1 for hop in _NEXT_HOPS if body.get(hop)) != 1:
        raise ApiError(400, "Exactly one next hop must be specified.", "invalid")
    call.cloud.require_ready("networks", *_project_and(parsed))
    call.cloud.refuse_existing("routes", call.project, "global", name)
    network = links.link(parsed[0], "global", "networks", parsed[1])
    body = {"priority": 1000, **body, "network": network, "routeType": "STATIC"}
    call.store.put(new_record("routes", "route", call.project, "global", body))
    requires = [path(parsed[0], "global", "networks", parsed[1])]
    return begin(call, "routes", "insert", "global", name, requires=requires)


def _project_and(parsed: tuple[str, str]) -> tuple[str, str, str]:
    return parsed[0], "global", parsed[1]


@endpoint(
    "compute",
    "DELETE",
    "projects/{project}/global/routes/{name}",
    citation=_SECTION,
    judges="gcloud",
)
def delete(call: Call) -> Resource:
    """Delete a route: a user's, or the default route to the internet."""
    record = call.cloud.require_ready("routes", call.project, "global", call.params["name"])
    if record.body["routeType"] == "SUBNET":
        raise ApiError(
            400,
            f"The local route '{path(call.project, 'global', 'routes', record.name)}' cannot be "
            "deleted.",
            "invalid",
        )
    return begin_deletion(call, record)


register_effects("routes", quota="ROUTES")
