"""The bound of the benchmark: what the API imposes, from its operation log alone."""

from __future__ import annotations

from typing import Any

from benchmarks.bound import creation, deletion, holdings, longest

NET = "projects/p/global/networks/"
SUB = "projects/p/regions/r/subnetworks/"
RULE = "projects/p/global/firewalls/"
SERVICE = "projects/p/services/"
CLUSTER = "projects/p/locations/r/clusters/c"


def entry(
    action: str, target: str, requested: float, seconds: float, *requires: str, **more: Any
) -> dict[str, Any]:
    kind = action.partition(".")[0]
    api = {"services": "serviceusage", "clusters": "container"}.get(kind, "compute")
    return {
        "name": f"{action}/{target}",
        "api": api,
        "project": "p",
        "action": action,
        "target": target,
        "requires": list(requires),
        "requested": requested,
        "ended": requested + seconds,
        "error": None,
        **more,
    }


# A client that does one thing after the other, which the bound must not see.
MADE = [
    entry("services.enable", SERVICE + "compute.googleapis.com", 10, 4),
    entry("services.enable", SERVICE + "container.googleapis.com", 10, 5),
    entry("networks.insert", NET + "a", 20, 2),
    entry("networks.insert", NET + "b", 30, 3),
    entry("subnetworks.insert", SUB + "a", 40, 2, NET + "a"),
    entry("subnetworks.insert", SUB + "b", 50, 1.5, NET + "b"),
    entry("firewalls.insert", RULE + "a", 60, 1, NET + "a"),
    entry("clusters.create", CLUSTER, 70, 45, NET + "default"),
]


def test_the_bound_of_a_creation_follows_what_resources_refer_to() -> None:
    without_cluster = longest(creation(MADE[:-1], 0))
    assert [operation.target for operation in without_cluster.operations] == [
        SERVICE + "compute.googleapis.com",
        NET + "b",
        SUB + "b",
    ]
    assert without_cluster.seconds == 4 + 3 + 1.5


def test_a_cluster_waits_for_its_api_and_its_own_network_and_for_no_other() -> None:
    chain = longest(creation(MADE, 0))
    assert [operation.action for operation in chain.operations] == [
        "services.enable",
        "clusters.create",
    ]
    assert chain.seconds == 5 + 45
    own = [*MADE[:-1], entry("clusters.create", CLUSTER, 70, 45, NET + "b", SUB + "b")]
    assert longest(creation(own, 0)).seconds == 4 + 3 + 1.5 + 45


def test_what_was_there_before_costs_nothing() -> None:
    assert longest(creation(MADE, 25)).operations[0].action == "clusters.create"
    assert longest(creation(MADE, 1000)).seconds == 0


def test_what_failed_is_on_no_chain() -> None:
    failed = entry("networks.insert", NET + "c", 30, 500, error={"code": "QUOTA"})
    running = entry("networks.insert", NET + "d", 30, 500, ended=None)
    assert longest(creation([*MADE, failed, running], 0)).seconds == 50


GONE = [
    entry("clusters.delete", CLUSTER, 200, 30),
    entry("firewalls.delete", RULE + "a", 201, 1),
    entry("subnetworks.delete", SUB + "a", 231, 2),
    entry("subnetworks.delete", SUB + "b", 231, 1),
    entry("networks.delete", NET + "a", 240, 3),
    entry("networks.delete", NET + "b", 240, 2.5),
]


def test_a_network_is_deleted_after_what_is_in_it() -> None:
    chain = longest(deletion([*MADE, *GONE[1:]], 150))
    assert [operation.target for operation in chain.operations] == [SUB + "a", NET + "a"]
    assert chain.seconds == 5


def test_nodes_hold_the_subnetworks_until_their_cluster_is_gone() -> None:
    assert longest(deletion([*MADE, *GONE], 150)).seconds == 30
    chain = longest(deletion([*MADE, *GONE], 150, {CLUSTER: {SUB + "a", NET + "a"}}))
    assert [operation.action for operation in chain.operations] == [
        "clusters.delete",
        "subnetworks.delete",
        "networks.delete",
    ]
    assert chain.seconds == 30 + 2 + 3
    assert chain.describe() == (
        "clusters.delete c (30.0 s) -> subnetworks.delete a (2.0 s) -> networks.delete a (3.0 s)"
    )


def test_what_nodes_hold_is_read_from_their_nics() -> None:
    base = "https://www.googleapis.com/compute/v1/"
    node = {
        "labels": {"goog-k8s-cluster-name": "c"},
        "networkInterfaces": [{"network": base + NET + "a", "subnetwork": base + SUB + "a"}],
    }
    foreign = {"labels": {}, "networkInterfaces": [{"network": base + NET + "b"}]}
    assert holdings([node, foreign], {"c": CLUSTER}) == {CLUSTER: {NET + "a", SUB + "a"}}


def test_without_operations_there_is_no_chain() -> None:
    assert longest([]).seconds == 0
    assert longest([]).operations == ()
