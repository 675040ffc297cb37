"""The kubelets of all simulated nodes of one cluster.

Owns which Pods are being led and their addresses. Does not own what a Pod goes through
(`pod_worker`) or the nodes (`sandbox.gke.nodes`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from typing import Any

import httpx

from sandbox.gke.api import ApiError, ChangeType, KubernetesApi
from sandbox.gke.pods.events import EventRecorder
from sandbox.gke.pods.pod_spec import is_finished, is_going
from sandbox.gke.pods.pod_worker import PodWorker
from sandbox.gke.pods.world import PodRecord, World
from sandbox.gke.resource_types import PODS

KubeObject = dict[str, Any]
_DEFAULT_POD_RANGE = "10.84.0.0/14"
_FIRST_HOST = 10
_GRACE_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Kubelet:
    """Leads the Pods that are bound to simulated nodes."""

    def __init__(self, world: World, api: KubernetesApi) -> None:
        self._world = world
        self._api = api
        self._recorder = EventRecorder(api, "kubelet")
        self._pods: dict[str, KubeObject] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._next_host = _FIRST_HOST

    def pod_changed(self, kind: ChangeType, pod: KubeObject) -> None:
        """Take news of a Pod."""
        uid = pod["metadata"]["uid"]
        if kind is ChangeType.DELETED:
            self._pods.pop(uid, None)
            self._stop(uid)
            return
        self._pods[uid] = pod
        record = self._world.pods.get(uid)
        if record is not None:
            # The status is this simulation's own; labels and deletion are others'.
            record.object = record.object | {"metadata": pod["metadata"]}
        self._consider(pod)

    def node_appeared(self) -> None:
        """Look again for Pods that were bound to a node nobody knew yet."""
        for pod in self._pods.values():
            self._consider(pod)

    def node_gone(self, name: str) -> None:
        """Stop everything on a node that was removed."""
        for uid, record in list(self._world.pods.items()):
            if record.node.name == name:
                self._stop(uid)

    async def close(self) -> None:
        """Stop everything."""
        tasks = [*self._tasks.values(), *self._ending.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._recorder.close()

    def _consider(self, pod: KubeObject) -> None:
        node = self._world.nodes.get(pod["spec"].get("nodeName") or "")
        uid = pod["metadata"]["uid"]
        if node is None or uid in self._ending:
            return
        if is_going(pod):
            self._ending[uid] = asyncio.create_task(self._delete(pod))
        elif uid not in self._tasks and not is_finished(pod):
            self._tasks[uid] = asyncio.create_task(self._lead(pod))

    async def _lead(self, pod: KubeObject) -> None:
        uid = pod["metadata"]["uid"]
        node = self._world.nodes[pod["spec"]["nodeName"]]
        record = PodRecord(object=pod, node=node)
        self._world.pods[uid] = record
        host_network = bool(pod["spec"].get("hostNetwork"))
        address = node.address if host_network else self._new_address()
        worker = PodWorker(record, self._world, self._api, self._recorder, address=address)
        try:
            await worker.run()
        except Exception:  # noqa: BLE001 - one odd Pod must not stop the others
            _log.exception("Pod %s/%s", record.namespace, record.name)
        finally:
            self._world.pods.pop(uid, None)
            self._world.news.changed()

    async def _delete(self, pod: KubeObject) -> None:
        """End a Pod's processes and confirm its deletion."""
        metadata = pod["metadata"]
        uid = metadata["uid"]
        task = self._tasks.pop(uid, None)
        if task is not None and not task.done():
            self._recorder.normal(
                pod, "Killing", "Stopping container", pod["spec"].get("nodeName", "")
            )
            await self._world.clock.pass_seconds(_GRACE_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        try:
            await self._api.delete(
                PODS, metadata["name"], metadata["namespace"], grace_period_seconds=0
            )
        except (ApiError, httpx.TransportError) as error:
            _log.warning("deletion of %s/%s: %s", metadata["namespace"], metadata["name"], error)
        finally:
            self._ending.pop(uid, None)

    def _stop(self, uid: str) -> None:
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()

    def _new_address(self) -> str:
        """Return the next free Pod address of the cluster."""
        cluster = self._world.context.cluster
        policy = cluster.get("ipAllocationPolicy") or {}
        block = (
            cluster.get("clusterIpv4Cidr")
            or policy.get("clusterIpv4CidrBlock")
            or _DEFAULT_POD_RANGE
        )
        network = ipaddress.ip_network(str(block), strict=False)
        taken = {
            (pod.get("status") or {}).get("podIP")
            for pod in self._pods.values()
            if not is_finished(pod)
        }
        while str(network[self._next_host % network.num_addresses]) in taken:
            self._next_host += 1
        address = str(network[self._next_host % network.num_addresses])
        self._next_host += 1
        return address
