"""Simulated nodes and Pods without an API server: what the kubelet side does, in milliseconds."""

from __future__ import annotations

import asyncio
import copy
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

from sandbox.contracts import ClusterContext, ClusterKey
from sandbox.gke.api import KubernetesApi
from sandbox.gke.nccl.hosts import Nic
from sandbox.gke.nodes.machines import A3_HIGH, A3_MEGA, MachineType
from sandbox.gke.pods.container import Container
from sandbox.gke.pods.events import EventRecorder
from sandbox.gke.pods.logs import log_file
from sandbox.gke.pods.node_hardware import make_node
from sandbox.gke.pods.pod_worker import PodWorker
from sandbox.gke.pods.programs.system import run as run_program
from sandbox.gke.pods.shell.streams import Capture
from sandbox.gke.pods.world import Node, PodRecord, World
from tests.gke import vendor_manifests as vendor
from tests.gke.fake_cloud import REGION, FakeCloud, cluster_resource
from tests.gke.simulated import HIGH, MEGA, Manifest, installer, project_with_gpu_networks

T = TypeVar("T")
MACHINES = {MEGA: A3_MEGA, HIGH: A3_HIGH}


class FakeApi:
    """Keeps what the kubelet writes, and the objects that it reads."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.pods: dict[str, Manifest] = {}
        self.events: list[Manifest] = []

    async def get(self, kind: Any, name: str, namespace: str | None = None) -> Manifest | None:
        return self.objects.get((kind.kind, name))

    async def create(self, kind: Any, body: Manifest, **_: Any) -> Manifest:
        self.events.append(body)
        return body

    async def patch(
        self, kind: Any, name: str, patch: Any, namespace: str | None = None, **_: Any
    ) -> Manifest:
        if kind.kind == "Event":
            return {}
        self.pods[name] = self.pods[name] | patch
        return self.pods[name]

    async def delete(self, *_: Any, **__: Any) -> bool:
        return True


class PodWorld:
    """One cluster's nodes and Pods; use it inside `asyncio.run`."""

    def __init__(self, home: Path, *, accelerator: str = MEGA, cloud: FakeCloud | None = None):
        self.accelerator = accelerator
        self.cloud = cloud or project_with_gpu_networks()
        self.context = ClusterContext(
            key=ClusterKey(project="p", location=REGION, name="demo"),
            kubeconfig="",
            home=str(home),
            cloud=self.cloud,
            cluster=cluster_resource(),
            pace=0.0,
        )
        self.world = World(self.context)
        self.api = FakeApi()
        self._api = cast(KubernetesApi, self.api)
        self._recorder = EventRecorder(self._api, "kubelet")
        self._tasks: list[asyncio.Task[None]] = []
        self._addresses = 9

    def node(self, *, nics: int | None = None, machine: MachineType | None = None) -> Node:
        """Add a node with NICs in `net-1` to `net-N`."""
        chosen = machine or MACHINES[self.accelerator]
        count = chosen.gpu_nics if nics is None else nics
        number = len(self.world.nodes) + 2
        found = {
            f"vpc{index}": Nic(
                interface=f"eth{index}",
                network=f"net-{index}",
                address=f"192.168.{index}.{number}",
                mtu_bytes=self.cloud.networks[f"net-{index}"]["mtu"],
            )
            for index in range(1, count + 1)
        }
        node = make_node(f"node-{number}", chosen, "us-central1-a", f"10.128.0.{number}", found)
        self.world.nodes[node.name] = node
        return node

    def start(self, manifest: Manifest, node: Node) -> RunningPod:
        """Run a Pod on a node."""
        pod = copy.deepcopy(manifest)
        pod["metadata"] |= {"uid": str(uuid.uuid4()), "namespace": "default"}
        pod["spec"]["nodeName"] = node.name
        self.api.pods[pod["metadata"]["name"]] = pod
        record = PodRecord(object=pod, node=node)
        self.world.pods[record.uid] = record
        self._addresses += 1
        host_network = bool(pod["spec"].get("hostNetwork"))
        address = node.address if host_network else f"10.84.0.{self._addresses}"
        worker = PodWorker(record, self.world, self._api, self._recorder, address=address)
        task = asyncio.create_task(worker.run())
        self._tasks.append(task)
        return RunningPod(self, record, task)

    def service(self, manifest: Manifest) -> None:
        self.world.services[("default", manifest["metadata"]["name"])] = manifest

    async def prepare(
        self, *nodes: Node, tag: str | None = None, injectors: int = 1, install: bool = True
    ) -> None:
        """Run the add-ons on nodes and wait until they did their work."""
        started = []
        for node in nodes:
            for number in range(injectors):
                pod = pod_of(vendor.device_injector(), f"injector-{number}-{node.name}")
                started.append(self.start(pod, node))
            if install:
                name = f"installer-{node.name}"
                started.append(self.start(pod_of(installer(self.accelerator, tag), name), node))
        for pod_ in started:
            await pod_.until(pod_.runs)

    def events(self, name: str) -> list[tuple[str, str]]:
        """List reason and message of a Pod's events."""
        return [
            (item["reason"], item["message"])
            for item in self.api.events
            if item["involvedObject"]["name"] == name
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._recorder.close()


class RunningPod:
    """A Pod that was started."""

    def __init__(self, owner: PodWorld, record: PodRecord, task: asyncio.Task[None]) -> None:
        self.record = record
        self.task = task
        self._owner = owner

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def status(self) -> Manifest:
        found: Manifest = self._owner.api.pods[self.name].get("status") or {}
        return found

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    def container(self, name: str) -> Manifest:
        """The status of one container."""
        for group in ("containerStatuses", "initContainerStatuses"):
            for item in self.status.get(group) or []:
                if item["name"] == name:
                    found: Manifest = item
                    return found
        return {"state": {}, "lastState": {}, "restartCount": 0}

    def serves(self) -> bool:
        """Whether it is ready and its receive daemon healthy."""
        return self.record.ready and self.record.daemon is not None

    def runs(self) -> bool:
        return self.phase == "Running"

    def waits_for(self, container: str, reason: str) -> bool:
        state = self.container(container)["state"]
        return (state.get("waiting") or {}).get("reason") == reason

    def last_end(self, container: str) -> Manifest | None:
        """How a container ended the last time."""
        item = self.container(container)
        state = item["state"].get("terminated") or item["lastState"].get("terminated")
        return cast("Manifest | None", state)

    def log(self, container: str, restart: int = 0) -> str:
        """The text of a container's log."""
        home = Path(self._owner.context.home)
        record = self.record
        path = log_file(home, "default", record.name, record.uid, container, restart)
        if not path.exists():
            return ""
        return "".join(line.split(" ", 3)[3] for line in path.read_text().splitlines(True))

    async def until(self, condition: Callable[[], object], seconds: float = 8.0) -> None:
        """Wait for something; the news of the simulation say when to look."""
        deadline = time.monotonic() + seconds
        news = self._owner.world.news
        while not condition():
            left = deadline - time.monotonic()
            assert left > 0, f"{self.name}: it did not happen; {self.status}"
            await news.wait(news.version, min(left, 0.05))

    async def execute(self, container: str, *command: str, seconds: float = 5.0) -> Execution:
        """Run a command as `kubectl exec` does."""
        found: Container = self.record.containers[container]
        output, errors = Capture(), Capture()
        process = found.process(output, errors)
        try:
            code = await asyncio.wait_for(run_program(process, command), seconds)
        except TimeoutError:
            return Execution(None, output.text, errors.text)
        return Execution(code, output.text, errors.text)


class Execution:
    """What a command did; `code` None: it did not end."""

    def __init__(self, code: int | None, output: str, errors: str) -> None:
        self.code = code
        self.output = output
        self.errors = errors

    @property
    def text(self) -> str:
        return self.output + self.errors

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.output.splitlines() if " float " in line]

    @property
    def largest(self) -> float:
        """Bus bandwidth of the largest message in GB/s, out of place."""
        return float(self.rows[-1][7])


def pod_of(daemon_set: Manifest, name: str) -> Manifest:
    """The Pod that a DaemonSet puts on a node."""
    template = copy.deepcopy(daemon_set["spec"]["template"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {}, **template["metadata"]} | {"name": name},
        "spec": template["spec"],
    }


def play(story: Callable[[PodWorld], Coroutine[Any, Any, T]], world: Callable[[], PodWorld]) -> T:
    """Run a story in a world of its own and end everything in it."""

    async def whole() -> T:
        here = world()
        try:
            return await story(here)
        finally:
            await here.close()

    return asyncio.run(whole())
