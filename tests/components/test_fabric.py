from __future__ import annotations

import pytest

from components.network_fabric import GpuNetworkFabricArgs
from gpudirect.settings import FabricSettings
from tests.components.recording import Recording

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
FIREWALL = "gcp:compute/firewall:Firewall"
CLUSTER = "gcp:container/cluster:Cluster"


@pytest.mark.parametrize(
    ("recording", "prefix", "count"), [("mega", "dev", 8), ("high", "staging", 4)]
)
def test_every_gpu_nic_gets_a_network_of_its_own(
    recording: str, prefix: str, count: int, request: pytest.FixtureRequest
) -> None:
    recorded: Recording = request.getfixturevalue(recording)
    numbers = range(1, count + 1)
    assert [r.inputs["name"] for r in recorded.of_type(NETWORK)] == [
        f"{prefix}-net-{n}" for n in numbers
    ]
    assert [r.inputs["name"] for r in recorded.of_type(SUBNETWORK)] == [
        f"{prefix}-sub-{n}" for n in numbers
    ]
    assert [r.inputs["name"] for r in recorded.of_type(FIREWALL)] == [
        f"{prefix}-internal-{n}" for n in numbers
    ]


def test_networks_are_in_custom_mode_with_the_mtu_of_gpudirect(either: Recording) -> None:
    for network in either.of_type(NETWORK):
        assert network.inputs["autoCreateSubnetworks"] is False
        assert network.inputs["mtu"] == 8244


def test_a_subnet_and_a_rule_lie_in_the_network_of_their_number(either: Recording) -> None:
    for kind in (SUBNETWORK, FIREWALL):
        for resource in either.of_type(kind):
            number = resource.name.rpartition("-")[2]
            assert resource.inputs["network"] == f"fabric-net-{number}-id"


def test_rules_admit_tcp_udp_and_icmp_from_the_fabric_alone(mega: Recording) -> None:
    for rule in mega.of_type(FIREWALL):
        assert rule.inputs["allows"] == [
            {"protocol": "tcp", "ports": ["0-65535"]},
            {"protocol": "udp", "ports": ["0-65535"]},
            {"protocol": "icmp"},
        ]
        assert rule.inputs["sourceRanges"] == ["192.168.0.0/17"]
        assert rule.inputs["direction"] == "INGRESS"


def test_the_fabric_has_no_way_out_of_its_networks(either: Recording) -> None:
    compute = {r.type for r in either.resources if r.type.startswith("gcp:compute")}
    assert compute == {NETWORK, SUBNETWORK, FIREWALL}


def test_no_network_is_made_before_the_compute_api_is_on(either: Recording) -> None:
    api = next(r for r in either.resources if r.name == "fabric-compute-api")
    for network in either.of_type(NETWORK):
        assert api.urn in network.dependencies


def test_apis_stay_on_when_the_stack_is_destroyed(either: Recording) -> None:
    services = either.of_type("gcp:projects/service:Service")
    assert [s.inputs["service"] for s in services] == [
        "container.googleapis.com",
        "compute.googleapis.com",
    ]
    assert all(s.inputs["disableOnDestroy"] is False for s in services)


def test_the_cluster_waits_for_every_gpu_subnet(either: Recording) -> None:
    cluster = either.one(CLUSTER)
    subnets = {r.urn for r in either.of_type(SUBNETWORK)}
    assert subnets <= cluster.dependencies


def test_a_fabric_without_nics_or_with_a_gap_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 to N"):
        GpuNetworkFabricArgs(
            settings=FabricSettings(nics=(), mtu_bytes=8244, source_ranges=()), region="r"
        )
