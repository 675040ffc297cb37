"""A cluster runtime without clusters, and a client that speaks to the application in-process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import Receive, Scope, Send

from sandbox.cloud.app import create_app
from sandbox.cloud.core import Cloud
from sandbox.cloud.store import Store
from sandbox.cloud.view import StoreCloudView
from sandbox.contracts import ClusterEndpoint, ClusterKey, ProcessInfo

PROJECT = "sandbox-project"
REGION = "us-central1"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
AUTOPILOT = {
    "name": "demo",
    "autopilot": {"enabled": True, "workloadPolicyConfig": {"allowNetAdmin": True}},
    "networkConfig": {"enableMultiNetworking": True},
}


class StubRuntime:
    """Notes what it is asked for; `failure` makes the next start fail, `gate` makes it wait."""

    def __init__(self) -> None:
        self.running: dict[ClusterKey, dict[str, Any]] = {}
        self.calls: list[tuple[str, ClusterKey]] = []
        self.failure: str | None = None
        self.gate: asyncio.Event | None = None
        self.broken: set[ClusterKey] = set()
        self.port = 40_000

    async def start(self, key: ClusterKey, cluster: dict[str, Any]) -> ClusterEndpoint:
        self.calls.append(("start", key))
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise RuntimeError(self.failure)
        self.running[key] = cluster
        self.port += 1
        return ClusterEndpoint(endpoint=f"127.0.0.1:{self.port}", ca_certificate_pem=CERTIFICATE)

    async def update(self, key: ClusterKey, cluster: dict[str, Any]) -> None:
        self.calls.append(("update", key))
        if self.failure is not None:
            raise RuntimeError(self.failure)
        self.running[key] = cluster

    async def stop(self, key: ClusterKey, *, delete: bool) -> None:
        self.calls.append(("delete" if delete else "stop", key))
        self.running.pop(key, None)

    def problems(self, key: ClusterKey) -> Sequence[str]:
        return [f"etcd of {key.name} has ended"] if key in self.broken else []

    def processes(self) -> Sequence[ProcessInfo]:
        return [
            ProcessInfo(name="kube-apiserver", pid=1, cluster=key.context) for key in self.running
        ]


class Client:
    """The application over one database, on an event loop of its own, without sockets."""

    def __init__(self, database: Path, *, pace: float = 0, enabled: bool = True) -> None:
        self.store = Store(database)
        self.runtime = StubRuntime()
        self.app = create_app(self.store, self.runtime, pace=pace)
        self.cloud: Cloud = self.app.state.cloud
        self.portal: BlockingPortal
        self._enabled = enabled
        self._open = ExitStack()

    def __enter__(self) -> Client:
        self.portal = self._open.enter_context(start_blocking_portal())
        lifespan = self.app.router.lifespan_context(self.app)
        self._open.enter_context(self.portal.wrap_async_context_manager(lifespan))
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://sandbox")
        if self._enabled:
            self.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self.portal.call(self.http.aclose)
        self._open.close()
        self.store.close()

    def enable(self, project: str = PROJECT) -> None:
        """Switch Compute and GKE on."""
        self.admin(
            "PUT",
            f"projects/{project}",
            {"enabledServices": ["compute.googleapis.com", "container.googleapis.com"]},
        )

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return status and JSON body."""
        answer = self.send(method, path, body)
        return answer.status_code, answer.json()

    def send(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a request; a body of bytes goes out as it is, anything else as JSON."""

        async def send() -> httpx.Response:
            if isinstance(body, bytes):
                return await self.http.request(method, path, content=body)
            return await self.http.request(method, path, json=body)

        return self.portal.call(send)

    def send_raw(self, method: str, path: str, content: bytes, content_type: str) -> httpx.Response:
        """Send bytes with a content type."""

        async def send() -> httpx.Response:
            headers = {"content-type": content_type}
            return await self.http.request(method, path, content=content, headers=headers)

        return self.portal.call(send)

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON body of a request that must succeed."""
        status, answer = self.request(method, path, body)
        assert status == 200, answer
        return answer

    def refused(self, method: str, path: str, body: object = None) -> tuple[int, str, str]:
        """Return status, reason and message of a request that must be refused."""
        status, answer = self.request(method, path, body)
        assert status >= 400, answer
        error = answer["error"]
        assert error["code"] == status
        assert error["errors"][0]["message"] == error["message"]
        return status, error["errors"][0]["reason"], error["message"]

    def admin(self, method: str, path: str, body: object = None) -> Any:
        return self.ok(method, f"/sandbox/v1/{path}", body)

    # Compute in short

    def compute(self, method: str, path: str, body: object = None) -> Any:
        return self.ok(method, compute(path), body)

    def network(self, name: str, **fields: Any) -> dict[str, Any]:
        """Insert a custom mode network and return its operation."""
        body = {"name": name, "autoCreateSubnetworks": False, **fields}
        answer: dict[str, Any] = self.compute("POST", "global/networks", body)
        return answer

    def subnetwork(
        self, name: str, network: str, cidr: str, region: str = REGION, **fields: Any
    ) -> dict[str, Any]:
        body = {
            "name": name,
            "network": f"projects/{PROJECT}/global/networks/{network}",
            "ipCidrRange": cidr,
            **fields,
        }
        answer: dict[str, Any] = self.compute("POST", f"regions/{region}/subnetworks", body)
        return answer

    def firewall(self, name: str, network: str, **fields: Any) -> dict[str, Any]:
        body = {
            "name": name,
            "network": f"projects/{PROJECT}/global/networks/{network}",
            "allowed": [{"IPProtocol": "icmp"}],
            "sourceRanges": ["192.168.0.0/16"],
            **fields,
        }
        answer: dict[str, Any] = self.compute("POST", "global/firewalls", body)
        return answer

    # GKE in short

    def cluster(self, **fields: Any) -> dict[str, Any]:
        """Create a cluster and return it once its operation is done."""
        operation = self.ok("POST", clusters(), {"cluster": {**AUTOPILOT, **fields}})
        self.settle()
        done = self.ok("GET", f"{locations()}/operations/{operation['name']}")
        assert done["status"] == "DONE"
        name = fields.get("name", AUTOPILOT["name"])
        answer: dict[str, Any] = self.ok("GET", clusters(name))
        return answer

    def settle(self) -> None:
        """Wait until no operation is open."""
        self.portal.call(self.cloud.operations.drain)

    def hang(self, action: str) -> None:
        """Let operations of an action stay RUNNING until `let_go`."""
        rule = {"operation": f"^{action}$", "hang": True}
        self.admin("PUT", f"faults/hang-{action}", rule)

    def let_go(self) -> None:
        """End all fault plans and wait until no operation is open."""
        self.admin("DELETE", "faults")
        self.settle()

    def settle_all_but(self, *names: str) -> None:
        """Wait until no other operation than these is open."""
        for operation in self.store.operations(open_only=True):
            if operation.name not in names:
                self.portal.call(self.cloud.operations.wait, operation.name, 30)

    def hold_runtime(self) -> None:
        """Let control planes wait until `release_runtime`."""
        self.runtime.gate = asyncio.Event()

    def release_runtime(self) -> None:
        """Let the control planes come up."""
        gate = self.runtime.gate
        assert gate is not None
        self.runtime.gate = None
        self.portal.call(gate.set)

    def operation(self, name: str) -> dict[str, Any]:
        """Return what the operation log says of an operation."""
        log: Sequence[Mapping[str, Any]] = self.admin("GET", "operations")["operations"]
        return dict(next(entry for entry in log if entry["name"] == name))


class Served:
    """The application on a free port of loopback, for clients that are programs of their own."""

    def __init__(self, database: Path) -> None:
        self._store = Store(database)
        self.runtime = StubRuntime()
        self.view = StoreCloudView(self._store)
        self._app = create_app(self._store, self.runtime, pace=0)
        # websockets are of no use here, and uvicorn's support for them warns.
        config = uvicorn.Config(
            self._overtaking,
            interface="asgi3",
            host="127.0.0.1",
            port=0,
            log_level="warning",
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._others: dict[tuple[str, str], Callable[[], None]] = {}
        self.url = ""

    def __enter__(self) -> Served:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(listener),))
        self._thread.start()
        return self

    async def _serve(self, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve(sockets=[listener])

    async def _overtaking(self, scope: Scope, receive: Receive, send: Send) -> None:
        for method, end in list(self._others):
            here = scope["type"] == "http" and scope["path"].endswith(end)
            if here and scope["method"] == method:
                await asyncio.to_thread(self._others.pop((method, end)))
        await self._app(scope, receive, send)

    def overtake(self, method: str, end: str, other: Callable[[], None]) -> None:
        """Let somebody else be quicker once: `other` is done before such a request is."""
        self._others[method, end] = other

    def settle(self) -> None:
        """Wait until no operation is open."""
        drained = self._app.state.cloud.operations.drain()
        asyncio.run_coroutine_threadsafe(drained, self._loop).result(60)

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._store.close()


def compute(path: str, project: str = PROJECT) -> str:
    """Return a Compute path as the provider plug-in uses it."""
    return f"/compute/v1/projects/{project}/{path}"


def locations(location: str = REGION, project: str = PROJECT) -> str:
    """Return a GKE path as the provider plug-in uses it."""
    return f"/container/v1beta1/projects/{project}/locations/{location}"


def clusters(name: str = "", location: str = REGION, project: str = PROJECT) -> str:
    """Return the path of the clusters of a location, or of one of them."""
    return f"{locations(location, project)}/clusters{'/' if name else ''}{name}"


def error_of(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error of a Compute operation that must have failed."""
    assert operation["status"] == "DONE"
    error: dict[str, Any] = operation["error"]["errors"][0]
    return error
