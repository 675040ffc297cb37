"""What one stack offers to the Pods that run on it, as values ready to write into a Pod.

Owns the annotations, the NCCL variables of a release's profile, the debug settings, and the record
that a rendered Pod carries. Does not own where these go (`pod_template`) nor the facts themselves
(`stacks`, `releases`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpudirect.releases import Release, ReleaseLockError, load_releases
from gpudirect.stacks import GpuStack

DEFAULT_INTERFACE = "networking.gke.io/default-interface"
INTERFACES = "networking.gke.io/interfaces"
DEVICES_PREFIX = "devices.gke.io/container."
RECORD = "gpudirect/rendered"

LIBRARY_PATH = "LD_LIBRARY_PATH"
DEBUG_VARIABLES = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")

# From this size on INFO from every rank floods the log, unless it goes to files (the page,
# "Recopila registros de depuración de NCCL").
MANY_NODES = 64
_DEBUG_SUBSYSTEMS = "INIT,NET,ENV,COLL,GRAPH"


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """What a stack offers to workloads.

    Attributes:
        stack: Machine, devices and daemon.
        release: Plug-in and daemon pair with its settings.
        networks: Names of the cluster's `Network` objects, in the order of the GPU NICs.
        profile: NCCL profile of the release.
        image_registry: Registry host in place of the published one; empty for the published one.
        node_selector: Selectors of the capacity choice (Spot, reservation, zone, ...).
    """

    stack: GpuStack
    release: Release
    networks: tuple[str, ...]
    profile: str = "default"
    image_registry: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no Pod could work with.

        Raises:
            ValueError: number of networks, release or profile do not go with the stack.
        """
        if len(self.networks) != self.stack.nic_count:
            raise ValueError(
                f"networks: {len(self.networks)} given ({', '.join(self.networks)}), expected "
                f"{self.stack.nic_count} for {self.stack.name}: one for each GPU NIC, in order"
            )
        if len(set(self.networks)) != len(self.networks):
            raise ValueError(
                f"networks: {', '.join(self.networks)} names one twice, expected a network of its "
                "own for each GPU NIC"
            )
        if self.release.stack != self.stack.name:
            raise ValueError(
                f"release: {self.release.name} is for {self.release.stack}, "
                f"expected one for {self.stack.name}"
            )
        if self.profile not in self.release.profiles:
            raise ValueError(
                f"profile: {self.profile!r} is not in release {self.release.name}, "
                f"expected one of {', '.join(self.release.profiles)}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclDebug:
    """NCCL's own log.

    Attributes:
        file: Where each rank writes it, `%h` and `%p` standing for host and process id; empty for
            the container's output.
    """

    file: str = ""

    def variables(self, nodes: int) -> dict[str, str]:
        """Return the variables that turn the log on.

        Args:
            nodes: How many nodes the workload spans.
        """
        level = "WARN" if nodes >= MANY_NODES and not self.file else "INFO"
        variables = {"NCCL_DEBUG": level, "NCCL_DEBUG_SUBSYS": _DEBUG_SUBSYSTEMS}
        if self.file:
            variables["NCCL_DEBUG_FILE"] = self.file
        return variables


def debug_file_pattern(path: str) -> str:
    """Return a log file's name that no two ranks share.

    Raises:
        ValueError: the path is not absolute.
    """
    if not path.startswith("/"):
        raise ValueError(f"NCCL_DEBUG_FILE: {path!r}, expected an absolute path such as /logs/nccl")
    return path if "%h" in path and "%p" in path else f"{path}.%h.%p"


def pod_annotations(environment: Environment) -> dict[str, str]:
    """Return the three annotations of a Pod that uses the GPU network.

    Their values are JSON text: GKE decodes the interface list as plain JSON [R03], and the device
    injector reads YAML, of which JSON is a part (facts gpudirect.md 3, 4).
    """
    return {
        devices_annotation(environment.stack): _json(
            [{"path": path} for path in environment.stack.devices]
        ),
        DEFAULT_INTERFACE: "eth0",
        INTERFACES: _json(interface_list(environment)),
    }


def devices_annotation(stack: GpuStack) -> str:
    """Return the annotation key that gives the daemon's container its devices [R10]."""
    return DEVICES_PREFIX + stack.daemon_container


def interface_list(environment: Environment) -> list[dict[str, str]]:
    """Return the Pod's interfaces in order: eth0 on the cluster's network, then the GPU NICs."""
    pairs = [("eth0", "default")]
    pairs += zip(environment.stack.interfaces, environment.networks, strict=True)
    return [{"interfaceName": name, "network": network} for name, network in pairs]


def container_variables(
    stack: GpuStack, release: Release, profile: str, debug: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a GPU container, in the order to write it.

    `LD_LIBRARY_PATH` is not among them: it is joined with the container's own.
    """
    return {
        **stack.workload_environment,
        **release.profiles[profile],
        **debug,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderRecord:
    """What a Pod was rendered with, so that a later run knows what is its own to change.

    Attributes:
        release: Name of the release.
        profile: NCCL profile.
        registry: Registry host in place of the published one.
        debug: Debug variables set beside the profile.
        selectors: Keys of the node selectors that were added.
    """

    release: str
    profile: str
    registry: str = ""
    debug: Mapping[str, str] = field(default_factory=dict)
    selectors: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return the annotation's value."""
        data: dict[str, Any] = {"release": self.release, "profile": self.profile}
        if self.registry:
            data["registry"] = self.registry
        if self.debug:
            data["debug"] = dict(self.debug)
        if self.selectors:
            data["selectors"] = list(self.selectors)
        return _json(data)

    @classmethod
    def from_text(cls, text: object) -> RenderRecord | None:
        """Read the annotation; None where it is absent or not ours."""
        try:
            data = json.loads(str(text))
            return cls(
                release=str(data["release"]),
                profile=str(data["profile"]),
                registry=str(data.get("registry", "")),
                debug={str(k): str(v) for k, v in data.get("debug", {}).items()},
                selectors=tuple(str(key) for key in data.get("selectors", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def find_release(self, stack: GpuStack) -> Release | None:
        """Return the release in the lock, or None when the lock no longer has it."""
        if not self.release:
            return None
        try:
            return load_releases().get(self.release, stack.name)
        except ReleaseLockError:
            return None


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
