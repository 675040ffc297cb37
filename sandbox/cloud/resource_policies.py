"""Resource policies: compact placement and workload policies.

Owns `compute.resourcePolicies` [facts google-cloud.md §5]. Snapshot and instance schedules are
accepted in form and have no effect.
"""

from __future__ import annotations

from sandbox.cloud.compute import (
    Resource,
    aggregated_answer,
    begin,
    begin_deletion,
    body_of,
    list_answer,
    new_record,
    patch_of,
    region_of,
    register_effects,
    scope_of,
)
from sandbox.cloud.core import Call
from sandbox.cloud.errors import ApiError
from sandbox.cloud.payload import compute_name
from sandbox.cloud.registry import endpoint, rule

_SECTION = "facts google-cloud.md §5"
_BASE = "projects/{project}/regions/{region}/resourcePolicies"
_POLICIES = (
    "groupPlacementPolicy",
    "workloadPolicy",
    "snapshotSchedulePolicy",
    "instanceSchedulePolicy",
    "diskConsistencyGroupPolicy",
)

rule(
    "resource-policies.name",
    "the API checks the name, RFC 1035",
    citation="facts §1.1",
    judges="gcloud",
)
rule("resource-policies.one", "exactly one policy block", citation=_SECTION)


@endpoint("compute", "POST", _BASE, citation=_SECTION, judges="gcloud")
def insert(call: Call) -> Resource:
    """Create a resource policy."""
    region = region_of(call)
    body = body_of(call, "ResourcePolicy")
    name = compute_name(body)
    if sum(1 for key in _POLICIES if key in body) != 1:
        raise ApiError(
            400,
            "Invalid value for field 'resource': ''. Exactly one policy must be specified.",
            "invalid",
        )
    call.cloud.refuse_existing("resourcePolicies", call.project, region, name)
    record = new_record("resourcePolicies", "resourcePolicy", call.project, region, body)
    record.body["status"] = "READY"
    call.store.put(record)
    return begin(call, "resourcePolicies", "insert", region, name)


@endpoint("compute", "GET", _BASE + "/{name}", citation=_SECTION, judges="gcloud")
def get(call: Call) -> Resource:
    """Read a resource policy."""
    region = region_of(call)
    return call.cloud.require("resourcePolicies", call.project, region, call.params["name"]).body


@endpoint("compute", "GET", _BASE, citation=_SECTION, judges="gcloud")
def list_(call: Call) -> Resource:
    """List the resource policies of a region."""
    region = region_of(call)
    records = call.cloud.visible("resourcePolicies", call.project, region)
    items = [record.body for record in records]
    return list_answer(call, "resourcePolicy", items, f"regions/{region}")


@endpoint(
    "compute",
    "GET",
    "projects/{project}/aggregated/resourcePolicies",
    citation=_SECTION,
    judges="gcloud",
)
def aggregated(call: Call) -> Resource:
    """List the resource policies of all regions."""
    records = call.cloud.visible("resourcePolicies", call.project)
    items = [(scope_of(call.project, record.location), record.body) for record in records]
    return aggregated_answer(call, "resourcePolicy", "resourcePolicies", items)


@endpoint("compute", "PATCH", _BASE + "/{name}", citation=_SECTION, judges="gcloud")
def patch(call: Call) -> Resource:
    """Change a policy in place; a new name is another URL and answers 404."""
    region = region_of(call)
    name = call.params["name"]
    record = call.cloud.require_ready("resourcePolicies", call.project, region, name)
    body = body_of(call, "ResourcePolicy")
    changes = patch_of(call, record.body, body, ("description", *_POLICIES))
    return begin(call, "resourcePolicies", "patch", region, name, params={"changes": changes})


@endpoint("compute", "DELETE", _BASE + "/{name}", citation=_SECTION, judges="gcloud")
def delete(call: Call) -> Resource:
    """Delete a resource policy."""
    region, name = region_of(call), call.params["name"]
    record = call.cloud.require_ready("resourcePolicies", call.project, region, name)
    return begin_deletion(call, record)


register_effects("resourcePolicies")
