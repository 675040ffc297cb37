"""What all Compute resources share.

Owns the fields that every Compute answer carries, list and aggregated list, the operation that
each change answers with, the reading of bodies, and fingerprints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sandbox.cloud import catalog, links
from sandbox.cloud.compute_operations import render
from sandbox.cloud.core import Call, Cloud, State, compute_time
from sandbox.cloud.errors import ApiError, OperationError, invalid_field, quota_exceeded
from sandbox.cloud.links import path
from sandbox.cloud.listing import page
from sandbox.cloud.operations import EFFECTS, Effect
from sandbox.cloud.payload import merged, parse
from sandbox.cloud.registry import rule
from sandbox.cloud.store import OperationRecord, Record, new_numeric_id

Resource = dict[str, Any]
_URL_SAFE = str.maketrans("+/", "-_")
_LIMIT_NAMES = {
    "NETWORKS": ("NETWORKS-per-project", "compute.googleapis.com/networks", "networks"),
    "SUBNETWORKS": ("SUBNETWORKS-per-project", "compute.googleapis.com/subnetworks", "subnetworks"),
    "FIREWALLS": ("FIREWALLS-per-project", "compute.googleapis.com/firewalls", "firewalls"),
    "ROUTES": ("ROUTES-per-project", "compute.googleapis.com/routes", "routes"),
}

rule(
    "compute.merge-patch",
    "a PATCH merges messages and replaces lists; null or an empty list takes a field away",
    citation="Google's API description of firewalls.patch; for the others recorded from gcloud 528",
    judges="gcloud",
)


def body_of(call: Call, message: str) -> Resource:
    """Return the checked body of a Compute call."""
    return parse("compute", message, call.body)


def patch_of(
    call: Call,
    present: Mapping[str, Any],
    body: Resource,
    fields: Iterable[str],
    *,
    defaults: Callable[[Resource], Resource] = dict,
) -> Resource:
    """Return the fields that a PATCH changes, as they are afterwards; None where one goes.

    Args:
        call: The request; its raw body tells a null from what is absent.
        present: The resource as it is.
        body: The checked body of the request.
        fields: What can be changed.
        defaults: Fills what the API fills in.
    """
    sent = call.body if isinstance(call.body, dict) else {}
    changes: Resource = {}
    for field in fields:
        if isinstance(body.get(field), dict):
            changes[field] = merged(present.get(field), body[field])
        elif field in body:
            changes[field] = body[field]
        elif field in sent:
            changes[field] = None
    after = defaults(changed(present, changes))
    return {field: after.get(field) for field in changes}


def changed(present: Mapping[str, Any], changes: Mapping[str, Any]) -> Resource:
    """Return a resource after a change; as at Google it shows no field that is empty."""
    after = {**present, **changes}
    return {key: value for key, value in after.items() if value is not None and value != []}


def region_of(call: Call) -> str:
    """Return the region of the path.

    Raises:
        ApiError: 400, unknown region [facts google-cloud.md §3].
    """
    region = call.params["region"]
    if region not in catalog.regions(call.project):
        raise invalid_field("region", region, "Unknown region.")
    return region


def zone_of(call: Call) -> str:
    """Return the zone of the path.

    Raises:
        ApiError: 400, unknown zone.
    """
    zone = call.params["zone"]
    if zone not in catalog.all_zones(call.project):
        raise invalid_field("zone", zone, "Unknown zone.")
    return zone


def new_record(
    kind: str,
    singular: str,
    project: str,
    location: str,
    body: Mapping[str, Any],
    *,
    state: str = "creating",
    owner: str = "",
) -> Record:
    """Return a record whose body has what every Compute resource answers with."""
    now = time.time()
    numeric = new_numeric_id()
    fixed: Resource = {
        "kind": f"compute#{singular}",
        "id": numeric,
        "creationTimestamp": compute_time(now),
        "selfLink": links.link(project, location, kind, body["name"]),
    }
    if kind == "networks":
        fixed["selfLinkWithId"] = links.link(project, location, kind, numeric)
    if location != "global":
        fixed[links.scope(location)] = links.scope_link(project, location)
    return Record(
        kind=kind,
        project=project,
        location=location,
        name=body["name"],
        body={**body, **fixed},
        state=state,
        owner=owner,
        created=now,
    )


def begin(
    call: Call,
    kind: str,
    verb: str,
    location: str,
    name: str,
    *,
    params: Resource | None = None,
    requires: Sequence[str] = (),
) -> Resource:
    """Accept a change of one resource and answer with its operation."""
    record = call.store.get(kind, call.project, location, name)
    operation = call.cloud.operations.begin(
        api="compute",
        project=call.project,
        location=location,
        action=f"{kind}.{verb}",
        operation_type=verb,
        target=path(call.project, location, kind, name),
        params={
            "kind": kind,
            "name": name,
            "targetId": record.body["id"] if record else "",
            **(params or {}),
        },
        requires=requires,
    )
    return render(operation)


def begin_deletion(call: Call, record: Record) -> Resource:
    """Accept the deletion of a resource: it is locked from now on, and gone with its operation."""
    record.state = "deleting"
    call.store.put(record)
    return begin(call, record.kind, "delete", record.location, record.name)


def target_of(cloud: Cloud, operation: OperationRecord) -> Record:
    """Return the resource that an operation works on.

    Raises:
        OperationError: it is gone.
    """
    params = operation.body["params"]
    record = cloud.store.get(params["kind"], operation.project, operation.location, params["name"])
    if record is None:
        raise OperationError(
            "RESOURCE_NOT_FOUND",
            f"The resource '{operation.target}' was not found",
            http_status=404,
        )
    return record


def register_effects(
    kind: str,
    *,
    quota: str | None = None,
    after_insert: Callable[[Cloud, Record], None] | None = None,
    before_delete: Callable[[Cloud, Record], None] | None = None,
) -> None:
    """Register insert, patch and delete of a kind.

    Args:
        kind: Collection name, e.g. `networks`.
        quota: Project metric that an insert is checked against, in the operation
            [facts google-cloud.md §0.2].
        after_insert: Makes what Google makes beside the resource.
        before_delete: Removes that again; raises OperationError for what blocks the deletion.
    """

    def insert(cloud: Cloud, operation: OperationRecord, _: Any) -> None:
        record = target_of(cloud, operation)
        if quota is not None:
            check_quota(cloud, record, quota)
        record.state = "ready"
        cloud.store.put(record)
        if after_insert is not None:
            after_insert(cloud, record)

    def forget(cloud: Cloud, operation: OperationRecord, _: OperationError) -> None:
        name = operation.body["params"]["name"]
        cloud.store.delete(kind, operation.project, operation.location, name)

    def patch(cloud: Cloud, operation: OperationRecord, _: Any) -> None:
        record = target_of(cloud, operation)
        record.body = changed(record.body, operation.body["params"]["changes"])
        cloud.store.put(record)

    def delete(cloud: Cloud, operation: OperationRecord, _: Any) -> None:
        record = target_of(cloud, operation)
        if before_delete is not None:
            before_delete(cloud, record)
        cloud.store.delete(kind, record.project, record.location, record.name)

    def keep(cloud: Cloud, operation: OperationRecord, _: OperationError) -> None:
        name = operation.body["params"]["name"]
        record = cloud.store.get(kind, operation.project, operation.location, name)
        if record is not None:
            record.state = "ready"
            cloud.store.put(record)

    EFFECTS[f"{kind}.insert"] = Effect(apply=insert, undo=forget)
    EFFECTS[f"{kind}.patch"] = Effect(apply=patch)
    EFFECTS[f"{kind}.delete"] = Effect(apply=delete, undo=keep)


def check_quota(cloud: Cloud, record: Record, metric: str) -> None:
    """Check a project-wide count that includes `record` against its limit.

    Raises:
        OperationError: too many [facts google-cloud.md §2].
    """
    limit = cloud.project_quota(record.project, metric)
    others = [
        other
        for other in cloud.store.find(kind=record.kind, project=record.project)
        if other.state != "creating"
    ]
    if len(others) >= limit:
        limit_name, service_metric, _ = _LIMIT_NAMES[metric]
        raise quota_exceeded(metric, limit, limit_name, service_metric, {"global": "global"})


def quota_usage(cloud: Cloud, project: str) -> list[Resource]:
    """Return the project's quotas as `projects.get` shows them."""
    shown = [
        {
            "metric": metric,
            "limit": float(cloud.project_quota(project, metric)),
            "usage": float(len(cloud.visible(kind, project))),
        }
        for metric, (_, _, kind) in _LIMIT_NAMES.items()
    ]
    gpus = sum(gpu_usage(cloud, project, region, None) for region in catalog.regions(project))
    limit = float(cloud.project_quota(project, "GPUS_ALL_REGIONS"))
    return [*shown, {"metric": "GPUS_ALL_REGIONS", "limit": limit, "usage": float(gpus)}]


