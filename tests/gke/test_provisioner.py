"""Nodes for pending Pods, without an API server: what the loop does with late news."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from sandbox.gke.api import ChangeType, KubernetesApi
from sandbox.gke.nodes.coming_nodes import ComingNodes
from sandbox.gke.nodes.demand import ACCELERATOR
from sandbox.gke.nodes.provisioner import Provisioner
from tests.gke.pod_world import PodWorld
from tests.gke.simulated import MEGA

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def _pod(name: str, spec: dict[str, Any], node: str = "") -> dict[str, Any]:
    """A Pod for which the scheduler has found no node, or one that it has bound."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {**spec, **({"nodeName": node} if node else {})},
        "status": {} if node else {"conditions": [UNSCHEDULABLE]},
    }


def _needs(resources: dict[str, str], **selector: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "i", "resources": {"limits": resources}}]
    return {"containers": containers, "nodeSelector": selector}


GPU_POD = _needs({"nvidia.com/gpu": "8"}, **{ACCELERATOR: MEGA})
Story = Callable[[PodWorld, Provisioner], Awaitable[None]]


def _instances_after(story: Story, home: Path) -> int:
    """Tell a provisioner a story, and count the VMs that it has made by the end."""

    async def told() -> int:
        here = PodWorld(home)
        provisioner = Provisioner(
            here.world, cast(KubernetesApi, here.api), kubelet_port=1, node_gone=lambda _: None
        )
        task = asyncio.create_task(provisioner.run())
        try:
            async with asyncio.timeout(30):
                await story(here, provisioner)
                # What it has not been told of by now, it may not be told of for a while.
                for _ in range(5):
                    provisioner.something_changed()
                    await asyncio.sleep(0.05)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return len(here.cloud.instances)

    return asyncio.run(told())


async def _gpu_pods_come(here: PodWorld, provisioner: Provisioner, *names: str) -> list[str]:
    """Let GPU Pods wait until there is a node for each; return the nodes."""
    for name in names:
        provisioner.pod_changed(ChangeType.ADDED, _pod(name, GPU_POD))
    return await _nodes_made(here, len(names))


async def _nodes_made(here: PodWorld, count: int) -> list[str]:
    while True:
        made = [event["metadata"]["name"] for event in here.api.events if event["kind"] == "Node"]
        if len(made) >= count:
            return made
        await asyncio.sleep(0.01)


def test_a_pod_gets_one_node_however_late_the_watch_tells_of_it(tmp_path: Path) -> None:
    async def story(here: PodWorld, provisioner: Provisioner) -> None:
        pod = _pod("waits", _needs({"cpu": "4", "memory": "8Gi"}))
        provisioner.pod_changed(ChangeType.ADDED, pod)
        await _nodes_made(here, 1)

    assert _instances_after(story, tmp_path) == 1


def test_two_gpu_pods_get_two_nodes_even_if_one_takes_the_others(tmp_path: Path) -> None:
    """The scheduler knows nothing of whom a node was made for."""

    async def story(here: PodWorld, provisioner: Provisioner) -> None:
        of_first, _ = await _gpu_pods_come(here, provisioner, "first", "second")
        provisioner.pod_changed(ChangeType.MODIFIED, _pod("second", GPU_POD, of_first))

    assert _instances_after(story, tmp_path) == 2


def test_a_pod_made_anew_gets_the_node_of_its_forerunner(tmp_path: Path) -> None:
    async def story(here: PodWorld, provisioner: Provisioner) -> None:
        await _gpu_pods_come(here, provisioner, "first")
        provisioner.pod_changed(ChangeType.DELETED, _pod("first", GPU_POD))
        provisioner.pod_changed(ChangeType.ADDED, _pod("again", GPU_POD))

    assert _instances_after(story, tmp_path) == 1


def test_a_third_gpu_pod_gets_a_third_node(tmp_path: Path) -> None:
    async def story(here: PodWorld, provisioner: Provisioner) -> None:
        of_first, of_second = await _gpu_pods_come(here, provisioner, "first", "second")
        provisioner.pod_changed(ChangeType.MODIFIED, _pod("second", GPU_POD, of_first))
        provisioner.pod_changed(ChangeType.MODIFIED, _pod("first", GPU_POD, of_second))
        provisioner.pod_changed(ChangeType.ADDED, _pod("third", GPU_POD))
        await _nodes_made(here, 3)

    assert _instances_after(story, tmp_path) == 3


def test_a_node_that_took_its_time_is_not_stale_when_it_comes_up() -> None:
    now = [0.0]
    nodes = ComingNodes(is_taken=lambda _: False, now=lambda: now[0])
    nodes.made("slow", [])
    now[0] = 300.0
    assert nodes.may_take("slow")
    nodes.came_up("slow")
    now[0] = 310.0
    assert nodes.may_take("slow")
    now[0] = 400.0
    assert not nodes.may_take("slow")
