"""The control plane of one cluster: its processes, from the first start to their end.

Owns: starting etcd, the API server, controller manager, scheduler and kwok in the right order,
starting again what dies, ending what a killed server left, and the client that the sandbox's own
controllers use. Does not own what is installed in the cluster (`sandbox.gke.runtime`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sandbox.contracts import ClusterEndpoint
from sandbox.gke import components
from sandbox.gke.api import KubernetesApi
from sandbox.gke.certificates import ADMIN, ensure_certificates
from sandbox.gke.child_process import ChildProcess, Program, end_leftovers
from sandbox.gke.cluster_folder import (
    ClusterFolder,
    ClusterRecord,
    Ports,
    choose_ports,
    make_private_folder,
    ports_of_clusters,
    taken_ports,
    write_users,
)

USER = "sandbox@example.com"
"""Whom the API server sees behind the sandbox's bearer token."""

KwokArguments = Callable[[Ports], Sequence[str]]
"""Makes kwok's arguments but `--kubeconfig`, given the ports of the cluster."""

_POLL_SECONDS = 0.03
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
_STOP_STATELESS_SECONDS = 1.0
_RESTARTS = 5
_RESTART_WINDOW_SECONDS = 60.0
_log = logging.getLogger(__name__)


# It ends by itself when the API server is not healthy within its ten seconds, which a busy machine
# may need.
_IMPATIENT = "kube-controller-manager"


