"""Which share of the reference bandwidth a configuration allows.

Owns one table of shares. The reference is a run with the recommended settings on NICs with an MTU
of 8244; how much each departure costs was published nowhere, so **every share here is an
assumption**: large enough to be seen by a gate, in the order that the sources suggest.
"""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.gke.nccl.hosts import Host, Technology

FULL_MTU_BYTES = 8244
_SMALL_MTU_BYTES = 1460
_SMALL_MTU_SHARE = 0.45
_OTHER_ZONE_SHARE = 0.3
_OVERLAP_SHARE = 0.9

_SETTING_SHARES: dict[Technology, tuple[tuple[str, str, float], ...]] = {
    # Name, recommended value, share without it. [facts gpudirect.md §8]
    Technology.TCPXO: (
        ("NCCL_FASTRAK_USE_LLCM", "1", 0.85),
        ("NCCL_TUNER_PLUGIN", "libnccl-tuner.so", 0.9),
        ("NCCL_BUFFSIZE", "8388608", 0.9),
        ("NCCL_CROSS_NIC", "0", 0.9),
        ("NCCL_NET_GDR_LEVEL", "PIX", 0.6),
        ("NCCL_P2P_NET_CHUNKSIZE", "524288", 0.95),
        ("NCCL_P2P_NVL_CHUNKSIZE", "1048576", 0.95),
    ),
    Technology.TCPX: (
        ("NCCL_PROTO", "Simple", 0.7),
        ("NCCL_BUFFSIZE", "4194304", 0.9),
        ("NCCL_CROSS_NIC", "0", 0.9),
        ("NCCL_NET_GDR_LEVEL", "PIX", 0.6),
        ("NCCL_P2P_NET_CHUNKSIZE", "524288", 0.95),
        ("NCCL_P2P_NVL_CHUNKSIZE", "1048576", 0.95),
        ("NCCL_GPUDIRECTTCPX_CTRL_DEV", "eth0", 0.8),
    ),
}
_NIC_COUNTS = {Technology.TCPXO: 8, Technology.TCPX: 4}
_INTERFACES = {
    Technology.TCPXO: "NCCL_FASTRAK_IFNAME",
    Technology.TCPX: "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
}
_NO_LL128_SHARE = 0.93
_NO_BINDINGS_SHARE = 0.8


def share_of_reference(hosts: Sequence[Host]) -> float:
    """Multiply the shares of the slowest host with that of the zones."""
    share = min(_host_share(host) for host in hosts)
    if len({host.zone for host in hosts}) > 1:
        share *= _OTHER_ZONE_SHARE
    return share


def mtu_share(mtu_bytes: int) -> float:
    """Share that an MTU allows: packets per second are the limit, so smaller packets carry less."""
    if mtu_bytes >= FULL_MTU_BYTES:
        return 1.0
    span = (mtu_bytes - _SMALL_MTU_BYTES) / (FULL_MTU_BYTES - _SMALL_MTU_BYTES)
    return max(_SMALL_MTU_SHARE + (1 - _SMALL_MTU_SHARE) * span, 0.25)


def binding_overlaps(transmit: str, receive: str) -> bool:
    """Whether the CPU lists of one NIC meet, as in the list published before March 2026 [R17]."""
    receiving = _bindings(receive)
    return any(cpus & receiving.get(name, set()) for name, cpus in _bindings(transmit).items())


def _host_share(host: Host) -> float:
    technology = host.plugin.technology if host.plugin is not None else None
    if technology is None:
        return 1.0
    names = [name for name in host.setting(_INTERFACES[technology]).split(",") if name]
    share = min(len(names) / _NIC_COUNTS[technology], 1.0)
    share *= min(mtu_share(host.nics[name].mtu_bytes) for name in names)
    for name, recommended, without in _SETTING_SHARES[technology]:
        if host.setting(name) != recommended:
            share *= without
    if technology is Technology.TCPXO:
        return share if "LL128" in host.setting("NCCL_PROTO") else share * _NO_LL128_SHARE
    return share * _binding_share(host)


def _binding_share(host: Host) -> float:
    transmit = host.setting("NCCL_GPUDIRECTTCPX_TX_BINDINGS")
    receive = host.setting("NCCL_GPUDIRECTTCPX_RX_BINDINGS")
    if not transmit or not receive:
        return _NO_BINDINGS_SHARE
    return _OVERLAP_SHARE if binding_overlaps(transmit, receive) else 1.0


def _bindings(text: str) -> dict[str, set[int]]:
    """Read `eth1:8-21,112-125;eth2:...`; what is no CPU range is left out, as the plug-in does."""
    found: dict[str, set[int]] = {}
    for entry in text.strip("\"'").split(";"):
        interface, _, ranges = entry.partition(":")
        cpus = found.setdefault(interface.strip(), set())
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            if first.isdigit() and (last.isdigit() or not last):
                cpus.update(range(int(first), int(last or first) + 1))
    return found
