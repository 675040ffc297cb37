"""The policy pack's rules as functions; the sandbox tier runs the pack under the real engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.components.recording import run_program
from tests.stack_config import full_config

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "policy"))

import rules  # type: ignore[import-not-found] # a policy pack is run in its own folder

CLUSTER = {
    "enableAutopilot": True,
    "enableMultiNetworking": True,
    "allowNetAdmin": True,
    "deletionProtection": False,
}


def _resource(token: str, logical: str, /, *networks: str, **props: Any) -> rules.Resource:
    return rules.Resource(
        type=token, name=logical, urn=f"urn:{logical}", props=props, networks=frozenset(networks)
    )


def _fabric(count: int = 4, **network: Any) -> list[rules.Resource]:
    made = []
    for n in range(1, count + 1):
        props = {"mtu": 8244, "autoCreateSubnetworks": False, **network}
        made += [
            _resource(rules.NETWORK, f"net-{n}", name=f"gpu-{n}", **props),
            _resource(rules.SUBNETWORK, f"sub-{n}", f"net-{n}"),
            _resource(
                rules.PARAMETER_SET, f"p-{n}", spec={"vpc": f"gpu-{n}", "deviceMode": "NetDevice"}
            ),
        ]
    return made


def _pod(**spec: Any) -> rules.Resource:
    container = {"name": "train", "image": "us-docker.pkg.dev/gce-ai-infra/x:1"}
    return _resource(
        "kubernetes:core/v1:Pod",
        "pod",
        metadata={"annotations": {"devices.gke.io/container.tcpx-daemon": "[]"}},
        spec={"containers": [container], **spec},
    )


def _messages(name: str, resources: list[rules.Resource], **config: Any) -> list[str]:
    return [violation.message for violation in rules.RULES[name](resources, config)]


@pytest.mark.parametrize("stack", ["dev", "staging"])
def test_both_stacks_of_the_project_hold_every_rule(stack: str) -> None:
    recorded = run_program(full_config(stack), stack=stack)
    networks = {r.urn: r.name for r in recorded.of_type(rules.NETWORK)}
    resources = [
        rules.Resource(
            type=r.type,
            name=r.name,
            urn=r.urn,
            props=r.inputs,
            networks=frozenset(networks[d] for d in r.dependencies if d in networks),
        )
        for r in recorded.resources
    ]
    assert len(rules.gpu_networks(resources)) in (4, 8)
    assert {name: _messages(name, resources) for name in rules.RULES} == {
        name: [] for name in rules.RULES
    }


def test_a_whole_fabric_passes_and_a_ninth_network_does_not() -> None:
    assert _messages("fabric-shape", _fabric(4)) == []
    assert _messages("fabric-shape", _fabric(8)) == []
    assert "9 GPU networks" in _messages("fabric-shape", _fabric(9))[0]


def test_another_mtu_auto_mode_or_a_second_subnet_is_found() -> None:
    assert _messages("fabric-shape", _fabric(mtu=1460)) == ["mtu is 1460, GPUDirect wants 8244"] * 4
    assert len(_messages("fabric-shape", _fabric(autoCreateSubnetworks=True))) == 4
    two = [*_fabric(), _resource(rules.SUBNETWORK, "more", "net-1")]
    assert _messages("fabric-shape", two) == ["has 2 subnets, expected one"]


@pytest.mark.parametrize("token", ["gcp:compute/routerNat:RouterNat", "gcp:compute/router:Router"])
def test_a_way_out_of_a_gpu_network_is_found(token: str) -> None:
    assert len(_messages("fabric-closed", [*_fabric(), _resource(token, "out", "net-2")])) == 1
    assert _messages("fabric-closed", [*_fabric(), _resource(token, "out", "other-net")]) == []


@pytest.mark.parametrize("world", ["0.0.0.0/0", "::/0"])
def test_a_rule_from_everywhere_is_found(world: str) -> None:
    rule = _resource(rules.FIREWALL, "fw", "net-1", sourceRanges=["10.0.0.0/8", world])
    assert _messages("fabric-closed", [*_fabric(), rule]) == [f"admits {world} to a GPU network"]
    fine = _resource(rules.FIREWALL, "fw", "net-1", sourceRanges=["10.0.0.0/8"])
    assert _messages("fabric-closed", [*_fabric(), fine]) == []


def test_halves_of_the_world_are_the_world_and_a_denial_admits_nobody() -> None:
    halves = ["0.0.0.0/1", "128.0.0.0/1", "nonsense"]
    rule = _resource(rules.FIREWALL, "fw", "net-1", sourceRanges=halves)
    assert _messages("fabric-closed", [*_fabric(), rule]) == ["admits 0.0.0.0/0 to a GPU network"]
    for more in ({"denies": [{"protocol": "all"}]}, {"direction": "EGRESS"}):
        rule = _resource(rules.FIREWALL, "fw", "net-1", sourceRanges=["0.0.0.0/0"], **more)
        assert _messages("fabric-closed", [*_fabric(), rule]) == []


def test_an_external_address_is_found_and_an_internal_one_is_none() -> None:
    token = "gcp:compute/address:Address"
    for kind, count in (("EXTERNAL", 1), ("INTERNAL", 0)):
        address = _resource(token, "a", "net-1", addressType=kind)
        assert len(_messages("fabric-closed", [*_fabric(), address])) == count


@pytest.mark.parametrize("key", ["enableAutopilot", "enableMultiNetworking", "allowNetAdmin"])
def test_a_cluster_without_what_gpudirect_needs_is_found(key: str) -> None:
    cluster = _resource(rules.CLUSTER, "c", **{**CLUSTER, key: False})
    assert _messages("cluster-shape", [cluster]) == [f"{key} is False, expected true"]


def test_node_config_is_found() -> None:
    cluster = _resource(rules.CLUSTER, "c", **CLUSTER, nodeConfig={"oauthScopes": []})
    assert "nodeConfig" in _messages("cluster-shape", [cluster])[0]


def test_production_is_protected() -> None:
    labelled = _resource(
        rules.CLUSTER, "c", **CLUSTER, resourceLabels={"environment": "production"}
    )
    assert len(_messages("production-protected", [labelled])) == 1
    plain = _resource(rules.CLUSTER, "c", **CLUSTER)
    assert _messages("production-protected", [plain]) == []
    assert len(_messages("production-protected", [plain], environment="production")) == 1


@pytest.mark.parametrize(
    "selector",
    [
        "cloud.google.com/gke-gpu-partition-size",
        "cloud.google.com/gke-gpu-sharing-strategy",
        "cloud.google.com/gke-nccl-fastsocket",
    ],
)
def test_shared_gpus_beside_gpudirect_are_found(selector: str) -> None:
    assert len(_messages("whole-gpus", [_pod(nodeSelector={selector: "x"})])) == 1
    assert _messages("whole-gpus", [_pod()]) == []


def test_fastsocket_beside_gpudirect_is_found() -> None:
    containers = [{"name": "t", "env": [{"name": "NCCL_NET", "value": "FastSocket"}]}]
    assert len(_messages("whole-gpus", [_pod(containers=containers)])) == 1


def test_images_of_other_registries_are_found_in_pods_and_in_runs() -> None:
    containers = [{"name": "t", "image": "example.com/x:1"}]
    assert len(_messages("allowed-images", [_pod(containers=containers)])) == 1
    allowed = _messages(
        "allowed-images", [_pod(containers=containers)], allowedRegistries=["example.com/"]
    )
    assert allowed == []
    job = {"kind": "Job", "spec": {"template": {"spec": {"containers": containers}}}}
    run = _resource("pulumi-python:dynamic:Run", "run", documents=json.dumps([job]))
    assert len(_messages("allowed-images", [run])) == 1


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("ubuntu", True),
        ("ubuntu:24.04", True),
        ("ubuntu@sha256:00", True),
        ("ubuntu-x", False),
        ("ubuntu.example.com/x:1", False),
        ("us-docker.pkg.dev/gce-ai-infra/x:1", True),
        ("us-docker.pkg.dev/gce-ai-infra-x/x:1", False),
    ],
)
def test_a_registry_s_name_ends_where_it_ends(image: str, allowed: bool) -> None:
    found = _messages("allowed-images", [_pod(containers=[{"name": "t", "image": image}])])
    assert (found == []) is allowed


def test_objects_of_another_shape_are_nobody_s_traceback() -> None:
    odd = _pod(containers=[None, {"name": "t", "env": [None]}], affinity=None, nodeSelector=None)
    assert _messages("whole-gpus", [odd]) == []
    assert len(_messages("allowed-images", [odd])) == 1
