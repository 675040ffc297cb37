"""Extended resources that stand for a node's additional networks.

Owns their names. A Pod asks for them because of its `networking.gke.io/interfaces` annotation
(`sandbox/gke/admission/network-resources.yaml`); the scheduler places it on a node that offers
them. Source: [facts autopilot.md §1.7].
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "networking.gke.io.networks/"


def offered_by_node(networks: Iterable[str]) -> dict[str, str]:
    """Return what a node with NICs in these networks puts into its capacity and allocatable.

    Args:
        networks: Names of Network objects; `default` is on every node and offers nothing.
    """
    names = [name for name in networks if name != "default"]
    return {f"{PREFIX}{name}{suffix}": "1" for name in names for suffix in ("", ".IP")}


def asked_by_pod(requests: Iterable[str]) -> list[str]:
    """Return the networks behind the keys of a container's resource requests."""
    return [
        key.removeprefix(PREFIX)
        for key in requests
        if key.startswith(PREFIX) and not key.endswith(".IP")
    ]
