"""A small asynchronous client of the Kubernetes API.

Owns: requests, watches and the errors of one API server, for the controllers of the sandbox. Does
not own: typed objects (everything is a plain mapping, as JSON gives it), caches with indexes, or
work queues. The official client is made of threads and blocking reads; the controllers of several
clusters share one event loop here, and a watch in it is one coroutine.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import yaml

from sandbox.gke.resource_types import ResourceType

KubeObject = dict[str, Any]
"""One Kubernetes object as JSON gives it."""

FIELD_MANAGER = "gke-sandbox"
"""What `metadata.managedFields` says about everything written through this client."""

_WATCH_SECONDS = 300
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
PatchType = Literal["merge", "strategic", "json", "apply"]


class ApiError(Exception):
    """The API server refused a request.

    Attributes:
        code: HTTP status code.
        reason: The Status object's reason, such as `NotFound`, `Conflict` or `Invalid`.
        message: The Status object's message, as kubectl prints it.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class ChangeType(StrEnum):
    """What happened to an object; `SYNCED` says that every object that existed was reported."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    SYNCED = "SYNCED"


@dataclass(frozen=True, slots=True)
class Change:
    """One change that `KubernetesApi.follow` reports; `object` is empty for `SYNCED`."""

    type: ChangeType
    object: KubeObject


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list answer and the version that a watch may continue from."""

    items: list[KubeObject]
    resource_version: str


