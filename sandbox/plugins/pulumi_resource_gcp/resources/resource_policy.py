"""`gcp:compute/resourcePolicy:ResourcePolicy`, as far as placement goes [facts google-cloud.md §5].

Schedules for snapshots and instances are refused: nothing here would carry them out.
"""

from __future__ import annotations

from typing import ClassVar

from ..checking import AutoName
from ..configuration import ProviderConfig
from ..links import same_link, self_link_v1
from ..mapping import Json, expand
from ..schema import Field, Fields, Type, one_of
from ..values import Properties
from .base import DELETION_POLICY, PROJECT, Call
from .compute import ComputeResource

_POLICIES = (
    "group_placement_policy",
    "snapshot_schedule_policy",
    "instance_schedule_policy",
    "disk_consistency_group_policy",
)


def _others(own: str) -> tuple[str, ...]:
    return tuple(name for name in _POLICIES if name != own)


_PLACEMENT: Fields = {
    "vmCount": Field(type=Type.INT, api="vmCount"),
    "availabilityDomainCount": Field(type=Type.INT, api="availabilityDomainCount"),
    "collocation": Field(api="collocation", validators=(one_of("COLLOCATED", ""),)),
    "maxDistance": Field(
        type=Type.INT,
        api="maxDistance",
        conflicts=("group_placement_policy.0.gpu_topology",),
    ),
    "gpuTopology": Field(
        api="gpuTopology",
        force_new=True,
        conflicts=("group_placement_policy.0.max_distance",),
    ),
    "tpuTopology": Field(api="tpuTopology", force_new=True),
}
_WORKLOAD: Fields = {
    "type": Field(
        api="type",
        required=True,
        force_new=True,
        validators=(one_of("HIGH_AVAILABILITY", "HIGH_THROUGHPUT"),),
    ),
    "maxTopologyDistance": Field(
        api="maxTopologyDistance",
        force_new=True,
        conflicts=(
            "workload_policy.0.accelerator_topology",
            "workload_policy.0.accelerator_topology_mode",
        ),
        validators=(one_of("BLOCK", "CLUSTER", "SUBBLOCK", ""),),
    ),
    "acceleratorTopology": Field(
        api="acceleratorTopology",
        force_new=True,
        conflicts=("workload_policy.0.max_topology_distance",),
    ),
    "acceleratorTopologyMode": Field(
        api="acceleratorTopologyMode",
        force_new=True,
        conflicts=("workload_policy.0.max_topology_distance",),
    ),
}
_SENT = ("name", "description", "groupPlacementPolicy", "workloadPolicy")


class ResourcePolicy(ComputeResource):
    """A placement policy of a region."""

    pulumi_type = "gcp:compute/resourcePolicy:ResourcePolicy"
    noun = "ResourcePolicy"
    collection = "resourcePolicies"
    regional = True
    autoname = AutoName()
    fields: ClassVar[Fields] = {
        # No check of the name, and no replacement for a new one: both are the API's [§1.1, §5].
        "name": Field(api="name", required=True),
        "region": Field(computed=True, force_new=True, same=same_link),
        "description": Field(api="description"),
        "groupPlacementPolicy": Field(
            type=Type.BLOCK,
            api="groupPlacementPolicy",
            fields=_PLACEMENT,
            conflicts=_others("group_placement_policy"),
        ),
        "workloadPolicy": Field(type=Type.BLOCK, api="workloadPolicy", fields=_WORKLOAD),
        "snapshotSchedulePolicy": Field(
            unsupported=True, conflicts=_others("snapshot_schedule_policy")
        ),
        "instanceSchedulePolicy": Field(
            unsupported=True, conflicts=_others("instance_schedule_policy")
        ),
        "diskConsistencyGroupPolicy": Field(
            unsupported=True, conflicts=_others("disk_consistency_group_policy")
        ),
        "project": PROJECT,
        "deletionPolicy": DELETION_POLICY,
        "selfLink": Field(api="selfLink", output=True),
    }

    def body(self, config: ProviderConfig, inputs: Properties) -> Json:
        """Send the region in the odd form that the provider gives it."""
        project = config.require_project(inputs.get("project"))
        region = config.require_region(inputs.get("region"))
        body = super().body(config, inputs)
        return {**body, "region": f"projects/{project}/global/regions/{region}"}

    def state(self, config: ProviderConfig, answer: Json, previous: Properties) -> Properties:
        """Read the link in its v1 form."""
        state = super().state(config, answer, previous)
        state["selfLink"] = self_link_v1(state["selfLink"])
        return state

    def update(
        self,
        call: Call,
        resource_id: str,
        state: Properties,
        inputs: Properties,
        changed: frozenset[str],
    ) -> Properties:
        """PATCH at the address that the wanted name gives: a new name answers 404 [§5]."""
        if changed <= {"deletionPolicy"}:
            return self.without_api(state, inputs)
        path = self.resource_id(call.config, {**state, "name": inputs["name"]})
        body = expand({name: self.fields[name] for name in _SENT}, inputs)
        self.change(call, resource_id, "PATCH", path, body)
        return self.read_again(call, resource_id, inputs)
