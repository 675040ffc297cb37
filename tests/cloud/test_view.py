"""What a cluster sees of its project, and what its nodes hold."""

from __future__ import annotations

import pytest

from sandbox.cloud.view import StoreCloudView
from sandbox.contracts import CloudView
from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Client, clusters, compute, error_of

ZONE = "us-central1-a"
MEGA = "a3-megagpu-8g"


@pytest.fixture
def view(client: Client) -> CloudView:
    return StoreCloudView(client.store)


def node(
    name: str = "node", *, model: str = "STANDARD", cluster: str = "demo"
) -> dict[str, object]:
    return {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/{MEGA}",
        "scheduling": {"provisioningModel": model},
        "labels": {"goog-k8s-cluster-name": cluster, "goog-k8s-cluster-location": REGION},
        "networkInterfaces": [{"network": "global/networks/n", "subnetwork": "s"}],
    }


def test_a_cluster_reads_networks_subnetworks_and_rules(client: Client, view: CloudView) -> None:
    assert view.network(PROJECT, "n") is None
    client.network("n", mtu=8244)
    client.subnetwork("s", "n", "10.0.0.0/24")
    client.firewall("f", "n")
    network = view.network(PROJECT, "n")
    subnetwork = view.subnetwork(PROJECT, REGION, "s")
    assert network is not None
    assert network["mtu"] == 8244
    assert subnetwork is not None
    assert subnetwork["ipCidrRange"] == "10.0.0.0/24"
    assert view.subnetwork(PROJECT, "us-east4", "s") is None
    assert [rule["name"] for rule in view.firewalls(PROJECT, "n")] == ["f"]
    assert view.zones(REGION) == [f"{REGION}-{letter}" for letter in "abcf"]
    assert view.zones("mars") == []


def test_a_network_that_is_still_being_made_is_not_there(client: Client, view: CloudView) -> None:
    client.hang("networks.insert")
    client.network("n")
    assert view.network(PROJECT, "n") is None
    client.let_go()
    assert view.network(PROJECT, "n") is not None


@proves("instances.hold-subnetworks")
def test_a_nodes_nics_keep_subnetworks_and_networks(client: Client, view: CloudView) -> None:
    client.network("n")
    client.subnetwork("s", "n", "10.0.0.0/24")
    client.cluster()
    view.insert_instance(PROJECT, ZONE, node())
    subnetwork = f"regions/{REGION}/subnetworks/s"
    assert client.refused("DELETE", compute(subnetwork)) == (
        400,
        "resourceInUseByAnotherResource",
        f"The subnetwork resource 'projects/{PROJECT}/{subnetwork}' is already being used by "
        f"'projects/{PROJECT}/zones/{ZONE}/instances/node'",
    )
    view.delete_instance(PROJECT, ZONE, "node")
    view.delete_instance(PROJECT, ZONE, "node")
    client.compute("DELETE", subnetwork)
    view.insert_instance(PROJECT, ZONE, {**node(), "networkInterfaces": [{"network": "n"}]})
    error = error_of(client.compute("DELETE", "global/networks/n"))
    assert error["message"].endswith(f"used by 'projects/{PROJECT}/zones/{ZONE}/instances/node'")


def test_nodes_are_seen_through_the_api_and_go_with_their_cluster(
    client: Client, view: CloudView
) -> None:
    client.cluster()
    client.cluster(name="other")
    view.insert_instance(PROJECT, ZONE, node("one"))
    view.insert_instance(PROJECT, ZONE, node("two", cluster="other"))
    assert client.ok("GET", clusters("demo"))["currentNodeCount"] == 1
    listed = client.compute("GET", f"zones/{ZONE}/instances")["items"]
    assert [instance["name"] for instance in listed] == ["one", "two"]
    read = client.compute("GET", f"zones/{ZONE}/instances/one")
    assert read["status"] == "RUNNING"
    assert read["selfLink"].endswith(f"/zones/{ZONE}/instances/one")
    everywhere = client.compute("GET", "aggregated/instances")["items"]
    assert everywhere.keys() == {f"zones/{ZONE}"}
    client.ok("DELETE", clusters("demo"))
    client.settle()
    listed = client.compute("GET", f"zones/{ZONE}/instances")["items"]
    assert [instance["name"] for instance in listed] == ["two"]


@proves("instances.quota")
def test_gpus_count_against_the_quota_of_their_kind(client: Client, view: CloudView) -> None:
    quotas = {
        f"{REGION}/NVIDIA_H100_MEGA_GPUS": 16,
        "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS": 8,
        "GPUS_ALL_REGIONS": 20,
    }
    client.admin("PUT", f"projects/{PROJECT}", {"quotas": quotas})

    def left(
        *, spot: bool, region: str = REGION, accelerator: str = "nvidia-h100-mega-80gb"
    ) -> int:
        return view.gpu_quota_left(PROJECT, region, accelerator, spot=spot)

    assert (left(spot=False), left(spot=True)) == (16, 8)
    view.insert_instance(PROJECT, ZONE, node("one"))
    assert (left(spot=False), left(spot=True)) == (8, 8)
    view.insert_instance(PROJECT, ZONE, node("two", model="FLEX_START"))
    assert (left(spot=False), left(spot=True)) == (4, 0)
    assert left(spot=False, region="us-east4") == 4
    assert left(spot=True, region="us-east4") == 8
    assert left(spot=False, accelerator="nvidia-h100-80gb") == 4
    assert left(spot=False, accelerator="nvidia-none") == 0


@proves("instances.stock")
def test_a_zone_runs_out_of_machines(client: Client, view: CloudView) -> None:
    def left(zone: str = ZONE, machine_type: str = MEGA, *, spot: bool = False) -> int:
        return view.machine_capacity(PROJECT, zone, machine_type, spot=spot)

    assert left() == 8
    assert left("us-central1-f") == 0
    assert left("us-central1-b", "a3-highgpu-8g") == 0
    assert left("mars-a") == 0
    assert left(machine_type="nonsense") == 0
    assert left(machine_type="e2-standard-4") > 100
    view.insert_instance("another-project", ZONE, node())
    assert left() == 7
    client.admin("PUT", "stock", {ZONE: {MEGA: 1, f"{MEGA}:spot": 3}})
    assert (left(), left(spot=True)) == (0, 2)
    assert left("us-central1-b") == 8
