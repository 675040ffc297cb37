"""A tiny HTTP server that answers in Google's shapes and writes down what it was asked.

It is the counterpart of the plug-in tests only: operations are DONE at once, a GET is the echo of
the POST with what the API adds [facts real-provider.md "What answers must hold"]. It judges
nothing; the sandbox's own cloud does.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Json = dict[str, Any]
Answer = tuple[int, Json]


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    body: Json | None
    headers: dict[str, str]

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class GoogleStub:
    """The server's memory; tests read `requests` and change `resources` and `rules`."""

    requests: list[Request] = field(default_factory=list)
    resources: dict[str, Json] = field(default_factory=dict)
    services: set[str] = field(default_factory=set)
    rules: list[Callable[[Request], Answer | None]] = field(default_factory=list)
    """Asked first, newest last; an answer of one of them is final."""
    port: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def lines(self) -> list[str]:
        return [request.line for request in self.requests]

    @property
    def bodies(self) -> list[Json]:
        return [request.body for request in self.requests if request.body is not None]

    def take(self) -> list[str]:
        """Return the request lines so far and forget them."""
        lines = self.lines
        self.requests.clear()
        return lines

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            for rule in self.rules:
                found = rule(request)
                if found is not None:
                    return found
            api, _, path = request.path.lstrip("/").partition("/")
            return {
                "compute": self._compute,
                "container": self._container,
                "serviceusage": self._service_usage,
                "resourcemanager": self._resource_manager,
            }[api](request, path.partition("/")[2])

    def _compute(self, request: Request, path: str) -> Answer:
        if "/operations/" in path:
            return 200, {"name": path.rsplit("/", 1)[-1], "status": "DONE"}
        operation: Json = {"kind": "compute#operation", "name": "op-1", "status": "DONE"}
        if "/regions/" in path:
            operation["region"] = "/".join(path.split("/")[:4])
        if request.method == "POST" and path.endswith("/expandIpCidrRange"):
            self.resources[path.rsplit("/", 1)[0]] |= request.body or {}
            return 200, operation
        if request.method == "POST":
            name = str((request.body or {})["name"])
            self.resources[f"{path}/{name}"] = {
                **(request.body or {}),
                "id": "123456789012345678",
                "creationTimestamp": "2026-12-01T03:00:00.000-08:00",
                "selfLink": f"https://www.googleapis.com/compute/v1/{path}/{name}",
            }
            return 200, operation
        return self._item(request, path, operation)

    def _item(self, request: Request, path: str, operation: Json) -> Answer:
        if path not in self.resources:
            return not_found(path)
        if request.method == "GET":
            return 200, copy.deepcopy(self.resources[path])
        if request.method == "DELETE":
            del self.resources[path]
        else:
            self.resources[path] |= request.body or {}
        return 200, operation

    def _container(self, request: Request, path: str) -> Answer:
        operation: Json = {"name": "operation-1", "status": "DONE", "operationType": "X"}
        if "/operations/" in path:
            return 200, operation
        if request.method == "POST" and path.endswith(":setResourceLabels"):
            cluster = self.resources[path.partition(":")[0]]
            cluster["resourceLabels"] = (request.body or {})["resourceLabels"]
            return 200, operation
        if request.method == "POST" and ":set" in path:
            return 200, operation
        if request.method == "POST" and path.endswith("/clusters"):
            cluster = copy.deepcopy((request.body or {})["cluster"])
            location = path.split("/")[3]
            cluster |= running(location, cluster)
            self.resources[f"{path}/{cluster['name']}"] = cluster
            return 200, operation
        if request.method == "PUT":
            apply_update(self.resources[path], (request.body or {})["update"])
            return 200, operation
        return self._item(request, path, operation)

    def _service_usage(self, request: Request, path: str) -> Answer:
        project = path.split("/")[1]
        if request.method == "POST":
            name, _, action = path.rsplit("/", 1)[-1].partition(":")
            (self.services.add if action == "enable" else self.services.discard)(name)
            return 200, {"name": "operations/acf.1", "done": True, "response": {}}
        names = [{"name": f"projects/123/services/{name}"} for name in sorted(self.services)]
        assert project
        return 200, {"services": names} if names else {}

    def _resource_manager(self, request: Request, path: str) -> Answer:
        project = path.split("/")[1]
        return 200, {
            "projectId": project,
            "projectNumber": "123456789012",
            "lifecycleState": "ACTIVE",
            "name": "Project",
        }


def running(location: str, cluster: Json) -> Json:
    """What GKE adds to a cluster that was asked for."""
    return {
        "status": "RUNNING",
        "location": location,
        "endpoint": "10.1.2.3",
        "currentMasterVersion": cluster.get("initialClusterVersion", "1.33.5-gke.1308000"),
        "currentNodeVersion": cluster.get("initialClusterVersion", "1.33.5-gke.1308000"),
        "masterAuth": {"clusterCaCertificate": "LS0tLS1CRUdJTi"},
        "labelFingerprint": "a9dc16a7",
        "selfLink": f"https://container.googleapis.com/v1beta1/x/{cluster['name']}",
        "networkConfig": {
            **cluster.get("networkConfig", {}),
            "network": cluster.get("network", ""),
            "subnetwork": cluster.get("subnetwork", "projects/p/regions/r/subnetworks/default"),
        },
        "releaseChannel": cluster.get("releaseChannel", {"channel": "REGULAR"}),
    }


def apply_update(cluster: Json, update: Json) -> None:
    """Carry the updates that tests use into the cluster."""
    for key, value in update.items():
        if key == "desiredEnableMultiNetworking":
            cluster["networkConfig"]["enableMultiNetworking"] = value
        elif key == "desiredAutopilotWorkloadPolicyConfig":
            cluster["autopilot"]["workloadPolicyConfig"] = value
        elif key == "desiredMasterVersion":
            cluster["currentMasterVersion"] = value
        elif key == "desiredReleaseChannel":
            cluster["releaseChannel"] = value


def not_found(path: str) -> Answer:
    return error(404, f"The resource '{path}' was not found", "notFound")


def error(code: int, message: str, reason: str) -> Answer:
    """An error body in Google's form [facts real-provider.md]."""
    return code, {
        "error": {
            "code": code,
            "message": message,
            "errors": [{"message": message, "domain": "global", "reason": reason}],
        }
    }


def serve(stub: GoogleStub) -> Callable[[], None]:
    """Start the server on a free loopback port; return what stops it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet for an answer: two of them wait 40 ms for each other's acknowledgement.
        wbufsize = -1

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            request = Request(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                json.loads(text) if text else None,
                dict(self.headers.items()),
            )
            code, body = stub.answer(request)
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
