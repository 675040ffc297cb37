"""Service Usage, Resource Manager, and what an API that is off answers [facts §6.4, §7]."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.proofs import proves
from tests.cloud.stand_in import AUTOPILOT, PROJECT, Client, clusters, compute

SERVICES = f"/serviceusage/v1/projects/{PROJECT}/services"
COMPUTE, CONTAINER = "compute.googleapis.com", "container.googleapis.com"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path / "fresh.db", enabled=False) as client:
        yield client


def enabled(client: Client) -> list[str]:
    answer = client.ok("GET", f"{SERVICES}?filter=state:ENABLED&pageSize=200")
    return [service["config"]["name"] for service in answer["services"]]


@proves("services.start-disabled")
def test_a_new_project_has_neither_compute_nor_gke(fresh: Client) -> None:
    always = ["cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com"]
    assert enabled(fresh) == always
    assert fresh.ok("GET", f"{SERVICES}/{CONTAINER}")["state"] == "DISABLED"
    listed = fresh.ok("GET", f"{SERVICES}?filter=state:DISABLED")["services"]
    assert COMPUTE in {service["config"]["name"] for service in listed}


@proves("services.gate")
@pytest.mark.parametrize(
    ("method", "path", "body", "title", "service"),
    [
        ("GET", compute("global/networks"), None, "Compute Engine API", COMPUTE),
        ("GET", compute("global/networks/n"), None, "Compute Engine API", COMPUTE),
        ("POST", compute("global/networks"), {"name": "n"}, "Compute Engine API", COMPUTE),
        ("GET", clusters("demo"), None, "Kubernetes Engine API", CONTAINER),
        ("POST", clusters(), {"cluster": AUTOPILOT}, "Kubernetes Engine API", CONTAINER),
    ],
)
def test_an_api_that_is_off_says_so_with_the_projects_number(
    fresh: Client, method: str, path: str, body: object, title: str, service: str
) -> None:
    project = fresh.ok("GET", f"/resourcemanager/v1/projects/{PROJECT}")
    number = project["projectNumber"]
    status, answer = fresh.request(method, path, body)
    error = answer["error"]
    url = f"https://console.developers.google.com/apis/api/{service}/overview?project={number}"
    assert status == 403
    assert error["message"] == (
        f"{title} has not been used in project {number} before or it is disabled. Enable it by "
        f"visiting {url} then retry. If you enabled this API recently, wait a few minutes for the "
        "action to propagate to our systems and retry."
    )
    assert error["status"] == "PERMISSION_DENIED"
    assert error["errors"][0]["reason"] == "accessNotConfigured"
    info = error["details"][1]
    assert info["reason"] == "SERVICE_DISABLED"
    assert info["metadata"] == {"service": service, "consumer": f"projects/{number}"}


@proves("services.dependency")
def test_enabling_gke_enables_compute_too(fresh: Client) -> None:
    operation = fresh.ok("POST", f"{SERVICES}/{CONTAINER}:enable", {})
    assert operation["done"] is True
    assert operation["response"]["service"]["state"] == "ENABLED"
    assert {COMPUTE, CONTAINER} <= set(enabled(fresh))
    assert fresh.ok("GET", f"/serviceusage/v1/{operation['name']}")["done"] is True


@proves("services.idempotent")
def test_enabling_what_is_on_is_done_at_once(client: Client) -> None:
    operation = client.ok("POST", f"{SERVICES}/{CONTAINER}:enable", {})
    assert operation["name"] == "operations/noop.DONE_OPERATION"
    assert operation["done"] is True
    log = client.admin("GET", "operations")["operations"]
    assert log == []


def test_several_services_are_enabled_by_one_call(fresh: Client) -> None:
    wanted = {"serviceIds": [COMPUTE, "iam.googleapis.com"]}
    operation = fresh.ok("POST", f"{SERVICES}:batchEnable", wanted)
    names = [service["config"]["name"] for service in operation["response"]["services"]]
    assert names == wanted["serviceIds"]
    for ids in ([], [f"s{number}.googleapis.com" for number in range(21)]):
        assert fresh.refused("POST", f"{SERVICES}:batchEnable", {"serviceIds": ids})[0] == 400


def test_an_operation_that_is_not_done_can_be_polled(fresh: Client) -> None:
    fresh.admin("PUT", "settings", {"pendingFirst": True})
    operation = fresh.ok("POST", f"/v1/projects/{PROJECT}/services/{COMPUTE}:enable", {})
    assert "done" not in operation
    fresh.settle()
    assert fresh.ok("GET", f"/v1/{operation['name']}")["done"] is True
    assert fresh.refused("GET", "/v1/operations/acat.nope")[:2] == (404, "notFound")


@proves("services.unknown")
def test_an_unknown_service_is_refused(fresh: Client) -> None:
    status, reason, message = fresh.refused("POST", f"{SERVICES}/nope.googleapis.com:enable", {})
    assert (status, reason) == (403, "forbidden")
    assert message == "Not found or permission denied for service(s): nope.googleapis.com."


@proves("services.disable-in-use")
def test_what_gke_needs_stays_on(client: Client) -> None:
    status, reason, message = client.refused("POST", f"{SERVICES}/{COMPUTE}:disable", {})
    assert (status, reason) == (400, "failedPrecondition")
    assert CONTAINER in message
    client.ok("POST", f"{SERVICES}/{COMPUTE}:disable", {"disableDependentServices": True})
    assert not {COMPUTE, CONTAINER} & set(enabled(client))


@proves("projects.any")
def test_every_project_exists_with_a_number_of_its_own(fresh: Client) -> None:
    one = fresh.ok("GET", "/resourcemanager/v1/projects/project-one")
    assert one == fresh.ok("GET", "/v1/projects/project-one")
    two = fresh.ok("GET", "/v1/projects/project-two")
    assert one["projectId"] == "project-one"
    assert one["projectNumber"].isdecimal()
    assert len(one["projectNumber"]) == 12
    assert one["projectNumber"] != two["projectNumber"]
    assert fresh.refused("GET", "/v1/projects/Not_A_Project")[:2] == (404, "notFound")
