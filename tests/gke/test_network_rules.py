"""The checks of network parameter sets, without a cluster. All: facts autopilot.md §4.3."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.gke.network_rules import (
    ProjectView,
    check_network,
    check_param_set,
    network_ready,
    pod_cidrs,
    refers_to,
)
from tests.gke.fake_cloud import FakeCloud, project_with_cluster_network


def project(cloud: FakeCloud | None = None, *, shared_vpc: bool = False) -> ProjectView:
    if cloud is None:
        cloud = project_with_cluster_network()
        cloud.add("net-1", "sub-1", "192.168.1.0/24", ranges={"pods": "10.1.0.0/16"})
    return ProjectView(
        region="us-central1",
        cluster_network="default",
        shared_vpc=shared_vpc,
        network=lambda name: cloud.network("p", name),
        subnetwork=lambda name: cloud.subnetwork("p", "us-central1", name),
    )


def param_set(
    name: str = "vpc1", created: str = "2026-09-01T00:00:00Z", **spec: Any
) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


DEVICE: dict[str, Any] = {"vpc": "net-1", "vpcSubnet": "sub-1", "deviceMode": "NetDevice"}
RANGES: dict[str, Any] = {"podIPv4Ranges": {"rangeNames": ["pods"]}}
ATTACHMENT: dict[str, Any] = {
    "networkAttachment": "projects/p/regions/us-central1/networkAttachments/a"
}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({}, "GNPConfigInvalid"),
        ({"vpc": "net-1", "deviceMode": "NetDevice"}, "GNPConfigInvalid"),
        (ATTACHMENT | {"vpc": "net-1"}, "GNPConfigInvalid"),
        ({"vpc": "net-1", "vpcSubnet": "sub-1"}, "SecondaryRangeAndDeviceModeUnspecified"),
        (DEVICE | RANGES, "DeviceModeCantBeUsedWithSecondaryRange"),
        ({"networkAttachment": "regions/us-central1/a"}, "NetworkAttachmentInvalid"),
        (DEVICE | {"vpcSubnet": "sub-9"}, "SubnetNotFound"),
        (DEVICE | {"vpc": "net-9"}, "VPCNotFound"),
        # Names, not paths, are looked up.
        (DEVICE | {"vpc": "projects/p/global/networks/net-1"}, "VPCNotFound"),
        (
            {
                "vpc": "net-1",
                "vpcSubnet": "sub-1",
                "podIPv4Ranges": {"rangeNames": ["pods", "more"]},
            },
            "SecondaryRangeNotFound",
        ),
        (DEVICE | {"vpc": "default", "vpcSubnet": "default"}, "DeviceModeCantUseDefaultVPC"),
        (DEVICE, "GNPReady"),
        (DEVICE | {"deviceMode": "RDMA"}, "GNPReady"),
        ({"vpc": "net-1", "vpcSubnet": "sub-1"} | RANGES, "GNPReady"),
        (ATTACHMENT, "GNPReady"),
    ],
)
def test_the_first_check_that_fails_gives_the_reason(spec: dict[str, Any], reason: str) -> None:
    verdict = check_param_set(param_set(**spec), [], project())
    assert (verdict.reason, verdict.ok) == (reason, reason == "GNPReady")


def test_the_checks_come_in_the_order_of_the_controller() -> None:
    """A parameter set with every fault at once reports them one after the other."""
    broken = {"vpcSubnet": "sub-9", "deviceMode": "NetDevice"} | RANGES
    steps: list[tuple[dict[str, Any], str]] = [
        ({"vpc": "net-9"}, "GNPConfigInvalid"),
        ({"podIPv4Ranges": None}, "DeviceModeCantBeUsedWithSecondaryRange"),
        ({"vpcSubnet": "sub-1"}, "SubnetNotFound"),
        ({"vpc": "net-1"}, "VPCNotFound"),
        ({}, "GNPReady"),
    ]
    for mend, reason in steps:
        assert check_param_set(param_set(**broken), [], project()).reason == reason
        broken |= mend


def test_a_vpc_of_another_project_is_not_looked_up() -> None:
    spec = DEVICE | {"vpc": "net-9"}
    assert check_param_set(param_set(**spec), [], project(shared_vpc=True)).reason == "GNPReady"


def test_a_subnet_belongs_to_the_older_of_two_parameter_sets() -> None:
    older = param_set("zebra", "2026-09-01T00:00:00Z", **DEVICE)
    younger = param_set("ant", "2026-09-01T00:00:01Z", **DEVICE)
    assert check_param_set(older, [younger], project()).reason == "GNPReady"
    verdict = check_param_set(younger, [older], project())
    assert verdict.reason == "DeviceModeSubnetAlreadyInUse"
    assert "'zebra'" in verdict.message


def test_two_subnets_of_one_vpc_are_allowed() -> None:
    cloud = project_with_cluster_network()
    cloud.add("net-1", "sub-1", "192.168.1.0/24")
    cloud.add("net-1", "sub-2", "192.168.2.0/24")
    first = param_set("vpc1", **DEVICE)
    second = param_set("vpc2", **(DEVICE | {"vpcSubnet": "sub-2"}))
    assert check_param_set(second, [first], project(cloud)).reason == "GNPReady"


def test_mtu_and_membership_of_the_subnet_are_not_checked() -> None:
    cloud = project_with_cluster_network()
    cloud.add("net-1", "sub-1", "192.168.1.0/24")
    cloud.add("net-2", "sub-2", "192.168.2.0/24")
    cloud.networks["net-1"]["mtu"] = 1460
    foreign = param_set(**(DEVICE | {"vpcSubnet": "sub-2"}))
    assert check_param_set(foreign, [], project(cloud)).reason == "GNPReady"


def test_pod_ranges_are_the_primary_range_in_device_mode_and_the_named_ones_else() -> None:
    assert pod_cidrs(param_set(**DEVICE), project()) == ["192.168.1.0/24"]
    spec = {"vpc": "net-1", "vpcSubnet": "sub-1"} | RANGES
    assert pod_cidrs(param_set(**spec), project()) == ["10.1.0.0/16"]
    assert pod_cidrs(param_set(**ATTACHMENT), project()) == []


@pytest.mark.parametrize(
    ("network_type", "spec", "ready", "reason"),
    [
        ("Device", DEVICE, True, "GNPParamsReady"),
        ("L3", {"vpc": "net-1", "vpcSubnet": "sub-1"} | RANGES, True, "GNPParamsReady"),
        ("Device", ATTACHMENT, True, "GNPParamsReady"),
        ("Device", DEVICE, False, "GNPParamsNotReady"),
        ("L3", DEVICE, True, "L3SecondaryMissing"),
        ("Device", {"vpc": "net-1", "vpcSubnet": "sub-1"} | RANGES, True, "DeviceModeMissing"),
        ("L3", ATTACHMENT, True, "NetworkAttachmentUnsupported"),
    ],
)
def test_a_network_says_whether_its_parameters_fit(
    network_type: str, spec: dict[str, Any], ready: bool, reason: str
) -> None:
    network = {"metadata": {"name": "vpc1"}, "spec": {"type": network_type}}
    params = check_network(network, param_set(**spec), ready)
    assert params.reason == reason
    expected = "NetworkReady" if reason == "GNPParamsReady" else "ParamsNotReady"
    assert network_ready(params).reason == expected


def test_a_network_of_a_parameter_set_that_goes_says_so() -> None:
    going = param_set(**DEVICE)
    going["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    network = {"metadata": {"name": "vpc1"}, "spec": {"type": "Device"}}
    assert check_network(network, going, True).reason == "GNPDeleted"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": "vpc1"}, True),
        ({"group": "birds.example", "kind": "gkenetworkparamset", "name": "vpc1"}, True),
        ({"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": "vpc2"}, False),
        ({"group": "networking.gke.io", "kind": "Params", "name": "vpc1"}, False),
        (None, False),
    ],
)
def test_a_reference_is_matched_by_kind_and_name_alone(
    reference: dict[str, str] | None, expected: bool
) -> None:
    """[facts autopilot.md §4.2]."""
    network = {"spec": {"type": "Device", "parametersRef": reference}}
    assert refers_to(network, "vpc1") is expected
