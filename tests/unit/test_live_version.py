"""The version that runs is held against the floors where the config names none."""

from __future__ import annotations

from typing import Any

import pytest

from gpudirect.live_version import version_below_floor
from tests.unit.stack_settings import settings
from tests.unit.test_replacement import LIVE, state_of


@pytest.mark.parametrize(
    ("version", "floor"),
    [
        ("1.31.1-gke.1620999", "1.31.1-gke.1621000 or newer"),
        ("1.30.99-gke.9999999", "1.31.1-gke.1621000 or newer"),
    ],
)
def test_a_live_cluster_below_a_floor_is_told(version: str, floor: str) -> None:
    (finding,) = version_below_floor(state_of(LIVE, masterVersion=version), LIVE)
    assert finding.severity == "warning"
    assert finding.key == "gpudirect:clusterVersion"
    assert f"runs {version}" in finding.message
    assert finding.expected == floor
    assert finding.fix == "pulumi config set clusterVersion 1.31.1-gke.1621000 --stack dev"


def test_the_floors_are_those_of_the_release_that_is_asked_for() -> None:
    state = state_of(LIVE, masterVersion="1.34.1-gke.1")
    high = settings(gpuStack="a3-high")
    assert version_below_floor(state, LIVE) == ()
    assert "1.34.5-gke.1153000" in version_below_floor(state, high)[0].expected


@pytest.mark.parametrize(
    "outputs",
    [{"masterVersion": "1.35.8-gke.1036000"}, {"masterVersion": "later"}, {"masterVersion": None}],
)
def test_a_cluster_that_is_new_enough_or_that_nobody_can_compare_needs_no_word(
    outputs: dict[str, Any],
) -> None:
    assert version_below_floor(state_of(LIVE, **outputs), LIVE) == ()
    assert version_below_floor({}, LIVE) == ()


def test_a_version_that_the_config_names_is_compared_elsewhere() -> None:
    state = state_of(LIVE, masterVersion="1.30.1-gke.1")
    named = settings(clusterVersion="1.35.8-gke.1036000")
    assert version_below_floor(state, named) == ()
