"""What becomes of a run: does it finish, over which transport, at which share of the reference.

Owns the order of the checks and the one result. The shares are in `throughput`. Rules that no
source states outright are marked (inf.); the stand-in then takes the likelier reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sandbox.gke.nccl.hosts import Host, Nic, Run, Technology
from sandbox.gke.nccl.throughput import share_of_reference

NO_PLUGIN = "Socket"
_NETWORK_NAMES = {Technology.TCPXO: "FasTrak", Technology.TCPX: "GPUDirectTCPX_v7"}
INTERFACE_VARIABLES = {
    Technology.TCPXO: "NCCL_FASTRAK_IFNAME",
    Technology.TCPX: "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
}
DEFAULT_SOCKET_PREFIX = "/tmp"  # noqa: S108 - the plug-in's own default, inside a container
"""Where the TCPX plug-in looks for the daemon's unix sockets [facts gpudirect.md §5]."""
_DAEMON_OF_PLUGIN = {
    # [facts gpudirect.md §10]: plug-in and daemon of one release note.
    "v1.0.8-1": "v1.0.14",
    "v1.0.9-1": "v1.0.15",
    "v1.0.11": "v1.0.17",
    "v1.0.12": "v1.0.18",
    "v1.0.14": "v1.0.20",
    "v1.0.15": "v1.0.21",
    "v1.0.16": "v1.0.22",
    "v1.0.17": "v1.0.23",
    "v3.1.9": "v2.0.12",
    "v3.1.12": "v2.0.15",
}
_NVLSTREE_CHUNK = ("NCCL_NVLSTREE_MAX_CHUNKSIZE", "131072")


class Outcome(StrEnum):
    """How a run goes on after its start."""

    COMPLETES = "completes"
    HANGS = "hangs"
    ABORTS = "aborts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why one host's ranks end before the first row."""

    host: str
    message: str
    """The line that names the cause."""
    source: str
    """File and line in front of it, as NCCL prints them."""
    by_signal: bool
    """Whether the process kills itself (a fatal log line) or NCCL returns an error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The result of all checks."""

    outcome: Outcome
    network: str
    """What NCCL says after "Using network"; empty before a plug-in was chosen."""
    share: float = 1.0
    """Part of the reference bandwidth that the configuration allows, 0 to 1."""
    failure: Failure | None = None


def decide(run: Run) -> Verdict:
    """Check a run in the order in which the real programs would stumble."""
    for host in run.hosts:
        failure = _gpu_failure(host) or _plugin_failure(host)
        if failure is not None:
            return Verdict(outcome=Outcome.ABORTS, network=network_name(host), failure=failure)
    first = run.hosts[0]
    network = network_name(first)
    if len(run.hosts) == 1:
        return Verdict(outcome=Outcome.COMPLETES, network=network)
    failure = _mismatch(run.hosts)
    if failure is not None:
        return Verdict(outcome=Outcome.ABORTS, network=network, failure=failure)
    if network == NO_PLUGIN:
        return Verdict(outcome=Outcome.COMPLETES, network=network)
    used = {nic.network for host in run.hosts for nic in used_nics(host)}
    if used & set(run.closed_networks):
        return Verdict(outcome=Outcome.HANGS, network=network)
    return Verdict(outcome=Outcome.COMPLETES, network=network, share=share_of_reference(run.hosts))


def network_name(host: Host) -> str:
    """Name the network that NCCL would use on a host."""
    if host.plugin is None or host.plugin.technology is None:
        return NO_PLUGIN
    return _NETWORK_NAMES[host.plugin.technology]


def used_nics(host: Host) -> list[Nic]:
    """Return the GPU NICs that the plug-in uses, in the order of their indexes in NCCL's log."""
    return [host.nics[name] for name in _named_interfaces(host) if name in host.nics]


def version_key(version: str) -> tuple[int, ...]:
    """Turn `v1.0.8-1` into numbers that compare."""
    return tuple(
        int(part) for part in version.lstrip("v").replace("-", ".").split(".") if part.isdigit()
    )


def _gpu_failure(host: Host) -> Failure | None:
    if host.gpus >= host.ranks:
        return None
    message = "no CUDA-capable device is detected" if host.gpus == 0 else "invalid device ordinal"
    return Failure(
        host=host.name,
        message=f"Test CUDA failure '{message}'",
        source="common.cu:891",
        by_signal=False,
    )


def _plugin_failure(host: Host) -> Failure | None:
    if host.plugin is None or host.plugin.technology is None:
        return None
    check = _tcpxo_failure if host.plugin.technology is Technology.TCPXO else _tcpx_failure
    found = check(host)
    if found is None:
        return None
    source, message = found
    return Failure(host=host.name, message=message, source=source, by_signal=True)


