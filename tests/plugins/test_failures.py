"""Failures as the engine is told them [facts google-cloud.md §1.7, real-provider.md]."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty

from sandbox.plugins.pulumi_resource_gcp import transport
from sandbox.plugins.pulumi_resource_gcp.protocol import provider
from sandbox.plugins.pulumi_resource_gcp.resources import cluster as cluster_module
from sandbox.plugins.pulumi_resource_gcp.values import decode, encode

from .conftest import StartEngine
from .engine import Engine, Resource, RpcFailedError, unchanged
from .google_stub import Answer, GoogleStub, Request, error, not_found
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


def answer_with(google: GoogleStub, method: str, part: str, *answers: Answer) -> Callable[[], int]:
    """Answer matching requests with these, one each; return how many were given."""
    waiting = list(answers)

    def rule(request: Request) -> Answer | None:
        if waiting and request.method == method and part in request.path:
            return waiting.pop(0)
        return None

    google.rules.append(rule)
    return lambda: len(answers) - len(waiting)


def always(google: GoogleStub, method: str, part: str, answer: Answer) -> None:
    google.rules.append(
        lambda request: answer if request.method == method and part in request.path else None
    )


def fails(call: Callable[[], Any]) -> RpcFailedError:
    with pytest.raises(RpcFailedError) as caught:
        call()
    assert caught.value.code is grpc.StatusCode.UNKNOWN
    return caught.value


def bullet(text: str) -> str:
    return f"1 error occurred:\n\t* {text}\n\n"


def urn(kind: str, name: str = "x") -> str:
    return Resource(kind, name).urn


# --- create ---


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


# --- silent retries ---


@pytest.mark.parametrize(
    "answer",
    [
        error(503, "Backend Error", "backendError"),
        error(500, "Internal error", "internalError"),
        error(429, "Slow down", "rateLimitExceeded"),
        error(409, "operationInProgress", "operationInProgress"),
        error(400, "The resource 'projects/p/global/networks/n' is not ready", "resourceNotReady"),
        error(403, "Quota exceeded for quota metric 'Q' and limit 'Q per minute'", "rateLimit"),
        error(403, "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", "forbidden"),
    ],
)
def test_a_passing_failure_is_retried_without_a_word(
    engine: Engine, google: GoogleStub, answer: Answer
) -> None:
    fired = answer_with(google, "POST", "networks", answer, answer)
    engine.create(NETWORK, "x", network())
    assert fired() == 2
    assert google.lines.count("POST /compute/v1/projects/p/global/networks") == 3


@pytest.mark.parametrize(
    "answer",
    [
        error(400, "The resource 'instances/i' is not ready", "resourceNotReady"),
        error(403, "no", "forbidden"),
        error(404, "no", "notFound"),
        error(409, "there", "alreadyExists"),
    ],
)
def test_a_lasting_failure_is_not_retried(
    engine: Engine, google: GoogleStub, answer: Answer
) -> None:
    fired = answer_with(google, "POST", "networks", answer, answer)
    fails(lambda: engine.create(NETWORK, "x", network()))
    assert fired() == 1


def test_a_failure_that_lasts_ends_with_the_time_limit(engine: Engine, google: GoogleStub) -> None:
    always(google, "POST", "networks", error(503, "Backend Error", "backendError"))
    checked, _ = engine.check(NETWORK, "x", network())
    request = provider.CreateRequest(urn=urn(NETWORK), properties=encode(checked), timeout=0.1)
    caught = fails(lambda: engine.call("Create", request))
    assert "googleapi: Error 503: Backend Error, backendError" in caught.text


def test_an_operation_that_never_ends_meets_the_time_limit(
    engine: Engine, google: GoogleStub
) -> None:
    running = {"name": "op-1", "status": "RUNNING"}
    always(google, "POST", "networks", (200, running))
    always(google, "GET", "/operations/", (200, running))
    checked, _ = engine.check(NETWORK, "x", network())
    request = provider.CreateRequest(urn=urn(NETWORK), properties=encode(checked), timeout=1)
    started = time.monotonic()
    caught = fails(lambda: engine.call("Create", request))
    assert time.monotonic() - started < 5
    assert caught.text == bullet(
        "Error waiting to create Network: Error waiting for Creating Network: timeout while "
        "waiting for state to become 'done: true' (last state: 'done: false', timeout: 1s)"
    )


def test_nobody_at_the_address_is_an_error_at_once(bare_engine: Engine, google: GoogleStub) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bare_engine.configure(computeCustomEndpoint=f"http://127.0.0.1:{port}/compute/v1/")
    caught = fails(lambda: bare_engine.create(NETWORK, "x", network()))
    assert f"127.0.0.1:{port}" in caught.text
    assert "refused" in caught.text.lower()


@pytest.mark.parametrize("body", ["<html>bad gateway</html>", ""])
def test_an_answer_that_is_not_google_s_is_shown(
    engine: Engine, google: GoogleStub, body: str
) -> None:
    always(google, "POST", "networks", (418, body))  # type: ignore[arg-type]
    caught = fails(lambda: engine.create(NETWORK, "x", network()))
    assert "googleapi: got HTTP response code 418 with body: " in caught.text


# --- update, read, delete ---


def test_a_refused_update_keeps_the_old_state(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(NETWORK, "x", network())
    text = "Invalid value for field 'resource.mtu': '1000'."
    answer_with(google, "PATCH", "networks", error(400, text, "invalid"))
    caught = fails(lambda: engine.update(made, network(mtu=1000)))
    assert caught.text == f"updating {urn(NETWORK)}: " + bullet(
        f'Error updating Network "{made.id}": googleapi: Error 400: {text}, invalid'
    )
    assert caught.partial.id == made.id
    assert decode(caught.partial.properties).values["mtu"] == 8244


def test_a_failed_update_operation(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    answer_with(google, "PUT", "/clusters/c", (200, {"name": "operation-2", "status": "RUNNING"}))
    failed = {"name": "operation-2", "status": "DONE", "statusMessage": "cannot be changed"}
    answer_with(google, "GET", "/operations/operation-2", (200, failed))
    caught = fails(lambda: engine.update(made, cluster(enableMultiNetworking=False)))
    assert caught.text == f"updating {urn(CLUSTER)}: " + bullet(
        "Error waiting for updating multi networking: cannot be changed"
    )


def test_a_refused_read(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(NETWORK, "x", network())
    answer_with(google, "GET", "networks", error(403, "no", "forbidden"))
    caught = fails(lambda: engine.refresh(made))
    assert caught.text == f"refreshing {urn(NETWORK)}: " + bullet(
        f'Error when reading or editing ComputeNetwork "{made.id}": googleapi: Error 403: no, '
        "forbidden"
    )


def test_a_network_in_use(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(NETWORK, "x", network())
    text = (
        f"The network resource '{made.id}' is already being used by "
        "'projects/p/global/firewalls/gke-demo-x'"
    )
    operation = {"name": "op-9", "status": "RUNNING"}
    answer_with(google, "DELETE", "networks", (200, operation))
    failed = {**operation, "status": "DONE", "error": {"errors": [{"message": text}]}}
    answer_with(google, "GET", "/operations/op-9", (200, failed))
    caught = fails(lambda: engine.delete(made))
    assert caught.text == f"deleting {urn(NETWORK)}: " + bullet(
        f"Error waiting for Deleting Network: {text}"
    )
    engine.delete(made)
    assert made.id not in google.resources


def test_a_subnetwork_in_use(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(SUBNETWORK, "x", subnetwork())
    text = f"The subnetwork resource '{made.id}' is already being used by 'a VM'"
    answer_with(google, "DELETE", "subnetworks", error(400, text, "resourceInUseByAnotherResource"))
    caught = fails(lambda: engine.delete(made))
    assert caught.text == f"deleting {urn(SUBNETWORK)}: " + bullet(
        f"Error when reading or editing Subnetwork: googleapi: Error 400: {text}, "
        "resourceInUseByAnotherResource"
    )


def test_every_refusal_of_a_cluster_s_deletion_is_retried_for_a_while(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    refusal = error(400, "Cluster is running incompatible operation", "failedPrecondition")
    fired = answer_with(google, "DELETE", "/clusters/c", refusal)
    engine.delete(made)
    assert fired() == 1
    assert google.resources == {}


def test_a_cluster_s_deletion_that_stays_refused(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    always(google, "DELETE", "/clusters/c", error(400, "no", "failedPrecondition"))
    caught = fails(lambda: engine.delete(made))
    assert caught.text == f"deleting {urn(CLUSTER)}: " + bullet(
        "Error deleting Cluster: googleapi: Error 400: no, failedPrecondition"
    )


def test_a_cluster_that_changes_is_waited_for_before_it_is_deleted(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    busy = {**google.resources[made.id], "status": "RECONCILING"}
    fired = answer_with(google, "GET", "/clusters/c", (200, busy), (200, busy))
    google.requests.clear()
    engine.delete(made)
    assert fired() == 2
    assert [line.split()[0] for line in google.lines] == ["GET", "GET", "GET", "DELETE"]


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        (NETWORK, network()),
        (SUBNETWORK, subnetwork()),
        (FIREWALL, firewall()),
        (CLUSTER, cluster()),
    ],
)
def test_deleting_what_is_gone_is_a_success(
    engine: Engine, google: GoogleStub, kind: str, inputs: Json
) -> None:
    made = engine.create(kind, "x", inputs)
    google.resources.clear()
    engine.delete(made)


def test_a_cluster_that_vanishes_before_its_deletion_is_a_success(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    always(google, "DELETE", "/clusters/c", not_found("c"))
    engine.delete(made)


# --- guards, read from the state [§0.4] ---

PROTECTED = (
    "Cannot destroy cluster because deletion_protection is set to true. Set it to false to "
    "proceed with cluster deletion."
)


def test_deletion_protection_fails_before_any_call(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(CLUSTER, "x", cluster(deletionProtection=None))
    google.requests.clear()
    caught = fails(lambda: engine.delete(made))
    assert caught.text == f"deleting {urn(CLUSTER)}: " + bullet(PROTECTED)
    assert google.lines == []


def test_protection_is_turned_off_by_an_update_and_by_nothing_else(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(CLUSTER, "x", cluster(deletionProtection=True))
    off = engine.update(made, cluster(deletionProtection=False))
    assert off.outputs["deletionProtection"] is False
    assert all(request.method == "GET" for request in google.requests[4:])
    engine.delete(off)
    assert google.resources == {}


@pytest.mark.parametrize(
    ("kind", "inputs", "name"),
    [
        (NETWORK, network(), "ComputeNetwork"),
        (SUBNETWORK, subnetwork(), "ComputeSubnetwork"),
        (FIREWALL, firewall(), "ComputeFirewall"),
        (SERVICE, service(), '"p/container.googleapis.com"'),
        (CLUSTER, cluster(), '"projects/p/locations/us-central1/clusters/c"'),
    ],
)
def test_the_policy_prevent_forbids_a_deletion(
    engine: Engine, google: GoogleStub, kind: str, inputs: Json, name: str
) -> None:
    made = engine.create(kind, "x", {**inputs, "deletionPolicy": "PREVENT"})
    google.requests.clear()
    caught = fails(lambda: engine.delete(made))
    assert caught.text == f"deleting {urn(kind)}: " + bullet(
        f'cannot destroy {name} without setting deletion_policy="DELETE" and running '
        "`terraform apply`"
    )
    assert google.lines == []


@pytest.mark.parametrize(
    ("kind", "inputs"), [(NETWORK, network()), (CLUSTER, cluster(deletionProtection=True))]
)
def test_the_policy_abandon_forgets(
    engine: Engine, google: GoogleStub, kind: str, inputs: Json
) -> None:
    made = engine.create(kind, "x", {**inputs, "deletionPolicy": "ABANDON"})
    google.requests.clear()
    engine.delete(made)
    assert google.lines == []
    assert made.id in google.resources


def test_a_changed_policy_alone_calls_nobody(engine: Engine, google: GoogleStub) -> None:
    for kind, program in ((NETWORK, network), (CLUSTER, cluster), (FIREWALL, firewall)):
        made = engine.create(kind, "x", program())
        google.requests.clear()
        after = engine.update(made, program(deletionPolicy="PREVENT"))
        assert google.lines == []
        assert after.outputs == {**made.outputs, "deletionPolicy": "PREVENT"}


def test_a_service_is_disabled_only_if_the_state_says_so(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(SERVICE, "x", service(disableOnDestroy=True))
    google.requests.clear()
    engine.delete(made)
    assert google.lines == [
        "POST /serviceusage/v1/projects/p/services/container.googleapis.com:disable"
    ]
    assert google.services == set()


# --- configuration that is missing ---


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
