"""Locks in the sandbox's own state: those of dead commands go, all others stay."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from sandbox.plugins import pulumi_cli


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    return tmp_path


@pytest.fixture(scope="module")
def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def _lock(state: Path, **changes: Any) -> Path:
    file = state / ".pulumi" / "locks" / "organization" / "gpudirect" / "dev" / "1-2-3.json"
    file.parent.mkdir(parents=True)
    lock = {"pid": os.getpid(), "username": "me", "hostname": socket.gethostname(), **changes}
    file.write_text(json.dumps({key: value for key, value in lock.items() if value is not None}))
    return file


def test_the_lock_of_a_dead_command_goes_and_that_is_said(
    state: Path, dead_pid: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _lock(state, pid=dead_pid)
    pulumi_cli._end_dead_locks(state)
    assert not file.exists()
    assert f"pid {dead_pid}" in capsys.readouterr().err


def test_a_pid_that_another_process_has_by_now_is_a_dead_command(state: Path) -> None:
    file = _lock(state)
    before = psutil.Process().create_time() - 60
    os.utime(file, (before, before))
    pulumi_cli._end_dead_locks(state)
    assert not file.exists()


def test_the_lock_of_a_running_command_stays(state: Path) -> None:
    file = _lock(state)
    pulumi_cli._end_dead_locks(state)
    assert file.exists()


@pytest.mark.parametrize("changes", [{"hostname": "elsewhere"}, {"pid": None}, {"pid": "12"}])
def test_a_lock_in_doubt_stays(state: Path, dead_pid: int, changes: dict[str, Any]) -> None:
    file = _lock(state, **{"pid": dead_pid, **changes})
    pulumi_cli._end_dead_locks(state)
    assert file.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_a_lock_that_is_being_written_stays(state: Path, text: str) -> None:
    file = _lock(state)
    file.write_text(text)
    pulumi_cli._end_dead_locks(state)
    assert file.exists()


def test_another_backend_is_left_alone(
    state: Path, dead_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _lock(state, pid=dead_pid)
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///elsewhere")
    pulumi_cli._look_after_backend(state, state / "copies")
    assert file.exists()
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{state}")
    pulumi_cli._look_after_backend(state, state / "copies")
    assert not file.exists()
