"""What of a cluster changes in place and what does not [facts google-cloud.md §6.1]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Client, clusters, locations

DEMO = clusters("demo")


def update(client: Client, **desired: Any) -> dict[str, Any]:
    """Update the cluster and return what it reads back as."""
    operation = client.ok("PUT", DEMO, {"update": desired})
    client.settle()
    done = client.ok("GET", f"{locations()}/operations/{operation['name']}")
    assert "error" not in done
    read: dict[str, Any] = client.ok("GET", DEMO)
    assert read["status"] == "RUNNING"
    return read


@proves("clusters.net-admin-in-place")
def test_net_admin_changes_in_place_both_ways(client: Client) -> None:
    before = client.cluster()
    for allowed in (False, True):
        desired = {"allowNetAdmin": allowed}
        read = update(client, desiredAutopilotWorkloadPolicyConfig=desired)
        assert read["autopilot"] == {"enabled": True, "workloadPolicyConfig": desired}
        running = next(iter(client.runtime.running.values()))
        assert running["autopilot"]["workloadPolicyConfig"] == desired
    assert client.ok("GET", DEMO) == before
    assert [call for call, _ in client.runtime.calls] == ["start", "update", "update"]


@proves("clusters.multi-networking-fixed")
def test_multi_networking_cannot_be_switched_later(client: Client) -> None:
    client.cluster()
    body = {"update": {"desiredEnableMultiNetworking": False}}
    status, reason, message = client.refused("PUT", DEMO, body)
    assert (status, reason) == (400, "badRequest")
    assert "networkConfig.enableMultiNetworking" in message
    client.cluster(name="plain", networkConfig={})
    body = {"update": {"desiredEnableMultiNetworking": True}}
    assert client.refused("PUT", clusters("plain"), body)[0] == 400
    read = client.ok("GET", clusters("plain"))
    assert (read["networkConfig"]["enableMultiNetworking"], read["status"]) == (False, "RUNNING")


@proves("clusters.upgrade")
def test_a_version_rises_in_place_and_does_not_fall(client: Client) -> None:
    client.cluster(initialClusterVersion="1.34.8-gke.1000000")
    read = update(client, desiredMasterVersion="1.35")
    assert read["currentMasterVersion"] == "1.35.8-gke.1036000"
    assert read["currentNodeVersion"] == "1.35.8-gke.1036000"
    assert read["initialClusterVersion"] == "1.34.8-gke.1000000"
    body = {"update": {"desiredMasterVersion": "1.34.9-gke.1322001"}}
    assert client.refused("PUT", DEMO, body)[2] == (
        'Master cannot be downgraded from "1.35.8-gke.1036000" to "1.34.9-gke.1322001".'
    )
    body = {"update": {"desiredMasterVersion": "1.36.4-gke.1391000"}}
    assert '"REGULAR" channel supported versions' in client.refused("PUT", DEMO, body)[2]
    assert [entry["action"] for entry in client.admin("GET", "operations")["operations"]] == [
        "clusters.create",
        "clusters.upgrade",
    ]


def test_a_release_channel_changes_in_place_and_stays_one(client: Client) -> None:
    client.cluster()
    read = update(client, desiredReleaseChannel={"channel": "RAPID"})
    assert read["releaseChannel"] == {"channel": "RAPID"}
    read = update(client, desiredMasterVersion="1.36.4-gke.1391000")
    assert read["currentMasterVersion"] == "1.36.4-gke.1391000"
    body = {"update": {"desiredReleaseChannel": {"channel": "UNSPECIFIED"}}}
    assert client.refused("PUT", DEMO, body)[0] == 400


def test_a_message_is_merged_into_what_is_there(client: Client) -> None:
    client.cluster()
    on = {"gcsFuseCsiDriverConfig": {"enabled": True}}
    addons = update(client, desiredAddonsConfig=on)["addonsConfig"]
    assert addons["gcsFuseCsiDriverConfig"] == {"enabled": True}
    assert addons["dnsCacheConfig"] == {"enabled": True}


def test_authorized_networks_change_in_both_places(client: Client) -> None:
    client.cluster()
    wanted = {"enabled": True, "cidrBlocks": [{"cidrBlock": "10.0.0.0/8", "displayName": "vpn"}]}
    read = update(client, desiredMasterAuthorizedNetworksConfig=wanted)
    assert read["masterAuthorizedNetworksConfig"] == wanted
    addresses = read["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    assert addresses["authorizedNetworksConfig"] == wanted
    bad = {"cidrBlocks": [{"cidrBlock": "office"}]}
    for update_ in (
        {"desiredMasterAuthorizedNetworksConfig": bad},
        {
            "desiredControlPlaneEndpointsConfig": {
                "ipEndpointsConfig": {"authorizedNetworksConfig": bad}
            }
        },
    ):
        assert '"office"' in client.refused("PUT", DEMO, {"update": update_})[2]


@proves("clusters.update-unknown")
@pytest.mark.parametrize("update_", [{}, {"desiredImageType": "COS"}, {"desiredWonder": 1}])
def test_an_update_that_is_not_carried_out_is_refused(
    client: Client, update_: dict[str, Any]
) -> None:
    before = client.cluster()
    assert client.refused("PUT", DEMO, {"update": update_})[:2] == (400, "badRequest")
    assert client.ok("GET", DEMO) == before


@proves("clusters.label-fingerprint")
def test_labels_need_the_present_fingerprint(client: Client) -> None:
    fingerprint = client.cluster()["labelFingerprint"]
    path = f"{DEMO}:setResourceLabels"
    wanted = {"resourceLabels": {"team": "a"}, "labelFingerprint": fingerprint}
    client.ok("POST", path, wanted)
    client.settle()
    read = client.ok("GET", DEMO)
    assert read["resourceLabels"] == {"team": "a"}
    assert read["labelFingerprint"] != fingerprint
    assert client.refused("POST", path, wanted)[:2] == (400, "failedPrecondition")
    odd = {"resourceLabels": {"Team": "A"}, "labelFingerprint": read["labelFingerprint"]}
    assert client.refused("POST", path, odd)[:2] == (400, "badRequest")


def test_a_maintenance_policy_is_replaced(client: Client) -> None:
    client.cluster()
    window = {"window": {"dailyMaintenanceWindow": {"startTime": "03:00"}}}
    client.ok("POST", f"{DEMO}:setMaintenancePolicy", {"maintenancePolicy": window})
    client.settle()
    assert client.ok("GET", DEMO)["maintenancePolicy"] == window


def test_while_an_update_goes_on_the_cluster_is_reconciling(client: Client) -> None:
    client.cluster()
    client.hang("clusters.update")
    desired = {"desiredAutopilotWorkloadPolicyConfig": {"allowNetAdmin": False}}
    client.ok("PUT", DEMO, {"update": desired})
    read = client.ok("GET", DEMO)
    assert read["status"] == "RECONCILING"
    assert read["autopilot"]["workloadPolicyConfig"] == {"allowNetAdmin": True}
    client.let_go()
    read = client.ok("GET", DEMO)
    assert read["status"] == "RUNNING"
    assert read["autopilot"]["workloadPolicyConfig"] == {"allowNetAdmin": False}


def test_a_failed_update_leaves_the_cluster_as_it_was(client: Client) -> None:
    before = client.cluster()
    client.runtime.failure = "admission policy could not be written"
    desired = {"desiredAutopilotWorkloadPolicyConfig": {"allowNetAdmin": False}}
    operation = client.ok("PUT", DEMO, {"update": desired})
    client.settle()
    done = client.ok("GET", f"{locations()}/operations/{operation['name']}")
    assert done["statusMessage"] == "admission policy could not be written"
    assert client.ok("GET", DEMO) == before


def test_a_cluster_that_is_not_there_or_in_error_is_not_changed(client: Client) -> None:
    body = {"update": {"desiredMasterVersion": "latest"}}
    assert client.refused("PUT", clusters("nope"), body)[:2] == (404, "notFound")
    assert client.refused("DELETE", clusters("nope"))[:2] == (404, "notFound")
    client.runtime.failure = "broken"
    client.ok(
        "POST",
        f"/v1/projects/{PROJECT}/locations/{REGION}/clusters",
        {"cluster": {"name": "demo", "autopilot": {"enabled": True}}},
    )
    client.settle()
    status, reason, message = client.refused("PUT", DEMO, body)
    assert (status, reason) == (400, "failedPrecondition")
    assert "ERROR" in message
