"""What the stand-in cloud offers: regions, zones, machine types, GPUs, GKE versions, services.

Owns these tables as data. Regions are those where A3 machines are sold [facts autopilot.md §7,
price table]; the zone letters and the machines left in each are parameters of the simulation [K],
to be changed through the admin namespace. Versions are those of September 2026
[facts autopilot.md §6]; how they spread over the channels beyond the named ones is a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

A3_HIGH = "a3-highgpu-8g"
A3_MEGA = "a3-megagpu-8g"


@dataclass(frozen=True, kw_only=True, slots=True)
class Region:
    """One region.

    Attributes:
        zones: Zone letters.
        auto_range: Primary range of the region's subnetwork in an auto mode network [K].
        stock: Machine type -> zone letters where it can be had.
    """

    zones: str
    auto_range: str
    stock: Mapping[str, str]


REGIONS: dict[str, Region] = {
    "asia-northeast1": Region(
        zones="abc", auto_range="10.146.0.0/20", stock={A3_HIGH: "b", A3_MEGA: "b"}
    ),
    "asia-southeast1": Region(
        zones="abc", auto_range="10.148.0.0/20", stock={A3_HIGH: "bc", A3_MEGA: "bc"}
    ),
    "europe-west1": Region(
        zones="bcd", auto_range="10.132.0.0/20", stock={A3_HIGH: "bc", A3_MEGA: "bc"}
    ),
    "europe-west3": Region(
        zones="abc", auto_range="10.156.0.0/20", stock={A3_HIGH: "a", A3_MEGA: "a"}
    ),
    "europe-west4": Region(
        zones="abc", auto_range="10.164.0.0/20", stock={A3_HIGH: "bc", A3_MEGA: "bc"}
    ),
    "us-central1": Region(
        zones="abcf", auto_range="10.128.0.0/20", stock={A3_HIGH: "ac", A3_MEGA: "abc"}
    ),
    "us-east1": Region(zones="bcd", auto_range="10.142.0.0/20", stock={}),
    "us-east4": Region(
        zones="abc", auto_range="10.150.0.0/20", stock={A3_HIGH: "ab", A3_MEGA: "abc"}
    ),
    "us-east5": Region(
        zones="abc", auto_range="10.202.0.0/20", stock={A3_HIGH: "a", A3_MEGA: "ab"}
    ),
    "us-west1": Region(
        zones="abc", auto_range="10.138.0.0/20", stock={A3_HIGH: "a", A3_MEGA: "ab"}
    ),
    "us-west4": Region(zones="abc", auto_range="10.182.0.0/20", stock={A3_HIGH: "a", A3_MEGA: "a"}),
}
S3NS_REGIONS: dict[str, Region] = {
    "u-france-east1": Region(zones="abc", auto_range="10.128.0.0/20", stock={}),
}
"""The one region of the Trusted Cloud by S3NS [facts google-cloud.md §10]: no Mega, no local SSD
[facts autopilot.md §5], so neither A3 type of this project."""
AUTO_MODE_RANGE = "10.128.0.0/9"
DEFAULT_STOCK = 8
"""Machines of one GPU type that a zone has where the catalogue names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineType:
    """One machine type [facts autopilot.md §1.7]."""

    cpus: int
    memory_mib: int
    accelerator: str
    accelerator_count: int


