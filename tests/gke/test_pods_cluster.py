"""Simulated Pods under a real control plane: what a user does with kubectl, end to end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gke import vendor_manifests as vendor
from tests.gke.fake_cloud import cluster_resource
from tests.gke.simulated import (
    HIGH,
    MEGA,
    SimulatedCluster,
    daemon_container,
    gpu_pod,
    installer,
    network_objects,
    project_with_gpu_networks,
    service,
    simulated_cluster,
    tcpx_config_map,
    workload_container,
)

pytestmark = pytest.mark.timeout(300)
ADDONS = "gpudirect-system"


@pytest.fixture(scope="module")
def gpu_cluster(
    binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SimulatedCluster]:
    home = tmp_path_factory.mktemp("pods")
    with simulated_cluster(binaries, home, project_with_gpu_networks()) as cluster:
        cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADDONS}},
            *network_objects(8),
            installer(MEGA),
            installer(HIGH),
            vendor.device_injector(),
        )
        yield cluster


def _is_ready(cluster: SimulatedCluster, name: str) -> bool:
    status = cluster.get("pod", name).get("status", {})
    conditions = {item["type"]: item["status"] for item in status.get("conditions", [])}
    return conditions.get("Ready") == "True"


@pytest.fixture(autouse=True)
def _clean(gpu_cluster: SimulatedCluster) -> Iterator[None]:
    """Each test ends with no Pod, no node and no VM: scale down is part of every story."""
    yield
    gpu_cluster.cloud.capacity = 16
    kinds = "pods,jobs,deployments,services,configmaps"
    gpu_cluster.kubectl("delete", kinds, "--all", "--wait=true")
    gpu_cluster.wait(lambda: not gpu_cluster.get("nodes")["items"])
    assert gpu_cluster.cloud.instances == {}


@pytest.mark.parametrize(
    ("accelerator", "command", "rows", "transport"),
    [
        (MEGA, "/scripts/allgather.sh", 11, "FasTrak"),
        (HIGH, "/configs/allgather.sh", 10, "GPUDirectTCPX_v7"),
    ],
)
def test_the_pages_two_pods_run_the_all_gather_by_exec(
    gpu_cluster: SimulatedCluster, accelerator: str, command: str, rows: int, transport: str
) -> None:
    # [facts gpudirect.md §5, §7]: two bare Pods, two headless Services, the script by exec.
    cluster = gpu_cluster
    names = ["nccl-host-1", "nccl-host-2"]
    pods = [gpu_pod(name, accelerator) for name in names]
    if accelerator == HIGH:
        cluster.apply(tcpx_config_map())
        for pod in pods:
            pod["spec"]["volumes"].append(
                {
                    "name": "config-volume",
                    "configMap": {"name": "nccl-configmap", "defaultMode": 511},
                }
            )
            test = pod["spec"]["containers"][1]
            test["volumeMounts"].append({"name": "config-volume", "mountPath": "/configs"})
    cluster.apply(*map(service, names), *pods)
    cluster.wait(lambda: all(_is_ready(cluster, name) for name in names))
    nodes = {cluster.get("pod", name)["spec"]["nodeName"] for name in names}
    assert len(nodes) == 2
    library = "/usr/local/nvidia/lib64/libnccl-net.so"
    in_test = ("exec", names[0], "-c", "nccl-test", "--")
    cluster.wait(lambda: cluster.kubectl(*in_test, "ls", library).returncode == 0)
    answer = cluster.kubectl(*in_test, command, *names)
    assert answer.returncode == 0, answer.stderr
    table = [line for line in answer.stdout.splitlines() if " float " in line]
    assert len(table) == rows, answer.stdout + answer.stderr
    assert "# simulated" in answer.stdout
    assert "# Avg bus bandwidth" in answer.stdout
    logged = cluster.kubectl(*in_test, "sh", "-c", "cat /*/*.log /*/*/*.log 2>/dev/null; true")
    assert f"Using network {transport}" in answer.stdout + logged.stdout
    daemon = f"{'tcpxo' if accelerator == MEGA else 'tcpx'}-daemon"
    log = cluster.kubectl("logs", names[1], "-c", daemon)
    assert log.returncode == 0
    assert log.stdout


def test_exec_passes_exit_code_standard_input_and_errors(gpu_cluster: SimulatedCluster) -> None:
    cluster = gpu_cluster
    cluster.apply(_plain_pod("box", ["sleep", "infinity"]))
    cluster.wait(lambda: _is_ready(cluster, "box"))
    assert cluster.kubectl("exec", "box", "--", "sh", "-c", "exit 7").returncode == 7
    failed = cluster.kubectl("exec", "box", "--", "sh", "-c", "echo out; echo err >&2")
    assert (failed.stdout, failed.stderr) == ("out\n", "err\n")
    counted = cluster.kubectl("exec", "-i", "box", "--", "wc", "-l", manifest={"a": 1, "b": 2})
    assert counted.stdout.strip() == "2"
    missing = cluster.kubectl("exec", "box", "-c", "other", "--", "true")
    assert missing.returncode != 0


def test_a_log_is_followed_until_the_container_ends(gpu_cluster: SimulatedCluster) -> None:
    cluster = gpu_cluster
    script = "echo first; until [ -e /tmp/go ]; do sleep 1; done; echo last"
    cluster.apply(_plain_pod("talker", ["sh", "-c", script], restartPolicy="Never"))
    cluster.wait(lambda: _is_ready(cluster, "talker"))
    assert cluster.kubectl("logs", "talker").stdout == "first\n"
    assert cluster.kubectl("exec", "talker", "--", "touch", "/tmp/go").returncode == 0
    assert cluster.kubectl("logs", "-f", "talker").stdout == "first\nlast\n"
    assert cluster.kubectl("logs", "--tail=1", "talker").stdout == "last\n"
    stamped = cluster.kubectl("logs", "--timestamps", "talker").stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in stamped] == ["first", "last"]
    cluster.wait(lambda: cluster.get("pod", "talker")["status"]["phase"] == "Succeeded")


def test_a_deployment_of_ordinary_pods_gets_a_node_and_becomes_available(
    gpu_cluster: SimulatedCluster,
) -> None:
    cluster = gpu_cluster
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
    }
    cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        }
    )
    cluster.wait(lambda: cluster.get("deployment", "web")["status"].get("availableReplicas") == 3)
    (node,) = cluster.get("nodes")["items"]
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"].startswith("ek-standard")


def test_an_indexed_job_with_a_native_sidecar_completes_and_its_nodes_go(
    gpu_cluster: SimulatedCluster,
) -> None:
    # [facts gpudirect.md §11.7]: the daemon as init container with restartPolicy Always.
    cluster = gpu_cluster
    launcher = """set -eu
