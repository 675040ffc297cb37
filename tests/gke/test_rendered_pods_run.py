"""The Pods of every rendered case start on simulated A3 nodes; those of the plain ones do not.

Every manifest in tests/cases/manifests, and one for each kind that no case has (tests/gke/kinds),
is rendered for both machines, and whatever comes out is created in one cluster, all Pods side by
side: each takes a node of its own. Kinds whose controllers a bare cluster has are created as they
are; of the others each Pod template becomes a Pod. No DaemonSet: nodes are not made for its Pods.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpudirect.workloads import Environment
from sandbox.gke.nodes.machines import A3_MEGA as A3_MEGA_MACHINE
from sandbox.gke.pods.node_hardware import aperture_addresses
from tests.gke import vendor_manifests as vendor
from tests.gke.simulated import (
    HIGH,
    MEGA,
    SimulatedCluster,
    installer,
    network_objects,
    project_with_gpu_networks,
    simulated_cluster,
)
from tests.unit import workload_samples
from tests.unit.test_workloads_cases import (
    EXPECTED,
    INJECTED,
    as_kubernetes_reads,
    environment_for,
    templates,
    text_of,
)
from tests.unit.workload_samples import (
    all_containers,
    container_named,
    gpus,
    load_all,
    render_text,
)

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(300)]

Manifest = dict[str, Any]
MACHINES = {"mega": workload_samples.MEGA, "high": workload_samples.HIGH}
KINDS = {path.stem: path for path in sorted((Path(__file__).parent / "kinds").glob("*.yaml"))}
WITH_CONTROLLER = {
    ("v1", "Pod"),
    ("v1", "ReplicationController"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
}
APERTURES = set(aperture_addresses(A3_MEGA_MACHINE))
# What docs/workloads.md tells containers to do that may start before the node's installer is
# through. No image of the cases exists, so nothing else runs in them.
GUARD = """\
until [ -e /usr/local/nvidia/lib64/libnccl-net.so ]; do sleep 1; done
[ -z "$NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY" ] || ls /dev/aperture_devices/* || exit 1
sleep infinity
"""
LABEL = "case"
# What the cases refer to and do not bring.
CONFIG_MAPS = {"swift-scripts": {"run.sh": "true"}, "tern-net": {"ifname": "eth0"}}
DONE_BY_HAND = "m08_done_by_hand.yaml"


@dataclass(frozen=True)
class Case:
    """One case, or one of the other kinds, rendered for one machine."""

    name: str
    machine: str

    @property
    def id(self) -> str:
        return f"{self.name.partition('_')[0]}-{self.machine}"

    @property
    def text(self) -> str:
        return KINDS[self.name].read_text() if self.name in KINDS else text_of(self.name)

    @property
    def environment(self) -> Environment:
        return MACHINES[self.machine]

    @property
    def ready_words(self) -> str:
        """What the daemon's log says once it serves."""
        if self.machine == "mega":
            return "Buffer manager initialization completed."
        return "Rx Rule Manager server listens on /run/tcpx"

    @property
    def folders(self) -> list[str]:
        """Folders of a GPU container that GPUDirect fills."""
        own = "/dev/aperture_devices" if self.machine == "mega" else "/tmp"
        return ["/sys/class/net", "/usr/local/nvidia/lib64", own]

    @property
    def files(self) -> set[str]:
        """What there must be in the last of them."""
        return APERTURES if self.machine == "mega" else {"rx_rule_manager"}

    def rendered(self) -> list[Manifest] | None:
        """Return what comes out, or None where the case is refused on this machine."""
        text, summary = render_text(self.text, self.environment)
        if any(finding.severity == "error" for finding in summary.findings):
            return None
        return load_all(text)


CASES = [
    case
    for name in (*EXPECTED, *KINDS)
    for machine in MACHINES
    if (case := Case(name, machine)).rendered() is not None
]


def objects(documents: list[Manifest], name: str, *, is_rendered: bool = True) -> list[Manifest]:
    """Return what is to be created for a case: its own objects, or a Pod for each template."""
    made = []
    for document in documents:
        found = [t for t in templates(document) if any(map(gpus, all_containers(t["spec"])))]
        kept = (document["apiVersion"], document["kind"]) in WITH_CONTROLLER
        for template in found[:1] if kept else found:
            pod = document["kind"] == "Pod" or not kept
            made.append(copy.deepcopy(template if pod else document))
            if pod:
                made[-1] |= {"apiVersion": "v1", "kind": "Pod"}
    for number, manifest in enumerate(made):
        metadata = manifest.setdefault("metadata", {})
        metadata["name"] = f"{name}-{number}"
        for template in templates(manifest):
            labels = (template.get("metadata") or {}).get("labels") or {}
            template.setdefault("metadata", {})
            template["metadata"]["labels"] = labels | {LABEL: name}
            for container in template["spec"]["containers"]:
                if container["image"].startswith("registry.example/"):
                    script = GUARD if gpus(container) and is_rendered else "sleep infinity"
                    container |= {"command": ["sh", "-c", script], "args": []}
    return made


def runs_by_hand(made: list[Manifest]) -> list[tuple[str, ...]]:
    """Return the kubectl commands that run CronJobs at once, as people do who try one."""
    return [
        ("create", "job", name, f"--from=cronjob/{name}")
        for manifest in made
        if manifest["kind"] == "CronJob" and (name := manifest["metadata"]["name"])
    ]


def create(cluster: SimulatedCluster, manifests: list[Manifest]) -> str:
    """Create objects with strict validation and return what the API server has against it."""
    # In JSON: PyYAML writes some texts so that kubectl takes them for numbers.
    file = cluster.user_kubeconfig.with_name("objects.json")
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    by_hand = runs_by_hand(manifests)
    for words in (("create", "--validate=strict", "-f", str(file)), *by_hand):
        answer = cluster.kubectl(*words)
        if answer.returncode:
            return answer.stderr
    return ""


@pytest.fixture(scope="module")
def cluster(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    cloud = project_with_gpu_networks()
    cloud.capacity, cloud.quota = 100, 1000
    with simulated_cluster(binaries, tmp_path_factory.mktemp("rendered"), cloud) as found:
        found.apply(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": "gpudirect-system"},
            },
            *network_objects(8),
            installer(MEGA),
            installer(HIGH),
            vendor.device_injector(),
            *(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
                for name, data in CONFIG_MAPS.items()
            ),
        )
        others = [d for d in load_all(text_of("m05_many_documents.yaml")) if d]
        found.apply(*(d for d in others if d["kind"] in ("Service", "ConfigMap")))
        yield found


@pytest.fixture(scope="module")
def pods(cluster: SimulatedCluster) -> dict[str, list[Manifest]]:
    """Create every rendered case, wait until all that can run runs, and return the Pods by case."""
    wanted = {case.id: objects(case.rendered() or [], case.id) for case in CASES}
    count = sum(
        manifest["spec"].get("replicas", manifest["spec"].get("parallelism", 1))
        for manifests in wanted.values()
        for manifest in manifests
    )
    refused = {name: words for name in wanted if (words := create(cluster, wanted[name]))}
    assert refused == {}

    def run() -> dict[str, list[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for pod in cluster.get("pods")["items"]:
            found.setdefault(pod["metadata"]["labels"][LABEL], []).append(pod)
        running = [pod for pods in found.values() for pod in pods if is_up(pod)]
        return found if len(running) >= count else {}

    cluster.wait(run, seconds=150)
    return run()


def is_up(pod: Manifest) -> bool:
    """Whether every container runs, and every init container has done its work."""
    status = pod.get("status", {})
    states = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return len(states) == len(list(all_containers(pod["spec"]))) and all(
        "running" in s["state"] or s["state"].get("terminated", {}).get("exitCode") == 0
        for s in states
    )


def test_cases_of_every_kind_are_tried_on_both_machines() -> None:
    tried = {case.name for case in CASES}
    assert {*INJECTED, *KINDS} <= tried
    assert {case.machine for case in CASES} == set(MACHINES)
    for name in INJECTED:
        assert environment_for(name) in [case.environment for case in CASES if case.name == name]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_pods_of_a_rendered_case_run_on_the_gpu_network(
    cluster: SimulatedCluster, pods: dict[str, list[Manifest]], case: Case
) -> None:
    stack = case.environment.stack
    assert pods[case.id]
    for pod in pods[case.id]:
        node = cluster.get("node", pod["spec"]["nodeName"])
        assert node["metadata"]["labels"]["cloud.google.com/gke-accelerator"] == stack.accelerator
        name = pod["metadata"]["name"]
        # It says so only with every device of its annotation, every NIC and the library [R10].
        daemon = container_named(pod["spec"], stack.daemon_container)["name"]
        cluster.wait(partial(is_logged, cluster, name, daemon, case.ready_words))
        wanted = {*(f"eth{n}" for n in range(stack.nic_count + 1)), "libnccl-net.so", *case.files}
        for worker in filter(gpus, all_containers(pod["spec"])):
            look = partial(listed, cluster, name, worker["name"], *case.folders)
            cluster.wait(partial(holds, look, wanted))
            smi = cluster.kubectl("exec", name, "-c", worker["name"], "--", "nvidia-smi", "-L")
            assert len(smi.stdout.splitlines()) == stack.gpus_per_node


def test_no_two_pods_share_a_node(pods: dict[str, list[Manifest]]) -> None:
    nodes = [pod["spec"]["nodeName"] for found in pods.values() for pod in found]
    assert len(set(nodes)) == len(nodes)


@pytest.mark.parametrize("name", [name for name in (*INJECTED, *KINDS) if name != DONE_BY_HAND])
def test_the_pods_of_a_plain_case_do_not(cluster: SimulatedCluster, name: str) -> None:
    plain = f"{name.partition('_')[0]}-plain"
    documents = load_all(KINDS[name].read_text()) if name in KINDS else as_kubernetes_reads(name)
    words = create(cluster, objects(documents, plain, is_rendered=False))
    if words:
        assert "autogke-gpu-limitation" in words
        return
    # Who selects the accelerator is admitted, and runs without any GPU network.
    selector = ("get", "pods", "-l", f"{LABEL}={plain}", "-o", "name")
    names = cluster.wait(lambda: cluster.kubectl(*selector).stdout.split(), 60)
    cluster.wait(lambda: is_up(cluster.get(names[0])), 60)
    worker = next(filter(gpus, all_containers(cluster.get(names[0])["spec"])))
    assert listed(cluster, names[0], worker["name"], "/sys/class/net") == {"eth0"}


def listed(cluster: SimulatedCluster, pod: str, container: str, *folders: str) -> set[str]:
    """Return what is in folders of a container; nothing where it does not run."""
    return set(cluster.kubectl("exec", pod, "-c", container, "--", "ls", *folders).stdout.split())


def is_logged(cluster: SimulatedCluster, pod: str, container: str, words: str) -> bool:
    return words in cluster.kubectl("logs", pod, "-c", container).stdout


def holds(look: Callable[[], set[str]], wanted: set[str]) -> bool:
    return wanted <= look()