def gpu_usage(state: State, project: str, region: str, metric: str | None) -> int:
    """Return the GPUs of a region that instances use, of one quota metric or of all."""
    used = 0
    for zone in catalog.zones(region):
        for record in state.store.find(kind="instances", project=project, location=zone):
            used += sum(
                count
                for counted, count in instance_gpus(record.body)
                if metric is None or counted == metric
            )
    return used


def instance_gpus(instance: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """Yield quota metric and number of the GPUs of an instance.

    Spot and flex-start machines count against the preemptible quota [facts autopilot.md §6].
    """
    machine_type = str(instance.get("machineType", "")).rpartition("/")[2]
    known = catalog.MACHINE_TYPES.get(machine_type)
    if known is None or not known.accelerator:
        return
    model = catalog.ACCELERATORS[known.accelerator]
    standard = instance.get("scheduling", {}).get("provisioningModel", "STANDARD") == "STANDARD"
    yield (model.metric if standard else model.preemptible_metric), known.accelerator_count


def list_answer(call: Call, kind: str, items: Sequence[Resource], location: str) -> Resource:
    """Return one page of a list; `kind` is the singular with a `List` behind it."""
    shown, token = page(items, call.query)
    scope = f"projects/{call.project}/{location}" if location else f"projects/{call.project}"
    answer: Resource = {
        "kind": f"compute#{kind}List",
        "id": f"{scope}/{kind}s",
        "selfLink": f"{links.COMPUTE_BASE}{scope}/{kind}s",
    }
    if shown:
        answer["items"] = shown
    if token:
        answer["nextPageToken"] = token
    return answer


def aggregated_answer(
    call: Call, kind: str, plural: str, items: Sequence[tuple[str, Resource]]
) -> Resource:
    """Return an aggregated list; scopes without items carry Google's NO_RESULTS warning [K].

    Args:
        call: The request, for project and page.
        kind: Name of one resource, e.g. `subnetwork`.
        plural: Collection name.
        items: Pairs of `regions/R` or `zones/Z` and a rendered resource.
    """
    by_identity = {id(resource): scope for scope, resource in items}
    shown, token = page([resource for _, resource in items], call.query)
    scopes: dict[str, Resource] = {}
    for resource in shown:
        scopes.setdefault(by_identity[id(resource)], {plural: []})[plural].append(resource)
    if not scopes:
        scopes["global"] = {
            "warning": {
                "code": "NO_RESULTS_ON_PAGE",
                "message": "There are no results for scope 'global' on this page.",
                "data": [{"key": "scope", "value": "global"}],
            }
        }
    answer: Resource = {
        "kind": f"compute#{kind}AggregatedList",
        "id": f"projects/{call.project}/aggregated/{plural}",
        "items": scopes,
        "selfLink": f"{links.COMPUTE_BASE}projects/{call.project}/aggregated/{plural}",
    }
    if token:
        answer["nextPageToken"] = token
    return answer


def scope_of(project: str, location: str) -> str:
    """Return `regions/R` or `zones/Z`."""
    return links.scope_link(project, location).removeprefix(
        f"{links.COMPUTE_BASE}projects/{project}/"
    )


def check_fingerprint(record: Record, body: Mapping[str, Any]) -> None:
    """Refuse a change that was made to an older state.

    A fingerprint is bytes: gcloud reads it from one alphabet of base64 and sends it in the other.

    Raises:
        ApiError: 412 [K: wording].
    """
    given = body.get("fingerprint", "")
    present = record.body.get("fingerprint", given)
    if given.translate(_URL_SAFE) != present.translate(_URL_SAFE):
        raise ApiError(
            412,
            "Supplied fingerprint does not match current resource fingerprint.",
            "conditionNotMet",
            status="FAILED_PRECONDITION",
        )
