"""A cluster's saved state, made from Google's answer [facts google-cloud.md §6.3].

Owns the blocks that the API splits or folds; everything else follows the field table.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..mapping import Json, flatten, get
from ..values import Properties
from .cluster_blocks import AUTHORIZED_NETWORKS, NODE_CONFIG
from .cluster_body import ATTRIBUTION_LABEL
from .cluster_fields import FIELDS


def cluster_state(answer: Json, previous: Properties, project: str, location: str) -> Properties:
    """Return the saved form of a cluster."""
    state = flatten(FIELDS, answer, previous)
    state["project"] = project
    state["location"] = answer.get("location", "")
    state["id"] = f"projects/{project}/locations/{location}/clusters/{answer.get('name', '')}"
    policy = answer.get("ipAllocationPolicy") or {}
    state["networkingMode"] = "ROUTES" if policy.get("useRoutes") else "VPC_NATIVE"
    if not state["ipAllocationPolicy"]:
        state["ipAllocationPolicy"] = None
    state["networkPolicy"] = {
        "enabled": bool(get(answer, "networkPolicy.enabled")),
        "provider": get(answer, "networkPolicy.provider") or "PROVIDER_UNSPECIFIED",
    }
    state["nodeConfig"] = (
        flatten(NODE_CONFIG, answer["nodeConfig"], {}) if answer.get("nodeConfig") else None
    )
    state["nodeLocations"] = [zone for zone in answer.get("locations") or () if zone != location]
    state["masterAuth"] = _master_auth(answer.get("masterAuth") or {})
    state["privateClusterConfig"] = _private_cluster(answer)
    state["masterAuthorizedNetworksConfig"] = _authorized_networks(answer)
    state["controlPlaneEndpointsConfig"] = _endpoints(answer)
    state["maintenancePolicy"] = _maintenance(answer)
    state["operation"] = ""
    state |= labels_state(answer.get("resourceLabels") or {}, previous)
    return state


def labels_state(effective: Mapping[str, str], previous: Properties) -> Properties:
    """Split the labels of an answer into the program's, Pulumi's and all [facts §6.3]."""
    mine = previous.get("pulumiLabels")
    if mine is None:
        own = {name: value for name, value in effective.items() if name != ATTRIBUTION_LABEL}
        return {
            "resourceLabels": own,
            "pulumiLabels": dict(effective),
            "effectiveLabels": dict(effective),
        }
    wanted = previous.get("resourceLabels") or {}
    return {
        "resourceLabels": {name: effective[name] for name in wanted if name in effective},
        "pulumiLabels": {name: effective[name] for name in mine if name in effective},
        "effectiveLabels": dict(effective),
    }


def _master_auth(answer: Json) -> Properties:
    issued = get(answer, "clientCertificateConfig.issueClientCertificate")
    return {
        "clientCertificate": answer.get("clientCertificate", ""),
        "clientCertificateConfig": {"issueClientCertificate": bool(issued)},
        "clientKey": answer.get("clientKey", ""),
        "clusterCaCertificate": answer.get("clusterCaCertificate", ""),
    }


def _private_cluster(answer: Json) -> Properties | None:
    ip = get(answer, "controlPlaneEndpointsConfig.ipEndpointsConfig") or {}
    private = answer.get("privateClusterConfig") or {}
    if not ip and not private:
        return None
    return {
        "enablePrivateEndpoint": ip.get("enablePublicEndpoint") is False,
        "enablePrivateNodes": bool(
            get(answer, "networkConfig.defaultEnablePrivateNodes")
            or private.get("enablePrivateNodes")
        ),
        "masterGlobalAccessConfig": {"enabled": bool(ip.get("globalAccess"))},
        "masterIpv4CidrBlock": private.get("masterIpv4CidrBlock", ""),
        "peeringName": private.get("peeringName", ""),
        "privateEndpoint": ip.get("privateEndpoint") or private.get("privateEndpoint", ""),
        "privateEndpointSubnetwork": ip.get("privateEndpointSubnetwork", ""),
        "publicEndpoint": ip.get("publicEndpoint") or private.get("publicEndpoint", ""),
    }


def _authorized_networks(answer: Json) -> Properties | None:
    path = "controlPlaneEndpointsConfig.ipEndpointsConfig.authorizedNetworksConfig"
    found = get(answer, path) or answer.get("masterAuthorizedNetworksConfig") or {}
    if not found.get("enabled"):
        return None
    return flatten(AUTHORIZED_NETWORKS, found, {})


def _endpoints(answer: Json) -> Properties | None:
    found = answer.get("controlPlaneEndpointsConfig")
    if not found:
        return None
    dns = found.get("dnsEndpointConfig") or {}
    return {
        "dnsEndpointConfig": {
            "allowExternalTraffic": bool(dns.get("allowExternalTraffic")),
            "enableK8sCertsViaDns": bool(dns.get("enableK8sCertsViaDns")),
            "enableK8sTokensViaDns": bool(dns.get("enableK8sTokensViaDns")),
            "endpoint": dns.get("endpoint", ""),
        },
        "ipEndpointsConfig": {"enabled": bool(get(found, "ipEndpointsConfig.enabled"))},
    }


def _maintenance(answer: Json) -> Properties | None:
    window = get(answer, "maintenancePolicy.window") or {}
    state: Properties = {}
    if window.get("dailyMaintenanceWindow"):
        daily = window["dailyMaintenanceWindow"]
        state["dailyMaintenanceWindow"] = {
            "startTime": daily.get("startTime", ""),
            "duration": daily.get("duration", ""),
        }
    if window.get("recurringWindow"):
        recurring = window["recurringWindow"]
        state["recurringWindow"] = {
            "startTime": get(recurring, "window.startTime") or "",
            "endTime": get(recurring, "window.endTime") or "",
            "recurrence": recurring.get("recurrence", ""),
        }
    exclusions = window.get("maintenanceExclusions") or {}
    if exclusions and state:
        state["maintenanceExclusions"] = [
            _exclusion_state(name, item) for name, item in sorted(exclusions.items())
        ]
    return state or None


def _exclusion_state(name: str, item: Json) -> Properties:
    options = item.get("maintenanceExclusionOptions") or {}
    state: Properties = {
        "exclusionName": name,
        "startTime": item.get("startTime", ""),
        "endTime": item.get("endTime", ""),
    }
    if options:
        state["exclusionOptions"] = {
            "scope": options.get("scope", ""),
            "endTimeBehavior": options.get("endTimeBehavior", ""),
        }
    return state
