"""Inputs of the program that was recorded [facts real-provider.md]."""

from __future__ import annotations

from typing import Any

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
FIREWALL = "gcp:compute/firewall:Firewall"
RESOURCE_POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
SERVICE = "gcp:projects/service:Service"
CLUSTER = "gcp:container/cluster:Cluster"

Json = dict[str, Any]


def network(**more: Any) -> Json:
    return {"name": "net-1", "autoCreateSubnetworks": False, "mtu": 8244, **more}


def subnetwork(**more: Any) -> Json:
    return {
        "name": "sub-1",
        "network": "projects/p/global/networks/net-1",
        "region": "us-central1",
        "ipCidrRange": "192.168.0.0/24",
        **more,
    }


def firewall(**more: Any) -> Json:
    return {
        "name": "internal-1",
        "network": "projects/p/global/networks/net-1",
        "allows": [
            {"protocol": "tcp", "ports": ["0-65535"]},
            {"protocol": "udp", "ports": ["0-65535"]},
            {"protocol": "icmp"},
        ],
        "sourceRanges": ["192.168.0.0/16"],
        **more,
    }


def service(**more: Any) -> Json:
    return {"service": "container.googleapis.com", "disableOnDestroy": False, **more}


def cluster(**more: Any) -> Json:
    return {
        "name": "c",
        "location": "us-central1",
        "enableAutopilot": True,
        "enableMultiNetworking": True,
        "allowNetAdmin": True,
        "network": "projects/p/global/networks/net-1",
        "subnetwork": "projects/p/regions/us-central1/subnetworks/sub-1",
        "deletionProtection": False,
        **more,
    }
