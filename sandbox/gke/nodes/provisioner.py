"""Makes nodes for pending Pods and takes idle ones away.

Owns the loop around the decision: which Pods wait, the Node objects and VMs, events on Pods, scale
down. Does not own the decision (`decision`) or what runs on nodes (`sandbox.gke.pods`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
import string
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from sandbox.gke.api import ApiError, ChangeType, KubernetesApi
from sandbox.gke.nccl.hosts import Nic
from sandbox.gke.networks import cluster_region
from sandbox.gke.nodes.coming_nodes import ComingNodes
from sandbox.gke.nodes.decision import Circumstances, NodePlan, Refusal, decide
from sandbox.gke.nodes.demand import PLACEMENT_GROUP, ZONE, Demand, DemandError, read_demand
from sandbox.gke.nodes.idle import IdleNodes
from sandbox.gke.nodes.node_objects import (
    instance_resource,
    machine_of,
    node_object,
    pool_name,
    read_nics,
)
from sandbox.gke.pods.events import EventRecorder
from sandbox.gke.pods.node_hardware import make_node
from sandbox.gke.pods.pod_spec import is_finished, owner_kind, waits_for_node
from sandbox.gke.pods.world import World
from sandbox.gke.resource_types import NODES, PODS

KubeObject = dict[str, Any]
_GPU_NODE_SECONDS = 300.0
_NODE_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_EVENT_REPEAT_SECONDS = 60.0
_FIRST_HOST = 2
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """What was done for one pending Pod."""

    node: str = ""
    made_at: float = 0.0
    said: str = ""
    said_at: float = 0.0


@dataclass(slots=True)
class _Known:
    """Objects of the cluster, as watches report them."""

    pods: dict[str, KubeObject] = field(default_factory=dict)
    nodes: dict[str, KubeObject] = field(default_factory=dict)
    classes: dict[str, KubeObject] = field(default_factory=dict)


class Provisioner:
    """Autopilot's node provisioning for one cluster."""

    def __init__(
        self,
        world: World,
        api: KubernetesApi,
        *,
        kubelet_port: int,
        node_gone: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            world: The cluster's nodes and Pods.
            api: Its API server.
            kubelet_port: Where logs and exec of all nodes are served.
            node_gone: Called with the name of a node that was removed.
        """
        self._world = world
        self._api = api
        self._kubelet_port = kubelet_port
        self._node_gone = node_gone
        self._recorder = EventRecorder(api, "cluster-autoscaler")
        self._known = _Known()
        self._pending: dict[str, _Pending] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._coming = ComingNodes(self._is_taken)
        self._addresses: dict[str, int] = {}
        self._idle = IdleNodes(world.clock)
        self._wake = asyncio.Event()

    @property
    def classes(self) -> dict[str, KubeObject]:
        """ComputeClasses by name; kept up to date by the simulation."""
        return self._known.classes

    def pod_changed(self, kind: ChangeType, pod: KubeObject) -> None:
        """Take news of a Pod."""
        uid = pod["metadata"]["uid"]
        if kind is ChangeType.DELETED:
            self._known.pods.pop(uid, None)
            self._pending.pop(uid, None)
        else:
            self._known.pods[uid] = pod
        self._wake.set()

    def node_changed(self, kind: ChangeType, node: KubeObject) -> None:
        """Take news of a node; one that an earlier run made is taken over."""
        name = node["metadata"]["name"]
        if kind is ChangeType.DELETED:
            self._known.nodes.pop(name, None)
            self._coming.gone(name)
            if self._world.nodes.pop(name, None) is not None:
                self._forget_instance(node)
                self._node_gone(name)
        else:
            self._known.nodes[name] = node
            self._adopt(node)
        self._wake.set()

    def something_changed(self) -> None:
        """Look again: a network, a class or the project changed."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                busy = await self._look()
                try:
                    async with asyncio.timeout(_RETRY_SECONDS if busy else None):
                        await self._wake.wait()
                except TimeoutError:
                    continue
                self._wake.clear()
                # News come in crowds: one look is enough for those of a moment.
                await asyncio.sleep(0.02)
                self._wake.clear()
        finally:
            for task in self._starting.values():
                task.cancel()
            await asyncio.gather(*self._starting.values(), return_exceptions=True)
            await self._recorder.close()

    async def _look(self) -> bool:
        """Do what there is to do; return whether to look again soon without news."""
        waiting = [pod for pod in self._known.pods.values() if waits_for_node(pod)]
        waiting.sort(
            key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"])
        )
        for pod in waiting:
            try:
                await self._provide(pod)
            except (ApiError, httpx.TransportError) as error:
                _log.warning("node for %s: %s", pod["metadata"]["name"], error)
            except Exception:  # noqa: BLE001
                # An odd Pod must not keep the others from getting nodes.
                _log.exception("node for %s", pod["metadata"]["name"])
        removable = self._idle.due(self._known.nodes, self._known.pods, set(self._world.nodes))
        for name in removable:
            await self._remove(name)
        return bool(waiting) or self._idle.waiting

    async def _provide(self, pod: KubeObject) -> None:
        state = self._pending.setdefault(pod["metadata"]["uid"], _Pending())
        if self._coming.may_take(state.node):
            return
        state.node = ""
        try:
            demands = read_demand(pod, self._known.classes)
        except DemandError as error:
            refusal = Refusal(
                reason="NotTriggerScaleUp", message=f"pod didn't trigger scale-up: {error}"
            )
            self._refuse(pod, state, refusal)
            return
        if demands[0].gpus:
            state.node = self._coming.free_for(demands, self._claimed()) or ""
            if state.node:
                return
        elif self._shares_coming_node(demands[0], state):
            return
        found = decide(demands, self._circumstances(pod))
        if isinstance(found, Refusal):
            self._refuse(pod, state, found)
            return
        await self._make(pod, state, found, demands)

    def _claimed(self) -> set[str]:
        """Name the nodes that were made for Pods which still wait."""
        known = self._known.pods
        return {
            state.node
            for uid, state in self._pending.items()
            if uid in known and waits_for_node(known[uid])
        }

    def _is_taken(self, name: str) -> bool:
        """Whether a Pod has all GPUs of a node, or the node is gone."""
        # Not asked of the watch, which may not have told of the node yet.
        node = self._world.nodes.get(name)
        if node is None:
            return True
        return node.machine.gpus > 0 and any(
            pod["spec"].get("nodeName") == name
            and owner_kind(pod) != "DaemonSet"
            and not is_finished(pod)
            for pod in self._known.pods.values()
        )

    def _shares_coming_node(self, demand: Demand, state: _Pending) -> bool:
        """Whether an ordinary node that was just made has room for one more small Pod."""
        if demand.zones is not None or demand.separated or demand.cpus > 1:
            return False
        for other in self._pending.values():
            fresh = other.node and time.monotonic() - other.made_at < _RETRY_SECONDS
            node = self._world.nodes.get(other.node)
            if fresh and (node is None or not node.machine.gpus):
                state.node, state.made_at = other.node, other.made_at
                return True
        return False

    def _circumstances(self, pod: KubeObject) -> Circumstances:
        context = self._world.context
        owners = {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or []}
        preferred = []
        groups = {}
        for node in self._known.nodes.values():
            labels = node["metadata"].get("labels") or {}
            if PLACEMENT_GROUP in labels:
                groups[labels[PLACEMENT_GROUP]] = labels[ZONE]
        for uid, state in self._pending.items():
            other = self._known.pods.get(uid)
            made = self._world.nodes.get(state.node)
            siblings = (other or {}).get("metadata", {}).get("ownerReferences") or []
            if made is not None and owners & {owner["uid"] for owner in siblings}:
                preferred.append(made.zone)
        return Circumstances(
            cloud=context.cloud,
            project=context.key.project,
            region=cluster_region(context),
            version=str(context.cluster.get("currentMasterVersion") or ""),
            networks=self._world.networks,
            param_sets=self._world.param_sets,
            group_zones=groups,
            preferred_zones=preferred,
        )

    def _refuse(self, pod: KubeObject, state: _Pending, refusal: Refusal) -> None:
        """Say why there is no node, once and then from time to time."""
        now = time.monotonic()
        repeated = state.said == refusal.message
        if repeated and now - state.said_at < _EVENT_REPEAT_SECONDS:
            return
        state.said, state.said_at = refusal.message, now
        warning = refusal.reason == "FailedScaleUp"
        record = self._recorder.warning if warning else self._recorder.normal
        record(pod, refusal.reason, refusal.message)

    async def _make(
        self, pod: KubeObject, state: _Pending, plan: NodePlan, demands: list[Demand]
    ) -> None:
        """Make the VM at once, so that quota and stock are taken, and the Node when it is up."""
        context = self._world.context
        pool = pool_name(plan)
        suffix = "".join(random.choices(string.ascii_lowercase + string.digits, k=4))  # noqa: S311
        name = f"gk3-{context.key.name[:16]}-{pool[:20]}-{suffix}".replace("--", "-")
        address, nics = self._assign_addresses(plan)
        context.cloud.insert_instance(
            context.key.project,
            plan.zone,
            instance_resource(plan, name, address, nics, context),
        )
        state.node, state.made_at, state.said = name, time.monotonic(), ""
        node = make_node(name, plan.machine, plan.zone, address, nics)
        self._world.nodes[name] = node
        self._coming.made(name, demands)
        group = (
            f"https://www.googleapis.com/compute/v1/projects/{context.key.project}/zones/"
            f"{plan.zone}/instanceGroups/gk3-{context.key.name[:16]}-{pool[:20]}-grp"
        )
        task = asyncio.create_task(self._bring_up(name, plan, pool, address, nics))
        self._starting[name] = task
        task.add_done_callback(lambda _: self._started(name))
        self._recorder.normal(
            pod, "TriggeredScaleUp", f"pod triggered scale-up: [{{{group} 0->1 (max: 1000)}}]"
        )

    async def _bring_up(
        self, name: str, plan: NodePlan, pool: str, address: str, nics: dict[str, Nic]
    ) -> None:
        await self._world.clock.pass_seconds(
            _GPU_NODE_SECONDS if plan.machine.gpus else _NODE_SECONDS
        )
        context = self._world.context
        body = node_object(
            plan,
            name,
            pool,
            address,
            nics,
            context,
            region=cluster_region(context),
            kubelet_port=self._kubelet_port,
        )
        try:
            await self._api.create(NODES, body)
        except (ApiError, httpx.TransportError) as error:
            _log.warning("node %s: %s", name, error)
            self._world.nodes.pop(name, None)
            self._coming.gone(name)
            context.cloud.delete_instance(context.key.project, plan.zone, name)

    def _started(self, name: str) -> None:
        self._starting.pop(name, None)
        self._coming.came_up(name)
        self._wake.set()

    def _assign_addresses(self, plan: NodePlan) -> tuple[str, dict[str, Nic]]:
        """Give the new node an address in the cluster's subnet and one in each GPU network."""
        context = self._world.context
        project, region = context.key.project, cluster_region(context)
        config = context.cluster.get("networkConfig") or {}
        own = str(config.get("subnetwork") or context.cluster.get("subnetwork") or "default")
        address = self._next_address(project, region, own.rpartition("/")[2])
        nics = {}
        for number, item in enumerate(plan.networks, start=1):
            network = context.cloud.network(project, item.vpc) or {}
            nics[item.network_object] = Nic(
                interface=f"eth{number}",
                network=item.vpc,
                address=self._next_address(project, region, item.subnetwork),
                mtu_bytes=int(network.get("mtu") or 1460),
            )
        return address, nics

    def _next_address(self, project: str, region: str, subnetwork: str) -> str:
        """Return the next address of a subnet that no node of this cluster has."""
        found = self._world.context.cloud.subnetwork(project, region, subnetwork) or {}
        block = ipaddress.ip_network(str(found.get("ipCidrRange") or "10.128.0.0/20"), strict=False)
        number = self._addresses.get(subnetwork, _FIRST_HOST)
        taken = {node.address for node in self._world.nodes.values()}
        taken |= {nic.address for node in self._world.nodes.values() for nic in node.nics.values()}
        usable = max(block.num_addresses - 3, 1)
        while str(block[number % usable]) in taken and number < usable * 2:
            number += 1
        self._addresses[subnetwork] = number + 1
        return str(block[number % usable])

    def _adopt(self, item: KubeObject) -> None:
        """Take over a node that an earlier run of the simulation made."""
        name = item["metadata"]["name"]
        machine = machine_of(item)
        if name in self._world.nodes or machine is None:
            return
        address, nics = read_nics(item)
        zone = (item["metadata"].get("labels") or {}).get(ZONE, "")
        self._world.nodes[name] = make_node(name, machine, zone, address, nics)
        self._world.news.changed()

    async def _remove(self, name: str) -> None:
        """Remove an idle node: its object, the Pods of DaemonSets on it, its VM."""
        node = self._known.nodes.pop(name, None)
        _log.info("scale down: %s", name)
        await self._api.delete(NODES, name)
        for pod in list(self._known.pods.values()):
            if pod["spec"].get("nodeName") == name:
                metadata = pod["metadata"]
                await self._api.delete(
                    PODS, metadata["name"], metadata["namespace"], grace_period_seconds=0
                )
        self._world.nodes.pop(name, None)
        self._coming.gone(name)
        if node is not None:
            self._forget_instance(node)
        self._node_gone(name)

    def _forget_instance(self, node: KubeObject) -> None:
        zone = (node["metadata"].get("labels") or {}).get(ZONE, "")
        context = self._world.context
        context.cloud.delete_instance(context.key.project, zone, node["metadata"]["name"])
