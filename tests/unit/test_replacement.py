from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpudirect.replacement import find_losses, replacement_guard, spare_leave
from gpudirect.settings import Settings
from tests.unit.stack_settings import settings

State = dict[str, dict[str, Any]]

_FABRIC = "urn:pulumi:dev::gpudirect::gpudirect:index:GpuNetworkFabric$"
_CLUSTER = "urn:pulumi:dev::gpudirect::gpudirect:index:AutopilotCluster$"
_LINK = "https://www.googleapis.com/compute/v1/projects/example-project"
CLUSTER_URN = f"{_CLUSTER}gcp:container/cluster:Cluster::cluster-cluster"


def state_of(live: Settings, **cluster: Any) -> State:
    """Return outputs in the form in which the provider stores them."""
    project = "example-project"
    state: State = {
        "urn:pulumi:dev::gpudirect::pulumi:pulumi:Stack::gpudirect-dev": {},
        f"{_FABRIC}gcp:projects/service:Service::fabric-compute-api": {"project": project},
    }
    for nic in live.fabric.nics:
        state[f"{_FABRIC}gcp:compute/network:Network::fabric-net-{nic.index}"] = {
            "name": nic.vpc_name,
            "mtu": 8244.0,
            "project": project,
        }
        state[f"{_FABRIC}gcp:compute/subnetwork:Subnetwork::fabric-sub-{nic.index}"] = {
            "name": nic.subnet_name,
            "ipCidrRange": nic.cidr,
            "region": live.region,
            "network": f"{_LINK}/global/networks/{nic.vpc_name}",
            "project": project,
        }
        state[f"{_FABRIC}gcp:compute/firewall:Firewall::fabric-internal-{nic.index}"] = {
            "name": nic.firewall_name,
            "network": f"{_LINK}/global/networks/{nic.vpc_name}",
            "project": project,
        }
    if live.cluster.create_network:
        state[f"{_CLUSTER}gcp:compute/network:Network::cluster-net"] = {
            "name": live.cluster.network_name
        }
        state[f"{_CLUSTER}gcp:compute/subnetwork:Subnetwork::cluster-sub"] = {
            "name": live.cluster.subnetwork_name,
            "ipCidrRange": live.cluster.subnetwork_cidr,
            "region": live.region,
        }
    network = live.cluster.network_name or live.cluster.network
    subnet = live.cluster.subnetwork_name or live.cluster.subnetwork or "default"
    state[CLUSTER_URN] = {
        "name": live.cluster.name,
        "location": live.region,
        "endpoint": "192.0.2.10",
        "project": project,
        "network": f"projects/{project}/global/networks/{network}",
        "subnetwork": f"projects/{project}/regions/{live.region}/subnetworks/{subnet}",
        "enableMultiNetworking": True,
        "deletionProtection": live.cluster.deletion_protection,
        "ipAllocationPolicy": {
            "clusterIpv4CidrBlock": "10.4.0.0/17",
            "servicesIpv4CidrBlock": "34.118.224.0/20",
        },
    } | cluster
    return state


LIVE = settings(deletionProtection=False)
PROTECTED = settings()


@pytest.mark.parametrize(
    "live",
    [
        LIVE,
        settings(gpuStack="a3-high"),
        settings(clusterNetwork="create"),
        settings(podCidr="10.4.0.0/17", clusterSubnetwork="sub", clusterNetwork="birds-net"),
    ],
)
def test_an_update_without_changes_takes_nothing_away(live: Settings) -> None:
    assert replacement_guard(state_of(live), live) == ()


def test_a_first_update_has_nothing_to_lose() -> None:
    assert replacement_guard({}, LIVE) == ()


REPLACING: list[tuple[dict[str, Any], str, str]] = [
    ({"fabricCidr": "172.16.0.0/16"}, "fabric", "range 192.168.0.0/19 -> 172.16.0.0/19"),
    ({"fabricCidr": "192.168.0.0/17"}, "fabric", "range 192.168.0.0/19 -> 192.168.0.0/20"),
    ({"prefix": "ml", "clusterName": "dev-cluster"}, "fabric", "name dev-net-1 -> ml-net-1"),
    ({"prefix": "ml", "clusterName": "dev-cluster"}, "fabric", "network dev-net-8 -> ml-net-8"),
    ({"gpuStack": "a3-high"}, "fabric", "a3-high has 4 GPU NICs"),
    ({"clusterName": "other"}, "cluster", "name dev-cluster -> other"),
    ({"clusterNetwork": "birds-net"}, "cluster", "network default -> birds-net"),
    ({"clusterNetwork": "create"}, "cluster", "network default -> dev-net"),
    ({"podCidr": "10.8.0.0/14"}, "cluster", "podCidr 10.4.0.0/17 -> 10.8.0.0/14"),
    ({"serviceCidr": "10.8.0.0/20"}, "cluster", "serviceCidr 34.118.224.0/20 -> 10.8.0.0/20"),
]


@pytest.mark.parametrize(("edit", "part", "said"), REPLACING)
def test_an_edit_that_replaces_something_live_is_refused_with_what_is_lost(
    edit: dict[str, Any], part: str, said: str
) -> None:
    findings = replacement_guard(state_of(LIVE), settings(**edit))
    (finding,) = [f for f in findings if f"the {part} is live" in f.message]
    assert said in finding.sentence
    assert finding.key == "gpudirect:allowReplace"
    assert f"pulumi config set allowReplace {part}" in finding.fix
    assert replacement_guard(state_of(LIVE), settings(**edit), frozenset({part})) == ()


