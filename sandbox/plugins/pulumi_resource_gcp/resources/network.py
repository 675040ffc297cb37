"""`gcp:compute/network:Network` [facts google-cloud.md §2]."""

from __future__ import annotations

from typing import ClassVar

from ..checking import AutoName
from ..configuration import COMPUTE, ProviderConfig
from ..links import same_link, self_link_v1
from ..mapping import Json, expand
from ..operations import wait_compute
from ..schema import Field, Fields, Type, matches, one_of
from ..values import Properties
from .base import DELETION_POLICY, PROJECT, Call
from .compute import COMPUTE_NAME, ComputeResource

_ROUTING = (
    "routingMode",
    "bgpBestPathSelectionMode",
    "bgpAlwaysCompareMed",
    "bgpInterRegionCost",
    "deleteBgpAlwaysCompareMed",
)
_ORDER = "networkFirewallPolicyEnforcementOrder"


class Network(ComputeResource):
    """A VPC network."""

    pulumi_type = "gcp:compute/network:Network"
    noun = "Network"
    collection = "networks"
    autoname = AutoName(longest=63, lower_case=True)
    fields: ClassVar[Fields] = {
        "name": Field(
            api="name", required=True, force_new=True, validators=(matches(COMPUTE_NAME),)
        ),
        "autoCreateSubnetworks": Field(
            type=Type.BOOL,
            api="autoCreateSubnetworks",
            default=True,
            force_new=True,
            send_empty=True,
        ),
        "mtu": Field(type=Type.INT, api="mtu", computed=True),
        "routingMode": Field(
            api="routingConfig.routingMode",
            computed=True,
            validators=(one_of("REGIONAL", "GLOBAL", ""),),
        ),
        "networkFirewallPolicyEnforcementOrder": Field(
            api="networkFirewallPolicyEnforcementOrder",
            default="AFTER_CLASSIC_FIREWALL",
            validators=(one_of("BEFORE_CLASSIC_FIREWALL", "AFTER_CLASSIC_FIREWALL", ""),),
        ),
        "description": Field(api="description", force_new=True),
        "enableUlaInternalIpv6": Field(type=Type.BOOL, api="enableUlaInternalIpv6"),
        "internalIpv6Range": Field(api="internalIpv6Range", computed=True, force_new=True),
        "networkProfile": Field(api="networkProfile", force_new=True, same=same_link),
        "bgpBestPathSelectionMode": Field(
            api="routingConfig.bgpBestPathSelectionMode",
            computed=True,
            validators=(one_of("LEGACY", "STANDARD", ""),),
        ),
        "bgpAlwaysCompareMed": Field(
            type=Type.BOOL, api="routingConfig.bgpAlwaysCompareMed", computed=True
        ),
        "bgpInterRegionCost": Field(
            api="routingConfig.bgpInterRegionCost",
            computed=True,
            validators=(one_of("DEFAULT", "ADD_COST_TO_MED", ""),),
        ),
        "deleteBgpAlwaysCompareMed": Field(type=Type.BOOL, client=True, default=False),
        "deleteDefaultRoutesOnCreate": Field(type=Type.BOOL, client=True, default=False),
        "params": Field(
            type=Type.BLOCK,
            client=True,
            force_new=True,
            fields={"resourceManagerTags": Field(type=Type.MAP, api="resourceManagerTags")},
        ),
        "project": PROJECT,
        "deletionPolicy": DELETION_POLICY,
        "gatewayIpv4": Field(api="gatewayIPv4", output=True),
        "networkId": Field(api="id", output=True),
        "numericId": Field(api="id", output=True),
        "selfLink": Field(api="selfLink", output=True),
    }

    def body(self, config: ProviderConfig, inputs: Properties) -> Json:
        """Add what the table does not carry."""
        body = super().body(config, inputs)
        params = inputs.get("params")
        if params:
            body["params"] = {"resourceManagerTags": params.get("resourceManagerTags") or {}}
        return body

    def state(self, config: ProviderConfig, answer: Json, previous: Properties) -> Properties:
        """Read the link in its v1 form; `routingMode` is REGIONAL unless it was given [§2]."""
        state = super().state(config, answer, previous)
        state["selfLink"] = self_link_v1(state["selfLink"])
        state["routingMode"] = state["routingMode"] or "REGIONAL"
        return state

    def after_create(self, call: Call, resource_id: str, inputs: Properties) -> None:
        """Delete the default routes if asked to; the API has no such switch [§2]."""
        if not inputs.get("deleteDefaultRoutesOnCreate"):
            return
        project = resource_id.split("/")[1]
        found = call.client.request(
            COMPUTE,
            "GET",
            f"projects/{project}/global/routes",
            query={
                "filter": '(network="https://www.googleapis.com/compute/v1/'
                f'{resource_id}") AND (destRange="0.0.0.0/0")'
            },
            deadline=call.deadline,
        )
        for route in found.get("items") or ():
            if route.get("destRange") != "0.0.0.0/0":
                continue
            if not str(route.get("network", "")).endswith(resource_id):
                continue
            operation = call.compute("DELETE", f"projects/{project}/global/routes/{route['name']}")
            wait_compute(call.client, operation, project, "Deleting Route", call.deadline)

    def update(
        self,
        call: Call,
        resource_id: str,
        state: Properties,
        inputs: Properties,
        changed: frozenset[str],
    ) -> Properties:
        """One PATCH per group of fields; only that of the MTU reads before [real-provider.md]."""
        if changed <= {"deletionPolicy"}:
            return self.without_api(state, inputs)
        if changed & {*_ROUTING, _ORDER}:
            given = {name: inputs[name] for name in _ROUTING if inputs.get(name) is not None}
            body = expand({name: self.fields[name] for name in _ROUTING}, given)
            body[_ORDER] = inputs.get(_ORDER) or self.fields[_ORDER].default
            self.change(call, resource_id, "PATCH", resource_id, body)
        if "enableUlaInternalIpv6" in changed:
            body = {"enableUlaInternalIpv6": bool(inputs.get("enableUlaInternalIpv6"))}
            self.change(call, resource_id, "PATCH", resource_id, body)
        if "mtu" in changed:
            before = call.compute("GET", resource_id)
            body = {"mtu": inputs.get("mtu")}
            if before.get("fingerprint"):
                body["fingerprint"] = before["fingerprint"]
            self.change(call, resource_id, "PATCH", resource_id, body)
        return self.read_again(call, resource_id, inputs)
