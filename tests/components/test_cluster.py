from __future__ import annotations

import json

import pulumi
import pytest

from tests.components.recording import Recording, run_program
from tests.stack_config import full_config

CLUSTER = "gcp:container/cluster:Cluster"

# Each of them is refused beside Autopilot or makes every later preview a replacement
# [facts google-cloud.md §6.1, R20, R22].
NEVER_SENT = {
    "nodeConfig",
    "nodePools",
    "dnsConfig",
    "defaultMaxPodsPerNode",
    "networkPolicy",
    "enableBinaryAuthorization",
    "binaryAuthorization",
    "initialNodeCount",
    "enableShieldedNodes",
    "enableIntranodeVisibility",
    "removeDefaultNodePool",
}


def test_the_cluster_is_an_autopilot_cluster_with_multi_networking_and_net_admin(
    either: Recording,
) -> None:
    inputs = either.one(CLUSTER).inputs
    assert inputs["enableAutopilot"] is True
    assert inputs["enableMultiNetworking"] is True
    assert inputs["allowNetAdmin"] is True
    assert inputs["ipAllocationPolicy"] == {}
    assert isinstance(inputs["deletionProtection"], bool)


def test_the_cluster_sends_no_field_that_autopilot_refuses_or_that_replaces_it(
    either: Recording,
) -> None:
    assert not NEVER_SENT & set(either.one(CLUSTER).inputs)


def test_deletion_protection_is_sent_as_the_config_says() -> None:
    for wanted in (True, False):
        recorded = run_program(full_config("dev", deletionProtection=wanted))
        assert recorded.one(CLUSTER).inputs["deletionProtection"] is wanted


def test_a_given_primary_network_is_used_and_eth0_still_says_default() -> None:  # [R28]
    recorded = run_program(full_config("dev", clusterNetwork="birds-net"))
    assert recorded.one(CLUSTER).inputs["network"] == "birds-net"
    interfaces = json.loads(recorded.outputs["podAnnotations"]["networking.gke.io/interfaces"])
    assert interfaces[0] == {"interfaceName": "eth0", "network": "default"}


def test_the_stack_makes_the_primary_network_when_asked() -> None:
    recorded = run_program(full_config("dev", clusterNetwork="create"))
    assert recorded.one(CLUSTER).inputs["network"] == "cluster-net-id"
    assert recorded.one(CLUSTER).inputs["subnetwork"] == "cluster-sub-id"
    own = next(r for r in recorded.resources if r.name == "cluster-net")
    assert own.inputs["autoCreateSubnetworks"] is False


def test_the_kubeconfig_is_a_secret_and_holds_no_token(either: Recording) -> None:  # [R35]
    assert "kubeconfig" in either.secret_outputs
    kubeconfig = json.loads(either.outputs["kubeconfig"])
    assert kubeconfig["clusters"][0]["cluster"]["server"] == "https://192.0.2.10"
    user = kubeconfig["users"][0]["user"]
    assert set(user) == {"exec"}
    assert user["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert user["exec"]["provideClusterInfo"] is True


def test_an_update_without_the_login_helper_ends_before_anything_is_made() -> None:  # [R35]
    recorded = Recording()
    with pytest.raises(pulumi.RunError, match=r"gke-gcloud-auth-plugin, .* is not on PATH"):
        run_program(full_config("dev"), login_helper=False, into=recorded)
    assert recorded.resources == []


def test_a_preview_needs_no_login_helper() -> None:  # [R29, R35]
    assert run_program(full_config("dev"), preview=True, login_helper=False).one(CLUSTER)


def test_only_the_cluster_component_makes_a_kubernetes_provider(either: Recording) -> None:
    provider = either.one("pulumi:providers:kubernetes")
    assert provider.name == "cluster-kubernetes"
    in_cluster = [r for r in either.resources if r.type.startswith("kubernetes:")]
    assert in_cluster
    assert all(r.provider.startswith(provider.urn) for r in in_cluster)