class KubernetesApi:
    """One API server, seen with one client certificate.

    Use it as an asynchronous context manager, or call `aclose`.
    """

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            server: `https://host:port`.
            context: Trusts the server's CA and holds the client certificate.
        """
        self._client = httpx.AsyncClient(
            base_url=server,
            verify=context,
            timeout=httpx.Timeout(30.0, connect=5.0),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16),
            headers={"User-Agent": FIELD_MANAGER, "Accept": "application/json"},
            trust_env=False,
        )

    @classmethod
    def from_kubeconfig(cls, path: str | Path) -> Self:
        """Read server, CA and client certificate from a kubeconfig that names files for all three.

        Raises:
            ValueError: the file's current context is not of that shape.
        """
        config = yaml.safe_load(Path(path).read_text())
        try:
            cluster = config["clusters"][0]["cluster"]
            user = config["users"][0]["user"]
            context = ssl.create_default_context(cafile=cluster["certificate-authority"])
            context.load_cert_chain(user["client-certificate"], user["client-key"])
            return cls(cluster["server"], context)
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(
                f"{path}: expected certificate-authority, client-certificate and client-key"
                f" as file names; missing {error}"
            ) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def probe(self, path: str = "/readyz") -> int | None:
        """Ask a health path; return the HTTP status, or None if nobody answers."""
        try:
            return (await self._client.get(path)).status_code
        except httpx.TransportError:
            return None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        impersonate: str = "",
    ) -> KubeObject:
        """Send one request, as another user if one is named, and return the JSON answer.

        Raises:
            ApiError: the server answered with an error.
            httpx.TransportError: it did not answer.
        """
        content = None if body is None else json.dumps(body)
        headers = {} if content is None else {"Content-Type": content_type}
        if impersonate:
            headers["Impersonate-User"] = impersonate
        response = await self._client.request(
            method,
            path,
            content=content,
            params=dict(params or {}),
            headers=headers,
        )
        if response.is_error:
            raise _api_error(response)
        answer = response.json()
        return answer if isinstance(answer, dict) else {"value": answer}

    async def get(
        self, kind: ResourceType, name: str, namespace: str | None = None
    ) -> KubeObject | None:
        """Return one object, or None if it does not exist."""
        try:
            return await self.request("GET", kind.path(namespace, name))
        except ApiError as error:
            if error.code == httpx.codes.NOT_FOUND:
                return None
            raise

    async def list(
        self,
        kind: ResourceType,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        """List objects, of all namespaces if none is given.

        Items get `apiVersion` and `kind`, which list answers leave out.
        """
        params = _selectors(label_selector, field_selector)
        answer = await self.request("GET", kind.path(namespace), params=params)
        items = [_typed(item, kind) for item in answer.get("items") or []]
        return ObjectList(items, answer["metadata"].get("resourceVersion", ""))

    async def create(
        self, kind: ResourceType, body: KubeObject, *, subresource: str = "", dry_run: bool = False
    ) -> KubeObject:
        """Create an object; its namespace, if it has one, is read from its metadata."""
        metadata = body.get("metadata") or {}
        name = metadata.get("name", "") if subresource else ""
        path = kind.path(metadata.get("namespace"), name, subresource)
        params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if dry_run:
            params["dryRun"] = "All"
        return await self.request("POST", path, body=body, params=params)

    async def patch(
        self,
        kind: ResourceType,
        name: str,
        patch: object,
        namespace: str | None = None,
        *,
        subresource: str = "",
        patch_type: PatchType = "merge",
    ) -> KubeObject:
        """Patch an object or a subresource of it, `status` above all."""
        params = {"fieldManager": FIELD_MANAGER}
        if patch_type == "apply":
            params["force"] = "true"
        return await self.request(
            "PATCH",
            kind.path(namespace, name, subresource),
            body=patch,
            params=params,
            content_type=_PATCH_TYPES[patch_type],
        )

    async def apply(self, kind: ResourceType, body: KubeObject) -> KubeObject:
        """Server-side apply: create the object or bring it to this state."""
        metadata = body["metadata"]
        return await self.patch(
            kind, metadata["name"], body, metadata.get("namespace"), patch_type="apply"
        )

    async def delete(
        self,
        kind: ResourceType,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_seconds: int | None = None,
    ) -> bool:
        """Delete an object; return False if there was none."""
        params = (
            {}
            if grace_period_seconds is None
            else {"gracePeriodSeconds": str(grace_period_seconds)}
        )
        try:
            await self.request("DELETE", kind.path(namespace, name), params=params)
        except ApiError as error:
            if error.code == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    async def watch(
        self,
        kind: ResourceType,
        resource_version: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[KubeObject]:
        """Yield raw watch events, `BOOKMARK` included, until the server ends the watch.

        Raises:
            ApiError: the version is too old (code 410), or another error came down the stream.
            httpx.TransportError: the connection broke.
        """
        params = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = httpx.Timeout(30.0, connect=5.0, read=_WATCH_SECONDS + 30.0)
        path = kind.path(namespace)
        async with self._client.stream("GET", path, params=params, timeout=timeout) as response:
            if response.is_error:
                await response.aread()
                raise _api_error(response)
            async for line in response.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(
                        status.get("code", 0), status.get("reason", ""), status.get("message", "")
                    )
                yield event

    async def follow(
        self,
        kind: ResourceType,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[Change]:
        """Yield every object that exists, then `SYNCED`, then each change, for ever.

        A lost connection, a server that restarts and a version that expired (410 Gone) are
        survived: the objects are listed again, what went missing meanwhile is reported as
        `DELETED` with its last state, and another `SYNCED` follows. Objects that did not change
        in between are not reported twice.
        """
        known: dict[str, KubeObject] = {}
        pause = 0.05
        while True:
            try:
                async for change in self._list_and_watch(
                    kind, namespace, label_selector, field_selector, known
                ):
                    pause = 0.05
                    yield change
            except (httpx.TransportError, ApiError) as error:
                if isinstance(error, ApiError) and error.code in _NEVER_RIGHT:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)

    async def _list_and_watch(
        self,
        kind: ResourceType,
        namespace: str | None,
        label_selector: str,
        field_selector: str,
        known: dict[str, KubeObject],
    ) -> AsyncIterator[Change]:
        """List once, report the differences to `known`, then watch until the stream breaks."""
        listed = await self.list(
            kind, namespace, label_selector=label_selector, field_selector=field_selector
        )
        present = {item["metadata"]["uid"] for item in listed.items}
        for uid in [uid for uid in known if uid not in present]:
            yield Change(ChangeType.DELETED, known.pop(uid))
        for item in listed.items:
            before = known.get(item["metadata"]["uid"])
            if before is None or _version(before) != _version(item):
                known[item["metadata"]["uid"]] = item
                yield Change(ChangeType.ADDED if before is None else ChangeType.MODIFIED, item)
        yield Change(ChangeType.SYNCED, {})
        resource_version = listed.resource_version
        while True:
            async for event in self.watch(
                kind,
                resource_version,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            ):
                item = event["object"]
                resource_version = _version(item)
                if event["type"] == "BOOKMARK":
                    continue
                if event["type"] == "DELETED":
                    known.pop(item["metadata"]["uid"], None)
                else:
                    known[item["metadata"]["uid"]] = item
                yield Change(ChangeType(event["type"]), item)


_NEVER_RIGHT = frozenset({httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.BAD_REQUEST})
"""Answers that the same request will get again. 404 is not one: the kind may come later."""


def _version(item: KubeObject) -> str:
    return str(item["metadata"]["resourceVersion"])


def _typed(item: KubeObject, kind: ResourceType) -> KubeObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind} | item


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    params = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in params.items() if value}


def _api_error(response: httpx.Response) -> ApiError:
    try:
        status = response.json()
    except ValueError:
        return ApiError(response.status_code, response.reason_phrase, response.text)
    return ApiError(
        response.status_code,
        status.get("reason", response.reason_phrase),
        status.get("message", response.text),
    )
