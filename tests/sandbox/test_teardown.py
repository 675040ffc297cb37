"""`pulumi destroy` ends with nothing left, whatever state the environment is in.

Two lives of one stack: the first one is protected, changed by hand, filled with other people's
things and torn down with a dead API server; the second one begins with a failed `up` and loses its
cluster by hand. The NCCL run is off: it has no part in this.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest

from tests.sandbox.cloud_client import CloudClient, wait_until
from tests.sandbox.harness import Done, Sandbox

STACK = "staging"
CLUSTER = "us-central1/clusters/staging-cluster"
FOREIGN_RULE = "gke-demo-x"

USERS_OBJECTS = """\
apiVersion: v1
kind: Pod
metadata: {name: training, namespace: default, finalizers: [example.com/kept]}
spec:
  containers: [{name: main, image: busybox, resources: {requests: {cpu: 10m}}}]
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: default, finalizers: [service.kubernetes.io/load-balancer]}
spec: {type: LoadBalancer, selector: {app: front}, ports: [{port: 80}]}
"""


@dataclass
class Life:
    """What each step printed or left."""

    done: dict[str, Done] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    state: dict[str, set[str]] = field(default_factory=dict)
    processes: list[psutil.Process] = field(default_factory=list)
    fired: dict[str, int] = field(default_factory=dict)


def _changes(done: Done) -> dict[str, list[str]]:
    """Return what a `preview --json` would do: operation -> names of resources."""
    text = done.ok().text
    steps = json.loads(text[text.index("{") : text.rindex("}") + 1])["steps"]
    changes: dict[str, list[str]] = {}
    for step in steps:
        if step["op"] != "same":
            changes.setdefault(step["op"], []).append(step["urn"].rpartition("::")[2])
    return {operation: sorted(names) for operation, names in changes.items()}


def _things_in_state(sandbox: Sandbox) -> set[tuple[str, str]]:
    """Return URN and id of all that is more than a group of others.

    Not their outputs: secrets among them are encrypted anew whenever the state is written.
    """
    resources = sandbox.state(STACK)["deployment"]["resources"]
    return {(r["urn"], r.get("id", "")) for r in resources if r["custom"]}


def _of_the_cloud(sandbox: Sandbox) -> set[str]:
    """Return the names of what the state holds of the cloud, without APIs and providers."""
    resources = sandbox.state(STACK)["deployment"].get("resources") or []
    kinds = ("gcp:compute/", "gcp:container/")
    return {r["urn"].rpartition("::")[2] for r in resources if r["type"].startswith(kinds)}


@pytest.fixture(scope="module")
def life(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Life:
    life, cloud = Life(), CloudClient(sandbox.environment)
    sandbox.pulumi("stack", "init", STACK).ok()
    sandbox.set_config(STACK, smokeTest="off", deletionProtection="true")
    done = life.done

    def preview(*words: str) -> Done:
        return sandbox.pulumi("preview", "--json", "--stack", STACK, *words)

    done["up"] = sandbox.up(STACK).ok()
    life.resources["up"] = cloud.resources()
    life.resources["state after up"] = _things_in_state(sandbox)
    sandbox.set_config(STACK, deletionProtection="false")
    done["preview without protection"] = preview()
    sandbox.set_config(STACK, deletionProtection="true")
    look = (sys.executable, "-m", "gpudirect", "teardown", "--stack", STACK, "--json")
    done["look at what is protected"] = sandbox.run(*look)
    for words in ("", "--skip-preview"):
        name = f"refused destroy {words}".strip()
        done[name] = sandbox.pulumi("destroy", "--yes", "--stack", STACK, *words.split())
        life.resources[f"after the {name}"] = cloud.resources()
        life.resources[f"state after the {name}"] = _things_in_state(sandbox)

    sandbox.set_config(STACK, deletionProtection="false")
    done["up without protection"] = sandbox.up(STACK).ok()

    # What the server fills in is no drift; what somebody changed is.
    done["preview after nothing"] = preview("--refresh")
    cloud.compute(
        "PATCH", "global/firewalls/staging-internal-1", {"sourceRanges": ["10.99.0.0/16"]}
    )
    off = {"desiredAutopilotWorkloadPolicyConfig": {"allowNetAdmin": False}}
    cloud.container("PUT", CLUSTER, {"update": off})
    wait_until(cloud.at_rest, "the cluster is updated")
    done["preview of drift"] = preview("--refresh")
    done["refresh"] = sandbox.pulumi("refresh", "--yes", "--stack", STACK)
    done["up over drift"] = sandbox.up(STACK)
    done["preview after the mending"] = preview("--refresh")
    life.resources["rules"] = cloud.compute("GET", "global/firewalls/staging-internal-1")[
        "sourceRanges"
    ]
    life.state["net admin"] = {
        str(cloud.container("GET", CLUSTER)["autopilot"]["workloadPolicyConfig"]["allowNetAdmin"])
    }

    # Other people's things in the cluster and in one network, and an API server that is dead.
    objects = tmp_path_factory.mktemp("objects") / "objects.yaml"
    objects.write_text(USERS_OBJECTS)
    context = cloud.clusters()[0]["context"]
    sandbox.run("kubectl", "--context", context, "apply", "-f", str(objects)).ok()
    cloud.compute(
        "POST",
        "global/firewalls",
        {
            "name": FOREIGN_RULE,
            "network": f"projects/{cloud.project}/global/networks/staging-net-2",
            "allowed": [{"IPProtocol": "tcp"}],
            "sourceRanges": ["10.0.0.0/8"],
        },
    )
    done["look at other people's things"] = sandbox.run(*look)
    processes = [p for p in sandbox.status()["processes"] if p["cluster"]]
    life.processes = [psutil.Process(process["pid"]) for process in processes]
    servers = [p["pid"] for p in processes if "apiserver" in p["name"]]
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    # The engine begins nothing more after a failure unless it is told to.
    go_on = ("destroy", "--yes", "--continue-on-error", "--stack", STACK)
    done["destroy over a foreign rule"] = sandbox.pulumi(*go_on)
    life.resources["after the first destroy"] = cloud.resources()
    life.state["after the first destroy"] = _of_the_cloud(sandbox)
    cloud.compute("DELETE", f"global/firewalls/{FOREIGN_RULE}")
    done["second destroy"] = sandbox.destroy(STACK)
    life.resources["after the second destroy"] = cloud.resources()

    # The second life.
    cloud.plan(
        "cluster",
        operation=r"clusters\.create",
        fail={"code": "INTERNAL", "message": "Internal error."},
        times=1,
    )
    done["failed up"] = sandbox.up(STACK)
    life.fired["cluster"] = cloud.end_plan("cluster")
    done["destroy after the failed up"] = sandbox.destroy(STACK)
    life.resources["after a failed up and destroy"] = cloud.resources()
    done["third up"] = sandbox.up(STACK).ok()
    cloud.container("DELETE", CLUSTER)
    wait_until(lambda: not cloud.clusters(), "the cluster is deleted by hand")
    done["destroy without a cluster"] = sandbox.destroy(STACK)
    life.resources["at the end"] = cloud.resources()
    return life


@pytest.mark.parametrize("destroy", ["refused destroy", "refused destroy --skip-preview"])
def test_deletion_protection_refuses_with_one_sentence_and_nothing_is_lost(
    life: Life, destroy: str
) -> None:
    refused = life.done[destroy]
    assert refused.code != 0
    assert "Traceback" not in refused.text
    named = set(re.findall(r'resource "(\S+)" cannot be deleted', refused.text))
    assert {urn.partition("Stash::")[2] for urn in named} == {"gpudirect:deletionProtection"}
    assert life.resources[f"after the {destroy}"] == life.resources["up"]
    assert life.resources[f"state after the {destroy}"] == life.resources["state after up"]


def test_a_look_before_the_destroy_names_what_it_would_meet(life: Life) -> None:
    protected = life.done["look at what is protected"]
    assert protected.code == 1
    assert [entry["what"] for entry in json.loads(protected.text)["obstacles"]] == [
        "gpudirect:deletionProtection of cluster staging-cluster"
    ]
    others = life.done["look at other people's things"]
    assert others.code == 1
    found = json.loads(others.text)
    assert found["clusterSilent"] is None
    assert {entry["what"]: entry["stops"] for entry in found["obstacles"]} == {
        f"firewall rule {FOREIGN_RULE}": True,
        "Service default/front": False,
    }


def test_turning_protection_off_changes_the_cluster_in_place_and_nothing_else(life: Life) -> None:
    assert _changes(life.done["preview without protection"]) == {"update": ["cluster-cluster"]}


def test_what_the_server_fills_in_is_no_drift(life: Life) -> None:
    assert not _changes(life.done["preview after nothing"]).keys() & {
        "update",
        "replace",
        "create",
        "delete",
    }


def test_what_somebody_changed_by_hand_is_shown_and_mended(life: Life) -> None:
    assert _changes(life.done["preview of drift"])["update"] == [
        "cluster-cluster",
        "fabric-internal-1",
    ]
    life.done["refresh"].ok()
    life.done["up over drift"].ok()
    assert "update" not in _changes(life.done["preview after the mending"])
    assert life.resources["rules"] != ["10.99.0.0/16"]
    assert life.state["net admin"] == {"True"}


def test_a_rule_that_somebody_else_made_is_named_and_nothing_else_is_left(life: Life) -> None:
    first = life.done["destroy over a foreign rule"]
    assert first.code != 0
    assert (
        f"is already being used by 'projects/sandbox-project/global/firewalls/{FOREIGN_RULE}'"
        in (first.text)
    )
    left = {(r["kind"], r["name"]) for r in life.resources["after the first destroy"]}
    assert left == {("networks", "staging-net-2"), ("firewalls", FOREIGN_RULE)}
    assert life.state["after the first destroy"] == {"fabric-net-2"}


def test_destroy_needs_no_api_server_and_waits_for_no_finalizer(life: Life) -> None:
    life.done["second destroy"].ok()
    assert life.resources["after the second destroy"] == []
    assert life.processes
    assert not [process for process in life.processes if process.is_running()]


def test_destroy_after_a_failed_up_leaves_nothing(life: Life) -> None:
    assert life.fired["cluster"] == 1
    assert life.done["failed up"].code != 0
    life.done["destroy after the failed up"].ok()
    assert life.resources["after a failed up and destroy"] == []


def test_destroy_of_an_environment_whose_cluster_was_deleted_by_hand(life: Life) -> None:
    life.done["destroy without a cluster"].ok()
    assert life.resources["at the end"] == []
