"""The folder of one cluster: where its files are, and what a later server must know.

Owns: the layout, the recorded ports and processes, and the internal kubeconfigs. Does not own the
content of the certificates or of etcd's data.
"""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
import yaml

from sandbox.gke.certificates import CLIENTS, CertificateFiles, ClientIdentity, write_private
from sandbox.gke.child_process import ProcessRecord

_FORMAT = 1
_LISTENING_PORTS = range(20000, 32000)
_PORTS_OF_A_CLUSTER = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """Loopback ports of a cluster; they stay the same as long as it exists."""

    kubernetes: int
    """The API server: what the cluster's endpoint says."""
    kubelet: int
    """Logs and exec of Pods, served by kwok."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterRecord:
    """What is written down in `record.json`."""

    ports: Ports
    processes: tuple[ProcessRecord, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """Paths inside one cluster's folder."""

    root: Path

    @property
    def certificates(self) -> CertificateFiles:
        """The control plane's certificates and keys."""
        return CertificateFiles(self.root / "certificates")

    @property
    def etcd_data(self) -> Path:
        """All objects of the cluster."""
        return self.root / "etcd"

    @property
    def users(self) -> Path:
        """Tokens that the API server accepts."""
        return self.root / "users.csv"

    @property
    def scheduler_config(self) -> Path:
        """The scheduler's configuration."""
        return self.root / "scheduler.yaml"

    @property
    def _record(self) -> Path:
        return self.root / "record.json"

    def log(self, name: str) -> Path:
        """The log file of a process."""
        return self.root / "logs" / f"{name}.log"

    def kubeconfig(self, identity: ClientIdentity) -> Path:
        """The kubeconfig of a component."""
        return self.root / "kubeconfigs" / f"{identity.file_name}.yaml"

    def write_kubeconfigs(self, server: str) -> None:
        """Write the kubeconfig of each component; they name certificate files, and hold no secret.

        Args:
            server: `https://host:port`.
        """
        for identity in CLIENTS:
            certificate, key = self.certificates.client(identity)
            name = identity.file_name
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": name,
                        "cluster": {
                            "server": server,
                            "certificate-authority": str(self.certificates.ca),
                        },
                    }
                ],
                "users": [
                    {
                        "name": name,
                        "user": {"client-certificate": str(certificate), "client-key": str(key)},
                    }
                ],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "current-context": name,
            }
            path = self.kubeconfig(identity)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(config, sort_keys=False))

    def read_record(self) -> ClusterRecord | None:
        """Return what an earlier start wrote down, or None for a new cluster.

        Raises:
            RuntimeError: the file cannot be read or was written by another version.
        """
        try:
            content = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise RuntimeError(self._unreadable(f"it is no JSON: {error}")) from error
        if content.get("format") != _FORMAT:
            raise RuntimeError(
                self._unreadable(f"format {content.get('format')!r}, this version reads {_FORMAT}")
            )
        processes = [
            ProcessRecord(**(entry | {"arguments": tuple(entry["arguments"])}))
            for entry in content["processes"]
        ]
        return ClusterRecord(ports=Ports(**content["ports"]), processes=tuple(processes))

    def write_record(self, record: ClusterRecord) -> None:
        """Write the record in one step: a reader sees the old or the new one."""
        content = {"format": _FORMAT} | asdict(record)
        temporary = self._record.with_suffix(".new")
        write_private(temporary, json.dumps(content, indent=1).encode())
        temporary.replace(self._record)

    def _unreadable(self, why: str) -> str:
        return (
            f"{self._record}: {why}. Its cluster cannot be started again. Use the version that "
            f"wrote it, or delete the cluster's folder {self.root} and create the cluster anew."
        )


def choose_ports(reserved: Collection[int] = ()) -> Ports:
    """Find free loopback ports that nobody will have taken when the cluster starts again.

    Args:
        reserved: Ports of clusters that do not run now.

    Raises:
        RuntimeError: there are none.
    """
    found: list[int] = []
    # Where connections get their own ports from, a recorded one may be in use at the next start.
    candidates = [port for port in _LISTENING_PORTS if port not in reserved]
    random.shuffle(candidates)
    for port in candidates:
        if not _taken(port):
            found.append(port)
            if len(found) == _PORTS_OF_A_CLUSTER:
                return Ports(kubernetes=found[0], kubelet=found[1])
    raise RuntimeError(
        f"no {_PORTS_OF_A_CLUSTER} free ports on 127.0.0.1 from {_LISTENING_PORTS[0]} to "
        f"{_LISTENING_PORTS[-1]}; end something that listens there"
    )


def ports_of_clusters(clusters: Path) -> set[int]:
    """Read the ports of all clusters below a folder, running or not."""
    ports: set[int] = set()
    for folder in clusters.iterdir() if clusters.is_dir() else ():
        try:
            record = ClusterFolder(folder).read_record()
        except RuntimeError:
            # The start of that cluster will say what is wrong with it.
            continue
        if record is not None:
            ports |= {record.ports.kubernetes, record.ports.kubelet}
    return ports


def taken_ports(ports: Ports) -> list[str]:
    """Say which of a cluster's ports somebody else listens on, and who, where that is visible."""
    problems = []
    for name, port in asdict(ports).items():
        if _taken(port):
            problems.append(f"port {port} ({name}) is taken by {_holder(port)}")
    return problems


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of an earlier run in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _holder(port: int) -> str:
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return "another process"
    for connection in connections:
        if connection.laddr and connection.laddr.port == port and connection.pid:
            return f"process {connection.pid} ({_program(connection.pid)})"
    return "another process"


def _program(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "ended meanwhile"


def make_private_folder(path: Path) -> None:
    """Make a folder that only its owner may enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_users(path: Path, tokens: Iterable[tuple[str, str]]) -> None:
    """Write the API server's token file: one line of token, user name and user id each."""
    lines = [f'{token},{user},{user},"system:authenticated"' for token, user in tokens]
    write_private(path, (os.linesep.join(lines) + os.linesep).encode())
