"""Both stacks, run once each under the recording engine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.recording import Recording, run_program
from tests.stack_config import full_config


@pytest.fixture(scope="session")
def mega() -> Recording:
    return run_program(full_config("dev"), stack="dev")


@pytest.fixture(scope="session")
def high() -> Recording:
    return run_program(full_config("staging"), stack="staging")


@pytest.fixture(params=["dev", "staging"])
def either(request: Any) -> Recording:
    recorded: Recording = request.getfixturevalue({"dev": "mega", "staging": "high"}[request.param])
    return recorded
