"""What happens in one cluster below the API server: nodes that come and go, Pods that run.

Owns joining node provisioning, kubelets and the kubelet endpoint with the cluster's watches.
Entry points for the server: `kwok_arguments` and `make_simulation`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from sandbox.contracts import ClusterContext, PodSimulation
from sandbox.gke.api import Change, ChangeType, KubernetesApi
from sandbox.gke.kwok.configuration import kwok_arguments, read_ports
from sandbox.gke.kwok.endpoint import KubeletEndpoint
from sandbox.gke.nodes.provisioner import Provisioner
from sandbox.gke.pods.kubelet import Kubelet
from sandbox.gke.pods.world import World
from sandbox.gke.resource_types import (
    COMPUTE_CLASSES,
    DAEMON_SETS,
    NETWORKS,
    NODES,
    PARAM_SETS,
    PODS,
    SERVICES,
    ResourceType,
)

__all__ = ["Simulation", "kwok_arguments", "make_simulation"]
KubeObject = dict[str, Any]


def make_simulation(context: ClusterContext) -> PodSimulation:
    """Make what plays nodes and Pods in a cluster."""
    return Simulation(context)


class Simulation:
    """Nodes and Pods of one cluster."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context

    async def run(self) -> None:
        """Work until cancelled; each run starts from what the API server has."""
        ports = read_ports(self._context)
        world = World(self._context)
        async with KubernetesApi.from_kubeconfig(self._context.kubeconfig) as api:
            kubelet = Kubelet(world, api)
            provisioner = Provisioner(
                world, api, kubelet_port=ports.endpoint, node_gone=kubelet.node_gone
            )
            try:
                async with KubeletEndpoint(world, ports), asyncio.TaskGroup() as group:
                    for kind, take in _watches(world, kubelet, provisioner).items():
                        group.create_task(_follow(api, kind, take))
                    group.create_task(provisioner.run())
            finally:
                await kubelet.close()


Take = Callable[[Change], None]
Key = TypeVar("Key")
_log = logging.getLogger(__name__)


async def _follow(api: KubernetesApi, kind: ResourceType, take: Take) -> None:
    async for change in api.follow(kind):
        if change.type is ChangeType.SYNCED:
            continue
        try:
            take(change)
        except Exception:  # noqa: BLE001 - one odd object must not end the simulation
            _log.exception("%s %s", kind.kind, change.object.get("metadata", {}).get("name"))


def _watches(world: World, kubelet: Kubelet, provisioner: Provisioner) -> dict[ResourceType, Take]:
    """Say who hears of what."""

    def pod(change: Change) -> None:
        metadata = change.object["metadata"]
        _keep(world.objects, change, (metadata["namespace"], metadata["name"]))
        kubelet.pod_changed(change.type, change.object)
        provisioner.pod_changed(change.type, change.object)

    def node(change: Change) -> None:
        metadata = change.object["metadata"]
        if change.type is ChangeType.DELETED:
            world.node_labels.pop(metadata["name"], None)
        else:
            world.node_labels[metadata["name"]] = metadata.get("labels") or {}
        provisioner.node_changed(change.type, change.object)
        kubelet.node_appeared()

    def daemon_set(change: Change) -> None:
        _keep(world.daemon_sets, change, change.object["metadata"]["uid"])
        world.news.changed()

    def service(change: Change) -> None:
        metadata = change.object["metadata"]
        _keep(world.services, change, (metadata["namespace"], metadata["name"]))
        world.news.changed()

    def network(change: Change) -> None:
        _keep(world.networks, change, change.object["metadata"]["name"])
        provisioner.something_changed()

    def param_set(change: Change) -> None:
        _keep(world.param_sets, change, change.object["metadata"]["name"])
        provisioner.something_changed()

    def compute_class(change: Change) -> None:
        _keep(provisioner.classes, change, change.object["metadata"]["name"])
        provisioner.something_changed()

    return {
        NODES: node,
        PODS: pod,
        SERVICES: service,
        DAEMON_SETS: daemon_set,
        NETWORKS: network,
        PARAM_SETS: param_set,
        COMPUTE_CLASSES: compute_class,
    }


def _keep(known: dict[Key, KubeObject], change: Change, key: Key) -> None:
    if change.type is ChangeType.DELETED:
        known.pop(key, None)
    else:
        known[key] = change.object
