"""What every handler and every operation works with.

Owns the `Cloud` (store, runtime, operations, faults, settings) and the `Call`, one request after
its body was read. Knows no resource kind.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.cloud import catalog
from sandbox.cloud.errors import ApiError, already_exists, not_found, not_ready
from sandbox.cloud.faults import Faults
from sandbox.cloud.links import path
from sandbox.cloud.operations import Operations
from sandbox.cloud.store import Record, Store
from sandbox.contracts import ClusterRuntime

_PROJECT = re.compile(r"(?:[a-z][-a-z0-9.]{0,61}:)?[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_PACIFIC = datetime.timezone(datetime.timedelta(hours=-8))
_REQUESTS_KEPT = 20_000


class State:
    """The store as every part of the cloud asks it: what is there, what limits hold."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def project_setting(self, project: str) -> dict[str, Any]:
        """Return what the admin namespace has set for a project."""
        found: dict[str, Any] = self.store.setting(f"project:{project}") or {}
        return found

    def project_quota(self, project: str, metric: str) -> int:
        """Return a limit that counts over the whole project."""
        quotas = self.project_setting(project).get("quotas", {})
        return int(quotas.get(metric, catalog.PROJECT_QUOTAS[metric]))

    def region_quota(self, project: str, region: str, metric: str) -> int:
        """Return a limit that counts per region: for one region, for all, or the catalogue's."""
        quotas = self.project_setting(project).get("quotas", {})
        default = quotas.get(metric, catalog.REGION_QUOTAS[metric])
        return int(quotas.get(f"{region}/{metric}", default))

    def require(self, kind: str, project: str, location: str, name: str) -> Record:
        """Return a resource that a client may see.

        Raises:
            ApiError: 404, also for a resource that is still being created.
        """
        record = self.store.get(kind, project, location, name)
        if record is None or record.state == "creating":
            raise not_found(path(project, location, kind, name))
        return record

    def require_ready(self, kind: str, project: str, location: str, name: str) -> Record:
        """Return a resource that can be changed or referred to.

        Raises:
            ApiError: 404, or 400 `resourceNotReady` while it is being created or deleted.
        """
        record = self.store.get(kind, project, location, name)
        where = path(project, location, kind, name)
        if record is None:
            raise not_found(where)
        if record.state != "ready":
            raise not_ready(where)
        return record

    def refuse_existing(self, kind: str, project: str, location: str, name: str) -> None:
        """Refuse to create what exists, in whatever state.

        Raises:
            ApiError: 409.
        """
        if self.store.get(kind, project, location, name) is not None:
            raise already_exists(path(project, location, kind, name))

    def visible(self, kind: str, project: str, location: str | None = None) -> list[Record]:
        """Return what a list call shows."""
        found = self.store.find(kind=kind, project=project, location=location)
        return [record for record in found if record.state != "creating"]

    def service_enabled(self, project: str, service: str) -> bool:
        """Return whether an API is on in a project."""
        return self.store.get("services", project, "global", service) is not None


class Cloud(State):
    """The stand-in cloud: one store, one cluster runtime."""

    def __init__(self, store: Store, runtime: ClusterRuntime, *, pace: float) -> None:
        super().__init__(store)
        self.runtime = runtime
        self.pace = pace
        self.faults = Faults(store)
        self.operations = Operations(self)
        self.requests: deque[dict[str, Any]] = deque(maxlen=_REQUESTS_KEPT)
        """The latest requests: method, path, status, start (Unix time) and seconds."""

    @property
    def seed(self) -> int:
        """Seed of the jitter of operation times."""
        return int(self.store.setting("seed") or 0)

    @property
    def answers_pending(self) -> bool:
        """Whether operations are answered before they are done even at pace 0."""
        return bool(self.store.setting("pendingFirst"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request to one endpoint."""

    cloud: Cloud
    params: Mapping[str, str]
    query: Mapping[str, str]
    body: object
    version: str

    @property
    def project(self) -> str:
        """The project id of the path."""
        return self.params["project"]

    @property
    def store(self) -> Store:
        """The cloud's store."""
        return self.cloud.store


def check_project(project: str) -> None:
    """Refuse what cannot be a project id; every other project exists.

    Raises:
        ApiError: 404.
    """
    if not _PROJECT.fullmatch(project):
        raise ApiError(404, f"The resource 'projects/{project}' was not found", "notFound")


def project_number(project: str) -> str:
    """Return the 12-digit number of a project: always the same for an id."""
    digest = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8])
    return str(10**11 + digest % (9 * 10**11))


def compute_time(seconds: float | None = None) -> str:
    """Return Compute's form of a time: milliseconds, Pacific offset [facts §1.5]."""
    moment = datetime.datetime.fromtimestamp(time.time() if seconds is None else seconds, _PACIFIC)
    return moment.isoformat(timespec="milliseconds")


def container_time(seconds: float | None = None) -> str:
    """Return GKE's form of a time: UTC."""
    moment = datetime.datetime.fromtimestamp(
        time.time() if seconds is None else seconds, datetime.UTC
    )
    return moment.isoformat(timespec="seconds")
