"""How the model sees the hosts of a run: GPUs, network plug-in, daemon, NICs, environment.

Owns plain descriptions without behaviour. Whoever runs a benchmark fills them in from what its
processes can really see (files, devices, sockets), so that a wrong mount shows here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Technology(StrEnum):
    """The two GPUDirect stacks; the values are the names of their image repositories."""

    TCPXO = "tcpxo"
    TCPX = "tcpx"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """The `libnccl-net.so` that NCCL finds first in its library path."""

    technology: Technology | None
    """None: a plug-in of another maker."""
    version: str
    checker: bool = False
    """Whether it stands behind the guest config checker (TCPXO installers put that in front)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Daemon:
    """A receive daemon that runs and is healthy."""

    technology: Technology
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Nic:
    """One GPU NIC of a Pod."""

    interface: str
    network: str
    """Name of the VPC."""
    address: str
    mtu_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """One host of a run, as the processes of its ranks see it."""

    name: str
    machine_type: str
    ranks: int
    gpus: int
    zone: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    plugin: Plugin | None = None
    daemon: Daemon | None = None
    nics: Mapping[str, Nic] = field(default_factory=dict)
    """By interface name, `eth0` left out."""
    apertures_visible: bool = False
    """Whether the LLCM devices are in the directory that the plug-in searches."""
    daemon_socket_visible: bool = False
    """TCPX: whether the daemon's unix sockets are where the plug-in looks for them."""
    guest_config: str | None = None
    """TCPXO: profile of the guest config file that the environment names; None: no such file."""

    def setting(self, name: str) -> str:
        """Return an environment variable, or the empty text."""
        return self.environment.get(name, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One benchmark on some hosts, ready to be judged."""

    hosts: Sequence[Host]
    closed_networks: Sequence[str] = ()
    """VPCs whose firewall rules do not let the hosts' NICs reach each other."""

    @property
    def ranks(self) -> int:
        """Number of ranks on all hosts."""
        return sum(host.ranks for host in self.hosts)
