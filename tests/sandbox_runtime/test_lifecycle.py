"""`up`, `down`, `status`, `env` and `reset`, also when things are not as they were left."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from sandbox.home import Home, ServerRecord, Settings
from tests.sandbox_runtime.conftest import CommandLine


def _settings(sandbox: CommandLine) -> Settings:
    settings = Home(sandbox.home).settings()
    assert settings is not None
    return settings


def _server(sandbox: CommandLine) -> psutil.Process:
    record = Home(sandbox.home).server()
    assert record is not None
    return psutil.Process(record.pid)


def _status(sandbox: CommandLine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sandbox.ok("status", "--json"))
    return found


def _make_network(sandbox: CommandLine, name: str) -> None:
    port = _settings(sandbox).port
    project = "sandbox-project"
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        enabled = {"enabledServices": ["compute.googleapis.com"]}
        client.put(f"/sandbox/v1/projects/{project}", json=enabled).raise_for_status()
        body = {"name": name, "autoCreateSubnetworks": False}
        path = f"/compute/v1/projects/{project}/global/networks"
        client.post(path, json=body).raise_for_status()


def _networks(status: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in status["resources"] if entry["kind"] == "networks"]


def test_up_answers_on_loopback_and_only_once(sandbox: CommandLine) -> None:
    assert "ready after" in sandbox.ok("up")
    server = _server(sandbox)
    assert {address.laddr.ip for address in server.net_connections("tcp")} == {"127.0.0.1"}
    assert "runs already" in sandbox.ok("up")
    assert _server(sandbox) == server
    assert [entry["name"] for entry in _status(sandbox)["processes"]] == ["server"]


def test_a_new_home_is_empty_and_closed_to_others(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    status = _status(sandbox)
    assert status["resources"] == []
    assert status["clusters"] == []
    assert sandbox.home.stat().st_mode & 0o077 == 0
    assert (sandbox.home / "token").stat().st_mode & 0o077 == 0
    assert (sandbox.home / "pulumi").is_dir()


def test_down_ends_the_server_and_keeps_what_exists(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    _make_network(sandbox, "kept")
    server = _server(sandbox)
    port = _settings(sandbox).port
    assert "state is kept" in sandbox.ok("down")
    assert not server.is_running()
    stopped = _status(sandbox)
    assert not stopped["running"]
    assert stopped["processes"] == []
    assert _networks(stopped) == ["kept"]
    sandbox.ok("up")
    assert _settings(sandbox).port == port
    assert _networks(_status(sandbox)) == ["kept"]


def test_down_without_a_server_is_no_error(sandbox: CommandLine) -> None:
    assert "no sandbox" in sandbox.ok("down")
    sandbox.ok("up")
    sandbox.ok("down")
    assert "does not run" in sandbox.ok("down")


def test_a_killed_server_is_started_again_on_its_port_with_its_state(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    _make_network(sandbox, "kept")
    port = _settings(sandbox).port
    server = _server(sandbox)
    server.kill()
    psutil.wait_procs([server], timeout=60)
    assert not _status(sandbox)["running"]
    assert "ended without `down`" in sandbox.ok("up")
    assert _settings(sandbox).port == port
    assert _networks(_status(sandbox)) == ["kept"]


def test_a_stale_pid_of_another_process_leaves_that_process_alone(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    sandbox.ok("down")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = psutil.Process(other.pid).create_time()
        record = ServerRecord(pid=other.pid, create_time=started - 3600)
        Home(sandbox.home).write_server(record)
        assert "does not run" in sandbox.ok("down")
        Home(sandbox.home).write_server(record)
        sandbox.ok("up")
        assert _server(sandbox).pid != other.pid
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0


def test_a_port_that_is_asked_for_and_taken_is_refused(sandbox: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = sandbox.refused("up", "--port", str(port))
    assert f"Port {port} was asked for" in message
    assert f"process {os.getpid()}" in message
    assert "--port" in message
    assert Home(sandbox.home).settings() is None


def test_a_recorded_port_that_is_taken_now_is_kept_until_the_user_moves(
    sandbox: CommandLine,
) -> None:
    sandbox.ok("up")
    _make_network(sandbox, "kept")
    sandbox.ok("down")
    port = _settings(sandbox).port
    with socket.create_server(("127.0.0.1", port)):
        message = sandbox.refused("up")
        assert f"answers on port {port}" in message
        assert "up --port N" in message
        with socket.create_server(("127.0.0.1", 0)) as probe:
            other = probe.getsockname()[1]
        sandbox.ok("up", "--port", str(other))
    assert _settings(sandbox).port == other
    assert _networks(_status(sandbox)) == ["kept"]


def test_another_pace_or_port_of_a_running_sandbox_is_refused(sandbox: CommandLine) -> None:
    sandbox.ok("up", "--pace", "0.5")
    assert "pace 0.5" in sandbox.refused("up", "--pace", "0")
    assert "sandbox down" in sandbox.refused("up", "--port", "1")
    sandbox.ok("down")
    sandbox.ok("up")
    assert _settings(sandbox).pace == 0.5


def test_a_folder_of_another_version_is_not_touched(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    sandbox.ok("down")
    version = sandbox.home / "layout-version"
    before = sorted(path.name for path in sandbox.home.iterdir())
    for text, word in (("99", "a newer"), ("0", "another")):
        version.write_text(text)
        for command in ("up", "down", "status", "env"):
            message = sandbox.refused(command)
            assert f"{word} version" in message
            assert "sandbox reset" in message
    assert sorted(path.name for path in sandbox.home.iterdir()) == before


def test_a_database_of_another_version_is_not_touched(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    _make_network(sandbox, "kept")
    sandbox.ok("down")
    database = sqlite3.connect(sandbox.home / "cloud.db")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    database.execute("PRAGMA user_version = 99")
    message = sandbox.refused("up")
    assert "schema version 99" in message
    assert "sandbox reset" in message
    assert "schema version 99" in sandbox.refused("status")
    assert Home(sandbox.home).server() is None
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    sandbox.ok("up")
    assert _networks(_status(sandbox)) == ["kept"]


def test_a_home_that_cannot_be_made_is_refused(sandbox: CommandLine) -> None:
    sandbox.home.write_text("a file")
    sandbox.home /= "below"
    message = sandbox.refused("up")
    assert "cannot be written" in message
    assert "--home" in message


@pytest.mark.parametrize("name", ["thesis.tex", "bin/my-tool"])
def test_a_folder_of_somebody_else_is_not_touched(sandbox: CommandLine, name: str) -> None:
    file = sandbox.home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine")
    before = sorted(sandbox.home.rglob("*"))
    for command in ("up", "build"):
        message = sandbox.refused(command)
        assert name in message
        assert "--home" in message
    assert sorted(sandbox.home.rglob("*")) == before


def test_a_missing_program_is_put_back(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    for name in ("etcd", "pulumi"):
        (sandbox.home / "bin" / name).unlink()
    sandbox.ok("up")
    assert (sandbox.home / "bin" / "etcd").exists()
    assert os.access(sandbox.home / "bin" / "pulumi", os.X_OK)


def test_a_missing_program_without_go_says_what_to_install(
    sandbox: CommandLine, cache: Path
) -> None:
    (program,) = cache.glob("etcd/*/etcd")
    program.unlink()
    message = sandbox.refused("up", PATH="/nonexistent")
    assert "Go was not found" in message
    assert "Install Go" in message


def test_damaged_settings_are_named(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    sandbox.ok("down")
    (sandbox.home / "settings.json").write_text("{")
    message = sandbox.refused("up")
    assert "settings.json is damaged" in message


def test_env_evaluates_in_a_shell_and_says_the_same_as_json(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    values = json.loads(sandbox.ok("env", "--json"))
    lines = sandbox.ok("env")
    assert len(shlex.split(lines)) == 2 * len(values)
    shown = subprocess.run(
        ["sh", "-c", f"{lines}\nenv -0"], capture_output=True, text=True, check=True, env={}
    )
    exported = dict(entry.split("=", 1) for entry in shown.stdout.split("\0") if entry)
    assert values.items() - {("PATH", values["PATH"])} <= exported.items()
    assert values["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"] == (
        f"http://127.0.0.1:{_settings(sandbox).port}/compute/v1/"
    )


def test_env_needs_a_sandbox_but_no_running_one(sandbox: CommandLine) -> None:
    assert "sandbox up" in sandbox.refused("env")
    sandbox.ok("up")
    sandbox.ok("down")
    assert "export KUBECONFIG=" in sandbox.ok("env")


def test_reset_removes_state_and_server_but_no_program(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    _make_network(sandbox, "gone")
    server = _server(sandbox)
    token = Home(sandbox.home).token()
    assert "Removed" in sandbox.ok("reset", "--yes")
    assert not server.is_running()
    assert (sandbox.home / "bin" / "etcd").exists()
    sandbox.ok("up")
    assert _status(sandbox)["resources"] == []
    assert Home(sandbox.home).token() != token


def test_reset_leaves_a_folder_that_is_no_sandbox_alone(sandbox: CommandLine) -> None:
    sandbox.home.mkdir()
    (sandbox.home / "thesis.tex").write_text("mine")
    assert "was not made by the sandbox" in sandbox.refused("reset", "--yes")
    assert (sandbox.home / "thesis.tex").read_text() == "mine"


def test_a_server_ends_on_an_interrupt_too(sandbox: CommandLine) -> None:
    sandbox.ok("up")
    server = _server(sandbox)
    server.send_signal(signal.SIGINT)
    gone, _ = psutil.wait_procs([server], timeout=60)
    assert gone == [server]
    assert "Traceback" not in (sandbox.home / "server.log").read_text()
