"""Building: once, resumed, by two at once, and failing in words. A script stands in for Go."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.build import builder, parts
from sandbox.build.errors import BuildError
from sandbox.home import MARKER, PROJECT_FOLDER
from tests.sandbox_runtime.conftest import write_program

PROGRAMS = [binary.name for module in parts.MODULES for binary in module.binaries]

# Takes the calls that a build makes, writes each one down, and fails where a file tells it to.
FAKE_GO = """#!/bin/sh
echo "$*" >>"$FAKE_GO/calls"
case "$1" in
mod) ;;
list)
    case "$*" in
    *-deps*) printf 'a\\nb\\nc\\n' ;;
    *) echo "$FAKE_GO/module" ;;
    esac
    ;;
build)
    while [ "$1" != -o ]; do shift; done
    name=$(basename "$2")
    echo "go: downloading example.com/x v1.0.0" >&2
    echo example.com/x >&2
    if [ -f "$FAKE_GO/fail" ] && case "$name" in *"$(head -1 "$FAKE_GO/fail")"*) ;; *) false ;; esac
    then
        tail -n +2 "$FAKE_GO/fail" >&2
        exit 1
    fi
    if [ -f "$FAKE_GO/wait" ]; then
        touch "$FAKE_GO/waits"
        exec sleep 60
    fi
    echo "$name" >"$2"
    ;;
