"""The gate against environments that are broken for real: the right verdict, the right cause first.

They drive the smoke test's own code against one cluster; `test_gate_updates` does it by updates.
Each puts back what it broke and leaves no Job, no Pod and no GPU node.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.sandbox.gate import (
    STACK,
    Document,
    Environment,
    after_profile,
    container,
    edited,
)
from tests.sandbox.harness import Done, Sandbox

ZONE = "us-east4-b"
SEVEN_NICS = "export NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6,eth7"


@pytest.fixture(scope="module")
def environment(sandbox: Sandbox) -> Iterator[Environment]:
    with Environment.brought_up(sandbox) as environment:
        yield environment


@pytest.fixture
def clean(environment: Environment) -> Iterator[Environment]:
    """The environment without a GPU node, and after the test the proof that nothing is left."""
    # An idle node of the run before could still take a Pod, whatever is broken by then.
    environment.wait_for_no_gpu_node()
    yield environment
    assert environment.leftovers() == []
    environment.wait_for_no_gpu_node()


def _without_daemon(template: Document) -> None:
    template["spec"]["initContainers"] = []


def _without_daemon_and_host_paths(template: Document) -> None:
    _without_daemon(template)
    spec, test = template["spec"], container(template, "nccl-test")
    spec["volumes"] = [volume for volume in spec["volumes"] if "hostPath" not in volume]
    names = {volume["name"] for volume in spec["volumes"]}
    test["volumeMounts"] = [mount for mount in test["volumeMounts"] if mount["name"] in names]


def _with_unknown_daemon_tag(template: Document) -> None:
    daemon = container(template, "tcpxo-daemon")
    daemon["image"] = f"{daemon['image'].rpartition(':')[0]}:v9.9.9"


def _without_variable(name: str) -> Callable[[Document], None]:
    def edit(template: Document) -> None:
        test = container(template, "nccl-test")
        before = len(test["env"])
        test["env"] = [entry for entry in test["env"] if entry["name"] != name]
        assert len(test["env"]) == before - 1

    return edit


@dataclass(frozen=True, kw_only=True)
class Case:
    """One breakage.

    Attributes:
        breakage: What is changed in cloud or cluster, and put back.
        edit: What is changed in the Job.
        config: Config of the run.
        deadlines: Deadlines in seconds by phase, where they differ from the usual ones.
        late: The phase whose deadline ends the run; None where it ends by itself.
        verdict: What the gate must say.
        cause: The first cause.
        said: A part of the evidence that the first cause must show.
    """

    breakage: Callable[[Environment], contextlib.AbstractContextManager[None]] = lambda _: (
        contextlib.nullcontext()
    )
    edit: Callable[[Document], None] = lambda _: None
    config: dict[str, str] = field(default_factory=dict)
    deadlines: dict[str, float] = field(default_factory=dict)
    late: str | None = None
    verdict: str = "incomplete"
    cause: str
    said: str


CASES = {
    "a firewall rule is closed": Case(
        breakage=lambda e: e.without_firewall_rule(3),
        # The time that a healthy run has from its start to its last row.
        deadlines={"run": 15},
        late="run",
        cause="firewall-closed",
        said="silent for",
    ),
    "a Network object is deleted": Case(
        breakage=lambda e: e.without_network("vpc3"),
        deadlines={"capacity": 10},
        late="capacity",
        cause="network-missing",
        said="there is no object of this name",
    ),
    "the installer is removed": Case(
        breakage=lambda e: e.without_daemon_set("nccl-tcpxo-installer"),
        deadlines={"start": 10},
        late="start",
        cause="installer-missing",
        said="nccl-tcpxo-installer",
    ),
    "there is no injector": Case(
        breakage=lambda e: e.without_daemon_set("device-injector"),
        cause="injector-missing",
        said="CUDA initialization failed",
    ),
    "a network has another MTU": Case(
        breakage=lambda e: e.with_mtu(3, 1460),
        verdict="failed",
        cause="wrong-mtu",
        said="eth3 mtu 1460",
    ),
    "the GPU quota is 0": Case(
        breakage=lambda e: e.with_gpu_quota(0),
        deadlines={"capacity": 10},
        late="capacity",
        cause="quota-exceeded",
        said="GCE quota exceeded",
    ),
    "the zone has no machine": Case(
        breakage=lambda e: e.without_machines_in(ZONE),
        config={"zone": ZONE},
        deadlines={"capacity": 10},
        late="capacity",
        cause="no-capacity",
        said=f"{ZONE} associated with this pod failed: GCE out of resources",
    ),
    "the Job has no sidecar": Case(
        edit=_without_daemon,
        cause="admission-denied",
        said="autogke-no-write-mode-hostpath: hostPath volume aperture-devices",
    ),
    "the Job has no sidecar and no path of the node": Case(
        edit=_without_daemon_and_host_paths,
        cause="daemon-missing",
        said="8 GPU networks",
    ),
    "the daemon has a tag that does not exist": Case(
        edit=_with_unknown_daemon_tag,
        cause="image-not-pulled",
        said="tcpgpudmarxd-dev:v9.9.9",
    ),
    "the folder of the apertures is not named": Case(
        edit=_without_variable("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY"),
        cause="apertures-missing",
        said="No LLCM device found",
    ),
    "a variable of the profile is unset after it": Case(
        edit=after_profile("unset NCCL_NVLSTREE_MAX_CHUNKSIZE"),
        cause="checker-aborted",
        said="NCCL_NVLSTREE_MAX_CHUNKSIZE is unset, expected 131072",
    ),
    "a GPU has no NIC": Case(
        edit=after_profile(SEVEN_NICS),
        cause="nic-unused",
        said="Could not find closest netdev",
    ),
    "seven of eight NICs are used": Case(
        edit=after_profile(SEVEN_NICS, "export NCCL_FASTRAK_ALLOW_NIC_SUBSET=1"),
        # 7/8 of the bandwidth alone would pass.
        verdict="failed",
        cause="nic-unused",
        said="channels on 7 of 8 GPU NICs on nccl-test-",
    ),
    "NCCL uses plain sockets": Case(
        edit=after_profile("export NCCL_NET=Socket"),
        verdict="failed",
        cause="plugin-not-loaded",
        said="Using network Socket",
    ),
    "the profile does not find its folder": Case(
        edit=_without_variable("NCCL_LIB_DIR"),
        cause="wrong-profile",
        said="Must set NCCL_LIB_DIR",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_breakage_is_named_within_its_deadline_and_leaves_nothing(
    clean: Environment, name: str
) -> None:
    case = CASES[name]
    documents = edited(clean.documents(**case.config), case.edit)
    with case.breakage(clean):
        attempt = clean.attempt(documents, **case.deadlines)
    shown = [attempt.result["reasons"], attempt.result["diagnosis"], attempt.lines]
    assert attempt.result["verdict"] == case.verdict, shown
    assert attempt.causes[:1] == [case.cause], shown
    assert case.said in attempt.result["diagnosis"][0]["evidence"], shown
    problem = attempt.outcome.problem or ""
    assert ("the deadline of this phase" in problem) == (case.late is not None), shown
    if case.late is not None:
        assert attempt.outcome.phase.value == case.late, shown
        # However slow the machine is: past its deadline, a run decides no second time to wait.
        assert attempt.decisions_after(case.late, case.deadlines[case.late]) <= 2, shown
        # The phase is announced a moment after its clock has started.
        assert attempt.decisions_after(case.late, case.deadlines[case.late] - 1) >= 1, shown


def test_a_run_in_a_mended_environment_passes_and_says_what_it_waits_for(
    clean: Environment,
) -> None:
    attempt = clean.attempt(clean.documents())
    assert attempt.result["verdict"] == "passed", attempt.result["reasons"]
    assert attempt.result["diagnosis"] == []
    assert attempt.result["transport"] == "fastrak"
    assert attempt.result["nicsPerHost"] == {
        "nccl-test-0": list(range(8)),
        "nccl-test-1": list(range(8)),
    }
    assert attempt.result["versions"]["plugin"] == "1.0.15"
    assert attempt.lines[0] == "capacity: waiting for GPU nodes for every Pod (at most 3 min 00 s)"
    assert any(line.startswith("pull: waiting for images") for line in attempt.lines)
    assert any("waiting for a node (2)" in line for line in attempt.lines), attempt.lines


def _gpudirect(sandbox: Sandbox, *words: str) -> Done:
    return sandbox.run(sys.executable, "-m", "gpudirect", *words)


def test_doctor_finds_nothing_in_a_healthy_stack_and_the_cause_in_a_broken_one(
    sandbox: Sandbox, clean: Environment
) -> None:
    healthy = _gpudirect(sandbox, "doctor", "--stack", STACK, "--json").ok()
    assert json.loads(healthy.text)["failures"] == []
    with clean.without_network("vpc3"):
        broken = _gpudirect(sandbox, "doctor", "--stack", STACK, "--json")
    assert broken.code == 1
    first = json.loads(broken.text)["failures"][0]
    assert (first["cause"], first["where"]) == ("network-missing", "Network vpc3")


def test_results_shows_the_run_that_the_stack_keeps(
    sandbox: Sandbox, environment: Environment
) -> None:
    result = json.loads(_gpudirect(sandbox, "results", "--stack", STACK, "--json").ok().text)
    assert result["verdict"] == "passed"
    assert result["transport"] == "fastrak"
    shown = _gpudirect(sandbox, "results", "--stack", STACK, "--plot", "--history").ok().text
    assert "NICs used: 8 on each host" in shown
    assert "message size" in shown
    samples = _gpudirect(sandbox, "results", "--stack", STACK, "--prometheus").ok().text
    assert f'gpudirect_nccl_verdict{{stack="{STACK}",verdict="passed"}} 1' in samples
