"""Fault plans: what they match, what they do, how they count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cloud.stand_in import AUTOPILOT, Client, Served, clusters, compute, error_of

NETWORKS = compute("global/networks")


def put(client: Client, name: str, **rule: Any) -> None:
    client.admin("PUT", f"faults/{name}", rule)


def counts(client: Client, name: str) -> tuple[int, int]:
    plan = client.admin("GET", "faults")["faults"][name]
    return plan["matched"], plan["fired"]


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "rateLimitExceeded"), (500, "backendError"), (503, "backendError")]
)
def test_a_call_is_answered_with_an_error_as_often_as_asked(
    client: Client, status: int, reason: str
) -> None:
    put(client, "busy", path="/networks", method="POST", status=status, times=2)
    wanted = {"name": "n", "autoCreateSubnetworks": False}
    for _ in range(2):
        assert client.refused("POST", NETWORKS, wanted)[:2] == (status, reason)
    assert client.request("GET", f"{NETWORKS}/n")[0] == 404
    client.ok("POST", NETWORKS, wanted)
    assert counts(client, "busy") == (3, 2)


def test_a_plan_fires_from_the_kth_match_on(client: Client) -> None:
    put(client, "third", path="/networks", method="POST", status=503, skip=2, times=1)
    statuses = [
        client.request("POST", NETWORKS, {"name": f"n{number}", "autoCreateSubnetworks": False})[0]
        for number in range(4)
    ]
    assert statuses == [200, 200, 503, 200]


def test_a_plan_with_a_probability_does_the_same_each_time(client: Client) -> None:
    def run(seed: int) -> list[int]:
        put(client, "maybe", path="/networks", status=503, probability=0.5, seed=seed)
        return [client.request("GET", NETWORKS)[0] for _ in range(20)]

    first = run(1)
    assert run(1) == first
    assert set(first) == {200, 503}
    assert run(2) != first


def test_reason_and_message_can_be_given(client: Client) -> None:
    put(
        client,
        "denied",
        path="/networks",
        status=403,
        reason="forbidden",
        message="Required 'compute.networks.create' permission for 'n'",
    )
    assert client.refused("GET", NETWORKS) == (
        403,
        "forbidden",
        "Required 'compute.networks.create' permission for 'n'",
    )


def test_an_operation_fails_with_the_given_error_and_leaves_nothing(client: Client) -> None:
    fail = {"code": "INTERNAL_ERROR", "message": "Disk on fire.", "httpStatus": 503}
    put(client, "fire", operation=r"networks\.insert", target="/n2$", fail=fail)
    for name in ("n1", "n2"):
        client.network(name)
    client.settle()
    log = client.admin("GET", "operations")["operations"]
    assert [entry["error"] is None for entry in log] == [True, False]
    failed = client.ok("GET", f"{compute('global/operations')}/{log[1]['name']}")
    assert error_of(failed) == {"code": "INTERNAL_ERROR", "message": "Disk on fire."}
    assert failed["httpErrorStatusCode"] == 503
    assert client.request("GET", f"{NETWORKS}/n2")[0] == 404
    assert counts(client, "fire") == (1, 1)


def test_a_cluster_comes_up_in_error_when_its_operation_fails(client: Client) -> None:
    fail = {"message": "Not all instances running in IGM"}
    put(client, "igm", operation="clusters.create", fail=fail)
    client.ok("POST", clusters(), {"cluster": AUTOPILOT})
    client.settle()
    read = client.ok("GET", clusters("demo"))
    assert (read["status"], read["statusMessage"]) == ("ERROR", "Not all instances running in IGM")


def test_an_operation_hangs_until_the_plan_is_gone(client: Client) -> None:
    put(client, "stuck", operation="networks.insert", hang=True, times=1)
    name = client.network("n")["name"]
    client.network("m")
    client.settle_all_but(name)
    assert client.operation(name)["status"] == "RUNNING"
    assert counts(client, "stuck") == (2, 1)
    client.admin("DELETE", "faults/stuck")
    client.settle()
    assert client.operation(name)["status"] == "DONE"


def test_an_operation_takes_longer(client: Client) -> None:
    put(client, "slow", operation="networks.insert", delay=0.2)
    name = client.network("n")["name"]
    client.settle()
    entry = client.operation(name)
    assert entry["ended"] - entry["requested"] >= 0.2


def test_plans_and_counts_outlive_a_restart(tmp_path: Path) -> None:
    with Client(tmp_path / "cloud.db") as client:
        put(client, "once", path="/networks", status=503, times=1)
        put(client, "twice", path="/networks", method="GET", status=500, times=2)
        assert client.request("GET", NETWORKS)[0] == 503
        assert client.request("GET", NETWORKS)[0] == 500
    with Client(tmp_path / "cloud.db") as client:
        assert counts(client, "once") == (2, 1)
        assert client.request("GET", NETWORKS)[0] == 500
        assert client.request("GET", NETWORKS)[0] == 200


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({}, "path"),
        ({"path": "x"}, "status or drop"),
        ({"path": "[", "status": 500}, "regular expression"),
        ({"path": "x", "status": 200}, "400 to 599"),
        ({"path": "x", "status": "503"}, "wrong type"),
        ({"path": "x", "drop": "sometimes"}, "before or after"),
        ({"path": "x", "hang": True}, "unknown key 'hang'"),
        ({"operation": "x"}, "fail, hang or delay"),
        ({"operation": "x", "status": 500}, "unknown key 'status'"),
        ({"operation": "x", "fail": {"colour": 1}}, "fail"),
        ({"path": "x", "status": 500, "times": True}, "wrong type"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(
    client: Client, rule: dict[str, Any], words: str
) -> None:
    status, answer = client.request("PUT", "/sandbox/v1/faults/bad", rule)
    assert status == 400
    assert words in answer["error"]
    assert client.admin("GET", "faults") == {"faults": {}}


def test_an_unknown_plan_cannot_be_removed(client: Client) -> None:
    assert client.request("DELETE", "/sandbox/v1/faults/nope")[0] == 404


def test_a_connection_is_dropped_before_or_after_the_work(served: Served) -> None:
    wanted = {"name": "n", "autoCreateSubnetworks": False}
    with httpx.Client(base_url=served.url) as http:
        services = ["compute.googleapis.com"]
        http.put("/sandbox/v1/projects/sandbox-project", json={"enabledServices": services})
        for moment, expected in (("before", 404), ("after", 200)):
            rule = {"path": "/networks$", "method": "POST", "drop": moment, "times": 1}
            http.put("/sandbox/v1/faults/cut", json=rule)
            with pytest.raises(httpx.TransportError):
                http.post(NETWORKS, json=wanted)
            assert http.get(f"{NETWORKS}/n").status_code == expected
        assert http.post(NETWORKS, json=wanted).status_code == 409
        log = http.get("/sandbox/v1/requests").json()["requests"]
        assert [entry["status"] for entry in log] == [None, 404, None, 200, 409]
