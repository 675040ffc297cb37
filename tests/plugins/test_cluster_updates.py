"""One request per changed field of a cluster [facts google-cloud.md §6, real-provider.md]."""

from __future__ import annotations

from typing import Any

import pytest

from .engine import Engine, RpcFailedError
from .google_stub import GoogleStub
from .programs import CLUSTER, cluster

Json = dict[str, Any]
PATH = "/container/v1beta1/projects/p/locations/us-central1/clusters/c"


def changed(engine: Engine, google: GoogleStub, before: Json, after: Json) -> list[Json]:
    """Create with one program, update with another; return what was sent."""
    made = engine.create(CLUSTER, "x", cluster(**before))
    google.requests.clear()
    engine.update(made, cluster(**after))
    return google.bodies


@pytest.mark.parametrize(
    ("before", "after", "update"),
    [
        (
            {},
            {"allowNetAdmin": False},
            {"desiredAutopilotWorkloadPolicyConfig": {"allowNetAdmin": False}},
        ),
        (
            {"allowNetAdmin": None},
            {},
            {"desiredAutopilotWorkloadPolicyConfig": {"allowNetAdmin": True}},
        ),
        (
            {},
            {"enableMultiNetworking": False},
            {"desiredEnableMultiNetworking": False},
        ),
        (
            {},
            {"releaseChannel": {"channel": "RAPID"}},
            {"desiredReleaseChannel": {"channel": "RAPID"}},
        ),
        (
            {},
            {"minMasterVersion": "1.34.1-gke.3355002"},
            {"desiredMasterVersion": "1.34.1-gke.3355002"},
        ),
        (
            {},
            {"gatewayApiConfig": {"channel": "CHANNEL_STANDARD"}},
            {"desiredGatewayApiConfig": {"channel": "CHANNEL_STANDARD"}},
        ),
        (
            {},
            {"loggingConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
            {
                "desiredLoggingConfig": {
                    "componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}
                }
            },
        ),
        (
            {},
            {"monitoringConfig": {"managedPrometheus": {"enabled": True}}},
            {"desiredMonitoringConfig": {"managedPrometheusConfig": {"enabled": True}}},
        ),
        (
            {},
            {"privateClusterConfig": {"enablePrivateNodes": True}},
            {"desiredDefaultEnablePrivateNodes": True},
        ),
        (
            {},
            {"nodePoolAutoConfig": {"networkTags": {"tags": ["gpu"]}}},
            {"desiredNodePoolAutoConfigNetworkTags": {"tags": ["gpu"]}},
        ),
        (
            {},
            {"verticalPodAutoscaling": {"enabled": False}},
            {"desiredVerticalPodAutoscaling": {"enabled": False}},
        ),
        (
            {},
            {"databaseEncryption": {"state": "ENCRYPTED", "keyName": "k"}},
            {"desiredDatabaseEncryption": {"state": "ENCRYPTED", "keyName": "k"}},
        ),
        ({}, {"fleet": {"project": "p"}}, {"desiredFleet": {"project": "p"}}),
        (
            {},
            {"binaryAuthorization": {"evaluationMode": "DISABLED"}},
            {"desiredBinaryAuthorization": {"evaluationMode": "DISABLED"}},
        ),
        (
            {},
            {"loggingService": "none"},
            {"desiredLoggingService": "none", "desiredMonitoringService": ""},
        ),
    ],
)
def test_a_change_is_one_general_update(
    engine: Engine, google: GoogleStub, before: Json, after: Json, update: Json
) -> None:
    assert changed(engine, google, before, after) == [{"update": update}]
    assert google.lines == [f"GET {PATH}", f"PUT {PATH}", f"GET {PATH}", f"GET {PATH}"]


def test_authorized_networks_go_with_the_whole_endpoint_config(
    engine: Engine, google: GoogleStub
) -> None:
    blocks = [{"cidrBlock": "10.0.0.0/8", "displayName": "office"}]
    sent = changed(engine, google, {}, {"masterAuthorizedNetworksConfig": {"cidrBlocks": blocks}})
    assert sent == [
        {
            "update": {
                "desiredControlPlaneEndpointsConfig": {
                    "dnsEndpointConfig": {
                        "allowExternalTraffic": False,
                        "enableK8sCertsViaDns": False,
                        "enableK8sTokensViaDns": False,
                    },
                    "ipEndpointsConfig": {
                        "authorizedNetworksConfig": {"enabled": True, "cidrBlocks": blocks},
                        "enablePublicEndpoint": True,
                        "enabled": True,
                        "globalAccess": False,
                        "privateEndpointSubnetwork": "",
                    },
                }
            }
        }
    ]


@pytest.mark.parametrize("wanted", ["1.33.5-gke.1308000", "1.33", "1.2.3-gke.9", "", None])
def test_a_version_that_is_not_newer_sends_nothing(
    engine: Engine, google: GoogleStub, wanted: str | None
) -> None:
    sent = changed(
        engine,
        google,
        {"minMasterVersion": "1.33.5-gke.1308000"},
        {"minMasterVersion": wanted},
    )
    assert sent == []


@pytest.mark.parametrize("wanted", ["1.33.5-gke.1308001", "1.33.14-gke.5", "1.34"])
def test_a_newer_version_is_compared_by_its_numbers(
    engine: Engine, google: GoogleStub, wanted: str
) -> None:
    before = {"minMasterVersion": "1.33.5-gke.1308000"}
    sent = changed(engine, google, before, {"minMasterVersion": wanted})
    assert sent == [{"update": {"desiredMasterVersion": wanted}}]


def test_latest_cannot_be_asked_for_later(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    with pytest.raises(RpcFailedError) as caught:
        engine.update(made, cluster(minMasterVersion="latest"))
    assert "Malformed version: latest" in caught.value.text


def test_several_changes_are_sent_one_after_another_in_the_provider_s_order(
    engine: Engine, google: GoogleStub
) -> None:
    sent = changed(
        engine,
        google,
        {},
        {
            "resourceLabels": {"team": "a"},
            "enableMultiNetworking": False,
            "allowNetAdmin": False,
            "minMasterVersion": "1.34",
            "enableLegacyAbac": True,
        },
    )
    assert [next(iter(body.get("update", body))) for body in sent] == [
        "desiredAutopilotWorkloadPolicyConfig",
        "desiredEnableMultiNetworking",
        "enabled",
        "desiredMasterVersion",
        "labelFingerprint",
    ]


def test_a_maintenance_window_carries_the_version_of_what_is_there(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    google.resources[made.id]["maintenancePolicy"] = {
        "resourceVersion": "abc",
        "window": {"maintenanceExclusions": {"freeze": {"startTime": "s", "endTime": "e"}}},
    }
    google.requests.clear()
    window = {"dailyMaintenanceWindow": {"startTime": "03:00"}}
    engine.update(made, cluster(maintenancePolicy=window))
    assert google.lines == [
        f"GET {PATH}",
        f"GET {PATH}",
        f"POST {PATH}:setMaintenancePolicy",
        f"GET {PATH}",
        f"GET {PATH}",
    ]
    assert google.bodies == [
        {
            "maintenancePolicy": {
                "resourceVersion": "abc",
                "window": {"dailyMaintenanceWindow": {"startTime": "03:00"}},
            }
        }
    ]


def test_zones_are_added_before_others_are_taken_away(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(CLUSTER, "x", cluster(nodeLocations=["us-central1-a", "us-central1-b"]))
    google.requests.clear()
    engine.update(made, cluster(nodeLocations=["us-central1-b", "us-central1-c"]))
    zones = [body["update"]["desiredLocations"] for body in google.bodies]
    assert zones == [
        ["us-central1-a", "us-central1-b", "us-central1-c"],
        ["us-central1-b", "us-central1-c"],
    ]


def test_a_foreign_label_survives_a_change_of_ours(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    google.resources[made.id]["resourceLabels"]["somebody"] = "else"
    again = engine.refresh(made)
    assert again is not None
    google.requests.clear()
    after = engine.update(again, cluster(resourceLabels={"team": "a"}))
    assert google.bodies[0]["resourceLabels"] == {
        "goog-pulumi-provisioned": "true",
        "somebody": "else",
        "team": "a",
    }
    assert after.outputs["pulumiLabels"] == {"goog-pulumi-provisioned": "true", "team": "a"}


def test_an_empty_list_of_networks_closes_the_cluster(engine: Engine, google: GoogleStub) -> None:
    sent = changed(engine, google, {}, {"masterAuthorizedNetworksConfig": {}})
    endpoints = sent[0]["update"]["desiredControlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    assert endpoints["authorizedNetworksConfig"] == {"enabled": True}


def test_nothing_to_change_reads_and_sends_nothing(engine: Engine, google: GoogleStub) -> None:
    assert changed(engine, google, {}, {}) == []
