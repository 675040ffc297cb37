"""Regions, zones, the project as Compute shows it, machine types and accelerator types.

Owns these read-only collections; what they hold is in `catalog`, limits are settings of the
project [facts autopilot.md §6 for the GPU metrics].
"""

from __future__ import annotations

import hashlib

from sandbox.cloud import catalog, links
from sandbox.cloud.compute import (
    Resource,
    aggregated_answer,
    gpu_usage,
    list_answer,
    quota_usage,
    zone_of,
)
from sandbox.cloud.core import Call, project_number
from sandbox.cloud.errors import not_found
from sandbox.cloud.registry import endpoint, rule

_EPOCH = "2020-01-01T00:00:00.000-08:00"
_REGIONS = "facts google-cloud.md §9 (getZones), §12 (regions list)"
_QUOTA = "facts autopilot.md §6 (quota)"

rule(
    "regions.gpu-quotas",
    "a region shows its H100 quotas, on demand and preemptible, with what instances use",
    citation=_QUOTA,
    judges="gcloud",
)
rule(
    "regions.project-quotas",
    "the project shows NETWORKS, SUBNETWORKS, FIREWALLS",
    citation=_QUOTA,
    judges="gcloud",
)


def _identity(kind: str, project: str, location: str, plural: str, name: str) -> Resource:
    number = int(hashlib.sha256(f"{plural}/{name}".encode()).hexdigest()[:12], 16)
    link = (
        links.scope_link(project, name)
        if plural in ("regions", "zones")
        else f"{links.scope_link(project, location)}/{plural}/{name}"
    )
    return {
        "kind": f"compute#{kind}",
        "id": str(number),
        "creationTimestamp": _EPOCH,
        "name": name,
        "selfLink": link,
    }


def _region(call: Call, name: str) -> Resource:
    cloud, project = call.cloud, call.project
    quotas = [
        {
            "metric": metric,
            "limit": float(cloud.region_quota(project, name, metric)),
            "usage": float(gpu_usage(cloud, project, name, metric)),
        }
        for metric in catalog.REGION_QUOTAS
    ]
    return {
        **_identity("region", project, "", "regions", name),
        "description": name,
        "status": "UP",
        "zones": [links.scope_link(project, zone) for zone in catalog.zones(name)],
        "quotas": quotas,
        "supportsPzs": False,
    }


def _zone(call: Call, name: str) -> Resource:
    return {
        **_identity("zone", call.project, "", "zones", name),
        "description": name,
        "status": "UP",
        "region": links.scope_link(call.project, catalog.region_of(name)),
        "availableCpuPlatforms": ["Intel Sapphire Rapids"],
        "supportsPzs": False,
    }


@endpoint("compute", "GET", "projects/{project}/regions", citation=_REGIONS, judges="gcloud")
def regions(call: Call) -> Resource:
    """List regions."""
    items = [_region(call, name) for name in catalog.regions(call.project)]
    return list_answer(call, "region", items, "")


@endpoint(
    "compute", "GET", "projects/{project}/regions/{region}", citation=_REGIONS, judges="gcloud"
)
def region(call: Call) -> Resource:
    """Read a region."""
    name = call.params["region"]
    if name not in catalog.regions(call.project):
        raise not_found(f"projects/{call.project}/regions/{name}")
    return _region(call, name)


@endpoint("compute", "GET", "projects/{project}/zones", citation=_REGIONS, judges="gcloud")
def zones(call: Call) -> Resource:
    """List zones."""
    items = [_zone(call, name) for name in catalog.all_zones(call.project)]
    return list_answer(call, "zone", items, "")


@endpoint("compute", "GET", "projects/{project}/zones/{zone}", citation=_REGIONS, judges="gcloud")
def zone(call: Call) -> Resource:
    """Read a zone."""
    name = call.params["zone"]
    if name not in catalog.all_zones(call.project):
        raise not_found(f"projects/{call.project}/zones/{name}")
    return _zone(call, name)


@endpoint("compute", "GET", "projects/{project}", citation=_QUOTA, judges="gcloud")
def project(call: Call) -> Resource:
    """Read the project as Compute shows it."""
    number = project_number(call.project)
    return {
        "kind": "compute#project",
        "id": number,
        "creationTimestamp": _EPOCH,
        "name": call.project,
        "selfLink": f"{links.COMPUTE_BASE}projects/{call.project}",
        "defaultServiceAccount": f"{number}-compute@developer.gserviceaccount.com",
        "defaultNetworkTier": "PREMIUM",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        "commonInstanceMetadata": {"kind": "compute#metadata"},
        "quotas": quota_usage(call.cloud, call.project),
    }


def _machine_types(project: str, zone: str) -> list[Resource]:
    found = []
    for name, known in catalog.MACHINE_TYPES.items():
        if known.accelerator and not catalog.stock(zone, name):
            continue
        gpus: Resource = {
            "guestAcceleratorType": known.accelerator,
            "guestAcceleratorCount": known.accelerator_count,
        }
        found.append(
            {
                **_identity("machineType", project, zone, "machineTypes", name),
                "zone": zone,
                "guestCpus": known.cpus,
                "memoryMb": known.memory_mib,
                **({"accelerators": [gpus]} if known.accelerator else {}),
            }
        )
    return found


def _accelerator_types(project: str, zone: str) -> list[Resource]:
    offered = {
        known.accelerator
        for name, known in catalog.MACHINE_TYPES.items()
        if known.accelerator and catalog.stock(zone, name)
    }
    return [
        {
            **_identity("acceleratorType", project, zone, "acceleratorTypes", name),
            "description": catalog.ACCELERATORS[name].description,
            "zone": links.scope_link(project, zone),
            "maximumCardsPerInstance": 8,
        }
        for name in sorted(offered)
    ]


_ZONAL = (
    ("machineType", "machineTypes", _machine_types),
    ("acceleratorType", "acceleratorTypes", _accelerator_types),
)


def _zonal(number: int) -> None:
    singular, plural, make = _ZONAL[number]
    citation = "facts autopilot.md §7 (where A3 is sold)"
    base = f"projects/{{project}}/zones/{{zone}}/{plural}"

    def list_(call: Call) -> Resource:
        zone = zone_of(call)
        return list_answer(call, singular, make(call.project, zone), f"zones/{zone}")

    def get(call: Call) -> Resource:
        zone, name = zone_of(call), call.params["name"]
        for item in make(call.project, zone):
            if item["name"] == name:
                return item
        raise not_found(f"projects/{call.project}/zones/{zone}/{plural}/{name}")

    def aggregated(call: Call) -> Resource:
        items = [
            (f"zones/{zone}", item)
            for zone in catalog.all_zones(call.project)
            for item in make(call.project, zone)
        ]
        return aggregated_answer(call, singular, plural, items)

    # gcloud lists accelerators over all zones alone.
    judges = "gcloud" if plural == "machineTypes" else ""
    endpoint("compute", "GET", base, citation=citation, judges=judges)(list_)
    endpoint("compute", "GET", base + "/{name}", citation=citation, judges="gcloud")(get)
    endpoint(
        "compute",
        "GET",
        f"projects/{{project}}/aggregated/{plural}",
        citation=citation,
        judges="gcloud",
    )(aggregated)


for _number in range(len(_ZONAL)):
    _zonal(_number)
