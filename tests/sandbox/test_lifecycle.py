"""Both environments from nothing to a verdict and back to nothing, as the README's reader does it.

The steps run once, in order; each test looks at what one of them left or printed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest

from tests.sandbox.harness import Done, Sandbox

LISTED = "networks.networking.gke.io,gkenetworkparamsets,daemonsets"


@dataclass
class Life:
    """What each step printed or left."""

    done: dict[str, Done] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    processes: list[psutil.Process] = field(default_factory=list)


def _objects(sandbox: Sandbox, stack: str, outputs: dict[str, Any]) -> list[dict[str, Any]]:
    project = sandbox.environment["GOOGLE_PROJECT"]
    context = f"gke_{project}_{outputs['location']}_{outputs['clusterName']}"
    listed = sandbox.run("kubectl", "--context", context, "get", LISTED, "-A", "-o", "json").ok()
    items: list[dict[str, Any]] = json.loads(listed.text)["items"]
    return items


@pytest.fixture(scope="module")
def life(sandbox: Sandbox) -> Life:
    life = Life()
    done = life.done
    done["init dev"] = sandbox.pulumi("stack", "init", "dev")
    done["up dev"] = sandbox.up("dev").ok()
    life.outputs["dev"] = sandbox.outputs("dev")
    done["preview"] = sandbox.pulumi("preview", "--expect-no-changes", "--stack", "dev")
    done["refresh"] = sandbox.pulumi("refresh", "--yes", "--stack", "dev")
    done["preview after refresh"] = sandbox.pulumi(
        "preview", "--expect-no-changes", "--stack", "dev"
    )
    done["second up dev"] = sandbox.up("dev")
    before = sandbox.pulumi("stack", "export", "--stack", "dev").ok()
    done["init staging"] = sandbox.pulumi("stack", "init", "staging")
    done["up staging"] = sandbox.up("staging").ok()
    life.outputs["staging"] = sandbox.outputs("staging")
    done["export before staging"] = before
    done["export"] = sandbox.pulumi("stack", "export", "--stack", "dev").ok()
    for stack in ("dev", "staging"):
        life.objects[stack] = _objects(sandbox, stack, life.outputs[stack])
    if shutil.which("gcloud"):
        for words in ("compute networks list", "container clusters list"):
            done[words] = sandbox.run("gcloud", *words.split(), "--format=json")
    life.status["up"] = sandbox.status()
    life.processes = [psutil.Process(p["pid"]) for p in life.status["up"]["processes"]]
    for stack in ("dev", "staging"):
        done[f"destroy {stack}"] = sandbox.destroy(stack)
    life.status["destroyed"] = sandbox.status()
    done["git status"] = sandbox.run("git", "status", "--porcelain")
    return life


@pytest.mark.parametrize(("stack", "count", "size"), [("dev", 8, 2**33), ("staging", 4, 2**29)])
def test_up_ends_with_a_passed_smoke_test_marked_as_simulated(
    life: Life, stack: str, count: int, size: int
) -> None:
    outputs = life.outputs[stack]
    smoke_test = outputs["smokeTest"]
    assert smoke_test["verdict"] == "passed"
    assert smoke_test["simulated"] is True
    assert smoke_test["nodes"] == 2
    assert smoke_test["dataChecked"] is True
    assert smoke_test["largest"]["sizeBytes"] == size
    assert smoke_test["largest"]["outOfPlaceBusBandwidth"] > 0
    assert len(outputs["networks"]) == count


def test_up_without_changes_changes_nothing_and_runs_nothing(life: Life) -> None:
    life.done["preview"].ok()
    life.done["preview after refresh"].ok()
    second = life.done["second up dev"].ok()
    assert "created" not in second.text
    assert "updated" not in second.text


def test_a_second_environment_leaves_the_first_one_alone(life: Life) -> None:
    def resources(name: str) -> Any:
        return json.loads(life.done[name].text)["deployment"]["resources"]

    assert resources("export") == resources("export before staging")


@pytest.mark.parametrize(
    ("stack", "count", "installer"),
    [("dev", 8, "nccl-tcpxo-installer"), ("staging", 4, "nccl-tcpx-installer")],
)
def test_the_cluster_holds_ready_networks_and_the_addons(
    life: Life, stack: str, count: int, installer: str
) -> None:
    items = life.objects[stack]
    networks = {i["metadata"]["name"]: i for i in items if i["kind"] == "Network"}
    device = [n for n in networks.values() if n["spec"]["type"] == "Device"]
    assert sorted(n["metadata"]["name"] for n in device) == [f"vpc{n}" for n in range(1, count + 1)]
    for item in [*device, *[i for i in items if i["kind"] == "GKENetworkParamSet"]]:
        conditions = {c["type"]: c["status"] for c in item["status"]["conditions"]}
        assert conditions["Ready"] == "True", item
    daemon_sets = {i["metadata"]["name"] for i in items if i["kind"] == "DaemonSet"}
    assert {installer, "device-injector"} <= daemon_sets


@pytest.mark.gcloud
@pytest.mark.skipif(not shutil.which("gcloud"), reason="gcloud is not installed")
def test_gcloud_lists_what_the_stacks_made(life: Life) -> None:
    networks = {n["name"] for n in json.loads(life.done["compute networks list"].ok().text)}
    assert {f"dev-net-{n}" for n in range(1, 9)} <= networks
    assert {f"staging-net-{n}" for n in range(1, 5)} <= networks
    clusters = {c["name"] for c in json.loads(life.done["container clusters list"].ok().text)}
    assert clusters == {"dev-cluster", "staging-cluster"}


def test_state_holds_no_credential_in_clear(life: Life) -> None:
    text = life.done["export"].text
    # Of a key, plain or in base64, and of a kubeconfig's login section. The cluster's CA
    # certificate is there: it is public.
    keys = ("PRIVATE KEY", "LS0tLS1CRUdJTiBQUklW", "LS0tLS1CRUdJTiBSU0Eg", "LS0tLS1CRUdJTiBFQy")
    for word in ("client-key", "installHint", *keys):
        assert word not in text, word


def test_destroy_ends_at_zero(life: Life) -> None:
    life.done["destroy dev"].ok()
    life.done["destroy staging"].ok()
    status = life.status["destroyed"]
    assert status["resources"] == []
    assert status["clusters"] == []
    assert [p["name"] for p in status["processes"]] == ["server"]


def test_no_process_of_a_destroyed_cluster_lives_on(life: Life) -> None:
    server = {p["pid"] for p in life.status["destroyed"]["processes"]}
    assert len(life.processes) > 8
    assert {p.pid for p in life.processes if p.is_running()} == server


def test_no_tracked_file_has_changed(life: Life) -> None:
    assert life.done["git status"].ok().text == ""
