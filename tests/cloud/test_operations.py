"""Long-running operations: pacing, waiting, the log, and going on after a restart."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sandbox.cloud.pacing import SECONDS, duration
from tests.cloud.proofs import proves
from tests.cloud.stand_in import AUTOPILOT, PROJECT, REGION, Client, clusters, compute, error_of

OPERATIONS = compute("global/operations")


def test_at_pace_0_a_compute_operation_is_done_in_the_first_answer(client: Client) -> None:
    operation = client.network("n")
    assert operation["status"] == "DONE"
    assert operation["progress"] == 100
    assert operation["kind"] == "compute#operation"
    assert client.ok("GET", f"{OPERATIONS}/{operation['name']}") == operation
    assert client.ok("GET", OPERATIONS)["items"] == [operation]


def test_operations_can_be_answered_before_they_are_done(client: Client) -> None:
    client.admin("PUT", "settings", {"pendingFirst": True})
    operation = client.network("n")
    assert (operation["status"], operation["progress"]) == ("PENDING", 0)
    done = client.ok("POST", f"{OPERATIONS}/{operation['name']}/wait", {})
    assert done["status"] == "DONE"
    assert client.ok("POST", f"{OPERATIONS}/{operation['name']}/wait", {}) == done
    assert client.compute("GET", "global/networks/n")["name"] == "n"


def test_operations_are_found_only_where_they_belong(client: Client) -> None:
    client.network("n")
    operation = client.subnetwork("s", "n", "10.0.0.0/24")
    assert operation["region"].endswith(f"/regions/{REGION}")
    regional = compute(f"regions/{REGION}/operations/{operation['name']}")
    assert client.ok("GET", regional) == operation
    assert client.refused("GET", f"{OPERATIONS}/{operation['name']}")[:2] == (404, "notFound")
    elsewhere = compute(f"regions/us-east4/operations/{operation['name']}")
    assert client.refused("GET", elsewhere)[0] == 404
    assert client.refused("POST", f"{OPERATIONS}/nope/wait", {})[0] == 404
    scopes = client.compute("GET", "aggregated/operations")["items"]
    assert scopes.keys() == {"global", f"regions/{REGION}"}


@proves("subnetworks.not-ready")
def test_while_a_network_is_being_made_nothing_can_be_put_into_it(client: Client) -> None:
    client.hang("networks.insert")
    client.network("n")
    assert client.refused("GET", compute("global/networks/n"))[0] == 404
    assert "items" not in client.compute("GET", "global/networks?filter=name=n")
    body = {"name": "s", "network": "global/networks/n", "ipCidrRange": "10.0.0.0/24"}
    assert client.refused("POST", compute(f"regions/{REGION}/subnetworks"), body) == (
        400,
        "resourceNotReady",
        f"The resource 'projects/{PROJECT}/global/networks/n' is not ready",
    )
    again = {"name": "n", "autoCreateSubnetworks": False}
    assert client.refused("POST", compute("global/networks"), again)[:2] == (409, "alreadyExists")
    client.let_go()
    assert client.compute("GET", "global/networks/n")["name"] == "n"


def test_while_a_network_is_being_deleted_it_can_be_seen_and_not_touched(client: Client) -> None:
    client.network("n")
    client.hang("networks.delete")
    client.compute("DELETE", "global/networks/n")
    assert client.compute("GET", "global/networks/n")["name"] == "n"
    for method, body in (("DELETE", None), ("PATCH", {"mtu": 8244})):
        refusal = client.refused(method, compute("global/networks/n"), body)
        assert refusal[1] == "resourceNotReady"
    client.let_go()
    assert client.refused("GET", compute("global/networks/n"))[0] == 404


def test_a_failed_deletion_gives_the_resource_back(client: Client) -> None:
    client.network("n")
    client.firewall("f", "n")
    error_of(client.compute("DELETE", "global/networks/n"))
    client.compute("PATCH", "global/networks/n", {"mtu": 8244})
    assert client.compute("GET", "global/networks/n")["mtu"] == 8244


@pytest.mark.parametrize("action", sorted(SECONDS))
def test_times_are_a_share_of_googles_and_always_the_same(action: str) -> None:
    low, high = SECONDS[action]
    assert duration(action, "x", 0, 1) == 0
    full = duration(action, "x", 1, 1)
    assert low <= full <= high
    assert duration(action, "x", 0.1, 1) == pytest.approx(full / 10)
    assert duration(action, "x", 1, 1) == full
    others = {duration(action, f"x{number}", 1, 1) for number in range(5)}
    assert len(others) == 5


def test_the_log_tells_times_and_what_had_to_be_there(tmp_path: Path) -> None:
    with Client(tmp_path / "cloud.db", pace=0.005) as client:
        began = time.time()
        operation = client.network("n")
        assert operation["status"] == "PENDING"
        entry = client.operation(operation["name"])
        assert entry["ended"] is None
        client.settle()
        entry = client.operation(operation["name"])
        assert began <= entry["requested"] <= entry["started"] < entry["ended"] <= time.time()
        low, high = SECONDS["networks.insert"]
        assert low * 0.005 <= entry["ended"] - entry["requested"] <= high * 0.005 + 1
        assert (entry["action"], entry["requires"]) == ("networks.insert", [])
        made = client.operation(client.subnetwork("s", "n", "10.0.0.0/24")["name"])
        assert made["requires"] == [f"projects/{PROJECT}/global/networks/n"]
        assert made["target"] == f"projects/{PROJECT}/regions/{REGION}/subnetworks/s"
        client.settle()


def test_a_clusters_operation_requires_its_network_and_subnetwork(client: Client) -> None:
    client.cluster()
    entry = client.admin("GET", "operations")["operations"][0]
    assert entry["requires"] == [
        f"projects/{PROJECT}/global/networks/default",
        f"projects/{PROJECT}/regions/{REGION}/subnetworks/default",
    ]


@proves("clusters.resume")
def test_a_restart_keeps_everything_and_starts_the_clusters_again(tmp_path: Path) -> None:
    database = tmp_path / "cloud.db"
    with Client(database) as client:
        client.network("n", mtu=8244)
        client.subnetwork("s", "n", "10.0.0.0/24")
        client.firewall("f", "n")
        before = client.cluster()
        resources = client.admin("GET", "resources?all=true")
        operations = client.admin("GET", "operations")
    assert ("stop", next(iter(client.runtime.calls))[1]) in client.runtime.calls
    with Client(database) as client:
        assert [call for call, _ in client.runtime.calls] == ["start"]
        assert client.admin("GET", "resources?all=true") == resources
        assert client.admin("GET", "operations") == operations
        assert client.ok("GET", clusters("demo")) == before
        assert client.compute("GET", "global/networks/n")["mtu"] == 8244


@proves("clusters.resume")
def test_operations_that_were_open_go_on_after_a_restart(tmp_path: Path) -> None:
    database = tmp_path / "cloud.db"
    with Client(database) as client:
        client.hang("networks.insert")
        pending = client.network("n")["name"]
        client.hold_runtime()
        client.ok("POST", clusters(), {"cluster": AUTOPILOT})
    with Client(database) as client:
        client.settle_all_but(pending)
        assert client.ok("GET", clusters("demo"))["status"] == "RUNNING"
        assert client.ok("GET", f"{OPERATIONS}/{pending}")["status"] == "RUNNING"
        client.let_go()
        assert client.ok("GET", f"{OPERATIONS}/{pending}")["status"] == "DONE"
        assert client.compute("GET", "global/networks/n")["name"] == "n"


@proves("clusters.resume")
def test_a_deletion_that_was_open_is_finished_after_a_restart(tmp_path: Path) -> None:
    database = tmp_path / "cloud.db"
    with Client(database) as client:
        client.cluster()
        client.hang("clusters.delete")
        client.ok("DELETE", clusters("demo"))
        assert client.ok("GET", clusters("demo"))["status"] == "STOPPING"
    with Client(database) as client:
        client.let_go()
        assert client.refused("GET", clusters("demo"))[0] == 404
        assert "start" not in [call for call, _ in client.runtime.calls]
        assert client.admin("GET", "resources")["resources"] == []


@proves("clusters.resume")
def test_a_cluster_that_does_not_come_up_again_is_degraded_until_it_does(tmp_path: Path) -> None:
    database = tmp_path / "cloud.db"
    with Client(database) as client:
        client.cluster()
    broken = Client(database)
    broken.runtime.failure = "the binary kube-apiserver is missing"
    with broken as client:
        read = client.ok("GET", clusters("demo"))
        assert read["status"] == "DEGRADED"
        assert read["statusMessage"] == "the binary kube-apiserver is missing"
    with Client(database) as client:
        read = client.ok("GET", clusters("demo"))
        assert read["status"] == "RUNNING"
        assert "statusMessage" not in read
