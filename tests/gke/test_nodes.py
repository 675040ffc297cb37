"""Autopilot's node decision: which node a Pod gets, or the words in which it gets none."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from sandbox.gke.nodes.decision import Circumstances, NodePlan, Refusal, decide
from sandbox.gke.nodes.demand import DemandError, quantity, read_demand
from sandbox.gke.nodes.machines import machine_for_gpus, ordinary_machine
from sandbox.gke.nodes.node_objects import (
    pool_name,
)
from sandbox.gke.pods.interfaces import InterfacesError, read_interfaces
from tests.gke.fake_cloud import REGION, FakeCloud
from tests.gke.simulated import (
    HIGH,
    MEGA,
    Manifest,
    gpu_pod,
    network_objects,
    project_with_gpu_networks,
)

SPOT = {"cloud.google.com/gke-spot": "true"}
FLEX = {"cloud.google.com/gke-flex-start": "true"}
ZONE = "topology.kubernetes.io/zone"


def ready_networks(count: int = 8) -> tuple[dict[str, Manifest], dict[str, Manifest]]:
    networks: dict[str, Manifest] = {}
    param_sets: dict[str, Manifest] = {}
    for item in network_objects(count):
        name = item["metadata"]["name"]
        if item["kind"] == "Network":
            networks[name] = item | {
                "status": {"conditions": [{"type": "ParamsReady", "status": "True"}]}
            }
        else:
            param_sets[name] = item | {"status": {"networkName": name}}
    return networks, param_sets


class StockedCloud(FakeCloud):
    """Stock by zone and type; everything asked is remembered."""

    def __init__(self, stock: dict[str, int]) -> None:
        super().__init__()
        self.stock = stock
        self.asked: list[tuple[str, str, bool]] = []

    def machine_capacity(self, project: str, zone: str, machine_type: str, *, spot: bool) -> int:
        self.asked.append((zone, machine_type, spot))
        return self.stock.get(zone, 0)


def circumstances(cloud: FakeCloud | None = None, **changes: Any) -> Circumstances:
    networks, param_sets = ready_networks()
    found = Circumstances(
        cloud=cloud or project_with_gpu_networks(),
        project="p",
        region=REGION,
        version="1.36.3-gke.1537000",
        networks=networks,
        param_sets=param_sets,
        group_zones={},
    )
    return replace(found, **changes)


def pod(accelerator: str = MEGA, selector: dict[str, str] | None = None, **spec: Any) -> Manifest:
    found = copy.deepcopy(gpu_pod("p", accelerator))
    found["spec"]["nodeSelector"] |= selector or {}
    found["spec"] |= spec
    return found


def decision(item: Manifest, around: Circumstances | None = None, **classes: Manifest) -> Any:
    return decide(read_demand(item, classes), around or circumstances())


def refusal(found: NodePlan | Refusal) -> tuple[str, str]:
    assert isinstance(found, Refusal)
    return found.reason, found.message


@pytest.mark.parametrize(
    ("accelerator", "machine", "nics"), [(MEGA, "a3-megagpu-8g", 8), (HIGH, "a3-highgpu-8g", 4)]
)
def test_a_gpu_pod_gets_its_machine_with_a_nic_per_network(
    accelerator: str, machine: str, nics: int
) -> None:
    # [facts autopilot.md §1.1, §1.7]
    plan = decision(pod(accelerator))
    assert plan.machine.name == machine
    assert [item.network_object for item in plan.networks] == [
        f"vpc{number}" for number in range(1, nics + 1)
    ]
    assert [item.vpc for item in plan.networks] == [
        f"net-{number}" for number in range(1, nics + 1)
    ]
    assert plan.zone == "us-central1-a"


def test_a_vpc_may_be_written_as_a_path() -> None:
    networks, param_sets = ready_networks()
    param_sets["vpc2"]["spec"]["vpc"] = "projects/p/global/networks/net-2"
    plan = decision(pod(), circumstances(networks=networks, param_sets=param_sets))
    assert plan.networks[1].vpc == "net-2"


def test_nics_follow_the_sorted_interface_names() -> None:
    # [facts autopilot.md §1.7]; eth10 comes after eth2.
    text = (
        '[{"interfaceName":"eth10","network":"b"},{"interfaceName":"eth2","network":"a"},'
        '{"interfaceName":"eth0","network":"default"}]'
    )
    assert [item.name for item in read_interfaces(text)] == ["eth0", "eth2", "eth10"]


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ('[{"interfaceName":"eth0","network":"default"},]', "invalid character ']'"),
        ("[", "unexpected end of JSON input"),
        ('{"interfaceName":"eth0"}', "cannot unmarshal object"),
        ('[{"interfaceName":"eth0"}]', "must be set"),
        ("[1]", "cannot unmarshal"),
    ],
)
def test_an_interface_list_that_cannot_be_read_says_why(text: str, evidence: str) -> None:
    # [R03]
    with pytest.raises(InterfacesError, match=evidence.replace("[", r"\[")):
        read_interfaces(text)


def test_a_list_that_cannot_be_read_still_gets_a_node() -> None:
    # [R03]: the Pod is scheduled, and stays in creation on its node.
    item = pod()
    item["metadata"]["annotations"]["networking.gke.io/interfaces"] = "[,]"
    plan = decision(item)
    assert isinstance(plan, NodePlan)
    assert plan.networks == ()


def test_a_zone_selector_is_kept_and_stock_decides_otherwise() -> None:
    cloud = StockedCloud({"us-central1-c": 1})
    around = circumstances(cloud)
    assert decision(pod(), around).zone == "us-central1-c"
    reason, message = refusal(decision(pod(selector={ZONE: "us-central1-a"}), around))
    assert reason == "FailedScaleUp"
    assert message == (
        "Node scale up in zones us-central1-a associated with this pod failed: "
        "GCE out of resources. Pod is at risk of not being scheduled."
    )


def test_pods_of_one_owner_go_to_one_zone_while_it_has_room() -> None:
    around = circumstances(preferred_zones=["us-central1-c"])
    assert decision(pod(), around).zone == "us-central1-c"


def test_without_quota_the_event_says_so() -> None:
    # [facts google-cloud.md §6.5]
    cloud = project_with_gpu_networks()
    cloud.quota = 7
    reason, message = refusal(decision(pod(selector={ZONE: "us-central1-c"}), circumstances(cloud)))
    assert reason == "FailedScaleUp"
    assert message == (
        "Node scale up in zones us-central1-c associated with this pod failed: "
        "GCE quota exceeded. Pod is at risk of not being scheduled."
    )


@pytest.mark.parametrize("selector", [SPOT, FLEX])
def test_spot_and_flex_start_use_the_preemptible_stock(selector: dict[str, str]) -> None:
    # [facts autopilot.md §1.3, §6]
    cloud = StockedCloud({"us-central1-a": 1})
    plan = decision(pod(selector=selector), circumstances(cloud))
    assert plan.preemptible
    assert {asked[2] for asked in cloud.asked} == {True}


@pytest.mark.parametrize(
    ("item", "evidence"),
    [
        (pod(selector=SPOT | FLEX), "misconfigured Flex Start selectors"),
        (pod(selector={"cloud.google.com/compute-class": "mine"}), "requested ComputeClass"),
        (pod(selector={"team": "birds"}), "node affinity/selector"),
    ],
)
def test_wishes_that_contradict_themselves_are_refused(item: Manifest, evidence: str) -> None:
    # [facts autopilot.md §1.1, §1.2]
    with pytest.raises(DemandError, match=evidence):
        read_demand(item, {})


@pytest.mark.parametrize(
    ("item", "around", "evidence"),
    [
        (pod(selector={ZONE: "europe-west4-a"}), {}, "node affinity/selector"),
        (pod(selector={"cloud.google.com/gke-accelerator": "nvidia-x"}), {}, "affinity/selector"),
        (pod(selector={"node.kubernetes.io/instance-type": "a3-highgpu-8g"}), {}, "affinity"),
        (pod(), {"networks": {}}, 'Network "vpc1" not found'),
        (pod(), {"param_sets": {}}, 'GKENetworkParamSet "vpc1" for Network "vpc1" not found'),
        (pod(HIGH), {"version": "1.34.5-gke.1152999"}, "1.34.5-gke.1153000 or later"),
        (pod(selector={"cloud.google.com/gke-placement-group": "Bad"}), {}, "is invalid"),
        (pod(selector={"cloud.google.com/gke-placement-group": "g" * 41}), {}, "is invalid"),
    ],
)
def test_a_pod_that_no_new_node_would_take_triggers_nothing(
    item: Manifest, around: dict[str, Any], evidence: str
) -> None:
    reason, message = refusal(decision(item, circumstances(**around)))
    assert reason == "NotTriggerScaleUp"
    assert message.startswith("pod didn't trigger scale-up")
    assert evidence in message


def test_a_parameter_set_without_a_network_name_counts_as_missing() -> None:
    # [facts autopilot.md §0.3]
    networks, param_sets = ready_networks()
    del param_sets["vpc3"]["status"]["networkName"]
    around = circumstances(networks=networks, param_sets=param_sets)
    assert '"vpc3"' in refusal(decision(pod(), around))[1]


@pytest.mark.parametrize(
    ("version", "allowed"),
    [
        ("1.34.5-gke.1153000", True),
        ("1.35.2-gke.1484999", False),
        ("1.35.2-gke.1485000", True),
        ("1.36.0-gke.1", True),
        ("1.33.9-gke.1", True),
        ("not a version", True),
    ],
)
def test_a3_high_has_a_version_floor(version: str, allowed: bool) -> None:
    # [facts gpudirect.md §9 row 28]
    found = decision(pod(HIGH), circumstances(version=version))
    assert isinstance(found, NodePlan) == allowed
    assert isinstance(decision(pod(MEGA), circumstances(version=version)), NodePlan)


def test_a_placement_group_names_the_pool_and_keeps_its_zone() -> None:
    # [facts autopilot.md §0.5, §2]
    selector = {"cloud.google.com/gke-placement-group": "train"}
    plan = decision(pod(selector=selector), circumstances(group_zones={"train": "us-central1-c"}))
    assert plan.zone == "us-central1-c"
    assert pool_name(plan) == "train"
    elsewhere = pod(selector=selector | {ZONE: "us-central1-a"})
    around = circumstances(group_zones={"train": "us-central1-c"})
    assert "already exists" in refusal(decision(elsewhere, around))[1]


def test_requests_beyond_the_machine_are_refused() -> None:
    # [facts autopilot.md §3.4]
    item = pod()
    item["spec"]["containers"][1]["resources"]["requests"] = {
        "cpu": "208",
        "memory": "2000Gi",
        "ephemeral-storage": "6000Gi",
    }
    _, message = refusal(decision(item))
    assert "Insufficient cpu" in message
    assert "Insufficient memory" in message
    assert "Insufficient ephemeral-storage" in message


def test_the_published_tcpx_requests_fit() -> None:
    # [facts gpudirect.md §5]: 100 CPU, 200Gi, 2000Gi beside the daemon's.
    item = pod(HIGH)
    item["spec"]["containers"][1]["resources"]["requests"] = {
        "cpu": 100,
        "memory": "200Gi",
        "ephemeral-storage": "2000Gi",
    }
    assert isinstance(decision(item), NodePlan)


def test_one_two_and_four_gpus_exist_on_spot_and_flex_start_alone() -> None:
    # [facts autopilot.md §1.1]
    item = pod(HIGH, SPOT)
    item["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"] = "2"
    assert decision(item).machine.name == "a3-highgpu-2g"
    del item["spec"]["nodeSelector"]["cloud.google.com/gke-spot"]
    assert isinstance(decision(item), Refusal)
    assert machine_for_gpus(MEGA, 2) == machine_for_gpus(MEGA, 8)
    assert machine_for_gpus(MEGA, 9) is None


def test_a_compute_class_is_tried_rule_by_rule() -> None:
    # [facts autopilot.md §1.5]
    rule = {"machineType": "a3-megagpu-8g", "gpu": {"type": MEGA, "count": 8}}
    mine = {
        "spec": {
            "nodePoolAutoCreation": {"enabled": True},
            "priorities": [
                rule | {"location": {"zones": ["us-central1-a"]}},
                rule | {"spot": True, "location": {"zones": ["us-central1-c"]}},
            ],
        }
    }
    item = pod()
    item["spec"]["nodeSelector"] = {"cloud.google.com/compute-class": "mine"}
    cloud = StockedCloud({"us-central1-c": 1})
    plan = decision(item, circumstances(cloud), mine=mine)
    assert (plan.zone, plan.demand.spot) == ("us-central1-c", True)
    mine["spec"]["nodePoolAutoCreation"] = {}
    with pytest.raises(DemandError, match="auto-creation"):
        read_demand(item, {"mine": mine})


def test_an_ordinary_pod_gets_an_ordinary_machine() -> None:
    item: Manifest = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    assert decision(item).machine.name == "ek-standard-8"
    item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "20", "memory": "64Gi"}}
    assert decision(item).machine.name == "ek-standard-32"
    item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100"}}
    assert "Insufficient cpu" in refusal(decision(item))[1]
    assert ordinary_machine(1, 1000) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", 0.5), ("2", 2), ("1Gi", 2**30), ("200Gi", 200 * 2**30), ("1k", 1000), ("x", 0)],
)
def test_quantities_are_read(text: str, value: float) -> None:
    assert quantity(text) == pytest.approx(value)
