from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudirect.releases import GkeFloor, load_releases
from gpudirect.versions import GkeVersion, ServerConfig, floor_below

numbers = st.integers(0, 10**7)
versions = st.builds(GkeVersion, numbers, numbers, numbers, numbers)


@given(versions)
def test_a_version_is_read_as_it_is_written(version: GkeVersion) -> None:
    assert GkeVersion.parse(str(version)) == version


@given(versions, versions)
def test_versions_compare_as_their_four_numbers_do(a: GkeVersion, b: GkeVersion) -> None:
    assert (a < b) == ((a.major, a.minor, a.patch, a.gke) < (b.major, b.minor, b.patch, b.gke))


@pytest.mark.parametrize(
    "text",
    ["1.31", "1.31.1", "latest", "v1.31.1-gke.1621000", "1.31.1-gke", "1.31.1-gke.1 ", "", "1.3"],
)
def test_what_is_no_full_version_compares_with_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"MAJOR\.MINOR\.PATCH-gke\.N"):
        GkeVersion.parse(text)


def _below(stack: str, text: str) -> str:
    binding = tuple(f for f in load_releases().default(stack).gke_floors if not f.advised)
    floor = floor_below(GkeVersion.parse(text), binding)
    return floor.version if floor else ""


@pytest.mark.parametrize(
    ("stack", "text", "floor"),
    [
        ("a3-mega", "1.31.1-gke.1621000", ""),
        ("a3-mega", "1.31.1-gke.1620999", "1.31.1-gke.1621000"),
        ("a3-mega", "1.34.0-gke.1", ""),
        ("a3-high", "1.31.1-gke.1620999", "1.31.1-gke.1621000"),
        ("a3-high", "1.33.0-gke.1", ""),
        ("a3-high", "1.34.5-gke.1152999", "1.34.5-gke.1153000"),
        ("a3-high", "1.34.5-gke.1153000", ""),
        ("a3-high", "1.35.2-gke.1484999", "1.35.2-gke.1485000"),
        ("a3-high", "1.35.10-gke.1", ""),
        ("a3-high", "1.36.0-gke.1", ""),
    ],
)
def test_each_stack_has_floors_of_its_own(stack: str, text: str, floor: str) -> None:
    assert _below(stack, text) == floor


def test_a_floor_of_a_minor_version_binds_that_minor_alone() -> None:
    floors = (GkeFloor(version="1.34.5-gke.1", source="", minor="1.34"),)
    assert floor_below(GkeVersion.parse("1.33.0-gke.1"), floors) is None
    assert floor_below(GkeVersion.parse("1.34.4-gke.9"), floors) is floors[0]
    assert floor_below(GkeVersion.parse("1.35.0-gke.1"), floors) is None


def test_google_s_list_of_versions_is_read_by_channel() -> None:
    text = json.dumps(
        {
            "channels": [
                {
                    "channel": "REGULAR",
                    "defaultVersion": "1.35.6-gke.1710000",
                    "validVersions": ["1.35.8-gke.1036000"],
                },
                {"channel": "EXTENDED"},
            ],
            "defaultClusterVersion": "1.35.6-gke.1710000",
        }
    )
    config = ServerConfig.parse(text)
    assert config.valid_versions == {"REGULAR": ("1.35.8-gke.1036000",), "EXTENDED": ()}
    assert config.default_versions["REGULAR"] == "1.35.6-gke.1710000"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"channels": 1}', '{"channels": ["x"]}'])
def test_another_text_is_not_taken_for_google_s_list(text: str) -> None:
    with pytest.raises(ValueError, match="get-server-config"):
        ServerConfig.parse(text)
