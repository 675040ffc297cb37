"""What a destroy would meet, before anybody runs it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from gpudirect import cluster_access, orphans, teardown
from gpudirect.cli.teardown import command
from gpudirect.orphans import Cloud, OrphanSearchError, owned_resources
from gpudirect.settings import Settings, load_settings
from tests.stack_config import PROJECT as CONFIG_PROJECT
from tests.stack_config import full_config

PROJECT = "example-project"
CLUSTER = "gcp:container/cluster:Cluster"


def _settings(**overrides: Any) -> Settings:
    config = full_config("staging", **overrides)
    prefix = f"{CONFIG_PROJECT}:"
    return load_settings(
        stack_name="staging",
        values={k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)},
        gcp={"region": config["gcp:region"], "project": PROJECT},
    )


class _Cloud(Cloud):
    def __init__(self, *rules: tuple[str, str]) -> None:
        link = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks"
        self.rules = [{"name": name, "network": f"{link}/{network}"} for name, network in rules]

    def firewall_rules(self, project: str) -> Iterator[Mapping[str, Any]]:
        assert project == PROJECT
        yield from self.rules


def _pod(name: str, *networks: str, phase: str = "Running") -> dict[str, Any]:
    interfaces = [{"interfaceName": f"eth{n}", "network": name} for n, name in enumerate(networks)]
    return {
        "metadata": {
            "name": name,
            "namespace": "training",
            "annotations": {"networking.gke.io/interfaces": json.dumps(interfaces)},
        },
        "status": {"phase": phase},
    }


def _service(name: str, kind: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "web"}, "spec": {"type": kind}}


def test_protection_in_the_state_comes_with_its_two_commands() -> None:
    resources = [{"type": CLUSTER, "outputs": {"name": "staging-cluster"}}]
    state: dict[str, Any] = {"deployment": {"resources": resources}}
    settings = _settings()
    assert list(teardown.protection(state, settings)) == []
    assert list(teardown.protection({"deployment": None}, settings)) == []
    resources[0]["outputs"] = {"name": "staging-cluster", "deletionProtection": True}
    (found,) = teardown.protection(state, settings)
    assert found.stops
    assert found.what == "gpudirect:deletionProtection of cluster staging-cluster"
    assert found.remedy == (
        "pulumi config set deletionProtection false --stack staging && pulumi up --stack staging"
    )


def test_a_rule_of_somebody_else_in_the_fabric_is_named_with_its_network() -> None:
    settings = _settings()
    own = [r for r in owned_resources(settings, PROJECT) if "firewalls" in r.id]
    rules = [(r.name, f"staging-net-{n}") for n, r in enumerate(own, 1)]
    elsewhere = [("gke-demo-x", "default"), ("gke-demo-y", "other-net-2")]
    cloud = _Cloud(*rules, *elsewhere, ("gke-demo-x", "staging-net-2"))
    (found,) = teardown.foreign_rules(settings, PROJECT, cloud)
    assert found.stops
    assert found.what == "firewall rule gke-demo-x"
    assert "staging-net-2" in found.because
    assert found.remedy == (f"gcloud compute firewall-rules delete gke-demo-x --project={PROJECT}")


def test_the_rules_that_gke_takes_away_with_the_cluster_are_in_nobody_s_way() -> None:
    settings = _settings(clusterNetwork="create")
    names = ("gke-staging-cluster-0a1b2c3d-vms", "k8s-fw-a1b2")
    cloud = _Cloud(*[(name, "staging-net") for name in names])
    found = list(teardown.foreign_rules(settings, PROJECT, cloud))
    assert [entry.what for entry in found] == ["firewall rule k8s-fw-a1b2"]


@pytest.mark.parametrize(("network", "stops"), [("default", False), ("create", True)])
def test_a_load_balancer_stops_a_destroy_only_where_the_network_is_the_stack_s_own(
    network: str, stops: bool
) -> None:
    services = [_service("front", "LoadBalancer"), _service("back", "ClusterIP")]
    (found,) = teardown.workloads([], services, _settings(clusterNetwork=network))
    assert found.stops is stops
    assert found.what == "Service web/front"
    assert found.remedy == "kubectl delete service front -n web"


def test_a_pod_that_uses_device_networks_is_told_and_stops_nothing() -> None:
    pods = [
        _pod("training", "default", "vpc1", "vpc2"),
        _pod("over", "vpc1", phase="Succeeded"),
        _pod("plain", "default"),
        {"metadata": {"name": "bare", "namespace": "a"}},
        {
            "metadata": {
                "name": "broken",
                "namespace": "a",
                "annotations": {"networking.gke.io/interfaces": "[,]"},
            }
        },
    ]
    (found,) = teardown.workloads(pods, [], _settings())
    assert not found.stops
    assert found.what == "Pod training/training"
    assert "vpc1, vpc2" in found.because


@contextmanager
def _serving(answer: Callable[[str], tuple[int, Any]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            data = json.dumps(body).encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/compute/v1/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _at(address: str) -> Cloud:
    return Cloud(
        "googleapis.com",
        {"GOOGLE_COMPUTE_CUSTOM_ENDPOINT": address, "GOOGLE_OAUTH_ACCESS_TOKEN": "t"},
    )


def test_all_pages_of_rules_are_read() -> None:
    path = f"/compute/v1/projects/{PROJECT}/global/firewalls"
    pages = {
        path: {"items": [{"name": "a"}], "nextPageToken": "2"},
        f"{path}?pageToken=2": {},
    }
    with _serving(lambda target: (200, pages[target])) as address:
        assert [rule["name"] for rule in _at(address).firewall_rules(PROJECT)] == ["a"]


def test_a_refused_list_is_one_sentence() -> None:
    refusal = {"error": {"code": 403, "message": "Required 'compute.firewalls.list' permission"}}
    with (
        _serving(lambda _: (403, refusal)) as address,
        pytest.raises(OrphanSearchError, match=r"answered 403 Required 'compute.firewalls.list'"),
    ):
        list(_at(address).firewall_rules(PROJECT))


@pytest.mark.parametrize(("rules", "code"), [([], 0), ([("gke-demo-x", "staging-net-2")], 1)])
def test_the_command_ends_with_1_where_a_destroy_would_not_get_through(
    monkeypatch: pytest.MonkeyPatch, rules: list[tuple[str, str]], code: int
) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise cluster_access.ClusterAccessError("the API server https://x cannot be reached")

    monkeypatch.setattr(orphans, "Cloud", lambda *_: _Cloud(*rules))
    monkeypatch.setattr(orphans, "read_state", lambda *_, **__: {"deployment": None})
    monkeypatch.setattr(cluster_access, "read_stack_kubeconfig", silent)
    monkeypatch.setenv("GOOGLE_PROJECT", PROJECT)
    done = CliRunner().invoke(command, ["--stack", "staging"])
    assert done.exit_code == code, done.output
    assert ("gke-demo-x" in done.output) is bool(code)
    assert ("Nothing stands in the way" in done.output) is not bool(code)
    assert "https://x cannot be reached" in done.output
    document = json.loads(CliRunner().invoke(command, ["--stack", "staging", "--json"]).output)
    assert len(document["obstacles"]) == code
    assert "cannot be reached" in document["clusterSilent"]
