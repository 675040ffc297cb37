"""What keeps a resource from being deleted, read from the state [facts google-cloud.md §0.4]."""

from __future__ import annotations

from typing import Any

import pytest

from .engine import Engine
from .failing import bullet, fails, urn
from .google_stub import GoogleStub
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