class ControlPlane:
    """The processes of one cluster."""

    def __init__(
        self,
        folder: Path,
        binaries: Path,
        *,
        token: str,
        service_cidr: str,
        service_address: str,
        kwok_arguments: KwokArguments | None = None,
    ) -> None:
        """Prepare a control plane; nothing is started yet.

        Args:
            folder: The cluster's own folder; is made if missing.
            binaries: Where etcd, kube-apiserver and the others are.
            token: Bearer token of `USER`.
            service_cidr: Range of the cluster's Service addresses.
            service_address: The first address of that range.
            kwok_arguments: How kwok is started; without it there are no kubelets.
        """
        self.folder = ClusterFolder(folder.absolute())
        self._binaries = binaries.absolute()
        self._token = token
        self._service_cidr = service_cidr
        self._service_address = service_address
        self._kwok_arguments = kwok_arguments
        self._ports: Ports | None = None
        self._api: KubernetesApi | None = None
        self._children: dict[str, ChildProcess] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._problems: dict[str, str] = {}

    @property
    def api(self) -> KubernetesApi:
        """A client with the rights of `system:masters`."""
        if self._api is None:
            raise RuntimeError(f"the control plane in {self.folder.root} was not started")
        return self._api

    @property
    def ports(self) -> Ports:
        """The loopback ports."""
        if self._ports is None:
            raise RuntimeError(f"the control plane in {self.folder.root} was not started")
        return self._ports

    @property
    def endpoint(self) -> ClusterEndpoint:
        """Where the API server answers, and the CA that it shows."""
        return ClusterEndpoint(
            endpoint=f"127.0.0.1:{self.ports.kubernetes}",
            ca_certificate_pem=self.folder.certificates.ca.read_text(),
        )

    @property
    def children(self) -> Sequence[ChildProcess]:
        """The processes that run now."""
        return [child for child in self._children.values() if child.running]

    @property
    def problems(self) -> Sequence[str]:
        """What died and could not be started again, with its last words."""
        return list(self._problems.values())

    async def start_api_server(self) -> None:
        """Start etcd, the API server and its controllers; return when it answers requests.

        It is not ready then: `start_nodes` waits for that. Objects can be written meanwhile.

        Raises:
            RuntimeError: a binary or a port is missing, or a process ended; the text says which.
        """
        await self._prepare()
        programs = [
            components.etcd(self._binaries, self.folder),
            components.kube_apiserver(self._binaries, self.folder, self.ports, self._service_cidr),
        ]
        try:
            for program in programs:
                await self._start(program)
            await self._wait(lambda status: status is not None, "answer")
            await self._start(components.kube_controller_manager(self._binaries, self.folder))
        except BaseException:
            await self.stop(grace_seconds=0)
            raise

    async def start_nodes(self) -> None:
        """Wait until the API server is ready, then start what places and plays Pods.

        From then on every process is watched over.
        """
        try:
            await self._wait(lambda status: status == 200, "become ready")
            await self._start(components.kube_scheduler(self._binaries, self.folder))
            if self._kwok_arguments is not None:
                arguments = tuple(self._kwok_arguments(self.ports))
                await self._start(components.kwok(self._binaries, self.folder, arguments))
        except BaseException:
            await self.stop(grace_seconds=0)
            raise
        self._keepers = [
            asyncio.create_task(self._keep_running(child), name=f"keep {name}")
            for name, child in self._children.items()
        ]

    async def stop(self, grace_seconds: float = _STOP_SECONDS) -> None:
        """End all processes: the store last, so that nothing loses it while it writes.

        Args:
            grace_seconds: How long each may take after SIGTERM; 0 kills at once, all together.
        """
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self._keepers = []
        if self._api is not None:
            await self._api.aclose()
            self._api = None
        order = ["etcd", "kube-apiserver"]
        others = [child for name, child in self._children.items() if name not in order]
        groups = [
            others,
            *([self._children[name]] for name in reversed(order) if name in self._children),
        ]
        if grace_seconds == 0:
            groups = [list(self._children.values())]
        for group in groups:
            await asyncio.gather(*(child.stop(_grace(child, grace_seconds)) for child in group))
        self._children = {}
        self._problems = {}
        self._write_record()

    async def _prepare(self) -> None:
        names = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
        names += ["kwok"] if self._kwok_arguments is not None else []
        missing = [name for name in names if not (self._binaries / name).is_file()]
        if missing:
            raise RuntimeError(
                f"{', '.join(missing)} not found in {self._binaries}: a cluster cannot start "
                "without. Build the toolchain (`make sandbox` does) or name the folder that has it."
            )
        make_private_folder(self.folder.root)
        record = await end_recorded_processes(self.folder)
        if record is None:
            self._ports = choose_ports(ports_of_clusters(self.folder.root.parent))
        else:
            self._ports = record.ports
        taken = taken_ports(self._ports)
        if taken:
            raise RuntimeError(
                f"{'; '.join(taken)}. The cluster in {self.folder.root} was made with these ports "
                "and its users know them: end that process and start the cluster again."
            )
        self._write_record()
        ensure_certificates(self.folder.certificates.folder, service_address=self._service_address)
        self.folder.write_kubeconfigs(f"https://127.0.0.1:{self._ports.kubernetes}")
        write_users(self.folder.users, [(self._token, USER)])
        self._api = KubernetesApi.from_kubeconfig(self.folder.kubeconfig(ADMIN))

    async def _start(self, program: Program) -> ChildProcess:
        child = await ChildProcess.start(program)
        self._children[program.name] = child
        self._write_record()
        return child

    def _write_record(self) -> None:
        if self._ports is None:
            return
        records = tuple(child.record for child in self.children)
        self.folder.write_record(ClusterRecord(ports=self._ports, processes=records))

    async def _wait(self, accept: Callable[[int | None], bool], what: str) -> None:
        """Ask the API server until it gives an acceptable answer or a process has ended."""
        deadline = time.monotonic() + _START_SECONDS
        while not accept(await self.api.probe()):
            for name, child in list(self._children.items()):
                if child.running:
                    continue
                if name == _IMPATIENT:
                    await self._start(child.program)
                else:
                    code = await child.wait()
                    raise RuntimeError(
                        f"{name} ended with code {code} while the cluster started:\n"
                        f"{child.last_words()}\n(log: {child.program.log})"
                    )
            if time.monotonic() > deadline:
                log = self.folder.log("kube-apiserver")
                raise RuntimeError(
                    f"kube-apiserver did not {what} within {_START_SECONDS:.0f} s (log: {log})"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _keep_running(self, child: ChildProcess) -> None:
        """Start a process again when it ends, unless it keeps ending."""
        name = child.program.name
        ends: deque[float] = deque(maxlen=_RESTARTS)
        while True:
            code = await child.wait()
            message = f"{name} ended with code {code}: {child.last_words()}"
            _log.warning("%s: %s", self.folder.root.name, message)
            now = time.monotonic()
            if len(ends) == _RESTARTS and now - ends[0] < _RESTART_WINDOW_SECONDS:
                self._problems[name] = (
                    f"{message} (started {_RESTARTS} times in a minute and given up; "
                    f"log: {child.program.log})"
                )
                return
            ends.append(now)
            child = await self._start(child.program)


def _grace(child: ChildProcess, grace_seconds: float) -> float:
    """Only the store has something to finish; an API server would wait for open watches."""
    if child.program.name == "etcd":
        return grace_seconds
    return min(grace_seconds, _STOP_STATELESS_SECONDS)


async def end_recorded_processes(folder: ClusterFolder) -> ClusterRecord | None:
    """End what an earlier server started for this cluster and lost; return its record."""
    record = folder.read_record()
    if record is None:
        return None
    ended = await end_leftovers(record.processes, _STOP_SECONDS)
    if ended:
        _log.warning("%s: ended %s of an earlier server", folder.root.name, ", ".join(ended))
    folder.write_record(replace(record, processes=()))
    return record
