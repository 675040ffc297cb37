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

_MAINTENANCE = ":setMaintenancePolicy"


@dataclass(frozen=True, slots=True)
class Step:
    """One request.

    `action` is empty for the general update (PUT), else the custom method of a POST. The
    request for the maintenance policy is made when it is sent: it depends on what the cluster
    has then.
    """

    request: Json
    activity: str
    action: str = ""

    @property
    def is_maintenance(self) -> bool:
        """Whether the request is still to be made."""
        return self.action == _MAINTENANCE


_ENDPOINTS = frozenset(
    {
        "controlPlaneEndpointsConfig",
        "masterAuthorizedNetworksConfig",
        "privateClusterConfig",
    }
)

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


def _private_nodes(state: Properties, inputs: Properties) -> Json | None:
    old = bool((state.get("privateClusterConfig") or {}).get("enablePrivateNodes"))
    new = bool((inputs.get("privateClusterConfig") or {}).get("enablePrivateNodes"))
    return {"desiredDefaultEnablePrivateNodes": new} if old != new else None


def _autoscaling(_state: Properties, inputs: Properties) -> Json | None:
    value = body.cluster_autoscaling(inputs)
    return None if value is None else {"desiredClusterAutoscaling": value}


def _network_tags(state: Properties, inputs: Properties) -> Json | None:
    old = ((state.get("nodePoolAutoConfig") or {}).get("networkTags") or {}).get("tags") or []
    new = ((inputs.get("nodePoolAutoConfig") or {}).get("networkTags") or {}).get("tags") or []
    return {"desiredNodePoolAutoConfigNetworkTags": {"tags": list(new)}} if old != new else None


def _manager_tags(state: Properties, inputs: Properties) -> Json | None:
    old = (state.get("nodePoolAutoConfig") or {}).get("resourceManagerTags") or {}
    new = (inputs.get("nodePoolAutoConfig") or {}).get("resourceManagerTags") or {}
    if old == new:
        return None
    return {"desiredNodePoolAutoConfigResourceManagerTags": {"tags": dict(new)}}


def _logging(_state: Properties, inputs: Properties) -> Json | None:
    if inputs.get("loggingConfig") is None:
        return None
    config = body.planned_value("loggingConfig", inputs)
    return {"desiredLoggingConfig": {"componentConfig": config}}


def _fleet(_state: Properties, inputs: Properties) -> Json:
    return {"desiredFleet": {"project": (inputs.get("fleet") or {}).get("project", "")}}


def _endpoints_differ(state: Properties, inputs: Properties, changed: frozenset[str]) -> bool:
    """Private nodes have a call of their own; they alone do not touch the endpoints."""
    if changed & (_ENDPOINTS - {"privateClusterConfig"}):
        return True
    old, new = state.get("privateClusterConfig") or {}, inputs.get("privateClusterConfig") or {}
    return bool(old.get("enablePrivateEndpoint")) != bool(new.get("enablePrivateEndpoint")) or (
        "masterGlobalAccessConfig" in new
        and bool((old.get("masterGlobalAccessConfig") or {}).get("enabled"))
        != bool(new["masterGlobalAccessConfig"].get("enabled"))
    )


def _stack_type(state: Properties, inputs: Properties) -> Json | None:
    wanted = (inputs.get("ipAllocationPolicy") or {}).get("stackType")
    before = (state.get("ipAllocationPolicy") or {}).get("stackType")
    return {"desiredStackType": wanted} if wanted and wanted != before else None


_PUTS: tuple[tuple[str, str, Builder], ...] = (
    ("privateClusterConfig", "default enable private nodes", _private_nodes),
    ("ipAllocationPolicy", "GKE cluster stack type", _stack_type),
    ("addonsConfig", "GKE cluster addons", _block("desiredAddonsConfig", "addonsConfig")),
    ("clusterAutoscaling", "GKE cluster autoscaling", _autoscaling),
    ("dnsConfig", "GKE cluster DNSConfig", _block("desiredDnsConfig", "dnsConfig")),
    (
        "allowNetAdmin",
        "net admin for GKE autopilot workload policy config",
        _wrapped("desiredAutopilotWorkloadPolicyConfig", "allowNetAdmin", "allowNetAdmin"),
    ),
    (
        "binaryAuthorization",
        "GKE binary authorization",
        lambda _, inputs: {"desiredBinaryAuthorization": body.binary_authorization(inputs)},
    ),
    (
        "enableShieldedNodes",
        "GKE shielded nodes",
        _wrapped("desiredShieldedNodes", "enabled", "enableShieldedNodes"),
    ),
    ("releaseChannel", "Release Channel", _block("desiredReleaseChannel", "releaseChannel")),
    (
        "gkeAutoUpgradeConfig",
        "GKE Auto Upgrade Config",
        _block("gkeAutoUpgradeConfig", "gkeAutoUpgradeConfig"),
    ),
    (
        "enableIntranodeVisibility",
        "GKE Intra Node Visibility",
        _wrapped("desiredIntraNodeVisibilityConfig", "enabled", "enableIntranodeVisibility"),
    ),
    (
        "privateIpv6GoogleAccess",
        "GKE Private IPv6 Google Access",
        _desired("desiredPrivateIpv6GoogleAccess", "privateIpv6GoogleAccess"),
    ),
    (
        "enableL4IlbSubsetting",
        "L4",
        _wrapped("desiredL4ilbSubsettingConfig", "enabled", "enableL4IlbSubsetting"),
    ),
    (
        "disableL4LbFirewallReconciliation",
        "Disable L4 LB Firewall Reconciliation",
        _desired("desiredDisableL4LbFirewallReconciliation", "disableL4LbFirewallReconciliation"),
    ),
    (
        "enableMultiNetworking",
        "multi networking",
        _desired("desiredEnableMultiNetworking", "enableMultiNetworking"),
    ),
    (
        "enableFqdnNetworkPolicy",
        "fqdn network policy",
        _desired("desiredEnableFqdnNetworkPolicy", "enableFqdnNetworkPolicy"),
    ),
    (
        "enableCiliumClusterwideNetworkPolicy",
        "cilium clusterwide network policy",
        _desired(
            "desiredEnableCiliumClusterwideNetworkPolicy", "enableCiliumClusterwideNetworkPolicy"
        ),
    ),
    (
        "costManagementConfig",
        "cost management config",
        _block("desiredCostManagementConfig", "costManagementConfig"),
    ),
    (
        "defaultSnatStatus",
        "GKE Default SNAT status",
        _block("desiredDefaultSnatStatus", "defaultSnatStatus"),
    ),
)
"""Sent before the calls that have a method of their own, in the provider's order."""

