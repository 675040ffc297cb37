"""Reading the stack's last state, and the cluster that a killed update left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pytest

from components import deployed_state

EMPTY = SimpleNamespace(value={"outputs": {}})


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**9, 600))
    monkeypatch.setattr(
        deployed_state,
        "time",
        SimpleNamespace(sleep=lambda _: None, monotonic=lambda: next(clock)),
    )
    monkeypatch.setattr(pulumi, "get_stack", lambda: "dev")
    for level in ("debug", "info", "warn"):
        monkeypatch.setattr(pulumi.log, level, lambda *_: None)


def _answers(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[Any]:
    left = list(answers)

    def invoke(*_: Any) -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    return left


def _cluster(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    found = SimpleNamespace(project="p", resource_labels={"gpudirect-stack": "dev"}, endpoint="")
    monkeypatch.setattr(
        gcp.container, "get_cluster", lambda **_: SimpleNamespace(**{**vars(found), **fields})
    )


def test_a_state_that_is_just_written_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    half = Exception("invoke failed: failed to load checkpoint: EOF")
    left = _answers(monkeypatch, half, half, SimpleNamespace(value={"outputs": {"urn": {}}}))
    assert deployed_state.deployed_outputs() == {"urn": {}}
    assert left == []


def test_a_state_that_stays_unreadable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, *[Exception("failed to load checkpoint: EOF")] * 100)
    with pytest.raises(Exception, match="failed to load checkpoint"):
        deployed_state.deployed_outputs()


def test_another_failure_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    left = _answers(monkeypatch, Exception("no such stack"), EMPTY)
    with pytest.raises(Exception, match="no such stack"):
        deployed_state.deployed_outputs()
    assert left == [EMPTY]


def test_a_cluster_with_the_stacks_label_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    _cluster(monkeypatch, endpoint="192.0.2.1")
    found = deployed_state.former_cluster({}, "dev-cluster", "us-east4", "dev").adopted_id
    assert found == "projects/p/locations/us-east4/clusters/dev-cluster"


@pytest.mark.parametrize("labels", [None, {}, {"gpudirect-stack": "staging"}])
def test_somebody_elses_cluster_is_not(
    monkeypatch: pytest.MonkeyPatch, labels: dict[str, str] | None
) -> None:
    _cluster(monkeypatch, endpoint="192.0.2.1", resource_labels=labels)
    found = deployed_state.former_cluster({}, "dev-cluster", "us-east4", "dev")
    assert found == deployed_state.FormerCluster()


def test_a_cluster_that_never_gets_an_address_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _cluster(monkeypatch)
    with pytest.raises(
        pulumi.RunError,
        match="gcloud container clusters delete dev-cluster --location=us-east4",
    ):
        deployed_state.former_cluster({}, "dev-cluster", "us-east4", "dev")


def _state_with(**outputs: Any) -> dict[str, dict[str, Any]]:
    urn = "urn:pulumi:dev::gpudirect::c$gcp:container/cluster:Cluster::cluster-cluster"
    known = {"name": "dev-cluster", "location": "us-east4", "project": "p"}
    return {urn: known | outputs}


def test_a_cluster_with_an_address_is_looked_up_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcp.container, "get_cluster", lambda **_: pytest.fail("asked the cloud"))
    found = deployed_state.former_cluster(
        _state_with(endpoint="192.0.2.1", deletionProtection=True), "dev-cluster", "us-east4", "dev"
    )
    assert found == deployed_state.FormerCluster()


def test_a_cluster_that_came_up_after_its_update_had_ended_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _cluster(monkeypatch, endpoint="192.0.2.1")
    found = deployed_state.former_cluster(
        _state_with(endpoint=""), "dev-cluster", "us-east4", "dev"
    )
    assert found == deployed_state.FormerCluster()


@pytest.mark.parametrize("protected", [True, False])
def test_a_cluster_that_never_came_up_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    _cluster(monkeypatch, endpoint="")
    found = deployed_state.former_cluster(
        _state_with(deletionProtection=protected), "dev-cluster", "us-east4", "dev"
    )
    assert found == deployed_state.FormerCluster(failed=True, held=protected)
