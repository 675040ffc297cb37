"""What the stories of GPU Pods share: two hosts, their Pods, and the runs between them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gke.pod_world import Execution, PodWorld, RunningPod
from tests.gke.simulated import (
    HIGH,
    MEGA,
    TCPX_SETTINGS,
    Manifest,
    gpu_pod,
    service,
)

HOSTS = ("nccl-host-1", "nccl-host-2")
RUNNER = "/scripts/demo-run-nccl-test-tcpxo-via-mpi.sh"
LIBRARIES = "/usr/local/nvidia/lib64"
RUN_SETTINGS = {
    "BENCHMARK": "all_gather_perf",
    "NHOSTS": "2",
    "NCCL_LIB_DIR": LIBRARIES,
    "LD_LIBRARY_PATH": LIBRARIES,
    "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
    "DATA_MAX": "8G",
}
Edit = Callable[[Manifest], object]


def mega_pod(name: str, *edits: Edit) -> Manifest:
    pod = gpu_pod(name, MEGA)
    pod["spec"]["containers"][1]["command"] = [
        "sh",
        "-c",
        "service ssh restart; sleep infinity",
    ]
    for edit in edits:
        edit(pod)
    return pod


def high_pod(name: str, *edits: Edit) -> Manifest:
    pod = gpu_pod(name, HIGH)
    for edit in edits:
        edit(pod)
    return pod


def daemon_of(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"]["containers"][0]
    return found


def annotation_of(pod: Manifest, container: str) -> list[Any]:
    key = f"devices.gke.io/container.{container}"
    return list(json.loads(pod["metadata"]["annotations"][key]))


async def on_a_node(world: PodWorld, pod: Manifest, **preparation: Any) -> RunningPod:
    """Start a Pod on a node of its own, which the addons prepare as `PodWorld.prepare` says."""
    node = world.node()
    await world.prepare(node, **preparation)
    return world.start(pod, node)


async def ready_pair(world: PodWorld, *edits: Edit) -> list[RunningPod]:
    """Two prepared nodes with a ready GPU Pod on each."""
    nodes = [world.node(), world.node()]
    await world.prepare(*nodes)
    make = mega_pod if world.accelerator == MEGA else high_pod
    pods = []
    for name, node in zip(HOSTS, nodes, strict=True):
        world.service(service(name))
        pods.append(world.start(make(name, *edits), node))
    for pod in pods:
        await pod.until(pod.serves)
    return pods


async def all_gather(pod: RunningPod, settings: dict[str, str] | None = None) -> Execution:
    """Run the recommended runner on both hosts, with some settings instead of the usual ones."""
    given = RUN_SETTINGS | (settings or {})
    words = " ".join(f'{name}="{value}"' for name, value in given.items())
    hosts = " ".join(HOSTS)
    script = f"(cd /scripts && /scripts/gen_hostfiles.sh {hosts}) >/dev/null; {words} {RUNNER}"
    return await pod.execute("nccl-test", "bash", "-c", script, seconds=3)


async def tcpx_all_gather(pod: RunningPod, **changes: str) -> Execution:
    """Run the all-gather with TCPX's settings; an empty value leaves one out."""
    settings = {"LD_LIBRARY_PATH": LIBRARIES, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
    settings |= TCPX_SETTINGS | changes
    passed = " ".join(f'-x {name}="{value}"' for name, value in settings.items() if value)
    hosts = ",".join(f"{name}:8" for name in HOSTS)
    script = (
        f"mpirun --allow-run-as-root -H {hosts} {passed} "
        "/third_party/nccl-tests-mpi/build/all_gather_perf -b 1M -e 512M -f 2 -g 1 -c 0"
    )
    return await pod.execute("nccl-test", "bash", "-c", script, seconds=3)


@pytest.fixture
def world(tmp_path: Path) -> Callable[[], PodWorld]:
    return lambda: PodWorld(tmp_path)


@pytest.fixture
def high_world(tmp_path: Path) -> Callable[[], PodWorld]:
    return lambda: PodWorld(tmp_path, accelerator=HIGH)