esac
"""


class FakeGo:
    """The stand-in for Go and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_program(folder / "bin" / "go", FAKE_GO)
        source = folder / "module" / "cmd" / "pulumi-resource-kubernetes"
        source.mkdir(parents=True)
        for name in ("schema.json", "terraform-mapping.json"):
            (source / name).write_text("{}")
        self.environ = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "FAKE_GO": str(folder)}

    def builds(self) -> list[str]:
        """Return the packages that were built, in order."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.rpartition(" ")[2] for line in lines if line.startswith("build ")]

    def fail_at(self, program: str, *lines: str) -> None:
        (self.folder / "fail").write_text("\n".join((program, *lines)))


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    # The build copies files beside the modules' own: they must not be the repository's.
    copy = tmp_path / "toolchain"
    shutil.copytree(parts.TOOLCHAIN, copy, ignore=shutil.ignore_patterns("*-embed.json"))
    monkeypatch.setattr(parts, "TOOLCHAIN", copy)
    return FakeGo(tmp_path / "go")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_everything_is_built_once(go: FakeGo, cache: Path) -> None:
    assert builder.missing(cache) == PROGRAMS
    built = builder.build(cache, go.environ)
    assert sorted(built) == sorted(PROGRAMS)
    for name, path in built.items():
        assert path.read_text().startswith(f".{name}.")
        assert (path.parent / MARKER).exists()
    assert builder.missing(cache) == []
    calls = (go.folder / "calls").read_text()
    assert builder.build(cache, {"PATH": ""}) == built
    assert (go.folder / "calls").read_text() == calls


def test_embedded_files_are_copied_beside_the_program_before_it_is_built(
    go: FakeGo, cache: Path
) -> None:
    builder.build(cache, go.environ)
    folder = parts.TOOLCHAIN / "pulumi-resource-kubernetes"
    assert (folder / "schema-embed.json").read_text() == "{}"


def test_what_the_machine_has_is_not_built(go: FakeGo, cache: Path) -> None:
    built = builder.build(cache, go.environ, skip=("etcd", "kube-apiserver", "pulumi"))
    assert sorted(built) == sorted(set(PROGRAMS) - {"etcd", "kube-apiserver", "pulumi"})
    assert len(go.builds()) == len(PROGRAMS) - 3


def test_a_failed_build_goes_on_where_it_was(go: FakeGo, cache: Path) -> None:
    go.fail_at("kube-scheduler", "./main.go:1:1: syntax error")
    with pytest.raises(BuildError, match="syntax error"):
        builder.build(cache, go.environ)
    assert builder.missing(cache)[0] == "kube-scheduler"
    before = len(go.builds())
    (go.folder / "fail").unlink()
    builder.build(cache, go.environ)
    assert go.builds()[before:] == ["k8s.io/kubernetes/cmd/kube-scheduler", "."]


def test_a_changed_module_is_built_alone(go: FakeGo, cache: Path) -> None:
    old = builder.build(cache, go.environ)
    before = len(go.builds())
    with (parts.TOOLCHAIN / "etcd" / "main.go").open("a") as file:
        file.write("\n// changed\n")
    new = builder.build(cache, go.environ)
    assert len(go.builds()) == before + 1
    assert new["etcd"] != old["etcd"]
    assert old["etcd"].exists()
    assert new["kwok"] == old["kwok"]


def test_two_builds_at_once_build_everything_once(go: FakeGo, cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    builds = [context.Process(target=builder.build, args=(cache, go.environ)) for _ in range(2)]
    for process in builds:
        process.start()
    for process in builds:
        process.join(60)
    assert [process.exitcode for process in builds] == [0, 0]
    assert len(go.builds()) == len(PROGRAMS)
    assert builder.missing(cache) == []


def test_an_interrupted_build_ends_the_compiler_and_leaves_nothing_half_done(
    go: FakeGo, cache: Path, tmp_path: Path
) -> None:
    (go.folder / "wait").touch()
    environ = os.environ | go.environ | {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "sandbox", "build", "--home", str(tmp_path / "home")]
    with subprocess.Popen(command, cwd=PROJECT_FOLDER, env=environ, stderr=subprocess.PIPE) as run:
        deadline = time.monotonic() + 60
        while not (go.folder / "waits").exists():
            assert time.monotonic() < deadline
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, printed = run.communicate(timeout=120)
    assert run.returncode == 1
    assert b"run the same command again" in printed
    assert b"Traceback" not in printed
    folder = builder.cache_folder({"XDG_CACHE_HOME": str(tmp_path)})
    names = {path.name for path in folder.glob("pulumi/*/*")}
    assert names == {MARKER, ".lock"}


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("write /x: no space left on device", "disk is full"),
        ("go: go.mod requires go >= 1.26.6 (running go 1.24.1; GOTOOLCHAIN=local)", "too old"),
        ("dial tcp: lookup proxy.example.com: no such host", "GOPROXY"),
        ("reading https://proxy.example.com/x/@v/v1.mod: 403 Forbidden", "GOPROXY"),
        ("verifying example.com/x@v1: checksum mismatch", "go.sum"),
        ("/usr/lib/go/pkg/tool/compile: signal: killed", "GOFLAGS=-p=1"),
        ("./main.go:7:2: undefined: x", "not a fault that this program knows"),
    ],
)
def test_a_failure_says_the_cause_and_what_to_do(
    go: FakeGo, cache: Path, line: str, advice: str
) -> None:
    go.fail_at("pulumi", line)
    with pytest.raises(BuildError) as raised:
        builder.build(cache, go.environ)
    message = str(raised.value)
    assert message.startswith("pulumi was not built")
    assert line in message
    assert advice in message
    assert "downloading" not in message
    assert "run the same command again" in message


def test_a_machine_without_go_is_told_so_before_anything_else(cache: Path) -> None:
    with pytest.raises(BuildError, match="Go was not found on PATH"):
        builder.build(cache, {"PATH": "/nonexistent"})


def test_a_full_disk_is_told_before_a_build_of_minutes(
    go: FakeGo, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 100_000_000})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BuildError, match=r"Only 0\.1 GB are free"):
        builder.build(cache, go.environ)
    assert not (go.folder / "calls").exists()


def test_a_cache_that_cannot_be_written_is_named(go: FakeGo, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(BuildError, match="XDG_CACHE_HOME"):
        builder.build(cache, go.environ)


def test_the_cache_follows_xdg(tmp_path: Path) -> None:
    home = {"HOME": "/home/me"}
    assert builder.cache_folder(home) == Path("/home/me/.cache/gpudirect-sandbox/toolchain")
    assert builder.cache_folder(home | {"XDG_CACHE_HOME": str(tmp_path)}).parents[1] == tmp_path
