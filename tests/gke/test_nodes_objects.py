"""The objects of a simulated node, and when it is taken away again."""

from __future__ import annotations

import asyncio
from typing import Any

from sandbox.contracts import ClusterContext, ClusterKey
from sandbox.gke.nodes.idle import IdleNodes
from sandbox.gke.nodes.node_objects import (
    instance_resource,
    machine_of,
    node_object,
    read_nics,
)
from sandbox.gke.pods.clock import Clock, Signal
from sandbox.gke.pods.interfaces import read_interfaces
from tests.gke.fake_cloud import REGION, cluster_resource
from tests.gke.pod_world import PodWorld
from tests.gke.simulated import (
    MEGA,
    Manifest,
    interfaces,
    project_with_gpu_networks,
)
from tests.gke.test_nodes import decision, pod

SPOT = {"cloud.google.com/gke-spot": "true"}
ZONE = "topology.kubernetes.io/zone"


# --- Objects


def context() -> ClusterContext:
    return ClusterContext(
        key=ClusterKey(project="p", location=REGION, name="demo"),
        kubeconfig="",
        home="",
        cloud=project_with_gpu_networks(),
        cluster=cluster_resource(),
        pace=0.0,
    )


def test_a_node_offers_its_gpus_networks_and_labels_and_is_known_again(tmp_path: Any) -> None:
    plan = decision(pod(selector=SPOT))

    async def nics_of_a_node() -> Any:
        return PodWorld(tmp_path).node().nics

    nics = asyncio.run(nics_of_a_node())
    node = node_object(
        plan, "n-1", "pool", "10.128.0.9", nics, context(), region=REGION, kubelet_port=4
    )
    capacity = node["status"]["capacity"]
    assert capacity["nvidia.com/gpu"] == "8"
    assert capacity["networking.gke.io.networks/vpc8"] == "1"
    assert capacity["networking.gke.io.networks/vpc8.IP"] == "1"
    labels = node["metadata"]["labels"]
    assert labels["cloud.google.com/gke-accelerator"] == MEGA
    assert labels["cloud.google.com/gke-gpu-driver-version"] == "latest"
    assert labels["cloud.google.com/gke-spot"] == "true"
    assert labels["node.kubernetes.io/instance-type"] == "a3-megagpu-8g"
    assert labels[ZONE] == plan.zone
    # Without compact placement there are no topology labels [facts autopilot.md §0.4].
    assert not [key for key in labels if "gce-topology" in key]
    assert {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"} in node["spec"][
        "taints"
    ]
    address, found = read_nics(node)
    assert (address, found) == ("10.128.0.9", nics)
    assert machine_of(node) == plan.machine


def test_a_vm_holds_a_nic_in_every_subnetwork_and_belongs_to_its_cluster(tmp_path: Any) -> None:
    plan = decision(pod(selector=SPOT))

    async def nics_of_a_node() -> Any:
        return PodWorld(tmp_path).node().nics

    nics = asyncio.run(nics_of_a_node())
    vm = instance_resource(plan, "n-1", "10.128.0.9", nics, context())
    names = [item["subnetwork"].rpartition("/")[2] for item in vm["networkInterfaces"]]
    assert names == ["default", *(f"sub-{number}" for number in range(1, 9))]
    assert vm["labels"]["goog-k8s-cluster-name"] == "demo"
    assert vm["scheduling"]["provisioningModel"] == "SPOT"
    assert vm["machineType"].endswith("/a3-megagpu-8g")


# --- Scale down


def node_names(*names: str) -> dict[str, Manifest]:
    return {name: {"metadata": {"name": name}} for name in names}


def bound(node: str, *, kind: str = "", phase: str = "Running") -> Manifest:
    owners = [{"kind": kind, "controller": True}] if kind else []
    return {
        "metadata": {"ownerReferences": owners},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


def test_a_node_goes_a_moment_after_its_last_pod() -> None:
    time = [100.0]
    nodes = IdleNodes(Clock(0.0, Signal()), lambda: time[0])
    known, own = node_names("a"), {"a"}
    assert nodes.due(known, {"1": bound("a")}, own) == []
    time[0] += 1000
    assert nodes.due(known, {"1": bound("a")}, own) == []
    # DaemonSets keep no node.
    others = {"2": bound("a", kind="DaemonSet")}
    assert nodes.due(known, others, own) == []
    assert nodes.waiting
    time[0] += 1.1
    assert nodes.due(known, others, own) == ["a"]


def test_finished_pods_keep_a_node_for_a_while() -> None:
    time = [100.0]
    nodes = IdleNodes(Clock(0.0, Signal()), lambda: time[0])
    finished = {"1": bound("a", phase="Succeeded")}
    assert nodes.due(node_names("a"), finished, {"a"}) == []
    time[0] += 30
    assert nodes.due(node_names("a"), finished, {"a"}) == []
    time[0] += 31
    assert nodes.due(node_names("a"), finished, {"a"}) == ["a"]


def test_at_googles_pace_a_node_stays_ten_minutes() -> None:
    time = [100.0]
    nodes = IdleNodes(Clock(1.0, Signal()), lambda: time[0])
    nodes.due(node_names("a"), {"1": bound("a")}, {"a"})
    nodes.due(node_names("a"), {}, {"a"})
    time[0] += 599
    assert nodes.due(node_names("a"), {}, {"a"}) == []
    time[0] += 2
    assert nodes.due(node_names("a"), {}, {"a"}) == ["a"]


def test_a_new_node_waits_for_the_pod_it_was_made_for() -> None:
    time = [100.0]
    nodes = IdleNodes(Clock(0.0, Signal()), lambda: time[0])
    nodes.due(node_names("a"), {}, {"a"})
    time[0] += 10
    assert nodes.due(node_names("a"), {}, {"a"}) == []
    time[0] += 6
    assert nodes.due(node_names("a"), {}, {"a"}) == ["a"]


def test_nodes_of_others_are_left_alone() -> None:
    time = [100.0]
    nodes = IdleNodes(Clock(0.0, Signal()), lambda: time[0])
    nodes.due(node_names("theirs"), {}, set())
    time[0] += 1000
    assert nodes.due(node_names("theirs"), {}, set()) == []


def test_the_interface_helper_of_these_tests_names_every_nic() -> None:
    assert len(read_interfaces(interfaces(8))) == 9
