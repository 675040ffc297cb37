"""A Google stub and the plug-in's service over real gRPC, on free loopback ports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest

from sandbox.plugins.pulumi_resource_gcp.protocol import GRPC_OPTIONS, provider_grpc
from sandbox.plugins.pulumi_resource_gcp.servicer import Servicer

from .engine import Engine
from .google_stub import GoogleStub, serve

_FOREIGN = ("GOOGLE_", "GCLOUD_", "CLOUDSDK_")


@pytest.fixture
def google() -> Iterator[GoogleStub]:
    stub = GoogleStub()
    stop = serve(stub)
    try:
        yield stub
    finally:
        stop()


@pytest.fixture
def environment(google: GoogleStub, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of the recorded sheet, and no others of Google's [facts real-provider.md]."""
    for name in list(os.environ):
        if name.startswith(_FOREIGN):
            monkeypatch.delenv(name)
    base = f"http://127.0.0.1:{google.port}"
    values = {
        "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": f"{base}/compute/v1/",
        "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{base}/container/v1beta1/",
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": f"{base}/serviceusage/v1/",
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT": f"{base}/resourcemanager/v1/",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "anything",
        "GOOGLE_PROJECT": "p",
        "GOOGLE_REGION": "us-central1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def warnings() -> list[tuple[str, str]]:
    return []


StartEngine = Callable[[], Engine]


@pytest.fixture
def start_engine(
    environment: dict[str, str], warnings: list[tuple[str, str]]
) -> Iterator[StartEngine]:
    """Starts plug-ins, each with an engine that has not configured it yet."""
    with ExitStack() as stack:

        def start() -> Engine:
            server = grpc.server(ThreadPoolExecutor(max_workers=32), options=GRPC_OPTIONS)
            servicer = Servicer(lambda urn, text: warnings.append((urn, text)))
            provider_grpc.add_ResourceProviderServicer_to_server(servicer, server)
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            stack.callback(lambda: server.stop(0).wait())
            channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=GRPC_OPTIONS)
            stack.callback(channel.close)
            return Engine(provider_grpc.ResourceProviderStub(channel))

        yield start


@pytest.fixture
def bare_engine(start_engine: StartEngine) -> Engine:
    """An engine that has not configured the provider yet."""
    return start_engine()


@pytest.fixture
def engine(bare_engine: Engine) -> Engine:
    bare_engine.configure()
    return bare_engine
