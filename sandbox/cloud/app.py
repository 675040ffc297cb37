"""The HTTP side: one application that answers as Compute, GKE, Service Usage, Resource Manager.

Owns routing, reading requests and error bodies. The routes come from the registry; importing the
modules of the resource kinds fills it. Fault plans and the request log are in `gate`.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isawaitable

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from sandbox.cloud import (
    admin,
    batch,
    cluster_updates,
    cluster_versions,
    clusters,
    compute_operations,
    container_operations,
    firewalls,
    instances,
    networks,
    projects,
    regions,
    resource_policies,
    routes,
    services,
    subnetworks,
    view,
)
from sandbox.cloud.clusters import resume_clusters, suspend_clusters
from sandbox.cloud.core import Call, Cloud, check_project, project_number
from sandbox.cloud.errors import ApiError, api_disabled
from sandbox.cloud.gate import Gate
from sandbox.cloud.payload import not_json
from sandbox.cloud.registry import ENDPOINTS, GATES, PREFIXES, Endpoint
from sandbox.cloud.store import Store
from sandbox.contracts import ClusterRuntime

_log = logging.getLogger(__name__)
KINDS = (
    cluster_updates,
    cluster_versions,
    clusters,
    compute_operations,
    container_operations,
    firewalls,
    instances,
    networks,
    projects,
    regions,
    resource_policies,
    routes,
    services,
    subnetworks,
    view,
)
"""The modules that register endpoints and rules."""
_VERSIONS = {
    "compute": ("v1", "beta", "alpha"),
    "container": ("v1", "v1beta1"),
    "serviceusage": ("v1",),
    "resourcemanager": ("v1",),
}


class _VersionConvertor(Convertor[str]):
    regex = "v1|v1beta1|beta|alpha"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("apiversion", _VersionConvertor())


class _App(Starlette):
    """Starlette behind the gate, which has to be outside of all of Starlette's middleware."""

    def __init__(
        self,
        cloud: Cloud,
        routes: Sequence[BaseRoute],
        lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]],
    ) -> None:
        super().__init__(routes=routes, lifespan=lifespan)
        self.router.redirect_slashes = False
        self.state.cloud = cloud
        self._gate = Gate(super().__call__, cloud)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gate(scope, receive, send)


def create_app(
    store: Store, runtime: ClusterRuntime, *, pace: float, base_url: str | None = None
) -> Starlette:
    """Return the application; its lifespan starts and stops the clusters that the store holds.

    Args:
        store: Where the state is; closed by the caller.
        runtime: Starts the control planes.
        pace: 0 = operations end at once, 1 = Google's usual times.
        base_url: Where the application is served, for its own log lines; links in answers are
            Google's whatever it is.
    """
    cloud = Cloud(store, runtime, pace=pace)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await resume_clusters(cloud)
        cloud.operations.resume()
        _log.info("the cloud answers%s", f" at {base_url}" if base_url else "")
        yield
        await cloud.operations.close()
        await suspend_clusters(cloud)

    return _App(
        cloud,
        routes=[
            Route("/healthz", _health, methods=["GET"]),
            *admin.routes(cloud),
            *(route for known in ENDPOINTS for route in _routes(cloud, known)),
            Route("/batch/compute/{version:apiversion}", _batch, methods=["POST"]),
            Route("/{path:path}", _nothing_here, methods=_METHODS),
        ],
        lifespan=lifespan,
    )


_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _batch(request: Request) -> Response:
    return await batch.serve(request.app, request)


async def _nothing_here(request: Request) -> Response:
    error = ApiError(404, f"The requested URL {request.url.path} was not found.", "notFound")
    return JSONResponse(error.body("other"), status_code=404)


def _routes(cloud: Cloud, known: Endpoint) -> list[Route]:
    return [
        Route(f"{prefix}/{known.path}", _serve(cloud, known), methods=[known.method])
        for prefix in PREFIXES[known.api]
    ]


def _serve(cloud: Cloud, known: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        request.state.endpoint = known.id
        try:
            return JSONResponse(await _answer(cloud, known, request))
        except ApiError as refusal:
            error = refusal
        except Exception:  # noqa: BLE001 - a defect here must show as Google's 500
            _log.exception("%s broke", known.id)
            error = ApiError(500, "Internal error encountered.", "backendError")
        return JSONResponse(error.body(known.api), status_code=error.code)

    return serve


async def _answer(cloud: Cloud, known: Endpoint, request: Request) -> object:
    params = dict(request.path_params)
    version = params.pop("version")
    if version not in _VERSIONS[known.api]:
        raise ApiError(404, f"The requested URL {request.url.path} was not found.", "notFound")
    call = Call(
        cloud=cloud,
        params=params,
        query=dict(request.query_params),
        body=await _body(request),
        version=version,
    )
    if "project" in params:
        check_project(call.project)
        gate = GATES.get(known.api)
        if gate is not None and not cloud.service_enabled(call.project, gate):
            raise api_disabled(gate, project_number(call.project))
    with cloud.store.transaction():
        result = known.handler(call)
        if not isawaitable(result):
            return result
    return await result


async def _body(request: Request) -> object:
    raw = await request.body()
    if not raw:
        return None if request.method in ("GET", "DELETE") else {}
    try:
        body: object = json.loads(raw, parse_constant=_no_number, parse_float=_finite)
        if b"\\ud" in raw.lower():
            json.dumps(body, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise not_json(f"{error}") from None
    return body


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number
