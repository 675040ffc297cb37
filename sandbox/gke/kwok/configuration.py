"""How kwok is started for a cluster.

Owns its arguments, its configuration file and the ports of the kubelet endpoint. kwok keeps node
leases alive and runs the local command behind `kubectl exec`; it has no stages for Pods.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import yaml

from sandbox.contracts import ClusterContext

_LEASE_SECONDS = 40
_STAGE = {
    # kwok refuses to start without a stage; ready nodes never match this one.
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "node-never"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Node"},
        "selector": {
            "matchExpressions": [
                {"key": ".status.phase", "operator": "In", "values": ["Simulated"]}
            ]
        },
        "next": {"statusTemplate": "phase: Simulated"},
    },
}
_EXEC = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "ClusterExec",
    "metadata": {"name": "all"},
    "spec": {"execs": [{"local": {}}]},
}


class GivenPorts(Protocol):
    """The ports that a cluster was given."""

    @property
    def kubelet(self) -> int:
        """Where the API server finds every kubelet."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletPorts:
    """Loopback ports of the kubelet endpoint and of kwok behind it."""

    endpoint: int
    kwok: int


def kwok_arguments(context: ClusterContext, ports: GivenPorts) -> Sequence[str]:
    """Write kwok's configuration and return its arguments but `--kubeconfig`."""
    folder = Path(context.home)
    chosen = KubeletPorts(endpoint=ports.kubelet, kwok=_free_port())
    _ports_file(folder).write_text(json.dumps({"endpoint": chosen.endpoint, "kwok": chosen.kwok}))
    configuration = folder / "kwok.yaml"
    configuration.write_text(yaml.safe_dump_all([_STAGE, _EXEC]))
    return (
        f"--config={configuration}",
        "--manage-all-nodes=true",
        f"--node-lease-duration-seconds={_LEASE_SECONDS}",
        "--node-ip=127.0.0.1",
        f"--node-port={chosen.endpoint}",
        f"--server-address=127.0.0.1:{chosen.kwok}",
    )


def read_ports(context: ClusterContext) -> KubeletPorts:
    """Return the ports that `kwok_arguments` chose.

    Raises:
        RuntimeError: kwok was not started for this cluster.
    """
    try:
        found = json.loads(_ports_file(Path(context.home)).read_text())
    except FileNotFoundError as error:
        raise RuntimeError(
            f"{context.key.context}: kwok was not started; logs and exec need it"
        ) from error
    return KubeletPorts(endpoint=found["endpoint"], kwok=found["kwok"])


def _ports_file(folder: Path) -> Path:
    return folder / "kubelet-ports.json"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
