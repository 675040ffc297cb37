"""The gate inside `pulumi up`: when a run is due, how a shut gate looks, cancelling, two stacks."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import kubernetes
import pytest

from tests.sandbox.gate import STACK, SYSTEM, Environment
from tests.sandbox.harness import Done, Sandbox


@pytest.fixture(scope="module")
def environment(sandbox: Sandbox) -> Iterator[Environment]:
    with Environment.brought_up(sandbox) as environment:
        yield environment


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
        text, _ = process.communicate(timeout=240)
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
