"""`gcp:compute/subnetwork:Subnetwork` [facts google-cloud.md §3]."""

from __future__ import annotations

import ipaddress
from typing import Any, ClassVar

from ..checking import AutoName
from ..configuration import ProviderConfig
from ..diffing import DELETE, Change, Difference
from ..links import global_link, same_link, self_link_v1
from ..mapping import Json, expand, expand_value, flatten, zero
from ..schema import Field, Fields, Type, matches, one_of
from ..values import Properties
from .base import DELETION_POLICY, PROJECT, Call
from .compute import COMPUTE_NAME, ComputeResource


def _is_cidr(name: str, value: Any) -> list[str]:
    """Require that a range parses; host bits pass, the API refuses them [§3]."""
    try:
        ipaddress.ip_network(str(value), strict=False)
    except ValueError:
        return [f'"{name}" is not a valid IP CIDR range: invalid CIDR address: {value}']
    if "/" not in str(value):
        return [f'"{name}" is not a valid IP CIDR range: invalid CIDR address: {value}']
    return []


_LOG_CONFIG = {
    "aggregationInterval": Field(
        api="aggregationInterval",
        default="INTERVAL_5_SEC",
        validators=(
            one_of(
                "INTERVAL_5_SEC", "INTERVAL_30_SEC", "INTERVAL_1_MIN", "INTERVAL_5_MIN",
                "INTERVAL_10_MIN", "INTERVAL_15_MIN", "",
            ),
        ),
    ),
    "filterExpr": Field(api="filterExpr", default="true"),
    "flowSampling": Field(type=Type.FLOAT, api="flowSampling", default=0.5),
    "metadata": Field(
        api="metadata",
        default="INCLUDE_ALL_METADATA",
        validators=(one_of("EXCLUDE_ALL_METADATA", "INCLUDE_ALL_METADATA", "CUSTOM_METADATA", ""),),
    ),
    "metadataFields": Field(type=Type.SET, api="metadataFields"),
}  # fmt: skip

_SECONDARY = {
    "rangeName": Field(api="rangeName", required=True, validators=(matches(COMPUTE_NAME),)),
    "ipCidrRange": Field(api="ipCidrRange", computed=True),
    "ipVersion": Field(api="ipVersion", computed=True),
    "reservedInternalRange": Field(api="reservedInternalRange", same=same_link),
    "ipCollection": Field(api="ipCollection", same=same_link),
}

# What one PATCH each carries, in the order of the provider's update steps.
_PATCHES = (
    (
        "privateIpv6GoogleAccess", "stackType", "ipv6AccessType", "ipCollection",
        "allowSubnetCidrRoutesOverlap",
    ),
    ("purpose", "role"),
    ("secondaryIpRanges",),
    ("logConfig",),
)  # fmt: skip


