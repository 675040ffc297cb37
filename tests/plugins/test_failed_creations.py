"""Creations that fail, as the engine is told of them [facts google-cloud.md §1.7]."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty

from sandbox.plugins.pulumi_resource_gcp import transport
from sandbox.plugins.pulumi_resource_gcp.resources import cluster as cluster_module
from sandbox.plugins.pulumi_resource_gcp.values import decode

from .conftest import StartEngine
from .engine import Engine, Resource, RpcFailedError, unchanged
from .failing import always, answer_with, bullet, fails, urn
from .google_stub import Answer, GoogleStub, Request, error
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


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(cluster_module, "DELETE_RETRY_SECONDS", 0.2)


def test_a_refused_creation_is_told_without_the_urn(engine: Engine, google: GoogleStub) -> None:
    text = "Required 'compute.networks.create' permission for 'projects/p/global/networks/net-1'"
    fired = answer_with(google, "POST", "networks", error(403, text, "forbidden"))
    caught = fails(lambda: engine.create(NETWORK, "x", network()))
    assert fired() == 1
    assert caught.text == bullet(f"Error creating Network: googleapi: Error 403: {text}, forbidden")
    assert caught.partial is None


@pytest.mark.parametrize(
    ("kind", "inputs", "noun"),
    [
        (NETWORK, network(), "Network"),
        (SUBNETWORK, subnetwork(), "Subnetwork"),
        (FIREWALL, firewall(), "Firewall"),
    ],
)
def test_a_name_that_is_taken(
    engine: Engine, google: GoogleStub, kind: str, inputs: Json, noun: str
) -> None:
    text = "The resource 'projects/p/global/networks/net-1' already exists"
    answer_with(google, "POST", "/compute/", error(409, text, "alreadyExists"))
    caught = fails(lambda: engine.create(kind, "x", inputs))
    assert caught.text == bullet(
        f"Error creating {noun}: googleapi: Error 409: {text}, alreadyExists"
    )


QUOTA = "Quota 'NETWORKS' exceeded.  Limit: 5.0 globally."


def failed_operation(*, details: bool = False) -> Json:
    item: Json = {"code": "QUOTA_EXCEEDED", "message": QUOTA}
    if details:
        item["errorDetails"] = [
            {
                "quotaInfo": {
                    "metricName": "compute.googleapis.com/networks",
                    "limitName": "NETWORKS-per-project",
                    "limit": 5,
                    "dimensions": {"global": "global"},
                }
            }
        ]
    return {"name": "op-1", "status": "DONE", "error": {"errors": [item]}}


def test_an_operation_that_failed_in_the_first_answer(engine: Engine, google: GoogleStub) -> None:
    answer_with(google, "POST", "networks", (200, failed_operation()))
    caught = fails(lambda: engine.create(NETWORK, "x", network()))
    assert caught.text == bullet(f"Error waiting to create Network: {QUOTA}")
    assert caught.partial is None


def test_an_operation_that_fails_later_names_what_was_waited_for(
    engine: Engine, google: GoogleStub
) -> None:
    running = {"name": "op-1", "status": "RUNNING"}
    answer_with(google, "POST", "networks", (200, running))
    answer_with(google, "GET", "/operations/op-1", (200, running), (200, failed_operation()))
    caught = fails(lambda: engine.create(NETWORK, "x", network()))
    assert caught.text == bullet(
        f"Error waiting to create Network: Error waiting for Creating Network: {QUOTA}"
    )


def test_a_quota_failure_shows_its_figures(engine: Engine, google: GoogleStub) -> None:
    answer_with(google, "POST", "networks", (200, failed_operation(details=True)))
    caught = fails(lambda: engine.create(NETWORK, "x", network()))
    assert caught.text == bullet(
        f"Error waiting to create Network: {QUOTA}\n"
        "\tmetric name = compute.googleapis.com/networks\n"
        "\tlimit name = NETWORKS-per-project\n"
        "\tlimit = 5\n"
        "\tdimensions = map[global:global]"
    )


@pytest.mark.parametrize(
    ("kind", "inputs", "region", "path"),
    [
        (NETWORK, network(), "", "/compute/v1/projects/p/global/operations/op-1"),
        (
            SUBNETWORK,
            subnetwork(),
            "https://www.googleapis.com/compute/v1/projects/p/regions/us-central1",
            "/compute/v1/projects/p/regions/us-central1/operations/op-1",
        ),
    ],
)
def test_an_operation_is_looked_for_where_its_region_says(
    engine: Engine, google: GoogleStub, kind: str, inputs: Json, region: str, path: str
) -> None:
    operation = {"name": "op-1", "status": "PENDING", **({"region": region} if region else {})}

    def start(request: Request) -> Answer | None:
        # The resource is made, but the operation is still under way.
        if request.method == "POST" and request.path.startswith("/compute/"):
            google.rules.remove(start)
            google.answer(request)
            google.requests.pop()
            return 200, operation
        return None

    google.rules.append(start)
    answer_with(google, "GET", "/operations/", (200, operation), (200, operation))
    engine.create(kind, "x", inputs)
    assert google.lines.count(f"GET {path}") == 3


def test_a_refused_cluster_is_told_bare(engine: Engine, google: GoogleStub) -> None:
    text = "Already exists: projects/p/locations/us-central1/clusters/c"
    answer_with(google, "POST", "/clusters", error(409, text, "alreadyExists"))
    caught = fails(lambda: engine.create(CLUSTER, "x", cluster()))
    assert caught.text == bullet(f"googleapi: Error 409: {text}, alreadyExists")
    assert caught.partial is None


def test_details_of_a_refusal_are_shown_as_json(engine: Engine, google: GoogleStub) -> None:
    code, body = error(400, "Autopilot clusters must be regional clusters.", "badRequest")
    body["error"]["details"] = [
        {
            "@type": "type.googleapis.com/google.rpc.RequestInfo",
            "requestId": "0x4861d29cd332588e",
        }
    ]
    answer_with(google, "POST", "/clusters", (code, body))
    caught = fails(lambda: engine.create(CLUSTER, "x", cluster(location="us-central1-a")))
    assert caught.text == bullet(
        "googleapi: Error 400: Autopilot clusters must be regional clusters.\nDetails:\n[\n  {\n"
        '    "@type": "type.googleapis.com/google.rpc.RequestInfo",\n'
        '    "requestId": "0x4861d29cd332588e"\n  }\n]\n, badRequest'
    )


def test_a_cluster_in_the_error_state_stays_in_the_state(
    engine: Engine, google: GoogleStub
) -> None:
    def break_it(request: Request) -> None:
        for name, resource in google.resources.items():
            if "/clusters/" in name:
                resource["status"] = "ERROR"

    google.rules.append(break_it)
    caught = fails(lambda: engine.create(CLUSTER, "x", cluster()))
    reason = f"creating {urn(CLUSTER)}: " + bullet(
        'Cluster c was created in the error state "ERROR"'
    )
    assert caught.text == reason
    assert caught.partial.id == "projects/p/locations/us-central1/clusters/c"
    assert list(caught.partial.reasons) == [reason]
    kept = decode(caught.partial.properties)
    assert kept.values["endpoint"] == "10.1.2.3"
    assert ("masterAuth", "clientKey") in kept.secrets


def test_a_failed_creation_keeps_a_cluster_that_exists(engine: Engine, google: GoogleStub) -> None:
    def start(request: Request) -> Answer | None:
        if request.method == "POST" and request.path.endswith("/clusters"):
            google.rules.remove(start)
            google.answer(request)
            return 200, {"name": "operation-1", "status": "RUNNING"}
        return None

    google.rules.append(start)
    failed = {"name": "operation-1", "status": "DONE", "statusMessage": "no room"}
    answer_with(google, "GET", "/operations/operation-1", (200, failed))
    caught = fails(lambda: engine.create(CLUSTER, "x", cluster()))
    assert caught.text == f"creating {urn(CLUSTER)}: " + bullet(
        "Error waiting for creating GKE cluster: no room"
    )
    assert caught.partial.id == "projects/p/locations/us-central1/clusters/c"


def test_a_failed_creation_forgets_a_cluster_that_does_not_exist(
    engine: Engine, google: GoogleStub
) -> None:
    failed = {"name": "operation-1", "status": "DONE", "statusMessage": "no room"}
    answer_with(google, "POST", "/clusters", (200, failed))
    caught = fails(lambda: engine.create(CLUSTER, "x", cluster()))
    assert caught.text == bullet("no room")
    assert caught.partial is None


def test_an_interrupted_creation_is_resumed_by_the_next_update(
    engine: Engine, google: GoogleStub, start_engine: StartEngine
) -> None:
    pending = {"name": "operation-7", "status": "RUNNING"}
    asked = threading.Event()

    def start(request: Request) -> Answer | None:
        if request.method == "POST" and request.path.endswith("/clusters"):
            google.rules.remove(start)
            google.answer(request)
            return 200, pending
        return None

    def operation(request: Request) -> Answer | None:
        if "/operations/operation-7" in request.path:
            asked.set()
            return 200, {**pending, "status": "DONE"} if done.is_set() else pending
        return None

    done = threading.Event()
    google.rules += [operation, start]
    failure: list[RpcFailedError] = []
    creation = threading.Thread(
        target=lambda: failure.append(fails(lambda: engine.create(CLUSTER, "x", cluster())))
    )
    creation.start()
    assert asked.wait(10)
    engine.call("Cancel", Empty())
    creation.join(10)
    partial = failure[0].partial
    state = decode(partial.properties).values
    assert state["operation"] == "operation-7"
    assert partial.id == "projects/p/locations/us-central1/clusters/c"
    done.set()
    later = start_engine()
    later.configure()
    again = Resource(CLUSTER, "x", partial.id, later.check(CLUSTER, "x", cluster())[0], state)
    assert unchanged(later.diff(again, cluster()))
    google.requests.clear()
    after = later.update(again, cluster())
    assert google.bodies == []
    assert after.outputs["operation"] == ""
    assert after.outputs["endpoint"] == "10.1.2.3"


def test_a_service_that_cannot_be_listed(engine: Engine, google: GoogleStub) -> None:
    always(google, "GET", "/serviceusage/", error(403, "Service Usage API is off", "forbidden"))
    caught = fails(lambda: engine.create(SERVICE, "x", service()))
    assert "List Project Services p" in caught.text
    assert "googleapi: Error 403: Service Usage API is off, forbidden" in caught.text


def test_another_activation_is_waited_for(engine: Engine, google: GoogleStub) -> None:
    text = "Another activation or deactivation is in progress for this service and project."
    fired = answer_with(google, "POST", ":enable", error(409, text, "conflict"))
    made = engine.create(SERVICE, "x", service())
    assert fired() == 1
    assert made.id == "p/container.googleapis.com"


def test_a_missing_project_is_named(bare_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_PROJECT")
    bare_engine.configure()
    caught = fails(lambda: bare_engine.create(NETWORK, "x", network()))
    assert caught.text == bullet("project: required field is not set")


def test_a_missing_region_is_named(bare_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_REGION")
    bare_engine.configure()
    caught = fails(lambda: bare_engine.create(SUBNETWORK, "x", subnetwork(region=None)))
    assert caught.text == bullet(
        "Cannot determine region: set in this resource, or set provider-level 'region' or 'zone'."
    )
    caught = fails(lambda: bare_engine.create(CLUSTER, "x", cluster(location=None)))
    assert caught.text == bullet(
        "Unable to determine location: region/zone not configured in resource/provider config"
    )
