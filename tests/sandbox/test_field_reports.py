"""Reports of people doing this job, played against the real engine [R29, R30, R33, R42, R43].

R18, R19, R20 and R26 are in `test_teardown`.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.sandbox.cloud_client import CloudClient
from tests.sandbox.harness import PROJECT_FOLDER, Done, Sandbox

STACK = "staging"
NAMESPACE = "gpudirect-system"
GOLDEN = PROJECT_FOLDER / "tests" / "contract" / "urns" / f"{STACK}.json"


@pytest.fixture(scope="module")
def stack(sandbox: Sandbox) -> str:
    sandbox.pulumi("stack", "init", STACK).ok()
    sandbox.set_config(STACK, smokeTest="off")
    return STACK


def test_urns_under_the_real_engine_are_those_of_the_stored_list(  # [R42]
    over_a_namespace: dict[str, Any],
) -> None:
    # The recording engine writes the stack's own type before the top ones; the run is off here.
    stored = {urn.replace("pulumi:pulumi:Stack$", "") for urn in json.loads(GOLDEN.read_text())}
    expected = {urn for urn in stored if not urn.endswith("::smoke-test-run")}
    of_the_engine = ("::pulumi:pulumi:Stack::", "::default")
    found = [u for u in over_a_namespace["urns"] if not any(part in u for part in of_the_engine)]
    assert sorted(found) == sorted(expected)


def test_preview_of_an_empty_stack_needs_no_cluster_and_fetches_nothing(
    sandbox: Sandbox, stack: str
) -> None:
    cloud = CloudClient(sandbox.environment)
    done = sandbox.pulumi("preview", "--json", "--stack", stack).ok()
    steps = json.loads(done.text[done.text.index("{") : done.text.rindex("}") + 1])["steps"]
    created = Counter(step["urn"].split("::")[2].rpartition("$")[2] for step in steps)
    assert created["gcp:compute/network:Network"] == 4
    assert created["gcp:compute/subnetwork:Subnetwork"] == 4
    assert created["gcp:compute/firewall:Firewall"] == 4
    assert created["gcp:container/cluster:Cluster"] == 1
    assert created["kubernetes:networking.gke.io/v1:Network"] == 4
    assert created["kubernetes:networking.gke.io/v1:GKENetworkParamSet"] == 4
    assert cloud.resources() == []
    assert cloud.operations() == []


@pytest.mark.parametrize("path", ["clusterName", "labels.token"])
def test_a_secret_in_the_config_appears_nowhere_in_clear(
    sandbox: Sandbox, stack: str, path: str
) -> None:
    secret = "hush-hush-4711"
    sandbox.pulumi("config", "set", "--secret", "--path", path, secret, "--stack", stack).ok()
    try:
        done = sandbox.pulumi("preview", "--stack", stack, "--diff")
        assert secret not in done.text
        assert secret not in json.dumps(sandbox.state(stack))
        assert "Traceback" not in done.text
        if done.code != 0:
            assert f"gpudirect:{path.partition('.')[0]}" in done.text
    finally:
        sandbox.pulumi("config", "rm", path.partition(".")[0], "--stack", stack).ok()


@pytest.fixture(scope="module")
def over_a_namespace(sandbox: Sandbox, stack: str) -> dict[str, Any]:
    """Somebody made the addons' namespace between the cluster and the addons."""
    targets = [
        f"urn:pulumi:{stack}::gpudirect::gpudirect:index:{kind}**"
        for kind in ("GpuNetworkFabric", "AutopilotCluster")
    ]
    words = [word for target in targets for word in ("--target", target)]
    done: dict[str, Any] = {"cluster": sandbox.up(stack, *words).ok()}
    context = CloudClient(sandbox.environment).clusters()[0]["context"]
    kubectl = ("kubectl", "--context", context)
    sandbox.run(*kubectl, "create", "namespace", NAMESPACE).ok()
    done["refused"] = sandbox.up(stack)
    done["still there"] = sandbox.run(*kubectl, "get", "namespace", NAMESPACE)
    sandbox.run(*kubectl, "delete", "namespace", NAMESPACE).ok()
    done["up"] = sandbox.up(stack)
    done["urns"] = [r["urn"] for r in sandbox.state(stack)["deployment"]["resources"]]
    # As an update leaves them that dies between the making and the writing down.
    for name in ("addons-namespace", "addons-installer"):
        urn = next(urn for urn in done["urns"] if urn.endswith(f"::{name}"))
        sandbox.pulumi("state", "delete", urn, "--target-dependents", "--yes", "--stack", stack)
    done["up over its own"] = sandbox.up(stack)
    done["destroy"] = sandbox.destroy(stack)
    done["left"] = CloudClient(sandbox.environment).resources()
    return done


def test_a_namespace_that_exists_is_named_and_not_taken_over(
    over_a_namespace: dict[str, Any],
) -> None:
    refused: Done = over_a_namespace["refused"]
    assert refused.code != 0
    assert f'namespaces "{NAMESPACE}" already exists in the cluster' in refused.text
    assert (
        f"kubectl label namespace {NAMESPACE} --overwrite gpudirect-stack={STACK}" in refused.text
    )
    assert "Traceback" not in refused.text
    over_a_namespace["still there"].ok()


def test_without_it_the_next_up_converges_and_destroy_leaves_nothing(
    over_a_namespace: dict[str, Any],
) -> None:
    over_a_namespace["up"].ok()
    over_a_namespace["destroy"].ok()
    assert over_a_namespace["left"] == []


def test_what_this_stack_made_before_it_was_killed_is_taken_back(
    over_a_namespace: dict[str, Any],
) -> None:
    done: Done = over_a_namespace["up over its own"].ok()
    assert "addons-namespace" in done.text
