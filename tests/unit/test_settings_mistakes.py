from __future__ import annotations

from typing import Any

import pytest

from gpudirect.config_keys import CONFIG_KEYS
from tests.unit.stack_settings import errors, the_error

MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"gpuStack": "a3-ultra"}, "gpuStack", "no such choice"),
    ({"gpuStack": ""}, "gpuStack", "not set"),
    ({"prefix": "Dev"}, "prefix", "no name"),
    ({"prefix": "-x"}, "prefix", "no name"),
    ({"prefix": "x-"}, "prefix", "no name"),
    ({"prefix": "1x"}, "prefix", "no name"),
    ({"prefix": "kube-system"}, "prefix", "reserved"),
    ({"prefix": "x" * 53, "clusterName": "c"}, "prefix", "53 characters"),
    ({"prefix": "x" * 33}, "clusterName", "41 characters"),
    ({"clusterName": "x" * 41}, "clusterName", "41 characters"),
    ({"clusterName": "My_Cluster"}, "clusterName", "no name"),
    ({"networkNames": ["default", *(f"v{n}" for n in range(7))]}, "networkNames[0]", "reserved"),
    (
        {"networkNames": [*(f"v{n}" for n in range(7)), "pod-network"]},
        "networkNames[7]",
        "reserved",
    ),
    ({"networkNames": [f"v{n}" for n in range(7)]}, "networkNames", "7 names"),
    ({"networkNames": [*(f"v{n}" for n in range(7)), "v0"]}, "networkNames[7]", "twice"),
    ({"networkNames": [*(f"v{n}" for n in range(7)), "V_8"]}, "networkNames[7]", "no name"),
    ({"networkNames": [*(f"v{n}" for n in range(7)), ""]}, "networkNames[7]", "no name"),
    ({"networkNames": [*(f"v{n}" for n in range(7)), 8]}, "networkNames[7]", "a number"),
    ({"networkNames": {"a": "b"}}, "networkNames", "not a list"),
    ({"labels": ["a"]}, "labels", "not a mapping"),
    ({"labels": {"Team": "x"}}, "labels.Team", "no name of a label"),
    ({"labels": {"1x": "x"}}, "labels.1x", "no name of a label"),
    ({"labels": {"team": "A B"}}, "labels.team", "no value of a label"),
    ({"labels": {"team": "x" * 64}}, "labels.team", "no value of a label"),
    ({"labels": {"goog-x": "y"}}, "labels.goog-x", "Google's own"),
    ({"labels": {"team": True}}, "labels.team", "a number or truth value"),
    ({"labels": {f"a{n}": "" for n in range(65)}}, "labels", "65 labels"),
    ({"allowReplace": "everything"}, "allowReplace", "no such choice"),
    ({"fabricCidr": "192.168.0.0/27"}, "fabricCidr", "no room for 8 subnets"),
    ({"fabricCidr": "192.168.0.0"}, "fabricCidr", "no range"),
    ({"fabricCidr": "192.168.0.1/16"}, "fabricCidr", "bits are set"),
    ({"fabricCidr": "192.169.0.0/16"}, "fabricCidr", "not a private range"),
    ({"fabricCidr": "169.254.0.0/16"}, "fabricCidr", "link-local"),
    ({"fabricCidr": "169.254.0.0/16", "allowPublicRanges": True}, "fabricCidr", "link-local"),
    ({"fabricCidr": "fd00::/20"}, "fabricCidr", "IPv6"),
    ({"fabricCidr": ""}, "fabricCidr", "nothing after it"),
    ({"fabricCidr": "192.168.0.0/24", "fabricNodes": 29}, "fabricCidr", "room for 28 nodes"),
    ({"fabricCidr": "192.168.0.0/26", "smokeTestNodes": 5}, "fabricCidr", "room for 4 nodes"),
    ({"fabricNodes": -1}, "fabricNodes", "out of bounds"),
    ({"fabricSubnets": ["192.168.0.0/24"]}, "fabricSubnets", "1 range"),
    (
        {"fabricSubnets": ["192.168.0.0/30", *(f"192.168.{n}.0/24" for n in range(1, 8))]},
        "fabricSubnets[0]",
        "a /30",
    ),
    ({"fabricSourceRanges": ["192.168.0.0/17"]}, "fabricSourceRanges", "leaves out"),
    ({"fabricSourceRanges": ["0.0.0.0/0"]}, "fabricSourceRanges[0]", "this network"),
    ({"reservedCidrs": ["192.168.64.0/24"]}, "fabricCidr", "range of others"),
    ({"reservedCidrs": ["10.0.0.1/8"]}, "reservedCidrs[0]", "bits are set"),
    ({"allowPublicRanges": "yes"}, "allowPublicRanges", "neither true nor false"),
    ({"clusterNetwork": ""}, "clusterNetwork", "nothing after it"),
    ({"clusterNetwork": "My Net"}, "clusterNetwork", "no name"),
    ({"clusterNetwork": "dev-net-3"}, "clusterNetwork", "makes for something else"),
    ({"clusterSubnetwork": "S"}, "clusterSubnetwork", "no name"),
    (
        {"clusterNetwork": "create", "clusterSubnetwork": "s"},
        "clusterSubnetwork",
        "beside a network that the stack makes",
    ),
    (
        {"clusterNetwork": "create", "clusterNetworkCidr": "192.168.0.0/20"},
        "clusterNetworkCidr",
        "shares addresses",
    ),
    ({"podCidr": "192.168.0.0/20"}, "podCidr", "shares addresses"),
    ({"podCidr": "10.4.0.0/14", "serviceCidr": "10.5.0.0/20"}, "serviceCidr", "shares addresses"),
    ({"podCidr": "10.200.0.0/14"}, "podCidr", "default network's subnets"),
    ({"podCidr": "8.0.0.0/14"}, "podCidr", "not a private range"),
    ({"controlPlaneCidr": "10.9.0.0/28"}, "controlPlaneCidr", "not private"),
    ({"controlPlaneCidr": "10.9.0.0/27", "privateNodes": True}, "controlPlaneCidr", "a /27"),
    ({"authorizedNetworks": {"all": "0.0.0.0/0"}}, "authorizedNetworks.all", "whole internet"),
    ({"authorizedNetworks": {"a": "1.2.3.4/24"}}, "authorizedNetworks.a", "bits are set"),
    ({"authorizedNetworks": ["1.2.3.0/24"]}, "authorizedNetworks", "not a mapping"),
    ({"deletionProtection": "off"}, "deletionProtection", "neither true nor false"),
    ({"maintenanceWindow": "24:00"}, "maintenanceWindow", "no time of day"),
    ({"maintenanceWindow": "3:00"}, "maintenanceWindow", "no time of day"),
    ({"clusterVersion": "1.30.5-gke.1"}, "clusterVersion", "older than GPUDirect needs"),
    ({"gpuStack": "a3-high", "clusterVersion": "1.34.4-gke.9"}, "clusterVersion", "older"),
    ({"releaseChannel": "regular"}, "releaseChannel", "no such choice"),
    ({"releaseChannel": "UNSPECIFIED"}, "releaseChannel", "no such choice"),
    ({"releaseChannel": "EXTENDED"}, "clusterVersion", "EXTENDED"),
    ({"release": "tcpxo-v1.0.13"}, "release", "no release of a3-mega"),
    ({"release": "tcpx-v3.1.9"}, "release", "no release of a3-mega"),
    ({"ncclProfile": "ll128"}, "ncclProfile", "no profile"),
    ({"gpuStack": "a3-high", "ncclProfile": "simple"}, "ncclProfile", "no profile"),
    ({"imageRegistry": "https://mirror.example"}, "imageRegistry", "no registry host"),
    ({"imageRegistry": "mirror"}, "imageRegistry", "no registry host"),
    ({"imageRegistry": "mirror.example/"}, "imageRegistry", "no registry host"),
    ({"imageRegistry": "mirror.example/a b"}, "imageRegistry", "no registry host"),
    ({"deviceInjector": "maybe"}, "deviceInjector", "neither true nor false"),
    ({"capacity": "on_demand"}, "capacity", "no such choice"),
    ({"capacity": "flex-start", "reservationName": "r"}, "reservationName", "flex-start"),
    ({"capacity": "spot", "reservationName": "r"}, "reservationName", "capacity spot"),
    ({"capacity": "spot", "maxRunDuration": "1h"}, "maxRunDuration", "capacity spot"),
    ({"capacity": "reservation"}, "reservationName", "needs it"),
    ({"capacity": "compute-class"}, "computeClass", "needs it"),
    ({"capacity": "compute-class", "computeClass": "gke-x"}, "computeClass", "no name"),
    ({"capacity": "compute-class", "computeClass": "Accelerator"}, "computeClass", "no name"),
    ({"computeClass": "h100"}, "computeClass", "on-demand"),
    ({"reservationProject": "p-1"}, "reservationProject", "on-demand"),
    (
        {"capacity": "reservation", "reservationName": "r", "reservationProject": "My Project"},
        "reservationProject",
        "no project id",
    ),
    (
        {"capacity": "reservation", "reservationName": "r", "placementGroup": "g"},
        "placementGroup",
        "reservation",
    ),
    ({"capacity": "flex-start", "placementGroup": "g"}, "placementGroup", "flex-start"),
    ({"placementGroup": "x" * 41}, "placementGroup", "41 characters"),
    ({"placementGroup": "G"}, "placementGroup", "no name"),
    ({"placementGroup": "g", "smokeTestNodes": 97}, "smokeTestNodes", "placement group"),
    ({"capacity": "flex-start", "maxRunDuration": "9m"}, "maxRunDuration", "out of bounds"),
    ({"capacity": "flex-start", "maxRunDuration": "8d"}, "maxRunDuration", "out of bounds"),
    ({"capacity": "flex-start", "maxRunDuration": "2 h"}, "maxRunDuration", "no duration"),
    ({"capacity": "flex-start", "maxRunDuration": "20m"}, "maxRunDuration", "shorter than"),
    ({"zone": "us-east4"}, "zone", "no zone of us-east4"),
    ({"zone": "us-central1-a"}, "zone", "no zone of us-east4"),
    ({"zone": "us-east4-a,us-east4-b"}, "zone", "more than one zone"),
    ({"gpuQuota": 8}, "smokeTestNodes", "16 GPUs, and gpuQuota is 8"),
    ({"gpuQuota": 31, "smokeTestNodes": 4}, "smokeTestNodes", "32 GPUs, and gpuQuota is 31"),
    ({"smokeTest": "false"}, "smokeTest", "off is a word"),
    ({"smokeTestNodes": 1}, "smokeTestNodes", "out of bounds"),
    ({"smokeTestNodes": "two"}, "smokeTestNodes", "no whole number"),
    ({"smokeTestNodes": "2.5"}, "smokeTestNodes", "no whole number"),
    ({"smokeTestNodes": "9" * 5000}, "smokeTestNodes", "out of bounds"),
    ({"smokeTestCollective": "broadcast"}, "smokeTestCollective", "no such choice"),
    ({"smokeTestMinFraction": "80%"}, "smokeTestMinFraction", "no number"),
    ({"smokeTestMinFraction": "0"}, "smokeTestMinFraction", "out of bounds"),
    ({"smokeTestMinFraction": "1.01"}, "smokeTestMinFraction", "out of bounds"),
    ({"smokeTestMinFraction": "nan"}, "smokeTestMinFraction", "no number"),
    ({"smokeTestCapacityDeadline": "8d"}, "smokeTestCapacityDeadline", "out of bounds"),
    ({"smokeTestRunDeadline": "10s"}, "smokeTestRunDeadline", "out of bounds"),
    ({"smokeTestPullDeadline": ""}, "smokeTestPullDeadline", "nothing after it"),
    ({"smokeTestStartDeadline": "soon"}, "smokeTestStartDeadline", "no duration"),
    ({"prefix": "dev\n"}, "prefix", "no name"),
    ({"fabricCidr": " 192.168.0.0/16"}, "fabricCidr", "blanks round it"),
    # Not used with the other value of another key, and yet to be right.
    (
        {"fabricSubnets": [f"192.168.{n}.0/24" for n in range(8)], "fabricCidr": "x"},
        "fabricCidr",
        "no range",
    ),
    ({"clusterNetworkCidr": "x"}, "clusterNetworkCidr", "no range"),
    ({"clusterNetwork": "projects/p/global/networks/n"}, "clusterNetwork", "no name"),
    ({"clusterVersion": "1.35.8-gke.01036000"}, "clusterVersion", "no GKE version"),
    ({"clusterVersion": "01.35.8-gke.1036000"}, "clusterVersion", "no GKE version"),
    ({"clusterVersion": "1.35.8-gke.\uff11"}, "clusterVersion", "no GKE version"),
    (
        {"authorizedNetworks": {"a": "0.0.0.0/1", "b": "128.0.0.0/1"}},
        "authorizedNetworks",
        "together the whole internet",
    ),
    ({"authorizedNetworks": {"a.b": "10.0.0.1/8"}}, 'authorizedNetworks["a.b"]', "bits are set"),
    ({"labels": {"a.b": "x"}}, 'labels["a.b"]', "no name of a label"),
    ({"allowReplace": "cluster,fabric"}, "allowReplace", "no such choice"),
    ({"imageRegistry": "registry.example/x:tag"}, "imageRegistry", "no registry host"),
    ({"imageRegistry": "registry.example/X"}, "imageRegistry", "no registry host"),
    ({"smokeTestNodes": "\u0662"}, "smokeTestNodes", "no whole number"),
]


