"""Knowing a process again, and what is put into a sandbox's folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sandbox import launchers, processes
from sandbox.build import builder
from sandbox.home import MARKER, PROJECT_FOLDER, Home, ServerRecord
from tests.sandbox_runtime.conftest import write_program


def test_a_process_is_known_by_pid_and_start_time() -> None:
    created = psutil.Process().create_time()
    found = processes.find(ServerRecord(pid=os.getpid(), create_time=created))
    assert found == psutil.Process()
    assert processes.find(ServerRecord(pid=os.getpid(), create_time=created - 60)) is None
    assert processes.find(None) is None


def test_an_ended_process_is_not_found_even_before_its_parent_has_noticed() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        record = ServerRecord(
            pid=process.pid, create_time=psutil.Process(process.pid).create_time()
        )
        assert processes.find(record) is not None
        assert process.stdin is not None
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert processes.find(record) is None


@pytest.mark.parametrize(("code", "by_itself"), [("", True), ("trap '' TERM; ", False)])
def test_a_process_is_ended_and_killed_if_it_ignores_that(code: str, by_itself: bool) -> None:
    command = ["sh", "-c", f"{code}echo ready; while :; do sleep 0.05; done"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processes.end(psutil.Process(process.pid), grace_seconds=0.5) is by_itself
        assert not psutil.pid_exists(process.pid)


def test_the_holder_of_a_port_is_named() -> None:
    with processes.listen(0) as server:
        port = server.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            processes.listen(port)
        assert processes.holder(port) == f"process {os.getpid()} ({psutil.Process().name()})"
    processes.listen(port).close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


def _plugins(home: Home) -> dict[str, Path]:
    return {
        path.name: path
        for path in (home.pulumi_home / "plugins").glob("*/*")
        if path.name != MARKER
    }


def test_plugins_are_installed_for_the_engine_under_the_sdks_versions(
    home: Home, cache: Path
) -> None:
    built = builder.built(cache)
    launchers.install(home, built)
    plugins = _plugins(home)
    assert sorted(plugins) == [
        "pulumi-language-python",
        "pulumi-resource-gcp",
        "pulumi-resource-kubernetes",
        "pulumi-resource-pulumi-python",
    ]
    for name, version in launchers.provider_versions().items():
        assert plugins[f"pulumi-resource-{name}"].parent.name == f"resource-{name}-v{version}"
    # The engine warns about every plug-in that it finds on PATH.
    assert not list(home.programs.glob("pulumi-*"))
    assert all(os.access(path, os.X_OK) for path in plugins.values())


def test_a_complete_cli_and_real_plugins_are_used_in_place_of_the_sandboxs(
    home: Home, cache: Path, tmp_path: Path
) -> None:
    built = builder.built(cache)
    launchers.install(home, built)
    names = ("pulumi", "pulumi-language-python", "pulumi-resource-gcp")
    real = {name: write_program(tmp_path / "real" / name) for name in names}
    launchers.install(home, {**built, **real})
    plugins = _plugins(home)
    assert "pulumi-language-python" not in plugins
    assert "pulumi-resource-pulumi-python" not in plugins
    assert f"exec {real['pulumi-resource-gcp']} " in plugins["pulumi-resource-gcp"].read_text()
    assert str(real["pulumi"]) in (home.programs / "pulumi").read_text()
    launchers.install(home, built)
    assert "sandbox.plugins" in _plugins(home)["pulumi-resource-gcp"].read_text()


def test_a_real_plugin_ends_with_the_engine_that_started_it(
    home: Home, cache: Path, tmp_path: Path
) -> None:
    text = '#!/bin/sh\necho "$$ $*"\nexec sleep 60\n'
    real = {"pulumi-resource-kubernetes": write_program(tmp_path / "real plug-in", text)}
    launchers.install(home, {**builder.built(cache), **real})
    with subprocess.Popen(
        [str(_plugins(home)["pulumi-resource-kubernetes"]), "127.0.0.1:1", "a b"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid} 127.0.0.1:1 a b\n"
        process.stdin.close()
        assert process.wait(30) == -signal.SIGTERM
        # Nobody else holds the pipe: the engine waits for its end.
        assert process.stdout.read() == ""


def test_what_an_older_version_has_put_on_path_is_removed(home: Home, cache: Path) -> None:
    write_program(home.programs / "pulumi-language-python")
    (home.programs / "folder").mkdir()
    (home.programs / "etcd").symlink_to("/nonexistent")
    built = builder.built(cache)
    launchers.install(home, built)
    assert not (home.programs / "pulumi-language-python").exists()
    assert (home.programs / "folder").is_dir()
    assert (home.programs / "etcd").readlink() == built["etcd"]


def test_installing_again_touches_nothing(home: Home, cache: Path) -> None:
    built = builder.built(cache)
    launchers.install(home, built)
    files = [*home.programs.iterdir(), *_plugins(home).values()]
    before = {path: path.lstat().st_mtime_ns for path in files if path.name != MARKER}
    launchers.install(home, built)
    assert {path: path.lstat().st_mtime_ns for path in before} == before


def test_launchers_work_from_any_folder_and_for_paths_with_spaces(
    tmp_path: Path, cache: Path
) -> None:
    home = Home(tmp_path / "a home")
    home.prepare()
    built = builder.built(cache)
    launchers.install(home, built)
    launcher = _plugins(home)["pulumi-resource-gcp"].read_text()
    assert str(PROJECT_FOLDER) in launcher
    assert sys.executable in launcher
    done = subprocess.run(
        [str(home.programs / "pulumi"), "version"], cwd="/", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
