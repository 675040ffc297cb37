from __future__ import annotations

from components.nccl_run import RunInCluster
from tests.unit.cluster_objects import NAMESPACE, gpu_pod
from tests.unit.nccl_tables import A3_MEGA, table
from tests.unit.test_cluster_evidence import CORE, FakeCluster, serving
from tests.unit.test_nccl_cli import kubeconfig_of

PODS = f"{CORE}/namespaces/{NAMESPACE}/pods"
JOB = {
    "kind": "Job",
    "metadata": {"name": "nccl-test", "namespace": NAMESPACE},
    "spec": {"completions": 2},
}


def test_the_log_is_the_launchers_wherever_it_stands_among_the_containers() -> None:  # [R14]
    cluster = FakeCluster()
    pod = gpu_pod(native_sidecar=False)
    del pod["metadata"]["ownerReferences"], pod["status"]
    pod["metadata"]["labels"] = {"batch.kubernetes.io/job-completion-index": "0"}
    for container in pod["spec"]["containers"]:
        # As an API server gives it.
        container["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    containers = {container["name"]: container for container in pod["spec"]["containers"]}
    exporter = {"name": "exporter", "image": "exporter"}
    pod["spec"]["containers"] = [containers["tcpxo-daemon"], exporter, containers["nccl-test"]]
    cluster.items[PODS] = [pod]
    cluster.logs = {
        f"{PODS}/nccl-test-0/log:nccl-test": table(A3_MEGA),
        f"{PODS}/nccl-test-0/log:tcpxo-daemon": "the daemon's own words\n",
    }
    with serving(cluster) as client:
        run = RunInCluster(
            kubeconfig=kubeconfig_of(client.configuration.host),
            documents=[JOB],
            networks=[],
            deadlines={},
            report=lambda _text, _new_phase: None,
            cancelled=lambda: False,
        )._read_log()
    assert len(run.rows) == len(A3_MEGA)
    (asked,) = (request for request in cluster.requests if "/log?" in request)
    assert "container=nccl-test" in asked
