"""What is retried in silence, what is not, and what ends the wait [facts google-cloud.md §1.7]."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sandbox.plugins.pulumi_resource_gcp import transport
from sandbox.plugins.pulumi_resource_gcp.protocol import provider
from sandbox.plugins.pulumi_resource_gcp.resources import cluster as cluster_module
from sandbox.plugins.pulumi_resource_gcp.values import encode

from .engine import Engine
from .failing import always, answer_with, bullet, fails, urn
from .google_stub import Answer, GoogleStub, error
from .programs import (
    NETWORK,
    network,
)

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(cluster_module, "DELETE_RETRY_SECONDS", 0.2)


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
    request = provider.CreateRequest(urn=urn(NETWORK), properties=encode(checked), timeout=0.5)
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
    assert time.monotonic() - started < 60
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
