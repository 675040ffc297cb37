from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes
import pytest

from gpudirect.cluster_evidence import collect_evidence
from gpudirect.diagnosis import diagnose
from tests.unit.cluster_objects import (
    NAMESPACE,
    NETWORKS,
    addon_pod,
    daemonset,
    event,
    gpu_node,
    gpu_pod,
    network,
    parameter_set,
)

NOW = "Tue, 01 Dec 2026 10:10:00 GMT"
CORE = "/api/v1"
NETWORKING = "/apis/networking.gke.io/v1"


class FakeCluster:
    """An API server that answers reads from a table of paths."""

    def __init__(self) -> None:
        self.items: dict[str, list[Any]] = {}
        self.logs: dict[str, str] = {}
        self.status: dict[str, int] = {}
        self.requests: list[str] = []
        self.page_size = 500

    def answer(self, target: str) -> tuple[int, bytes]:
        url = urlsplit(target)
        query = parse_qs(url.query)
        self.requests.append(target)
        status = self.status.get(url.path, 200)
        if status != 200:
            return status, b'{"kind": "Status"}'
        if url.path.endswith("/log"):
            previous = ["?previous"] if query.get("previous") == ["true"] else [""]
            container = f"{url.path}:{query['container'][0]}{previous[0]}"
            return 200, self.logs.get(container, "").encode()
        start = int(query.get("continue", ["0"])[0])
        everything = self.items.get(url.path, [])
        page = everything[start : start + self.page_size]
        end = start + len(page)
        metadata = {"continue": str(end)} if end < len(everything) else {}
        return 200, json.dumps({"metadata": metadata, "items": page}).encode()


@contextmanager
def serving(cluster: FakeCluster) -> Iterator[kubernetes.client.ApiClient]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = cluster.answer(self.path)
            self.send_response_only(status)
            self.send_header("Date", NOW)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    configuration = kubernetes.client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
    try:
        with kubernetes.client.ApiClient(configuration) as client:
            yield client
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster()
    pods = f"{CORE}/namespaces/{NAMESPACE}/pods"
    fake.items = {
        pods: [gpu_pod(), addon_pod("nccl-tcpxo-installer"), addon_pod("device-injector")],
        f"{NETWORKING}/networks": [network(name) for name in NETWORKS],
        f"{NETWORKING}/gkenetworkparamsets": [parameter_set(name) for name in NETWORKS],
        f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets": [
            daemonset("nccl-tcpxo-installer"),
            daemonset("device-injector"),
        ],
        f"{CORE}/nodes": [gpu_node()],
    }
    fake.logs = {
        f"{pods}/nccl-test-0/log:nccl-test": "2026-12-01T10:05:00.123456789Z # nThread 1 nGpus 1\n"
    }
    return fake


def test_a_cluster_becomes_evidence(cluster: FakeCluster) -> None:
    with serving(cluster) as client:
        evidence = collect_evidence(client, NAMESPACE, job="nccl-test")
    assert [pod["metadata"]["name"] for pod in evidence.pods][:1] == ["nccl-test-0"]
    assert len(evidence.pods) == 3
    assert evidence.networks is not None
    assert len(evidence.networks) == 8
    assert evidence.unreadable == ()
    assert evidence.logs["nccl-test-0", "nccl-test"] == ("# nThread 1 nGpus 1",)


def test_silence_is_measured_by_the_servers_clock(cluster: FakeCluster) -> None:
    with serving(cluster) as client:
        evidence = collect_evidence(client, NAMESPACE, job="nccl-test")
    assert evidence.silent_seconds["nccl-test-0", "nccl-test"] == 300.0
    assert diagnose(evidence)[0].cause == "firewall-closed"


def test_only_the_pods_of_the_job_are_asked_for(cluster: FakeCluster) -> None:
    with serving(cluster) as client:
        collect_evidence(client, NAMESPACE, job="nccl-test")
    queries = [parse_qs(urlsplit(request).query) for request in cluster.requests]
    assert ["batch.kubernetes.io/job-name=nccl-test"] in [q.get("labelSelector") for q in queries]


def test_every_namespace_is_searched_for_pods_on_the_gpu_network(cluster: FakeCluster) -> None:
    plain = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "w"}]},
    }
    cluster.items[f"{CORE}/pods"] = [plain, gpu_pod("train-0")]
    with serving(cluster) as client:
        evidence = collect_evidence(client, None)
    names = [pod["metadata"]["name"] for pod in evidence.pods]
    assert "train-0" in names
    assert "web" not in names


def test_a_cluster_without_the_network_kinds_is_told_from_one_without_objects(
    cluster: FakeCluster,
) -> None:
    cluster.status[f"{NETWORKING}/networks"] = 404
    with serving(cluster) as client:
        evidence = collect_evidence(client, NAMESPACE, job="nccl-test")
    assert evidence.networks is None
    assert diagnose(evidence)[0].cause == "multi-networking-missing"


def test_a_missing_right_is_said_and_is_no_missing_installer(cluster: FakeCluster) -> None:
    cluster.status[f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"] = 403
    cluster.logs = {}
    with serving(cluster) as client:
        evidence = collect_evidence(client, NAMESPACE, job="nccl-test")
    assert evidence.daemonsets is None
    assert any("daemonsets" in text and "403" in text for text in evidence.unreadable)
    assert not any(d.is_failure for d in diagnose(evidence))


def test_an_api_server_that_is_gone_leaves_only_unreadable_things(cluster: FakeCluster) -> None:
    with serving(cluster) as client:
        pass
    client.configuration.retries = False
    evidence = collect_evidence(kubernetes.client.ApiClient(client.configuration), NAMESPACE)
    assert evidence.pods == []
    assert evidence.unreadable


def test_the_log_before_a_restart_is_read_too(cluster: FakeCluster) -> None:
    pod = gpu_pod()
    status = pod["status"]["initContainerStatuses"][0]
    status |= {"restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    path = f"{CORE}/namespaces/{NAMESPACE}/pods"
    cluster.items[path][0] = pod
    cluster.logs[f"{path}/nccl-test-0/log:tcpxo-daemon?previous"] = (
        "2026-12-01T10:05:00Z Number of GPUs detected in the PCI tree 7\n"
    )
    with serving(cluster) as client:
        evidence = collect_evidence(client, NAMESPACE, job="nccl-test")
    assert diagnose(evidence)[0].cause == "gpu-count"


def test_lists_are_read_page_by_page(cluster: FakeCluster) -> None:
    cluster.page_size = 1
    with serving(cluster) as client:
        evidence = collect_evidence(client, NAMESPACE, job="nccl-test")
    assert len(evidence.pods) == 3


def test_events_of_other_jobs_are_left_out_and_the_newest_comes_first(cluster: FakeCluster) -> None:
    own, foreign = gpu_pod(), gpu_pod("other-0")
    cluster.items[f"{CORE}/namespaces/{NAMESPACE}/events"] = [
        event(own, "Old", "x") | {"lastTimestamp": "2026-12-01T10:00:00Z"},
        event(foreign, "Foreign", "x"),
        event(own, "New", "x") | {"lastTimestamp": "2026-12-01T10:01:00Z"},
    ]
    with serving(cluster) as client:
        evidence = collect_evidence(client, NAMESPACE, job="nccl-test")
    assert [item["reason"] for item in evidence.events] == ["New", "Old"]
