"""A project that a cluster sees: plain dictionaries, changed by the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox.contracts import Resource

REGION = "us-central1"


def vpc(name: str, mtu: int = 8244) -> Resource:
    return {"name": name, "mtu": mtu}


def subnet(name: str, cidr: str, network: str, ranges: dict[str, str] | None = None) -> Resource:
    return {
        "name": name,
        "ipCidrRange": cidr,
        "network": f"https://www.googleapis.com/compute/v1/projects/p/global/networks/{network}",
        "secondaryIpRanges": [
            {"rangeName": key, "ipCidrRange": value} for key, value in (ranges or {}).items()
        ],
    }


@dataclass
class FakeCloud:
    """Everything exists that a test put here, and nothing else."""

    networks: dict[str, Resource] = field(default_factory=dict)
    subnetworks: dict[str, Resource] = field(default_factory=dict)
    rules: list[Resource] = field(default_factory=list)
    zone_names: tuple[str, ...] = ("us-central1-a", "us-central1-c")
    capacity: int = 16
    quota: int = 128
    instances: dict[str, Resource] = field(default_factory=dict)

    def add(self, network: str, subnetwork: str, cidr: str, **more: Any) -> None:
        self.networks[network] = vpc(network)
        self.subnetworks[subnetwork] = subnet(subnetwork, cidr, network, **more)

    def network(self, project: str, name: str) -> Resource | None:
        return self.networks.get(name)

    def subnetwork(self, project: str, region: str, name: str) -> Resource | None:
        return self.subnetworks.get(name) if region == REGION else None

    def firewalls(self, project: str, network: str) -> Sequence[Resource]:
        return [rule for rule in self.rules if rule["network"].endswith(f"/{network}")]

    def zones(self, region: str) -> Sequence[str]:
        return self.zone_names if region == REGION else ()

    def machine_capacity(self, project: str, zone: str, machine_type: str, *, spot: bool) -> int:
        return self.capacity

    def gpu_quota_left(self, project: str, region: str, accelerator: str, *, spot: bool) -> int:
        return self.quota

    def insert_instance(self, project: str, zone: str, instance: Resource) -> None:
        self.instances[instance["name"]] = instance

    def delete_instance(self, project: str, zone: str, name: str) -> None:
        self.instances.pop(name, None)


def project_with_cluster_network() -> FakeCloud:
    """What exists when GKE starts a cluster on the `default` network."""
    cloud = FakeCloud()
    cloud.add(
        "default",
        "default",
        "10.128.0.0/20",
        ranges={"gke-demo-pods": "10.40.0.0/14", "gke-demo-services": "34.118.224.0/20"},
    )
    return cloud


def cluster_resource(
    *, multi_networking: bool = True, net_admin: bool = True, name: str = "demo"
) -> Resource:
    """An Autopilot cluster as the API answers it, in the fields that matter here."""
    return {
        "name": name,
        "location": REGION,
        "network": "default",
        "subnetwork": "default",
        "networkConfig": {
            "network": "projects/p/global/networks/default",
            "subnetwork": f"projects/p/regions/{REGION}/subnetworks/default",
            "enableMultiNetworking": multi_networking,
        },
        "ipAllocationPolicy": {"clusterSecondaryRangeName": "gke-demo-pods"},
        "autopilot": {"enabled": True, "workloadPolicyConfig": {"allowNetAdmin": net_admin}},
        "currentMasterVersion": "1.36.3-gke.1537000",
    }
