from __future__ import annotations

import json

from tests.components.recording import Recording, run_program
from tests.stack_config import full_config

NAMES = {
    "gpuStack",
    "location",
    "clusterName",
    "clusterEndpoint",
    "clusterVersion",
    "kubeconfig",
    "networks",
    "podAnnotations",
    "podNodeSelector",
    "release",
    "smokeTest",
    "readme",
}


def test_the_names_of_the_outputs_are_a_contract(either: Recording) -> None:
    assert set(either.outputs) == NAMES
    assert either.secret_outputs == {"kubeconfig"}


def test_networks_name_interface_object_vpc_subnet_and_range(high: Recording) -> None:
    assert high.outputs["networks"] == [
        {
            "interface": f"eth{n}",
            "network": f"vpc{n}",
            "vpc": f"staging-net-{n}",
            "subnet": f"staging-sub-{n}",
            "cidr": cidr,
        }
        for n, cidr in enumerate(
            ["192.168.128.0/19", "192.168.160.0/19", "192.168.192.0/19", "192.168.224.0/19"], 1
        )
    ]


def test_pod_annotations_are_ready_to_put_on_a_pod(mega: Recording) -> None:
    annotations = mega.outputs["podAnnotations"]
    assert annotations["networking.gke.io/default-interface"] == "eth0"
    interfaces = json.loads(annotations["networking.gke.io/interfaces"])
    assert [(i["interfaceName"], i["network"]) for i in interfaces] == [
        ("eth0", "default"),
        *[(f"eth{n}", f"vpc{n}") for n in range(1, 9)],
    ]
    devices = json.loads(annotations["devices.gke.io/container.tcpxo-daemon"])
    assert len(devices) == 11
    assert {"path": "/dev/dmabuf_import_helper"} in devices


def test_no_registered_input_holds_an_output_as_text(either: Recording) -> None:  # [R39]
    text = json.dumps([r.inputs for r in either.resources], default=str)
    assert "Output[" not in text
    assert "__str__" not in text


def test_a_first_preview_needs_nothing_that_only_the_cloud_knows() -> None:  # [R29]
    recorded = run_program(full_config("dev"), preview=True)
    kinds = [r.type.rpartition(":")[2] for r in recorded.resources]
    assert kinds.count("GKENetworkParamSet") == 8
    assert kinds.count("Subnetwork") == 8
    assert kinds.count("Cluster") == 1
