"""Starting and ending processes, and knowing one's own."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sandbox.gke.child_process import ChildProcess, ProcessRecord, Program, end_leftovers

IGNORES_TERM = (
    "import signal, sys\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True)\n"
    "signal.pause()\n"
)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[str]]:
    """A process that this module did not start through `ChildProcess`."""
    process = subprocess.Popen(
        [sys.executable, "-c", IGNORES_TERM], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def record(process: subprocess.Popen[str]) -> ProcessRecord:
    seen = psutil.Process(process.pid)
    return ProcessRecord(
        name="stranger",
        pid=process.pid,
        create_time=seen.create_time(),
        arguments=tuple(seen.cmdline()),
    )


def test_a_left_over_process_is_ended_even_if_it_ignores_sigterm(
    stranger: subprocess.Popen[str],
) -> None:
    assert asyncio.run(end_leftovers([record(stranger)], 0.2)) == [Path(sys.executable).name]
    assert not psutil.pid_exists(stranger.pid)


@pytest.mark.parametrize(
    "change", [{"arguments": ("etcd", "--name=sandbox")}, {"create_time": 1_700_000_000.0}]
)
def test_a_process_that_only_has_the_recorded_pid_is_left_alone(
    stranger: subprocess.Popen[str], change: dict[str, Any]
) -> None:
    other = dataclasses.replace(record(stranger), **change)
    assert asyncio.run(end_leftovers([other], 0.2)) == []
    assert stranger.poll() is None


def test_a_record_of_a_process_that_ended_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], text=True)
    gone = dataclasses.replace(record(process), pid=process.pid)
    process.wait()
    assert asyncio.run(end_leftovers([gone], 0.2)) == []


def program(folder: Path, script: str) -> Program:
    return Program(
        name="script",
        arguments=(sys.executable, "-u", "-c", script),
        folder=folder,
        log=folder / "logs" / "script.log",
    )


def test_stop_ends_the_whole_process_group(tmp_path: Path) -> None:
    """A program's own children would otherwise keep its ports."""
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "child.wait()\n"
    )

    async def run() -> int:
        process = await ChildProcess.start(program(tmp_path, script))
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            await asyncio.sleep(0.01)
        await process.stop(2)
        assert not process.running
        return int((tmp_path / "child").read_text())

    pid = asyncio.run(run())
    try:
        psutil.Process(pid).wait(5)
    except psutil.NoSuchProcess:
        return


def test_a_program_that_ends_at_once_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop may have reaped it before anybody asks when it was started."""

    def reaped_already(pid: int) -> psutil.Process:
        raise psutil.NoSuchProcess(pid)

    async def run() -> tuple[int, ProcessRecord]:
        with monkeypatch.context() as patch:
            patch.setattr("sandbox.gke.child_process.psutil.Process", reaped_already)
            process = await ChildProcess.start(program(tmp_path, "raise SystemExit(3)"))
        return await process.wait(), process.record

    code, record = asyncio.run(run())
    assert code == 3
    assert asyncio.run(end_leftovers([record], 1.0)) == []


def test_the_last_words_are_the_error_lines_of_the_log(tmp_path: Path) -> None:
    async def run() -> str:
        process = await ChildProcess.start(
            program(tmp_path, "print('I0101 fine'); print('E0101 broken'); raise SystemExit(3)")
        )
        assert await process.wait() == 3
        return process.last_words()

    assert asyncio.run(run()) == "E0101 broken"


def test_a_log_that_has_grown_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.gke.child_process._LOG_BYTES", 3)

    async def run(text: str) -> None:
        await (await ChildProcess.start(program(tmp_path, f"print({text!r})"))).wait()

    asyncio.run(run("older"))
    asyncio.run(run("newer"))
    logs = tmp_path / "logs"
    assert (logs / "script.log").read_text() == "newer\n"
    assert (logs / "script.log.previous").read_text() == "older\n"


def test_the_environment_of_the_caller_does_not_reach_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETCD_NAME", "birds")

    async def run() -> None:
        script = "import os; print(sorted(os.environ))"
        await (await ChildProcess.start(program(tmp_path, script))).wait()

    asyncio.run(run())
    assert "ETCD_NAME" not in (tmp_path / "logs" / "script.log").read_text()
