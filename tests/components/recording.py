"""Runs the real program under an engine that only records.

Every registration is kept as plain data, once the program has drained: an assertion inside an
`apply` on an unknown value would be skipped and the test would be green all the same.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import runpy
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from pulumi.runtime import mocks, rpc, settings
from pulumi.runtime.stack import run_in_stack

PROJECT_FOLDER = Path(__file__).resolve().parents[2]
PROJECT = "gpudirect"


@dataclass(frozen=True, kw_only=True)
class Registration:
    """One resource as the program asked for it."""

    urn: str
    type: str
    name: str
    inputs: dict[str, Any]
    parent: str
    dependencies: frozenset[str]
    deleted_with: str
    protect: bool
    provider: str
    replaced_on: tuple[str, ...]
    deleted_before_replaced: bool
    ignored: tuple[str, ...]
    hooks: frozenset[str]


@dataclass
class Recording:
    """What the program did: resources in order of registration, outputs, log lines."""

    resources: list[Registration] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    secret_outputs: set[str] = field(default_factory=set)

    def of_type(self, token: str) -> list[Registration]:
        return sorted((r for r in self.resources if r.type == token), key=lambda r: r.name)

    def one(self, token: str) -> Registration:
        found = self.of_type(token)
        if len(found) != 1:
            raise AssertionError(f"expected one {token}, found {[r.name for r in found]}")
        return found[0]


Outputs = Callable[[str, str, dict[str, Any]], dict[str, Any]]


def computed(token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return what a provider would add to the inputs, as far as the program reads it."""
    match token:
        case "gcp:container/cluster:Cluster":
            return {
                "project": "example-project",
                "endpoint": "192.0.2.10",
                "masterVersion": "1.35.8-gke.1036000",
                "masterAuth": {"clusterCaCertificate": "Y2VydGlmaWNhdGU="},
            }
        case "pulumi-python:dynamic/gpudirect:NcclRun":
            return {"result": {"verdict": "passed", "rows": []}, "history": []}
        case _:
            return {}


class _Mocks(mocks.Mocks):
    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    def call(self, args: mocks.MockCallArgs) -> Any:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"outputs": {}}
        if args.token == "gcp:container/getCluster:getCluster":
            # Somebody else's cluster: the mock monitor cannot play a failed call.
            return {"resourceLabels": {}}
        raise AssertionError(f"the program invoked {args.token}: previews must work without")

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        state = {**args.inputs, **self._outputs(args.typ, args.name, args.inputs)}
        return f"{args.name}-id", state


class _Monitor(mocks.MockMonitor):
    def __init__(self, recorded: Recording, outputs: Outputs) -> None:
        super().__init__(_Mocks(outputs))
        self._recorded = recorded

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        answer = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type != "pulumi:pulumi:Stack":
            self._recorded.resources.append(
                Registration(
                    urn=answer.urn,
                    type=request.type,
                    name=request.name,
                    inputs=rpc.deserialize_properties(request.object, keep_unknowns=True),
                    parent=request.parent,
                    dependencies=frozenset(request.dependencies),
                    deleted_with=request.deletedWith,
                    protect=request.protect,
                    provider=request.provider,
                    replaced_on=tuple(request.replaceOnChanges),
                    deleted_before_replaced=request.deleteBeforeReplace,
                    ignored=tuple(request.ignoreChanges),
                    hooks=frozenset(
                        name for _, names in request.hooks.ListFields() for name in names
                    ),
                )
            )
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        if "::pulumi:pulumi:Stack::" in request.urn:
            raw = rpc.deserialize_properties(request.outputs, keep_unknowns=True)
            for name, value in raw.items():
                if rpc.is_rpc_secret(value):
                    self._recorded.secret_outputs.add(name)
                self._recorded.outputs[name] = rpc.unwrap_rpc_secret(value)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


@contextmanager
def _environment(config: Mapping[str, str], *, login_helper: bool) -> Any:
    values = {
        "PULUMI_CONFIG": json.dumps(dict(config)),
        "PULUMI_CONFIG_SECRET_KEYS": "[]",
        "PULUMI_ERROR_OUTPUT_STRING": "1",
        "GOOGLE_PROJECT": "example-project",
        "PATH": str(PROJECT_FOLDER / "sandbox" / "plugins") if login_helper else "",
    }
    with mock.patch.dict(os.environ, values):
        yield


def run_program(
    config: Mapping[str, str],
    *,
    stack: str = "dev",
    preview: bool = False,
    outputs: Outputs = computed,
    login_helper: bool = True,
    into: Recording | None = None,
) -> Recording:
    """Run `__main__.py` with a stack config and return what it registered.

    Args:
        config: Full keys (`gpudirect:gpuStack`, `gcp:region`) with the defaults of `Pulumi.yaml`
            already in place, as the engine hands them to the program.
        stack: Name of the stack.
        preview: Whether what only a provider knows is unknown.
        outputs: Gives the outputs of each resource.
        login_helper: Whether the login helper of the kubeconfig is on PATH.
        into: An empty recording, to be looked at also where the program fails.
    """
    recorded = into or Recording()
    monitor = _Monitor(recorded, outputs)
    with _environment(config, login_helper=login_helper):
        features = monitor.GetDeploymentInfo(None).supportedFeatures  # type: ignore[no-untyped-call]
        settings.configure(
            mocks.MockSettings(  # type: ignore[no-untyped-call]
                monitor=monitor,
                monitor_features=set(features),
                engine=mocks.MockEngine(logging.getLogger("pulumi.recording")),
                project=PROJECT,
                stack=stack,
                organization="organization",
                dry_run=preview,
                callbacks=None,
            )
        )
        settings.set_root_resource(None)  # type: ignore[arg-type]
        # The SDK keeps these for the life of the process; what an earlier run left belongs to an
        # event loop that is closed by now.
        settings.SETTINGS.outputs.clear()
        settings.SETTINGS.rpc_manager.clear()
        # A collection in the middle of the run would warn of the event loops there.
        gc.disable()
        try:
            asyncio.run(run_in_stack(_program))
        finally:
            _collect_event_loops()
            gc.enable()
    return recorded


def _collect_event_loops() -> None:
    """Collect the event loops that the SDK's mock monitor opens in its threads and never closes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _program() -> None:
    runpy.run_path(str(PROJECT_FOLDER / "__main__.py"), run_name="__main__")
