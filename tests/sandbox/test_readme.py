"""The README's own commands, from a clone, in one shell, as its reader types them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.test_readme import blocks
from tests.sandbox.harness import clone_project


def test_the_reader_of_the_readme_gets_from_nothing_to_a_verdict_and_back(tmp_path: Path) -> None:
    project = clone_project(tmp_path / "clone")
    # The packages of this very environment stand for those that `make` would install.
    (project / ".venv").symlink_to(Path(sys.prefix))
    script = "\n".join(["set -e", *blocks("sandbox")])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=project,
        env={k: v for k, v in os.environ.items() if not k.startswith(("PULUMI_", "GOOGLE_"))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        down = [sys.executable, "-m", "sandbox", "down"]
        subprocess.run(down, cwd=project, check=False)
        pytest.fail(done.stdout)
    assert "verdict" in done.stdout
    assert "passed" in done.stdout
    assert "simulated" in done.stdout
    status = subprocess.run(
        ["git", "status", "--porcelain", "--", ".", ":!.venv"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    # The user's own stack file is theirs to commit; nothing tracked has changed.
    assert status.stdout.split() == ["??", "Pulumi.mine.yaml"]
