"""What the cloud fills, loses or changes, seen after a refresh [real-provider.md, R20, R26]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .engine import Engine, detailed, unchanged
from .google_stub import GoogleStub
from .programs import (
    CLUSTER,
    FIREWALL,
    NETWORK,
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


def drift(engine: Engine, google: GoogleStub, kind: str, change: Callable[[Json], None]) -> Any:
    """Create, let the cloud's answer change, refresh, compare with the same program."""
    resource = engine.create(kind, "x", PROGRAMS[kind]())
    change(next(iter(google.resources.values())))
    again = engine.refresh(resource)
    assert again is not None
    return engine.diff(again, PROGRAMS[kind]())


def _drop(path: str) -> Callable[[Json], None]:
    def change(answer: Json) -> None:
        *parents, last = path.split(".")
        for part in parents:
            answer = answer[part]
        del answer[last]

    return change


def _set(path: str, value: Any) -> Callable[[Json], None]:
    def change(answer: Json) -> None:
        *parents, last = path.split(".")
        for part in parents:
            answer = answer.setdefault(part, {})
        answer[last] = value

    return change


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (NETWORK, "name"),
        (SUBNETWORK, "name"),
        (SUBNETWORK, "network"),
        (FIREWALL, "name"),
        (CLUSTER, "name"),
        (CLUSTER, "location"),
        (CLUSTER, "autopilot.enabled"),
        (CLUSTER, "networkConfig.network"),
        (CLUSTER, "networkConfig.subnetwork"),
    ],
)
def test_an_answer_without_this_plans_a_replacement(
    engine: Engine, google: GoogleStub, kind: str, path: str
) -> None:
    assert list(drift(engine, google, kind, _drop(path)).replaces) != []


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (NETWORK, "mtu"),
        (NETWORK, "networkFirewallPolicyEnforcementOrder"),
        (SUBNETWORK, "ipCidrRange"),
        (FIREWALL, "network"),
        (FIREWALL, "priority"),
        (FIREWALL, "sourceRanges"),
        (FIREWALL, "allowed"),
        (CLUSTER, "networkConfig.enableMultiNetworking"),
    ],
)
def test_an_answer_without_this_plans_an_update(
    engine: Engine, google: GoogleStub, kind: str, path: str
) -> None:
    diff = drift(engine, google, kind, _drop(path))
    assert not unchanged(diff)
    assert list(diff.replaces) == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (CLUSTER, "autopilot"),
        (CLUSTER, "autopilot.workloadPolicyConfig"),
        (NETWORK, "autoCreateSubnetworks"),
        (SUBNETWORK, "creationTimestamp"),
        (FIREWALL, "logConfig"),
        (CLUSTER, "maintenancePolicy"),
        (CLUSTER, "shieldedNodes"),
        (CLUSTER, "nodeConfig"),
        (CLUSTER, "legacyAbac"),
        (CLUSTER, "controlPlaneEndpointsConfig"),
    ],
)
def test_an_answer_without_this_is_not_noticed(
    engine: Engine, google: GoogleStub, kind: str, path: str
) -> None:
    diff = drift(engine, google, kind, _drop(path))
    assert unchanged(diff), detailed(diff)


@pytest.mark.parametrize(
    "change",
    [
        _set(
            "networkConfig.dnsConfig",
            {
                "clusterDns": "CLOUD_DNS",
                "clusterDnsDomain": "cluster.local",
                "clusterDnsScope": "CLUSTER_SCOPE",
            },
        ),
        _set("nodeConfig.oauthScopes", ["https://www.googleapis.com/auth/cloud-platform"]),
        _set("autoscaling", {"enableNodeAutoprovisioning": True, "resourceLimits": []}),
        _set("networkConfig.datapathProvider", "ADVANCED_DATAPATH"),
        _set("verticalPodAutoscaling", {"enabled": True}),
        _set("workloadIdentityConfig", {"workloadPool": "p.svc.id.goog"}),
        _set("ipAllocationPolicy", {"useIpAliases": True, "clusterIpv4CidrBlock": "10.4.0.0/17"}),
        _set("locations", ["us-central1-a", "us-central1-b"]),
        _set("currentMasterVersion", "1.34.1-gke.1"),
        _set("resourceLabels.somebody", "else"),
    ],
)
def test_what_the_server_fills_is_no_change(
    engine: Engine, google: GoogleStub, change: Callable[[Json], None]
) -> None:
    diff = drift(engine, google, CLUSTER, change)
    assert unchanged(diff), detailed(diff)


def test_net_admin_that_drifted_away_is_exactly_one_update(
    engine: Engine, google: GoogleStub
) -> None:
    diff = drift(
        engine,
        google,
        CLUSTER,
        _set("autopilot.workloadPolicyConfig", {"allowNetAdmin": False}),
    )
    assert detailed(diff) == {"allowNetAdmin": "ADD"}
    assert list(diff.replaces) == []


def test_a_node_count_in_the_answer_replaces_the_cluster(
    engine: Engine, google: GoogleStub
) -> None:
    diff = drift(engine, google, CLUSTER, _set("initialNodeCount", 1))
    assert list(diff.replaces) == ["initialNodeCount"]


def test_a_label_that_was_taken_away_is_put_back(engine: Engine, google: GoogleStub) -> None:
    diff = drift(engine, google, CLUSTER, _drop("resourceLabels.goog-pulumi-provisioned"))
    assert unchanged(diff)
    resource = engine.create(CLUSTER, "y", cluster(name="d", resourceLabels={"team": "a"}))
    google.resources[resource.id]["resourceLabels"] = {}
    again = engine.refresh(resource)
    assert again is not None
    paths = detailed(engine.diff(again, cluster(name="d", resourceLabels={"team": "a"})))
    assert set(paths) == {"resourceLabels.team", "effectiveLabels", "pulumiLabels"}


@pytest.mark.parametrize("name", ["enableL4IlbSubsetting", "enableFqdnNetworkPolicy"])
def test_what_cannot_be_turned_off_again_replaces(engine: Engine, name: str) -> None:
    resource = engine.create(CLUSTER, "x", cluster(**{name: True}))
    assert list(engine.diff(resource, cluster(**{name: False})).replaces) == [name]
    other = engine.create(CLUSTER, "y", cluster(name="d"))
    assert list(engine.diff(other, cluster(name="d", **{name: True})).replaces) == []


def test_taking_the_release_channel_away_is_no_change(engine: Engine) -> None:
    resource = engine.create(CLUSTER, "x", cluster(releaseChannel={"channel": "RAPID"}))
    assert unchanged(engine.diff(resource, cluster()))


def test_a_range_of_the_wanted_size_is_no_change(engine: Engine, google: GoogleStub) -> None:
    program = cluster(ipAllocationPolicy={"clusterIpv4CidrBlock": "/17"})
    resource = engine.create(CLUSTER, "x", program)
    google.resources[resource.id]["ipAllocationPolicy"]["clusterIpv4CidrBlock"] = "10.4.0.0/17"
    again = engine.refresh(resource)
    assert again is not None
    assert unchanged(engine.diff(again, program))
    other = cluster(ipAllocationPolicy={"clusterIpv4CidrBlock": "/16"})
    assert list(engine.diff(again, other).replaces) == ["ipAllocationPolicy"]
