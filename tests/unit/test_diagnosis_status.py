from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudirect.diagnosis import (
    Evidence,
    diagnose,
    explain_denial,
    installer_status,
    network_readiness,
    nodes_without_installer,
)
from tests.unit.cluster_objects import addon_pod, daemonset

CASES = Path(__file__).parents[1] / "cases" / "config"
STATUS: list[dict[str, Any]] = json.loads((CASES / "k8s_status.json").read_text())
DENIALS: list[dict[str, Any]] = json.loads((CASES / "denials.json").read_text())


def status_case(what: str) -> dict[str, Any]:
    return next(case for case in STATUS if case["what"].startswith(what))


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("installer DaemonSet, no GPU node yet", "not installed yet: no GPU node"),
        ("one node, pod not ready", "waiting"),
        ("one node, ready", "installed on 1 node"),
    ],
)
def test_an_installer_is_installed_only_where_it_has_run(what: str, status: str) -> None:  # [R32]
    case = status_case(what)
    assert installer_status(case["object"]) == status
    assert status in case["expect"]


def test_the_status_of_an_older_generation_says_nothing() -> None:
    item = daemonset("nccl-tcpxo-installer", 2)
    item["metadata"]["generation"] = 2
    assert installer_status(item) == "waiting"
    item["status"]["observedGeneration"] = 2
    assert installer_status(item) == "installed on 2 nodes"
    item["status"]["updatedNumberScheduled"] = 1
    assert installer_status(item) == "waiting"


def test_an_installer_that_does_not_exist_is_not_installed() -> None:
    assert installer_status(None).startswith("not installed")


def test_only_nodes_with_a_ready_installer_count_as_prepared() -> None:
    pods = [
        addon_pod("nccl-tcpxo-installer", node="a"),
        addon_pod("nccl-tcpxo-installer", node="b", ready=False),
        addon_pod("device-injector", node="c"),
    ]
    assert nodes_without_installer(pods, ["a", "b", "c"]) == ("b", "c")


def test_a_daemon_that_ended_with_exit_code_0_is_a_failure() -> None:  # [R04]
    case = status_case("workload pod 1/2")
    pod = {
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "default"},
        "status": {key: value for key, value in case["object"].items() if key != "kind"},
    }
    found = diagnose(Evidence(pods=[pod]))
    assert found[0].is_failure
    assert found[0].cause == "daemon-stopped"
    assert "the receive daemon stopped; exit code 0 is no success" in found[0].summary.lower()
    assert "log" in found[0].remedy
    # What runs on is not blamed.
    assert [d.where for d in found if not d.is_failure] == ["Pod default/train-0, container train"]


def test_a_network_without_a_condition_is_not_ready_and_default_is_not_counted() -> None:
    case = status_case("four GPU networks")
    items = [
        {
            "metadata": {"name": item["name"]},
            "spec": {"type": item["type"]},
            "status": {
                "conditions": [{"type": "Ready", "status": item["Ready"]}]
                if "Ready" in item
                else []
            },
        }
        for item in case["object"]["items"]
    ]
    readiness = network_readiness(items)
    assert not readiness.is_ready
    assert str(readiness) == "not ready: vpc3; 3 of 4"
    assert case["expect"].startswith(str(readiness))


def test_no_network_at_all_is_not_ready() -> None:
    assert not network_readiness([]).is_ready
    assert str(network_readiness([])) == "not ready: no GPU network"
    assert str(network_readiness([], ["vpc1", "vpc2"])) == "not ready: vpc1, vpc2; 0 of 2"


@pytest.mark.parametrize("case", DENIALS)
def test_a_refusal_is_explained_and_names_no_person(case: dict[str, Any]) -> None:  # [R12]
    expected = case["expect"]
    denial = explain_denial(case["text"])
    assert list(denial.constraints) == expected["constraints"]
    assert denial.hint == expected["hint"]
    if "hides" in expected:
        assert expected["hides"] in case["text"]
        assert expected["hides"] not in repr(denial)


def test_a_refusal_names_the_container() -> None:
    assert explain_denial(DENIALS[0]["text"]).containers == ("tcpx-daemon",)
    privileged = (
        "[denied by autogke-disallow-privilege] container trainer is privileged; not allowed"
    )
    denial = explain_denial(privileged)
    assert denial.containers == ("trainer",)
    assert denial.hint == "remove privileged: true"


def capability(*names: str) -> str:
    said = [f"linux capability '{n}' on container 'c' not allowed; allowed: 'KILL'" for n in names]
    return f"Violations details: {json.dumps({CAPABILITIES: said})}"


CAPABILITIES = "[denied by autogke-default-linux-capabilities]"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            capability("NET_ADMIN", "SYS_ADMIN"),
            "the cluster lacks allow-net-admin; remove the capability",
        ),
        (capability("SYS_ADMIN"), "remove the capability"),
        (
            f"{CAPABILITIES} capability 'SYS_ADMIN'; allowed are 'KILL,NET_ADMIN'",
            "remove the capability",
        ),
        (CAPABILITIES, "remove the capability"),
        (
            "[denied by autogke-node-affinity-selector-limitation] Key "
            "'cloud.google.com/gke-nodepool' is not allowed. Key 'example.com/x' is not allowed",
            "remove the node pool selector; remove the node selector",
        ),
        (
            'pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes',
            "use a namespace that admits GPU Pods",
        ),
    ],
)
def test_a_refusal_hides_no_part_of_itself(text: str, hint: str) -> None:
    assert explain_denial(text).hint == hint


def test_a_refusal_inside_a_json_body_is_read_too() -> None:
    body = json.dumps({"message": DENIALS[1]["text"], "reason": "Forbidden"})
    denial = explain_denial(f"the API server answered 403: {body}")
    assert list(denial.constraints) == DENIALS[1]["expect"]["constraints"]


@pytest.mark.parametrize(
    "text", ["", "no refusal", "Violations details: {", "Violations details: []"]
)
def test_other_text_is_no_refusal(text: str) -> None:
    denial = explain_denial(text)
    assert denial.constraints == ()
    assert denial.violations == ()