def test_a_region_takes_fabric_and_cluster_with_it() -> None:
    moved = settings(gcp={"region": "us-central1"})
    findings = replacement_guard(state_of(LIVE), moved)
    assert len(findings) == 2
    assert {f.fix for f in findings} == {
        "pulumi config set allowReplace fabric,cluster --stack dev"
    }
    assert "location us-east4 -> us-central1" in findings[1].sentence
    allowed = settings(gcp={"region": "us-central1"}, allowReplace="fabric,cluster")
    assert replacement_guard(state_of(LIVE), allowed) == ()
    only_one = settings(gcp={"region": "us-central1"}, allowReplace="cluster")
    assert [f.fix for f in replacement_guard(state_of(LIVE), only_one)] == [
        "pulumi config set allowReplace fabric,cluster --stack dev"
    ]


def test_another_project_takes_everything_with_it() -> None:
    moved = settings(gcp={"region": "us-east4", "project": "other-project"})
    assert {loss.part for loss in find_losses(state_of(LIVE), moved)} == {"fabric", "cluster"}


def test_subnets_that_only_grow_stay() -> None:
    subnets = [f"10.{n}.0.0/24" for n in range(1, 9)]
    live = settings(fabricSubnets=subnets, podCidr="10.128.0.0/14", clusterNetwork="birds-net")
    grown = [s.replace("/24", "/20") for s in subnets]
    edited = settings(fabricSubnets=grown, podCidr="10.128.0.0/14", clusterNetwork="birds-net")
    state = state_of(live, ipAllocationPolicy={})
    assert replacement_guard(state, edited) == ()
    assert replacement_guard(state_of(edited, ipAllocationPolicy={}), live)


@pytest.mark.parametrize(
    ("edit", "outputs"),
    [
        ({"deletionProtection": False}, {}),
        ({"labels": {"a": "b"}}, {}),
        ({"clusterVersion": "1.36.4-gke.1391000"}, {}),
        ({"release": "tcpxo-v1.0.14"}, {}),
        ({"networkNames": [f"gpu{n}" for n in range(8)]}, {}),
        ({"smokeTest": "off"}, {}),
        ({"podCidr": "10.4.0.0/17"}, {}),
        ({"privateNodes": True}, {}),
    ],
)
def test_an_edit_that_stays_in_place_passes(edit: dict[str, Any], outputs: dict[str, Any]) -> None:
    assert replacement_guard(state_of(LIVE, **outputs), settings(**edit)) == ()


# What the provider plans in place although Google refuses it, or refuses it while VMs run.
DRIFTS: list[tuple[Callable[[State], None], str, str]] = [
    (
        lambda s: s[CLUSTER_URN].update(enableMultiNetworking=False),
        "cluster",
        "multi-networking False -> True",
    ),
    (
        lambda s: s[f"{_FABRIC}gcp:compute/network:Network::fabric-net-2"].update(mtu=1460.0),
        "fabric",
        "MTU 1460 -> 8244",
    ),
    (
        lambda s: s[f"{_FABRIC}gcp:compute/firewall:Firewall::fabric-internal-2"].update(
            network=f"{_LINK}/global/networks/other"
        ),
        "fabric",
        "network other -> dev-net-2",
    ),
]


@pytest.mark.parametrize(("drift", "part", "said"), DRIFTS, ids=["multi-net", "mtu", "firewall"])
def test_what_is_planned_in_place_but_refused_by_google_needs_leave_too(
    drift: Callable[[State], None], part: str, said: str
) -> None:
    state = state_of(LIVE)
    drift(state)
    (finding,) = replacement_guard(state, LIVE)
    assert f"the {part} is live" in finding.message
    assert said in finding.sentence


def test_the_cluster_s_own_network_goes_with_the_cluster() -> None:
    live = settings(clusterNetwork="create")
    edited = settings(clusterNetwork="create", clusterNetworkCidr="10.0.16.0/20")
    (finding,) = replacement_guard(state_of(live), edited)
    assert "range 10.0.0.0/20 -> 10.0.16.0/20" in finding.sentence
    grown = settings(clusterNetwork="create", clusterNetworkCidr="10.0.0.0/19")
    assert replacement_guard(state_of(live), grown) == ()
    (finding,) = replacement_guard(state_of(live), LIVE)
    assert "clusterNetwork is default" in finding.sentence


def test_a_protected_cluster_that_may_be_replaced_is_told_of_before_the_provider_fails() -> None:
    edited = settings(clusterName="other", allowReplace="cluster", deletionProtection=False)
    (finding,) = replacement_guard(state_of(PROTECTED), edited)
    assert finding.key == "gpudirect:deletionProtection"
    assert "last state" in finding.why
    assert replacement_guard(state_of(LIVE), edited) == ()


@pytest.mark.parametrize("endpoint", ["", None])
def test_a_cluster_that_never_came_up_is_no_loss(endpoint: str | None) -> None:
    edited = settings(podCidr="10.8.0.0/14")
    assert replacement_guard(state_of(LIVE), edited) != ()
    assert replacement_guard(state_of(LIVE, endpoint=endpoint), edited) == ()


def test_half_an_environment_is_guarded_too() -> None:
    state = state_of(LIVE)
    del state[CLUSTER_URN]
    edited = settings(prefix="ml")
    findings = replacement_guard(state, edited)
    assert len(findings) == 1
    assert "Network dev-net-1" in findings[0].sentence


def test_leave_that_outlives_its_update_is_told() -> None:
    still = settings(allowReplace="cluster")
    (warning,) = spare_leave(state_of(still), still)
    assert warning.severity == "warning"
    assert warning.fix == "pulumi config rm allowReplace --stack dev"
    moving = settings(allowReplace="cluster", clusterName="other")
    assert spare_leave(state_of(still), moving) == ()
    assert spare_leave({}, still) == ()
    assert spare_leave(state_of(LIVE), LIVE) == ()
