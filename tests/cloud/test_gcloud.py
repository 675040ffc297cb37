"""The page's commands and wrong uses of them, by the gcloud command line itself.

gcloud is a client that nobody here wrote; the cluster runtime behind the served application is a
stub. These tests together reach every endpoint that gcloud is named for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cloud.registry import ENDPOINTS
from tests.cloud.gcloud_tool import MARKS, Gcloud
from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Served

pytestmark = MARKS
PREFIX = "page"


@pytest.fixture(scope="module")
def reached() -> Iterator[dict[str, set[str]]]:
    """Collect test -> endpoints; once all tests ran, the registry must name the same endpoints."""
    by_test: dict[str, set[str]] = {}
    yield by_test
    if by_test.keys() == {name for name in globals() if name.startswith("test_")}:
        everything = set().union(*by_test.values())
        assert {known.id for known in ENDPOINTS if "gcloud" in known.judges} == everything


@pytest.fixture
def gcloud(
    served: Served,
    tmp_path: Path,
    gcloud_config: Path,
    request: pytest.FixtureRequest,
    reached: dict[str, set[str]],
) -> Iterator[Gcloud]:
    tool = Gcloud(served, tmp_path, gcloud_config)
    yield tool
    reached[request.node.name] = tool.endpoints()


@proves("services.gate", "services.start-disabled", "networks.in-use")
def test_the_page_from_nothing_to_a_cluster_and_back(gcloud: Gcloud) -> None:
    stderr = gcloud.failed("compute networks list")
    assert "Compute Engine API has not been used in project" in stderr
    # Operations that are not done in the first answer are what Google gives.
    gcloud.http("PUT", "settings", {"pendingFirst": True})
    gcloud.ok("services enable compute.googleapis.com container.googleapis.com")
    gcloud.ok(f"compute networks create {PREFIX}-net-1 --subnet-mode=custom --mtu=8244")
    gcloud.together(
        f"compute networks subnets create {PREFIX}-sub-1 --network={PREFIX}-net-1 "
        f"--region={REGION} --range=192.168.1.0/24",
        f"compute firewall-rules create {PREFIX}-internal-1 --network={PREFIX}-net-1 "
        "--action=ALLOW --rules=tcp:0-65535,udp:0-65535,icmp --source-ranges=192.168.0.0/16",
        f"beta container clusters create-auto page --project={PROJECT} --location={REGION} "
        "--cluster-version=1.35 --enable-multi-networking --workload-policies=allow-net-admin",
    )
    networks, rules, subnetworks, clusters, versions = gcloud.together(
        "compute networks list --format=json",
        "compute firewall-rules list --format=json",
        "compute networks subnets list --format=json",
        "container clusters list --format=json",
        f"container get-server-config --region={REGION} --format=value(validMasterVersions)",
    )
    assert "1.35.8-gke.1036000" in versions
    network = {entry["name"]: entry for entry in json.loads(networks)}[f"{PREFIX}-net-1"]
    assert (network["mtu"], network["autoCreateSubnetworks"]) == (8244, False)
    assert network["x_gcloud_subnet_mode"] == "CUSTOM"
    rule = {entry["name"]: entry for entry in json.loads(rules)}[f"{PREFIX}-internal-1"]
    assert rule["allowed"] == [
        {"IPProtocol": "tcp", "ports": ["0-65535"]},
        {"IPProtocol": "udp", "ports": ["0-65535"]},
        {"IPProtocol": "icmp"},
    ]
    subnetwork = {entry["name"]: entry for entry in json.loads(subnetworks)}[f"{PREFIX}-sub-1"]
    assert subnetwork["ipCidrRange"] == "192.168.1.0/24"
    (cluster,) = json.loads(clusters)
    assert (cluster["name"], cluster["status"]) == ("page", "RUNNING")
    assert cluster["networkConfig"]["enableMultiNetworking"] is True
    assert cluster["autopilot"]["workloadPolicyConfig"] == {"allowNetAdmin": True}
    assert cluster["currentMasterVersion"] == "1.35.8-gke.1036000"
    assert f"https://{cluster['endpoint']}" in gcloud.kubeconfig.read_text(encoding="utf-8")

    stderr = gcloud.failed(f"compute networks delete {PREFIX}-net-1")
    assert "is already being used by" in stderr
    gcloud.together(
        f"container clusters delete page --location={REGION}",
        f"compute firewall-rules delete {PREFIX}-internal-1",
        f"compute networks subnets delete {PREFIX}-sub-1 --region={REGION}",
    )
    gcloud.ok(f"compute networks delete {PREFIX}-net-1")
    assert gcloud.http("GET", "resources") == {"resources": []}


@proves(
    "networks.exists",
    "networks.quota",
    "subnetworks.region",
    "subnetworks.overlap",
    "subnetworks.cidr",
    "subnetworks.prefix",
    "subnetworks.no-network",
    "firewalls.exists",
    "firewalls.ranges",
    "clusters.regional",
    "clusters.network",
    "clusters.version-exact",
    "clusters.secondary-range",
    "services.unknown",
)
def test_wrong_uses_are_refused_in_googles_words(gcloud: Gcloud) -> None:
    services = {"enabledServices": ["container.googleapis.com"]}
    gcloud.http("PUT", f"projects/{PROJECT}", {**services, "quotas": {"NETWORKS": 2}})
    gcloud.make_network("n")
    gcloud.together(
        f"compute networks subnets create s --network=n --region={REGION} --range=10.0.0.0/24",
        "compute firewall-rules create f --network=n --allow=tcp",
    )
    subnet = "compute networks subnets create t --network=n"
    rule = "compute firewall-rules create --network=n --allow=tcp"
    create = "container clusters create-auto c"
    refusals = {
        "compute networks create n --subnet-mode=custom": "already exists",
        "compute networks create m --subnet-mode=custom": "Quota 'NETWORKS' exceeded.",
        f"{subnet} --region=mars --range=10.1.0.0/24": "Unknown region",
        f"{subnet} --region=us-east4 --range=10.0.0.0/16": "conflicts with existing subnetwork 's'",
        f"{create} --location=us-central1-a": "Autopilot clusters must be regional clusters.",
        f"{subnet} --region=us-east4 --range=10.1.0.1/24": "Must be a valid CIDR",
        f"{subnet} --region=us-east4 --range=10.1.0.0/30": "The prefix length must be",
        f"{subnet[:-1]}m --region=us-east4 --range=10.1.0.0/24": "networks/m' was not found",
        f"{rule} f": "already exists",
        f"{rule} g --source-ranges=10.0.0.1/8": "Must be a valid CIDR",
        f"{create} --location={REGION} --network=nope": 'has no network named "nope"',
        f"{create} --location={REGION} --cluster-version=1.35.99-gke.1": "is unsupported",
        f"{create} --location={REGION} --cluster-secondary-range-name=pods": '"pods" not found',
        "services enable nonsense.googleapis.com": "Not found or permission denied",
    }
    answers = gcloud.all_failed(*refusals)
    for (command, words), stderr in zip(refusals.items(), answers, strict=True):
        assert words in stderr, f"gcloud {command}\n{stderr}"


@proves("listing.filter")
def test_the_other_commands_that_a_person_types(gcloud: Gcloud) -> None:
    gcloud.ok("services enable container.googleapis.com")
    for name in ("a", "b"):
        gcloud.make_network(name)
    gcloud.make_cluster("c")
    gcloud.http("PUT", "settings", {"pendingFirst": True})
    answers = gcloud.together(
        f"compute resource-policies create group-placement p --collocation=collocated "
        f"--region={REGION}",
        "compute networks list --filter=name~^a$ --format=value(name)",
        f"container clusters update c --location={REGION} --update-labels=team=x",
        "compute regions list --format=value(name)",
        f"compute zones list --filter=region:{REGION} --format=value(name)",
        "compute instances list",
        "compute operations list --filter=operationType=insert --format=value(operationType)",
        "container operations list --format=value(operationType)",
        "services list --enabled --format=value(config.name)",
        f"projects describe {PROJECT} --format=value(projectId)",
        "compute accelerator-types list --format=value(name)",
    )
    assert answers[1] == "a\n"
    assert REGION in answers[3].split()
    assert answers[4].split() == [f"{REGION}-{letter}" for letter in "abcf"]
    assert "insert" in answers[6].split()
    assert "CREATE_CLUSTER" in answers[7]
    assert "container.googleapis.com" in answers[8].split()
    assert answers[9] == f"{PROJECT}\n"
    assert "nvidia-h100-mega-80gb" in answers[10].split()
    gcloud.together(
        "compute networks delete a b",
        f"compute resource-policies delete p --region={REGION}",
        f"container clusters delete c --location={REGION}",
    )
    assert gcloud.http("GET", "resources") == {"resources": []}


@proves("routes.default", "regions.gpu-quotas", "regions.project-quotas", "services.idempotent")
def test_what_a_person_looks_at(gcloud: Gcloud) -> None:
    gcloud.ok("services enable container.googleapis.com")
    zone = f"{REGION}-a"
    gcloud.make_network("a")
    gcloud.ok(
        f"compute networks subnets create s --network=a --region={REGION} --range=10.0.0.0/24"
    )
    answers = gcloud.together(
        "compute routes list --filter=network:a --format=value(destRange)",
        f"compute regions describe {REGION} --format=json(quotas)",
        "compute project-info describe --format=json(quotas)",
        f"compute zones describe {zone} --format=value(status)",
        "compute machine-types list --filter=name=a3-megagpu-8g --format=value(zone)",
        f"compute machine-types list --zones={zone} --format=value(name)",
        f"compute machine-types describe a3-megagpu-8g --zone={zone} --format=value(guestCpus)",
        f"compute accelerator-types describe nvidia-h100-mega-80gb --zone={zone} "
        "--format=value(maximumCardsPerInstance)",
        "compute operations list --global --format=value(operationType)",
        f"compute operations list --regions={REGION} --format=value(operationType)",
        f"compute operations list --zones={zone} --format=value(operationType)",
        f"compute networks subnets list --regions={REGION} --format=value(ipCidrRange)",
        f"compute instances list --zones={zone} --format=value(name)",
        "compute resource-policies list --format=value(name)",
        f"compute resource-policies list --regions={REGION} --format=value(name)",
        "services enable container.googleapis.com",
    )
    assert sorted(answers[0].split()) == ["0.0.0.0/0", "10.0.0.0/24"]
    in_region = {quota["metric"] for quota in json.loads(answers[1])["quotas"]}
    assert in_region >= {"NVIDIA_H100_GPUS", "NVIDIA_H100_MEGA_GPUS"}
    in_project = {quota["metric"] for quota in json.loads(answers[2])["quotas"]}
    assert in_project >= {"NETWORKS", "SUBNETWORKS", "FIREWALLS"}
    assert answers[3] == "UP\n"
    assert zone in answers[4].split()
    assert "a3-megagpu-8g" in answers[5].split()
    assert (answers[6], answers[7]) == ("208\n", "8\n")
    assert "insert" in answers[8].split()
    assert answers[9].split() == ["insert"]
    assert answers[10] == ""
    assert "10.0.0.0/24" in answers[11].split()
    assert answers[12:15] == ["", "", ""]


@proves("subnetworks.expand", "routes.custom-blocks")
def test_what_a_person_changes(gcloud: Gcloud) -> None:
    gcloud.ok("services enable container.googleapis.com iam.googleapis.com")
    gcloud.make_network("a")
    gcloud.make_cluster("c")
    subnet = f"compute networks subnets %s s --region={REGION}"
    gcloud.ok(f"{subnet % 'create'} --network=a --range=10.0.0.0/24")
    gcloud.together(
        f"{subnet % 'update'} --enable-private-ip-google-access",
        "compute routes create r --network=a --destination-range=10.9.0.0/16 "
        "--next-hop-gateway=default-internet-gateway",
        f"container clusters update c --location={REGION} --maintenance-window=03:00",
        "services disable iam.googleapis.com",
    )
    stderr = gcloud.failed("compute networks delete a")
    assert "is already being used by" in stderr
    stderr = gcloud.failed(f"{subnet % 'expand-ip-range'} --prefix-length=25")
    assert "The new range must contain the old one, 10.0.0.0/24." in stderr
    gcloud.together(
        f"{subnet % 'expand-ip-range'} --prefix-length=23",
        "compute routes delete r",
    )
    gcloud.ok(f"{subnet % 'update'} --add-secondary-ranges=pods=10.64.0.0/20")
    subnetwork, cluster = gcloud.together(
        f"{subnet % 'describe'} --format=json",
        f"container clusters describe c --location={REGION} --format=json(maintenancePolicy)",
    )
    changed = json.loads(subnetwork)
    assert changed["ipCidrRange"] == "10.0.0.0/23"
    assert changed["privateIpGoogleAccess"] is True
    assert changed["secondaryIpRanges"][0]["rangeName"] == "pods"
    assert '"startTime": "03:00"' in cluster


@proves("compute.merge-patch", "clusters.upgrade")
def test_a_change_of_one_value_keeps_the_others(gcloud: Gcloud) -> None:
    gcloud.ok("services enable container.googleapis.com")
    gcloud.make_network("a")
    gcloud.make_subnetwork("s", "a", "10.0.0.0/24")
    gcloud.make_firewall("f", "a", description="first", targetTags=["t"])
    gcloud.make_cluster("c", initialClusterVersion="1.34")
    subnet = f"compute networks subnets update s --region={REGION}"
    schedule = f"compute resource-policies %s snapshot-schedule p --region={REGION}"
    daily = "--daily-schedule --start-time=04:00 --max-retention-days=3"
    gcloud.together(f"{schedule % 'create'} {daily}", f"{subnet} --enable-flow-logs")
    gcloud.together(
        f"{schedule % 'update'} --max-retention-days=4",
        f"{subnet} --logging-flow-sampling=0.7",
        "compute firewall-rules update f --description= --target-tags= --allow=tcp:23",
        "compute networks update a --bgp-routing-mode=global",
        f"container clusters upgrade c --location={REGION} --master --cluster-version=1.35",
    )
    policy, subnetwork, rule, network, cluster = gcloud.read(
        f"compute resource-policies describe p --region={REGION}",
        f"compute networks subnets describe s --region={REGION}",
        "compute firewall-rules describe f",
        "compute networks describe a",
        f"container clusters describe c --location={REGION}",
    )
    snapshots = policy["snapshotSchedulePolicy"]
    assert snapshots["retentionPolicy"] == {"maxRetentionDays": 4}
    assert snapshots["schedule"]["dailySchedule"]["startTime"] == "04:00"
    assert subnetwork["logConfig"] == {"enable": True, "flowSampling": 0.7}
    assert not {"description", "targetTags"} & rule.keys()
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["23"]}]
    assert network["routingConfig"]["routingMode"] == "GLOBAL"
    assert network["routingConfig"]["bgpBestPathSelectionMode"] == "LEGACY"
    assert cluster["currentMasterVersion"] == "1.35.8-gke.1036000"


def test_operations_and_instances_are_described_one_by_one(gcloud: Gcloud) -> None:
    gcloud.ok("services enable container.googleapis.com")
    zone = f"{REGION}-a"
    gcloud.make_network("a")
    gcloud.make_subnetwork("s", "a", "10.0.0.0/24")
    gcloud.make_cluster("c")
    gcloud.served.view.insert_instance(PROJECT, zone, {"name": "node", "labels": {"of": "c"}})
    of_compute, of_gke = gcloud.read("compute operations list", "container operations list")
    names = {operation["targetLink"].rpartition("/")[2]: operation for operation in of_compute}
    made, grown = names["a"]["name"], names["s"]["name"]
    instance, in_all, in_region = gcloud.read(
        f"compute instances describe node --zone={zone}",
        f"compute operations describe {made} --global",
        f"compute operations describe {grown} --region={REGION}",
    )
    assert (instance["status"], instance["labels"]) == ("RUNNING", {"of": "c"})
    assert in_all == names["a"]
    assert in_region == names["s"]
    in_zone, cancelled = gcloud.all_failed(
        # Nothing here is changed in a zone: there is no operation to be found.
        f"compute operations describe {grown} --zone={zone}",
        f"container operations cancel {of_gke[0]['name']} --location={REGION}",
    )
    assert f"zones/{zone}/operations/{grown}' was not found" in in_zone
    assert "cannot be cancelled" in cancelled
