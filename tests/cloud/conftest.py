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


@pytest.fixture(scope="session")
def gcloud_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return gcloud's own folder; it is slow to fill, and holds nothing of a test."""
    return tmp_path_factory.mktemp("gcloud")
