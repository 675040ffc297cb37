from __future__ import annotations

import pytest

from tests.components.recording import Recording, run_program
from tests.stack_config import full_config

PARAMETER_SET = "kubernetes:networking.gke.io/v1:GKENetworkParamSet"
NETWORK = "kubernetes:networking.gke.io/v1:Network"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
CLUSTER = "gcp:container/cluster:Cluster"


@pytest.mark.parametrize(
    ("recording", "prefix", "count"), [("mega", "dev", 8), ("high", "staging", 4)]
)
def test_every_nic_has_a_parameter_set_and_a_network_object(
    recording: str, prefix: str, count: int, request: pytest.FixtureRequest
) -> None:
    recorded: Recording = request.getfixturevalue(recording)
    parameters, networks = recorded.of_type(PARAMETER_SET), recorded.of_type(NETWORK)
    assert len(parameters) == len(networks) == count
    for number, (parameter_set, network) in enumerate(zip(parameters, networks, strict=True), 1):
        assert parameter_set.inputs["metadata"]["name"] == f"vpc{number}"
        assert parameter_set.inputs["spec"] == {
            "vpc": f"{prefix}-net-{number}",
            "vpcSubnet": f"{prefix}-sub-{number}",
            "deviceMode": "NetDevice",
        }
        assert network.inputs["metadata"]["name"] == f"vpc{number}"
        assert network.inputs["spec"] == {
            "type": "Device",
            "parametersRef": {
                "group": "networking.gke.io",
                "kind": "GKENetworkParamSet",
                "name": f"vpc{number}",
            },
        }
        assert parameter_set.urn in network.dependencies


def test_the_default_network_object_is_left_to_gke(either: Recording) -> None:  # [R33]
    assert "default" not in {r.inputs["metadata"]["name"] for r in either.of_type(NETWORK)}


def test_a_network_object_without_conditions_does_not_count_as_ready(either: Recording) -> None:
    for resource in [*either.of_type(NETWORK), *either.of_type(PARAMETER_SET)]:
        assert resource.inputs["metadata"]["annotations"] == {
            "pulumi.com/waitFor": "condition=Ready"
        }


def test_everything_in_the_cluster_goes_with_the_cluster(either: Recording) -> None:
    cluster = either.one(CLUSTER)
    in_cluster = [r for r in either.resources if r.type.startswith("kubernetes:")]
    assert {r.deleted_with for r in in_cluster} == {cluster.urn}


def test_installers_take_their_versions_from_the_release(mega: Recording, high: Recording) -> None:
    def images(recorded: Recording, name: str) -> list[str]:
        document = next(r for r in recorded.of_type(DAEMON_SET) if r.name == name)
        spec = document.inputs["spec"]["template"]["spec"]
        return [c["image"] for c in [*spec.get("initContainers", []), *spec["containers"]]]

    assert images(mega, "addons-installer") == [
        "ubuntu",
        "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:v1.0.15",
        "gke.gcr.io/pause:3.8@sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830",
    ]
    assert images(high, "addons-installer") == [
        "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev:v3.1.12",
        "gke.gcr.io/pause:3.8@sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830",
    ]
    assert images(mega, "addons-device-injector") == [
        "gcr.io/gke-release/nri-device-injector"
        "@sha256:6e79483d52abdc28454bf186320b10a56b0f117a10e8d65d5c74dbb821a76970"
    ]


def test_the_device_preparation_runs_before_the_plugin_installer(mega: Recording) -> None:  # [R04]
    installer = next(r for r in mega.of_type(DAEMON_SET) if r.name == "addons-installer")
    names = [c["name"] for c in installer.inputs["spec"]["template"]["spec"]["initContainers"]]
    assert names == ["pre-installation", "nccl-tcpxo-installer"]


def test_the_injector_is_left_out_where_gke_brings_its_own() -> None:
    recorded = run_program(full_config("dev", deviceInjector=False))
    assert [r.name for r in recorded.of_type(DAEMON_SET)] == ["addons-installer"]
