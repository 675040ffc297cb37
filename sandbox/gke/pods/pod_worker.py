"""One Pod on a simulated node: volumes, network, then its containers in order.

Owns the order of a Pod's containers, its phase and conditions, and writing them to the API server.
Does not own what a single container goes through (`container_worker`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from sandbox.gke.api import ApiError, KubernetesApi
from sandbox.gke.pods.container_status import conditions_of, now, phase_of
from sandbox.gke.pods.container_worker import ContainerWorker
from sandbox.gke.pods.creation import DEVICES_ANNOTATION
from sandbox.gke.pods.daemon_sets import expects_injector
from sandbox.gke.pods.events import EventRecorder
from sandbox.gke.pods.interfaces import (
    INTERFACES_ANNOTATION,
    InterfacesError,
    additional,
    read_interfaces,
)
from sandbox.gke.pods.pod_spec import (
    annotations_of,
    init_containers,
    is_sidecar,
    main_containers,
    restart_policy,
)
from sandbox.gke.pods.volumes import VolumeError, prepare_volumes
from sandbox.gke.pods.world import PodRecord, World
from sandbox.gke.resource_types import CONFIG_MAPS, PODS, ResourceType

KubeObject = dict[str, Any]
_SECRETS = ResourceType("", "v1", "secrets", "Secret")
_RETRY_SECONDS = 2.0
_INJECTOR_SECONDS = 10.0
_log = logging.getLogger(__name__)


class PodWorker:
    """Leads one Pod until it is cancelled or finished."""

    def __init__(
        self,
        pod: PodRecord,
        world: World,
        api: KubernetesApi,
        recorder: EventRecorder,
        *,
        address: str,
    ) -> None:
        self.pod = pod
        self.world = world
        self.recorder = recorder
        self.home = Path(world.context.home)
        self._api = api
        self._address = address
        self._sandbox_ready = False
        self._started_at = now()
        self._dirty = asyncio.Event()
        policy = restart_policy(pod.object)
        self._policy = policy
        first = init_containers(pod.object)
        waiting = "PodInitializing" if first else "ContainerCreating"
        self._init = [
            ContainerWorker(
                spec,
                self,
                init=True,
                sidecar=is_sidecar(spec),
                policy=policy,
                waiting_reason=waiting,
            )
            for spec in first
        ]
        self._main = [
            ContainerWorker(
                spec, self, init=False, sidecar=False, policy=policy, waiting_reason=waiting
            )
            for spec in main_containers(pod.object)
        ]
        self._tasks: dict[ContainerWorker, asyncio.Task[None]] = {}

    async def fetch(self, kind: str, name: str) -> KubeObject | None:
        """Fetch a ConfigMap or Secret of the Pod's namespace."""
        resource = _SECRETS if kind == "Secret" else CONFIG_MAPS
        return await self._api.get(resource, name, self.pod.namespace)

    def status_changed(self) -> None:
        """Have the status written soon."""
        self._dirty.set()

    async def run(self) -> None:
        """Lead the Pod."""
        writer = asyncio.create_task(self._write_statuses())
        self.status_changed()
        try:
            await self._live()
            await self._end()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await self._write_status()
        finally:
            writer.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(writer, *self._tasks.values(), return_exceptions=True)

    async def _live(self) -> None:
        """Bring the Pod up and wait until its work is done."""
        await self._mount()
        await self._join_networks()
        self.pod.address = self._address
        self._sandbox_ready = True
        self.status_changed()
        self.world.news.changed()
        await self._wait_for_injector()
        if not await self._initialize():
            return
        for worker in self._main:
            worker.status.wait("ContainerCreating")
        self.status_changed()
        await asyncio.gather(*(self._start(worker) for worker in self._main))

    async def _wait_for_injector(self) -> None:
        """Let the node's device injector register first, if one is coming.

        Its image is small and those of a GPU Pod are large, so it comes first on real nodes; at
        pace 0 nothing else would keep that order.
        """
        annotated = any(
            key.startswith(DEVICES_ANNOTATION) for key in annotations_of(self.pod.object)
        )
        deadline = time.monotonic() + _INJECTOR_SECONDS
        while annotated and not self.pod.node.injectors and time.monotonic() < deadline:
            since = self.world.news.version
            if not expects_injector(self.world, self.pod.object["spec"].get("nodeName", "")):
                return
            await self.world.news.wait(since, deadline - time.monotonic())

    async def _initialize(self) -> bool:
        """Run the init containers one after the other; False: one failed for good."""
        for worker in self._init:
            task = self._start(worker)
            if worker.status.sidecar:
                await worker.started.wait()
                continue
            await task
            if worker.status.exit_code:
                return False
        return True

    def _start(self, worker: ContainerWorker) -> asyncio.Task[None]:
        task = asyncio.create_task(worker.run())
        self._tasks[worker] = task
        return task

    async def _end(self) -> None:
        """Stop the sidecars once everything else is over."""
        for worker, task in self._tasks.items():
            if worker.status.sidecar:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                worker.status.end(0)
        self.pod.ready = False
        self.world.news.changed()

    async def _mount(self) -> None:
        while True:
            since = self.world.news.version
            try:
                await prepare_volumes(self.pod, self.fetch)
            except VolumeError as error:
                self.recorder.warning(
                    self.pod.object, "FailedMount", str(error), self.pod.node.name
                )
                await asyncio.sleep(max(0.2, _RETRY_SECONDS * self.world.clock.pace))
                await self.world.news.wait(since, _RETRY_SECONDS)
            else:
                return

    async def _join_networks(self) -> None:
        """Give the Pod its interfaces; a Pod whose annotation is wrong stays in creation [R03]."""
        while True:
            problem = self._network_problem()
            if not problem:
                return
            message = (
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup"
                f' network for sandbox "{self.pod.uid.replace("-", "")}": plugin type="gke" failed'
                f" (add): {problem}"
            )
            self.recorder.warning(
                self.pod.object, "FailedCreatePodSandBox", message, self.pod.node.name
            )
            await asyncio.sleep(max(_RETRY_SECONDS, 15 * self.world.clock.pace))

    def _network_problem(self) -> str:
        text = annotations_of(self.pod.object).get(INTERFACES_ANNOTATION)
        try:
            wanted = additional(read_interfaces(text))
        except InterfacesError as error:
            return f"failed to parse annotation {INTERFACES_ANNOTATION}: {error}"
        for interface in wanted:
            nic = self.pod.node.nics.get(interface.network)
            if nic is None:
                return f'network "{interface.network}" has no interface on this node'
            self.pod.nics[interface.name] = replace(nic, interface=interface.name)
        return ""

    def _phase(self) -> str:
        phase = phase_of(
            self._policy,
            [worker.status for worker in self._init],
            [worker.status for worker in self._main],
        )
        # A Pod is over only when its sidecars are.
        sidecars = any(item.status.sidecar and item.status.is_running for item in self._init)
        return "Running" if sidecars and phase in {"Succeeded", "Failed"} else phase

    async def _write_statuses(self) -> None:
        """Write the status whenever it changed; quick changes are written together."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            await self._write_status()

    async def _write_status(self) -> None:
        init = [worker.status for worker in self._init]
        main = [worker.status for worker in self._main]
        phase = self._phase()
        before: Sequence[KubeObject] = (self.pod.object.get("status") or {}).get("conditions") or []
        conditions = conditions_of(
            phase, init, main, sandbox_ready=self._sandbox_ready, before=before
        )
        ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
        if ready != self.pod.ready:
            self.pod.ready = ready
            self.world.news.changed()
        status: KubeObject = {
            "phase": phase,
            "conditions": conditions,
            "hostIP": self.pod.node.address,
            "hostIPs": [{"ip": self.pod.node.address}],
            "startTime": self._started_at,
            "qosClass": (self.pod.object.get("status") or {}).get("qosClass"),
            "containerStatuses": [item.as_object() for item in main],
            "initContainerStatuses": [item.as_object() for item in init],
        }
        if self.pod.address:
            status |= {"podIP": self.pod.address, "podIPs": [{"ip": self.pod.address}]}
        try:
            self.pod.object = await self._api.patch(
                PODS, self.pod.name, {"status": status}, self.pod.namespace, subresource="status"
            )
        except ApiError as error:
            if error.reason not in {"NotFound", "Conflict"}:
                _log.warning("status of %s/%s: %s", self.pod.namespace, self.pod.name, error)
        except httpx.TransportError as error:
            _log.warning("status of %s/%s: %s", self.pod.namespace, self.pod.name, error)
            self._dirty.set()
            await asyncio.sleep(_RETRY_SECONDS)