until [ -e /usr/local/nvidia/lib64/nccl-env-profile.sh ]; do sleep 2; done
service ssh restart
if [ "$JOB_COMPLETION_INDEX" != 0 ]; then
  until [ -e /run/finished ]; do sleep 1; done
  exit 0
fi
hosts="run-0.run run-1.run"
for host in $hosts; do until ssh -p 222 "$host" true; do sleep 2; done; done
(cd /scripts && /scripts/gen_hostfiles.sh $hosts)
/scripts/demo-run-nccl-test-tcpxo-via-mpi.sh
ssh -p 222 run-1.run touch /run/finished
"""
    test = workload_container(MEGA) | {"command": ["/bin/bash", "-c", launcher]}
    test["env"] = [
        {"name": name, "value": value}
        for name, value in {
            "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
            "NCCL_LIB_DIR": "/usr/local/nvidia/lib64",
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
            "BENCHMARK": "all_gather_perf",
            "NHOSTS": "2",
            "DATA_MAX": "1G",
        }.items()
    ]
    spec = gpu_pod("unused", MEGA)["spec"] | {
        "subdomain": "run",
        "restartPolicy": "Never",
        "initContainers": [daemon_container(MEGA) | {"restartPolicy": "Always"}],
        "containers": [test],
    }
    annotated = gpu_pod("unused", MEGA)["metadata"]["annotations"]
    headless = service("run")
    headless["spec"] |= {"selector": {"app": "run"}, "publishNotReadyAddresses": True}
    cluster.apply(
        headless,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "run", "namespace": "default"},
            "spec": {
                "completionMode": "Indexed",
                "completions": 2,
                "parallelism": 2,
                "backoffLimit": 0,
                "template": {
                    "metadata": {"labels": {"app": "run"}, "annotations": annotated},
                    "spec": spec,
                },
            },
        },
    )

    def ended() -> bool:
        conditions = cluster.get("job", "run")["status"].get("conditions", [])
        assert not [item for item in conditions if item["type"] == "Failed"], conditions
        return any(item["type"] == "Complete" for item in conditions)

    cluster.wait(ended)
    log = cluster.kubectl(
        "logs", "-l", "batch.kubernetes.io/job-completion-index=0", "-c", "nccl-test", "--tail=-1"
    )
    rows = [line.split() for line in log.stdout.splitlines() if " float " in line]
    assert rows, log.stdout + log.stderr
    assert rows[-1][0] == "1073741824"
    assert float(rows[-1][7]) == pytest.approx(183.2, rel=0.03)


def test_a_zone_without_machines_leaves_the_pod_pending_until_there_are_some(
    gpu_cluster: SimulatedCluster,
) -> None:
    cluster = gpu_cluster
    cluster.cloud.capacity = 0
    cluster.apply(gpu_pod("waiting", MEGA))
    cluster.wait(
        lambda: any(
            "GCE out of resources" in item["message"]
            for item in cluster.events("waiting")
            if item["reason"] == "FailedScaleUp"
        )
    )
    assert cluster.get("pod", "waiting")["status"]["phase"] == "Pending"
    cluster.cloud.capacity = 16
    cluster.wait(lambda: _is_ready(cluster, "waiting"))


def test_a_restarted_server_takes_over_its_nodes_and_pods(gpu_cluster: SimulatedCluster) -> None:
    cluster = gpu_cluster
    cluster.apply(gpu_pod("lasting", MEGA))
    cluster.wait(lambda: _is_ready(cluster, "lasting"))
    before = [item["metadata"]["uid"] for item in cluster.get("nodes")["items"]]
    cluster.loop.run(cluster.runtime.stop(cluster.key, delete=False))
    cluster.loop.run(cluster.runtime.start(cluster.key, cluster_resource()))
    cluster.wait(lambda: _is_ready(cluster, "lasting"))
    assert [item["metadata"]["uid"] for item in cluster.get("nodes")["items"]] == before
    assert len(cluster.cloud.instances) == 1
    # As after a reboot: the installers worked again, and the daemon has its device.
    cluster.wait(
        lambda: (
            cluster.kubectl("exec", "lasting", "-c", "nccl-test", "--", "nvidia-smi").stdout
            and "Buffer manager" in cluster.kubectl("logs", "lasting", "-c", "tcpxo-daemon").stdout
        )
    )


def _plain_pod(name: str, command: list[str], **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "registry.example/box:1", "command": command}]
        }
        | spec,
    }
