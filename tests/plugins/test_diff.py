"""Diff: what changes, what replaces, what is nothing [facts google-cloud.md §1.4, R20, R26]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.plugins.pulumi_resource_gcp.values import UNKNOWN

from .engine import Engine, RpcFailedError, detailed, unchanged
from .google_stub import GoogleStub
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
    service,
    subnetwork,
)

Json = dict[str, Any]
PROGRAMS: dict[str, Callable[..., Json]] = {
    NETWORK: network,
    SUBNETWORK: subnetwork,
    FIREWALL: firewall,
    SERVICE: service,
    CLUSTER: cluster,
}
SELF = "https://www.googleapis.com/compute/v1/"


def difference(engine: Engine, kind: str, more: Json) -> Any:
    """Create the recorded resource, then compare it with a changed program."""
    resource = engine.create(kind, "x", PROGRAMS[kind]())
    return engine.diff(resource, PROGRAMS[kind](**more))


# --- the same thing in another form is no change ---


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (SUBNETWORK, {"network": "net-1"}),
        (SUBNETWORK, {"network": f"{SELF}projects/p/global/networks/net-1"}),
        (
            SUBNETWORK,
            {"region": "https://www.googleapis.com/compute/v1/projects/p/regions/us-central1"},
        ),
        (FIREWALL, {"network": "net-1"}),
        (FIREWALL, {"sourceRanges": ["192.168.5.9/16"]}),
        (
            FIREWALL,
            {
                "allows": [
                    {"protocol": "ICMP"},
                    {"protocol": "UDP", "ports": ["0-65535"]},
                    {"protocol": "tcp", "ports": ["0-65535"]},
                ]
            },
        ),
        (CLUSTER, {"network": "net-1"}),
        (CLUSTER, {"subnetwork": f"{SELF}projects/p/regions/us-central1/subnetworks/sub-1"}),
        (CLUSTER, {"initialNodeCount": 0}),
        (CLUSTER, {"enableLegacyAbac": False}),
        (CLUSTER, {"resourceLabels": {}}),
        (NETWORK, {"description": ""}),
    ],
)
def test_another_form_of_the_same_value_is_no_change(engine: Engine, kind: str, more: Json) -> None:
    diff = difference(engine, kind, more)
    assert unchanged(diff), detailed(diff)


def test_the_order_of_source_ranges_is_no_change(engine: Engine) -> None:
    resource = engine.create(FIREWALL, "x", firewall(sourceRanges=["10.0.0.0/8", "172.16.0.0/12"]))
    diff = engine.diff(resource, firewall(sourceRanges=["172.16.0.0/12", "10.0.0.0/8"]))
    assert unchanged(diff)


def test_a_network_of_another_project_is_another_network(engine: Engine) -> None:
    diff = difference(engine, SUBNETWORK, {"network": "projects/q/global/networks/net-1"})
    assert list(diff.replaces) == ["network"]


# --- updates ---


@pytest.mark.parametrize(
    ("kind", "more", "changes"),
    [
        (NETWORK, {"mtu": 1460}, {"mtu": "UPDATE"}),
        (NETWORK, {"routingMode": "GLOBAL"}, {"routingMode": "UPDATE"}),
        (SUBNETWORK, {"ipCidrRange": "192.168.0.0/20"}, {"ipCidrRange": "UPDATE"}),
        (SUBNETWORK, {"privateIpGoogleAccess": True}, {"privateIpGoogleAccess": "ADD"}),
        (FIREWALL, {"priority": 900}, {"priority": "UPDATE"}),
        (FIREWALL, {"network": "net-2"}, {"network": "UPDATE"}),
        (FIREWALL, {"sourceRanges": ["10.0.0.0/8"]}, {"sourceRanges[0]": "UPDATE"}),
        (FIREWALL, {"description": "d"}, {"description": "ADD"}),
        (
            FIREWALL,
            {"allows": [{"protocol": "tcp", "ports": ["0-65535"]}, {"protocol": "icmp"}]},
            {"allows[1]": "DELETE"},
        ),
        (SERVICE, {"disableOnDestroy": True}, {"disableOnDestroy": "ADD"}),
        (CLUSTER, {"enableMultiNetworking": False}, {"enableMultiNetworking": "UPDATE"}),
        (CLUSTER, {"allowNetAdmin": False}, {"allowNetAdmin": "UPDATE"}),
        (CLUSTER, {"allowNetAdmin": None}, {"allowNetAdmin": "DELETE"}),
        (CLUSTER, {"deletionProtection": True}, {"deletionProtection": "ADD"}),
        (CLUSTER, {"minMasterVersion": "1.40"}, {"minMasterVersion": "ADD"}),
        (CLUSTER, {"releaseChannel": {"channel": "RAPID"}}, {"releaseChannel.channel": "UPDATE"}),
        (CLUSTER, {"deletionPolicy": "PREVENT"}, {"deletionPolicy": "UPDATE"}),
    ],
)
def test_a_change_that_the_provider_makes_in_place(
    engine: Engine, kind: str, more: Json, changes: dict[str, str]
) -> None:
    diff = difference(engine, kind, more)
    assert detailed(diff) == changes
    assert list(diff.replaces) == []
    assert diff.deleteBeforeReplace is False


# --- replacements ---


@pytest.mark.parametrize(
    ("kind", "more", "replaces"),
    [
        (NETWORK, {"name": "net-2"}, "name"),
        (NETWORK, {"autoCreateSubnetworks": True}, "autoCreateSubnetworks"),
        (NETWORK, {"description": "d"}, "description"),
        (NETWORK, {"project": "q"}, "project"),
        (SUBNETWORK, {"network": "net-2"}, "network"),
        (SUBNETWORK, {"region": "us-east4"}, "region"),
        (SUBNETWORK, {"ipCidrRange": "192.168.0.0/25"}, "ipCidrRange"),
        (SUBNETWORK, {"ipCidrRange": "10.0.0.0/20"}, "ipCidrRange"),
        (FIREWALL, {"direction": "EGRESS"}, "direction"),
        (SERVICE, {"service": "compute.googleapis.com"}, "service"),
        (CLUSTER, {"location": "us-east4"}, "location"),
        (CLUSTER, {"enableAutopilot": False}, "enableAutopilot"),
        (CLUSTER, {"network": "net-2"}, "network"),
        (CLUSTER, {"datapathProvider": "LEGACY_DATAPATH"}, "datapathProvider"),
        (CLUSTER, {"initialNodeCount": 1}, "initialNodeCount"),
        (CLUSTER, {"nodeConfig": {"machineType": "n2-standard-4"}}, "nodeConfig"),
        (CLUSTER, {"networkingMode": "ROUTES"}, "networkingMode"),
    ],
)
def test_a_change_that_replaces(engine: Engine, kind: str, more: Json, replaces: str) -> None:
    diff = difference(engine, kind, more)
    assert list(diff.replaces) == [replaces]
    kinds = {path: name for path, name in detailed(diff).items() if path.startswith(replaces)}
    assert kinds
    assert all(name.endswith("_REPLACE") for name in kinds.values())


def test_a_replaced_resource_of_an_explicit_name_is_deleted_first(engine: Engine) -> None:
    assert difference(engine, NETWORK, {"description": "d"}).deleteBeforeReplace is True


def test_a_replaced_resource_of_a_made_name_is_deleted_last(engine: Engine) -> None:
    inputs = network()
    del inputs["name"]
    resource = engine.create(NETWORK, "x", inputs)
    diff = engine.diff(resource, {**inputs, "description": "d"})
    assert list(diff.replaces) == ["description"]
    assert diff.deleteBeforeReplace is False


def test_unchanged_properties_that_would_replace_are_stable(engine: Engine) -> None:
    diff = difference(engine, SUBNETWORK, {"ipCidrRange": "192.168.0.0/20"})
    assert {"name", "network", "region", "project", "description"} <= set(diff.stables)
    replaced = difference(engine, NETWORK, {"description": "d"})
    assert "description" not in replaced.stables
    assert "name" in replaced.stables


def test_a_value_that_is_not_known_yet_counts_as_a_change(engine: Engine) -> None:
    diff = difference(engine, SUBNETWORK, {"network": UNKNOWN})
    assert detailed(diff) == {"network": "UPDATE_REPLACE"}


def test_a_changed_provider_project_replaces(bare_engine: Engine) -> None:
    bare_engine.configure()
    resource = bare_engine.create(NETWORK, "x", network())
    bare_engine.configure(project="other")
    assert list(bare_engine.diff(resource, network()).replaces) == ["project"]


# --- secondary ranges [§3] ---


def _with_ranges(engine: Engine) -> Any:
    ranges = [{"rangeName": "pods", "ipCidrRange": "10.0.0.0/16"}]
    return engine.create(SUBNETWORK, "x", subnetwork(secondaryIpRanges=ranges))


@pytest.mark.parametrize("more", [{}, {"secondaryIpRanges": []}])
def test_dropping_all_secondary_ranges_is_no_change(engine: Engine, more: Json) -> None:
    assert unchanged(engine.diff(_with_ranges(engine), subnetwork(**more)))


def test_dropping_all_secondary_ranges_on_request_is_one(
    engine: Engine, google: GoogleStub
) -> None:
    resource = _with_ranges(engine)
    program = subnetwork(sendSecondaryIpRangeIfEmpty=True)
    assert "secondaryIpRanges" in detailed(engine.diff(resource, program))
    google.requests.clear()
    after = engine.update(resource, program)
    assert google.bodies == [{"secondaryIpRanges": []}]
    assert after.outputs["secondaryIpRanges"] == []


def test_a_new_secondary_range_is_an_update_in_place(engine: Engine) -> None:
    ranges = [
        {"rangeName": "pods", "ipCidrRange": "10.0.0.0/16"},
        {"rangeName": "services", "ipCidrRange": "10.1.0.0/20"},
    ]
    diff = engine.diff(_with_ranges(engine), subnetwork(secondaryIpRanges=ranges))
    assert detailed(diff) == {"secondaryIpRanges[1]": "ADD"}


# --- resource policies [§5] ---


def test_a_policy_s_new_name_is_an_update_and_fails_at_the_new_address(
    engine: Engine, google: GoogleStub
) -> None:
    policy = {"name": "one", "groupPlacementPolicy": {"collocation": "COLLOCATED"}}
    resource = engine.create(RESOURCE_POLICY, "x", policy)
    diff = engine.diff(resource, {**policy, "name": "two"})
    assert detailed(diff) == {"name": "UPDATE"}
    google.take()
    with pytest.raises(RpcFailedError) as caught:
        engine.update(resource, {**policy, "name": "two"})
    base = "/compute/v1/projects/p/regions/us-central1/resourcePolicies"
    assert google.lines == [f"PATCH {base}/two"]
    assert 'Error updating ResourcePolicy "projects/p/regions/us-central1/' in caught.value.text
    assert "Error 404" in caught.value.text


@pytest.mark.parametrize(
    ("more", "replaces"),
    [
        ({"maxDistance": 2}, []),
        ({"vmCount": 4}, []),
        ({"gpuTopology": "1x72"}, ["groupPlacementPolicy"]),
        ({"tpuTopology": "4x4"}, ["groupPlacementPolicy"]),
    ],
)
def test_placement_changes_in_place_but_for_topologies(
    engine: Engine, more: Json, replaces: list[str]
) -> None:
    placement = {"collocation": "COLLOCATED"}
    resource = engine.create(RESOURCE_POLICY, "x", {"groupPlacementPolicy": placement})
    diff = engine.diff(resource, {"groupPlacementPolicy": {**placement, **more}})
    assert not unchanged(diff)
    assert list(diff.replaces) == replaces


# --- plan errors come from Diff and Create [§1.6, §4] ---

SOURCES = "one of source_tags, source_ranges, or source_service_accounts must be defined"


def test_an_ingress_rule_without_a_source_passes_check_and_fails_in_create(
    engine: Engine, google: GoogleStub
) -> None:
    with pytest.raises(RpcFailedError) as caught:
        engine.preview_create(FIREWALL, "x", firewall(sourceRanges=None))
    urn = f"urn:pulumi:dev::proj::{FIREWALL}::x"
    assert caught.value.text == f"diffing {urn}: 1 error occurred:\n\t* {SOURCES}\n\n"
    with pytest.raises(RpcFailedError):
        engine.create(FIREWALL, "x", firewall(sourceRanges=[]))
    assert google.lines == []


def test_an_ingress_rule_that_loses_its_source_fails_in_diff(engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        difference(engine, FIREWALL, {"sourceRanges": None})
    assert caught.value.text.startswith("diffing urn:pulumi:")
    assert SOURCES in caught.value.text


def test_logging_metadata_needs_logging(engine: Engine) -> None:
    inputs = firewall(logConfig={"metadata": "INCLUDE_ALL_METADATA"}, enableLogging=False)
    with pytest.raises(RpcFailedError) as caught:
        engine.create(FIREWALL, "x", inputs)
    assert "log_config cannot be defined when enable_logging is false" in caught.value.text


def test_the_node_version_follows_the_master_at_creation(engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        engine.create(CLUSTER, "x", cluster(minMasterVersion="1.33.1", nodeVersion="1.32.1"))
    assert (
        "Resource argument node_version (value: 1.32.1) must either be unset" in caught.value.text
    )
