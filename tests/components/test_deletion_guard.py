"""What stands before a destroy, and before the replacement of a cluster that never came up."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components import deployed_state
from tests.components.recording import Recording, computed, run_program
from tests.stack_config import full_config

CLUSTER = "gcp:container/cluster:Cluster"
ENTRY = "pulumi:index:Stash"
CLUSTER_URN = f"urn:pulumi:dev::gpudirect::gpudirect:index:AutopilotCluster${CLUSTER}::c"


def _run(**overrides: Any) -> Recording:
    return run_program(full_config("dev", **overrides), stack="dev")


@pytest.mark.parametrize("wanted", [True, False])
def test_cluster_and_entry_are_protected_as_the_config_says(wanted: bool) -> None:
    recorded = _run(deletionProtection=wanted)
    assert recorded.one(CLUSTER).protect is wanted
    assert recorded.one(CLUSTER).inputs["deletionProtection"] is wanted
    assert recorded.one(ENTRY).protect is wanted
    assert not [r for r in recorded.resources if r.protect and r.type not in (CLUSTER, ENTRY)]


def test_the_entry_is_called_like_the_config_key_and_goes_first(either: Recording) -> None:
    entry = either.one(ENTRY)
    assert entry.name == "gpudirect:deletionProtection"
    # What is deleted before all others depends on all that no other depends on.
    depended_on = {urn for r in either.resources for urn in r.dependencies if r is not entry}
    leaves = {
        r.urn
        for r in either.resources
        if r.type.startswith(("gcp:", "kubernetes:", "pulumi-python:"))
        and r is not entry
        and r.urn not in depended_on
    }
    assert leaves
    assert leaves <= entry.dependencies


@pytest.fixture
def _dead_in_state(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    known = {CLUSTER_URN: {"name": "dev-cluster", "endpoint": "", **request.param}}
    monkeypatch.setattr(deployed_state, "deployed_outputs", lambda: known)
    monkeypatch.setattr(deployed_state, "_has_address", lambda _: False)


@pytest.mark.parametrize(
    "_dead_in_state", [{"deletionProtection": False}], indirect=True, ids=["unprotected"]
)
@pytest.mark.usefixtures("_dead_in_state")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_cluster_that_never_came_up_is_replaced(wanted: bool) -> None:
    cluster = _run(deletionProtection=wanted).one(CLUSTER)
    assert cluster.replaced_on == ("#initerror", "deletionProtection")
    assert cluster.deleted_before_replaced, "the new one has the same name"
    assert cluster.inputs["deletionProtection"] is wanted


@pytest.mark.parametrize(
    "_dead_in_state", [{"deletionProtection": True}], indirect=True, ids=["protected"]
)
@pytest.mark.usefixtures("_dead_in_state")
def test_one_that_is_protected_loses_its_protection_first() -> None:
    def dead(token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        found = computed(token, name, inputs)
        return {**found, "endpoint": "", "masterAuth": None} if token == CLUSTER else found

    config = full_config("dev", deletionProtection=True)
    with pytest.raises(pulumi.RunError, match=r"run `pulumi up` again, which deletes it"):
        run_program(config, stack="dev", outputs=dead)
    # The preview before it must pass, or the update would never begin.
    cluster = run_program(config, stack="dev", outputs=dead, preview=True).one(CLUSTER)
    assert cluster.replaced_on == ()
    assert cluster.protect is False
    assert cluster.inputs["deletionProtection"] is False
    assert "ipAllocationPolicy" in cluster.ignored
    assert "deletionProtection" not in cluster.ignored


@pytest.mark.parametrize("wanted", [True, False])
def test_one_that_is_taken_over_is_protected_until_the_next_update(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider imports it with its own guard on, which a destroy would meet too late."""
    left = "projects/p/locations/us-east4/clusters/dev-cluster"
    monkeypatch.setattr(deployed_state, "_interrupted_cluster", lambda *_: left)
    recorded = _run(deletionProtection=wanted)
    assert recorded.one(CLUSTER).protect is True
    assert recorded.one(ENTRY).protect is True


def test_a_live_cluster_is_not_replaced_for_an_update_that_failed(either: Recording) -> None:
    assert either.one(CLUSTER).replaced_on == ()


def test_a_failed_creation_gets_its_hint_and_a_foreign_object_is_looked_for(
    either: Recording,
) -> None:
    for resource in either.resources:
        expected: set[str] = set()
        if resource.type.startswith("gcp:compute/"):
            expected = {"fabric-orphans"}
        elif resource.type == CLUSTER:
            expected = {"cluster-orphans"}
        elif resource.type.startswith("kubernetes:"):
            expected = {"addons-foreign", "addons-kinds"}
            assert resource.inputs["metadata"]["labels"]["gpudirect-stack"] in ("dev", "staging")
        assert resource.hooks == expected, resource.urn
