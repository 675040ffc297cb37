"""Networks [facts google-cloud.md §2]."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, Client, compute, error_of

NETWORKS = compute("global/networks")


@proves("networks.name")
@pytest.mark.parametrize("name", ["", "Upper", "1x", "x-", "a" * 64, "a_b"])
def test_a_bad_name_is_refused_in_the_call(client: Client, name: str) -> None:
    status, reason, message = client.refused(
        "POST", NETWORKS, {"name": name, "autoCreateSubnetworks": False}
    )
    assert (status, reason) == (400, "invalid")
    assert message.startswith(f"Invalid value for field 'resource.name': '{name}'.")


@proves("networks.name")
def test_the_longest_and_the_shortest_name_are_accepted(client: Client) -> None:
    for name in ("a", "a" * 63):
        assert "error" not in client.network(name)


@proves("networks.mtu-range")
@pytest.mark.parametrize(
    ("mtu", "expectation"),
    [
        (1299, "Must be greater than or equal to 1300"),
        (1000, "Must be greater than or equal to 1300"),
        (8897, "Must be less than or equal to 8896"),
    ],
)
def test_an_mtu_outside_1300_to_8896_is_refused(client: Client, mtu: int, expectation: str) -> None:
    body = {"name": "n", "autoCreateSubnetworks": False, "mtu": mtu}
    assert client.refused("POST", NETWORKS, body) == (
        400,
        "invalid",
        f"Invalid value for field 'resource.mtu': '{mtu}'. {expectation}",
    )
    client.network("there")
    assert client.refused("PATCH", f"{NETWORKS}/there", {"mtu": mtu})[0] == 400


@proves("networks.mtu-range")
@pytest.mark.parametrize("mtu", [1300, 8244, 8896])
def test_an_mtu_in_range_reads_back(client: Client, mtu: int) -> None:
    client.network("n", mtu=mtu)
    assert client.compute("GET", "global/networks/n")["mtu"] == mtu


@proves("networks.mtu-unset")
def test_an_mtu_that_was_not_given_is_not_answered(client: Client) -> None:
    client.network("n")
    assert "mtu" not in client.compute("GET", "global/networks/n")


def test_a_network_reads_back_with_its_identity_and_its_defaults(client: Client) -> None:
    operation = client.network("n", description="")
    network = client.compute("GET", "global/networks/n")
    link = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks/n"
    assert network["kind"] == "compute#network"
    assert network["selfLink"] == link == operation["targetLink"]
    assert network["id"] == operation["targetId"]
    assert 18 <= len(network["id"]) <= 19
    assert network["creationTimestamp"].endswith("-08:00")
    assert network["routingConfig"]["routingMode"] == "REGIONAL"
    assert network["networkFirewallPolicyEnforcementOrder"] == "AFTER_CLASSIC_FIREWALL"
    assert network["autoCreateSubnetworks"] is False


@proves("networks.exists")
def test_a_second_insert_answers_409(client: Client) -> None:
    client.network("n")
    assert client.refused("POST", NETWORKS, {"name": "n", "autoCreateSubnetworks": False}) == (
        409,
        "alreadyExists",
        f"The resource 'projects/{PROJECT}/global/networks/n' already exists",
    )


@proves("networks.no-legacy")
def test_a_legacy_network_is_refused(client: Client) -> None:
    status, reason, message = client.refused("POST", NETWORKS, {"name": "n"})
    assert (status, reason) == (400, "invalid")
    assert "Legacy networks" in message


@proves("networks.quota")
def test_the_networks_quota_fails_in_the_operation_in_googles_words(client: Client) -> None:
    client.admin("PUT", f"projects/{PROJECT}", {"quotas": {"NETWORKS": 5}})
    for number in range(4):
        assert "error" not in client.network(f"n{number}")
    operation = client.network("one-too-many")
    assert error_of(operation) == {
        "code": "QUOTA_EXCEEDED",
        "message": "Quota 'NETWORKS' exceeded.  Limit: 5.0 globally.\n"
        "\tmetric name = compute.googleapis.com/networks\n"
        "\tlimit name = NETWORKS-per-project\n\tlimit = 5\n\tdimensions = map[global:global]\n",
    }
    assert operation["httpErrorStatusCode"] == 403
    assert client.request("GET", f"{NETWORKS}/one-too-many")[0] == 404


@proves("networks.in-use")
def test_deletion_names_one_holder_after_the_other(client: Client) -> None:
    client.network("n")
    client.subnetwork("s", "n", "10.0.0.0/24")
    client.firewall("f", "n")
    in_use = f"The network resource 'projects/{PROJECT}/global/networks/n' is already being used by"
    holders = [f"projects/{PROJECT}/global/firewalls/f"]
    holders.append(f"projects/{PROJECT}/regions/us-central1/subnetworks/s")
    for holder, path in zip(
        holders, ("global/firewalls/f", "regions/us-central1/subnetworks/s"), strict=True
    ):
        operation = client.compute("DELETE", "global/networks/n")
        assert error_of(operation)["message"] == f"{in_use} '{holder}'"
        assert error_of(operation)["code"] == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
        assert client.compute("GET", "global/networks/n")["name"] == "n"
        client.compute("DELETE", path)
    assert "error" not in client.compute("DELETE", "global/networks/n")


@proves("networks.default")
def test_enabling_compute_makes_the_default_network(tmp_path: Path) -> None:
    with Client(tmp_path / "cloud.db", enabled=False) as client:
        client.enable("some-project")
        network = client.ok("GET", compute("global/networks/default", "some-project"))
        assert network["autoCreateSubnetworks"] is True
        assert len(network["subnetworks"]) == 11
        subnetwork = client.ok(
            "GET", compute("regions/us-central1/subnetworks/default", "some-project")
        )
        assert subnetwork["ipCidrRange"] == "10.128.0.0/20"
        rules = client.ok("GET", compute("global/firewalls", "some-project"))["items"]
        assert sorted(rule["name"] for rule in rules) == [
            "default-allow-icmp",
            "default-allow-internal",
            "default-allow-rdp",
            "default-allow-ssh",
        ]
        client.enable("s3ns:trusted")
        assert "items" not in client.ok("GET", compute("global/networks", "s3ns:trusted"))
        client.admin("PUT", "projects/bare-project", {"defaultNetwork": False})
        client.enable("bare-project")
        assert "items" not in client.ok("GET", compute("global/networks", "bare-project"))


def test_the_default_network_goes_once_its_rules_are_gone(client: Client) -> None:
    operation = client.compute("DELETE", "global/networks/default")
    assert "default-allow-icmp" in error_of(operation)["message"]
    for rule in client.compute("GET", "global/firewalls")["items"]:
        client.compute("DELETE", f"global/firewalls/{rule['name']}")
    assert "error" not in client.compute("DELETE", "global/networks/default")
    assert "items" not in client.compute("GET", "global/routes")
    assert "items" not in client.compute("GET", "regions/us-central1/subnetworks")


def test_a_patch_changes_what_was_given_and_nothing_else(client: Client) -> None:
    client.network("n", mtu=1460)
    before = client.compute("GET", "global/networks/n")
    client.compute(
        "PATCH", "global/networks/n", {"mtu": 8244, "routingConfig": {"routingMode": "GLOBAL"}}
    )
    after = client.compute("GET", "global/networks/n")
    assert after["mtu"] == 8244
    assert after["routingConfig"] == {
        "routingMode": "GLOBAL",
        "bgpBestPathSelectionMode": "LEGACY",
    }
    assert {**after, "mtu": 1460, "routingConfig": before["routingConfig"]} == before


def test_what_is_not_there_answers_404(client: Client) -> None:
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"mtu": 8244})):
        assert client.refused(method, f"{NETWORKS}/nope", body) == (
            404,
            "notFound",
            f"The resource 'projects/{PROJECT}/global/networks/nope' was not found",
        )


def test_a_network_lists_its_subnetworks(client: Client) -> None:
    client.network("n")
    client.subnetwork("s", "n", "10.0.0.0/24")
    subnetwork = client.compute("GET", "regions/us-central1/subnetworks/s")
    assert client.compute("GET", "global/networks/n")["subnetworks"] == [subnetwork["selfLink"]]


@proves("payload.unknown-field", "payload.types")
def test_compute_drops_unknown_and_output_only_fields_and_refuses_wrong_types(
    client: Client,
) -> None:
    client.network("n", colour="red", id="5", selfLink="x", description=None)
    read = client.compute("GET", "global/networks/n")
    assert "colour" not in read
    assert read["id"] != "5"
    assert read["selfLink"].endswith("/global/networks/n")
    for field, value in (("mtu", "big"), ("autoCreateSubnetworks", 3), ("routingConfig", [])):
        body = {"name": "m", "autoCreateSubnetworks": False, field: value}
        status, reason, message = client.refused("POST", NETWORKS, body)
        assert (status, reason) == (400, "invalid")
        assert f"'resource.{field}'" in message
    client.network("number-as-text", mtu="8244")
    assert client.compute("GET", "global/networks/number-as-text")["mtu"] == 8244
