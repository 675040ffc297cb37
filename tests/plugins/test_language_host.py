"""How the language host says that a program failed: once in the log, and then how it ended.

The wording is that of the released host of pulumi 3.274.1: its program process ends with code 1
after a `RunError` and with code 32 after any other exception, which makes the engine bail without
a further word (sdk/python/cmd/pulumi-language-python-exec).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    language_pb2,
    language_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)

from sandbox.home import PROJECT_FOLDER

HOST = PROJECT_FOLDER / "sandbox" / "plugins" / "pulumi_language_python" / "host.py"


class _Engine(engine_pb2_grpc.EngineServicer):
    """Keeps what programs log as errors."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def Log(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the protocol's name
        if request.severity == engine_pb2.ERROR:
            self.errors.append(request.message)
        return empty_pb2.Empty()

    def SetRootResource(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return engine_pb2.SetRootResourceResponse()


class _Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Takes the stack, the one resource that these programs have."""

    def SupportsFeature(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return resource_pb2.SupportsFeatureResponse(hasSupport=True)

    def RegisterResource(self, request: Any, _context: Any) -> Any:  # noqa: N802
        return resource_pb2.RegisterResourceResponse(urn=f"urn:pulumi:dev::p::{request.type}::s")

    def RegisterResourceOutputs(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()

    def SignalAndWaitForShutdown(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()


@dataclass
class Host:
    """A language host as a process, between the engine's two services."""

    client: Any
    address: str
    folder: Path
    engine: _Engine = field(default_factory=_Engine)

    def run(self, program: str) -> Any:
        (self.folder / "__main__.py").write_text(program)
        request = language_pb2.RunRequest(
            project="p",
            stack="dev",
            pwd=str(self.folder),
            args=[self.address],
            monitor_address=self.address,
            info=language_pb2.ProgramInfo(
                root_directory=str(self.folder),
                program_directory=str(self.folder),
                entry_point=".",
            ),
        )
        return self.client.Run(request, timeout=60)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    engine = _Engine()
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(_Monitor(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    with subprocess.Popen(
        [sys.executable, "-u", "-P", str(HOST), address],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            own = f"127.0.0.1:{int(process.stdout.readline())}"
            with grpc.insecure_channel(own) as channel:
                client = language_pb2_grpc.LanguageRuntimeStub(channel)
                yield Host(client, address, tmp_path, engine)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            server.stop(None).wait()


def test_a_program_that_succeeds_has_no_error(host: Host) -> None:
    response = host.run("import pulumi\npulumi.export('answer', 42)\n")
    assert (response.error, response.bail) == ("", False)
    assert host.engine.errors == []


def test_a_run_error_is_told_once_and_then_only_how_the_program_ended(host: Host) -> None:
    response = host.run("import pulumi\nraise pulumi.RunError('gpudirect:zone: no such zone')\n")
    assert host.engine.errors == ["gpudirect:zone: no such zone"]
    assert response.error == "program exited with non-zero exit code: 1"
    assert not response.bail


def test_a_gate_that_is_shut_in_an_apply_is_told_once(host: Host) -> None:
    response = host.run(
        "import pulumi\n"
        "def shut(verdict):\n"
        "    raise pulumi.RunError(f'the gate is shut: {verdict}')\n"
        "pulumi.export('verdict', pulumi.Output.from_input('failed').apply(shut))\n"
    )
    assert host.engine.errors == ["the gate is shut: failed"]
    assert response.error == "program exited with non-zero exit code: 1"


def test_after_an_exception_the_engine_is_asked_to_say_no_more(host: Host) -> None:
    response = host.run("raise ValueError('what is wrong')\n")
    (error,) = host.engine.errors
    assert error.startswith("Program failed with an unhandled exception:\n")
    assert error.endswith("ValueError: what is wrong\n")
    assert (response.error, response.bail) == ("", True)


def test_an_exception_in_an_apply_is_told_once_too(host: Host) -> None:
    response = host.run(
        "import pulumi\n"
        "pulumi.export('x', pulumi.Output.from_input(1).apply(lambda one: one / 0))\n"
    )
    (error,) = host.engine.errors
    assert "ZeroDivisionError" in error
    assert (response.error, response.bail) == ("", True)
