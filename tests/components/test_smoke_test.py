from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from tests.components.recording import Recording, computed, run_program
from tests.stack_config import full_config

RUN = "pulumi-python:dynamic/gpudirect:NcclRun"


def _job(recorded: Recording) -> dict[str, Any]:
    documents = json.loads(recorded.one(RUN).inputs["documents"])
    return next(d for d in documents if d["kind"] == "Job")


def _with_verdict(verdict: str) -> Any:
    def outputs(token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        if token == RUN:
            return {"result": {"verdict": verdict, "reasons": ["too slow"]}, "history": []}
        return computed(token, name, inputs)

    return outputs


def test_one_resource_owns_the_run(either: Recording) -> None:
    assert [r.name for r in either.of_type(RUN)] == ["smoke-test-run"]
    assert not [r for r in either.resources if r.type.startswith("kubernetes:batch")]


def test_the_run_waits_for_firewall_rules_and_addons(either: Recording) -> None:
    wanted = {
        r.urn
        for r in either.resources
        if r.type == "gcp:compute/firewall:Firewall" or r.type.startswith("kubernetes:")
    }
    assert wanted <= either.one(RUN).dependencies


def test_the_job_can_end_because_its_daemon_is_a_native_sidecar(either: Recording) -> None:
    spec = _job(either)["spec"]["template"]["spec"]
    sidecars = [c for c in spec["initContainers"] if c.get("restartPolicy") == "Always"]
    assert [c["name"] for c in sidecars] in (["tcpxo-daemon"], ["tcpx-daemon"])
    assert [c["name"] for c in spec["containers"]] == ["nccl-test"]
    assert spec["restartPolicy"] == "Never"


def test_the_job_takes_whole_nodes_one_pod_each(either: Recording) -> None:
    spec = _job(either)["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == 2
    container = spec["template"]["spec"]["containers"][0]
    assert int(container["resources"]["limits"]["nvidia.com/gpu"]) == 8


def test_the_test_image_is_the_installers_image(mega: Recording, high: Recording) -> None:
    def image(recorded: Recording) -> str:
        return str(_job(recorded)["spec"]["template"]["spec"]["containers"][0]["image"])

    assert image(mega).endswith("gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:v1.0.15")
    assert image(high).endswith("gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev:v3.1.12")


@pytest.mark.parametrize(
    ("profile", "script"),
    [("default", "nccl-env-profile.sh"), ("simple", "nccl-env-profile-simple.sh")],
)
def test_the_ranks_source_the_profile_that_workloads_get(profile: str, script: str) -> None:
    recorded = run_program(full_config("dev", ncclProfile=profile))
    container = _job(recorded)["spec"]["template"]["spec"]["containers"][0]
    values = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert values["PROFILE_SCRIPT"] == script


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("release", "tcpxo-v1.0.16"),
        ("ncclProfile", "simple"),
        ("smokeTestRerun", "again"),
        ("smokeTestNodes", 4),
        ("smokeTestCollective", "all-reduce"),
        ("fabricCidr", "192.168.0.0/18"),
    ],
)
def test_what_the_run_proves_triggers_it_anew(key: str, value: Any, mega: Recording) -> None:
    changed = run_program(full_config("dev", **{key: value}))
    assert changed.one(RUN).inputs["triggers"] != mega.one(RUN).inputs["triggers"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("labels", {"team": "ml"}), ("deletionProtection", True), ("smokeTestMinFraction", 0.5)],
)
def test_what_the_run_does_not_prove_runs_nothing(key: str, value: Any, mega: Recording) -> None:
    changed = run_program(full_config("dev", **{key: value}))
    assert changed.one(RUN).inputs["triggers"] == mega.one(RUN).inputs["triggers"]


def test_a_shut_gate_fails_the_update_and_says_why() -> None:
    with pytest.raises(pulumi.RunError, match="too slow"):
        run_program(full_config("dev", smokeTest="gate"), outputs=_with_verdict("failed"))


def test_a_report_does_not_fail_the_update() -> None:
    recorded = run_program(
        full_config("dev", smokeTest="report"), outputs=_with_verdict("degraded")
    )
    assert recorded.outputs["smokeTest"]["verdict"] == "degraded"


def test_without_a_smoke_test_nothing_runs_and_the_output_says_so() -> None:
    recorded = run_program(full_config("dev", smokeTest="off"))
    assert not recorded.of_type(RUN)
    assert recorded.outputs["smokeTest"] == {"verdict": "off"}
