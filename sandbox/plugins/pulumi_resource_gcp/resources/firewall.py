"""`gcp:compute/firewall:Firewall` [facts google-cloud.md §4]."""

from __future__ import annotations

import ipaddress
from typing import Any, ClassVar

from ..checking import AutoName
from ..configuration import ProviderConfig
from ..links import global_link, same_link, self_link_v1
from ..mapping import Json, expand_value, zero
from ..schema import Field, Fields, Type, between, matches, one_of
from ..values import Properties, is_empty
from .base import DELETION_POLICY, PROJECT, Call
from .compute import COMPUTE_NAME, ComputeResource


def _same_protocol(old: Any, new: Any) -> bool:
    return str(old).lower() == str(new).lower()


def _rule_key(rule: dict[str, Any]) -> list[Any]:
    return [str(rule.get("protocol", "")).lower(), list(rule.get("ports") or ())]


def _masked(cidr: Any) -> str:
    """Return the network that a range means: order and host bits are no difference [§1.4]."""
    try:
        return str(ipaddress.ip_network(str(cidr), strict=False))
    except ValueError:
        return str(cidr)


_RULE = {
    "protocol": Field(api="IPProtocol", required=True, same=_same_protocol),
    "ports": Field(type=Type.LIST, api="ports"),
}
_LOG_CONFIG = {
    "metadata": Field(
        api="metadata",
        required=True,
        validators=(one_of("EXCLUDE_ALL_METADATA", "INCLUDE_ALL_METADATA"),),
    ),
}
_PATCHED = (
    "allows", "denies", "sourceRanges", "sourceTags", "sourceServiceAccounts",
    "destinationRanges", "targetTags", "targetServiceAccounts", "priority", "disabled",
    "description", "network",
)  # fmt: skip


class Firewall(ComputeResource):
    """A firewall rule of a VPC network."""

    pulumi_type = "gcp:compute/firewall:Firewall"
    noun = "Firewall"
    collection = "firewalls"
    autoname = AutoName()
    exactly_one = (("allows", "denies"),)
    fields: ClassVar[Fields] = {
        "name": Field(
            api="name", required=True, force_new=True, validators=(matches(COMPUTE_NAME),)
        ),
        "network": Field(api="network", required=True, same=same_link),
        "allows": Field(
            type=Type.BLOCK_SET, api="allowed", tf="allow", fields=_RULE, key=_rule_key
        ),
        "denies": Field(type=Type.BLOCK_SET, api="denied", tf="deny", fields=_RULE, key=_rule_key),
        "direction": Field(
            api="direction",
            computed=True,
            force_new=True,
            validators=(one_of("INGRESS", "EGRESS", ""),),
        ),
        "priority": Field(
            type=Type.INT,
            api="priority",
            default=1000,
            send_empty=True,
            validators=(between(0, 65535),),
        ),
        "sourceRanges": Field(type=Type.SET, api="sourceRanges", computed=True, key=_masked),
        "destinationRanges": Field(
            type=Type.SET, api="destinationRanges", computed=True, key=_masked
        ),
        "sourceTags": Field(
            type=Type.SET,
            api="sourceTags",
            conflicts=("source_service_accounts", "target_service_accounts"),
        ),
        "sourceServiceAccounts": Field(
            type=Type.SET, api="sourceServiceAccounts", conflicts=("source_tags", "target_tags")
        ),
        "targetTags": Field(
            type=Type.SET,
            api="targetTags",
            conflicts=("source_service_accounts", "target_service_accounts"),
        ),
        "targetServiceAccounts": Field(
            type=Type.SET, api="targetServiceAccounts", conflicts=("source_tags", "target_tags")
        ),
        "description": Field(api="description"),
        "disabled": Field(type=Type.BOOL, api="disabled"),
        "enableLogging": Field(type=Type.BOOL, computed=True),
        "logConfig": Field(type=Type.BLOCK, fields=_LOG_CONFIG),
        "params": Field(
            type=Type.BLOCK,
            client=True,
            force_new=True,
            fields={"resourceManagerTags": Field(type=Type.MAP, api="resourceManagerTags")},
        ),
        "project": PROJECT,
        "deletionPolicy": DELETION_POLICY,
        "creationTimestamp": Field(api="creationTimestamp", output=True),
        "selfLink": Field(api="selfLink", output=True),
    }

    def plan_errors(
        self,
        config: ProviderConfig,  # noqa: ARG002
        inputs: Properties,
        state: Properties | None,  # noqa: ARG002
    ) -> list[str]:
        """An INGRESS rule needs a source; metadata needs logging [§4]."""
        errors = []
        sources = ("sourceTags", "sourceRanges", "sourceServiceAccounts")
        if inputs.get("direction") != "EGRESS" and all(
            is_empty(inputs.get(name)) for name in sources
        ):
            errors.append(
                "one of source_tags, source_ranges, or source_service_accounts must be defined"
            )
        if inputs.get("logConfig") and inputs.get("enableLogging") is False:
            errors.append("log_config cannot be defined when enable_logging is false")
        return errors

    def body(self, config: ProviderConfig, inputs: Properties) -> Json:
        """Send the network as a relative path, and `logConfig` always [real-provider.md]."""
        body = super().body(config, inputs)
        project = config.require_project(inputs.get("project"))
        body["network"] = global_link(project, "networks", inputs["network"])
        body["logConfig"] = _log_config(inputs)
        params = inputs.get("params")
        if params:
            body["params"] = {"resourceManagerTags": params.get("resourceManagerTags") or {}}
        return body

    def state(self, config: ProviderConfig, answer: Json, previous: Properties) -> Properties:
        """Protocols as they were typed, direction INGRESS unless given, logging as a block [§4]."""
        state = super().state(config, answer, previous)
        state["selfLink"] = self_link_v1(state["selfLink"])
        state["direction"] = state["direction"] or "INGRESS"
        log = answer.get("logConfig") or {}
        enabled = bool(log.get("enable"))
        state["logConfig"] = {"metadata": log.get("metadata", "")} if enabled else None
        state["enableLogging"] = enabled
        return state

    def update(
        self,
        call: Call,
        resource_id: str,
        state: Properties,
        inputs: Properties,
        changed: frozenset[str],
    ) -> Properties:
        """PATCH what differs, then read [real-provider.md]."""
        body: Json = {}
        project = resource_id.split("/")[1]
        for name in _PATCHED:
            if name not in changed:
                continue
            spec, value = self.fields[name], inputs.get(name)
            if name == "network":
                body["network"] = global_link(project, "networks", str(value))
            elif value is None:
                body[spec.api] = zero(spec) if spec.default is None else spec.default
            else:
                body[spec.api] = expand_value(spec, value)
        if {"logConfig", "enableLogging"} & changed:
            body["logConfig"] = _log_config(inputs)
        if not body:
            return self.without_api(state, inputs)
        self.change(call, resource_id, "PATCH", resource_id, body)
        return self.read_again(call, resource_id, inputs)


def _log_config(inputs: Properties) -> Json:
    given = inputs.get("logConfig")
    if given:
        return {"enable": True, "metadata": given.get("metadata", "")}
    return {"enable": bool(inputs.get("enableLogging"))}
