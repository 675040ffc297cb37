from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.stand_in import Client


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path / "cloud.db") as client:
        yield client
