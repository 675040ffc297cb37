from __future__ import annotations

from typing import Any

import pytest

from gpudirect.blast_radius import Change, Config, compare, replaced_parts, worst
from gpudirect.config_keys import CONFIG_KEYS, Effect
from tests.unit.stack_settings import REGION, config_values, reading

Edit = dict[str, Any]


def _config(gcp: dict[str, str] | None = None, **overrides: Any) -> Config:
    place = gcp or REGION
    return Config(
        values=config_values(**overrides),
        gcp=place,
        settings=reading(gcp=place, **overrides).settings,
    )


def _changes(old: Edit, new: Edit) -> tuple[Change, ...]:
    return compare(_config(**old), _config(**new))


CASES: list[tuple[Edit, Edit, Effect]] = [
    ({}, {"labels": {"team": "ml"}}, Effect.IN_PLACE),
    ({}, {"deletionProtection": False}, Effect.IN_PLACE),
    ({}, {"releaseChannel": "RAPID"}, Effect.IN_PLACE),
    ({}, {"smokeTest": "report"}, Effect.IN_PLACE),
    ({}, {"smokeTest": "off"}, Effect.NOTHING),
    ({"smokeTest": "off"}, {}, Effect.SMOKE_TEST),
    ({}, {"smokeTestNodes": 4}, Effect.SMOKE_TEST),
    ({"smokeTest": "off"}, {"smokeTest": "off", "smokeTestNodes": 4}, Effect.NOTHING),
    ({}, {"smokeTestRerun": "again"}, Effect.SMOKE_TEST),
    ({}, {"release": "tcpxo-v1.0.14"}, Effect.SMOKE_TEST),
    ({}, {"release": "tcpxo-v1.0.15"}, Effect.NOTHING),
    ({"smokeTest": "off"}, {"smokeTest": "off", "release": "tcpxo-v1.0.14"}, Effect.IN_PLACE),
    ({}, {"fabricSourceRanges": ["192.168.0.0/16"]}, Effect.SMOKE_TEST),
    ({}, {"capacity": "spot"}, Effect.SMOKE_TEST),
    ({}, {"clusterVersion": "1.36.4-gke.1391000"}, Effect.SMOKE_TEST),
    (
        {"clusterVersion": "1.36.4-gke.1391000"},
        {"clusterVersion": "1.35.8-gke.1036000"},
        Effect.NOTHING,
    ),
    ({"clusterVersion": "1.36.4-gke.1391000"}, {}, Effect.NOTHING),
    ({}, {"networkNames": [f"gpu{n}" for n in range(8)]}, Effect.ADDONS),
    ({}, {"networkNames": [f"vpc{n}" for n in range(1, 9)]}, Effect.NOTHING),
    ({}, {"deviceInjector": False}, Effect.ADDONS),
    ({}, {"fabricCidr": "172.16.0.0/16"}, Effect.FABRIC),
    (
        {"fabricSubnets": [f"172.16.{n}.0/24" for n in (0, 8, 16, 24, 32, 40, 48, 56)]},
        {"fabricSubnets": [f"172.16.{n}.0/21" for n in (0, 8, 16, 24, 32, 40, 48, 56)]},
        Effect.SMOKE_TEST,
    ),
    (
        {"fabricCidr": "192.168.0.0/21"},
        {"fabricCidr": "192.168.0.0/21", "fabricSubnets": [f"192.168.{n}.0/24" for n in range(8)]},
        Effect.SMOKE_TEST,  # the same subnets, but another source range of the firewall rules
    ),
    ({}, {"gpuStack": "a3-high"}, Effect.FABRIC),
    ({}, {"prefix": "ml"}, Effect.CLUSTER),
    ({}, {"prefix": "dev"}, Effect.NOTHING),
    ({"clusterName": "one"}, {"clusterName": "one", "prefix": "ml"}, Effect.FABRIC),
    ({}, {"clusterName": "one"}, Effect.CLUSTER),
    ({}, {"clusterName": "dev-cluster"}, Effect.NOTHING),
    ({}, {"clusterNetwork": "birds-net"}, Effect.CLUSTER),
    ({}, {"podCidr": "10.4.0.0/14"}, Effect.CLUSTER),
    ({"podCidr": "10.4.0.0/14"}, {}, Effect.NOTHING),
    ({}, {"clusterNetworkCidr": "10.9.0.0/20"}, Effect.NOTHING),
    (
        {"clusterNetwork": "create"},
        {"clusterNetwork": "create", "clusterNetworkCidr": "10.0.0.0/19"},
        Effect.IN_PLACE,
    ),
    (
        {"clusterNetwork": "create"},
        {"clusterNetwork": "create", "clusterNetworkCidr": "10.9.0.0/20"},
        Effect.CLUSTER,
    ),
    ({}, {"gcp": {"region": "us-central1"}}, Effect.CLUSTER),
    ({}, {"allowReplace": "cluster"}, Effect.NOTHING),
    ({}, {"reservedCidrs": ["10.0.0.0/8"]}, Effect.NOTHING),
]


@pytest.mark.parametrize(("old", "new", "effect"), CASES)
def test_an_edit_comes_to_what_the_engine_plans(old: Edit, new: Edit, effect: Effect) -> None:
    changes = _changes(old, new)
    assert changes
    assert worst(changes) is effect


def test_no_edit_is_no_change() -> None:
    assert _changes({}, {}) == ()
    assert worst(()) is Effect.NOTHING


def test_no_edit_comes_to_more_than_the_class_of_its_key() -> None:
    for old, new, _ in CASES:
        for change in _changes(old, new):
            name = change.key.removeprefix("gpudirect:")
            if name in CONFIG_KEYS:
                assert change.effect.weight <= CONFIG_KEYS[name].effect.weight, change


def test_what_is_lost_is_named() -> None:
    (change,) = _changes({}, {"fabricCidr": "172.16.0.0/16"})
    assert change.lost == tuple(f"Network dev-net-{n}" for n in range(1, 9))
    (change,) = _changes({}, {"podCidr": "10.4.0.0/14"})
    assert change.lost == ("Cluster dev-cluster",)
    (change,) = _changes({}, {"prefix": "ml"})
    assert change.lost[-1] == "Cluster dev-cluster"
    assert len(change.lost) == 9


@pytest.mark.parametrize(
    ("new", "parts"),
    [
        ({"labels": {"a": "b"}}, set()),
        ({"fabricCidr": "172.16.0.0/16"}, {"fabric"}),
        ({"podCidr": "10.4.0.0/14"}, {"cluster"}),
        ({"prefix": "ml"}, {"fabric", "cluster"}),
        ({"gcp": {"region": "us-central1"}}, {"fabric", "cluster"}),
    ],
)
def test_what_must_be_allowed_follows_from_the_changes(new: Edit, parts: set[str]) -> None:
    assert replaced_parts(_changes({}, new)) == parts


def test_without_a_right_config_on_both_sides_the_class_of_the_key_holds() -> None:
    (change,) = [c for c in _changes({}, {"prefix": "ML"}) if c.key == "gpudirect:prefix"]
    assert change.effect is Effect.CLUSTER
    assert (change.old, change.new) == ("", "ML")
