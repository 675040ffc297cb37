"""What the real provider plug-in sends, replayed, and what it needs in the answers.

The requests are those of facts real-provider.md (recorded from pulumi-resource-gcp 9.35), in its
order and with its paths and bodies; `must_hold` is its list of fields without which the plug-in
panics, plans a replacement or plans an update.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.cloud.registry import ENDPOINTS
from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Client

NUMBERS = range(1, 9)
COMPUTE = f"/compute/v1/projects/{PROJECT}"
GLOBAL, REGIONAL = f"{COMPUTE}/global", f"{COMPUTE}/regions/{REGION}"
CONTAINER = f"/container/v1beta1/projects/{PROJECT}/locations/{REGION}"
CLUSTERS = f"{CONTAINER}/clusters"
USAGE = f"/serviceusage/v1/projects/{PROJECT}/services"
FIELDS = "services/name,nextPageToken"
LIST = f"{USAGE}?fields={FIELDS}&filter=state:ENABLED&pageSize=200&prettyPrint=false"
SCOPES = [
    f"https://www.googleapis.com/auth/{scope}"
    for scope in (
        "devstorage.read_only",
        "logging.write",
        "monitoring",
        "service.management.readonly",
        "servicecontrol",
        "trace.append",
    )
]


def network_body(number: int) -> dict[str, Any]:
    return {
        "autoCreateSubnetworks": False,
        "mtu": 8244,
        "name": f"dev-net-{number}",
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
    }


def subnetwork_body(number: int) -> dict[str, Any]:
    return {
        "ipCidrRange": f"192.168.{number}.0/24",
        "logConfig": {"enable": False},
        "name": f"dev-sub-{number}",
        "network": f"projects/{PROJECT}/global/networks/dev-net-{number}",
        # The plug-in really writes the region below `global`.
        "region": f"projects/{PROJECT}/global/regions/{REGION}",
    }


def firewall_body(number: int) -> dict[str, Any]:
    return {
        "allowed": [
            {"IPProtocol": "tcp", "ports": ["0-65535"]},
            {"IPProtocol": "udp", "ports": ["0-65535"]},
            {"IPProtocol": "icmp"},
        ],
        "logConfig": {"enable": False},
        "name": f"dev-internal-{number}",
        "network": f"projects/{PROJECT}/global/networks/dev-net-{number}",
        "priority": 1000,
        "sourceRanges": ["192.168.0.0/17"],
    }


CLUSTER_BODY: dict[str, Any] = {
    "cluster": {
        "autopilot": {"enabled": True, "workloadPolicyConfig": {"allowNetAdmin": True}},
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
        "name": "dev-cluster",
        "network": f"projects/{PROJECT}/global/networks/default",
        "networkConfig": {"enableIntraNodeVisibility": True, "enableMultiNetworking": True},
        "networkPolicy": {},
        "nodeConfig": {"oauthScopes": SCOPES},
        "notificationConfig": {"pubsub": {}},
        "resourceLabels": {"goog-pulumi-provisioned": "true"},
        "shieldedNodes": {"enabled": True},
        "subnetwork": f"projects/{PROJECT}/regions/{REGION}/subnetworks/default",
    }
}


class PlugIn:
    """Sends as the plug-in does and notes which endpoints it has reached."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        answer = self.client.send(method, f"{path}{'&' if '?' in path else '?'}alt=json", body)
        return answer.status_code, answer.json()

    def ok(self, method: str, path: str, body: object = None) -> Any:
        status, answer = self.send(method, path, body)
        assert status == 200, answer
        return answer

    def wait(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Poll an operation where the plug-in polls it, until it is done."""
        name = operation["name"]
        while operation.get("status") != "DONE" and not operation.get("done"):
            self.client.settle_all_but()
            if name.startswith("operations/"):
                operation = self.ok("GET", f"/serviceusage/v1/{name}")
            elif "zone" in operation:
                operation = self.ok("GET", f"{CONTAINER}/operations/{name}")
            else:
                scope = REGIONAL if "region" in operation else GLOBAL
                operation = self.ok("GET", f"{scope}/operations/{name}")
        assert not operation.get("error")
        assert not operation.get("statusMessage")
        return operation

    def create(self, collection: str, body: dict[str, Any]) -> dict[str, Any]:
        operation = self.ok("POST", collection, body)
        assert operation["name"]
        assert operation["status"]
        self.wait(operation)
        name = (body.get("cluster") or body)["name"]
        read: dict[str, Any] = self.ok("GET", f"{collection}/{name}")
        return read

    def enable(self, service: str) -> None:
        """Enable one service: list, enable, list until it is there, project, list."""
        if f"/services/{service}" not in str(self.ok("GET", LIST)):
            operation = self.ok("POST", f"{USAGE}/{service}:enable", {})
            assert self.wait(operation)["done"] is True
            assert f"/services/{service}" in str(self.ok("GET", LIST))
            assert self.ok("GET", f"/resourcemanager/v1/projects/{PROJECT}")["projectNumber"]
        listed = self.ok("GET", LIST)["services"]
        assert any(entry["name"].endswith(f"/services/{service}") for entry in listed)

    def up(self) -> None:
        for service in ("compute.googleapis.com", "container.googleapis.com"):
            self.enable(service)
        for number in NUMBERS:
            must_hold_network(self.create(f"{GLOBAL}/networks", network_body(number)), number)
            read = self.create(f"{REGIONAL}/subnetworks", subnetwork_body(number))
            must_hold_subnetwork(read, number)
            must_hold_firewall(self.create(f"{GLOBAL}/firewalls", firewall_body(number)), number)
        assert self.send("GET", f"{CLUSTERS}/dev-cluster")[0] == 404
        must_hold_cluster(self.create(CLUSTERS, CLUSTER_BODY))

    def destroy(self) -> None:
        assert self.ok("GET", f"{CLUSTERS}/dev-cluster")["status"] == "RUNNING"
        self.wait(self.ok("DELETE", f"{CLUSTERS}/dev-cluster"))
        for number in NUMBERS:
            self.wait(self.ok("DELETE", f"{GLOBAL}/firewalls/dev-internal-{number}"))
            self.wait(self.ok("DELETE", f"{REGIONAL}/subnetworks/dev-sub-{number}"))
            self.wait(self.ok("DELETE", f"{GLOBAL}/networks/dev-net-{number}"))

    def refresh(self) -> None:
        for number in NUMBERS:
            must_hold_network(self.ok("GET", f"{GLOBAL}/networks/dev-net-{number}"), number)
            read = self.ok("GET", f"{REGIONAL}/subnetworks/dev-sub-{number}")
            must_hold_subnetwork(read, number)
            read = self.ok("GET", f"{GLOBAL}/firewalls/dev-internal-{number}")
            must_hold_firewall(read, number)
        self.enable("container.googleapis.com")
        must_hold_cluster(self.ok("GET", f"{CLUSTERS}/dev-cluster"))


def must_hold_network(read: dict[str, Any], number: int) -> None:
    sent = network_body(number)
    assert {key: read[key] for key in sent} == sent
    assert read["kind"] == "compute#network"
    assert read["id"].isdecimal()
    assert read["creationTimestamp"]
    assert read["routingConfig"]["routingMode"] == "REGIONAL"
    assert "gatewayIPv4" not in read
    assert read["selfLink"].endswith(
        f"/compute/v1/projects/{PROJECT}/global/networks/dev-net-{number}"
    )


def must_hold_subnetwork(read: dict[str, Any], number: int) -> None:
    base = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"
    assert read["name"] == f"dev-sub-{number}"
    assert read["ipCidrRange"] == f"192.168.{number}.0/24"
    assert read["network"] == f"{base}/global/networks/dev-net-{number}"
    assert read["region"] == f"{base}/regions/{REGION}"
    assert read["gatewayAddress"] == f"192.168.{number}.1"
    assert read["logConfig"]["enable"] is False


def must_hold_firewall(read: dict[str, Any], number: int) -> None:
    sent = {key: value for key, value in firewall_body(number).items() if key != "network"}
    assert {key: read[key] for key in sent} == sent
    assert read["network"].endswith(f"/projects/{PROJECT}/global/networks/dev-net-{number}")
    assert read["direction"] == "INGRESS"


def must_hold_cluster(read: dict[str, Any]) -> None:
    """Check all that makes the plug-in panic, replace, update or wait when it is missing."""
    assert read["name"] == "dev-cluster"
    assert read["status"] == "RUNNING"
    assert read["location"] == REGION
    assert read["endpoint"]
    assert read["masterAuth"]["clusterCaCertificate"].startswith("LS0tLS1CRUdJTi")
    assert read["legacyAbac"] == {"enabled": False}
    config = read["networkConfig"]
    assert config["network"] == f"projects/{PROJECT}/global/networks/default"
    assert config["subnetwork"] == f"projects/{PROJECT}/regions/{REGION}/subnetworks/default"
    assert config["enableMultiNetworking"] is True
    assert config["enableIntraNodeVisibility"] is True
    sent = CLUSTER_BODY["cluster"]
    addresses = read["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    wanted = sent["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    assert {key: addresses[key] for key in wanted} == wanted
    assert read["autopilot"] == sent["autopilot"]
    assert read["binaryAuthorization"] == {"enabled": False}
    assert read["notificationConfig"] == {"pubsub": {}}
    assert read["resourceLabels"] == {"goog-pulumi-provisioned": "true"}
    assert read["maintenancePolicy"]["window"] == {}
    assert "initialNodeCount" not in read
    assert "nodePools" not in read
    assert read["currentMasterVersion"]
    assert read["currentNodeVersion"]


@pytest.fixture(params=[False, True], ids=["done at once", "pending first"])
def plug_in(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PlugIn]:
    with Client(tmp_path / "cloud.db", enabled=False) as client:
        client.admin("PUT", "settings", {"pendingFirst": request.param})
        yield PlugIn(client)


@proves("clusters.must-hold")
def test_up_refresh_and_destroy_as_recorded(plug_in: PlugIn) -> None:
    plug_in.up()
    before = plug_in.client.admin("GET", "resources?all=true")
    plug_in.refresh()
    assert plug_in.client.admin("GET", "resources?all=true") == before
    plug_in.destroy()
    assert plug_in.client.admin("GET", "resources") == {"resources": []}
    assert plug_in.send("GET", f"{CLUSTERS}/dev-cluster")[0] == 404
    assert plug_in.send("DELETE", f"{GLOBAL}/networks/dev-net-1")[0] == 404


@proves("clusters.net-admin-in-place")
def test_updates_as_recorded(plug_in: PlugIn) -> None:
    plug_in.up()
    path = f"{GLOBAL}/networks/dev-net-1"
    plug_in.ok("GET", path)
    plug_in.wait(plug_in.ok("PATCH", path, {"mtu": 8896}))
    assert plug_in.ok("GET", path)["mtu"] == 8896

    path = f"{REGIONAL}/subnetworks/dev-sub-1"
    wanted = {"ipCidrRange": "192.168.0.0/23"}
    plug_in.wait(plug_in.ok("POST", f"{path}/expandIpCidrRange", wanted))
    assert plug_in.ok("GET", path)["ipCidrRange"] == "192.168.0.0/23"

    path = f"{GLOBAL}/firewalls/dev-internal-1"
    changed = {**firewall_body(1), "sourceRanges": ["10.0.0.0/8"]}
    plug_in.wait(plug_in.ok("PATCH", path, changed))
    assert plug_in.ok("GET", path)["sourceRanges"] == ["10.0.0.0/8"]

    path = f"{CLUSTERS}/dev-cluster"
    plug_in.ok("GET", path)
    denied = {"allowNetAdmin": False}
    update = {"update": {"desiredAutopilotWorkloadPolicyConfig": denied}}
    plug_in.wait(plug_in.ok("PUT", path, update))
    read = plug_in.ok("GET", path)
    assert read["autopilot"]["workloadPolicyConfig"] == denied
    labels = {
        "labelFingerprint": read["labelFingerprint"],
        "resourceLabels": {"goog-pulumi-provisioned": "true", "team": "a"},
    }
    plug_in.wait(plug_in.ok("POST", f"{path}:setResourceLabels", labels))
    assert plug_in.ok("GET", path)["resourceLabels"] == labels["resourceLabels"]


@proves("clusters.exists", "networks.quota")
def test_errors_have_the_shape_that_the_plug_in_prints(plug_in: PlugIn) -> None:
    plug_in.up()
    plug_in.client.admin("PUT", f"projects/{PROJECT}", {"quotas": {"NETWORKS": 5}})

    status, answer = plug_in.send("POST", CLUSTERS, CLUSTER_BODY)
    error = answer["error"]
    where = f"projects/{PROJECT}/locations/{REGION}/clusters/dev-cluster"
    assert (status, error["code"], error["status"]) == (409, 409, "ALREADY_EXISTS")
    assert error["errors"] == [
        {"reason": "alreadyExists", "domain": "global", "message": f"Already exists: {where}."}
    ]

    operation = plug_in.ok("POST", f"{GLOBAL}/networks", network_body(9))
    plug_in.client.settle()
    operation = plug_in.ok("GET", f"{GLOBAL}/operations/{operation['name']}")
    message = operation["error"]["errors"][0]["message"]
    assert message.startswith("Quota 'NETWORKS' exceeded.  Limit: 5.0 globally.")

    denied = {
        "path": "/networks$",
        "method": "POST",
        "status": 403,
        "reason": "forbidden",
        "message": "Required 'compute.networks.create' permission for 'x'",
    }
    plug_in.client.admin("PUT", "faults/denied", denied)
    status, answer = plug_in.send("POST", f"{GLOBAL}/networks", network_body(9))
    assert (status, answer["error"]["errors"][0]["reason"]) == (403, "forbidden")


@proves("clusters.error")
def test_a_cluster_that_failed_can_be_read_with_its_reason(plug_in: PlugIn) -> None:
    for service in ("compute.googleapis.com", "container.googleapis.com"):
        plug_in.enable(service)
    plug_in.client.runtime.failure = "no room left"
    operation = plug_in.ok("POST", CLUSTERS, CLUSTER_BODY)
    plug_in.client.settle()
    done = plug_in.ok("GET", f"{CONTAINER}/operations/{operation['name']}")
    assert (done["status"], done["statusMessage"]) == ("DONE", "no room left")
    read = plug_in.ok("GET", f"{CLUSTERS}/dev-cluster")
    assert (read["status"], read["statusMessage"]) == ("ERROR", "no room left")


def test_the_registry_names_the_plug_in_where_its_traffic_was_replayed(tmp_path: Path) -> None:
    with Client(tmp_path / "cloud.db", enabled=False) as client:
        client.admin("PUT", "settings", {"pendingFirst": True})
        test_updates_as_recorded(PlugIn(client))
        PlugIn(client).destroy()
        reached = {entry["endpoint"] for entry in client.admin("GET", "requests")["requests"]}
    named = {known.id for known in ENDPOINTS if "provider" in known.judges}
    assert named == reached
