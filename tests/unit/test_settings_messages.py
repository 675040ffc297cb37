"""A message is worth reading: the exact text for ten typical mistakes.

`python -m tests.unit.test_settings_messages` writes the texts anew; read them before they go in.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudirect.settings import SettingsError
from gpudirect.stack_check import check_file
from tests.stack_config import PROJECT_FOLDER
from tests.unit.stack_settings import DECLARED

FOLDER = PROJECT_FOLDER / "tests/cases/messages"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def message(stack_file: Path) -> str:
    """Return what `check` says about a stack file, as one text."""
    checked = check_file(
        stack_file.read_text(),
        path="Pulumi.prod.yaml",
        stack_name="prod",
        declared=DECLARED,
    )
    return f"{SettingsError(checked.findings, stack_name='prod')}\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_message_is_the_one_that_was_read_and_approved(name: str) -> None:
    assert message(FOLDER / f"{name}.yaml") == (FOLDER / f"{name}.txt").read_text()


def test_there_are_ten_of_them() -> None:
    assert len(NAMES) == 10


if __name__ == "__main__":
    for file in FOLDER.glob("*.yaml"):
        file.with_suffix(".txt").write_text(message(file))
