"""The engine's side of the protocol, as far as the tests need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import grpc

from sandbox.plugins.pulumi_resource_gcp.protocol import provider
from sandbox.plugins.pulumi_resource_gcp.values import Decoded, decode, encode

Json = dict[str, Any]


class RpcFailedError(Exception):
    """A call that ended in an error; `partial` is the ErrorResourceInitFailed, if there is one."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.details())
        self.code = error.code()
        self.text: str = error.details()
        self.partial: Any = None
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

                status = Status.FromString(value)
                self.partial = provider.ErrorResourceInitFailed()
                assert status.details[0].Unpack(self.partial)


@dataclass
class Resource:
    """One resource as the engine's state keeps it."""

    type: str
    name: str
    id: str = ""
    inputs: Json = field(default_factory=dict)
    outputs: Json = field(default_factory=dict)

    @property
    def urn(self) -> str:
        return f"urn:pulumi:dev::proj::{self.type}::{self.name}"


class Engine:
    """Drives one plug-in in the order in which Pulumi's engine does."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub

    def call(self, method: str, request: Any) -> Any:
        try:
            return getattr(self.stub, method)(request, timeout=30)
        except grpc.RpcError as error:
            raise RpcFailedError(error) from None

    def configure(self, **args: Any) -> Any:
        return self.call("Configure", provider.ConfigureRequest(args=encode(args)))

    def check(
        self, type_: str, name: str, inputs: Json, olds: Json | None = None, **more: Any
    ) -> tuple[Json, list[str]]:
        resource = Resource(type_, name)
        answer = self.call(
            "Check",
            provider.CheckRequest(
                urn=resource.urn,
                news=encode(inputs),
                olds=encode(olds or {}),
                **{"randomSeed": b"seed", **more},
            ),
        )
        return decode(answer.inputs).values, [failure.reason for failure in answer.failures]

    def create(self, type_: str, name: str, inputs: Json) -> Resource:
        checked, failures = self.check(type_, name, inputs)
        assert not failures, failures
        resource = Resource(type_, name, inputs=checked)
        answer = self.call(
            "Create", provider.CreateRequest(urn=resource.urn, properties=encode(checked))
        )
        resource.id, resource.outputs = answer.id, decode(answer.properties).values
        return resource

    def preview_create(self, type_: str, name: str, inputs: Json) -> Json:
        checked, failures = self.check(type_, name, inputs)
        assert not failures, failures
        answer = self.call(
            "Create",
            provider.CreateRequest(
                urn=Resource(type_, name).urn, properties=encode(checked), preview=True
            ),
        )
        assert answer.id == ""
        return decode(answer.properties).values

    def diff(self, resource: Resource, inputs: Json) -> Any:
        checked, failures = self.check(resource.type, resource.name, inputs, resource.inputs)
        assert not failures, failures
        return self.call(
            "Diff",
            provider.DiffRequest(
                id=resource.id,
                urn=resource.urn,
                olds=encode(resource.outputs),
                old_inputs=encode(resource.inputs),
                news=encode(checked),
            ),
        )

    def update(self, resource: Resource, inputs: Json, *, preview: bool = False) -> Resource:
        checked, failures = self.check(resource.type, resource.name, inputs, resource.inputs)
        assert not failures, failures
        answer = self.call(
            "Update",
            provider.UpdateRequest(
                id=resource.id,
                urn=resource.urn,
                olds=encode(resource.outputs),
                old_inputs=encode(resource.inputs),
                news=encode(checked),
                preview=preview,
            ),
        )
        outputs = decode(answer.properties).values
        return Resource(resource.type, resource.name, resource.id, checked, outputs)

    def refresh(self, resource: Resource) -> Resource | None:
        answer = self.call(
            "Read",
            provider.ReadRequest(
                id=resource.id,
                urn=resource.urn,
                properties=encode(resource.outputs),
                inputs=encode(resource.inputs),
            ),
        )
        if not answer.id:
            return None
        return Resource(
            resource.type,
            resource.name,
            answer.id,
            decode(answer.inputs).values,
            decode(answer.properties).values,
        )

    def delete(self, resource: Resource) -> None:
        self.call(
            "Delete",
            provider.DeleteRequest(
                id=resource.id,
                urn=resource.urn,
                properties=encode(resource.outputs),
                old_inputs=encode(resource.inputs),
            ),
        )

    def invoke(self, token: str, **args: Any) -> Decoded:
        answer = self.call("Invoke", provider.InvokeRequest(tok=token, args=encode(args)))
        return decode(getattr(answer, "return"))


def detailed(diff: Any) -> dict[str, str]:
    """The detailed difference as path -> kind."""
    names = provider.PropertyDiff.Kind
    return {path: names.Name(item.kind) for path, item in diff.detailedDiff.items()}


def unchanged(diff: Any) -> bool:
    return bool(diff.changes == provider.DiffResponse.DIFF_NONE)
