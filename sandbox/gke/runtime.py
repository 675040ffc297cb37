"""The clusters behind the cloud's `clusters` resource, as local control planes.

Owns: which clusters run, what is installed in each before it counts as running, the controllers
that work inside each, and the users' kubeconfig. Does not own the processes
(`sandbox.gke.control_plane`), the cluster resources (`sandbox.cloud`) or what Pods do
(`sandbox.gke.pods`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import shutil
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from sandbox.contracts import (
    CloudView,
    ClusterContext,
    ClusterEndpoint,
    ClusterKey,
    PodSimulation,
    ProcessInfo,
    Resource,
)
from sandbox.gke import admission, kinds, kubeconfig
from sandbox.gke.api import ApiError, KubernetesApi
from sandbox.gke.certificates import ADMIN
from sandbox.gke.cluster_folder import ClusterFolder, Ports
from sandbox.gke.control_plane import USER, ControlPlane, end_recorded_processes
from sandbox.gke.networks import NetworkController
from sandbox.gke.resource_types import CLUSTER_ROLE_BINDINGS

KwokArguments = Callable[[ClusterContext, Ports], Sequence[str]]
"""Makes kwok's arguments but `--kubeconfig` for one cluster."""

SimulationFactory = Callable[[ClusterContext], PodSimulation]

_DEFAULT_SERVICE_CIDR = "34.118.224.0/20"
_CONTROLLER_PAUSE_SECONDS = 1.0
_CONTROLLER_HEALTHY_SECONDS = 10.0
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Cluster:
    """One cluster that runs."""

    context: ClusterContext
    resource: Resource
    """The same mapping that the context shows; changed in place by `update`."""
    plane: ControlPlane
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


