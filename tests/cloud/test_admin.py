"""The sandbox's own namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cloud.stand_in import PROJECT, REGION, Client, clusters, compute


def test_healthz_answers(client: Client) -> None:
    assert client.ok("GET", "/healthz") == {"status": "ok"}


def test_resources_say_who_made_them(client: Client) -> None:
    client.network("n")
    client.subnetwork("s", "n", "10.0.0.0/24")
    client.cluster(network="n", subnetwork="s")
    shown = client.admin("GET", "resources")["resources"]
    by_user = {(entry["kind"], entry["name"]) for entry in shown if entry["madeBy"] == "user"}
    assert by_user == {("networks", "n"), ("subnetworks", "s"), ("clusters", "demo")}
    by_gke = [entry for entry in shown if entry["madeBy"] == "gke"]
    assert {entry["kind"] for entry in by_gke} == {"firewalls", "forwardingRules"}
    owner = f"projects/{PROJECT}/locations/{REGION}/clusters/demo"
    assert {entry["for"] for entry in by_gke} == {owner}
    everything = client.admin("GET", "resources?all=true")["resources"]
    assert {entry["madeBy"] for entry in everything} == {"user", "gke", "project", "network"}
    assert client.admin("GET", "resources?project=another") == {"resources": []}


def test_clusters_and_processes_are_listed(client: Client) -> None:
    cluster = client.cluster()
    context = f"gke_{PROJECT}_{REGION}_demo"
    assert client.admin("GET", "clusters")["clusters"] == [
        {
            "project": PROJECT,
            "location": REGION,
            "name": "demo",
            "context": context,
            "status": "RUNNING",
            "statusMessage": "",
            "version": "1.35.8-gke.1036000",
            "endpoint": cluster["endpoint"],
            "clusterCaCertificate": cluster["masterAuth"]["clusterCaCertificate"],
            "problems": [],
        }
    ]
    (key,) = client.runtime.running
    client.runtime.broken.add(key)
    (shown,) = client.admin("GET", "clusters")["clusters"]
    assert shown["problems"] == ["etcd of demo has ended"]
    processes = client.admin("GET", "processes")["processes"]
    assert processes == [{"name": "kube-apiserver", "pid": 1, "cluster": context}]


def test_the_request_log_names_endpoints_and_leaves_itself_out(client: Client) -> None:
    client.network("n")
    client.request("GET", compute("global/networks/nope"))
    client.request("GET", "/nowhere")
    entries = client.admin("GET", "requests")["requests"]
    assert [(entry["method"], entry["status"], entry["endpoint"]) for entry in entries] == [
        ("POST", 200, "compute POST projects/{project}/global/networks"),
        ("GET", 404, "compute GET projects/{project}/global/networks/{name}"),
        ("GET", 404, None),
    ]
    assert all(entry["seconds"] >= 0 for entry in entries)


def test_settings_hold(client: Client) -> None:
    assert client.admin("GET", "settings") == {"pace": 0.0, "seed": 0, "pendingFirst": False}
    wanted = {"pace": 0.001, "seed": 4, "pendingFirst": True}
    assert client.admin("PUT", "settings", wanted) == wanted
    assert client.network("n")["status"] == "PENDING"
    client.settle()


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("settings", {"speed": 1}, "speed"),
        ("settings", {"pace": -1}, "pace"),
        ("settings", {"pace": "fast"}, "pace"),
        ("settings", {"pace": True}, "pace"),
        ("settings", {"seed": 1.5}, "seed"),
        ("settings", {"pendingFirst": 1}, "pendingFirst"),
        ("settings", [], "object"),
        ("settings", b"{", "JSON"),
        ("projects/p", {"quota": {}}, "quota"),
        ("projects/p", {"quotas": []}, "quotas"),
        ("projects/p", {"quotas": {"NETWORK": 5}}, "NETWORK"),
        ("projects/p", {"quotas": {"NETWORKS": -5}}, "NETWORKS"),
        ("projects/p", {"quotas": {"NETWORKS": "5"}}, "NETWORKS"),
        ("projects/p", {"defaultNetwork": "no"}, "defaultNetwork"),
        ("projects/p", {"enabledServices": ["compute"]}, "enabledServices"),
        ("projects/p", {"enabledServices": [{}]}, "enabledServices"),
        ("stock", {"us-central1-a": 5}, "us-central1-a"),
        ("stock", {"us-central1-a": {"a3": 5}}, "a3"),
        ("stock", {"us-central1-a": {"a3-megagpu-8g": -1}}, "a3-megagpu-8g"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_name(
    client: Client, path: str, body: Any, words: str
) -> None:
    status, answer = client.request("PUT", f"/sandbox/v1/{path}", body)
    assert status == 400
    assert words in answer["error"]
    assert client.admin("GET", "settings")["pace"] == 0.0
    assert client.admin("GET", "stock") == {}


def test_a_project_can_be_looked_at_and_changed(client: Client) -> None:
    changed = client.admin(
        "PUT", "projects/p", {"quotas": {"NETWORKS": 5, "us-east4/NVIDIA_H100_GPUS": 0}}
    )
    assert changed["quotas"]["NETWORKS"] == 5
    assert changed["quotas"]["us-east4/NVIDIA_H100_GPUS"] == 0
    assert changed["quotas"]["FIREWALLS"] == 500
    assert changed["enabledServices"] == []
    assert changed["defaultNetwork"] is True
    again = client.admin("PUT", "projects/p", {"enabledServices": ["container.googleapis.com"]})
    assert again["quotas"]["NETWORKS"] == 5
    assert again["enabledServices"] == ["compute.googleapis.com", "container.googleapis.com"]
    assert len(again["number"]) == 12


def test_reset_leaves_nothing(tmp_path: Path) -> None:
    with Client(tmp_path / "cloud.db") as client:
        client.network("n")
        client.cluster()
        client.hang("networks.delete")
        client.compute("DELETE", "global/networks/n")
        client.admin("POST", "reset")
        assert client.runtime.running == {}
        assert ("delete", client.runtime.calls[0][1]) in client.runtime.calls
        assert client.admin("GET", "resources?all=true") == {"resources": []}
        assert client.admin("GET", "operations") == {"operations": []}
        assert client.admin("GET", "faults") == {"faults": {}}
        assert client.request("GET", clusters("demo"))[0] == 403
        client.enable()
        assert client.cluster()["status"] == "RUNNING"


def test_unknown_paths_and_methods_answer_404_in_googles_shape(client: Client) -> None:
    for method, path in (
        ("GET", "/"),
        ("GET", "/compute/v1/projects/p/global/addresses"),
        ("GET", "/compute/v1beta1/projects/p/global/networks"),
        ("GET", f"/v1beta1/projects/{PROJECT}/services"),
        ("DELETE", compute("global/networks")),
        ("PATCH", clusters("demo")),
    ):
        status, answer = client.request(method, path)
        assert (method, path, status) == (method, path, 404)
        assert answer["error"]["code"] == 404


def test_both_clients_paths_reach_the_same_resources(client: Client) -> None:
    client.network("n")
    client.cluster()
    for version in ("v1", "beta", "alpha"):
        assert client.ok("GET", f"/compute/{version}/projects/{PROJECT}/global/networks/n")
    for base in ("/v1", "/v1beta1", "/container/v1", "/container/v1beta1"):
        read = client.ok("GET", f"{base}/projects/{PROJECT}/locations/{REGION}/clusters/demo")
        assert read["selfLink"].startswith(
            f"https://container.googleapis.com/{base.rpartition('/')[2]}/"
        )
