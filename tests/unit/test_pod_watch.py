"""Following Pods through changes, pauses and failures of the API server."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import kubernetes
import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from components import pod_watch
from components.pod_watch import PodWatch

PATIENCE_SECONDS = 10.0


def _pod(name: str) -> Any:
    return SimpleNamespace(metadata=SimpleNamespace(name=name))


class FakeApi:
    """Answers lists from a script, and watches from a queue."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.changes: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def list_namespaced_pod(self, *_: Any, **__: Any) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(items=answer, metadata=SimpleNamespace(resource_version="1"))

    def stream(self, *_: Any, **__: Any) -> Iterator[dict[str, Any]]:
        while (change := self.changes.get()) is not None:
            yield change


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    api = FakeApi([_pod("a")])
    monkeypatch.setattr(kubernetes.watch, "Watch", lambda: api)
    monkeypatch.setattr(pod_watch, "_RETRY_SECONDS", 0.0)
    yield api
    # Lets the thread see that nobody watches any more.
    api.changes.put(None)


def _names(pods: list[Any] | None) -> list[str]:
    assert pods is not None
    return [pod.metadata.name for pod in pods]


def test_every_change_is_news_and_no_change_is_none(api: FakeApi) -> None:
    with PodWatch(api, "ns", "x=y") as watch:
        assert _names(watch.news(PATIENCE_SECONDS)) == ["a"]
        assert watch.news(0.0) is None
        api.changes.put({"type": "ADDED", "object": _pod("b")})
        assert _names(watch.news(PATIENCE_SECONDS)) == ["a", "b"]
        api.changes.put({"type": "DELETED", "object": _pod("a")})
        assert _names(watch.news(PATIENCE_SECONDS)) == ["b"]


@pytest.mark.parametrize(
    "failure", [urllib3.exceptions.ProtocolError("gone"), ApiException(status=503)]
)
def test_an_api_server_that_is_away_for_a_moment_is_waited_for(
    api: FakeApi, failure: Exception
) -> None:
    api.answers = [failure, failure, [_pod("c")]]
    with PodWatch(api, "ns", "x=y") as watch:
        assert _names(watch.news(PATIENCE_SECONDS)) == ["c"]


@pytest.mark.parametrize(
    ("failure", "outage_seconds"),
    [(ApiException(status=403), 180.0), (urllib3.exceptions.ProtocolError("gone"), -1.0)],
)
def test_a_refusal_and_a_long_outage_are_told(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, failure: Exception, outage_seconds: float
) -> None:
    monkeypatch.setattr(pod_watch, "_OUTAGE_SECONDS", outage_seconds)
    api.answers = [failure]
    with PodWatch(api, "ns", "x=y") as watch, pytest.raises(type(failure)):
        watch.news(PATIENCE_SECONDS)
