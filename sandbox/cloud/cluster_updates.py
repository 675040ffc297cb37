"""Changes to a running cluster: update, labels, maintenance policy.

Owns which fields can change and which are fixed at creation. Citations: facts google-cloud.md §6.1
and real-provider.md (updates) unless said otherwise. A desired field that this stand-in does not
know how to carry out is refused, never accepted in silence.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from sandbox.cloud.cluster_checks import check_authorized_networks, check_channel, check_labels
from sandbox.cloud.cluster_shape import label_fingerprint
from sandbox.cloud.cluster_versions import check_location, resolve, sort_key
from sandbox.cloud.clusters import (
    cluster_of,
    key_of,
    refuse_busy,
    require_cluster,
)
from sandbox.cloud.container_operations import render
from sandbox.cloud.core import Call, Cloud
from sandbox.cloud.errors import OperationError, bad_request, failed_precondition
from sandbox.cloud.links import cluster_path
from sandbox.cloud.operations import EFFECTS, Effect
from sandbox.cloud.payload import merged, parse
from sandbox.cloud.registry import endpoint, rule
from sandbox.cloud.store import OperationRecord, Record

_SECTION = "facts google-cloud.md §6.1"
_BASE = "projects/{project}/locations/{location}/clusters/{name}"
_FIELDS: dict[str, str] = {
    "desiredAddonsConfig": "addonsConfig",
    "desiredAutopilotWorkloadPolicyConfig": "autopilot.workloadPolicyConfig",
    "desiredBinaryAuthorization": "binaryAuthorization",
    "desiredClusterAutoscaling": "autoscaling",
    "desiredControlPlaneEndpointsConfig": "controlPlaneEndpointsConfig",
    "desiredCostManagementConfig": "costManagementConfig",
    "desiredDefaultEnablePrivateNodes": "networkConfig.defaultEnablePrivateNodes",
    "desiredDnsConfig": "networkConfig.dnsConfig",
    "desiredGatewayApiConfig": "networkConfig.gatewayApiConfig",
    "desiredLocations": "locations",
    "desiredLoggingConfig": "loggingConfig",
    "desiredMasterAuthorizedNetworksConfig": "masterAuthorizedNetworksConfig",
    "desiredMonitoringConfig": "monitoringConfig",
    "desiredNodePoolAutoConfigNetworkTags": "nodePoolAutoConfig.networkTags",
    "desiredNodePoolAutoConfigResourceManagerTags": "nodePoolAutoConfig.resourceManagerTags",
    "desiredNotificationConfig": "notificationConfig",
    "desiredPrivilegedAdmissionConfig": "autopilot.privilegedAdmissionConfig",
    "desiredReleaseChannel": "releaseChannel",
    "desiredSecurityPostureConfig": "securityPostureConfig",
    "desiredVerticalPodAutoscaling": "verticalPodAutoscaling",
}
"""Desired field -> path in the cluster. Messages are merged, everything else replaced."""
_REPLACED = frozenset({"desiredAutopilotWorkloadPolicyConfig", "desiredNotificationConfig"})
_FIXED: dict[str, str] = {
    "desiredEnableMultiNetworking": "networkConfig.enableMultiNetworking",
    "desiredDatapathProvider": "networkConfig.datapathProvider",
}

rule(
    "clusters.multi-networking-fixed",
    "multi-networking cannot be switched on or off later",
    citation="facts google-cloud.md §0.3, §6.4 [K: words unknown]",
    judges="gcloud",
)
rule(
    "clusters.net-admin-in-place",
    "allowNetAdmin changes in place both ways",
    citation=_SECTION,
    judges="gcloud provider",
)
rule(
    "clusters.upgrade",
    "a version may rise in place, not fall",
    citation=f"{_SECTION} [K: words]",
    judges="gcloud",
)
rule(
    "clusters.label-fingerprint",
    "labels need the present fingerprint",
    citation="[K: words]",
    judges="gcloud",
)
rule("clusters.update-unknown", "an update that is not carried out is refused", citation="decision")


@endpoint(
    "container",
    "PUT",
    _BASE,
    citation="facts real-provider.md (updates)",
    judges="gcloud provider",
)
def update(call: Call) -> dict[str, Any]:
    """Change a cluster; the control plane follows in the operation."""
    record = _at_rest(call)
    wanted = parse("container", "UpdateClusterRequest", call.body).get("update") or {}
    if not wanted:
        raise bad_request("Must specify a field to update.")
    changes: dict[str, Any] = {}
    for field, value in wanted.items():
        if field in _FIXED:
            _refuse_fixed(record, field, value)
        elif field in ("desiredMasterVersion", "desiredNodeVersion"):
            changes[field] = _version(record, wanted, value)
        elif field in _FIELDS:
            changes[field] = value
        else:
            raise bad_request(f'This stand-in cannot carry out "{field}".')
    _check_addresses(changes)
    if "desiredReleaseChannel" in changes:
        channel = check_channel(changes["desiredReleaseChannel"].get("channel", ""))
        changes["desiredReleaseChannel"] = {"channel": channel}
    verb = "upgrade" if "desiredMasterVersion" in changes else "update"
    kind = "UPGRADE_MASTER" if verb == "upgrade" else "UPDATE_CLUSTER"
    return _begin(call, record, verb, kind, {"desired": changes})


def _check_addresses(changes: Mapping[str, Any]) -> None:
    check_authorized_networks(changes.get("desiredMasterAuthorizedNetworksConfig", {}))
    endpoints = changes.get("desiredControlPlaneEndpointsConfig", {})
    addresses = endpoints.get("ipEndpointsConfig", {})
    check_authorized_networks(addresses.get("authorizedNetworksConfig", {}))


def _refuse_fixed(record: Record, field: str, value: Any) -> None:
    path = _FIXED[field]
    present = _look(record.body, path)
    if value != present:
        raise bad_request(
            f"{path} of a cluster is set when the cluster is created and cannot be changed: it is "
            f"{str(present).lower()}."
        )


def _version(record: Record, wanted: Mapping[str, Any], value: str) -> str:
    present = record.body["currentMasterVersion"]
    channel = wanted.get("desiredReleaseChannel", {}).get("channel")
    channel = channel or record.body["releaseChannel"]["channel"]
    version = resolve(value, channel, default=present)
    if sort_key(version) < sort_key(present):
        raise bad_request(f'Master cannot be downgraded from "{present}" to "{version}".')
    return version


@endpoint(
    "container",
    "POST",
    _BASE + ":setResourceLabels",
    citation="facts real-provider.md (updates)",
    judges="gcloud provider",
)
def set_labels(call: Call) -> dict[str, Any]:
    """Replace the labels of a cluster."""
    record = _at_rest(call)
    body = parse("container", "SetLabelsRequest", call.body)
    if body.get("labelFingerprint") != record.body["labelFingerprint"]:
        raise failed_precondition("Labels could not be set due to fingerprint mismatch.")
    labels = body.get("resourceLabels", {})
    check_labels(labels)
    change = {"resourceLabels": labels, "labelFingerprint": label_fingerprint(labels)}
    return _begin(call, record, "update", "UPDATE_CLUSTER", {"fields": change})


@endpoint("container", "POST", _BASE + ":setMaintenancePolicy", citation="[K]", judges="gcloud")
def set_maintenance_policy(call: Call) -> dict[str, Any]:
    """Replace the maintenance policy of a cluster."""
    record = _at_rest(call)
    body = parse("container", "SetMaintenancePolicyRequest", call.body)
    change = {"maintenancePolicy": body.get("maintenancePolicy", {})}
    return _begin(call, record, "update", "UPDATE_CLUSTER", {"fields": change})


def _at_rest(call: Call) -> Record:
    location = call.params["location"]
    check_location(call.project, location)
    record = require_cluster(call.cloud, call.project, location, call.params["name"])
    refuse_busy(call.cloud, record)
    if record.body["status"] != "RUNNING":
        raise failed_precondition(
            f"Cluster {record.name} is in state {record.body['status']} and cannot be changed."
        )
    return record


def _begin(
    call: Call, record: Record, verb: str, operation_type: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    record.body["status"] = "RECONCILING"
    call.store.put(record)
    operation = call.cloud.operations.begin(
        api="container",
        project=record.project,
        location=record.location,
        action=f"clusters.{verb}",
        operation_type=operation_type,
        target=cluster_path(record.project, record.location, record.name),
        params={"name": record.name, **params},
    )
    return render(operation, call.version)


def _changed(record: Record, params: Mapping[str, Any]) -> dict[str, Any]:
    body = copy.deepcopy(record.body)
    body.update(params.get("fields", {}))
    for field, value in params.get("desired", {}).items():
        if field == "desiredMasterVersion":
            body["currentMasterVersion"] = value
            # Autopilot's nodes follow the control plane on their own.
            body["currentNodeVersion"] = value
        elif field != "desiredNodeVersion":
            _write(body, _FIELDS[field], value, replace=field in _REPLACED)
    if "desiredMasterAuthorizedNetworksConfig" in params.get("desired", {}):
        addresses = body["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
        addresses["authorizedNetworksConfig"] = body["masterAuthorizedNetworksConfig"]
    body["status"] = "RUNNING"
    return body


def _look(body: Mapping[str, Any], path: str) -> Any:
    found: Any = body
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _write(body: dict[str, Any], path: str, value: Any, *, replace: bool) -> None:
    *parents, last = path.split(".")
    for part in parents:
        body = body.setdefault(part, {})
    if isinstance(value, dict) and not replace:
        body[last] = merged(body.get(last), value)
    else:
        body[last] = value


async def _carry(cloud: Cloud, operation: OperationRecord) -> None:
    record = cluster_of(cloud, operation)
    try:
        await cloud.runtime.update(key_of(record), _changed(record, operation.body["params"]))
    except RuntimeError as error:
        raise OperationError("INTERNAL", str(error)) from error


def _apply(cloud: Cloud, operation: OperationRecord, _: Any) -> None:
    record = cluster_of(cloud, operation)
    record.body = _changed(record, operation.body["params"])
    cloud.store.put(record)


def _back(cloud: Cloud, operation: OperationRecord, _: OperationError) -> None:
    name = operation.body["params"]["name"]
    record = cloud.store.get("clusters", operation.project, operation.location, name)
    if record is not None:
        record.body["status"] = "RUNNING"
        cloud.store.put(record)


EFFECTS["clusters.update"] = Effect(apply=_apply, work=_carry, undo=_back)
EFFECTS["clusters.upgrade"] = EFFECTS["clusters.update"]
