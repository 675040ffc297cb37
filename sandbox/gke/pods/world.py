"""What the simulated nodes and Pods of one cluster know of each other.

Owns the shared state: nodes, Pods with their networks and listeners, Services and the lookup of
names. Does not own how Pods come to run (`kubelet`) or what their programs do (`programs`).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox.contracts import ClusterContext
from sandbox.gke.nccl.hosts import Daemon, Nic
from sandbox.gke.nodes.machines import MachineType
from sandbox.gke.pods.clock import Clock, Signal
from sandbox.gke.pods.files import FileTree

if TYPE_CHECKING:
    from sandbox.gke.pods.container import Container

KubeObject = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class Node:
    """A simulated node: its hardware and what was done to it."""

    name: str
    machine: MachineType
    zone: str
    files: FileTree
    address: str = ""
    """Address in the cluster's own VPC."""
    nics: dict[str, Nic] = field(default_factory=dict)
    """GPU NICs by the name of the `Network` object that they serve."""
    injectors: int = 0
    """Device injectors registered with containerd."""
    preparing: int = 0
    """Privileged scripts that work on the node right now."""


@dataclass(kw_only=True, slots=True)
class PodRecord:
    """A Pod that is bound to a simulated node."""

    object: KubeObject
    node: Node
    address: str = ""
    ready: bool = False
    nics: dict[str, Nic] = field(default_factory=dict)
    """GPU NICs by interface name, `eth0` left out."""
    volumes: dict[str, FileTree] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    """Those that run now."""
    listeners: dict[int, Container] = field(default_factory=dict)
    """Who listens on which TCP port of the Pod."""
    daemon: Daemon | None = None
    """The receive daemon, once it is healthy."""

    @property
    def name(self) -> str:
        """Name of the Pod."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Namespace of the Pod."""
        return str(self.object["metadata"].get("namespace") or "default")

    @property
    def uid(self) -> str:
        """UID of the Pod."""
        return str(self.object["metadata"]["uid"])

    @property
    def hostname(self) -> str:
        """Host name inside the Pod."""
        if self.object["spec"].get("hostNetwork"):
            return self.node.name
        return str(self.object["spec"].get("hostname") or self.name)


class World:
    """The state of one cluster's nodes and Pods."""

    def __init__(self, context: ClusterContext) -> None:
        self.context = context
        self.news = Signal()
        self.clock = Clock(context.pace, self.news)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, PodRecord] = {}
        """By UID."""
        self.objects: dict[tuple[str, str], KubeObject] = {}
        """All Pods that the API server has, by namespace and name."""
        self.services: dict[tuple[str, str], KubeObject] = {}
        """By namespace and name."""
        self.daemon_sets: dict[str, KubeObject] = {}
        """By UID."""
        self.node_labels: dict[str, dict[str, str]] = {}
        """Labels of the nodes by name."""
        self.networks: dict[str, KubeObject] = {}
        self.param_sets: dict[str, KubeObject] = {}

    def resolve(self, name: str, namespace: str, hosts_file: str = "") -> list[PodRecord]:
        """Find the Pods that a host name stands for, as cluster DNS and `/etc/hosts` do.

        Args:
            name: Host name or address.
            namespace: Namespace of the Pod that asks.
            hosts_file: Text of its `/etc/hosts`.
        """
        for line in hosts_file.splitlines():
            words = line.partition("#")[0].split()
            if name in words[1:]:
                name = words[0]
                break
        if _is_address(name):
            return [pod for pod in self.pods.values() if pod.address == name]
        plain = name.rstrip(".").removesuffix(".cluster.local")
        fixed = plain.endswith(".svc")
        labels = plain.removesuffix(".svc").split(".")
        for host, service, where in _readings(labels, namespace, fixed=fixed):
            found = self._behind(service, where, host)
            if found:
                return found
        return []

    def _behind(self, service: str, namespace: str, host: str) -> list[PodRecord]:
        """List the Pods that a Service stands for; `host` picks one by host name."""
        spec = (self.services.get((namespace, service)) or {}).get("spec") or {}
        selector = spec.get("selector")
        if not selector:
            return []
        found = []
        for pod in self.pods.values():
            labels = pod.object["metadata"].get("labels") or {}
            if pod.namespace != namespace or not pod.address:
                continue
            if any(labels.get(key) != value for key, value in selector.items()):
                continue
            if not (pod.ready or spec.get("publishNotReadyAddresses")):
                continue
            named = pod.object["spec"].get("subdomain") == service and pod.hostname == host
            if not host or named:
                found.append(pod)
        return found


def _readings(labels: list[str], namespace: str, *, fixed: bool) -> list[tuple[str, str, str]]:
    """Read a name as (host, Service, namespace) in the order of a Pod's search list."""
    match labels:
        case [service]:
            return [("", service, namespace)]
        case [first, second]:
            with_namespace = ("", first, second)
            return [with_namespace] if fixed else [(first, second, namespace), with_namespace]
        case [host, service, where]:
            return [(host, service, where)]
    return []


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
