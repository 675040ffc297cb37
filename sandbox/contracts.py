"""What the parts of the sandbox ask of one another.

Owns the protocols between the HTTP API (`sandbox.cloud`), the clusters behind it
(`sandbox.gke`) and the server that joins them. Holds no behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Resource = dict[str, Any]
"""One resource in Google's JSON form, as the API answers it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterKey:
    """Names one cluster in the whole sandbox."""

    project: str
    location: str
    name: str

    @property
    def context(self) -> str:
        """The kubeconfig context, in the form that gcloud writes."""
        return f"gke_{self.project}_{self.location}_{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterEndpoint:
    """Where a started control plane answers."""

    endpoint: str
    """`host:port`; at Google a bare IPv4 address."""
    ca_certificate_pem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessInfo:
    """One process that the sandbox started."""

    name: str
    pid: int
    cluster: str | None
    """The cluster's kubeconfig context, or None for the server itself."""


class ClusterRuntime(Protocol):
    """Starts and stops the control planes behind the clusters."""

    async def start(self, key: ClusterKey, cluster: Resource) -> ClusterEndpoint:
        """Bring up the API server of a cluster, or find it running.

        Args:
            key: Which cluster.
            cluster: The cluster's resource; `networkConfig.enableMultiNetworking` decides
                whether the GKE network kinds exist, `autopilot.workloadPolicyConfig` whether
                NET_ADMIN is admitted, `currentMasterVersion` what `/version` says.

        Raises:
            RuntimeError: the control plane did not come up; the text says which part and why.
        """
        ...

    async def update(self, key: ClusterKey, cluster: Resource) -> None:
        """Carry a changed cluster resource (NET_ADMIN policy, version) into the control plane."""
        ...

    async def stop(self, key: ClusterKey, *, delete: bool) -> None:
        """End the processes of a cluster; with `delete` its data too. Unknown keys are ignored."""
        ...

    def processes(self) -> Sequence[ProcessInfo]:
        """List the processes that run now."""
        ...

    def problems(self, key: ClusterKey) -> Sequence[str]:
        """Say what does not work in a running cluster: dead processes, failing controllers."""
        ...


class CloudView(Protocol):
    """What a cluster sees of the project that it lives in (read by `sandbox.gke`)."""

    def network(self, project: str, name: str) -> Resource | None:
        """Return a VPC network, or None."""
        ...

    def subnetwork(self, project: str, region: str, name: str) -> Resource | None:
        """Return a subnetwork, or None."""
        ...

    def firewalls(self, project: str, network: str) -> Sequence[Resource]:
        """Return the firewall rules of a network."""
        ...

    def zones(self, region: str) -> Sequence[str]:
        """Return the zones of a region."""
        ...

    def machine_capacity(self, project: str, zone: str, machine_type: str, *, spot: bool) -> int:
        """Return how many more machines of a type a zone has in stock; 0 = stockout or none."""
        ...

    def gpu_quota_left(self, project: str, region: str, accelerator: str, *, spot: bool) -> int:
        """Return how many more GPUs the quota allows, given the instances that exist."""
        ...

    def insert_instance(self, project: str, zone: str, instance: Resource) -> None:
        """Record a node's VM: it counts against quota, its `networkInterfaces` hold subnets."""
        ...

    def delete_instance(self, project: str, zone: str, name: str) -> None:
        """Forget a VM. Unknown names are ignored."""
        ...


class PodSimulation(Protocol):
    """Makes nodes for pending GPU Pods and plays what runs on them; one per cluster."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterContext:
    """Everything that a part working inside one cluster is given."""

    key: ClusterKey
    kubeconfig: str
    """Path of a cluster-admin kubeconfig (client certificate)."""
    home: str
    """Folder of this cluster's files (logs of Pods, certificates)."""
    cloud: CloudView
    cluster: Mapping[str, Any]
    pace: float
    """0 = at once, 1 = Google's usual times."""
