"""Clusters [facts google-cloud.md §6]."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tests.cloud.proofs import proves
from tests.cloud.stand_in import (
    AUTOPILOT,
    CERTIFICATE,
    PROJECT,
    REGION,
    Client,
    clusters,
    compute,
    locations,
)


def refused(client: Client, location: str = REGION, **fields: Any) -> str:
    """Return the message of a create that must be refused with 400 and leave nothing."""
    before = client.admin("GET", "resources?all=true")
    status, reason, message = client.refused(
        "POST", clusters(location=location), {"cluster": {**AUTOPILOT, **fields}}
    )
    assert (status, reason) == (400, "badRequest")
    assert client.admin("GET", "resources?all=true") == before
    return message


@proves("clusters.name")
@pytest.mark.parametrize("name", ["", "a" * 41, "Upper", "1a", "a-", "a_b"])
def test_a_bad_name_is_refused(client: Client, name: str) -> None:
    assert f'"{name}"' in refused(client, name=name)


@proves("clusters.name")
def test_a_name_of_40_characters_is_fine(client: Client) -> None:
    assert client.cluster(name="a" * 40)["status"] == "RUNNING"


@proves("clusters.regional")
def test_an_autopilot_cluster_must_be_regional(client: Client) -> None:
    status, answer = client.request(
        "POST", clusters(location="us-central1-a"), {"cluster": AUTOPILOT}
    )
    assert status == 400
    assert answer["error"]["message"] == "Autopilot clusters must be regional clusters."
    detail = answer["error"]["details"][0]
    assert detail["@type"] == "type.googleapis.com/google.rpc.RequestInfo"
    assert re.fullmatch(r"0x[0-9a-f]{16}", detail["requestId"])


@proves("clusters.location")
def test_an_unknown_location_does_not_exist(client: Client) -> None:
    expected = (400, "badRequest", 'Location "wonderland" does not exist.')
    create = {"cluster": AUTOPILOT}
    assert client.refused("POST", clusters(location="wonderland"), create) == expected
    assert client.refused("GET", f"{locations('wonderland')}/serverConfig") == expected
    assert client.refused("GET", clusters(location="wonderland")) == expected
    assert client.refused("GET", clusters("demo", "wonderland")) == expected
    assert client.refused("DELETE", clusters("demo", "wonderland")) == expected


def test_s3ns_serves_gke_at_the_region_only(client: Client) -> None:
    project = "s3ns:trusted"
    client.enable(project)
    client.ok("GET", f"{locations('u-france-east1', project)}/serverConfig")
    status, _, message = client.refused(
        "GET", f"{locations('u-france-east1-a', project)}/serverConfig"
    )
    assert (status, message) == (400, 'Location "u-france-east1-a" does not exist.')


@proves("clusters.exists")
def test_a_second_create_answers_409(client: Client) -> None:
    client.cluster()
    assert client.refused("POST", clusters(), {"cluster": AUTOPILOT}) == (
        409,
        "alreadyExists",
        f"Already exists: projects/{PROJECT}/locations/{REGION}/clusters/demo.",
    )


@proves("clusters.version-exact", "clusters.version-prefix", "clusters.version-channel")
@pytest.mark.parametrize(
    ("version", "channel", "message"),
    [
        ("1.25.16-gke.1041000", None, 'Master version "1.25.16-gke.1041000" is unsupported.'),
        ("v1.35.8-gke.1036000", None, 'Master version "v1.35.8-gke.1036000" is unsupported.'),
        ("1.24", None, 'No valid versions with the prefix "1.24" found.'),
        ("1.3", None, 'No valid versions with the prefix "1.3" found.'),
        (
            "1.36.4-gke.1391000",
            "STABLE",
            'Master version must be one of "STABLE" channel supported versions '
            "[1.35.6-gke.1710000, 1.34.9-gke.1322001, 1.34.8-gke.1000000].",
        ),
    ],
)
def test_a_version_that_is_not_offered_is_refused(
    client: Client, version: str, channel: str | None, message: str
) -> None:
    chosen: dict[str, Any] = {"releaseChannel": {"channel": channel}} if channel else {}
    assert refused(client, initialClusterVersion=version, **chosen) == message


@proves("clusters.version-exact", "clusters.version-prefix", "clusters.channel")
@pytest.mark.parametrize(
    ("version", "channel", "expected"),
    [
        ("", "", "1.35.8-gke.1036000"),
        ("-", "STABLE", "1.34.8-gke.1000000"),
        ("latest", "STABLE", "1.35.6-gke.1710000"),
        ("latest", "RAPID", "1.36.4-gke.1391000"),
        ("1.34", "REGULAR", "1.34.9-gke.1322001"),
        ("1.35.6", "", "1.35.6-gke.1710000"),
        ("1.31", "EXTENDED", "1.31.14-gke.1081000"),
        ("1.34.8-gke.1000000", "", "1.34.8-gke.1000000"),
    ],
)
def test_a_version_becomes_an_exact_one(
    client: Client, version: str, channel: str, expected: str
) -> None:
    cluster = client.cluster(initialClusterVersion=version, releaseChannel={"channel": channel})
    assert cluster["currentMasterVersion"] == expected
    assert cluster["currentNodeVersion"] == expected
    assert cluster["releaseChannel"] == {"channel": channel or "REGULAR"}


@proves("clusters.version-order")
def test_versions_are_listed_newest_first_by_numbers(client: Client) -> None:
    config = client.ok("GET", f"{locations()}/serverConfig")
    versions = config["validMasterVersions"]
    assert versions[0] == "1.36.4-gke.1391000"
    keys = [[int(number) for number in re.findall(r"\d+", version)] for version in versions]
    assert keys == sorted(keys, reverse=True)
    assert versions == config["validNodeVersions"]
    assert config["defaultClusterVersion"] == "1.35.8-gke.1036000"
    channels = {channel["channel"]: channel for channel in config["channels"]}
    assert channels.keys() == {"RAPID", "REGULAR", "STABLE", "EXTENDED"}
    for channel in channels.values():
        assert channel["defaultVersion"] in channel["validVersions"]


@proves("clusters.channel")
def test_autopilot_must_be_in_a_channel(client: Client) -> None:
    assert "release channel" in refused(client, releaseChannel={"channel": "UNSPECIFIED"})


@proves("clusters.network-policy", "clusters.datapath", "clusters.autopilot-only")
def test_what_autopilot_cannot_have_is_refused(client: Client) -> None:
    assert refused(client, networkPolicy={"enabled": True}) == (
        "Enabling NetworkPolicy for clusters with DatapathProvider=ADVANCED_DATAPATH is not "
        "allowed."
    )
    legacy = {"datapathProvider": "LEGACY_DATAPATH"}
    assert "ADVANCED_DATAPATH" in refused(client, networkConfig=legacy)
    assert "autopilot" in refused(client, autopilot={"enabled": False}).lower()
    assert "legacyAbac" in refused(client, legacyAbac={"enabled": True})
    assert "enableKubernetesAlpha" in refused(client, enableKubernetesAlpha=True)
    assert "us-east4-a" in refused(client, locations=["us-east4-a"])
    made = {"createSubnetwork": True, "subnetworkName": "x"}
    assert "makes no subnetwork" in refused(client, ipAllocationPolicy=made)


@proves("clusters.network")
def test_an_unknown_network_is_refused(client: Client) -> None:
    expected = f'Project "{PROJECT}" has no network named "nope".'
    assert refused(client, network="nope") == expected
    assert refused(client, network=f"projects/{PROJECT}/global/networks/nope") == expected
    assert "no network named" in refused(client, network="projects/other/global/networks/n")


@proves("clusters.network")
def test_a_project_without_default_network_needs_one_named(client: Client) -> None:
    client.admin("PUT", "projects/bare-project", {"defaultNetwork": False})
    client.enable("bare-project")
    path = clusters(project="bare-project")
    message = client.refused("POST", path, {"cluster": AUTOPILOT})[2]
    assert message == 'Project "bare-project" has no network named "default".'


@proves("clusters.subnetwork")
def test_the_subnetwork_must_be_of_the_network(client: Client) -> None:
    client.network("n")
    client.network("m")
    client.subnetwork("s", "m", "10.0.0.0/24")
    link = f"projects/{PROJECT}/regions/{REGION}/subnetworks/s"
    expected = f'Subnetwork "{link}" is not valid for Network "n".'
    assert refused(client, network="n", subnetwork=link) == expected
    assert refused(client, network="n", subnetwork="s") == expected
    assert "not found" in refused(client, network="n", subnetwork="nope")
    assert "requires a subnetwork" in refused(client, network="n")
    client.subnetwork("far", "n", "10.0.0.0/24", region="us-east4")
    far = f"projects/{PROJECT}/regions/us-east4/subnetworks/far"
    assert "not found" in refused(client, network="n", subnetwork=far)


@proves("clusters.secondary-range")
def test_a_named_secondary_range_must_exist(client: Client) -> None:
    client.network("n")
    ranges = [
        {"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"},
        {"rangeName": "services", "ipCidrRange": "10.16.0.0/20"},
    ]
    client.subnetwork("s", "n", "10.0.0.0/24", secondaryIpRanges=ranges)
    where = {"network": "n", "subnetwork": "s"}
    policy = {"clusterSecondaryRangeName": "nope"}
    assert refused(client, **where, ipAllocationPolicy=policy) == (
        'Pod secondary range "nope" not found in network "https://www.googleapis.com/compute/v1/'
        f'projects/{PROJECT}/global/networks/n", subnetwork "s".'
    )
    policy = {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"}
    cluster = client.cluster(**where, ipAllocationPolicy=policy)
    assert cluster["clusterIpv4Cidr"] == "10.8.0.0/14"
    assert cluster["servicesIpv4Cidr"] == "10.16.0.0/20"
    client.ok("DELETE", clusters("demo"))
    client.settle()
    read = client.compute("GET", f"regions/{REGION}/subnetworks/s")
    assert read["secondaryIpRanges"] == ranges


@proves("clusters.ranges")
def test_pods_get_a_range_of_their_own_and_services_googles(client: Client) -> None:
    cluster = client.cluster()
    digest = cluster["id"][:8]
    policy = cluster["ipAllocationPolicy"]
    assert policy["clusterSecondaryRangeName"] == f"gke-demo-pods-{digest}"
    assert policy["clusterIpv4CidrBlock"] == cluster["clusterIpv4Cidr"] == "10.0.0.0/17"
    assert policy["servicesIpv4CidrBlock"] == cluster["servicesIpv4Cidr"] == "34.118.224.0/20"
    assert "servicesSecondaryRangeName" not in policy
    read = client.compute("GET", f"regions/{REGION}/subnetworks/default")
    expected = [{"rangeName": f"gke-demo-pods-{digest}", "ipCidrRange": "10.0.0.0/17"}]
    assert read["secondaryIpRanges"] == expected
    second = client.cluster(name="second")
    assert second["clusterIpv4Cidr"] == "10.0.128.0/17"
    for name in ("demo", "second"):
        client.ok("DELETE", clusters(name))
    client.settle()
    read = client.compute("GET", f"regions/{REGION}/subnetworks/default")
    assert "secondaryIpRanges" not in read


@proves("clusters.ranges")
def test_ranges_can_be_asked_for_by_size_or_by_address(client: Client) -> None:
    policy = {"clusterIpv4CidrBlock": "/20", "servicesIpv4CidrBlock": "172.20.0.0/20"}
    cluster = client.cluster(ipAllocationPolicy=policy)
    assert cluster["clusterIpv4Cidr"] == "10.0.0.0/20"
    assert cluster["servicesIpv4Cidr"] == "172.20.0.0/20"
    name = cluster["ipAllocationPolicy"]["servicesSecondaryRangeName"]
    assert name == f"gke-demo-services-{cluster['id'][:8]}"


@proves("clusters.range-overlap")
@pytest.mark.parametrize(
    "policy",
    [
        {"clusterIpv4CidrBlock": "10.128.0.0/17"},
        {"clusterIpv4CidrBlock": "10.0.0.1/17"},
        {"clusterIpv4CidrBlock": "/8"},
        {"clusterIpv4CidrBlock": "x"},
        {"clusterIpv4CidrBlock": "10.64.0.0/14", "servicesIpv4CidrBlock": "10.64.0.0/20"},
    ],
)
def test_a_range_that_is_taken_or_none_is_refused(client: Client, policy: dict[str, str]) -> None:
    assert "address range" in refused(client, ipAllocationPolicy=policy)


@proves("clusters.firewalls")
def test_gkes_rules_come_and_go_with_the_cluster(client: Client) -> None:
    client.network("n")
    client.subnetwork("s", "n", "10.0.0.0/24")
    cluster = client.cluster(network="n", subnetwork="s")
    prefix = f"gke-demo-{cluster['id'][:8]}"
    rules = {
        rule["name"]: rule
        for rule in client.compute("GET", 'global/firewalls?filter=name eq "gke-.*"')["items"]
    }
    assert rules.keys() == {f"{prefix}-{use}" for use in ("all", "vms", "inkubelet", "exkubelet")}
    for rule in rules.values():
        assert rule["network"].endswith("/global/networks/n")
        assert rule["targetTags"] == [f"{prefix}-node"]
    assert rules[f"{prefix}-exkubelet"]["denied"] == [{"IPProtocol": "tcp", "ports": ["10255"]}]
    assert rules[f"{prefix}-all"]["sourceRanges"] == [cluster["clusterIpv4Cidr"]]
    client.ok("DELETE", clusters("demo"))
    client.settle()
    assert "items" not in client.compute("GET", 'global/firewalls?filter=name eq "gke-.*"')


@proves("clusters.hold-subnetwork")
def test_a_cluster_keeps_its_subnetwork_until_it_is_gone(client: Client) -> None:
    client.network("n")
    client.subnetwork("s", "n", "10.0.0.0/24")
    client.cluster(network="n", subnetwork="s")
    path = compute(f"regions/{REGION}/subnetworks/s")
    assert client.refused("DELETE", path)[1] == "resourceInUseByAnotherResource"
    client.ok("DELETE", clusters("demo"))
    client.settle()
    client.ok("DELETE", path)
    assert "error" not in client.compute("DELETE", "global/networks/n")


@proves("clusters.no-gpu-quota")
def test_gpu_quota_is_not_looked_at(client: Client) -> None:
    client.admin("PUT", f"projects/{PROJECT}", {"quotas": {"NVIDIA_H100_MEGA_GPUS": 0}})
    assert client.cluster()["status"] == "RUNNING"


@proves("clusters.links")
def test_links_are_relative_and_the_endpoint_is_what_the_runtime_said(client: Client) -> None:
    cluster = client.cluster(
        network=f"http://127.0.0.1:9/compute/v1/projects/{PROJECT}/global/networks/default"
    )
    config = cluster["networkConfig"]
    assert config["network"] == f"projects/{PROJECT}/global/networks/default"
    assert config["subnetwork"] == f"projects/{PROJECT}/regions/{REGION}/subnetworks/default"
    assert (cluster["network"], cluster["subnetwork"]) == ("default", "default")
    where = f"projects/{PROJECT}/locations/{REGION}/clusters/demo"
    assert cluster["selfLink"] == f"https://container.googleapis.com/v1beta1/{where}"
    assert (
        client.ok("GET", f"/v1/{where}")["selfLink"]
        == f"https://container.googleapis.com/v1/{where}"
    )
    assert cluster["endpoint"] == "127.0.0.1:40001"
    certificate = base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"]).decode()
    assert certificate == CERTIFICATE


@proves("clusters.autopilot-read-back")
def test_autopilots_own_values_read_back(client: Client) -> None:
    cluster = client.cluster(
        shieldedNodes={"enabled": False}, nodeConfig={"oauthScopes": ["https://x/devstorage"]}
    )
    config = cluster["networkConfig"]
    assert cluster["autopilot"]["enabled"] is True
    assert cluster["autopilot"]["workloadPolicyConfig"] == {"allowNetAdmin": True}
    assert cluster["shieldedNodes"] == {"enabled": True}
    assert config["enableIntraNodeVisibility"] is True
    assert config["enableMultiNetworking"] is True
    assert config["datapathProvider"] == "ADVANCED_DATAPATH"
    assert config["dnsConfig"]["clusterDns"] == "CLOUD_DNS"
    assert cluster["verticalPodAutoscaling"] == {"enabled": True}
    assert cluster["workloadIdentityConfig"] == {"workloadPool": f"{PROJECT}.svc.id.goog"}
    assert cluster["autoscaling"]["enableNodeAutoprovisioning"] is True
    assert cluster["nodeConfig"]["oauthScopes"] == [
        "https://www.googleapis.com/auth/cloud-platform"
    ]
    assert cluster["locations"] == ["us-central1-a", "us-central1-b", "us-central1-c"]


@proves("clusters.must-hold")
def test_a_cluster_of_another_client_holds_what_the_provider_needs(client: Client) -> None:
    account = "nodes@sandbox-project.iam.gserviceaccount.com"
    pools = [{"name": "default-pool", "initialNodeCount": 1, "config": {"serviceAccount": account}}]
    cluster = client.cluster(nodePools=pools, initialNodeCount=1)
    assert not cluster.keys() & {"initialNodeCount", "nodePools"}
    assert cluster["nodeConfig"]["serviceAccount"] == account
    assert cluster["legacyAbac"] == {"enabled": False}
    assert cluster["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]["enabled"] is True


@proves("clusters.labels")
def test_labels_have_a_fingerprint(client: Client) -> None:
    assert client.cluster()["labelFingerprint"] == "a9dc16a7"
    labelled = client.cluster(name="labelled", resourceLabels={"a": "b"})
    assert labelled["labelFingerprint"] != "a9dc16a7"
    assert labelled["resourceLabels"] == {"a": "b"}


@proves("clusters.error")
def test_a_control_plane_that_fails_leaves_a_cluster_in_error(client: Client) -> None:
    client.runtime.failure = "etcd did not start: port taken"
    operation = client.ok("POST", clusters(), {"cluster": AUTOPILOT})
    client.settle()
    cluster = client.ok("GET", clusters("demo"))
    assert cluster["status"] == "ERROR"
    assert cluster["statusMessage"] == "etcd did not start: port taken"
    done = client.ok("GET", f"{locations()}/operations/{operation['name']}")
    assert done["statusMessage"] == "etcd did not start: port taken"
    client.runtime.failure = None
    client.ok("DELETE", clusters("demo"))
    client.settle()
    assert client.admin("GET", "resources")["resources"] == []


@proves("container-operations.error")
def test_an_operation_without_a_failure_has_no_status_message(client: Client) -> None:
    operation = client.ok("POST", clusters(), {"cluster": AUTOPILOT})
    assert operation["operationType"] == "CREATE_CLUSTER"
    assert operation["status"] in ("PENDING", "RUNNING")
    client.settle()
    done = client.ok("GET", f"{locations()}/operations/{operation['name']}")
    assert done["status"] == "DONE"
    assert "statusMessage" not in done
    assert "error" not in done
    client.runtime.failure = "no"
    failing = client.ok("POST", clusters(), {"cluster": {**AUTOPILOT, "name": "bad"}})
    client.settle()
    failed = client.ok("GET", f"{locations()}/operations/{failing['name']}")
    assert failed["error"] == {"code": 13, "message": "no"}
    assert failed["statusMessage"] == "no"
    listed = client.ok("GET", f"{locations('-')}/operations")["operations"]
    assert [entry["name"] for entry in listed] == [operation["name"], failing["name"]]
    cancel = f"{locations()}/operations/{failing['name']}:cancel"
    assert client.refused("POST", cancel, {})[1] == "failedPrecondition"
    assert client.refused("GET", f"{locations('us-east4')}/operations/{failing['name']}")[0] == 404


@proves("clusters.busy")
def test_one_operation_at_a_time_per_cluster(client: Client) -> None:
    client.hold_runtime()
    operation = client.ok("POST", clusters(), {"cluster": AUTOPILOT})
    assert client.ok("GET", clusters("demo"))["status"] == "PROVISIONING"
    for method, path, body in (
        ("DELETE", clusters("demo"), None),
        ("PUT", clusters("demo"), {"update": {"desiredMasterVersion": "latest"}}),
    ):
        assert client.refused(method, path, body) == (
            400,
            "failedPrecondition",
            f"Cluster is running incompatible operation {operation['name']}.",
        )
    client.release_runtime()
    client.settle()
    assert client.ok("GET", clusters("demo"))["status"] == "RUNNING"


def test_clusters_are_listed_per_location_and_over_all(client: Client) -> None:
    assert client.ok("GET", clusters(location="-")) == {}
    client.cluster()
    assert [c["name"] for c in client.ok("GET", clusters(location="-"))["clusters"]] == ["demo"]
    assert [c["name"] for c in client.ok("GET", clusters())["clusters"]] == ["demo"]
    assert client.ok("GET", clusters(location="us-east4")) == {}
    assert client.refused("GET", clusters("nope")) == (
        404,
        "notFound",
        f"Not found: projects/{PROJECT}/locations/{REGION}/clusters/nope.",
    )


def test_private_nodes_and_authorized_networks_read_back_in_both_places(client: Client) -> None:
    networks = {"enabled": True, "cidrBlocks": [{"cidrBlock": "10.0.0.0/8"}]}
    cluster = client.cluster(
        privateClusterConfig={"enablePrivateNodes": True, "enablePrivateEndpoint": True},
        masterAuthorizedNetworksConfig=networks,
    )
    addresses = cluster["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    assert cluster["networkConfig"]["defaultEnablePrivateNodes"] is True
    assert addresses["enablePublicEndpoint"] is False
    assert "publicEndpoint" not in addresses
    assert addresses["authorizedNetworksConfig"] == networks
    assert cluster["masterAuthorizedNetworksConfig"] == networks


@proves("clusters.label-form")
@pytest.mark.parametrize(
    "labels", [{"Team": "a"}, {"team": "A b"}, {"1": "a"}, {"a" * 64: "b"}, {"a": "b" * 64}]
)
def test_a_label_has_a_form(client: Client, labels: dict[str, str]) -> None:
    assert f'"{next(iter(labels))}"' in refused(client, resourceLabels=labels)


@proves("clusters.label-form")
def test_at_most_64_labels(client: Client) -> None:
    labels = {f"k{number}": "v" for number in range(65)}
    assert "64" in refused(client, resourceLabels=labels)


@proves("clusters.control-plane-range")
def test_the_control_planes_range_and_who_may_reach_it_are_cidr(client: Client) -> None:
    for value in ("172.16.0.0/27", "172.16.0.1/28", "x"):
        assert f'"{value}"' in refused(client, privateClusterConfig={"masterIpv4CidrBlock": value})
    blocks = {"cidrBlocks": [{"cidrBlock": "10.0.0.0/8"}, {"cidrBlock": "office"}]}
    assert '"office"' in refused(client, masterAuthorizedNetworksConfig=blocks)
    endpoints = {"ipEndpointsConfig": {"authorizedNetworksConfig": blocks}}
    assert '"office"' in refused(client, controlPlaneEndpointsConfig=endpoints)
    cluster = client.cluster(privateClusterConfig={"masterIpv4CidrBlock": "172.16.0.0/28"})
    assert cluster["privateClusterConfig"]["masterIpv4CidrBlock"] == "172.16.0.0/28"


@proves("payload.unknown-field", "payload.types")
def test_unknown_fields_and_wrong_types_are_refused_with_their_place(client: Client) -> None:
    assert refused(client, colour="red") == (
        "Invalid JSON payload received. Unknown name \"colour\" at 'cluster': Cannot find field."
    )
    assert "'cluster.autopilot.enabled'" in refused(client, autopilot={"enabled": "maybe"})
    assert "'cluster.releaseChannel.channel'" in refused(client, releaseChannel={"channel": "SLOW"})
    assert client.refused("POST", clusters(), {})[0] == 400
    assert client.refused("POST", clusters(), b"{")[:2] == (400, "badRequest")
    assert client.refused("POST", clusters(), [])[0] == 400
