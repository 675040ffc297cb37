"""GKE Autopilot clusters: create, read, list, delete, and going on after a restart.

Owns the life of a cluster; what it may be, versions, networking, read-back and updates are in the
modules beside it. Every cluster is real: its control plane is started by the `ClusterRuntime`.
Citations: facts google-cloud.md §6.4 unless said otherwise.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import time
from typing import Any

from sandbox.cloud import cluster_networking
from sandbox.cloud.cluster_checks import check_cluster
from sandbox.cloud.cluster_shape import new_cluster, set_endpoint
from sandbox.cloud.cluster_versions import check_location, resolve
from sandbox.cloud.container_operations import render
from sandbox.cloud.core import Call, Cloud
from sandbox.cloud.errors import ApiError, OperationError, bad_request, failed_precondition
from sandbox.cloud.links import cluster_path, path
from sandbox.cloud.operations import EFFECTS, Effect
from sandbox.cloud.payload import parse
from sandbox.cloud.registry import endpoint, rule
from sandbox.cloud.store import OperationRecord, Record
from sandbox.contracts import ClusterEndpoint, ClusterKey

_log = logging.getLogger(__name__)
_SECTION = "facts google-cloud.md §6.4"
_RECORDED = "facts gcloud-requests.md; real-provider.md (requests)"
_BASE = "projects/{project}/locations/{location}/clusters"

rule(
    "clusters.exists",
    "a second create of a name answers 409 alreadyExists",
    citation=_SECTION,
    judges="gcloud provider",
)
rule(
    "clusters.no-gpu-quota",
    "GPU quota is not looked at on create",
    citation="facts §6.5",
    judges="gcloud",
)
rule(
    "clusters.busy",
    "one operation at a time per cluster",
    citation="facts §6.3 [K: words]",
    judges="gcloud",
)
rule(
    "clusters.error",
    "a control plane that does not come up leaves a cluster in ERROR with statusMessage",
    citation="facts real-provider.md (errors as the engine shows them)",
    judges="gcloud provider",
)
rule(
    "clusters.resume",
    "after a restart running clusters are started again and open operations go on",
    citation="decision of this sandbox",
)


def key_of(record: Record) -> ClusterKey:
    """Return the key of a cluster's record."""
    return ClusterKey(project=record.project, location=record.location, name=record.name)


def require_cluster(cloud: Cloud, project: str, location: str, name: str) -> Record:
    """Return a cluster.

    Raises:
        ApiError: 404.
    """
    record = cloud.store.get("clusters", project, location, name)
    if record is None:
        raise ApiError(404, f"Not found: {cluster_path(project, location, name)}.", "notFound")
    return record


def refuse_busy(cloud: Cloud, record: Record) -> None:
    """Refuse a change while another is going on.

    Raises:
        ApiError: 400 failedPrecondition, naming the operation.
    """
    target = cluster_path(record.project, record.location, record.name)
    for operation in cloud.store.operations(
        api="container", project=record.project, open_only=True
    ):
        if operation.target == target:
            raise failed_precondition(
                f"Cluster is running incompatible operation {operation.name}."
            )


@endpoint("container", "POST", _BASE, citation=_RECORDED, judges="gcloud provider")
def create(call: Call) -> dict[str, Any]:
    """Create a cluster; its control plane starts in the operation."""
    project, location = call.project, call.params["location"]
    check_location(project, location)
    sent = parse("container", "CreateClusterRequest", call.body).get("cluster")
    if not sent:
        raise bad_request("Cluster is required.")
    name = sent.get("name", "")
    channel = check_cluster(project, location, sent)
    version = resolve(sent.get("initialClusterVersion", ""), channel)
    target = cluster_path(project, location, name)
    if call.store.get("clusters", project, location, name) is not None:
        raise ApiError(409, f"Already exists: {target}.", "alreadyExists")
    cluster_id = hashlib.sha256(f"{target}/{time.time_ns()}".encode()).hexdigest()
    digest = cluster_id[:8]
    placement = cluster_networking.place(call.cloud, project, location, sent, name, digest)
    cluster = new_cluster(
        project,
        location,
        sent,
        cluster_id=cluster_id,
        version=version,
        channel=channel,
        placement=placement,
    )
    call.store.put(
        Record(
            kind="clusters",
            project=project,
            location=location,
            name=name,
            body=cluster,
            created=time.time(),
        )
    )
    cluster_networking.reserve(call.cloud, project, placement, target, f"gk3-{name}-{digest}")
    operation = call.cloud.operations.begin(
        api="container",
        project=project,
        location=location,
        action="clusters.create",
        operation_type="CREATE_CLUSTER",
        target=target,
        params={"name": name},
        requires=[
            path(project, "global", "networks", placement.network),
            path(project, location, "subnetworks", placement.subnetwork),
        ],
    )
    return render(operation, call.version)


@endpoint("container", "GET", _BASE + "/{name}", citation=_RECORDED, judges="gcloud provider")
def get(call: Call) -> dict[str, Any]:
    """Read a cluster."""
    location = call.params["location"]
    check_location(call.project, location)
    record = require_cluster(call.cloud, call.project, location, call.params["name"])
    return shown(call.cloud, record, call.version)


@endpoint("container", "GET", _BASE, citation="facts gcloud-requests.md", judges="gcloud")
def list_(call: Call) -> dict[str, Any]:
    """List the clusters of a location, or of all with `-`."""
    location = call.params["location"]
    if location != "-":
        check_location(call.project, location)
    records = call.store.find(
        kind="clusters", project=call.project, location=None if location == "-" else location
    )
    clusters = [shown(call.cloud, record, call.version) for record in records]
    return {"clusters": clusters} if clusters else {}