@pytest.mark.parametrize(
    ("overrides", "key", "said"), MISTAKES, ids=[f"{m[1]}-{n}" for n, m in enumerate(MISTAKES)]
)
def test_a_mistake_is_one_finding_with_key_reason_and_remedy(
    overrides: dict[str, Any], key: str, said: str
) -> None:
    found = errors(**overrides)
    assert {finding.key for finding in found} == {f"gpudirect:{key}"}, found
    finding = found[0]
    assert said in finding.message
    assert finding.expected
    assert finding.why
    assert finding.fix.startswith("pulumi config ")
    assert "--stack dev" in finding.fix


def test_every_key_that_can_be_wrong_has_a_mistake_here() -> None:
    tried = {name for overrides, _, _ in MISTAKES for name in overrides}
    # A note of any text, and what says something twice: these take part in other rules alone.
    assert set(CONFIG_KEYS) - tried == {"smokeTestRerun", "allowOpenControlPlane"}


def test_a_whole_remedy_can_be_carried_out() -> None:
    finding = the_error(fabricCidr="192.168.0.0/27")
    mended = finding.fix.split()[4]
    assert finding.fix == f"pulumi config set fabricCidr {mended} --stack dev"
    assert not errors(fabricCidr=mended)


@pytest.mark.parametrize(
    ("overrides", "fix"),
    [
        ({"clusterNetwork": "projects/p/global/networks/n"}, "clusterNetwork n"),
        ({"allowReplace": "cluster, fabric"}, "allowReplace fabric,cluster"),
        ({"clusterVersion": "1.35.8-GKE.1036000"}, "clusterVersion 1.35.8-gke.1036000"),
        ({"fabricCidr": "192.168.0.0/16 "}, "fabricCidr 192.168.0.0/16"),
        # Round 192.168.0.0/16 no larger range is private.
        ({"fabricNodes": 100_000}, "fabricCidr 172.16.0.0/12"),
        (
            {"authorizedNetworks": {"a.b": "10.0.0.1/8"}},
            "--path 'authorizedNetworks[\"a.b\"]' 10.0.0.0/8",
        ),
    ],
)
def test_a_remedy_says_what_was_meant(overrides: dict[str, Any], fix: str) -> None:
    assert the_error(**overrides).fix == f"pulumi config set {fix} --stack dev"


