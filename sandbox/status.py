"""What exists in a sandbox, whether it runs or not.

Owns: collecting it and the table for people. What a resource is and who made it is said by the
cloud (`sandbox.cloud.admin`): the server's, or that of an application made here over the same
database while no server runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sandbox import lifecycle, processes
from sandbox.contracts import ClusterEndpoint, ClusterKey, ProcessInfo, Resource
from sandbox.errors import SandboxError
from sandbox.home import Home

if TYPE_CHECKING:
    from rich.console import Console

_PATHS = {
    "resources": "/sandbox/v1/resources",
    "clusters": "/sandbox/v1/clusters",
    "processes": "/sandbox/v1/processes",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """What exists.

    Attributes:
        running: Whether the server runs.
        resources: What users and their clusters have in the cloud; what each project has from the
            start is left out.
        clusters: The clusters with their endpoints.
        processes: The server and what it started: `name`, `pid`, `cluster`.
    """

    running: bool
    port: int | None
    pace: float | None
    resources: Sequence[dict[str, Any]]
    clusters: Sequence[dict[str, Any]]
    processes: Sequence[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def collect(home: Home) -> Status:
    """Look at what exists.

    Raises:
        SandboxError: it cannot be read; the text says why.
    """
    home.check_version()
    settings = home.settings()
    process = processes.find(home.server())
    if process is not None and settings is not None:
        try:
            parts = {name: lifecycle.ask(settings.port, path) for name, path in _PATHS.items()}
        except OSError as error:
            raise SandboxError(
                f"The server runs (pid {process.pid}) and does not answer on port {settings.port}: "
                f"{error}. Its log is {home.server_log}."
            ) from error
    else:
        parts = asyncio.run(_read_database(home))
    found = {name: parts[name][name] for name in _PATHS}
    if process is not None:
        server = {"name": "server", "pid": process.pid, "cluster": None}
        found["processes"] = [server, *found["processes"]]
    return Status(
        running=process is not None,
        port=settings.port if settings else None,
        pace=settings.pace if settings else None,
        **found,
    )


async def _read_database(home: Home) -> dict[str, Any]:
    if not home.database.exists():
        return {name: {name: []} for name in _PATHS}
    import httpx

    from sandbox.cloud.app import create_app
    from sandbox.cloud.store import Store, StoreVersionError

    try:
        store = Store(home.database)
    except StoreVersionError as error:
        raise SandboxError(str(error)) from error
    try:
        # Its lifespan is not entered: nothing is started.
        transport = httpx.ASGITransport(app=create_app(store, _NoClusters(), pace=0))
        async with httpx.AsyncClient(transport=transport, base_url="http://sandbox") as client:
            return {name: (await client.get(path)).json() for name, path in _PATHS.items()}
    finally:
        store.close()


class _NoClusters:
    """The runtime of a sandbox that does not run."""

    async def start(self, key: ClusterKey, cluster: Resource) -> ClusterEndpoint:  # noqa: ARG002
        raise RuntimeError(f"{key.context} cannot start: the sandbox does not run")

    async def update(self, key: ClusterKey, cluster: Resource) -> None:
        """No cluster runs."""

    async def stop(self, key: ClusterKey, *, delete: bool) -> None:
        """No cluster runs."""

    def processes(self) -> Sequence[ProcessInfo]:
        return []

    def problems(self, key: ClusterKey) -> Sequence[str]:  # noqa: ARG002
        return []


def show(status: Status, home: Home, console: Console) -> None:
    """Print a status for people."""
    from rich.table import Table

    if status.running:
        console.print(
            f"The sandbox in {home.root} answers on http://127.0.0.1:{status.port}, "
            f"pace {status.pace:g}."
        )
    elif home.exists:
        console.print(f"The sandbox in {home.root} does not run: start it with `sandbox up`.")
    else:
        console.print(f"There is no sandbox in {home.root}: make one with `sandbox up`.")
    tables = (
        ("Resources in the cloud", status.resources, ("kind", "location", "name", "state", "for")),
        ("Clusters", status.clusters, ("context", "status", "version", "endpoint")),
        ("Processes", status.processes, ("name", "pid", "cluster")),
    )
    for title, rows, columns in tables:
        if not rows:
            console.print(f"{title}: none")
            continue
        table = Table(*columns, title=title, title_justify="left", box=None)
        for row in rows:
            # Of a path in the cloud only the name: the rest is in the other columns.
            cells = (str(row[column] or "").rpartition("/")[2] for column in columns)
            table.add_row(*cells)
        console.print(table)
    for cluster in status.clusters:
        for problem in cluster["problems"]:
            console.print(f"{cluster['context']}: {problem}", style="red")
