"""Nodes for pending Pods, without an API server: what the loop does with late news."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, cast

from sandbox.gke.api import ChangeType, KubernetesApi
from sandbox.gke.nodes.provisioner import Provisioner
from tests.gke.pod_world import PodWorld


def test_a_pod_gets_one_node_however_late_the_watch_tells_of_it(tmp_path: Path) -> None:
    async def story() -> list[str]:
        here = PodWorld(tmp_path)
        provisioner = Provisioner(
            here.world, cast(KubernetesApi, here.api), kubelet_port=1, node_gone=lambda _: None
        )
        resources = {"requests": {"cpu": "4", "memory": "8Gi"}}
        pod: dict[str, Any] = {
            "metadata": {
                "name": "waits",
                "namespace": "default",
                "uid": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
        }
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"] = {"conditions": [unschedulable]}
        task = asyncio.create_task(provisioner.run())
        provisioner.pod_changed(ChangeType.ADDED, pod)
        async with asyncio.timeout(10):
            while not any(event["kind"] == "Node" for event in here.api.events):
                await asyncio.sleep(0.01)
        # The node exists, and nothing has told the provisioner yet.
        for _ in range(5):
            provisioner.something_changed()
            await asyncio.sleep(0.05)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return list(here.cloud.instances)

    assert len(asyncio.run(story())) == 1