_LATER_PUTS: tuple[tuple[str, str, Builder], ...] = (
    ("minMasterVersion", "GKE master version", _master_version),
    (
        "notificationConfig",
        "Notification Config",
        lambda _, inputs: {"desiredNotificationConfig": body.notification(inputs)},
    ),
    (
        "verticalPodAutoscaling",
        "GKE cluster vertical pod autoscaling",
        _block("desiredVerticalPodAutoscaling", "verticalPodAutoscaling"),
    ),
    (
        "serviceExternalIpsConfig",
        "GKE cluster service externalips config",
        _block("desiredServiceExternalIpsConfig", "serviceExternalIpsConfig"),
    ),
    (
        "meshCertificates",
        "GKE cluster mesh certificates config",
        _block("desiredMeshCertificates", "meshCertificates"),
    ),
    (
        "databaseEncryption",
        "GKE cluster database encryption config",
        _block("desiredDatabaseEncryption", "databaseEncryption"),
    ),
    (
        "workloadIdentityConfig",
        "GKE cluster workload identity config",
        _block("desiredWorkloadIdentityConfig", "workloadIdentityConfig"),
    ),
    ("loggingConfig", "GKE cluster logging config", _logging),
    (
        "monitoringConfig",
        "GKE cluster monitoring config",
        _block("desiredMonitoringConfig", "monitoringConfig"),
    ),
    (
        "secretManagerConfig",
        "GKE cluster secret manager config",
        _block("desiredSecretManagerConfig", "secretManagerConfig"),
    ),
)

_LAST_PUTS: tuple[tuple[str, str, Builder], ...] = (
    (
        "gatewayApiConfig",
        "GKE Gateway API",
        _block("desiredGatewayApiConfig", "gatewayApiConfig"),
    ),
    ("fleet", "GKE cluster fleet config", _fleet),
    (
        "securityPostureConfig",
        "GKE cluster master Security Posture Config",
        _block("desiredSecurityPostureConfig", "securityPostureConfig"),
    ),
    (
        "nodePoolAutoConfig",
        "GKE cluster node pool auto config network tags",
        _network_tags,
    ),
    (
        "nodePoolAutoConfig",
        "GKE cluster node pool auto config resource manager tags",
        _manager_tags,
    ),
)


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
    if changed & _ENDPOINTS and _endpoints_differ(state, inputs, changed):
        yield Step(
            {"update": _endpoints(state, inputs)}, "updating GKE control plane endpoints config"
        )
    yield from _puts(_PUTS, state, inputs, changed)
    if "maintenancePolicy" in changed:
        yield Step({}, "updating GKE cluster maintenance policy", _MAINTENANCE)
    yield from _locations(state, inputs, changed)
    if "enableLegacyAbac" in changed:
        enabled = bool(inputs.get("enableLegacyAbac"))
        yield Step({"enabled": enabled}, "updating GKE legacy ABAC", ":setLegacyAbac")
    if changed & {"loggingService", "monitoringService"}:
        update = {
            "desiredLoggingService": inputs.get("loggingService", ""),
            "desiredMonitoringService": inputs.get("monitoringService", ""),
        }
        yield Step({"update": update}, "updating GKE logging+monitoring service")
    if "networkPolicy" in changed:
        yield Step(
            {"networkPolicy": body.network_policy(inputs)},
            "updating GKE cluster network policy",
            ":setNetworkPolicy",
        )
    yield from _puts(_LATER_PUTS, state, inputs, changed)
    if labels is not None:
        yield Step(
            {"labelFingerprint": state.get("labelFingerprint", ""), "resourceLabels": labels},
            "updating GKE resource labels",
            ":setResourceLabels",
        )
    yield from _puts(_LAST_PUTS, state, inputs, changed)


def _puts(
    table: tuple[tuple[str, str, Builder], ...],
    state: Properties,
    inputs: Properties,
    changed: frozenset[str],
) -> Iterator[Step]:
    for name, what, build in table:
        if name in changed:
            update = build(state, inputs)
            if update is not None:
                yield Step({"update": update}, f"updating {what}")


def _locations(state: Properties, inputs: Properties, changed: frozenset[str]) -> Iterator[Step]:
    """Zones are added first and taken away in a second request: one cannot do both."""
    if "nodeLocations" not in changed:
        return
    old, new = set(state.get("nodeLocations") or ()), set(inputs.get("nodeLocations") or ())
    for wanted in (old | new, new) if old - new else (new,):
        yield Step(
            {"update": {"desiredLocations": sorted(wanted)}},
            "updating GKE cluster node locations",
        )
