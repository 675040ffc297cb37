"""What NCCL and its network plug-ins write to their log.

Owns the lines by which people tell the transport, the plug-in and the cause of a failure, and the
rule which of them `NCCL_DEBUG` lets through. Does not own where the lines go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.gke.nccl.hosts import Host, Technology
from sandbox.gke.nccl.table import RankPlace
from sandbox.gke.nccl.verdict import (
    INTERFACE_VARIABLES,
    NO_PLUGIN,
    Failure,
    network_name,
    used_nics,
)

_LEVELS = {"": 0, "NONE": 0, "VERSION": 1, "WARN": 2, "INFO": 3, "ABORT": 4, "TRACE": 5}
_NCCL_VERSIONS = {
    # NCCL that the installer of a release puts on the node [facts gpudirect.md §8].
    "v3.1.9": "2.19.3+cuda12.2",
    "v3.1.12": "2.19.4+cuda12.2",
    "v1.0.12": "2.26.5+cuda12.8",
}
_NEWEST_NCCL = "2.28.7+cuda12.8"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of one host's NCCL log."""

    host: str
    process: int
    level: str
    subsystem: str
    text: str


def visible(lines: Sequence[LogLine], hosts: Sequence[Host]) -> Iterator[LogLine]:
    """Leave out what each host's `NCCL_DEBUG` and `NCCL_DEBUG_SUBSYS` suppress."""
    environments = {host.name: host for host in hosts}
    for line in lines:
        host = environments[line.host]
        wanted = _LEVELS.get(host.setting("NCCL_DEBUG").upper(), 0)
        if _LEVELS[line.level] > wanted:
            continue
        subsystems = (host.setting("NCCL_DEBUG_SUBSYS") or "INIT,BOOTSTRAP,ENV").upper().split(",")
        if line.level != "INFO" or line.subsystem in subsystems or "ALL" in subsystems:
            yield line


def start_lines(hosts: Sequence[Host], places: Sequence[RankPlace]) -> list[LogLine]:
    """Return what the first rank of each host says while NCCL starts."""
    lines = []
    for host in hosts:
        place = next(place for place in places if place.host == host.name)
        for level, subsystem, text in _start_of(host):
            lines.append(_line(place, level, subsystem, text))
    return lines


def channel_lines(hosts: Sequence[Host], places: Sequence[RankPlace]) -> list[LogLine]:
    """Return one line per NIC and direction for the channels that cross hosts."""
    if len(hosts) < 2:
        return []
    lines = []
    for position, host in enumerate(hosts):
        peer = hosts[(position + 1) % len(hosts)]
        for channel in range(_channels(host)):
            here = _place(places, host.name, channel)
            there = _place(places, peer.name, channel)
            network = f"NET/{network_name(host)}/{channel}"
            direct = "" if network_name(host) == NO_PLUGIN else "/GDRDMA"
            text = (
                f"Channel {channel:02d}/0 : {here.rank}[{here.device}] -> "
                f"{there.rank}[{there.device}] [send] via {network}{direct}"
            )
            lines.append(_line(here, "INFO", "INIT", text))
    return lines


def failure_line(failure: Failure, places: Sequence[RankPlace]) -> LogLine:
    """Return the warning that names why a host's ranks ended."""
    place = next(place for place in places if place.host == failure.host)
    identity = f"{place.host}:{place.process}:{place.process + 82} [{place.device}]"
    text = f"{identity} {failure.source} NCCL WARN {failure.message}"
    return LogLine(place.host, place.process, "WARN", "ALL", text)


def _start_of(host: Host) -> Iterator[tuple[str, str, str]]:
    version = host.plugin.version if host.plugin is not None else ""
    control = host.setting("NCCL_SOCKET_IFNAME") or "eth0"
    if host.setting("NCCL_SOCKET_IFNAME"):
        yield "INFO", "ENV", f"NCCL_SOCKET_IFNAME set by environment to {control}"
    yield "INFO", "BOOTSTRAP", f"Bootstrap: Using {control}"
    yield "VERSION", "ALL", f"NCCL version {_NCCL_VERSIONS.get(version, _NEWEST_NCCL)}"
    if host.plugin is None:
        yield (
            "INFO",
            "NET",
            "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
        )
    elif host.plugin.technology is None:
        yield "INFO", "NET", "NET/Plugin: Failed to find ncclNetPlugin symbol in libnccl-net.so."
    else:
        yield from _plugin_lines(host)
    if network_name(host) == NO_PLUGIN:
        yield "INFO", "NET", "NET/IB : No device found."
        yield "INFO", "NET", f"NET/Socket : Using [0]{control}"
    yield "INFO", "INIT", f"Using network {network_name(host)}"


def _plugin_lines(host: Host) -> Iterator[tuple[str, str, str]]:
    if host.plugin is None or host.plugin.technology is None:
        return
    name = network_name(host)
    yield "INFO", "NET", f"NET/Plugin: Loaded net plugin {name} (v7)"
    interfaces = host.setting(INTERFACE_VARIABLES[host.plugin.technology])
    if host.plugin.technology is Technology.TCPXO:
        version = host.plugin.version.lstrip("v")
        yield "INFO", "NET", f"NET/FasTrak : Initializing network FasTrak, version: {version}"
        # google/nccl-plugin-gpudirect-tcpxo, fastrak_offload/common.cc, initializeNetIfs.
        nics = "".join(
            f"[{index}]{nic.interface}:{nic.address}<0>"
            for index, nic in enumerate(used_nics(host))
        )
        yield "INFO", "NET", f"NET/FasTrak : Using {nics}"
    else:
        yield "INFO", "NET", f"NET/GPUDirectTCPX ver. {host.plugin.version.lstrip('v')}."
        yield "INFO", "NET", f"NET/GPUDirectTCPX : GPUDirectTCPX enable: 1, NICs {interfaces}"


def _channels(host: Host) -> int:
    return 2 if network_name(host) == NO_PLUGIN else max(len(used_nics(host)), 1)


def _place(places: Sequence[RankPlace], host: str, channel: int) -> RankPlace:
    own = [place for place in places if place.host == host]
    return own[channel % len(own)]


def _line(place: RankPlace, level: str, subsystem: str, text: str) -> LogLine:
    if level == "VERSION":
        return LogLine(place.host, place.process, level, subsystem, text)
    identity = f"{place.host}:{place.process}:{place.process + 82} [{place.device}]"
    return LogLine(place.host, place.process, level, subsystem, f"{identity} NCCL {level} {text}")