MACHINE_TYPES: dict[str, MachineType] = {
    A3_HIGH: MachineType(
        cpus=208, memory_mib=1872 * 1024, accelerator="nvidia-h100-80gb", accelerator_count=8
    ),
    A3_MEGA: MachineType(
        cpus=208, memory_mib=1872 * 1024, accelerator="nvidia-h100-mega-80gb", accelerator_count=8
    ),
    "e2-standard-4": MachineType(cpus=4, memory_mib=16 * 1024, accelerator="", accelerator_count=0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """One GPU model and the metrics of its quotas per region [facts autopilot.md §6]."""

    description: str
    metric: str
    preemptible_metric: str
    family: str


ACCELERATORS: dict[str, Accelerator] = {
    "nvidia-h100-80gb": Accelerator(
        description="NVIDIA H100 80GB",
        metric="NVIDIA_H100_GPUS",
        preemptible_metric="PREEMPTIBLE_NVIDIA_H100_GPUS",
        family="NVIDIA_H100",
    ),
    "nvidia-h100-mega-80gb": Accelerator(
        description="NVIDIA H100 80GB MEGA",
        metric="NVIDIA_H100_MEGA_GPUS",
        preemptible_metric="PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS",
        family="NVIDIA_H100_MEGA",
    ),
}

PROJECT_QUOTAS: dict[str, int] = {
    "NETWORKS": 50,
    "SUBNETWORKS": 275,
    "FIREWALLS": 500,
    "ROUTES": 600,
    "GPUS_ALL_REGIONS": 256,
}
"""Limits of a project unless the admin namespace says otherwise. For NETWORKS 5, 15 and 50 were
seen [facts google-cloud.md §2]; 50 leaves room for several environments side by side."""
REGION_QUOTAS: dict[str, int] = {
    "NVIDIA_H100_GPUS": 64,
    "NVIDIA_H100_MEGA_GPUS": 64,
    "PREEMPTIBLE_NVIDIA_H100_GPUS": 64,
    "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS": 64,
}
"""Limits per region. At Google they are usually 0 until asked for; a sandbox at 0 could show
nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Channel:
    """Versions of one release channel, newest first."""

    default: str
    valid: tuple[str, ...]


_V1_36 = ("1.36.4-gke.1391000", "1.36.3-gke.1537000")
_V1_35 = ("1.35.8-gke.1036000", "1.35.6-gke.1710000")
_V1_34 = ("1.34.9-gke.1322001", "1.34.8-gke.1000000")
_OLDER = (
    "1.33.5-gke.2072000",
    "1.32.9-gke.1632000",
    "1.31.14-gke.1081000",
    "1.30.14-gke.1794000",
)
CHANNELS: dict[str, Channel] = {
    "RAPID": Channel(default=_V1_36[0], valid=_V1_36 + _V1_35 + _V1_34),
    "REGULAR": Channel(default=_V1_35[0], valid=_V1_35 + _V1_34),
    "STABLE": Channel(default=_V1_34[1], valid=(_V1_35[1], *_V1_34)),
    "EXTENDED": Channel(default=_V1_35[0], valid=_V1_35 + _V1_34 + _OLDER),
}

ALWAYS_ON_SERVICES = ("cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com")
"""Services that answer in a freshly made project."""
SERVICES: dict[str, tuple[str, ...]] = {
    "artifactregistry.googleapis.com": (),
    "cloudquotas.googleapis.com": (),
    "cloudresourcemanager.googleapis.com": (),
    "compute.googleapis.com": (),
    "container.googleapis.com": ("compute.googleapis.com",),
    "iam.googleapis.com": (),
    "iamcredentials.googleapis.com": (),
    "logging.googleapis.com": (),
    "monitoring.googleapis.com": (),
    "networkservices.googleapis.com": ("compute.googleapis.com",),
    "serviceusage.googleapis.com": (),
    "storage.googleapis.com": (),
}
"""Service -> what enabling it enables too [facts google-cloud.md §7]."""


def regions(project: str) -> dict[str, Region]:
    """Return the regions of the cloud that a project lives in."""
    return S3NS_REGIONS if project.startswith("s3ns:") else REGIONS


def zones(region: str) -> list[str]:
    """Return the zone names of a region; an unknown region has none."""
    known = REGIONS.get(region) or S3NS_REGIONS.get(region)
    return [f"{region}-{letter}" for letter in known.zones] if known else []


def all_zones(project: str) -> list[str]:
    """Return the zone names that a project sees."""
    return [zone for region in regions(project) for zone in zones(region)]


def region_of(zone: str) -> str:
    """Return the region part of a zone name."""
    return zone.rpartition("-")[0]


def stock(zone: str, machine_type: str) -> int:
    """Return how many machines of a type a zone starts out with."""
    region, _, letter = zone.rpartition("-")
    known = REGIONS.get(region) or S3NS_REGIONS.get(region)
    return DEFAULT_STOCK if known and letter in known.stock.get(machine_type, "") else 0
