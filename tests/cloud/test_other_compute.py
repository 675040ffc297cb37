"""Routes, regions, quotas, machine types, resource policies, instances."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from sandbox.cloud.view import StoreCloudView
from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Client, compute, error_of

POLICIES = compute(f"regions/{REGION}/resourcePolicies")
COMPACT = {"name": "p", "groupPlacementPolicy": {"collocation": "COLLOCATED"}}


def routes(client: Client, network: str) -> list[dict[str, object]]:
    link = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks/{network}"
    wanted = quote(f'network="{link}"')
    answer = client.compute("GET", f"global/routes?filter={wanted}")
    return list(answer.get("items", []))


@proves("routes.default")
def test_a_network_has_a_default_route_and_one_per_subnetwork(client: Client) -> None:
    client.network("n")
    client.subnetwork("s", "n", "10.0.0.0/24")
    found = {str(route["destRange"]): route for route in routes(client, "n")}
    assert found.keys() == {"0.0.0.0/0", "10.0.0.0/24"}
    assert str(found["0.0.0.0/0"]["nextHopGateway"]).endswith("/default-internet-gateway")
    local = compute(f"global/routes/{found['10.0.0.0/24']['name']}")
    assert client.refused("DELETE", local)[0] == 400
    client.compute("DELETE", f"regions/{REGION}/subnetworks/s")
    assert [route["destRange"] for route in routes(client, "n")] == ["0.0.0.0/0"]
    assert "error" not in client.compute("DELETE", "global/networks/n")
    assert routes(client, "n") == []


@proves("routes.default")
def test_the_default_route_can_be_deleted_as_the_provider_does(client: Client) -> None:
    client.network("n")
    name = routes(client, "n")[0]["name"]
    assert "error" not in client.compute("DELETE", f"global/routes/{name}")
    assert routes(client, "n") == []


@proves("routes.custom-blocks")
def test_a_users_route_keeps_its_network(client: Client) -> None:
    client.network("n")
    wanted = {
        "name": "r",
        "network": "global/networks/n",
        "destRange": "172.16.0.0/12",
        "nextHopIp": "10.0.0.2",
    }
    client.compute("POST", "global/routes", wanted)
    assert client.compute("GET", "global/routes/r")["priority"] == 1000
    error = error_of(client.compute("DELETE", "global/networks/n"))
    assert error["message"].endswith(f"used by 'projects/{PROJECT}/global/routes/r'")
    client.compute("DELETE", "global/routes/r")
    assert "error" not in client.compute("DELETE", "global/networks/n")


@pytest.mark.parametrize(
    "change",
    [{"destRange": "x"}, {"network": ""}, {"network": "a/b"}, {"nextHopIp": None}, {"name": "R"}],
)
def test_a_bad_route_is_refused(client: Client, change: dict[str, object]) -> None:
    wanted = {
        "name": "r",
        "network": "global/networks/default",
        "destRange": "172.16.0.0/12",
        "nextHopIp": "10.0.0.2",
    }
    assert client.refused("POST", compute("global/routes"), {**wanted, **change})[0] == 400


def test_the_routes_quota_fails_in_the_operation(client: Client) -> None:
    # The default network has one route of its own and one for each of its 11 subnetworks.
    client.admin("PUT", f"projects/{PROJECT}", {"quotas": {"ROUTES": 12}})
    wanted = {
        "name": "r",
        "network": "global/networks/default",
        "destRange": "172.16.0.0/12",
        "nextHopIp": "10.128.0.2",
    }
    error = error_of(client.compute("POST", "global/routes", wanted))
    assert error["message"].startswith("Quota 'ROUTES' exceeded.  Limit: 12.0 globally.")


@proves("regions.gpu-quotas")
def test_a_region_shows_gpu_quotas_and_their_use(client: Client) -> None:
    client.admin(
        "PUT", f"projects/{PROJECT}", {"quotas": {"us-central1/NVIDIA_H100_MEGA_GPUS": 16}}
    )
    view = StoreCloudView(client.store)
    instance = {"name": "vm", "machineType": "a3-megagpu-8g"}
    view.insert_instance(PROJECT, "us-central1-a", instance)
    region = client.compute("GET", f"regions/{REGION}")
    quotas = {entry["metric"]: entry for entry in region["quotas"]}
    assert quotas["NVIDIA_H100_MEGA_GPUS"]["limit"] == 16.0
    assert quotas["NVIDIA_H100_MEGA_GPUS"]["usage"] == 8.0
    assert quotas["NVIDIA_H100_GPUS"]["usage"] == 0.0
    assert quotas["PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS"]["usage"] == 0.0
    assert region["status"] == "UP"
    assert [zone.rpartition("/")[2] for zone in region["zones"]] == [
        "us-central1-a",
        "us-central1-b",
        "us-central1-c",
        "us-central1-f",
    ]


@proves("regions.project-quotas")
def test_the_project_shows_its_quotas(client: Client) -> None:
    client.network("n")
    project = client.ok("GET", f"/compute/v1/projects/{PROJECT}")
    quotas = {entry["metric"]: (entry["limit"], entry["usage"]) for entry in project["quotas"]}
    assert quotas["NETWORKS"] == (50.0, 2.0)
    assert quotas["FIREWALLS"] == (500.0, 4.0)
    assert quotas["SUBNETWORKS"][1] == 11.0
    assert quotas["GPUS_ALL_REGIONS"][1] == 0.0


def test_unknown_regions_and_zones_answer_404(client: Client) -> None:
    for path in ("regions/mars", "zones/mars-a"):
        assert client.refused("GET", compute(path))[:2] == (404, "notFound")
    assert client.compute("GET", "zones/us-central1-f")["region"].endswith("/regions/us-central1")


def test_an_s3ns_project_sees_its_one_region(client: Client) -> None:
    client.enable("s3ns:trusted")
    regions = client.ok("GET", compute("regions", "s3ns:trusted"))["items"]
    assert [region["name"] for region in regions] == ["u-france-east1"]


def test_a3_machines_are_offered_where_the_catalogue_says(client: Client) -> None:
    def offered(zone: str, kind: str) -> set[str]:
        items = client.compute("GET", f"zones/{zone}/{kind}").get("items", [])
        return {item["name"] for item in items}

    assert "a3-megagpu-8g" in offered("us-central1-b", "machineTypes")
    assert "a3-highgpu-8g" not in offered("us-central1-b", "machineTypes")
    assert offered("us-central1-b", "acceleratorTypes") == {"nvidia-h100-mega-80gb"}
    assert offered("us-central1-f", "acceleratorTypes") == set()
    machine = client.compute("GET", "zones/us-central1-b/machineTypes/a3-megagpu-8g")
    assert machine["guestCpus"] == 208
    missing = compute("zones/us-central1-b/machineTypes/a3-highgpu-8g")
    assert client.refused("GET", missing)[:2] == (404, "notFound")
    assert client.refused("GET", compute("zones/mars-a/machineTypes"))[0] == 400
    everywhere = client.compute("GET", "aggregated/acceleratorTypes")["items"]
    assert "zones/europe-west4-b" in everywhere
    assert "zones/us-east1-b" not in everywhere


@proves("resource-policies.name", "resource-policies.one")
def test_a_bad_resource_policy_is_refused(client: Client) -> None:
    assert client.refused("POST", POLICIES, {**COMPACT, "name": "Bad_Name"})[0] == 400
    assert client.refused("POST", POLICIES, {"name": "p"})[0] == 400
    two = {**COMPACT, "workloadPolicy": {"type": "HIGH_THROUGHPUT"}}
    assert client.refused("POST", POLICIES, two)[0] == 400
    odd = {"name": "p", "groupPlacementPolicy": {"collocation": "NEAR"}}
    assert "resource.groupPlacementPolicy.collocation" in client.refused("POST", POLICIES, odd)[2]


@proves("compute.merge-patch")
def test_a_patch_of_a_schedules_retention_keeps_its_schedule(client: Client) -> None:
    daily = {"dailySchedule": {"daysInCycle": 1, "startTime": "04:00"}}
    policy = {"schedule": daily, "retentionPolicy": {"maxRetentionDays": 3}}
    wanted = {"name": "p", "description": "nightly", "snapshotSchedulePolicy": policy}
    client.ok("POST", POLICIES, wanted)
    longer = {"retentionPolicy": {"maxRetentionDays": 4}}
    client.ok("PATCH", f"{POLICIES}/p", {"description": None, "snapshotSchedulePolicy": longer})
    read = client.ok("GET", f"{POLICIES}/p")
    assert read["snapshotSchedulePolicy"] == {"schedule": daily, **longer}
    assert "description" not in read


def test_a_resource_policy_lives_and_goes(client: Client) -> None:
    client.ok("POST", POLICIES, COMPACT)
    assert client.refused("POST", POLICIES, COMPACT)[:2] == (409, "alreadyExists")
    read = client.ok("GET", f"{POLICIES}/p")
    assert read["groupPlacementPolicy"] == {"collocation": "COLLOCATED"}
    link = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/regions/{REGION}"
    assert read["selfLink"] == f"{link}/resourcePolicies/p"
    client.ok("PATCH", f"{POLICIES}/p", {"description": "close together"})
    assert client.ok("GET", f"{POLICIES}/p")["description"] == "close together"
    assert client.refused("PATCH", f"{POLICIES}/renamed", {"name": "renamed"})[0] == 404
    assert [item["name"] for item in client.ok("GET", POLICIES)["items"]] == ["p"]
    client.ok("DELETE", f"{POLICIES}/p")
    assert client.refused("GET", f"{POLICIES}/p")[0] == 404
