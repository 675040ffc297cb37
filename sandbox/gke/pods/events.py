"""Events about Pods, as kubelet and cluster autoscaler write them.

Owns their form and the counting of repeated ones.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from typing import Any

import httpx

from sandbox.gke.api import ApiError, KubernetesApi
from sandbox.gke.resource_types import EVENTS

KubeObject = dict[str, Any]
_log = logging.getLogger(__name__)
_MOST_REMEMBERED = 4096


class EventRecorder:
    """Writes the events of one component."""

    def __init__(self, api: KubernetesApi, component: str) -> None:
        self._api = api
        self._component = component
        self._names: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._lock = asyncio.Lock()

    async def normal(self, pod: KubeObject, reason: str, message: str, host: str = "") -> None:
        """Record something that went as it should."""
        await self._record(pod, "Normal", reason, message, host)

    async def warning(self, pod: KubeObject, reason: str, message: str, host: str = "") -> None:
        """Record something that went wrong."""
        await self._record(pod, "Warning", reason, message, host)

    async def _record(
        self, pod: KubeObject, kind: str, reason: str, message: str, host: str
    ) -> None:
        metadata = pod["metadata"]
        key = (metadata["uid"], reason, message)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            async with self._lock:
                known = self._names.get(key)
                if known is not None:
                    await self._repeat(metadata["namespace"], key, known, now)
                    return
                name = f"{metadata['name']}.{uuid.uuid4().hex[:16]}"
                self._remember(key, name)
            await self._api.create(
                EVENTS, _event(pod, name, self._component, host, kind, reason, message, now)
            )
        except (ApiError, httpx.TransportError) as error:
            # The Pod or its namespace may be gone by now; an event is never worth more.
            _log.debug("event %s for %s not written: %s", reason, metadata["name"], error)

    async def _repeat(
        self, namespace: str, key: tuple[str, str, str], known: tuple[str, int], now: str
    ) -> None:
        name, count = known
        self._names[key] = (name, count + 1)
        await self._api.patch(EVENTS, name, {"count": count + 1, "lastTimestamp": now}, namespace)

    def _remember(self, key: tuple[str, str, str], name: str) -> None:
        while len(self._names) >= _MOST_REMEMBERED:
            del self._names[next(iter(self._names))]
        self._names[key] = (name, 1)


def _event(
    pod: KubeObject,
    name: str,
    component: str,
    host: str,
    kind: str,
    reason: str,
    message: str,
    now: str,
) -> KubeObject:
    metadata = pod["metadata"]
    source = {"component": component} | ({"host": host} if host else {})
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "source": source,
        "reportingComponent": component,
        "reportingInstance": host,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
