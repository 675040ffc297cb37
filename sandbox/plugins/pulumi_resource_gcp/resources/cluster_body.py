"""Cluster JSON that is sent, at creation and in updates.

Owns the blocks that do not map one to one: endpoints, private cluster, maintenance, labels,
node defaults [facts real-provider.md "Cluster body"]. Answers are read in `cluster_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..configuration import ProviderConfig
from ..links import global_link, regional_link
from ..mapping import Json, expand, expand_value, put, zero
from ..values import Properties, is_empty
from .cluster_blocks import AUTHORIZED_NETWORKS, NODE_CONFIG
from .cluster_fields import FIELDS

ATTRIBUTION_LABEL = "goog-pulumi-provisioned"

_OAUTH_SCOPES = (
    "devstorage.read_only",
    "logging.write",
    "monitoring",
    "service.management.readonly",
    "servicecontrol",
    "trace.append",
)
# Written by `create_body` itself, in the form that the API wants at creation.
_SPECIAL = frozenset(
    {
        "network", "subnetwork", "location", "ipAllocationPolicy", "enableIntranodeVisibility",
        "allowNetAdmin", "enableAutopilot", "enableShieldedNodes", "enableLegacyAbac",
        "binaryAuthorization", "notificationConfig", "nodeConfig", "nodeVersion",
        "clusterAutoscaling", "masterAuth",
    }
)  # fmt: skip


def create_body(
    config: ProviderConfig, inputs: Properties, project: str, location: str, found: Json
) -> Json:
    """Return the `cluster` of a create request.

    Args:
        config: The provider's configuration.
        inputs: What the program says.
        project: The project.
        location: The location.
        found: The maintenance policy that a cluster of this name has, if there is one.
    """
    autopilot = bool(inputs.get("enableAutopilot"))
    plain = {name: spec for name, spec in FIELDS.items() if name not in _SPECIAL}
    body = {
        name: value
        for name, value in expand(plain, inputs).items()
        if name == "networkConfig" or not is_empty(value)
    }
    _drop_false(body.get("networkConfig"))
    body["autopilot"] = {"enabled": autopilot}
    if inputs.get("allowNetAdmin"):
        body["autopilot"]["workloadPolicyConfig"] = {"allowNetAdmin": True}
    if inputs.get("minMasterVersion"):
        body["initialClusterVersion"] = inputs["minMasterVersion"]
    body["network"] = global_link(project, "networks", inputs.get("network") or "default")
    if inputs.get("subnetwork"):
        body["subnetwork"] = subnetwork_link(inputs["subnetwork"], project, location)
    if autopilot or inputs.get("enableIntranodeVisibility"):
        put(body, "networkConfig.enableIntraNodeVisibility", True)
    policy = ip_allocation(inputs)
    if policy is not None:
        body["ipAllocationPolicy"] = policy
    body["shieldedNodes"] = {"enabled": inputs.get("enableShieldedNodes") is not False}
    body["legacyAbac"] = {"enabled": bool(inputs.get("enableLegacyAbac"))}
    body["binaryAuthorization"] = binary_authorization(inputs)
    body["notificationConfig"] = notification(inputs)
    body["networkPolicy"] = network_policy(inputs)
    body["maintenancePolicy"] = maintenance(inputs, found)
    body["controlPlaneEndpointsConfig"] = endpoints(inputs)
    body["nodeConfig"] = _node_config(inputs)
    autoscaling = cluster_autoscaling(inputs)
    if autoscaling is not None:
        body["autoscaling"] = autoscaling
    if inputs.get("masterAuth"):
        body["masterAuth"] = expand_value(FIELDS["masterAuth"], inputs["masterAuth"])
    private = inputs.get("privateClusterConfig") or {}
    if private.get("enablePrivateNodes") is not None:
        put(body, "networkConfig.defaultEnablePrivateNodes", private["enablePrivateNodes"])
    if private.get("masterIpv4CidrBlock"):
        body["privateClusterConfig"] = {"masterIpv4CidrBlock": private["masterIpv4CidrBlock"]}
    if inputs.get("nodeLocations"):
        body["locations"] = sorted(inputs["nodeLocations"])
    labels = {**provider_labels(config), **(inputs.get("resourceLabels") or {})}
    if labels:
        body["resourceLabels"] = labels
    return body


def _drop_false(network_config: Json | None) -> None:
    """Leave out switches that are off: the Go client omits them."""
    if network_config is None:
        return
    for name, value in list(network_config.items()):
        if is_empty(value):
            del network_config[name]


def subnetwork_link(value: str, project: str, location: str) -> str:
    """Return the relative path of a subnetwork; a bare name lies in the cluster's region."""
    return regional_link(project, location, "subnetworks", value)


def provider_labels(config: ProviderConfig) -> dict[str, str]:
    """Return the labels that the provider adds by itself."""
    labels = dict(config.default_labels)
    if config.attribution_label:
        labels[ATTRIBUTION_LABEL] = "true"
    return labels