def test_an_entry_without_a_name_is_refused() -> None:
    for name in ("authorizedNetworks", "labels"):
        finding = the_error(**{name: {"": "10.0.0.0/8"}})
        assert (finding.key, finding.message) == (f"gpudirect:{name}", "an entry without a name")


def test_one_item_that_is_no_text_hides_nothing_about_the_others() -> None:
    found = errors(fabricSubnets=[7, "192.168.1.0/24", "192.168.1.0/24", "10.0.0.1/24"])
    assert [(finding.key, finding.message.split(",")[0]) for finding in found] == [
        ("gpudirect:fabricSubnets[0]", "a number or truth value where text is wanted"),
        ("gpudirect:fabricSubnets", "4 ranges"),
        ("gpudirect:fabricSubnets[3]", "bits are set below the /24"),
        (
            "gpudirect:fabricSubnets[2]",
            "it shares addresses with the subnet of NIC 2",
        ),
    ]


def test_what_is_said_twice_is_meant() -> None:
    assert not errors(authorizedNetworks={"all": "0.0.0.0/0"}, allowOpenControlPlane=True)


def test_a_remedy_for_an_overlap_names_a_range_that_is_free() -> None:
    finding = the_error(reservedCidrs=["192.168.64.0/24", "172.16.0.0/16"])
    assert finding.fix == "pulumi config set fabricCidr 172.17.0.0/16 --stack dev"
    assert not errors(
        reservedCidrs=["192.168.64.0/24", "172.16.0.0/16"], fabricCidr="172.17.0.0/16"
    )


def test_ranges_of_others_may_overlap_one_another() -> None:
    assert not errors(reservedCidrs=["10.0.0.0/8", "10.1.0.0/16"])


def test_public_ranges_are_used_where_that_is_said() -> None:
    assert not errors(fabricCidr="192.169.0.0/16", allowPublicRanges=True)


def test_the_ranges_of_a_test_that_is_off_need_no_room_for_it() -> None:
    assert not errors(fabricCidr="192.168.0.0/26", smokeTestNodes=5, smokeTest="off")
