"""When a run happens, and when stored figures are enough."""

from __future__ import annotations

from typing import Any

import pytest

from components import nccl_run_provider
from components.nccl_run_provider import NcclRunProvider

INPUTS: dict[str, Any] = {
    "triggers": {"release": "r1", "clusterVersion": "v1"},
    "policy": {"mode": "gate", "minFraction": 0.8, "nodes": 2, "gpusPerNode": 8},
    "reference": [[1.0, 2.0]],
    "kubeconfig": "{}",
    "documents": "[]",
    "deadlines": {},
    "statusUrn": "urn",
}


def _state(verdict: str, **changed: Any) -> dict[str, Any]:
    kept = {key: INPUTS[key] for key in ("triggers", "policy", "reference")}
    return {**kept, "result": {"verdict": verdict}, "history": [{"verdict": verdict}], **changed}


def _changed(key: str, **values: Any) -> dict[str, Any]:
    return {**INPUTS, key: {**INPUTS[key], **values}}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    def run(_props: dict[str, Any], *, history: list[Any]) -> dict[str, Any]:
        made.append("run")
        return {"history": [*history, "new"]}

    def judge(_olds: dict[str, Any], _news: dict[str, Any]) -> dict[str, Any]:
        made.append("judge")
        return {}

    monkeypatch.setattr(nccl_run_provider, "_run", run)
    monkeypatch.setattr(nccl_run_provider, "_judge_again", judge)
    return made


def _due(olds: dict[str, Any], news: dict[str, Any]) -> bool | None:
    return NcclRunProvider().diff("id", olds, news).changes


def test_nothing_is_due_after_a_run_that_passed() -> None:
    assert _due(_state("passed"), INPUTS) is False


def test_new_credentials_or_deadlines_make_no_run() -> None:
    news = {**INPUTS, "kubeconfig": "{other}", "deadlines": {"run": 1}}
    assert _due(_state("passed"), news) is False


@pytest.mark.parametrize("name", ["release", "clusterVersion"])
def test_what_the_run_proves_makes_a_run_when_it_changes(name: str, runs: list[str]) -> None:
    news = _changed("triggers", **{name: "other"})
    assert _due(_state("passed"), news) is True
    outs = NcclRunProvider().update("id", _state("passed"), news).outs
    assert runs == ["run"]
    assert outs is not None
    assert outs["history"] == [{"verdict": "passed"}, "new"]


def test_another_bar_judges_the_stored_rows_and_runs_nothing(runs: list[str]) -> None:
    news = _changed("policy", minFraction=0.5)
    assert _due(_state("passed"), news) is True
    NcclRunProvider().update("id", _state("passed"), news)
    assert runs == ["judge"]


@pytest.mark.parametrize("verdict", ["failed", "incomplete", "degraded"])
def test_a_shut_gate_is_tried_again_by_the_next_update(verdict: str, runs: list[str]) -> None:
    assert _due(_state(verdict), INPUTS) is True
    NcclRunProvider().update("id", _state(verdict), INPUTS)
    assert runs == ["run"]


def test_a_report_runs_again_only_where_there_is_no_number() -> None:
    report = _changed("policy", mode="report")
    kept = {"policy": report["policy"]}
    assert _due(_state("degraded", **kept), report) is False
    assert _due(_state("failed", **kept), report) is False
    assert _due(_state("incomplete", **kept), report) is True


def test_a_cancel_call_of_the_engine_reaches_the_run() -> None:
    """The very server of `pulumi.dynamic`, asked as the engine asks on Ctrl-C."""
    from concurrent import futures

    import grpc
    from google.protobuf import empty_pb2
    from pulumi.runtime.proto import ResourceProviderServicer, provider_pb2_grpc

    class Servicer(ResourceProviderServicer):
        def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
            return empty_pb2.Empty()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        cancelled = nccl_run_provider._cancellation()
        assert not cancelled()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            provider_pb2_grpc.ResourceProviderStub(channel).Cancel(empty_pb2.Empty())
        assert cancelled()
    finally:
        server.stop(None).wait()
