"""What gcloud shows of things that exist, and what it can do because a rule is as it is.

With what it is refused is in `test_gcloud_refusals.py` [facts google-cloud.md §2 to §7, §11].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sandbox.cloud import catalog
from tests.cloud.gcloud_tool import MARKS, Gcloud, bodies
from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Served, clusters, compute

pytestmark = MARKS
BASE = "https://www.googleapis.com/compute/v1/"
NETWORK = f"projects/{PROJECT}/global/networks/net"
SUBNET = f"projects/{PROJECT}/regions/{REGION}/subnetworks/sub"
RULE = f"projects/{PROJECT}/global/firewalls/rule"
ACCOUNT = f"nodes@{PROJECT}.iam.gserviceaccount.com"
AT = f"--location={REGION}"
NO_GPUS = dict.fromkeys(("GPUS_ALL_REGIONS", *catalog.REGION_QUOTAS), 0)


@pytest.fixture(scope="module")
def gcloud(tmp_path_factory: pytest.TempPathFactory, gcloud_config: Path) -> Iterator[Gcloud]:
    """Serve a project without any GPU quota, with one of each thing made by gcloud."""
    folder = tmp_path_factory.mktemp("answers")
    with Served(folder / "served.db") as served:
        tool = Gcloud(served, folder, gcloud_config)
        services = {"enabledServices": ["container.googleapis.com"]}
        tool.http("PUT", f"projects/{PROJECT}", {**services, "quotas": NO_GPUS})
        tool.make_network("plain")
        tool.ok("compute networks create net --subnet-mode=custom --mtu=8244")
        tool.together(
            f"compute networks subnets create sub --network=net --region={REGION} "
            "--range=10.0.0.0/24",
            "compute firewall-rules create rule --network=net --allow=tcp:0-65535,icmp "
            "--source-ranges=10.0.0.0/16",
            f"container clusters create-auto c {AT} --cluster-version=1.34 "
            f"--service-account={ACCOUNT}",
        )
        yield tool


@proves(
    "networks.mtu-unset",
    "subnetworks.outputs",
    "firewalls.network-link",
    "firewalls.priority",
)
def test_what_was_made_is_described_as_it_was_asked_for(gcloud: Gcloud) -> None:
    network, plain, subnet, rule = gcloud.read(
        "compute networks describe net",
        "compute networks describe plain",
        f"compute networks subnets describe sub --region={REGION}",
        "compute firewall-rules describe rule",
    )
    assert (network["selfLink"], network["mtu"]) == (BASE + NETWORK, 8244)
    assert network["subnetworks"] == [BASE + SUBNET]
    assert "mtu" not in plain
    assert (subnet["network"], subnet["ipCidrRange"]) == (BASE + NETWORK, "10.0.0.0/24")
    assert subnet["gatewayAddress"] == "10.0.0.1"
    assert (subnet["purpose"], subnet["stackType"]) == ("PRIVATE", "IPV4_ONLY")
    assert rule["network"] == BASE + NETWORK
    assert (rule["sourceRanges"], rule["priority"]) == (["10.0.0.0/16"], 1000)


@proves(
    "clusters.autopilot-read-back",
    "clusters.labels",
    "clusters.links",
    "clusters.no-gpu-quota",
    "clusters.ranges",
    "clusters.version-prefix",
)
def test_a_cluster_is_described_with_what_autopilot_makes_of_it(gcloud: Gcloud) -> None:
    cluster, subnet = gcloud.read(
        f"container clusters describe c {AT}",
        f"compute networks subnets describe default --region={REGION}",
    )
    assert (cluster["name"], cluster["status"]) == ("c", "RUNNING")
    assert cluster["currentMasterVersion"] == "1.34.9-gke.1322001"
    assert cluster["autopilot"]["enabled"] is True
    assert cluster["shieldedNodes"] == {"enabled": True}
    assert cluster["verticalPodAutoscaling"] == {"enabled": True}
    assert cluster["workloadIdentityConfig"] == {"workloadPool": f"{PROJECT}.svc.id.goog"}
    assert cluster["labelFingerprint"] == "a9dc16a7"
    assert cluster["nodeConfig"]["serviceAccount"] == ACCOUNT
    config = cluster["networkConfig"]
    assert config["network"] == f"projects/{PROJECT}/global/networks/default"
    assert config["subnetwork"] == f"projects/{PROJECT}/regions/{REGION}/subnetworks/default"
    assert config["datapathProvider"] == "ADVANCED_DATAPATH"
    assert config["enableIntraNodeVisibility"] is True
    ranges = cluster["ipAllocationPolicy"]
    assert ranges["servicesIpv4Cidr"] == "34.118.224.0/20"
    assert ranges["clusterIpv4Cidr"].endswith("/17")
    pods = {entry["rangeName"]: entry["ipCidrRange"] for entry in subnet["secondaryIpRanges"]}
    assert pods[ranges["clusterSecondaryRangeName"]] == ranges["clusterIpv4Cidr"]


@proves("networks.in-use")
def test_nothing_is_deleted_that_is_in_use(gcloud: Gcloud) -> None:
    stderr = gcloud.failed("compute networks delete net --log-http")
    (failed,) = [answer for answer in bodies(stderr) if answer.get("error")][-1:]
    assert failed["httpErrorStatusCode"] == 400
    (error,) = failed["error"]["errors"]
    assert error["code"] == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    users = (SUBNET, RULE)
    assert error["message"] in [
        f"The network resource '{NETWORK}' is already being used by '{user}'" for user in users
    ]
    assert "net" in gcloud.ok("compute networks list --format=value(name)").split()


@proves("subnetworks.in-use", "clusters.hold-subnetwork", "clusters.firewalls")
def test_a_cluster_has_rules_and_its_subnetwork_until_it_is_gone(gcloud: Gcloud) -> None:
    gcloud.make_network("own")
    gcloud.make_subnetwork("held", "own", "10.1.0.0/24")
    gcloud.make_cluster("brief", network="own", subnetwork="held")
    delete = f"compute networks subnets delete held --region={REGION}"
    rules = "compute firewall-rules list --filter=name~^gke-brief-"
    assert "is already being used by" in gcloud.failed(delete)
    (made,) = gcloud.read(rules)
    suffixes = {rule["name"].rpartition("-")[2] for rule in made}
    assert suffixes == {"all", "vms", "inkubelet", "exkubelet"}
    assert {rule["network"].rpartition("/")[2] for rule in made} == {"own"}
    gcloud.ok(f"container clusters delete brief {AT}")
    gcloud.ok(delete)
    assert gcloud.read(rules) == [[]]


@proves("subnetworks.other-vpc")
def test_two_vpcs_may_have_the_same_range(gcloud: Gcloud) -> None:
    gcloud.ok(
        f"compute networks subnets create same --network=plain --region={REGION} "
        "--range=10.0.0.0/24"
    )


@proves("clusters.net-admin-in-place")
def test_net_admin_goes_and_comes_in_place(gcloud: Gcloud) -> None:
    gcloud.make_cluster("admin")
    for change, allowed in (("--remove-workload-policies", False), ("--workload-policies", True)):
        gcloud.ok(f"container clusters update admin {AT} {change}=allow-net-admin")
        (cluster,) = gcloud.read(f"container clusters describe admin {AT}")
        assert cluster["autopilot"]["workloadPolicyConfig"]["allowNetAdmin"] is allowed


@proves("clusters.label-fingerprint", "subnetworks.fingerprint")
def test_a_change_of_what_somebody_else_changed_since_is_refused(gcloud: Gcloud) -> None:
    gcloud.make_cluster("shared")
    gcloud.make_subnetwork("shared", "plain", "10.2.0.0/24")
    subnetwork = f"{gcloud.served.url}{compute(f'regions/{REGION}/subnetworks/shared')}"

    def others_labels() -> None:
        labels = {"labelFingerprint": "a9dc16a7", "resourceLabels": {"team": "other"}}
        gcloud.post(f"{clusters('shared')}:setResourceLabels", labels)
        gcloud.served.settle()

    def others_ranges() -> None:
        present = httpx.get(subnetwork).json()["fingerprint"]
        change = {"fingerprint": present, "role": "ACTIVE"}
        assert httpx.patch(subnetwork, json=change).status_code == 200

    gcloud.served.overtake("POST", "/shared:setResourceLabels", others_labels)
    gcloud.served.overtake("PATCH", "/subnetworks/shared", others_ranges)
    commands = (
        f"container clusters update shared {AT} --update-labels=team=mine",
        f"compute networks subnets update shared --region={REGION} "
        "--add-secondary-ranges=pods=10.3.0.0/24",
    )
    labels, ranges = gcloud.all_failed(*commands)
    assert "fingerprint mismatch" in labels
    assert "Supplied fingerprint does not match" in ranges
    # Once gcloud reads anew, the same commands are fine.
    gcloud.together(*commands)


@proves("instances.quota")
def test_gpus_count_by_family_model_and_in_all(gcloud: Gcloud) -> None:
    zone = f"{REGION}-b"
    for name, model in (("node", "STANDARD"), ("spot", "SPOT")):
        machine = f"zones/{zone}/machineTypes/a3-megagpu-8g"
        body = {
            "name": name,
            "machineType": machine,
            "scheduling": {"provisioningModel": model},
        }
        gcloud.served.view.insert_instance(PROJECT, zone, body)
    region, project = gcloud.read(
        f"compute regions describe {REGION}", "compute project-info describe"
    )
    used = {quota["metric"]: quota["usage"] for quota in region["quotas"]}
    assert used == {
        "NVIDIA_H100_GPUS": 0,
        "NVIDIA_H100_MEGA_GPUS": 8,
        "PREEMPTIBLE_NVIDIA_H100_GPUS": 0,
        "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS": 8,
    }
    in_all = {quota["metric"]: quota["usage"] for quota in project["quotas"]}
    assert in_all["GPUS_ALL_REGIONS"] == 16


@proves("networks.default", "services.dependency")
def test_gke_brings_compute_and_compute_the_default_network(gcloud: Gcloud) -> None:
    for project in ("fresh-project", "s3ns:fresh-project"):
        gcloud.ok(f"services enable container.googleapis.com --project={project}")
    services, networks, at_s3ns = gcloud.read(
        "services list --enabled --project=fresh-project",
        "compute networks list --project=fresh-project",
        "compute networks list --project=s3ns:fresh-project",
    )
    assert "compute.googleapis.com" in {service["config"]["name"] for service in services}
    assert [(each["name"], each["x_gcloud_subnet_mode"]) for each in networks] == [
        ("default", "AUTO")
    ]
    assert at_s3ns == []
