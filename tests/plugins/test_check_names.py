"""Check: names and defaults [facts google-cloud.md §1.1-1.3]."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.plugins.pulumi_resource_gcp.protocol import provider

from .engine import Engine, RpcFailedError
from .programs import (
    CLUSTER,
    FIREWALL,
    NETWORK,
    RESOURCE_POLICY,
    SERVICE,
    SUBNETWORK,
    cluster,
    firewall,
    network,
    subnetwork,
)

Json = dict[str, Any]
CLUSTER_DEFAULTS = {"network": "default", "deletionProtection": True}
NAME_PATTERN = "^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$"


def failures(engine: Engine, kind: str, inputs: Json, name: str = "x") -> list[str]:
    return engine.check(kind, name, inputs)[1]


# --- defaults [§1.3] ---


@pytest.mark.parametrize(
    ("kind", "inputs", "defaults"),
    [
        (
            NETWORK,
            {},
            {
                "autoCreateSubnetworks": True,
                "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
            },
        ),
        (SUBNETWORK, {"network": "n"}, {}),
        (FIREWALL, {"network": "n", "allows": [{"protocol": "icmp"}]}, {"priority": 1000}),
        (RESOURCE_POLICY, {}, {}),
        (
            CLUSTER,
            {},
            {"network": "default", "deletionProtection": True, "enableShieldedNodes": True},
        ),
        (CLUSTER, {"enableAutopilot": True}, {"network": "default", "deletionProtection": True}),
        (CLUSTER, {"enableAutopilot": False}, {"network": "default", "deletionProtection": True}),
    ],
)
def test_check_adds_the_truthy_defaults_and_names_them(
    engine: Engine, kind: str, inputs: Json, defaults: Json
) -> None:
    checked, found = engine.check(kind, "x", inputs)
    assert found == []
    assert checked["__defaults"] == sorted([*defaults, "name"])
    assert {name: checked[name] for name in defaults} == defaults


def test_a_service_gets_no_default_at_all(engine: Engine) -> None:
    checked, _ = engine.check(SERVICE, "x", {"service": "container.googleapis.com"})
    assert checked == {"__defaults": [], "service": "container.googleapis.com"}


def test_nested_objects_have_their_own_list_of_defaults(engine: Engine) -> None:
    checked, _ = engine.check(CLUSTER, "x", cluster(ipAllocationPolicy={}))
    assert checked["ipAllocationPolicy"] == {"__defaults": ["stackType"], "stackType": "IPV4"}
    rules, _ = engine.check(FIREWALL, "x", firewall())
    assert [rule["__defaults"] for rule in rules["allows"]] == [[], [], []]


def test_project_and_region_are_not_written_into_the_inputs(engine: Engine) -> None:
    checked, _ = engine.check(SUBNETWORK, "x", {"network": "n", "ipCidrRange": "10.0.0.0/24"})
    assert "project" not in checked
    assert "region" not in checked


def test_an_explicit_false_stays(engine: Engine) -> None:
    checked, _ = engine.check(CLUSTER, "x", cluster(deletionProtection=False))
    assert checked["deletionProtection"] is False
    assert "deletionProtection" not in checked["__defaults"]


# --- names [§1.1, §1.2] ---


def test_a_network_name_is_lower_cased_with_seven_hex_digits(engine: Engine) -> None:
    checked, _ = engine.check(NETWORK, "My-Net", {})
    prefix, digits = checked["name"].rsplit("-", 1)
    assert prefix == "my-net"
    assert len(digits) == 7
    int(digits, 16)


def test_the_name_follows_the_seed_alone(engine: Engine) -> None:
    first, _ = engine.check(NETWORK, "n", {}, randomSeed=b"one")
    again, _ = engine.check(NETWORK, "n", {}, randomSeed=b"one")
    other, _ = engine.check(NETWORK, "n", {}, randomSeed=b"two")
    assert first["name"] == again["name"] != other["name"]


def test_a_made_name_is_kept_from_the_old_inputs(engine: Engine) -> None:
    first, _ = engine.check(NETWORK, "n", {}, randomSeed=b"one")
    again, _ = engine.check(NETWORK, "n", {}, first, randomSeed=b"two")
    assert again["name"] == first["name"]
    assert "name" in again["__defaults"]


def test_a_name_that_was_typed_before_is_not_kept(engine: Engine) -> None:
    typed, _ = engine.check(NETWORK, "n", {"name": "typed"})
    again, _ = engine.check(NETWORK, "n", {}, typed)
    assert again["name"] != "typed"


def test_a_pulumi_name_that_is_too_long_is_an_error_and_not_cut(engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        engine.check(NETWORK, "n" * 56, {})
    expected = f"name '{'n' * 56}-' plus 7 random chars is longer than maximum length 63"
    assert caught.value.text == expected


@pytest.mark.parametrize(("mode", "expected"), [(0, "mine"), (1, "mine")])
def test_the_engine_may_propose_or_enforce_a_name(engine: Engine, mode: int, expected: str) -> None:
    options = provider.CheckRequest.AutonamingOptions(proposed_name="mine", mode=mode)
    checked, _ = engine.check(NETWORK, "n", {}, autonaming=options)
    assert checked["name"] == expected


def test_with_names_disabled_a_name_is_required(engine: Engine) -> None:
    options = provider.CheckRequest.AutonamingOptions(mode=2)
    _, found = engine.check(NETWORK, "n", {}, autonaming=options)
    assert found == [
        'Missing required argument. The argument "name" is required, but no definition was '
        "found.. Examine values at 'n.name'."
    ]


@pytest.mark.parametrize("kind", [NETWORK, SUBNETWORK, FIREWALL])
def test_a_compute_name_must_match_the_pattern(engine: Engine, kind: str) -> None:
    inputs = {NETWORK: network, SUBNETWORK: subnetwork, FIREWALL: firewall}[kind](name="Bad_Name")
    assert failures(engine, kind, inputs) == [
        f'"name" ("Bad_Name") doesn\'t match regexp "{NAME_PATTERN}". Examine values at \'x.name\'.'
    ]


@pytest.mark.parametrize("kind", [FIREWALL, CLUSTER])
def test_an_upper_case_pulumi_name_is_not_lowered_and_fails(engine: Engine, kind: str) -> None:
    inputs = {FIREWALL: firewall, CLUSTER: cluster}[kind]()
    del inputs["name"]
    assert failures(engine, kind, inputs, "Mine") != []


def test_a_pulumi_name_of_33_letters_breaks_the_limit_of_a_cluster(engine: Engine) -> None:
    inputs = cluster()
    del inputs["name"]
    assert failures(engine, CLUSTER, inputs, "c" * 32) == []
    assert failures(engine, CLUSTER, inputs, "c" * 33) == [
        f"\"name\" cannot be longer than 40 characters. Examine values at '{'c' * 33}.name'."
    ]


def test_several_checks_of_a_cluster_name_fire_together(engine: Engine) -> None:
    assert failures(engine, CLUSTER, cluster(name="1" * 40 + "_")) == [
        f"{text}. Examine values at 'x.name'."
        for text in (
            '"name" cannot be longer than 40 characters',
            '"name" can only contain lowercase letters, numbers and hyphens',
            '"name" must start with a letter',
            '"name" must end with a number or a letter',
        )
    ]


def test_the_name_of_a_resource_policy_is_left_to_the_api(engine: Engine) -> None:
    assert failures(engine, RESOURCE_POLICY, {"name": "Bad_Name"}) == []
