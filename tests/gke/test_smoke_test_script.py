"""The smoke test's own Job in simulated Pods: what its script leaves in the launcher's log.

The Pods interpret the script that is shipped, and the simulated NCCL writes what `NCCL_DEBUG` asks
for where `NCCL_DEBUG_FILE` says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from components.nccl_smoke_test import smoke_test_documents
from components.stack_config import workload_environment
from gpudirect.nccl_data import NcclRun
from gpudirect.nccl_results import read_results
from gpudirect.settings import load_settings
from tests.gke.pod_world import PodWorld, RunningPod, play
from tests.gke.simulated import HIGH, MEGA, Manifest
from tests.stack_config import PROJECT, full_config

STACKS = {MEGA: "dev", HIGH: "staging"}
LAUNCHER = "nccl-test"


def documents(accelerator: str, **config: str) -> list[Manifest]:
    """The objects of a run, as the program renders them."""
    stack = STACKS[accelerator]
    full = full_config(stack)
    own = {
        key.removeprefix(f"{PROJECT}:"): value
        for key, value in full.items()
        if key.startswith(f"{PROJECT}:")
    }
    settings = load_settings(
        stack_name=stack,
        values={**own, **config},
        gcp={"region": full["gcp:region"], "project": "some-project-1"},
        environ={},
    )
    return smoke_test_documents(settings.smoke_test, workload_environment(settings))


def rendered(accelerator: str, **config: str) -> Manifest:
    """The Job's Pod template."""
    job = next(d for d in documents(accelerator, **config) if d["kind"] == "Job")
    template: Manifest = job["spec"]["template"]
    return template


def with_script(template: Manifest, old: str, new: str) -> Manifest:
    """The template with one line of its script replaced."""
    changed = copy.deepcopy(template)
    (launcher,) = (c for c in changed["spec"]["containers"] if c["name"] == LAUNCHER)
    (script,) = launcher["args"]
    assert script.count(old) == 1
    launcher["args"] = [script.replace(old, new)]
    return changed


def _pod(template: Manifest, index: int) -> Manifest:
    """The Pod that the Job controller makes of a template for one index."""
    pod = copy.deepcopy(template)
    name = f"nccl-test-{index}"
    labels = pod["metadata"]["labels"] | {
        "batch.kubernetes.io/job-name": "nccl-test",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    pod["spec"]["hostname"] = name
    for container in pod["spec"]["containers"]:
        container["env"].append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod["metadata"] | {"name": name, "labels": labels},
        "spec": pod["spec"],
    }


def log_of(world: Callable[[], PodWorld], template: Manifest, *others: Manifest) -> str:
    """Run the Pods of a Job, each with its template, and return the launcher's log."""
    templates = [template, *(others or (template,))]

    async def story(here: PodWorld) -> str:
        service = next(d for d in documents(here.accelerator) if d["kind"] == "Service")
        here.service(service)
        nodes = [here.node() for _ in templates]
        await here.prepare(*nodes)
        pods: list[RunningPod] = [
            here.start(_pod(each, index), node)
            for index, (each, node) in enumerate(zip(templates, nodes, strict=True))
        ]
        await pods[0].until(lambda: pods[0].last_end(LAUNCHER), seconds=20)
        return pods[0].log(LAUNCHER)

    return play(story, world)


def run_of(log: str) -> NcclRun:
    return read_results(log.splitlines())


@pytest.fixture
def world(tmp_path: Path) -> Callable[[str], Callable[[], PodWorld]]:
    return lambda accelerator: lambda: PodWorld(tmp_path, accelerator=accelerator)


Worlds = Callable[[str], Callable[[], PodWorld]]


@pytest.mark.parametrize(
    ("accelerator", "transport", "nics", "versions"),
    [
        (MEGA, "fastrak", 8, {"nccl": "2.28.7", "plugin": "1.0.15"}),
        (HIGH, "tcpx", 4, {"nccl": "2.19.4", "plugin": "3.1.12"}),
    ],
)
def test_the_log_names_transport_nics_and_versions_of_every_host(
    world: Worlds, accelerator: str, transport: str, nics: int, versions: dict[str, str]
) -> None:
    run = run_of(log_of(world(accelerator), rendered(accelerator)))
    assert run.status == "complete", run.reason
    assert run.transport == transport
    every = tuple(range(nics))
    assert run.nics_per_host == {"nccl-test-0": every, "nccl-test-1": every}
    assert {name: run.versions[name] for name in versions} == versions


@pytest.mark.parametrize("accelerator", [MEGA, HIGH])
def test_no_environment_leaves_the_hosts(world: Worlds, accelerator: str) -> None:
    template = copy.deepcopy(rendered(accelerator))
    for container in template["spec"]["containers"]:
        container["env"].append({"name": "HF_TOKEN", "value": "hf_abcdefghijkl"})
    log = log_of(world(accelerator), template)
    assert "hf_abcdefghijkl" not in log
    assert "set by environment" not in log
    assert len(log.splitlines()) < 120


def test_the_profile_of_the_config_is_the_one_that_is_measured(world: Worlds) -> None:
    largest = {}
    for profile in ("default", "simple"):
        run = run_of(log_of(world(MEGA), rendered(MEGA, ncclProfile=profile)))
        assert run.largest is not None
        largest[profile] = run.largest.out_of_place_bus_bandwidth_gbps or 0.0
    # LL128 and NVLSTree are what the simple profile leaves out; their share is the model's.
    assert largest["simple"] < 0.95 * largest["default"]


SOURCED = '. "\\$NCCL_LIB_DIR/$PROFILE_SCRIPT"\n'


def test_a_variable_unset_after_the_profile_aborts_the_run_by_the_checker(world: Worlds) -> None:
    template = with_script(rendered(MEGA), SOURCED, f"{SOURCED}unset NCCL_NVLSTREE_MAX_CHUNKSIZE\n")
    log = log_of(world(MEGA), template)
    run = run_of(log)
    assert run.status == "incomplete"
    assert "NCCL_NVLSTREE_MAX_CHUNKSIZE is unset, expected 131072" in log
    assert any("guest config checker" in line for line in run.problem_lines)


def test_a_gpu_without_its_nic_aborts_the_run(world: Worlds) -> None:
    # google/nccl-plugin-gpudirect-tcpxo, nccl_shim.cc: no fallback, unless a subset is allowed.
    seven = "export NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6,eth7\n"
    log = log_of(world(MEGA), with_script(rendered(MEGA), SOURCED, f"{SOURCED}{seven}"))
    assert run_of(log).status == "incomplete"
    assert "device:7 (INTERNAL: Could not find closest netdev" in log


def test_a_host_that_uses_seven_nics_of_eight_is_named(world: Worlds) -> None:
    seven = (
        "export NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6,eth7\n"
        "export NCCL_FASTRAK_ALLOW_NIC_SUBSET=1\n"
    )
    whole = rendered(MEGA)
    run = run_of(log_of(world(MEGA), whole, with_script(whole, SOURCED, f"{SOURCED}{seven}")))
    assert run.status == "complete"
    assert {host: len(nics) for host, nics in run.nics_per_host.items()} == {
        "nccl-test-0": 8,
        "nccl-test-1": 7,
    }


def test_without_the_plug_in_every_host_says_socket(world: Worlds) -> None:
    plain = with_script(rendered(MEGA), SOURCED, f"{SOURCED}export NCCL_NET=Socket\n")
    run = run_of(log_of(world(MEGA), plain))
    assert run.status == "complete"
    assert run.transport == "socket"