class LocalClusterRuntime:
    """`sandbox.contracts.ClusterRuntime` on this machine."""

    def __init__(
        self,
        home: Path,
        *,
        token: str,
        cloud: CloudView,
        pace: float = 0.0,
        binaries: Path | None = None,
        kwok_arguments: KwokArguments | None = None,
        simulation: SimulationFactory | None = None,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            home: The sandbox's folder; clusters live in `clusters/` of it.
            token: The bearer token of the sandbox's user.
            cloud: What the clusters see of their project.
            pace: 0 = at once, 1 = Google's usual times.
            binaries: Where the programs are; `bin/` of the home if not given.
            kwok_arguments: How kwok is started for a cluster; without it there are no kubelets.
            simulation: Makes what plays nodes and GPU Pods in a cluster; without it none appear.
        """
        self._home = home.absolute()
        self._token = token
        self._cloud = cloud
        self._pace = pace
        self._binaries = (binaries or home / "bin").absolute()
        self._kwok_arguments = kwok_arguments
        self._simulation = simulation
        self._clusters: dict[ClusterKey, _Cluster] = {}
        self._locks: defaultdict[ClusterKey, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def kubeconfig(self) -> Path:
        """The users' kubeconfig."""
        return self._home / "kubeconfig"

    async def start(self, key: ClusterKey, cluster: Resource) -> ClusterEndpoint:
        """Bring up a cluster's control plane with everything that GKE installs, or find it.

        Raises:
            RuntimeError: it did not come up; the text says which part and why.
        """
        async with self._locks[key]:
            running = self._clusters.get(key)
            if running is None:
                running = await self._start(key, cluster)
                self._clusters[key] = running
            return running.plane.endpoint

    async def update(self, key: ClusterKey, cluster: Resource) -> None:
        """Carry a changed resource into a running cluster; return when its rules are in force."""
        async with self._locks[key]:
            running = self._clusters.get(key)
            if running is None:
                return
            running.resource.clear()
            running.resource.update(cluster)
            await admission.set_net_admin(running.plane.api, allowed=_allows_net_admin(cluster))

    async def stop(self, key: ClusterKey, *, delete: bool) -> None:
        """End a cluster's processes; with `delete` remove its data and its kubeconfig entry.

        Unknown clusters are ignored, but what an earlier server left of them is ended too.
        """
        async with self._locks[key]:
            running = self._clusters.pop(key, None)
            folder = ClusterFolder(self._folder(key))
            if running is not None:
                await _end_tasks(running.tasks)
                if delete:
                    await running.plane.stop(grace_seconds=0)
                else:
                    await running.plane.stop()
            elif folder.root.exists():
                await _end_left_behind(folder, delete=delete)
            if delete:
                await asyncio.to_thread(kubeconfig.remove_cluster, self.kubeconfig, key)
                await asyncio.to_thread(shutil.rmtree, folder.root, ignore_errors=True)

    async def aclose(self) -> None:
        """Stop all clusters and keep their data."""
        await asyncio.gather(*(self.stop(key, delete=False) for key in list(self._clusters)))

    def processes(self) -> Sequence[ProcessInfo]:
        """List the processes that run now."""
        return [
            ProcessInfo(name=child.program.name, pid=child.pid, cluster=key.context)
            for key, cluster in self._clusters.items()
            for child in cluster.plane.children
        ]

    def problems(self, key: ClusterKey) -> Sequence[str]:
        """Say what does not work in a running cluster: dead processes, failing controllers."""
        cluster = self._clusters.get(key)
        if cluster is None:
            return []
        return [*cluster.plane.problems, *cluster.failures.values()]

    def context(self, key: ClusterKey) -> ClusterContext | None:
        """What the parts inside a running cluster are given."""
        cluster = self._clusters.get(key)
        return cluster.context if cluster else None

    def _folder(self, key: ClusterKey) -> Path:
        return self._home / "clusters" / key.context

    async def _start(self, key: ClusterKey, resource: Resource) -> _Cluster:
        folder = ClusterFolder(self._folder(key))
        resource = dict(resource)
        context = ClusterContext(
            key=key,
            kubeconfig=str(folder.kubeconfig(ADMIN)),
            home=str(folder.root),
            cloud=self._cloud,
            cluster=resource,
            pace=self._pace,
        )
        service_cidr = _service_cidr(resource)
        kwok = self._kwok_arguments
        plane = ControlPlane(
            folder.root,
            self._binaries,
            token=self._token,
            service_cidr=service_cidr,
            service_address=str(ipaddress.ip_network(service_cidr)[1]),
            kwok_arguments=None if kwok is None else lambda ports: kwok(context, ports),
        )
        multi_networking = bool((resource.get("networkConfig") or {}).get("enableMultiNetworking"))
        cluster = _Cluster(context, resource, plane)
        try:
            await plane.start_api_server()
            await _all(
                plane.start_nodes(),
                kinds.install(plane.api, multi_networking=multi_networking),
                _grant_user(plane.api),
                admission.install(plane.api, net_admin=_allows_net_admin(resource)),
            )
            if multi_networking:
                controller = NetworkController(context, plane.api)
                self._run(cluster, "network controller", controller.run)
            if self._simulation is not None:
                self._run(cluster, "Pod simulation", self._simulation(context).run)
            await asyncio.to_thread(kubeconfig.add_cluster, self.kubeconfig, key, plane.endpoint)
        except (ApiError, OSError, TimeoutError, httpx.TransportError) as error:
            await self._give_up(cluster)
            raise RuntimeError(
                f"cluster {key.name} did not come up: {type(error).__name__}: {error} "
                f"(logs: {folder.root / 'logs'})"
            ) from error
        except BaseException:
            await self._give_up(cluster)
            raise
        return cluster

    async def _give_up(self, cluster: _Cluster) -> None:
        await _end_tasks(cluster.tasks)
        await cluster.plane.stop(grace_seconds=0)

    def _run(self, cluster: _Cluster, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a controller until the cluster stops; one that fails starts again after a pause.

        Its failure is a problem of the cluster until it has worked for a while.
        """

        async def keep() -> None:
            loop = asyncio.get_running_loop()
            while True:
                healthy = loop.call_later(
                    _CONTROLLER_HEALTHY_SECONDS, cluster.failures.pop, name, None
                )
                try:
                    await run()
                except Exception as error:  # noqa: BLE001 - one that fails must not end the others
                    _log.exception("%s: %s failed", cluster.context.key.context, name)
                    cluster.failures[name] = f"{name} failed: {_reason(error)}"
                finally:
                    healthy.cancel()
                await asyncio.sleep(_CONTROLLER_PAUSE_SECONDS)

        cluster.tasks.append(asyncio.create_task(keep(), name=name))


def _reason(error: BaseException) -> str:
    """What is inside a group of errors, as one line."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_reason(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def _grant_user(api: KubernetesApi) -> None:
    """Give the user what Google's role `container.admin` gives: everything."""
    await api.apply(
        CLUSTER_ROLE_BINDINGS,
        {
            "apiVersion": CLUSTER_ROLE_BINDINGS.api_version,
            "kind": CLUSTER_ROLE_BINDINGS.kind,
            "metadata": {"name": "sandbox-user-container-admin"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        },
    )


async def _end_left_behind(folder: ClusterFolder, *, delete: bool) -> None:
    """End what an earlier server left of a cluster; a broken record does not stop a deletion."""
    try:
        await end_recorded_processes(folder)
    except RuntimeError as error:
        if not delete:
            raise
        _log.warning("deleted all the same: %s", error)


async def _all(*parts: Coroutine[Any, Any, None]) -> None:
    """Run parts side by side; when one fails, end the others and raise its error."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        await _end_tasks(tasks)
        raise


async def _end_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _allows_net_admin(cluster: Resource) -> bool:
    policy = (cluster.get("autopilot") or {}).get("workloadPolicyConfig") or {}
    return bool(policy.get("allowNetAdmin"))


def _service_cidr(cluster: Resource) -> str:
    policy = cluster.get("ipAllocationPolicy") or {}
    return str(
        cluster.get("servicesIpv4Cidr")
        or policy.get("servicesIpv4CidrBlock")
        or _DEFAULT_SERVICE_CIDR
    )
