"""Updates, reads and deletions that fail [facts google-cloud.md §1.7, R18]."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.plugins.pulumi_resource_gcp import transport
from sandbox.plugins.pulumi_resource_gcp.resources import cluster as cluster_module
from sandbox.plugins.pulumi_resource_gcp.values import decode

from .engine import Engine
from .failing import always, answer_with, bullet, fails, urn
from .google_stub import GoogleStub, error, not_found
from .programs import (
    CLUSTER,
    FIREWALL,
    NETWORK,
    SUBNETWORK,
    cluster,
    firewall,
    network,
    subnetwork,
)

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(cluster_module, "DELETE_RETRY_SECONDS", 0.2)


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
