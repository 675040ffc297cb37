"""The requests equal those of the real plug-in, as recorded [facts real-provider.md]."""

from __future__ import annotations

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

COMPUTE = "/compute/v1/projects/p"
CLUSTERS = "/container/v1beta1/projects/p/locations/us-central1/clusters"
SERVICES = "/serviceusage/v1/projects/p/services"


def test_a_network_is_posted_and_read(engine: Engine, google: GoogleStub) -> None:
    engine.create(NETWORK, "net", network())
    assert google.lines == [
        f"POST {COMPUTE}/global/networks",
        f"GET {COMPUTE}/global/networks/net-1",
    ]
    assert google.bodies == [
        {
            "autoCreateSubnetworks": False,
            "mtu": 8244,
            "name": "net-1",
            "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        }
    ]


def test_a_subnetwork_is_posted_with_relative_links(engine: Engine, google: GoogleStub) -> None:
    engine.create(SUBNETWORK, "sub", subnetwork())
    assert google.lines == [
        f"POST {COMPUTE}/regions/us-central1/subnetworks",
        f"GET {COMPUTE}/regions/us-central1/subnetworks/sub-1",
    ]
    assert google.bodies == [
        {
            "ipCidrRange": "192.168.0.0/24",
            "logConfig": {"enable": False},
            "name": "sub-1",
            "network": "projects/p/global/networks/net-1",
            "region": "projects/p/global/regions/us-central1",
        }
    ]


def test_a_firewall_rule_is_posted_with_its_default_priority(
    engine: Engine, google: GoogleStub
) -> None:
    engine.create(FIREWALL, "fw", firewall())
    assert google.lines == [
        f"POST {COMPUTE}/global/firewalls",
        f"GET {COMPUTE}/global/firewalls/internal-1",
    ]
    assert google.bodies == [
        {
            "allowed": [
                {"IPProtocol": "tcp", "ports": ["0-65535"]},
                {"IPProtocol": "udp", "ports": ["0-65535"]},
                {"IPProtocol": "icmp"},
            ],
            "logConfig": {"enable": False},
            "name": "internal-1",
            "network": "projects/p/global/networks/net-1",
            "priority": 1000,
            "sourceRanges": ["192.168.0.0/16"],
        }
    ]


def test_a_service_that_is_on_costs_one_request(engine: Engine, google: GoogleStub) -> None:
    google.services.add("container.googleapis.com")
    made = engine.create(SERVICE, "gke", service())
    assert google.lines == [f"GET {SERVICES}"]
    assert made.id == "p/container.googleapis.com"


def test_a_service_that_is_off_is_enabled_and_looked_for(
    engine: Engine, google: GoogleStub
) -> None:
    engine.create(SERVICE, "gke", service())
    assert google.lines == [
        f"GET {SERVICES}",
        f"POST {SERVICES}/container.googleapis.com:enable",
        f"GET {SERVICES}",
        "GET /resourcemanager/v1/projects/p",
        f"GET {SERVICES}",
    ]
    assert google.bodies == [{}]
    query = google.requests[0].query
    assert query.pop("fields")
    assert query == {
        "alt": "json",
        "filter": "state:ENABLED",
        "pageSize": "200",
        "prettyPrint": "false",
    }


def test_an_autopilot_cluster_is_asked_for_as_recorded(engine: Engine, google: GoogleStub) -> None:
    engine.create(CLUSTER, "c", cluster())
    assert google.lines == [
        f"GET {CLUSTERS}/c",
        f"POST {CLUSTERS}",
        f"GET {CLUSTERS}/c",
        f"GET {CLUSTERS}/c",
    ]
    scopes = google.bodies[0]["cluster"]["nodeConfig"].pop("oauthScopes")
    assert len(scopes) == 6
    assert all(scope.startswith("https://www.googleapis.com/auth/") for scope in scopes)
    assert google.bodies == [
        {
            "cluster": {
                "autopilot": {
                    "enabled": True,
                    "workloadPolicyConfig": {"allowNetAdmin": True},
                },
                "binaryAuthorization": {"enabled": False},
                "controlPlaneEndpointsConfig": {
                    "dnsEndpointConfig": {
                        "allowExternalTraffic": False,
                        "enableK8sCertsViaDns": False,
                        "enableK8sTokensViaDns": False,
                    },
                    "ipEndpointsConfig": {
                        "authorizedNetworksConfig": {},
                        "enablePublicEndpoint": True,
                        "enabled": True,
                        "globalAccess": False,
                        "privateEndpointSubnetwork": "",
                    },
                },
                "legacyAbac": {"enabled": False},
                "maintenancePolicy": {"window": {}},
                "name": "c",
                "network": "projects/p/global/networks/net-1",
                "networkConfig": {
                    "enableIntraNodeVisibility": True,
                    "enableMultiNetworking": True,
                },
                "networkPolicy": {},
                "nodeConfig": {},
                "notificationConfig": {"pubsub": {}},
                "resourceLabels": {"goog-pulumi-provisioned": "true"},
                "shieldedNodes": {"enabled": True},
                "subnetwork": "projects/p/regions/us-central1/subnetworks/sub-1",
            }
        }
    ]


def test_empty_values_are_not_sent_but_where_they_mean_something(
    engine: Engine, google: GoogleStub
) -> None:
    engine.create(NETWORK, "net", network(description="", mtu=0, enableUlaInternalIpv6=False))
    assert sorted(google.bodies[0]) == [
        "autoCreateSubnetworks",
        "name",
        "networkFirewallPolicyEnforcementOrder",
    ]
    google.requests.clear()
    rule = firewall(priority=0, disabled=False, allows=[{"protocol": "icmp", "ports": []}])
    engine.create(FIREWALL, "fw", rule)
    assert google.bodies[0]["priority"] == 0
    assert google.bodies[0]["allowed"] == [{"IPProtocol": "icmp"}]
    assert "disabled" not in google.bodies[0]


def test_every_request_carries_the_token_and_asks_for_json(
    engine: Engine, google: GoogleStub
) -> None:
    engine.create(NETWORK, "net", network())
    engine.create(CLUSTER, "c", cluster())
    for request in google.requests:
        assert request.headers["Authorization"] == "Bearer anything"
        assert request.query["alt"] == "json"
        pretty = request.query.get("prettyPrint")
        assert pretty == (None if request.path.startswith("/compute/") else "false")


def test_a_second_up_sends_nothing_and_changes_nothing(engine: Engine, google: GoogleStub) -> None:
    program = _program()
    made = [engine.create(kind, name, inputs) for kind, name, inputs in program]
    google.take()
    for resource, (_, _, inputs) in zip(made, program, strict=True):
        diff = engine.diff(resource, inputs)
        assert unchanged(diff), (resource.type, detailed(diff))
    assert google.lines == []


def test_a_refresh_reads_each_resource_once_and_finds_no_change(
    engine: Engine, google: GoogleStub
) -> None:
    expected = {
        NETWORK: [f"GET {COMPUTE}/global/networks/net-1"],
        SUBNETWORK: [f"GET {COMPUTE}/regions/us-central1/subnetworks/sub-1"],
        FIREWALL: [f"GET {COMPUTE}/global/firewalls/internal-1"],
        SERVICE: ["GET /resourcemanager/v1/projects/p", f"GET {SERVICES}"],
        CLUSTER: [f"GET {CLUSTERS}/c"],
    }
    for kind, name, inputs in _program():
        resource = engine.create(kind, name, inputs)
        google.take()
        again = engine.refresh(resource)
        assert again is not None
        assert google.take() == expected[kind]
        assert again.outputs == resource.outputs
        assert again.inputs == resource.inputs
        assert unchanged(engine.diff(again, inputs))


def test_a_destroy_sends_one_delete_each_and_none_for_a_service(
    engine: Engine, google: GoogleStub
) -> None:
    expected = {
        NETWORK: [f"DELETE {COMPUTE}/global/networks/net-1"],
        SUBNETWORK: [f"DELETE {COMPUTE}/regions/us-central1/subnetworks/sub-1"],
        FIREWALL: [f"DELETE {COMPUTE}/global/firewalls/internal-1"],
        SERVICE: [],
        CLUSTER: [f"GET {CLUSTERS}/c", f"DELETE {CLUSTERS}/c"],
    }
    for kind, name, inputs in _program():
        resource = engine.create(kind, name, inputs)
        google.take()
        engine.delete(resource)
        assert google.take() == expected[kind]
    assert google.resources == {}
    assert google.services == {"container.googleapis.com"}


def test_a_new_mtu_is_patched_between_two_reads(engine: Engine, google: GoogleStub) -> None:
    resource = engine.create(NETWORK, "net", network())
    google.requests.clear()
    changed = engine.update(resource, network(mtu=1460))
    path = f"{COMPUTE}/global/networks/net-1"
    assert google.lines == [f"GET {path}", f"PATCH {path}", f"GET {path}"]
    assert google.bodies == [{"mtu": 1460}]
    assert changed.outputs["mtu"] == 1460


def test_a_wider_subnet_range_is_expanded_in_place(engine: Engine, google: GoogleStub) -> None:
    resource = engine.create(SUBNETWORK, "sub", subnetwork())
    google.requests.clear()
    engine.update(resource, subnetwork(ipCidrRange="192.168.0.0/20"))
    path = f"{COMPUTE}/regions/us-central1/subnetworks/sub-1"
    assert google.lines == [f"POST {path}/expandIpCidrRange", f"GET {path}"]
    assert google.bodies == [{"ipCidrRange": "192.168.0.0/20"}]


def test_a_changed_firewall_rule_is_patched_and_read(engine: Engine, google: GoogleStub) -> None:
    resource = engine.create(FIREWALL, "fw", firewall())
    google.requests.clear()
    engine.update(resource, firewall(sourceRanges=["10.0.0.0/8"]))
    path = f"{COMPUTE}/global/firewalls/internal-1"
    assert google.lines == [f"PATCH {path}", f"GET {path}"]
    assert google.bodies == [{"sourceRanges": ["10.0.0.0/8"]}]


def test_a_cluster_update_is_one_put_between_reads(engine: Engine, google: GoogleStub) -> None:
    resource = engine.create(CLUSTER, "c", cluster())
    google.requests.clear()
    engine.update(resource, cluster(enableMultiNetworking=False))
    path = f"{CLUSTERS}/c"
    assert google.lines == [f"GET {path}", f"PUT {path}", f"GET {path}", f"GET {path}"]
    assert google.bodies == [{"update": {"desiredEnableMultiNetworking": False}}]


def test_new_labels_go_to_their_own_method(engine: Engine, google: GoogleStub) -> None:
    resource = engine.create(CLUSTER, "c", cluster())
    google.requests.clear()
    changed = engine.update(resource, cluster(resourceLabels={"team": "a"}))
    path = f"{CLUSTERS}/c"
    assert google.lines == [
        f"GET {path}",
        f"POST {path}:setResourceLabels",
        f"GET {path}",
        f"GET {path}",
    ]
    labels = {"goog-pulumi-provisioned": "true", "team": "a"}
    assert google.bodies == [{"labelFingerprint": "a9dc16a7", "resourceLabels": labels}]
    assert changed.outputs["effectiveLabels"] == labels
    assert changed.outputs["resourceLabels"] == {"team": "a"}


def _program() -> list[tuple[str, str, dict[str, object]]]:
    return [
        (NETWORK, "net", network()),
        (SUBNETWORK, "sub", subnetwork()),
        (FIREWALL, "fw", firewall()),
        (SERVICE, "gke", service()),
        (CLUSTER, "c", cluster()),
    ]
