"""Events about Pods, as kubelet and cluster autoscaler write them.

Owns their form, the counting of repeated ones, and writing them in order without holding up what
they tell of.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from sandbox.gke.api import ApiError, KubernetesApi
from sandbox.gke.resource_types import EVENTS

KubeObject = dict[str, Any]
_log = logging.getLogger(__name__)
_MOST_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """One event to write."""

    pod: KubeObject
    kind: str
    reason: str
    message: str
    host: str
    time: str


class EventRecorder:
    """Writes the events of one component; close it at the end."""

    def __init__(self, api: KubernetesApi, component: str) -> None:
        self._api = api
        self._component = component
        self._names: dict[tuple[str, str, str], tuple[str, int]] = {}
        self._entries: asyncio.Queue[_Entry] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None

    def normal(self, pod: KubeObject, reason: str, message: str, host: str = "") -> None:
        """Record something that went as it should."""
        self._record(pod, "Normal", reason, message, host)

    def warning(self, pod: KubeObject, reason: str, message: str, host: str = "") -> None:
        """Record something that went wrong."""
        self._record(pod, "Warning", reason, message, host)

    async def close(self) -> None:
        """Stop; what is not written yet is dropped."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    def _record(self, pod: KubeObject, kind: str, reason: str, message: str, host: str) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._entries.put_nowait(
            _Entry(pod=pod, kind=kind, reason=reason, message=message, host=host, time=now)
        )
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while True:
            entry = await self._entries.get()
            try:
                await self._write(entry)
            except (ApiError, httpx.TransportError) as error:
                # The Pod or its namespace may be gone by now; an event is never worth more.
                name = entry.pod["metadata"]["name"]
                _log.debug("event %s for %s not written: %s", entry.reason, name, error)

    async def _write(self, entry: _Entry) -> None:
        metadata = entry.pod["metadata"]
        key = (metadata["uid"], entry.reason, entry.message)
        known = self._names.get(key)
        if known is not None:
            name, count = known
            self._names[key] = (name, count + 1)
            changes = {"count": count + 1, "lastTimestamp": entry.time}
            await self._api.patch(EVENTS, name, changes, metadata["namespace"])
            return
        name = f"{metadata['name']}.{uuid.uuid4().hex[:16]}"
        while len(self._names) >= _MOST_REMEMBERED:
            del self._names[next(iter(self._names))]
        self._names[key] = (name, 1)
        await self._api.create(EVENTS, _event(entry, name, self._component))


def _event(entry: _Entry, name: str, component: str) -> KubeObject:
    metadata = entry.pod["metadata"]
    source = {"component": component} | ({"host": entry.host} if entry.host else {})
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
        "type": entry.kind,
        "reason": entry.reason,
        "message": entry.message,
        "source": source,
        "reportingComponent": component,
        "reportingInstance": entry.host,
        "firstTimestamp": entry.time,
        "lastTimestamp": entry.time,
        "count": 1,
    }
