"""Whose an object is that a stack is about to make in a cluster [R33]."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import kubernetes
import pytest

from gpudirect.existing_objects import ForeignObjectError, check_owner

LABEL, OWNER = "gpudirect-stack", "staging"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpudirect-system"}}
INSTALLER = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "installer", "namespace": "gpudirect-system"},
}
NETWORK = {
    "apiVersion": "networking.gke.io/v1",
    "kind": "GKENetworkParamSet",
    "metadata": {"name": "vpc1"},
}
PATHS = {
    "Namespace": "/api/v1/namespaces/gpudirect-system",
    "DaemonSet": "/apis/apps/v1/namespaces/gpudirect-system/daemonsets/installer",
    "GKENetworkParamSet": "/apis/networking.gke.io/v1/gkenetworkparamsets/vpc1",
}


class ApiServer:
    """Answers reads of single objects; everything else is not there."""

    def __init__(self) -> None:
        self.labels: dict[str, dict[str, str]] = {}
        self.status: dict[str, int] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status = outer.status.get(self.path, 200 if self.path in outer.labels else 404)
                body = json.dumps({"metadata": {"labels": outer.labels.get(self.path)}}).encode()
                self.send_response_only(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        address = f"http://127.0.0.1:{self.server.server_port}"
        self.client = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=address))

    def check(self, document: dict[str, Any]) -> None:
        check_owner(self.client, document, label=LABEL, owner=OWNER)


@pytest.fixture
def api() -> Iterator[ApiServer]:
    made = ApiServer()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with made.client:
        yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.mark.parametrize("document", [NAMESPACE, INSTALLER, NETWORK])
def test_what_is_not_there_may_be_made(api: ApiServer, document: dict[str, Any]) -> None:
    api.check(document)


@pytest.mark.parametrize("document", [NAMESPACE, INSTALLER, NETWORK])
def test_what_a_killed_update_left_is_this_stack_s_own(
    api: ApiServer, document: dict[str, Any]
) -> None:
    api.labels[PATHS[document["kind"]]] = {LABEL: OWNER}
    api.check(document)


@pytest.mark.parametrize("labels", [{}, {"team": "birds"}, {LABEL: "dev"}])
@pytest.mark.parametrize(
    ("document", "named", "command"),
    [
        (NAMESPACE, 'namespaces "gpudirect-system"', "namespace gpudirect-system"),
        (INSTALLER, 'daemonsets "installer"', "daemonset installer -n gpudirect-system"),
        (NETWORK, 'gkenetworkparamsets "vpc1"', "gkenetworkparamset vpc1"),
    ],
)
def test_what_somebody_else_made_is_refused_with_both_ways_out(
    api: ApiServer,
    document: dict[str, Any],
    named: str,
    command: str,
    labels: dict[str, str],
) -> None:
    api.labels[PATHS[document["kind"]]] = labels
    with pytest.raises(ForeignObjectError) as raised:
        api.check(document)
    text = str(raised.value)
    assert text.startswith(f"{named} already exists in the cluster")
    assert f"`kubectl delete {command}`" in text
    assert f"`kubectl label {command} --overwrite {LABEL}={OWNER}`" in text


def test_an_api_server_that_refuses_the_question_is_an_error(api: ApiServer) -> None:
    api.status[PATHS["Namespace"]] = 403
    with pytest.raises(kubernetes.client.exceptions.ApiException):
        api.check(NAMESPACE)
