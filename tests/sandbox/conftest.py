"""One sandbox for the tier; each module works on stacks of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.harness import Sandbox


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/sandbox/" in str(item.path):
            item.add_marker(pytest.mark.sandbox)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path_factory.mktemp("sandbox"))
    made.start()
    try:
        yield made
    finally:
        made.stop()
