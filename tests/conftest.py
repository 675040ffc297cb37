"""How the tests are spread over the cores (`pytest -n …`), and which examples properties get."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

ONE_AT_A_TIME = ("gke", "sandbox", "sandbox_runtime")
"""Tiers that start control planes: one process for each tier, so that not all cores run them."""

# The same examples in each run: what lands must not hang on luck. To look for new ones:
# `pytest --hypothesis-profile=default` (with `--hypothesis-seed=N`, to see the same ones again).
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")


class TierScheduling(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """A file's tests stay together, for its fixtures; those of some tiers as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        tests, tier, _ = nodeid.split("/", 2)
        return f"{tests}/{tier}" if tier in ONE_AT_A_TIME else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return TierScheduling(config, log)