def ip_allocation(inputs: Properties) -> Json | None:
    """Return the IP allocation; None where the API decides, as for an Autopilot cluster [R22]."""
    given = {
        name: value
        for name, value in (inputs.get("ipAllocationPolicy") or {}).items()
        if name in FIELDS["ipAllocationPolicy"].fields and not is_empty(value)
    }
    if not given:
        if inputs.get("enableAutopilot") or inputs.get("networkingMode") != "ROUTES":
            return None
        return {"useIpAliases": False, "useRoutes": True, "stackType": "IPV4"}
    routes = inputs.get("networkingMode") == "ROUTES"
    body = expand(FIELDS["ipAllocationPolicy"].fields, given)
    body["useIpAliases"] = not routes
    if routes:
        body["useRoutes"] = True
    return body


def binary_authorization(inputs: Properties) -> Json:
    """Return the block; without one the provider says that it is off."""
    given = inputs.get("binaryAuthorization")
    if not given:
        return {"enabled": False}
    if given.get("evaluationMode"):
        return {"evaluationMode": given["evaluationMode"]}
    return {"enabled": bool(given.get("enabled"))}


def notification(inputs: Properties) -> Json:
    """Return the notification block; empty when none is wanted."""
    pubsub = (inputs.get("notificationConfig") or {}).get("pubsub") or {}
    if not pubsub.get("enabled"):
        return {"pubsub": {}}
    return {"pubsub": expand(FIELDS["notificationConfig"].fields["pubsub"].fields, pubsub)}


def network_policy(inputs: Properties) -> Json:
    """Return the network policy; empty when none is wanted."""
    given = inputs.get("networkPolicy")
    if not given or not given.get("enabled"):
        return {}
    return {"enabled": True, "provider": given.get("provider") or "PROVIDER_UNSPECIFIED"}


def maintenance(inputs: Properties, found: Json) -> Json:
    """Return the maintenance policy; an empty window means any time.

    What the cluster has already is read just before: its version guards the change, and its
    exclusions stay unless the program has a policy of its own.
    """
    given = inputs.get("maintenancePolicy")
    exclusions = (found.get("window") or {}).get("maintenanceExclusions") or {}
    if given:
        listed = given.get("maintenanceExclusions") or []
        exclusions = {item["exclusionName"]: _exclusion(item) for item in listed}
    given = given or {}
    daily, recurring = given.get("dailyMaintenanceWindow"), given.get("recurringWindow")
    window: Json = {"maintenanceExclusions": exclusions} if exclusions else {}
    if daily:
        window["dailyMaintenanceWindow"] = {"startTime": daily["startTime"]}
    elif recurring:
        window["recurringWindow"] = {
            "recurrence": recurring["recurrence"],
            "window": {"startTime": recurring["startTime"], "endTime": recurring["endTime"]},
        }
    if found.get("resourceVersion"):
        return {"resourceVersion": found["resourceVersion"], "window": window}
    return {"window": window}


def _exclusion(item: Mapping[str, Any]) -> Json:
    body: Json = {"startTime": item["startTime"]}
    if item.get("endTime"):
        body["endTime"] = item["endTime"]
    options = item.get("exclusionOptions")
    if options:
        body["maintenanceExclusionOptions"] = {
            name: options[name] for name in ("scope", "endTimeBehavior") if options.get(name)
        }
    return body


def endpoints(inputs: Properties) -> Json:
    """Fold private cluster, authorized networks and endpoint switches into one block."""
    private = inputs.get("privateClusterConfig") or {}
    given = inputs.get("controlPlaneEndpointsConfig") or {}
    dns = given.get("dnsEndpointConfig") or {}
    enabled = (given.get("ipEndpointsConfig") or {}).get("enabled")
    return {
        "dnsEndpointConfig": {
            name: bool(dns.get(name))
            for name in ("allowExternalTraffic", "enableK8sCertsViaDns", "enableK8sTokensViaDns")
        },
        "ipEndpointsConfig": {
            "authorizedNetworksConfig": authorized_networks(inputs),
            "enablePublicEndpoint": not private.get("enablePrivateEndpoint"),
            "enabled": enabled is not False,
            "globalAccess": bool((private.get("masterGlobalAccessConfig") or {}).get("enabled")),
            "privateEndpointSubnetwork": private.get("privateEndpointSubnetwork") or "",
        },
    }


def authorized_networks(inputs: Properties) -> Json:
    """Return the authorized networks; empty when the block is not there."""
    given = inputs.get("masterAuthorizedNetworksConfig")
    if given is None:
        return {}
    return {"enabled": True, **expand(AUTHORIZED_NETWORKS, given)}


def cluster_autoscaling(inputs: Properties) -> Json | None:
    """Return node auto-provisioning; the node defaults go to Autopilot clusters too [§6.1]."""
    given = inputs.get("clusterAutoscaling")
    if not given:
        return None
    return expand_value(FIELDS["clusterAutoscaling"], given)  # type: ignore[no-any-return]


def _node_config(inputs: Properties) -> Json:
    body = expand(NODE_CONFIG, inputs.get("nodeConfig") or {})
    if not body.get("oauthScopes"):
        body["oauthScopes"] = [f"https://www.googleapis.com/auth/{name}" for name in _OAUTH_SCOPES]
    return body


def planned_value(name: str, inputs: Properties) -> Any:
    """Return a field's wanted value in JSON form, its zero value if it is not given."""
    spec, value = FIELDS[name], inputs.get(name)
    if value is None:
        return zero(spec) if spec.default is None else spec.default
    return expand_value(spec, value)
