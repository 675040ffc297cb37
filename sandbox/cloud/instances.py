"""VM instances, read only.

Owns how the nodes that clusters bring in (`sandbox.cloud.view`) look through Compute's API. Nobody
makes an instance over HTTP here.
"""

from __future__ import annotations

from sandbox.cloud import catalog
from sandbox.cloud.compute import Resource, aggregated_answer, list_answer, zone_of
from sandbox.cloud.core import Call
from sandbox.cloud.registry import endpoint

_CITATION = "facts google-cloud.md §11.1 (nodes hold NICs in the subnetworks)"


@endpoint(
    "compute",
    "GET",
    "projects/{project}/zones/{zone}/instances",
    citation=_CITATION,
    judges="gcloud",
)
def list_(call: Call) -> Resource:
    """List the instances of a zone."""
    zone = zone_of(call)
    items = [record.body for record in call.cloud.visible("instances", call.project, zone)]
    return list_answer(call, "instance", items, f"zones/{zone}")


@endpoint(
    "compute",
    "GET",
    "projects/{project}/zones/{zone}/instances/{name}",
    citation=_CITATION,
    judges="gcloud",
)
def get(call: Call) -> Resource:
    """Read an instance."""
    zone = zone_of(call)
    return call.cloud.require("instances", call.project, zone, call.params["name"]).body


@endpoint(
    "compute",
    "GET",
    "projects/{project}/aggregated/instances",
    citation=_CITATION,
    judges="gcloud",
)
def aggregated(call: Call) -> Resource:
    """List the instances of all zones."""
    items = [
        (f"zones/{zone}", record.body)
        for zone in catalog.all_zones(call.project)
        for record in call.cloud.visible("instances", call.project, zone)
    ]
    return aggregated_answer(call, "instance", "instances", items)
