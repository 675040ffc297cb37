"""What a change of a cluster's fields sends: one call per field, strictly one after another.

Owns the names of the update requests [facts google-cloud.md §6.1, §6.3; real-provider.md
"Updates"].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..errors import ProviderError
from ..mapping import Json
from ..values import Properties
from . import cluster_body as body


@dataclass(frozen=True, slots=True)
class Step:
    """One request.

    `action` is empty for the general update (PUT), else the custom method of a POST.
    """

    request: Json
    activity: str
    action: str = ""


Builder = Callable[[Properties, Properties], Json | None]
"""Takes state and inputs; returns what goes into `update`, or None to send nothing."""


def _desired(key: str, name: str) -> Builder:
    return lambda _state, inputs: {key: body.planned_value(name, inputs)}


def _wrapped(key: str, inner: str, name: str) -> Builder:
    return lambda _state, inputs: {key: {inner: body.planned_value(name, inputs)}}


def _block(key: str, name: str) -> Builder:
    """A block that is only sent while the program has it; dropping it is no request."""

    def build(_state: Properties, inputs: Properties) -> Json | None:
        if inputs.get(name) is None:
            return None
        return {key: body.planned_value(name, inputs)}

    return build


def _master_version(state: Properties, inputs: Properties) -> Json | None:
    """Upgrade only if the current version is lower; everything else is silent [§6.1]."""
    wanted = inputs.get("minMasterVersion")
    if not wanted:
        return None
    if _version(state.get("masterVersion") or "") >= _version(wanted):
        return None
    return {"desiredMasterVersion": wanted}


def _version(text: str) -> tuple[int, ...]:
    """Read a version by its numbers: 1.31.14-gke.1081000 is newer than 1.31.2-gke.5 [§9]."""
    if not re.match(r"v?\d", text):
        raise ProviderError(f"Malformed version: {text}")
    main, _, release = text.partition("-")
    numbers = [int(part) for part in re.findall(r"\d+", main)][:3]
    numbers += [0] * (3 - len(numbers))
    build = re.findall(r"\d+", release)
    return (*numbers, int(build[-1]) if build else 0)


def _endpoints(_state: Properties, inputs: Properties) -> Json:
    return {"desiredControlPlaneEndpointsConfig": body.endpoints(inputs)}


def _authorized(_state: Properties, inputs: Properties) -> Json:
    config = body.authorized_networks(inputs) or {"enabled": False}
    return {
        "desiredControlPlaneEndpointsConfig": {
            "ipEndpointsConfig": {"authorizedNetworksConfig": config}
        }
    }


def _private_nodes(_state: Properties, inputs: Properties) -> Json | None:
    private = inputs.get("privateClusterConfig") or {}
    if private.get("enablePrivateNodes") is None:
        return None
    return {"desiredDefaultEnablePrivateNodes": private["enablePrivateNodes"]}


def _autoscaling(_state: Properties, inputs: Properties) -> Json | None:
    value = body.cluster_autoscaling(inputs)
    return None if value is None else {"desiredClusterAutoscaling": value}


def _network_tags(_state: Properties, inputs: Properties) -> Json | None:
    tags = (inputs.get("nodePoolAutoConfig") or {}).get("networkTags") or {}
    return {"desiredNodePoolAutoConfigNetworkTags": {"tags": list(tags.get("tags") or ())}}


def _stack_type(state: Properties, inputs: Properties) -> Json | None:
    wanted = (inputs.get("ipAllocationPolicy") or {}).get("stackType")
    before = (state.get("ipAllocationPolicy") or {}).get("stackType")
    return {"desiredStackType": wanted} if wanted and wanted != before else None


_PUTS: tuple[tuple[str, str, Builder], ...] = (
    ("controlPlaneEndpointsConfig", "updating GKE control plane endpoints config", _endpoints),
    ("masterAuthorizedNetworksConfig", "updating GKE cluster master authorized networks", _authorized),
    ("privateClusterConfig", "updating private cluster config", _endpoints),
    ("privateClusterConfig", "updating enable private nodes", _private_nodes),
    ("addonsConfig", "updating GKE cluster addons", _block("desiredAddonsConfig", "addonsConfig")),
    ("clusterAutoscaling", "updating GKE cluster autoscaling", _autoscaling),
    ("dnsConfig", "updating GKE cluster DNSConfig", _block("desiredDnsConfig", "dnsConfig")),
    ("allowNetAdmin", "updating net admin for GKE autopilot workload policy config",
     _wrapped("desiredAutopilotWorkloadPolicyConfig", "allowNetAdmin", "allowNetAdmin")),
    ("enableShieldedNodes", "updating GKE shielded nodes",
     _wrapped("desiredShieldedNodes", "enabled", "enableShieldedNodes")),
    ("binaryAuthorization", "updating GKE binary authorization",
     lambda _state, inputs: {"desiredBinaryAuthorization": body.binary_authorization(inputs)}),
    ("releaseChannel", "updating Release Channel", _block("desiredReleaseChannel", "releaseChannel")),
    ("gkeAutoUpgradeConfig", "updating GKE Auto Upgrade Config",
     _block("desiredGkeAutoUpgradeConfig", "gkeAutoUpgradeConfig")),
    ("enableIntranodeVisibility", "updating enable intranode visibility",
     _wrapped("desiredIntraNodeVisibilityConfig", "enabled", "enableIntranodeVisibility")),
    ("privateIpv6GoogleAccess", "updating GKE Private IPv6 Google Access",
     _desired("desiredPrivateIpv6GoogleAccess", "privateIpv6GoogleAccess")),
    ("enableL4IlbSubsetting", "updating enable L4 ILB subsetting",
     _wrapped("desiredL4ilbSubsettingConfig", "enabled", "enableL4IlbSubsetting")),
    ("disableL4LbFirewallReconciliation", "updating disable L4 LB firewall reconciliation",
     _desired("desiredDisableL4LbFirewallReconciliation", "disableL4LbFirewallReconciliation")),
    ("enableMultiNetworking", "updating multi networking",
     _desired("desiredEnableMultiNetworking", "enableMultiNetworking")),
    ("enableFqdnNetworkPolicy", "updating fqdn network policy",
     _desired("desiredEnableFqdnNetworkPolicy", "enableFqdnNetworkPolicy")),
    ("enableCiliumClusterwideNetworkPolicy", "updating cilium clusterwide network policy",
     _desired("desiredEnableCiliumClusterwideNetworkPolicy", "enableCiliumClusterwideNetworkPolicy")),
    ("costManagementConfig", "updating cost management config",
     _block("desiredCostManagementConfig", "costManagementConfig")),
    ("defaultSnatStatus", "updating GKE Default SNAT status",
     _block("desiredDefaultSnatStatus", "defaultSnatStatus")),
    ("nodeLocations", "updating GKE cluster node locations",
     lambda _state, inputs: {"desiredLocations": sorted(inputs.get("nodeLocations") or ())}),
    ("minMasterVersion", "updating GKE master version", _master_version),
    ("notificationConfig", "updating Notification Config",
     lambda _state, inputs: {"desiredNotificationConfig": body.notification(inputs)}),
    ("verticalPodAutoscaling", "updating GKE cluster vertical pod autoscaling",
     _block("desiredVerticalPodAutoscaling", "verticalPodAutoscaling")),
    ("serviceExternalIpsConfig", "updating GKE cluster service externalips config",
     _block("desiredServiceExternalIpsConfig", "serviceExternalIpsConfig")),
    ("meshCertificates", "updating GKE cluster mesh certificates config",
     _block("desiredMeshCertificates", "meshCertificates")),
    ("databaseEncryption", "updating GKE cluster database encryption config",
     _block("desiredDatabaseEncryption", "databaseEncryption")),
    ("workloadIdentityConfig", "updating GKE cluster workload identity config",
     _block("desiredWorkloadIdentityConfig", "workloadIdentityConfig")),
    ("loggingConfig", "updating GKE cluster logging config",
     lambda _state, inputs: None if inputs.get("loggingConfig") is None else {
         "desiredLoggingConfig": {"componentConfig": body.planned_value("loggingConfig", inputs)}}),
    ("monitoringConfig", "updating GKE cluster monitoring config",
     _block("desiredMonitoringConfig", "monitoringConfig")),
    ("secretManagerConfig", "updating GKE cluster secret manager config",
     _block("desiredSecretManagerConfig", "secretManagerConfig")),
    ("gatewayApiConfig", "updating GKE Gateway API",
     _block("desiredGatewayApiConfig", "gatewayApiConfig")),
    ("securityPostureConfig", "updating GKE cluster security posture config",
     _block("desiredSecurityPostureConfig", "securityPostureConfig")),
    ("fleet", "updating GKE cluster fleet config", _block("desiredFleet", "fleet")),
    ("nodePoolAutoConfig", "updating GKE cluster node pool auto config network tags", _network_tags),
    ("ipAllocationPolicy", "updating stack type", _stack_type),
)  # fmt: skip


def steps(
    state: Properties, inputs: Properties, changed: frozenset[str], labels: Json | None
) -> Iterator[Step]:
    """Yield the requests that a change takes, in order.

    Args:
        state: The saved state.
        inputs: What is wanted now.
        changed: The top-level properties that differ.
        labels: All labels as they shall be, or None if they do not change.
    """
    for name, activity, build in _PUTS:
        if name in changed:
            update = build(state, inputs)
            if update is not None:
                yield Step({"update": update}, activity)
    if "maintenancePolicy" in changed:
        yield Step(
            {"maintenancePolicy": body.maintenance(inputs)},
            "updating GKE cluster maintenance policy",
            ":setMaintenancePolicy",
        )
    if "enableLegacyAbac" in changed:
        yield Step(
            {"enabled": bool(inputs.get("enableLegacyAbac"))},
            "updating GKE legacy ABAC",
            ":setLegacyAbac",
        )
    if "networkPolicy" in changed:
        yield Step(
            {"networkPolicy": body.network_policy(inputs)},
            "updating GKE cluster network policy",
            ":setNetworkPolicy",
        )
    if labels is not None:
        yield Step(
            {"labelFingerprint": state.get("labelFingerprint", ""), "resourceLabels": labels},
            "updating GKE resource labels",
            ":setResourceLabels",
        )
