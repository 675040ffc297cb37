"""The plug-in as the process that an engine starts [facts google-cloud.md §12.2, toolchain.md]."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest
from google.protobuf.empty_pb2 import Empty

from sandbox.plugins.pulumi_resource_gcp.engine_log import EngineLog
from sandbox.plugins.pulumi_resource_gcp.protocol import engine_modules, provider_grpc
from sandbox.plugins.pulumi_resource_gcp.servicer import VERSION

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "sandbox.plugins.pulumi_resource_gcp"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_the_first_line_is_the_port_and_the_version_is_the_sdk_s(start: Start) -> None:
    port = port_of(start("--logtostderr", "127.0.0.1:1"))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        info = provider_grpc.ResourceProviderStub(channel).GetPluginInfo(Empty(), timeout=60)
    assert info.version == VERSION


def test_it_listens_on_loopback_alone(start: Start) -> None:
    process = start("127.0.0.1:1")
    port = port_of(process)
    listening = [
        connection.laddr
        for connection in psutil.Process(process.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    found = [(address.ip.removeprefix("::ffff:"), address.port) for address in listening]
    assert found == [("127.0.0.1", port)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_silence(start: Start, number: signal.Signals) -> None:
    process = start("127.0.0.1:1")
    port_of(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_it_ends_when_the_engine_is_killed(tmp_path: Path) -> None:
    # A parent that starts the plug-in, says its pid and its port, and is then killed.
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({COMMAND!r}, stdout=subprocess.PIPE, text=True)\n"
        "print(child.pid, child.stdout.readline().strip(), flush=True)\n"
        "time.sleep(600)\n"
    )
    engine = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert engine.stdout is not None
    pid, port = map(int, engine.stdout.readline().split())
    plugin = psutil.Process(pid)
    assert port > 0
    engine.kill()
    engine.communicate()
    try:
        psutil.wait_procs([plugin], timeout=60)
        assert not psutil.pid_exists(pid) or plugin.status() == psutil.STATUS_ZOMBIE
    finally:
        if psutil.pid_exists(pid) and plugin.is_running():
            plugin.kill()


def test_starting_does_not_load_the_sdk_nor_an_http_library() -> None:
    code = (
        "import sys, sandbox.plugins.pulumi_resource_gcp.__main__\n"
        "print(sorted({'pulumi', 'pulumi_gcp', 'urllib3', 'httpx'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_warning_reaches_the_engine() -> None:
    messages, services = engine_modules()
    seen: list[tuple[str, str, int]] = []

    class Engine(services.EngineServicer):  # type: ignore[misc,name-defined]
        def Log(self, request: object, context: object) -> Empty:  # noqa: N802
            seen.append((request.urn, request.message, request.severity))  # type: ignore[attr-defined]
            return Empty()

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    services.add_EngineServicer_to_server(Engine(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    log = EngineLog(f"127.0.0.1:{port}")
    try:
        log("urn:x", "careful")
    finally:
        log.close()
        server.stop(0).wait()
    assert seen == [("urn:x", "careful", messages.WARNING)]


def test_a_warning_without_an_engine_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    EngineLog("")("urn:x", "nobody hears this")
    monkeypatch.setattr("sandbox.plugins.pulumi_resource_gcp.engine_log._TIMEOUT_SECONDS", 0.2)
    log = EngineLog(f"unix:{os.devnull}.none")
    log("urn:x", "nor this")
    log.close()
