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
    """Updates of one environment, and what each of them printed and left."""

    sandbox: Sandbox
    environment: Environment
    done: dict[str, Done] = field(default_factory=dict)
    smoke_test: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The result in state after each step."""
    leftovers: dict[str, list[str]] = field(default_factory=dict)

    def up(self, step: str, *words: str, **config: str) -> None:
        """Update with other config, which Pulumi keeps in the stack file."""
        settings = [f"--config=gpudirect:{key}={value}" for key, value in config.items()]
        self.keep(step, self.sandbox.up(STACK, *settings, *words))
        self.environment.wait_for_no_gpu_node()

    def keep(self, step: str, done: Done, stack: str = STACK) -> None:
        self.done[step] = done
        self.smoke_test[step] = _stored_run(self.sandbox, stack)
        self.leftovers[step] = self.environment.leftovers()


@pytest.fixture(scope="module")
def updates(sandbox: Sandbox, environment: Environment) -> Updates:
    updates = Updates(sandbox, environment)
    updates.up("nothing changed")
    updates.done["nothing changed"].ok()
    updates.up("label changed", "--config-path", **{"labels.team": "birds"})
    updates.up("release changed", release="tcpxo-v1.0.16")
    with environment.with_mtu(5, 1460):
        updates.up("MTU changed", smokeTestRerun="mtu")
    with environment.with_gpu_quota(0):
        updates.keep("cancelled", _cancelled_update(sandbox, environment))
    updates.up("after the cancel")
    return updates


@pytest.fixture(scope="module")
def more_updates(updates: Updates) -> Updates:
    """Two more breakages, and another stack beside this one."""
    sandbox, environment = updates.sandbox, updates.environment
    environment.delete_daemon_set("device-injector")
    updates.up("injector deleted", smokeTestRerun="injector")
    updates.up("injector mended", "--refresh")
    with _profile_cut(sandbox):
        updates.up("profile cut", smokeTestRerun="profile")
    sandbox.pulumi("stack", "init", "staging").ok()
    with sandbox.popen(*_up("staging")) as other:
        updates.up("profile mended")
        text, _ = other.communicate(timeout=300)
    done = Done(command="up", code=other.returncode, text=text, seconds=0)
    updates.keep("other stack", done, "staging")
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


def _assert_gate_is_shut(updates: Updates, step: str, verdict: str, cause: str) -> None:
    done = updates.done[step]
    assert done.code != 0
    result = updates.smoke_test[step]["result"]
    assert result["verdict"] == verdict, result
    assert result["diagnosis"][0]["cause"] == cause, result
    # Once while it runs and once in the summary at the end; not again by the language host.
    assert done.text.count("smokeTest: the GPU network did not pass the gate") <= 2, done.text
    assert f"cause: {result['diagnosis'][0]['summary']}" in done.text
    assert "an unhandled error occurred: program exited with non-zero exit code: 1" in done.text
    assert "Traceback" not in done.text


def test_a_wrong_mtu_fails_the_update_with_verdict_and_cause(updates: Updates) -> None:
    _assert_gate_is_shut(updates, "MTU changed", "failed", "wrong-mtu")


def test_a_cancelled_update_leaves_no_job_and_the_next_one_runs_anew_and_passes(
    updates: Updates,
) -> None:
    assert updates.done["cancelled"].code != 0
    assert updates.leftovers["cancelled"] == []
    updates.done["after the cancel"].ok()
    assert updates.smoke_test["after the cancel"]["result"]["verdict"] == "passed"


def test_no_update_leaves_a_job_or_a_pod(updates: Updates) -> None:
    assert {step: left for step, left in updates.leftovers.items() if left} == {}


@pytest.mark.parametrize(
    ("step", "cause"),
    [("injector deleted", "injector-missing"), ("profile cut", "wrong-profile")],
)
def test_what_keeps_a_run_from_its_end_fails_the_update(
    more_updates: Updates, step: str, cause: str
) -> None:
    _assert_gate_is_shut(more_updates, step, "incomplete", cause)


@pytest.mark.parametrize("step", ["injector mended", "profile mended"])
def test_the_update_after_mending_runs_anew_and_passes(more_updates: Updates, step: str) -> None:
    more_updates.done[step].ok()
    assert more_updates.smoke_test[step]["result"]["verdict"] == "passed"


def test_two_stacks_run_side_by_side_and_do_not_meet(more_updates: Updates) -> None:
    more_updates.done["other stack"].ok()
    other = more_updates.smoke_test["other stack"]["result"]
    own = more_updates.smoke_test["profile mended"]["result"]
    assert [other["verdict"], own["verdict"]] == ["passed", "passed"]
    assert [other["transport"], own["transport"]] == ["tcpx", "fastrak"]
    assert [other["ranks"], own["ranks"]] == [16, 16]
    assert other["largest"]["outOfPlaceBusBandwidth"] < own["largest"]["outOfPlaceBusBandwidth"]
    assert more_updates.leftovers["other stack"] == []
