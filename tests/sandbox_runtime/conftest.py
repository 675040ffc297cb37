"""A sandbox home of each test's own, and a toolchain of empty programs: nothing is built here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sandbox.build import builder
from sandbox.build.parts import MODULES
from sandbox.home import PROJECT_FOLDER


def write_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    """Write an executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@dataclass
class CommandLine:
    """`python -m sandbox` with one home, and what it printed."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sandbox", command, "--home", str(self.home), *words],
            cwd=PROJECT_FOLDER,
            env={**os.environ, **self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def ok(self, command: str, *words: str, **environ: str) -> str:
        done = self.run(command, *words, **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def refused(self, command: str, *words: str, **environ: str) -> str:
        """Return the message of a command that must fail, in words and not with a traceback."""
        done = self.run(command, *words, **environ)
        assert done.returncode != 0, done.stdout
        assert done.stderr.startswith("Error: "), done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder in which every part is there, as an empty program."""
    folder = builder.cache_folder({"XDG_CACHE_HOME": str(tmp_path / "cache")})
    for module in MODULES:
        module_folder = folder / module.name / module.content_hash()
        for binary in module.binaries:
            write_program(module_folder / binary.name)
    return folder


@pytest.fixture
def sandbox(tmp_path: Path, cache: Path) -> Iterator[CommandLine]:
    """A command line for a new home; whatever it has started ends with the test."""
    environ = {
        "XDG_CACHE_HOME": str(cache.parents[1]),
        # Nothing that this machine has by chance decides what is tested.
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PULUMI_HOME": "",
        "KUBEBUILDER_ASSETS": "",
    }
    made = CommandLine(tmp_path / "home", environ)
    yield made
    subprocess.run(
        [sys.executable, "-m", "sandbox", "reset", "--yes", "--home", str(made.home)],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        check=False,
    )
