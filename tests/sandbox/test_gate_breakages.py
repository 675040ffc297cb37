"""The gate against environments that are broken for real: the right verdict, the right cause first.

Most breakages drive the smoke test's own code against one cluster; three go through `pulumi up`.
Each puts back what it broke and leaves no Job, no Pod and no GPU node.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import kubernetes
import pytest

from tests.sandbox.gate import (
    SYSTEM,
    Document,
    Environment,
    after_profile,
    container,
    edited,
)
from tests.sandbox.harness import Done, Sandbox

pytestmark = pytest.mark.soak

STACK = "dev"
ZONE = "us-east4-b"
SEVEN_NICS = "export NCCL_FASTRAK_IFNAME=eth1,eth2,eth3,eth4,eth5,eth6,eth7"


@pytest.fixture(scope="module")
def environment(sandbox: Sandbox) -> Iterator[Environment]:
    sandbox.pulumi("stack", "init", STACK).ok()
    sandbox.up(STACK).ok()
    with contextlib.closing(Environment(sandbox, STACK)) as environment:
        yield environment


@pytest.fixture
def clean(environment: Environment) -> Iterator[Environment]:
    """The environment, and after the test the proof that nothing of a run is left in it."""
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
        deadlines={"run": 10},
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
        assert 1 <= attempt.decisions_after(case.late, case.deadlines[case.late]) <= 2, shown


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


@dataclass
class Updates:
    """What each update printed and left."""

    done: dict[str, Done] = field(default_factory=dict)
    smoke_test: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The result in state after each step."""
    leftovers: dict[str, list[str]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def updates(sandbox: Sandbox, environment: Environment) -> Updates:
    updates = Updates()

    def keep(step: str, done: Done, stack: str = STACK) -> None:
        updates.done[step] = done
        updates.smoke_test[step] = _stored_run(sandbox, stack)
        updates.leftovers[step] = environment.leftovers()

    def up(step: str, *words: str, **config: str) -> None:
        settings = [f"--config=gpudirect:{key}={value}" for key, value in config.items()]
        keep(step, sandbox.up(STACK, *settings, *words))
        environment.wait_for_no_gpu_node()

    up("nothing changed")
    updates.done["nothing changed"].ok()
    up("label changed", "--config-path", **{"labels.team": "birds"})
    up("release changed", release="tcpxo-v1.0.16")
    with environment.with_mtu(5, 1460):
        up("MTU changed", smokeTestRerun="mtu")
    up("MTU mended")
    environment.delete_daemon_set("device-injector")
    up("injector deleted", smokeTestRerun="injector")
    up("injector mended", "--refresh")
    with _profile_cut(sandbox):
        up("profile cut", smokeTestRerun="profile")
    up("profile mended")
    with environment.with_gpu_quota(0):
        keep("cancelled", _cancelled_update(sandbox, environment))
    sandbox.pulumi("stack", "init", "staging").ok()
    with sandbox.popen(*_up("staging")) as other:
        up("after the cancel")
        text, _ = other.communicate(timeout=300)
    keep("other stack", Done(command="up", code=other.returncode, text=text, seconds=0), "staging")
    return updates


@contextlib.contextmanager
def _profile_cut(sandbox: Sandbox) -> Iterator[None]:
    """Take a variable that the profile needs from the clone's own test."""
    manifest = sandbox.project / "manifests" / "a3-mega" / "nccl-test.yaml"
    text = manifest.read_text()
    begin = "              set -u\n"
    assert text.count(begin) == 1
    manifest.write_text(text.replace(begin, f"{begin}              unset NCCL_LIB_DIR\n"))
    try:
        yield
    finally:
        manifest.write_text(text)


def _up(stack: str, *words: str) -> tuple[str, ...]:
    return ("pulumi", "up", "--yes", "--non-interactive", "--stack", stack, *words)


def _stored_run(sandbox: Sandbox, stack: str) -> dict[str, Any]:
    """Return the run's properties: a shut gate leaves the stack's outputs as they were."""
    run: dict[str, Any] = next(
        resource["outputs"]
        for resource in sandbox.state(stack)["deployment"]["resources"]
        if resource["type"].endswith("gpudirect:NcclRun")
    )
    return run


def _cancelled_update(sandbox: Sandbox, environment: Environment) -> Done:
    """Press Ctrl-C as soon as the Job of the run is there."""
    listed = environment.batch.list_namespaced_job(SYSTEM)
    assert listed.items == []
    with sandbox.popen(*_up(STACK, "--config=gpudirect:smokeTestRerun=cancel")) as process:
        watch = kubernetes.watch.Watch()
        for event in watch.stream(
            environment.batch.list_namespaced_job,
            SYSTEM,
            resource_version=listed.metadata.resource_version,
            timeout_seconds=120,
        ):
            if event["type"] == "ADDED":
                os.killpg(process.pid, signal.SIGINT)
                watch.stop()
        text, _ = process.communicate(timeout=60)
    return Done(command="pulumi up", code=process.returncode, text=text, seconds=0)


def _runs(updates: Updates, step: str) -> int:
    return len(updates.smoke_test[step]["history"])


def test_two_updates_in_a_row_make_one_run(updates: Updates) -> None:
    assert _runs(updates, "nothing changed") == 1


def test_a_label_makes_no_run_and_another_release_makes_one(updates: Updates) -> None:
    updates.done["label changed"].ok()
    assert _runs(updates, "label changed") == 1
    updates.done["release changed"].ok()
    assert _runs(updates, "release changed") == 2
    assert updates.smoke_test["release changed"]["result"]["release"] == "tcpxo-v1.0.16"


@pytest.mark.parametrize(
    ("step", "verdict", "cause"),
    [
        ("MTU changed", "failed", "wrong-mtu"),
        ("injector deleted", "incomplete", "injector-missing"),
        ("profile cut", "incomplete", "wrong-profile"),
    ],
)
def test_a_broken_environment_fails_the_update_with_verdict_and_cause(
    updates: Updates, step: str, verdict: str, cause: str
) -> None:
    done = updates.done[step]
    assert done.code != 0
    result = updates.smoke_test[step]["result"]
    assert result["verdict"] == verdict, result
    assert result["diagnosis"][0]["cause"] == cause, result
    assert "smokeTest: the GPU network did not pass the gate" in done.text
    assert f"cause: {result['diagnosis'][0]['summary']}" in done.text
    assert "Traceback" not in done.text


@pytest.mark.parametrize("step", ["MTU mended", "injector mended", "profile mended"])
def test_the_update_after_mending_runs_anew_and_passes(updates: Updates, step: str) -> None:
    updates.done[step].ok()
    assert updates.smoke_test[step]["result"]["verdict"] == "passed"


def test_a_cancelled_update_leaves_no_job_and_the_next_one_runs_anew(updates: Updates) -> None:
    assert updates.done["cancelled"].code != 0
    assert updates.leftovers["cancelled"] == []
    updates.done["after the cancel"].ok()
    assert updates.smoke_test["after the cancel"]["result"]["verdict"] == "passed"


def test_two_stacks_run_side_by_side_and_do_not_meet(updates: Updates) -> None:
    updates.done["other stack"].ok()
    other = updates.smoke_test["other stack"]["result"]
    own = updates.smoke_test["after the cancel"]["result"]
    assert [other["verdict"], own["verdict"]] == ["passed", "passed"]
    assert [other["ranks"], own["ranks"]] == [16, 16]
    assert other["largest"]["outOfPlaceBusBandwidth"] < own["largest"]["outOfPlaceBusBandwidth"]


def test_no_update_leaves_a_job_or_a_pod(updates: Updates) -> None:
    assert {step: left for step, left in updates.leftovers.items() if left} == {}
