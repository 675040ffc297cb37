from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpudirect.settings import load_settings
from gpudirect.stacks import A3_HIGH, A3_MEGA
from tests.unit.stack_settings import ENVIRON, REGION, config_values, errors, settings, the_error


def test_three_keys_make_a_whole_environment() -> None:
    found = settings()
    assert found.gpu_stack is A3_MEGA
    assert (found.project, found.region, found.prefix) == ("example-project", "us-east4", "dev")
    assert found.universe.domain == "googleapis.com"
    assert found.release.name == "tcpxo-v1.0.15"
    assert found.network_names == tuple(f"vpc{n}" for n in range(1, 9))
    assert found.cluster.name == "dev-cluster"
    assert found.cluster.network == "default"
    assert found.cluster.deletion_protection is True
    assert found.smoke_test.mode == "gate"
    assert found.smoke_test.nodes == 2
    assert found.smoke_test.min_fraction == 0.8
    assert found.smoke_test.capacity_deadline_seconds == 1800
    assert found.capacity.node_selector() == {}
    assert found.allow_replace == frozenset()
    assert found.warnings == ()


@pytest.mark.parametrize("stack", [A3_MEGA, A3_HIGH])
def test_every_gpu_nic_has_a_network_subnet_and_rule_of_its_own(stack: Any) -> None:
    fabric = settings(gpuStack=stack.name).fabric
    assert fabric.mtu_bytes == 8244
    assert len(fabric.nics) == stack.nic_count
    for number, nic in enumerate(fabric.nics, 1):
        assert nic.index == number
        assert nic.interface == f"eth{number}"
        assert nic.network_object == f"vpc{number}"
        assert nic.vpc_name == f"dev-net-{number}"
        assert nic.subnet_name == f"dev-sub-{number}"
        assert nic.firewall_name == f"dev-internal-{number}"
    assert fabric.source_ranges == ("192.168.0.0/16",)
    assert len({nic.cidr for nic in fabric.nics}) == stack.nic_count


def test_the_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings().prefix = "x"  # type: ignore[misc]


def test_a_prefix_starts_every_name() -> None:
    found = settings(prefix="ml")
    assert found.fabric.nics[0].firewall_name == "ml-internal-1"
    assert found.cluster.name == "ml-cluster"
    assert settings(prefix="ml", clusterName="one").cluster.name == "one"


def test_explicit_subnets_are_taken_in_order_and_may_send_to_one_another() -> None:
    subnets = [f"10.0.{n}.0/28" for n in (4, 1, 3, 2)]
    fabric = settings(gpuStack="a3-high", fabricSubnets=subnets, podCidr="10.4.0.0/14").fabric
    assert [nic.cidr for nic in fabric.nics] == subnets
    assert fabric.source_ranges == tuple(subnets)


def test_the_default_network_and_its_ranges_are_known() -> None:
    assert settings(clusterNetwork="birds-net").cluster.network == "birds-net"  # [R28]
    finding = the_error(fabricCidr="10.128.0.0/16", podCidr="10.4.0.0/14")
    assert finding.key == "gpudirect:fabricCidr"
    assert "10.128.0.0/9" in finding.message
    assert not errors(fabricCidr="10.128.0.0/16", clusterNetwork="birds-net", podCidr="10.4.0.0/14")


def test_a_network_that_the_stack_makes_gets_names_and_a_range() -> None:
    cluster = settings(clusterNetwork="create").cluster
    assert cluster.create_network
    assert (cluster.network_name, cluster.subnetwork_name) == ("dev-net", "dev-sub")
    assert cluster.subnetwork_cidr == "10.0.0.0/20"
    assert settings().cluster.subnetwork_cidr is None


def test_the_project_comes_from_config_before_the_environment() -> None:
    assert settings(gcp={**REGION, "project": "mine-1"}).project == "mine-1"
    for name in ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        found = load_settings(
            stack_name="dev", values=config_values(), gcp=REGION, environ={name: "other-1"}
        )
        assert found.project == "other-1"


def test_without_an_environment_nobody_asks_for_the_project() -> None:
    found = load_settings(stack_name="dev", values=config_values(), gcp=REGION)
    assert found.project is None


def test_values_may_come_as_json_or_as_what_it_means() -> None:
    values: dict[str, object] = {
        **config_values(),
        "labels": {"team": "ml"},
        "networkNames": [f"gpu{n}" for n in range(8)],
        "smokeTestNodes": 4,
        "deviceInjector": False,
    }
    found = load_settings(stack_name="dev", values=values, gcp=REGION, environ=ENVIRON)
    assert found.labels == {"team": "ml"}
    assert found.network_names[7] == "gpu7"
    assert found.smoke_test.nodes == 4
    assert found.device_injector is False
    as_json = config_values(labels={"team": "ml"}, networkNames=[f"gpu{n}" for n in range(8)])
    again = load_settings(stack_name="dev", values=as_json, gcp=REGION, environ=ENVIRON)
    assert (again.labels, again.network_names) == (found.labels, found.network_names)


@pytest.mark.parametrize(
    ("overrides", "selector"),
    [
        ({"capacity": "spot"}, {"cloud.google.com/gke-spot": "true"}),
        (
            {"capacity": "flex-start", "maxRunDuration": "2h"},
            {
                "cloud.google.com/gke-flex-start": "true",
                "cloud.google.com/gke-max-run-duration-seconds": "7200",
            },
        ),
        ({"capacity": "flex-start"}, {"cloud.google.com/gke-flex-start": "true"}),
        (
            {"capacity": "reservation", "reservationName": "r", "reservationProject": "other-1"},
            {
                "cloud.google.com/reservation-name": "r",
                "cloud.google.com/reservation-affinity": "specific",
                "cloud.google.com/reservation-project": "other-1",
            },
        ),
        (
            {"capacity": "compute-class", "computeClass": "h100"},
            {"cloud.google.com/compute-class": "h100"},
        ),
        ({"zone": "us-east4-b"}, {"topology.kubernetes.io/zone": "us-east4-b"}),
        ({"placementGroup": "near"}, {"cloud.google.com/gke-placement-group": "near"}),
    ],
)
def test_the_capacity_choice_becomes_node_selectors(
    overrides: dict[str, Any], selector: dict[str, str]
) -> None:
    assert settings(**overrides).capacity.node_selector() == selector


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604800)]
)
def test_durations_have_units(text: str, seconds: int) -> None:
    assert settings(smokeTestCapacityDeadline=text).smoke_test.capacity_deadline_seconds == seconds


@pytest.mark.parametrize(
    ("value", "allowed"),
    [("", set()), ("fabric", {"fabric"}), ("fabric,cluster", {"fabric", "cluster"})],
)
def test_what_may_be_replaced_is_a_set(value: str, allowed: set[str]) -> None:
    assert settings(allowReplace=value).allow_replace == allowed


def test_a_release_for_a_newer_driver_than_gke_has_is_worth_a_warning() -> None:
    found = settings(release="tcpxo-v1.0.17")
    (warning,) = found.warnings
    assert warning.severity == "warning"
    assert "595.71.05" in warning.message
    assert str(warning).startswith("warning: gpudirect:release: ")


def test_a_version_between_two_floors_is_worth_a_warning() -> None:
    (warning,) = settings(clusterVersion="1.31.1-gke.1621000").warnings
    assert "1.31.1-gke.2008000" in warning.expected
    assert settings(gpuStack="a3-high", clusterVersion="1.31.1-gke.1621000").warnings == ()
