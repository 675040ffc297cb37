"""The README says nothing that is not run or marked; the sandbox tier runs the rest of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT_FOLDER = Path(__file__).resolve().parents[2]
README = (PROJECT_FOLDER / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```bash(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# sandbox: tests/sandbox/test_readme.py; offline: below; checks: what runs this test;
# cloud: needs a Google Cloud project.
MARKS = {"sandbox", "offline", "checks", "cloud"}


def blocks(mark: str) -> list[str]:
    return [text for found, text in _BLOCK.findall(README) if found == mark]


def test_every_command_block_is_run_by_a_test_or_marked_as_needing_a_cloud() -> None:
    assert {mark for mark, _ in _BLOCK.findall(README)} == MARKS


@pytest.mark.parametrize("commands", blocks("offline"), ids=lambda text: text.split("\n")[0])
def test_commands_that_need_nothing_work_as_printed(commands: str) -> None:
    done = subprocess.run(
        ["bash", "-ec", f'PATH="{Path(sys.executable).parent}:$PATH"\n{commands}'],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(((?!http)[^)#]+)\)", README))))
def test_links_of_the_readme_lead_somewhere(path: str) -> None:
    assert (PROJECT_FOLDER / path).exists()
