"""Check: what is refused, and in which words [facts google-cloud.md §1.6, §3, §4, §6.1, §7]."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.plugins.pulumi_resource_gcp.protocol import provider
from sandbox.plugins.pulumi_resource_gcp.values import UNKNOWN

from .engine import Engine, RpcFailedError
from .programs import (
    CLUSTER,
    FIREWALL,
    NETWORK,
    RESOURCE_POLICY,
    SERVICE,
    SUBNETWORK,
    cluster,
    firewall,
    network,
    service,
    subnetwork,
)

Json = dict[str, Any]
NAME_PATTERN = "^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$"


def failures(engine: Engine, kind: str, inputs: Json, name: str = "x") -> list[str]:
    return engine.check(kind, name, inputs)[1]


@pytest.mark.parametrize(
    ("more", "tf_name", "path"),
    [
        ({"enableShieldedNodes": True}, "enable_shielded_nodes", "enableShieldedNodes"),
        ({"networkPolicy": {"enabled": False}}, "network_policy", "networkPolicy"),
        ({"nodePools": [{"name": "a"}]}, "node_pool", "nodePools"),
        ({"removeDefaultNodePool": True}, "remove_default_node_pool", "removeDefaultNodePool"),
        ({"defaultMaxPodsPerNode": 32}, "default_max_pods_per_node", "defaultMaxPodsPerNode"),
        (
            {"enableIntranodeVisibility": True},
            "enable_intranode_visibility",
            "enableIntranodeVisibility",
        ),
        (
            {"clusterAutoscaling": {"enabled": True}},
            "cluster_autoscaling.0.enabled",
            "clusterAutoscaling.enabled",
        ),
        (
            {"clusterAutoscaling": {"resourceLimits": [{"resourceType": "cpu", "maximum": 8}]}},
            "cluster_autoscaling.0.resource_limits",
            "clusterAutoscaling.resourceLimits",
        ),
        (
            {"addonsConfig": {"networkPolicyConfig": {"disabled": True}}},
            "addons_config.0.network_policy_config",
            "addonsConfig.networkPolicyConfig",
        ),
        (
            {"addonsConfig": {"dnsCacheConfig": {"enabled": True}}},
            "addons_config.0.dns_cache_config",
            "addonsConfig.dnsCacheConfig",
        ),
        (
            {"addonsConfig": {"statefulHaConfig": {"enabled": True}}},
            "addons_config.0.stateful_ha_config",
            "addonsConfig.statefulHaConfig",
        ),
        (
            {"binaryAuthorization": {"enabled": True}},
            "binary_authorization.0.enabled",
            "binaryAuthorization.enabled",
        ),
    ],
)
@pytest.mark.parametrize("autopilot", [True, False])
def test_presence_beside_autopilot_is_a_conflict_whatever_its_value(
    engine: Engine, more: Json, tf_name: str, path: str, autopilot: bool
) -> None:
    assert failures(engine, CLUSTER, cluster(enableAutopilot=autopilot, **more)) == [
        f'Conflicting configuration arguments. "{tf_name}": conflicts with enable_autopilot. '
        f"Examine values at 'x.{path}'."
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"nodeConfig": {"gvnic": {"enabled": True}}},
        {"datapathProvider": "LEGACY_DATAPATH"},
        {"location": "us-central1-a"},
        {"releaseChannel": {"channel": "UNSPECIFIED"}},
        {"enableLegacyAbac": True},
        {"enableKubernetesAlpha": True},
        {
            "clusterAutoscaling": {
                "autoProvisioningDefaults": {"serviceAccount": "a@p.iam.gserviceaccount.com"}
            }
        },
        {"privateClusterConfig": {"enablePrivateNodes": True}},
        {"masterAuthorizedNetworksConfig": {}},
    ],
)
def test_what_only_the_api_decides_passes_check(engine: Engine, more: Json) -> None:
    assert failures(engine, CLUSTER, cluster(**more)) == []


def test_ranges_and_range_names_exclude_each_other(engine: Engine) -> None:
    found = failures(
        engine,
        CLUSTER,
        cluster(
            ipAllocationPolicy={
                "clusterIpv4CidrBlock": "/17",
                "servicesSecondaryRangeName": "services",
            }
        ),
    )
    assert len(found) == 2
    assert found[0] == (
        'Conflicting configuration arguments. "ip_allocation_policy.0.cluster_ipv4_cidr_block": '
        "conflicts with ip_allocation_policy.0.services_secondary_range_name. Examine values at "
        "'x.ipAllocationPolicy.clusterIpv4CidrBlock'."
    )


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ({"allows": None}, "one of `allow,deny` must be specified"),
        (
            {"denies": [{"protocol": "udp"}]},
            "only one of `allow,deny` can be specified, but `allow,deny` were specified.",
        ),
    ],
)
def test_a_firewall_rule_allows_or_denies(engine: Engine, more: Json, detail: str) -> None:
    assert failures(engine, FIREWALL, firewall(**more)) == [
        f"Invalid combination of arguments. \"{tf_name}\": {detail}. Examine values at 'x.{name}'."
        for tf_name, name in (("allow", "allows"), ("deny", "denies"))
    ]


@pytest.mark.parametrize(
    ("account", "tag"),
    [
        ("sourceServiceAccounts", "sourceTags"),
        ("sourceServiceAccounts", "targetTags"),
        ("targetServiceAccounts", "sourceTags"),
        ("targetServiceAccounts", "targetTags"),
    ],
)
def test_service_accounts_and_tags_exclude_each_other(
    engine: Engine, account: str, tag: str
) -> None:
    found = failures(engine, FIREWALL, firewall(**{account: ["a@b"], tag: ["t"]}))
    assert len(found) == 2
    assert all(text.startswith("Conflicting configuration arguments.") for text in found)


def test_a_policy_has_one_policy_block(engine: Engine) -> None:
    found = failures(
        engine,
        RESOURCE_POLICY,
        {
            "groupPlacementPolicy": {"vmCount": 2},
            "instanceSchedulePolicy": {"timeZone": "UTC"},
            "workloadPolicy": {"type": "HIGH_THROUGHPUT"},
        },
    )
    assert [text.partition(". Examine")[0] for text in found] == [
        'Conflicting configuration arguments. "group_placement_policy": conflicts with '
        "instance_schedule_policy",
        'Conflicting configuration arguments. "instance_schedule_policy": conflicts with '
        "group_placement_policy",
    ]


def test_a_maintenance_policy_has_one_window(engine: Engine) -> None:
    found = failures(engine, CLUSTER, cluster(maintenancePolicy={}))
    assert found[0] == (
        'Invalid combination of arguments. "maintenance_policy.0.daily_maintenance_window": one '
        "of `maintenance_policy.0.daily_maintenance_window,"
        "maintenance_policy.0.recurring_window` must be specified. Examine values at "
        "'x.maintenancePolicy.dailyMaintenanceWindow'."
    )


@pytest.mark.parametrize(
    ("kind", "inputs", "text"),
    [
        (
            FIREWALL,
            firewall(direction="SIDEWAYS"),
            'expected direction to be one of ["INGRESS" "EGRESS" ""], got SIDEWAYS. Examine '
            "values at 'x.direction'.",
        ),
        (
            FIREWALL,
            firewall(priority=70000),
            "expected priority to be in the range (0 - 65535), got 70000. Examine values at "
            "'x.priority'.",
        ),
        (
            SUBNETWORK,
            subnetwork(ipCidrRange="x"),
            '"ip_cidr_range" is not a valid IP CIDR range: invalid CIDR address: x. Examine '
            "values at 'x.ipCidrRange'.",
        ),
        (
            SUBNETWORK,
            subnetwork(secondaryIpRanges=[{"rangeName": "Pods", "ipCidrRange": "10.0.0.0/8"}]),
            f'"secondary_ip_range.0.range_name" ("Pods") doesn\'t match regexp "{NAME_PATTERN}". '
            "Examine values at 'x.secondaryIpRanges[0].rangeName'.",
        ),
        (
            SERVICE,
            service(service="compute"),
            "expected compute to be a domain like serviceusage.googleapis.com. Examine values at "
            "'x.service'.",
        ),
        (
            CLUSTER,
            cluster(releaseChannel={"channel": "FAST"}),
            'expected release_channel.0.channel to be one of ["UNSPECIFIED" "RAPID" "REGULAR" '
            '"STABLE" "EXTENDED"], got FAST. Examine values at \'x.releaseChannel.channel\'.',
        ),
        (
            CLUSTER,
            cluster(privateClusterConfig={"masterIpv4CidrBlock": "172.16.0.0/27"}),
            'expected "private_cluster_config.0.master_ipv4_cidr_block" to contain a network '
            "Value with between 28 and 28 significant bits, got: 27. Examine values at "
            "'x.privateClusterConfig.masterIpv4CidrBlock'.",
        ),
        (
            RESOURCE_POLICY,
            {"workloadPolicy": {}},
            'Missing required argument. The argument "type" is required, but no definition was '
            "found.. Examine values at 'x.workloadPolicy.type'.",
        ),
        (
            SUBNETWORK,
            {"ipCidrRange": "10.0.0.0/24"},
            'Missing required argument. The argument "network" is required, but no definition '
            "was found.. Examine values at 'x.network'.",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_the_provider_s_words(
    engine: Engine, kind: str, inputs: Json, text: str
) -> None:
    assert failures(engine, kind, inputs) == [text]


def test_the_property_of_a_failure_stays_empty(engine: Engine) -> None:
    request = provider.CheckRequest(urn=f"urn:pulumi:dev::p::{NETWORK}::x")
    request.news["name"] = "Bad_Name"
    answer = engine.call("Check", request)
    assert [failure.property for failure in answer.failures] == [""]


@pytest.mark.parametrize("mtu", [0, 1, 9999])
def test_the_mtu_is_not_checked_here(engine: Engine, mtu: int) -> None:
    assert failures(engine, NETWORK, network(mtu=mtu)) == []


def test_host_bits_in_a_range_pass_check(engine: Engine) -> None:
    assert failures(engine, SUBNETWORK, subnetwork(ipCidrRange="192.168.0.5/24")) == []


def test_an_unknown_value_is_kept_and_not_judged(engine: Engine) -> None:
    checked, found = engine.check(SUBNETWORK, "x", subnetwork(network=UNKNOWN, ipCidrRange=UNKNOWN))
    assert found == []
    assert checked["network"] is UNKNOWN
    assert checked["ipCidrRange"] is UNKNOWN


def test_texts_and_numbers_come_into_the_type_of_the_field(engine: Engine) -> None:
    checked, found = engine.check(
        FIREWALL,
        "x",
        firewall(priority="900", disabled="true", allows=[{"protocol": 6, "ports": [80]}]),
    )
    assert found == []
    assert checked["priority"] == 900
    assert checked["disabled"] is True
    assert checked["allows"][0]["protocol"] == "6"
    assert checked["allows"][0]["ports"] == ["80"]


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        (NETWORK, network(mtu="big")),
        (NETWORK, network(mtu=1460.5)),
        (NETWORK, network(autoCreateSubnetworks="perhaps")),
        (FIREWALL, firewall(sourceRanges="10.0.0.0/8")),
        (FIREWALL, firewall(allows=["tcp"])),
        (CLUSTER, cluster(releaseChannel="REGULAR")),
        (CLUSTER, cluster(resourceLabels=["a"])),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(engine: Engine, kind: str, inputs: Json) -> None:
    found = failures(engine, kind, inputs)
    assert any(text.startswith("Type checking failed:") for text in found), found


def test_an_unknown_property_is_left_out_with_a_warning(
    engine: Engine, warnings: list[tuple[str, str]]
) -> None:
    checked, found = engine.check(NETWORK, "x", network(colour="red"))
    assert found == []
    assert "colour" not in checked
    assert [urn for urn, _ in warnings] == [f"urn:pulumi:dev::proj::{NETWORK}::x"]
    assert "'colour'" in warnings[0][1]


def test_an_argument_that_is_not_carried_is_refused(engine: Engine) -> None:
    found = failures(engine, CLUSTER, cluster(confidentialNodes={"enabled": True}))
    assert found == [
        '"confidential_nodes": this stand-in for the gcp provider does not carry the argument; '
        "leave it out, or use the real provider. Examine values at 'x.confidentialNodes'."
    ]


def test_a_secret_input_stays_secret(engine: Engine) -> None:
    from sandbox.plugins.pulumi_resource_gcp.values import decode, encode

    request = provider.CheckRequest(
        urn=f"urn:pulumi:dev::p::{NETWORK}::x",
        news=encode(network(description="hush"), {("description",)}),
    )
    checked = decode(engine.call("Check", request).inputs)
    assert checked.values["description"] == "hush"
    assert checked.secrets == {("description",)}


def test_an_unknown_resource_type_is_a_clear_error(engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        engine.check("gcp:compute/instance:Instance", "x", {})
    assert "gcp:compute/instance:Instance" in caught.value.text
    assert NETWORK in caught.value.text
