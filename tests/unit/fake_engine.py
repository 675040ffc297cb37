"""The engine's side of a program, as far as resource transforms go: no state, no plug-ins."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    callback_pb2,
    callback_pb2_grpc,
    engine_pb2,
    engine_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)


class FakeEngine(resource_pb2_grpc.ResourceMonitorServicer, engine_pb2_grpc.EngineServicer):
    """Registers what a program declares after its transforms have seen it.

    Attributes:
        address: Where it listens.
        registered: Names of the resources that got through, with their properties.
        errors: What the program logged as errors.
    """

    address: str

    def __init__(self) -> None:
        self.registered: dict[str, Any] = {}
        self.errors: list[str] = []
        self._transforms: list[Any] = []
        self._root = ""

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: N802
        return resource_pb2.SupportsFeatureResponse(hasSupport=True)

    def RegisterStackTransform(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._transforms.append(request)
        return empty_pb2.Empty()

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        properties = request.object
        for transform in self._transforms if request.custom else ():
            asked = resource_pb2.TransformRequest(
                type=request.type, name=request.name, custom=True, properties=properties
            )
            call = callback_pb2.CallbackInvokeRequest(
                token=transform.token, request=asked.SerializeToString()
            )
            with grpc.insecure_channel(transform.target) as channel:
                try:
                    answer = callback_pb2_grpc.CallbacksStub(channel).Invoke(call, timeout=60)
                except grpc.RpcError as error:
                    context.abort(error.code(), f"invoke transform: {error.details()}")
            properties = resource_pb2.TransformResponse.FromString(answer.response).properties
        self.registered[request.name] = properties
        urn = f"urn:pulumi:s::p::{request.type}::{request.name}"
        return resource_pb2.RegisterResourceResponse(urn=urn, id="id", object=properties)

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()

    def SetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def GetRootResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.severity == engine_pb2.ERROR:
            self.errors.append(request.message)
        return empty_pb2.Empty()


@contextmanager
def running_engine() -> Iterator[FakeEngine]:
    """Serve an engine on a free port."""
    engine = FakeEngine()
    server = grpc.server(ThreadPoolExecutor(16))
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(engine, server)
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    engine.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield engine
    finally:
        server.stop(None).wait()
