"""The provider's functions (data sources) [facts google-cloud.md §9]."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

from .configuration import COMPUTE, CONTAINER, RESOURCE_MANAGER
from .errors import GoogleApiError, ProviderError
from .resources.base import Call
from .values import Path, Properties

Answer = tuple[Properties, set[Path]]
Function = Callable[[Call, Mapping[str, Any]], Answer]


def get_engine_versions(call: Call, args: Mapping[str, Any]) -> Answer:
    """List the GKE versions of a location, newest first, cut to a prefix."""
    project = call.config.require_project(args.get("project"))
    location = call.config.require_location(args.get("location"))
    prefix = args.get("versionPrefix") or ""
    try:
        found = call.client.request(
            CONTAINER,
            "GET",
            f"projects/{project}/locations/{location}/serverConfig",
            deadline=call.deadline,
        )
    except ProviderError as error:
        raise ProviderError(
            f"Error retrieving available container cluster versions: {error}"
        ) from error
    masters = [text for text in found.get("validMasterVersions") or () if text.startswith(prefix)]
    nodes = [text for text in found.get("validNodeVersions") or () if text.startswith(prefix)]
    defaults, latest, targets = {}, {}, {}
    for channel in found.get("channels") or ():
        name = channel.get("channel", "")
        defaults[name] = channel.get("defaultVersion", "")
        valid = [text for text in channel.get("validVersions") or () if text.startswith(prefix)]
        if valid:
            latest[name] = valid[0]
        if channel.get("upgradeTargetVersion"):
            targets[name] = channel["upgradeTargetVersion"]
    return {
        "id": datetime.datetime.now(datetime.UTC).isoformat(),
        "project": project,
        "location": location,
        "versionPrefix": prefix,
        "defaultClusterVersion": found.get("defaultClusterVersion", ""),
        "latestMasterVersion": masters[0] if masters else "",
        "latestNodeVersion": nodes[0] if nodes else "",
        "validMasterVersions": masters,
        "validNodeVersions": nodes,
        "releaseChannelDefaultVersion": defaults,
        "releaseChannelLatestVersion": latest,
        "releaseChannelUpgradeTargetVersion": targets,
    }, set()


def get_zones(call: Call, args: Mapping[str, Any]) -> Answer:
    """List the zones of a region; an unknown region has none, without an error."""
    project = call.config.require_project(args.get("project"))
    region = call.config.require_region(args.get("region"))
    status = args.get("status") or ""
    if status not in {"", "UP", "DOWN"}:
        raise ProviderError(f'expected status to be one of ["UP" "DOWN"], got {status}')
    names: list[str] = []
    token = ""
    while True:
        found = call.client.request(
            COMPUTE,
            "GET",
            f"projects/{project}/zones",
            query={"pageToken": token} if token else {},
            deadline=call.deadline,
        )
        for zone in found.get("items") or ():
            name = str(zone.get("name", ""))
            if re.fullmatch(re.escape(region) + r"-[a-z]", name) and (
                not status or zone.get("status") == status
            ):
                names.append(name)
        token = found.get("nextPageToken") or ""
        if not token:
            break
    return {
        "id": f"projects/{project}/regions/{region}",
        "project": project,
        "region": region,
        "status": status or None,
        "names": sorted(names),
    }, set()


def get_client_config(call: Call, args: Mapping[str, Any]) -> Answer:  # noqa: ARG001
    """Return what the provider was configured with; the token is secret."""
    config = call.config
    return {
        "id": f"projects/{config.project}/regions/{config.region}/zones/{config.zone}",
        "project": config.project,
        "region": config.region,
        "zone": config.zone,
        "accessToken": config.access_token,
        "defaultLabels": dict(config.default_labels),
    }, {("accessToken",)}


def get_project(call: Call, args: Mapping[str, Any]) -> Answer:
    """Describe a project."""
    project = call.config.require_project(args.get("projectId"))
    missing = ProviderError(f"projects/{project} not found or not in ACTIVE state")
    try:
        found = call.client.request(
            RESOURCE_MANAGER, "GET", f"projects/{project}", deadline=call.deadline
        )
    except GoogleApiError as error:
        if error.status in {403, 404}:
            raise missing from error
        raise
    if found.get("lifecycleState", "ACTIVE") != "ACTIVE":
        raise missing
    labels = dict(found.get("labels") or {})
    parent = found.get("parent") or {}
    kind, parent_id = parent.get("type"), str(parent.get("id", ""))
    return {
        "id": f"projects/{project}",
        "projectId": project,
        "name": found.get("name", ""),
        "number": str(found.get("projectNumber", "")),
        "orgId": parent_id if kind == "organization" else "",
        "folderId": parent_id if kind == "folder" else "",
        "billingAccount": "",
        "autoCreateNetwork": False,
        "deletionPolicy": "",
        "labels": labels,
        "effectiveLabels": labels,
        "pulumiLabels": labels,
        "tags": {},
    }, set()


def get_cluster(call: Call, args: Mapping[str, Any]) -> Answer:
    """Describe a cluster by its plain fields; a missing one is an error.

    Blocks are left out. Labels are all that the cluster has, as in every data source.
    """
    project = call.config.require_project(args.get("project"))
    location = call.config.require_location(args.get("location"))
    resource_id = f"projects/{project}/locations/{location}/clusters/{args.get('name')}"
    try:
        found = call.client.request(CONTAINER, "GET", resource_id, deadline=call.deadline)
    except GoogleApiError as error:
        if error.status == 404:
            raise ProviderError(f"{resource_id} not found") from error
        raise
    labels = dict(found.get("resourceLabels") or {})
    return {
        "id": resource_id,
        "name": found.get("name", ""),
        "project": project,
        "location": location,
        "endpoint": found.get("endpoint", ""),
        "masterVersion": found.get("currentMasterVersion", ""),
        "selfLink": found.get("selfLink", ""),
        "resourceLabels": labels,
        "effectiveLabels": labels,
    }, set()


FUNCTIONS: dict[str, Function] = {
    "gcp:container/getCluster:getCluster": get_cluster,
    "gcp:container/getEngineVersions:getEngineVersions": get_engine_versions,
    "gcp:compute/getZones:getZones": get_zones,
    "gcp:organizations/getClientConfig:getClientConfig": get_client_config,
    "gcp:organizations/getProject:getProject": get_project,
}
