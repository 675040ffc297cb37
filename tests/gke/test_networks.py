"""Networks and their parameter sets in a real API server, kept by the controller.

All rules: facts autopilot.md §4; the controller looks again every half second here, 30 s at Google.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.contracts import ClusterKey
from sandbox.gke.api import ApiError, ChangeType, KubeObject, KubernetesApi
from sandbox.gke.networks import FINALIZER
from sandbox.gke.resource_types import COMPUTE_CLASSES, NETWORKS, PARAM_SETS, ResourceType
from sandbox.gke.runtime import LocalClusterRuntime
from tests.gke.conftest import TOKEN, EventLoopThread, RunningCluster
from tests.gke.fake_cloud import REGION, cluster_resource, project_with_cluster_network

pytestmark = pytest.mark.sandbox
_numbers = itertools.count(1)


@pytest.fixture
def name(cluster: RunningCluster) -> Iterator[str]:
    """A name that no other test uses; what bears it is removed afterwards."""
    fresh = f"vpc{next(_numbers)}"
    yield fresh
    for kind in (NETWORKS, PARAM_SETS):
        cluster.loop.run(cluster.api.delete(kind, fresh))
    until(cluster, PARAM_SETS, fresh, lambda item: item is None)


def param_set(name: str, **spec: Any) -> KubeObject:
    spec = spec or {"vpc": f"net-{name}", "vpcSubnet": f"sub-{name}", "deviceMode": "NetDevice"}
    return {
        "apiVersion": "networking.gke.io/v1",
        "kind": "GKENetworkParamSet",
        "metadata": {"name": name},
        "spec": spec,
    }


def network(name: str, **spec: Any) -> KubeObject:
    reference = {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": name}
    return {
        "apiVersion": "networking.gke.io/v1",
        "kind": "Network",
        "metadata": {"name": name},
        "spec": {"type": "Device", "parametersRef": reference} | spec,
    }


def until(
    cluster: RunningCluster,
    kind: ResourceType,
    name: str,
    accept: Callable[[KubeObject | None], bool],
) -> KubeObject:
    """Watch one object until it is as wanted, and return it; empty if it should be gone."""

    async def watch() -> KubeObject:
        present: KubeObject | None = None
        async for change in cluster.api.follow(kind, field_selector=f"metadata.name={name}"):
            if change.type is not ChangeType.SYNCED:
                present = None if change.type is ChangeType.DELETED else change.object
            if accept(present):
                return present or {}
        raise AssertionError

    return cluster.loop.run(watch(), seconds=15)


def condition(item: KubeObject | None, kind: str) -> tuple[str, str]:
    conditions = ((item or {}).get("status") or {}).get("conditions") or []
    found = [(each["status"], each["reason"]) for each in conditions if each["type"] == kind]
    return found[0] if found else ("", "")


def says(kind: str, reason: str) -> Callable[[KubeObject | None], bool]:
    return lambda item: condition(item, kind)[1] == reason


def create(cluster: RunningCluster, kind: ResourceType, body: KubeObject) -> KubeObject:
    return cluster.loop.run(cluster.api.create(kind, body))


def test_a_device_network_becomes_ready(cluster: RunningCluster, name: str) -> None:
    cluster.cloud.add(f"net-{name}", f"sub-{name}", "192.168.7.0/24")
    create(cluster, PARAM_SETS, param_set(name))
    alone = until(cluster, PARAM_SETS, name, says("Ready", "GNPReady"))
    assert "networkName" not in alone["status"]
    create(cluster, NETWORKS, network(name))
    made = until(cluster, NETWORKS, name, says("Ready", "NetworkReady"))
    assert condition(made, "ParamsReady") == ("True", "GNPParamsReady")
    assert condition(made, "Ready") == ("True", "NetworkReady")
    params = until(
        cluster, PARAM_SETS, name, lambda item: bool(item and "networkName" in item["status"])
    )
    assert params["status"]["networkName"] == name
    assert params["status"]["podCIDRs"] == {"cidrBlocks": ["192.168.7.0/24"]}
    assert params["metadata"]["finalizers"] == [FINALIZER]


def test_a_network_made_before_its_parameter_set_waits_for_it(
    cluster: RunningCluster, name: str
) -> None:
    cluster.cloud.add(f"net-{name}", f"sub-{name}", "192.168.7.0/24")
    made = create(cluster, NETWORKS, network(name))
    assert "status" not in made
    create(cluster, PARAM_SETS, param_set(name))
    until(cluster, NETWORKS, name, says("Ready", "NetworkReady"))


def test_a_subnet_that_comes_late_is_found_by_the_resync(
    cluster: RunningCluster, name: str
) -> None:
    create(cluster, PARAM_SETS, param_set(name))
    create(cluster, NETWORKS, network(name))
    failed = until(cluster, PARAM_SETS, name, says("Ready", "SubnetNotFound"))
    assert condition(failed, "Ready") == ("False", "SubnetNotFound")
    waiting = until(cluster, NETWORKS, name, says("Ready", "ParamsNotReady"))
    assert condition(waiting, "ParamsReady") == ("False", "GNPParamsNotReady")
    cluster.cloud.add(f"net-{name}", f"sub-{name}", "192.168.7.0/24")
    until(cluster, PARAM_SETS, name, says("Ready", "GNPReady"))
    until(cluster, NETWORKS, name, says("Ready", "NetworkReady"))


def test_a_parameter_set_in_use_stays_until_its_network_is_gone(
    cluster: RunningCluster, name: str
) -> None:
    cluster.cloud.add(f"net-{name}", f"sub-{name}", "192.168.7.0/24")
    create(cluster, PARAM_SETS, param_set(name))
    create(cluster, NETWORKS, network(name))
    until(cluster, PARAM_SETS, name, lambda item: "networkName" in (item or {}).get("status", {}))
    cluster.loop.run(cluster.api.delete(PARAM_SETS, name))
    made = until(cluster, NETWORKS, name, says("ParamsReady", "GNPDeleted"))
    assert condition(made, "Ready") == ("False", "ParamsNotReady")
    kept = cluster.loop.run(cluster.api.get(PARAM_SETS, name))
    assert kept is not None
    assert kept["metadata"]["finalizers"] == [FINALIZER]
    cluster.loop.run(cluster.api.delete(NETWORKS, name))
    until(cluster, PARAM_SETS, name, lambda item: item is None)


def test_a_parameter_set_without_network_goes_at_once(cluster: RunningCluster, name: str) -> None:
    create(cluster, PARAM_SETS, param_set(name))
    until(cluster, PARAM_SETS, name, lambda item: bool((item or {}).get("status")))
    cluster.loop.run(cluster.api.delete(PARAM_SETS, name))
    until(cluster, PARAM_SETS, name, lambda item: item is None)


def test_the_network_name_goes_when_the_network_does(cluster: RunningCluster, name: str) -> None:
    cluster.cloud.add(f"net-{name}", f"sub-{name}", "192.168.7.0/24")
    create(cluster, PARAM_SETS, param_set(name))
    create(cluster, NETWORKS, network(name))
    until(cluster, PARAM_SETS, name, lambda item: "networkName" in (item or {}).get("status", {}))
    cluster.loop.run(cluster.api.delete(NETWORKS, name))
    until(
        cluster,
        PARAM_SETS,
        name,
        lambda item: "networkName" not in (item or {"status": {"networkName": ""}})["status"],
    )


def test_the_default_pair_is_made_by_gke_and_comes_back(cluster: RunningCluster) -> None:
    made = until(cluster, NETWORKS, "default", says("Ready", "NetworkReady"))
    assert made["spec"]["type"] == "L3"
    params = until(cluster, PARAM_SETS, "default", says("Ready", "GNPReady"))
    assert params["spec"]["vpc"] == "default"
    assert params["status"]["podCIDRs"] == {"cidrBlocks": ["10.40.0.0/14"]}
    cluster.loop.run(cluster.api.delete(NETWORKS, "default"))
    until(
        cluster,
        NETWORKS,
        "default",
        lambda item: bool(item and item["metadata"]["uid"] != made["metadata"]["uid"]),
    )


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (PARAM_SETS, param_set("x", deviceMode="netdevice"), "spec.deviceMode"),
        (PARAM_SETS, param_set("x", podIPv4Ranges={}), "spec.podIPv4Ranges.rangeNames"),
        (PARAM_SETS, param_set("x", podIPv4Ranges={"rangeNames": []}), "rangeNames"),
        (PARAM_SETS, param_set("x", vpcSubnetwork="sub-1"), 'unknown field "spec.vpcSubnetwork"'),
        (NETWORKS, network("x", type="device"), "spec.type"),
        (NETWORKS, network("x", type=None), "spec.type"),
        (NETWORKS, network("x", provider="AWS"), "spec.provider"),
        (NETWORKS, network("x", parametersRef={"name": "x"}), "spec.parametersRef.group"),
        (NETWORKS, network("x", l2NetworkConfig={"vlanID": 4095}), "vlanID"),
        (NETWORKS, network("x", mtu=8244), 'unknown field "spec.mtu"'),
    ],
)
def test_the_kinds_refuse_what_their_schemas_do_not_know(
    cluster: RunningCluster, kind: ResourceType, body: KubeObject, field: str
) -> None:
    """[facts autopilot.md §4.1, §4.2]."""
    with pytest.raises(ApiError) as refusal:
        cluster.loop.run(cluster.api.create(kind, body, dry_run=True))
    assert field in refusal.value.message


def compute_class(name: str = "birds", priorities: Any = None, **spec: Any) -> KubeObject:
    rules = priorities or [{"machineType": "a3-megagpu-8g"}]
    return {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": name},
        "spec": {"priorities": rules} | spec,
    }


A3 = {"machineType": "a3-megagpu-8g"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (compute_class("gke-birds"), "must not start with 'gke' or 'autopilot'"),
        (
            compute_class(priorities=[A3 | {"spot": True, "flexStart": {"enabled": True}}]),
            "spot and flexStart are mutually exclusive",
        ),
        (
            compute_class(priorities=[A3 | {"machineFamily": "a3"}]),
            "machineType and machineFamily are mutually exclusive",
        ),
        (
            compute_class(priorities=[A3 | {"minCores": 4}]),
            "machineType excludes minCores and minMemoryGb",
        ),
        (
            compute_class(priorities=[A3 | {"nodepools": ["pool"]}]),
            "nodepools excludes every other property",
        ),
        (
            compute_class(priorities=[A3 | {"reservations": {"affinity": "Specific"}}]),
            "affinity Specific and a list of specific reservations go together",
        ),
        (
            compute_class(
                priorities=[{"reservations": {"affinity": "Specific", "specific": [{"name": "r"}]}}]
            ),
            "specific reservations need machineType or machineFamily",
        ),
        (
            compute_class(priorities=[{"storage": {"localSSDCount": 16}}]),
            "storage.localSSDCount needs machineType",
        ),
        (compute_class(priorities=[A3 | {"gpuDirect": "tcpxo"}]), "spec.priorities[0].gpuDirect"),
        (
            compute_class(priorities=[A3 | {"gpuDirect": "rdma"}]),
            "gpuDirect needs acceleratorNetworkProfile",
        ),
        (
            compute_class(priorities=[A3 | {"priorityScore": 1}, A3]),
            "priorityScore must be set in all priorities or in none",
        ),
        (compute_class(priorities=[{}]), "spec.priorities[0]"),
        (compute_class(whenUnsatisfiable="Maybe"), "spec.whenUnsatisfiable"),
    ],
)
def test_a_compute_class_with_rules_that_exclude_each_other_is_refused(
    cluster: RunningCluster, body: KubeObject, text: str
) -> None:
    """[facts autopilot.md §1.2, §1.5]."""
    with pytest.raises(ApiError) as refusal:
        cluster.loop.run(cluster.api.create(COMPUTE_CLASSES, body, dry_run=True))
    assert text in refusal.value.message


def test_a_compute_class_for_gpu_nodes_is_accepted(cluster: RunningCluster) -> None:
    rule = A3 | {
        "gpu": {"type": "nvidia-h100-mega-80gb", "count": 8},
        "reservations": {"affinity": "Specific", "specific": [{"name": "r", "project": "p"}]},
        "storage": {"localSSDCount": 16},
        "location": {"zones": ["us-central1-a"]},
    }
    body = compute_class(priorities=[rule, A3 | {"spot": True}])
    made = cluster.loop.run(cluster.api.create(COMPUTE_CLASSES, body, dry_run=True))
    assert made["spec"]["whenUnsatisfiable"] == "DoNotScaleUp"
    assert made["spec"]["priorities"][0]["gpu"]["driverVersion"] == "default"


def test_a_cluster_without_multi_networking_never_gets_the_kinds(
    binaries: Any, loop: EventLoopThread, tmp_path: Any
) -> None:
    """[R30]: "no matches for kind"."""
    cloud = project_with_cluster_network()
    runtime = LocalClusterRuntime(tmp_path, token=TOKEN, cloud=cloud, binaries=binaries)
    key = ClusterKey(project="p", location=REGION, name="plain")
    loop.run(runtime.start(key, cluster_resource(multi_networking=False)))
    try:
        context = runtime.context(key)
        assert context is not None

        async def served() -> list[str]:
            async with KubernetesApi.from_kubeconfig(context.kubeconfig) as api:
                groups = await api.request("GET", "/apis")
                return [group["name"] for group in groups["groups"]]

        names = loop.run(served())
        assert "cloud.google.com" in names
        assert "networking.gke.io" not in names
    finally:
        loop.run(runtime.stop(key, delete=True))
