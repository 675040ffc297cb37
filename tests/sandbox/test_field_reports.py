"""Reports of people doing this job, played against the real engine [R29, R30, R33, R42, R43].

R18, R19, R20 and R26 are in `test_teardown`.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

import pytest

from tests.sandbox.cloud_client import CloudClient
from tests.sandbox.harness import PROJECT_FOLDER, Done, Sandbox

STACK = "staging"
NAMESPACE = "gpudirect-system"
KINDS = ("networks.networking.gke.io", "gkenetworkparamsets.networking.gke.io")
KINDS_LATER_SECONDS = 8.0
GOLDEN = PROJECT_FOLDER / "tests" / "contract" / "urns" / f"{STACK}.json"


@pytest.fixture(scope="module")
def stack(sandbox: Sandbox) -> str:
    sandbox.pulumi("stack", "init", STACK).ok()
    sandbox.set_config(STACK, smokeTest="off")
    return STACK


def test_preview_of_an_empty_stack_needs_no_cluster_and_fetches_nothing(
    sandbox: Sandbox, stack: str
) -> None:
    cloud = CloudClient(sandbox.environment)
    before = cloud.operations()
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
    assert cloud.operations() == before


@pytest.mark.parametrize("path", ["clusterName", "labels.token", "other:extra.token"])
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
        # What is not this program's own is not its business.
        assert (done.code != 0) is not path.startswith("other:")
        if done.code != 0:
            assert f"gpudirect:{path.partition('.')[0]}" in done.text
    finally:
        sandbox.pulumi("config", "rm", path.partition(".")[0], "--stack", stack).ok()


def _without_addons(stack: str) -> list[str]:
    """Return the options of an `up` that ends with the cluster."""
    parts = ("GpuNetworkFabric", "AutopilotCluster")
    targets = [f"urn:pulumi:{stack}::gpudirect::gpudirect:index:{kind}**" for kind in parts]
    return [word for target in targets for word in ("--target", target)]


def _serve_kinds(sandbox: Sandbox, context: str, *, served: bool) -> None:
    """Let the API server know the kinds of multi-networking, or not."""
    patch = json.dumps([{"op": "replace", "path": "/spec/versions/0/served", "value": served}])
    words = ("kubectl", "--context", context, "patch", "crd", *KINDS, "--type=json", "-p", patch)
    sandbox.run(*words).ok()


@pytest.fixture(scope="module")
def life(sandbox: Sandbox, stack: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One stack: kinds that come late, a killed update's objects, somebody else's namespace."""
    done: dict[str, Any] = {"cluster": sandbox.up(stack, *_without_addons(stack)).ok()}
    context = CloudClient(sandbox.environment).clusters()[0]["context"]
    kubectl = ("kubectl", "--context", context)

    def forget_the_namespace() -> None:
        urns = [r["urn"] for r in sandbox.state(stack)["deployment"]["resources"]]
        urn = next(urn for urn in urns if urn.endswith("::addons-namespace"))
        words = ("state", "delete", urn, "--target-dependents", "--yes", "--stack", stack)
        sandbox.pulumi(*words).ok()

    # The kinds of multi-networking come some seconds later than the API server.
    _serve_kinds(sandbox, context, served=False)
    later = threading.Timer(
        KINDS_LATER_SECONDS, lambda: _serve_kinds(sandbox, context, served=True)
    )
    later.start()
    done["up"] = sandbox.up(stack)
    later.join()
    done["urns"] = [r["urn"] for r in sandbox.state(stack)["deployment"]["resources"]]

    # As an update leaves it that dies between the making and the writing down.
    forget_the_namespace()
    done["up over its own"] = sandbox.up(stack)

    label = ("label", "namespace", NAMESPACE)
    forget_the_namespace()
    sandbox.run(*kubectl, *label, "gpudirect-stack-").ok()
    done["refused"] = sandbox.up(stack)
    done["still there"] = sandbox.run(*kubectl, "get", "namespace", NAMESPACE, "-o", "json")
    sandbox.run(*kubectl, *label, "--overwrite", f"gpudirect-stack={STACK}").ok()
    done["up over the label"] = sandbox.up(stack)
    done["destroy"] = sandbox.destroy(stack)
    done["left"] = CloudClient(sandbox.environment).resources()
    return done


def test_urns_under_the_real_engine_are_those_of_the_stored_list(  # [R42]
    life: dict[str, Any],
) -> None:
    # The recording engine writes the stack's own type before the top ones; the run is off here.
    stored = {urn.replace("pulumi:pulumi:Stack$", "") for urn in json.loads(GOLDEN.read_text())}
    expected = {urn for urn in stored if not urn.endswith("::smoke-test-run")}
    of_the_engine = ("::pulumi:pulumi:Stack::", "::default")
    found = [u for u in life["urns"] if not any(part in u for part in of_the_engine)]
    assert sorted(found) == sorted(expected)


def test_kinds_that_come_later_than_the_api_server_are_waited_for(  # [R30]
    life: dict[str, Any],
) -> None:
    done: Done = life["up"].ok()
    assert done.seconds > KINDS_LATER_SECONDS


def test_what_this_stack_made_before_it_was_killed_is_taken_back(life: dict[str, Any]) -> None:
    done: Done = life["up over its own"].ok()
    assert "addons-namespace" in done.text


def test_a_namespace_that_exists_is_named_and_not_taken_over(  # [R33]
    life: dict[str, Any],
) -> None:
    refused: Done = life["refused"]
    assert refused.code != 0
    assert f'namespaces "{NAMESPACE}" already exists in the cluster' in refused.text
    remedy = f"kubectl label namespace {NAMESPACE} --overwrite gpudirect-stack={STACK}"
    assert remedy in refused.text
    assert "Traceback" not in refused.text
    labels = json.loads(life["still there"].ok().text)["metadata"]["labels"]
    assert "gpudirect-stack" not in labels


def test_with_the_printed_label_it_is_given_to_the_stack_and_goes_with_it(
    life: dict[str, Any],
) -> None:
    life["up over the label"].ok()
    life["destroy"].ok()
    assert life["left"] == []


def test_a_cluster_without_the_kinds_of_multi_networking_is_told_so(  # [R30]
    sandbox: Sandbox, stack: str
) -> None:
    sandbox.up(stack, *_without_addons(stack)).ok()
    context = CloudClient(sandbox.environment).clusters()[0]["context"]
    _serve_kinds(sandbox, context, served=False)
    refused = sandbox.up(stack)
    sandbox.destroy(stack).ok()
    assert refused.code != 0
    assert "multi-networking is not enabled on this cluster?" in refused.text
    assert "Traceback" not in refused.text
    sandbox.destroy(stack).ok()
