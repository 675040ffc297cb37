"""Firewall rules [facts google-cloud.md §4]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, Client, compute, error_of

FIREWALLS = compute("global/firewalls")
PAGE = [
    {"IPProtocol": "tcp", "ports": ["0-65535"]},
    {"IPProtocol": "udp", "ports": ["0-65535"]},
    {"IPProtocol": "icmp"},
]


def body(**fields: Any) -> dict[str, Any]:
    return {
        "name": "f",
        "network": "global/networks/n",
        "allowed": PAGE,
        "sourceRanges": ["192.168.0.0/16"],
        **fields,
    }


@pytest.fixture(autouse=True)
def _network(client: Client) -> None:
    client.network("n")


def refused(client: Client, field: str, **fields: Any) -> str:
    status, reason, message = client.refused("POST", FIREWALLS, body(**fields))
    assert (status, reason) == (400, "invalid")
    assert f"'resource{field}'" in message
    return message


@proves("firewalls.network-link")
def test_the_pages_rule_reads_back_as_recorded(client: Client) -> None:
    client.ok("POST", FIREWALLS, body())
    read = client.compute("GET", "global/firewalls/f")
    assert read["allowed"] == PAGE
    assert read["direction"] == "INGRESS"
    assert read["priority"] == 1000
    assert read["sourceRanges"] == ["192.168.0.0/16"]
    link = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks/n"
    assert read["network"] == link
    assert read["kind"] == "compute#firewall"


@proves("firewalls.allow-or-deny")
def test_exactly_one_of_allowed_and_denied(client: Client) -> None:
    refused(client, "", denied=[{"IPProtocol": "icmp"}])
    refused(client, "", allowed=[])
    client.ok("POST", FIREWALLS, body(name="deny", allowed=None, denied=[{"IPProtocol": "icmp"}]))


@proves("firewalls.ports")
@pytest.mark.parametrize("port", ["65536", "5-4", "x", "", "1-2-3", "-1", "1-", "0-70000"])
def test_a_port_is_a_number_or_a_range(client: Client, port: str) -> None:
    refused(client, ".allowed[0].ports[0]", allowed=[{"IPProtocol": "tcp", "ports": [port]}])


@proves("firewalls.ports")
def test_ports_go_with_tcp_udp_and_sctp_only(client: Client) -> None:
    refused(client, ".allowed[0].ports[0]", allowed=[{"IPProtocol": "icmp", "ports": ["1"]}])
    client.ok("POST", FIREWALLS, body(allowed=[{"IPProtocol": "132", "ports": ["1"]}]))


@proves("firewalls.protocol")
@pytest.mark.parametrize("protocol", ["tpc", "256", "", "6.0"])
def test_an_unknown_protocol_is_refused(client: Client, protocol: str) -> None:
    refused(client, ".allowed[0].IPProtocol", allowed=[{"IPProtocol": protocol}])


@proves("firewalls.protocol")
def test_a_protocol_in_capitals_is_the_same_protocol(client: Client) -> None:
    client.ok("POST", FIREWALLS, body(allowed=[{"IPProtocol": "TCP", "ports": ["1"]}]))
    assert client.compute("GET", "global/firewalls/f")["allowed"][0]["IPProtocol"] == "tcp"


@proves("firewalls.ranges")
@pytest.mark.parametrize("value", ["x", "10.0.0.1/8", "10.0.0.0", "10.0.0.0/33", "fd00::1/8"])
def test_a_source_range_is_cidr_without_host_bits(client: Client, value: str) -> None:
    message = refused(client, ".sourceRanges[1]", sourceRanges=["10.0.0.0/8", value])
    assert message == (
        f"Invalid value for field 'resource.sourceRanges[1]': '{value}'. Must be a valid CIDR "
        "address range."
    )


@proves("firewalls.ranges")
def test_an_ipv6_range_is_fine(client: Client) -> None:
    client.ok("POST", FIREWALLS, body(sourceRanges=["fd00::/8"]))


@proves("firewalls.priority")
@pytest.mark.parametrize("priority", [-1, 65536, 70000])
def test_a_priority_is_from_0_to_65535(client: Client, priority: int) -> None:
    refused(client, ".priority", priority=priority)


@proves("firewalls.sources")
def test_sources_and_destinations_follow_the_direction(client: Client) -> None:
    refused(client, ".sourceRanges", direction="EGRESS")
    refused(client, ".sourceServiceAccounts", sourceServiceAccounts=["a@b"], targetTags=["t"])
    refused(client, ".sourceServiceAccounts", sourceServiceAccounts=[f"a{n}@b" for n in range(11)])
    egress = body(name="out", direction="EGRESS", sourceRanges=None)
    client.ok("POST", FIREWALLS, egress)
    read = client.compute("GET", "global/firewalls/out")
    assert read["destinationRanges"] == ["0.0.0.0/0"]
    client.ok("POST", FIREWALLS, body(name="anyone", sourceRanges=None))
    assert client.compute("GET", "global/firewalls/anyone")["sourceRanges"] == ["0.0.0.0/0"]


@proves("firewalls.no-move")
def test_a_rule_cannot_move_to_another_network(client: Client) -> None:
    client.network("m")
    client.ok("POST", FIREWALLS, body())
    for method in ("PATCH", "PUT"):
        status, reason, message = client.refused(
            method, f"{FIREWALLS}/f", body(network="global/networks/m")
        )
        assert (status, reason) == (400, "invalid")
        assert "'resource.network'" in message
    same = body(network=f"http://any.host/compute/v1/projects/{PROJECT}/global/networks/n")
    client.ok("PATCH", f"{FIREWALLS}/f", same)


@proves("firewalls.exists")
def test_a_second_insert_answers_409(client: Client) -> None:
    client.ok("POST", FIREWALLS, body())
    assert client.refused("POST", FIREWALLS, body()) == (
        409,
        "alreadyExists",
        f"The resource 'projects/{PROJECT}/global/firewalls/f' already exists",
    )


@proves("firewalls.quota")
def test_the_firewalls_quota_fails_in_the_operation(client: Client) -> None:
    client.admin("PUT", f"projects/{PROJECT}", {"quotas": {"FIREWALLS": 5}})
    client.firewall("a", "n")
    error = error_of(client.firewall("b", "n"))
    assert error["message"].startswith("Quota 'FIREWALLS' exceeded.  Limit: 5.0 globally.")


def test_an_unknown_network_answers_404(client: Client) -> None:
    wanted = body(network="global/networks/nope")
    assert client.refused("POST", FIREWALLS, wanted)[:2] == (404, "notFound")


def test_a_patch_changes_what_was_given_and_nothing_else(client: Client) -> None:
    client.ok("POST", FIREWALLS, body(description="first"))
    before = client.compute("GET", "global/firewalls/f")
    client.ok("PATCH", f"{FIREWALLS}/f", {"sourceRanges": ["10.0.0.0/8"], "disabled": True})
    after = client.compute("GET", "global/firewalls/f")
    assert after == {**before, "sourceRanges": ["10.0.0.0/8"], "disabled": True}
    assert client.refused("PATCH", f"{FIREWALLS}/f", {"priority": -1})[0] == 400
    assert client.refused("PATCH", f"{FIREWALLS}/f", {"direction": "EGRESS"})[0] == 400
    assert client.compute("GET", "global/firewalls/f") == after


def test_a_patch_can_turn_an_allow_rule_into_a_deny_rule(client: Client) -> None:
    client.ok("POST", FIREWALLS, body())
    client.ok("PATCH", f"{FIREWALLS}/f", {"denied": [{"IPProtocol": "icmp"}]})
    read = client.compute("GET", "global/firewalls/f")
    assert "allowed" not in read
    assert read["denied"] == [{"IPProtocol": "icmp"}]


@proves("compute.merge-patch")
def test_null_or_an_empty_list_takes_a_field_away(client: Client) -> None:
    client.ok("POST", FIREWALLS, body(description="first", targetTags=["t"]))
    gone: dict[str, object] = {
        "description": None,
        "targetTags": [],
        "priority": None,
        "logConfig": {"enable": True},
    }
    client.ok("PATCH", f"{FIREWALLS}/f", gone)
    read = client.compute("GET", "global/firewalls/f")
    assert not {"description", "targetTags"} & read.keys()
    assert (read["priority"], read["logConfig"]) == (1000, {"enable": True})
    client.ok("PATCH", f"{FIREWALLS}/f", {"sourceRanges": []})
    assert client.compute("GET", "global/firewalls/f")["sourceRanges"] == ["0.0.0.0/0"]


def test_what_replaces_a_rule_takes_away_what_it_does_not_name(client: Client) -> None:
    logged = {"enable": True, "metadata": "EXCLUDE_ALL_METADATA"}
    client.ok("POST", FIREWALLS, body(description="first", logConfig=logged))
    client.ok("PUT", f"{FIREWALLS}/f", body(logConfig={"enable": True}))
    read = client.compute("GET", "global/firewalls/f")
    assert "description" not in read
    assert read["logConfig"] == {"enable": True}
