"""How the tests are spread over the cores (`pytest -n … --dist loadgroup`)."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ONE_AT_A_TIME = ("gke", "sandbox", "sandbox_runtime")
"""Tiers that start control planes: one process for each tier, so that not all cores run them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.relative_to(TESTS)
        group = file.parts[0] if file.parts[0] in ONE_AT_A_TIME else str(file)
        item.add_marker(pytest.mark.xdist_group(group))