def shown(cloud: Cloud, record: Record, version: str) -> dict[str, Any]:
    """Return a cluster as clients see it through one API version."""
    owner = cluster_path(record.project, record.location, record.name)
    nodes = sum(1 for owned in cloud.store.find(owner=owner) if owned.kind == "instances")
    body = dict(record.body)
    body["selfLink"] = body["selfLink"].replace("/v1beta1/", f"/{version}/", 1)
    return {**body, "currentNodeCount": nodes} if nodes else body


@endpoint("container", "DELETE", _BASE + "/{name}", citation=_RECORDED, judges="gcloud provider")
def delete(call: Call) -> dict[str, Any]:
    """Delete a cluster with its nodes and all that GKE made for it."""
    location, name = call.params["location"], call.params["name"]
    check_location(call.project, location)
    record = require_cluster(call.cloud, call.project, location, name)
    refuse_busy(call.cloud, record)
    before = record.body["status"]
    record.body["status"] = "STOPPING"
    call.store.put(record)
    operation = call.cloud.operations.begin(
        api="container",
        project=call.project,
        location=location,
        action="clusters.delete",
        operation_type="DELETE_CLUSTER",
        target=cluster_path(call.project, location, name),
        params={"name": name, "statusBefore": before},
    )
    return render(operation, call.version)


def cluster_of(cloud: Cloud, operation: OperationRecord) -> Record:
    """Return the cluster that an operation works on.

    Raises:
        OperationError: it is gone.
    """
    name = operation.body["params"]["name"]
    record = cloud.store.get("clusters", operation.project, operation.location, name)
    if record is None:
        raise OperationError("INTERNAL", f"Not found: {operation.target}.")
    return record


async def _start(cloud: Cloud, operation: OperationRecord) -> ClusterEndpoint:
    record = cluster_of(cloud, operation)
    try:
        return await cloud.runtime.start(key_of(record), record.body)
    except RuntimeError as error:
        raise OperationError("INTERNAL", str(error)) from error


def _running(cloud: Cloud, operation: OperationRecord, result: ClusterEndpoint) -> None:
    record = cluster_of(cloud, operation)
    mark_running(record, result)
    cloud.store.put(record)
    cluster_networking.add_firewalls(cloud, record.project, record.body, operation.target)


def mark_running(record: Record, result: ClusterEndpoint) -> None:
    """Write a started control plane into a cluster."""
    encoded = base64.b64encode(result.ca_certificate_pem.encode()).decode()
    set_endpoint(record.body, result.endpoint, encoded)
    record.body["status"] = "RUNNING"
    record.body.pop("statusMessage", None)
    record.body.pop("conditions", None)


def mark_failed(record: Record, status: str, message: str) -> None:
    """Write a failure into a cluster."""
    record.body["status"] = status
    record.body["statusMessage"] = message
    record.body["conditions"] = [{"message": message, "canonicalCode": "INTERNAL"}]


def _broken(cloud: Cloud, operation: OperationRecord, error: OperationError) -> None:
    record = cloud.store.get(
        "clusters", operation.project, operation.location, operation.body["params"]["name"]
    )
    if record is not None:
        mark_failed(record, "ERROR", error.message)
        cloud.store.put(record)


async def _stop(cloud: Cloud, operation: OperationRecord) -> None:
    record = cluster_of(cloud, operation)
    try:
        await cloud.runtime.stop(key_of(record), delete=True)
    except RuntimeError as error:
        raise OperationError("INTERNAL", str(error)) from error


def _gone(cloud: Cloud, operation: OperationRecord, _: Any) -> None:
    record = cluster_of(cloud, operation)
    cluster_networking.release(cloud, record.project, record.body, operation.target)
    cloud.store.delete("clusters", record.project, record.location, record.name)


def _not_deleted(cloud: Cloud, operation: OperationRecord, error: OperationError) -> None:
    params = operation.body["params"]
    record = cloud.store.get("clusters", operation.project, operation.location, params["name"])
    if record is not None:
        # A control plane that was already stopped does not answer: ERROR, as at Google.
        mark_failed(record, "ERROR", error.message)
        cloud.store.put(record)


EFFECTS["clusters.create"] = Effect(apply=_running, work=_start, undo=_broken)
EFFECTS["clusters.delete"] = Effect(apply=_gone, work=_stop, undo=_not_deleted)


async def resume_clusters(cloud: Cloud) -> None:
    """Start the control planes of clusters that were up when the last process ended."""
    up = ("RUNNING", "RECONCILING", "DEGRADED")
    records = [
        record for record in cloud.store.find(kind="clusters") if record.body["status"] in up
    ]
    await asyncio.gather(*(_resume(cloud, record) for record in records))


async def _resume(cloud: Cloud, record: Record) -> None:
    status = record.body["status"]
    try:
        result = await cloud.runtime.start(key_of(record), record.body)
    except RuntimeError as error:
        _log.error("cluster %s did not come up again: %s", record.name, error)
        mark_failed(record, "DEGRADED", str(error))
    else:
        mark_running(record, result)
        record.body["status"] = "RECONCILING" if status == "RECONCILING" else "RUNNING"
    cloud.store.put(record)


async def suspend_clusters(cloud: Cloud) -> None:
    """Stop all control planes and keep their data."""
    await asyncio.gather(
        *(
            cloud.runtime.stop(key_of(record), delete=False)
            for record in cloud.store.find(kind="clusters")
        )
    )