class Subnetwork(ComputeResource):
    """A subnet of a VPC network."""

    pulumi_type = "gcp:compute/subnetwork:Subnetwork"
    noun = "Subnetwork"
    collection = "subnetworks"
    regional = True
    autoname = AutoName(longest=63, lower_case=True)
    fields: ClassVar[Fields] = {
        "name": Field(
            api="name", required=True, force_new=True, validators=(matches(COMPUTE_NAME),)
        ),
        "network": Field(api="network", required=True, force_new=True, same=same_link),
        "region": Field(computed=True, force_new=True, same=same_link),
        "ipCidrRange": Field(api="ipCidrRange", computed=True, validators=(_is_cidr,)),
        "secondaryIpRanges": Field(
            type=Type.BLOCKS,
            api="secondaryIpRanges",
            tf="secondary_ip_range",
            computed=True,
            fields=_SECONDARY,
        ),
        "sendSecondaryIpRangeIfEmpty": Field(type=Type.BOOL, client=True),
        "privateIpGoogleAccess": Field(type=Type.BOOL, api="privateIpGoogleAccess", computed=True),
        "privateIpv6GoogleAccess": Field(api="privateIpv6GoogleAccess", computed=True),
        "purpose": Field(api="purpose", computed=True),
        "role": Field(api="role", validators=(one_of("ACTIVE", "BACKUP", ""),)),
        "stackType": Field(
            api="stackType",
            computed=True,
            validators=(one_of("IPV4_ONLY", "IPV4_IPV6", "IPV6_ONLY", ""),),
        ),
        "ipv6AccessType": Field(
            api="ipv6AccessType", validators=(one_of("EXTERNAL", "INTERNAL", ""),)
        ),
        "logConfig": Field(type=Type.BLOCK, fields=_LOG_CONFIG),
        "allowSubnetCidrRoutesOverlap": Field(
            type=Type.BOOL, api="allowSubnetCidrRoutesOverlap", computed=True, send_empty=True
        ),
        "description": Field(api="description", force_new=True),
        "externalIpv6Prefix": Field(api="externalIpv6Prefix", computed=True, force_new=True),
        "internalIpv6Prefix": Field(api="internalIpv6Prefix", computed=True, force_new=True),
        "ipCollection": Field(api="ipCollection", same=same_link),
        "reservedInternalRange": Field(api="reservedInternalRange", force_new=True, same=same_link),
        "resolveSubnetMask": Field(
            api="resolveSubnetMask",
            computed=True,
            force_new=True,
            validators=(one_of("ARP_ALL_RANGES", "ARP_PRIMARY_RANGE", ""),),
        ),
        "params": Field(
            type=Type.BLOCK,
            client=True,
            force_new=True,
            fields={"resourceManagerTags": Field(type=Type.MAP, api="resourceManagerTags")},
        ),
        "project": PROJECT,
        "deletionPolicy": DELETION_POLICY,
        "creationTimestamp": Field(api="creationTimestamp", output=True),
        "gatewayAddress": Field(api="gatewayAddress", output=True),
        "ipv6CidrRange": Field(api="ipv6CidrRange", output=True),
        "ipv6GceEndpoint": Field(api="ipv6GceEndpoint", output=True),
        "selfLink": Field(api="selfLink", output=True),
        "state": Field(api="state", output=True),
        "subnetworkId": Field(type=Type.INT, api="id", output=True),
    }

    def body(self, config: ProviderConfig, inputs: Properties) -> Json:
        """Send links as relative paths, and `logConfig` always [real-provider.md]."""
        project = config.require_project(inputs.get("project"))
        body = super().body(config, inputs)
        body["network"] = global_link(project, "networks", inputs["network"])
        body["region"] = (
            f"projects/{project}/global/regions/{config.require_region(inputs.get('region'))}"
        )
        body["logConfig"] = _log_config(inputs)
        params = inputs.get("params")
        if params:
            body["params"] = {"resourceManagerTags": params.get("resourceManagerTags") or {}}
        return body

    def state(self, config: ProviderConfig, answer: Json, previous: Properties) -> Properties:
        """Show `logConfig` only while it is on, and what the API leaves out [§3]."""
        state = super().state(config, answer, previous)
        state["selfLink"] = self_link_v1(state["selfLink"])
        log = answer.get("logConfig") or {}
        state["logConfig"] = flatten(_LOG_CONFIG, log, {}) if log.get("enable") else None
        for name, value in _READ_BACK.items():
            state[name] = state[name] or value
        if not state["gatewayAddress"] and state["ipCidrRange"]:
            network = ipaddress.ip_network(state["ipCidrRange"], strict=False)
            state["gatewayAddress"] = str(network.network_address + 1)
        return state

    def adjust(
        self,
        config: ProviderConfig,  # noqa: ARG002
        difference: Difference,
        state: Properties,
        inputs: Properties,
    ) -> Difference:
        """A range that does not contain the old one, and secondary ranges that are dropped [§3]."""
        changes = []
        wanted, wanted_range = inputs.get("secondaryIpRanges"), inputs.get("ipCidrRange")
        for change in difference.changes:
            if change.path == "ipCidrRange" and _shrinks(state.get("ipCidrRange"), wanted_range):
                changes.append(Change(change.path, change.kind, replaces=True))
            elif not (change.path.startswith("secondaryIpRanges") and wanted == []):
                changes.append(change)
        if (
            inputs.get("sendSecondaryIpRangeIfEmpty")
            and not wanted
            and state.get("secondaryIpRanges")
        ):
            changes.append(Change("secondaryIpRanges", DELETE, replaces=False))
        return Difference(changes)

    def update(
        self,
        call: Call,
        resource_id: str,
        state: Properties,
        inputs: Properties,
        changed: frozenset[str],
    ) -> Properties:
        """One call per group of fields, as recorded [real-provider.md]."""
        if changed <= {"deletionPolicy", "sendSecondaryIpRangeIfEmpty"}:
            return self.without_api(state, inputs)
        if "ipCidrRange" in changed:
            body: Json = {"ipCidrRange": inputs["ipCidrRange"]}
            self.change(call, resource_id, "POST", f"{resource_id}/expandIpCidrRange", body)
        if "privateIpGoogleAccess" in changed:
            body = {"privateIpGoogleAccess": bool(inputs.get("privateIpGoogleAccess"))}
            self.change(call, resource_id, "POST", f"{resource_id}/setPrivateIpGoogleAccess", body)
        for group in _PATCHES:
            if changed.isdisjoint(group):
                continue
            body = {
                name: self._patch_value(name, inputs)
                for name in group
                if inputs.get(name) is not None or name in changed
            }
            fingerprint = call.compute("GET", resource_id).get("fingerprint")
            if fingerprint:
                body["fingerprint"] = fingerprint
            self.change(call, resource_id, "PATCH", resource_id, body)
        return self.read_again(call, resource_id, inputs)

    def _patch_value(self, name: str, inputs: Properties) -> Any:
        if name == "logConfig":
            return _log_config(inputs)
        value = inputs.get(name)
        if value is None:
            return zero(self.fields[name])
        return expand_value(self.fields[name], value)


_READ_BACK = {
    "purpose": "PRIVATE",
    "stackType": "IPV4_ONLY",
    "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
}
"""What the API shows when nothing was said [§3]; a server that only echoes leaves them out."""


def _log_config(inputs: Properties) -> Json:
    given = inputs.get("logConfig")
    if not given:
        return {"enable": False}
    return {"enable": True, **expand(_LOG_CONFIG, given)}


def _shrinks(old: Any, new: Any) -> bool:
    """Say whether a range loses addresses; with no range to compare it does not."""
    if not (isinstance(old, str) and isinstance(new, str)):
        return False
    try:
        old_range = ipaddress.ip_network(old, strict=False)
        new_range = ipaddress.ip_network(new, strict=False)
    except ValueError:
        return False
    if isinstance(old_range, ipaddress.IPv4Network) and isinstance(
        new_range, ipaddress.IPv4Network
    ):
        return not old_range.subnet_of(new_range)
    return True
