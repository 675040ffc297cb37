"""Small parts of the kubelet side: images, environment, names, firewall, statuses, exec streams."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from sandbox.gke.api import Change, ChangeType, KubernetesApi
from sandbox.gke.nccl.hosts import Nic
from sandbox.gke.pods.clock import Signal
from sandbox.gke.pods.container_status import ContainerStatus, conditions_of, phase_of
from sandbox.gke.pods.daemon_sets import expects_injector, runs_on
from sandbox.gke.pods.environment import ConfigError, command_of, environment_of, expand
from sandbox.gke.pods.firewall import closed_networks
from sandbox.gke.pods.images import ImageKind, parse_image, pull_problem
from sandbox.gke.pods.nccl_profiles import DEFAULT, SIMPLE, profile_script
from sandbox.gke.pods.world import PodRecord
from sandbox.gke.resource_types import PODS
from sandbox.gke.simulation import _follow
from tests.gke import vendor_manifests as vendor
from tests.gke.pod_world import PodWorld
from tests.gke.simulated import (
    MEGA,
    Manifest,
    gpu_pod,
    open_rule,
    project_with_gpu_networks,
    service,
)

INJECTOR = "gcr.io/gke-release/nri-device-injector"


@pytest.mark.parametrize(
    ("reference", "host", "repository", "tag"),
    [
        ("ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("bitnami/kubectl:1.36", "docker.io", "bitnami/kubectl", "1.36"),
        ("localhost:5000/x", "localhost:5000", "x", "latest"),
        ("registry.example/a/b:c", "registry.example", "a/b", "c"),
    ],
)
def test_image_references_are_taken_apart(
    reference: str, host: str, repository: str, tag: str
) -> None:
    image = parse_image(reference)
    assert image is not None
    assert (image.host, image.repository, image.tag) == (host, repository, tag)


@pytest.mark.parametrize("reference", ["", "UPPER/case", "a b", "x@sha256"])
def test_a_malformed_reference_is_none(reference: str) -> None:
    assert parse_image(reference) is None


@pytest.mark.parametrize(
    ("reference", "kind", "exists"),
    [
        # [facts gpudirect.md §10]
        (vendor.PLUGIN.format(stack="tcpxo", tag="v1.0.15"), ImageKind.TCPXO_PLUGIN, True),
        (vendor.PLUGIN.format(stack="tcpxo", tag="v1.0.10"), ImageKind.TCPXO_PLUGIN, False),
        (vendor.PLUGIN.format(stack="tcpx", tag="v3.1.12"), ImageKind.TCPX_PLUGIN, True),
        (vendor.DAEMON.format(stack="tcpxo", tag="v1.0.23"), ImageKind.TCPXO_DAEMON, True),
        (vendor.DAEMON.format(stack="tcpxo", tag="v1.0.19"), ImageKind.TCPXO_DAEMON, False),
        (vendor.DAEMON.format(stack="tcpx", tag="v2.0.15"), ImageKind.TCPX_DAEMON, True),
        ("us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/typo:v1", ImageKind.OTHER, False),
        ("mirror.example/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.12",
         ImageKind.TCPX_DAEMON, True),
        ("mirror.example/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev:v0", ImageKind.TCPX_DAEMON,
         False),
        (vendor.INJECTOR, ImageKind.INJECTOR, True),
        (f"{INJECTOR}@sha256:{'0' * 64}", ImageKind.INJECTOR, False),
        (vendor.PAUSE, ImageKind.PAUSE, True),
        ("ubuntu", ImageKind.SHELL, True),
        ("registry.example/train:1", ImageKind.OTHER, True),
        ("registry.invalid/train:1", ImageKind.OTHER, False),
    ],
)  # fmt: skip
def test_gpudirect_images_exist_with_their_published_tags_alone(
    reference: str, kind: ImageKind, exists: bool
) -> None:
    image = parse_image(reference)
    assert image is not None
    assert image.kind is kind
    assert (pull_problem(image) is None) == exists


def test_the_profiles_differ_where_the_releases_do() -> None:
    # [facts gpudirect.md §8]
    newest = profile_script(DEFAULT, "v1.0.15")
    assert 'export NCCL_NVLSTREE_MAX_CHUNKSIZE="131072"' in newest
    assert "NCCL_ALGO" not in newest
    assert 'NCCL_PROTO="Simple,LL128"' in newest
    assert "NVLSTREE" not in profile_script(DEFAULT, "v1.0.11")
    simple = profile_script(SIMPLE, "v1.0.15")
    assert 'NCCL_PROTO="Simple"' in simple
    assert "a3plus_guest_config_simple.textproto" in simple


def test_an_odd_object_does_not_end_the_simulation(caplog: pytest.LogCaptureFixture) -> None:
    class Watched:
        async def follow(self, _: object) -> Any:
            for name in ("odd", "plain"):
                yield Change(ChangeType.ADDED, {"metadata": {"name": name}})
            yield Change(ChangeType.SYNCED, {})

    taken: list[str] = []

    def take(change: Change) -> None:
        name = change.object["metadata"]["name"]
        if name == "odd":
            raise KeyError(name)
        taken.append(name)

    asyncio.run(_follow(cast(KubernetesApi, Watched()), PODS, take))
    assert taken == ["plain"]
    assert "Pod odd" in caplog.text


# --- Environment and names


async def _nothing(kind: str, name: str) -> Manifest | None:
    return {"kind": kind, "data": {"key": "value"}} if name == "there" else None


def test_the_environment_is_worked_out_as_a_kubelet_does(tmp_path: Path) -> None:
    async def story() -> dict[str, str]:
        here = PodWorld(tmp_path)
        item = gpu_pod("p", MEGA)
        item["metadata"] |= {"uid": "u", "labels": {"batch.kubernetes.io/job-name": "j"}}
        pod = PodRecord(object=item, node=here.node(), address="10.84.0.7")
        container = {
            "envFrom": [{"configMapRef": {"name": "there"}, "prefix": "P_"}],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "value": "$(A)-$(NONE)-$$(A)"},
                {"name": "JOB", "valueFrom": {"fieldRef": {
                    "fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "key"}}},
                {"name": "OPTIONAL", "valueFrom": {"secretKeyRef": {
                    "name": "x", "key": "y", "optional": True}}},
            ],
        }  # fmt: skip
        return await environment_of(container, pod, "10.0.0.1", _nothing)

    found = asyncio.run(story())
    assert found["P_key"] == "value"
    assert found["B"] == "1-$(NONE)-$(A)"
    assert (found["JOB"], found["IP"], found["KEY"]) == ("j", "10.84.0.7", "value")
    assert "OPTIONAL" not in found
    assert found["HOSTNAME"] == "p"


@pytest.mark.parametrize(
    ("source", "evidence"),
    [
        ({"configMapKeyRef": {"name": "gone", "key": "k"}}, 'configmap "gone" not found'),
        ({"configMapKeyRef": {"name": "there", "key": "k"}}, "couldn't find key k"),
    ],
)
def test_a_missing_reference_is_a_configuration_error(
    tmp_path: Path, source: Manifest, evidence: str
) -> None:
    async def story() -> None:
        item = gpu_pod("p", MEGA)
        pod = PodRecord(object=item, node=PodWorld(tmp_path).node())
        container = {"env": [{"name": "A", "valueFrom": source}]}
        await environment_of(container, pod, "10.0.0.1", _nothing)

    with pytest.raises(ConfigError, match=evidence):
        asyncio.run(story())


def test_command_and_arguments_are_joined_and_expanded() -> None:
    container = {"command": ["sh", "-c"], "args": ["echo $(A) ${A} $(date)"]}
    assert command_of(container, {"A": "1"}) == ["sh", "-c", "echo 1 ${A} $(date)"]
    assert expand("$$(A)", {"A": "1"}) == "$(A)"


def test_names_resolve_as_cluster_dns_resolves_them(tmp_path: Path) -> None:
    async def story() -> None:
        here = PodWorld(tmp_path)
        item = gpu_pod("run-0", MEGA)
        item["metadata"] |= {"uid": "u", "labels": {"name": "run"}}
        item["spec"] |= {"hostname": "run-0", "subdomain": "run"}
        pod = PodRecord(object=item, node=here.node(), address="10.84.0.7", ready=True)
        here.world.pods["u"] = pod
        here.service(service("run"))

        def found(name: str, namespace: str = "default", hosts: str = "") -> bool:
            return here.world.resolve(name, namespace, hosts) == [pod]

        for name in ("run", "run.default", "run-0.run", "run-0.run.default.svc.cluster.local",
                     "run.default.svc", "10.84.0.7"):  # fmt: skip
            assert found(name), name
        for name in ("run-0", "run-1.run", "run.other", "run-0.run.other", "10.84.0.8", "a.b.c.d"):
            assert not found(name), name
        assert not found("run", namespace="other")
        assert found("alias", hosts="10.84.0.7 alias other\n")
        # DNS answers only for ready Pods, unless the Service says otherwise.
        pod.ready = False
        assert not found("run")
        here.world.services[("default", "run")]["spec"]["publishNotReadyAddresses"] = True
        assert found("run")

    asyncio.run(story())


# --- Firewall


def nic(address: str, network: str = "net-1") -> Nic:
    return Nic(interface="eth1", network=network, address=address, mtu_bytes=8244)


@pytest.mark.parametrize(
    ("rules", "closed"),
    [
        ([open_rule(1)], False),
        ([], True),
        ([open_rule(1) | {"disabled": True}], True),
        ([open_rule(1) | {"sourceRanges": ["10.0.0.0/8"]}], True),
        ([open_rule(1) | {"allowed": [{"IPProtocol": "tcp", "ports": ["0-1024"]}]}], True),
        ([open_rule(1) | {"allowed": [{"IPProtocol": "udp"}]}], True),
        ([open_rule(1) | {"allowed": [{"IPProtocol": "all"}]}], False),
        ([open_rule(1) | {"targetTags": ["gpu"]}], True),
        ([open_rule(1), {**open_rule(1), "allowed": None, "denied": [{"IPProtocol": "all"}],
                         "priority": 900}], True),
        ([open_rule(1), {**open_rule(1), "allowed": None, "denied": [{"IPProtocol": "all"}],
                         "priority": 1100}], False),
        ([open_rule(1), {"network": "x/net-1", "direction": "EGRESS", "priority": 1,
                         "denied": [{"IPProtocol": "tcp"}],
                         "destinationRanges": ["0.0.0.0/0"]}], True),
    ],
)  # fmt: skip
def test_firewall_rules_decide_whether_nics_reach_each_other(
    tmp_path: Path, rules: list[Manifest], closed: bool
) -> None:
    cloud = project_with_gpu_networks(1)
    cloud.rules = [
        {key: value for key, value in rule.items() if value is not None} for rule in rules
    ]
    context = PodWorld(tmp_path, cloud=cloud).context
    hosts = [{"eth1": nic("192.168.1.2")}, {"eth1": nic("192.168.1.3")}]
    assert closed_networks(context, hosts) == (("net-1",) if closed else ())


def test_a_single_nic_needs_no_rule(tmp_path: Path) -> None:
    cloud = project_with_gpu_networks(1)
    cloud.rules = []
    context = PodWorld(tmp_path, cloud=cloud).context
    assert closed_networks(context, [{"eth1": nic("192.168.1.2")}]) == ()


# --- Statuses


def status(state: str, code: int = 0, **more: Any) -> ContainerStatus:
    found = ContainerStatus(name="c", image="i", **more)
    if state == "running":
        found.run("id")
        found.started = found.ready = True
    elif state == "ended":
        found.end(code)
    else:
        found.wait("ContainerCreating")
    return found


@pytest.mark.parametrize(
    ("policy", "init", "main", "phase"),
    [
        ("Always", [], ["waiting"], "Pending"),
        ("Always", [], ["running", "waiting"], "Running"),
        ("Always", [], ["ended"], "Running"),
        ("Never", [], ["ended"], "Succeeded"),
        ("Never", [], ["failed"], "Failed"),
        ("Never", [], ["ended", "running"], "Running"),
        ("OnFailure", [], ["failed"], "Running"),
        ("OnFailure", [], ["ended"], "Succeeded"),
        ("Never", ["failed"], ["waiting"], "Failed"),
        ("Always", ["failed"], ["waiting"], "Pending"),
        ("Always", ["running"], ["waiting"], "Pending"),
    ],
)
def test_a_pods_phase_follows_from_its_containers(
    policy: str, init: list[str], main: list[str], phase: str
) -> None:
    def made(names: list[str], *, init: bool) -> list[ContainerStatus]:
        return [
            status("ended", 1, init=init) if name == "failed" else status(name, init=init)
            for name in names
        ]

    assert phase_of(policy, made(init, init=True), made(main, init=False)) == phase


def test_a_sidecar_holds_a_pod_back_until_it_started() -> None:
    sidecar = status("waiting", init=True, sidecar=True)
    assert phase_of("Never", [sidecar], [status("waiting")]) == "Pending"
    started = status("running", init=True, sidecar=True)
    assert phase_of("Never", [started], [status("running")]) == "Running"
    assert phase_of("Never", [started], [status("ended")]) == "Succeeded"


def test_conditions_keep_those_of_others_and_their_times() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "then"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "then"}
    found = conditions_of(
        "Running", [], [status("running")], sandbox_ready=True, before=[scheduled, ready]
    )
    assert scheduled in found
    assert ready in found
    unready = conditions_of(
        "Pending", [], [status("waiting")], sandbox_ready=False, before=[scheduled, ready]
    )
    changed = next(item for item in unready if item["type"] == "Ready")
    assert changed["status"] == "False"
    assert changed["lastTransitionTime"] != "then"
    assert "[c]" in changed["message"]


def test_daemon_sets_are_matched_with_node_labels(tmp_path: Path) -> None:
    injector = vendor.device_injector()
    labels = {"cloud.google.com/gke-accelerator": MEGA}
    assert runs_on(injector, labels)
    assert not runs_on(injector, {"cloud.google.com/gke-accelerator": "nvidia-l4"})
    world = PodWorld(tmp_path).world
    world.node_labels["n"] = labels
    assert not expects_injector(world, "n")
    world.daemon_sets["1"] = vendor.tcpxo_installer()
    assert not expects_injector(world, "n")
    world.daemon_sets["2"] = injector
    assert expects_injector(world, "n")


@pytest.mark.parametrize("turns", range(4))
def test_a_cancellation_that_comes_with_a_change_is_not_lost(turns: int) -> None:
    async def cancelled() -> bool:
        news = Signal()

        async def follow() -> None:
            while True:
                await news.wait(news.version, 5)

        task = asyncio.create_task(follow())
        await asyncio.sleep(0.01)
        news.changed()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=1)
        return bool(done)

    assert asyncio.run(cancelled())
