"""What a cluster sees of the project that it lives in.

Owns the `CloudView` of `sandbox.contracts` over the store: networks, subnetworks, firewall rules,
machine stock, GPU quota, and the VMs that clusters bring in. A VM that carries the labels
`goog-k8s-cluster-name` and `goog-k8s-cluster-location` belongs to that cluster and goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.cloud import catalog, links
from sandbox.cloud.compute import gpu_usage, new_record
from sandbox.cloud.core import State
from sandbox.cloud.registry import rule
from sandbox.cloud.store import Store
from sandbox.contracts import Resource

CLUSTER_NAME_LABEL = "goog-k8s-cluster-name"
CLUSTER_LOCATION_LABEL = "goog-k8s-cluster-location"
_UNLIMITED = 10_000

rule(
    "instances.hold-subnetworks",
    "a node's NICs keep its subnetworks and networks from being deleted",
    citation="facts google-cloud.md §11.1",
    judges="gcloud",
)
rule(
    "instances.quota",
    "GPUs count against the quota of family and region, on demand or preemptible, and in all",
    citation="facts autopilot.md §6 (quota)",
    judges="gcloud",
)
rule("instances.stock", "a zone has a limited number of each GPU machine", citation="[K: numbers]")


class StoreCloudView:
    """The project's side of a cluster, read from the store."""

    def __init__(self, store: Store) -> None:
        self._state = State(store)

    def network(self, project: str, name: str) -> Resource | None:
        """Return a VPC network, or None."""
        return self._body("networks", project, "global", name)

    def subnetwork(self, project: str, region: str, name: str) -> Resource | None:
        """Return a subnetwork, or None."""
        return self._body("subnetworks", project, region, name)

    def _body(self, kind: str, project: str, location: str, name: str) -> Resource | None:
        record = self._state.store.get(kind, project, location, name)
        return record.body if record is not None and record.state != "creating" else None

    def firewalls(self, project: str, network: str) -> Sequence[Resource]:
        """Return the firewall rules of a network."""
        link = links.link(project, "global", "networks", network)
        records = self._state.visible("firewalls", project)
        return [record.body for record in records if record.body["network"] == link]

    def zones(self, region: str) -> Sequence[str]:
        """Return the zones of a region."""
        return catalog.zones(region)

    def machine_capacity(self, project: str, zone: str, machine_type: str, *, spot: bool) -> int:
        """Return how many more machines of a type fit into a zone.

        Machines of all projects share the stock, as at Google. GPU machines alone are scarce.
        """
        known = catalog.MACHINE_TYPES.get(machine_type)
        if known is None or zone not in catalog.all_zones(project):
            return 0
        if not known.accelerator:
            return _UNLIMITED
        stock = self._state.store.setting("stock") or {}
        key = f"{machine_type}:spot" if spot else machine_type
        in_zone: Mapping[str, Any] = stock.get(zone, {})
        total = int(in_zone.get(key, in_zone.get(machine_type, catalog.stock(zone, machine_type))))
        used = sum(
            1
            for record in self._state.store.find(kind="instances", location=zone)
            if str(record.body.get("machineType", "")).rpartition("/")[2] == machine_type
        )
        return max(0, total - used)

    def gpu_quota_left(self, project: str, region: str, accelerator: str, *, spot: bool) -> int:
        """Return how many more GPUs the region's and the project's quota allow."""
        model = catalog.ACCELERATORS.get(accelerator)
        if model is None:
            return 0
        metric = model.preemptible_metric if spot else model.metric
        limit = self._state.region_quota(project, region, metric)
        left = limit - gpu_usage(self._state, project, region, metric)
        if not spot:
            used = sum(
                gpu_usage(self._state, project, name, None) for name in catalog.regions(project)
            )
            left = min(left, self._state.project_quota(project, "GPUS_ALL_REGIONS") - used)
        return max(0, left)

    def insert_instance(self, project: str, zone: str, instance: Resource) -> None:
        """Record a VM."""
        labels = instance.get("labels", {})
        owner = ""
        if labels.get(CLUSTER_NAME_LABEL):
            location = labels.get(CLUSTER_LOCATION_LABEL) or catalog.region_of(zone)
            owner = links.cluster_path(project, location, labels[CLUSTER_NAME_LABEL])
        record = new_record(
            "instances", "instance", project, zone, instance, state="ready", owner=owner
        )
        record.body.setdefault("status", "RUNNING")
        self._state.store.put(record)

    def delete_instance(self, project: str, zone: str, name: str) -> None:
        """Forget a VM."""
        self._state.store.delete("instances", project, zone, name)
