from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.stand_in import Client, Served


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(tmp_path / "cloud.db") as client:
        yield client


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "served.db") as served:
        yield served