def _tcpxo_failure(host: Host) -> tuple[str, str] | None:
    """Checks of the TCPXO plug-in's initialisation; it never falls back to plain sockets.

    Source: google/nccl-plugin-gpudirect-tcpxo, tcpdirect_plugin/fastrak_offload (init.cc,
    fastrak_plugin.cc, nic_client_router.cc), 2026-06-26.
    """
    checked = _checker_failure(host)
    if checked is not None:
        return checked
    if host.daemon is None or host.daemon.technology is not Technology.TCPXO:
        return (
            "fastrak_offload/init.cc:133",
            f"NET/FasTrak Timeout: RxDM not ready on {host.name}: connection refused;"
            " Plug-in core initialization failed (DEADLINE_EXCEEDED), aborting...",
        )
    if _daemon_is_too_new(host):
        return (
            "fastrak_offload/init.cc:141",
            f"NET/FasTrak buffer manager {host.daemon.version} speaks a newer protocol than"
            f" plug-in {_version(host)}; Plug-in core initialization failed (INTERNAL),"
            " aborting...",
        )
    missing = _missing_interfaces(host)
    if missing:
        return (
            "fastrak_offload/common.cc:212",
            f"NET/FasTrak {missing}; Plug-in core initialization failed (INTERNAL), aborting...",
        )
    alone = min(len(used_nics(host)), host.gpus)
    if alone < host.gpus and host.setting("NCCL_FASTRAK_ALLOW_NIC_SUBSET") != "1":
        # Each GPU wants the NIC beside it: nccl_shim.cc, NcclShim::Create.
        return (
            "fastrak_offload/fastrak_plugin.cc:104",
            f"NET/FasTrak Failed to initialize nccl shim on device:{alone} (INTERNAL: Could not"
            f" find closest netdev for GPU PCI of device {alone}), aborting...",
        )
    if host.setting("NCCL_FASTRAK_USE_LLCM") == "1" and not host.apertures_visible:
        address = used_nics(host)[0].address
        return (
            "fastrak_offload/fastrak_plugin.cc:104",
            "NET/FasTrak Failed to initialize nccl shim on device:0 (NOT_FOUND: No LLCM device"
            f" found for address {address}), aborting...",
        )
    return None


def _checker_failure(host: Host) -> tuple[str, str] | None:
    """Checks of the guest config checker [facts gpudirect.md §8, "LL128 and NVLSTree"].

    That a missing config file ends the process is (inf.): the published script that names none
    switches the checker off.
    """
    if host.plugin is None or not host.plugin.checker:
        return None
    if host.setting("NCCL_SHIMNET_SHIM_LAYERS") == "UNUSED":
        return None
    where = "shimnet/guest_config_checker.cc:88"
    named = host.setting("NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE")
    if host.guest_config is None:
        return (
            where,
            f"NET/Shim guest config checker: cannot read config file '{named}', aborting...",
        )
    name, wanted = _NVLSTREE_CHUNK
    needs_chunk = host.guest_config == "default" and version_key(_version(host)) >= (1, 0, 12)
    if needs_chunk and host.setting(name) != wanted:
        seen = host.environment.get(name)
        shown = "unset" if seen is None else f"'{seen}'"
        return (
            where,
            f"NET/Shim guest config checker: {name} is {shown}, expected {wanted}, aborting...",
        )
    return None


def _tcpx_failure(host: Host) -> tuple[str, str] | None:
    """Checks of the TCPX plug-in; its sockets with the daemon live in a shared directory.

    Sources: [facts gpudirect.md §5], GoogleCloudPlatform/cluster-toolkit#3032 (refused).
    """
    missing = _missing_interfaces(host)
    if missing:
        return "net_tcpx.cc:310", f"NET/GPUDirectTCPX {missing}"
    prefix = host.setting("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX") or DEFAULT_SOCKET_PREFIX
    if host.daemon is None or not host.daemon_socket_visible:
        return (
            "rx_rule_manager.cc:74",
            f"NET/GPUDirectTCPX failed to connect to {prefix}/rx_rule_manager: Connection refused",
        )
    if host.daemon.technology is not Technology.TCPX or _daemon_is_too_new(host):
        return (
            "rx_rule_manager.cc:91",
            f"NET/GPUDirectTCPX receive daemon {host.daemon.version} does not fit plug-in"
            f" {_version(host)}",
        )
    return None


def _missing_interfaces(host: Host) -> str:
    """Say which of the interfaces that the environment names are not in the Pod."""
    if host.plugin is None or host.plugin.technology is None:
        return ""
    variable = INTERFACE_VARIABLES[host.plugin.technology]
    named = _named_interfaces(host)
    if not named:
        return f"{variable} names no interface"
    missing = [name for name in named if name not in host.nics]
    return f"no such interface: {','.join(missing)} ({variable})" if missing else ""


def _named_interfaces(host: Host) -> list[str]:
    if host.plugin is None or host.plugin.technology is None:
        return []
    value = host.setting(INTERFACE_VARIABLES[host.plugin.technology])
    return [name for name in value.split(",") if name]


def _version(host: Host) -> str:
    return host.plugin.version if host.plugin is not None else ""


def _daemon_is_too_new(host: Host) -> bool:
    """Whether the daemon is newer than the one released with the plug-in (inf.).

    Upstream says to upgrade the installer before the daemon, so an older daemon is expected to
    work and a newer one is not [facts gpudirect.md §0].
    """
    partner = _DAEMON_OF_PLUGIN.get(_version(host))
    if partner is None or host.daemon is None:
        return False
    return version_key(host.daemon.version) > version_key(partner)


def _mismatch(hosts: Sequence[Host]) -> Failure | None:
    """All Pods of one workload must see the same plug-in [facts gpudirect.md §0]."""
    first = hosts[0]
    for host in hosts[1:]:
        if network_name(host) != network_name(first) or _version(host) != _version(first):
            return Failure(
                host=host.name,
                message=f"NET/{network_name(host)} VERSION MISMATCH: {first.name} uses"
                f" {network_name(first)} {_version(first)}, {host.name} uses"
                f" {network_name(host)} {_version(host)}",
                source="transport/net.cc:391",
                by_signal=False,
            )
    return None
