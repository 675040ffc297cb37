"""The environment profiles that the TCPXO installer puts on a node.

Owns their values by plug-in version, as data, and their text. Sources: [facts gpudirect.md §8 and
§12] (`env_profiles`), google/nccl-plugin-gpudirect-tcpxo v1.0.12 to v1.0.17.
"""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.gke.nccl.verdict import version_key

DEFAULT = "default"
SIMPLE = "simple"
FILES = {
    DEFAULT: "nccl-env-profile.sh",
    SIMPLE: "nccl-env-profile-simple.sh",
}
GUEST_CONFIGS = {
    DEFAULT: "a3plus_guest_config.textproto",
    SIMPLE: "a3plus_guest_config_simple.textproto",
}
TUNER_CONFIGS = {
    DEFAULT: "a3plus_tuner_config.textproto",
    SIMPLE: "a3plus_tuner_config_simple.textproto",
}
_LL128_SINCE = (1, 0, 9)
_NVLSTREE_SINCE = (1, 0, 12)
_COMMON = {
    "NCCL_FASTRAK_CTRL_DEV": "eth0",
    "NCCL_FASTRAK_IFNAME": "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8",
    "NCCL_SOCKET_IFNAME": "eth0",
    "NCCL_CROSS_NIC": "0",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "NCCL_P2P_PCI_CHUNKSIZE": "524288",
    "NCCL_P2P_NVL_CHUNKSIZE": "1048576",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_FASTRAK_NUM_FLOWS": "2",
    "NCCL_FASTRAK_USE_SNAP": "1",
    "NCCL_FASTRAK_USE_LLCM": "1",
    "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL": "0",
    "NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING": "0",
    "NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS": "600000",
    "NCCL_NET_GDR_LEVEL": "PIX",
    "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
    "NCCL_TUNER_PLUGIN": "libnccl-tuner.so",
    "NCCL_DEBUG": "WARN",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,COLL,GRAPH",
}


def profile_environment(profile: str, version: str, folder: str) -> Mapping[str, str]:
    """Return the variables of a profile.

    Args:
        profile: `DEFAULT` or `SIMPLE`.
        version: Version of the plug-in that was installed.
        folder: Where the libraries are inside the container.
    """
    values = dict(_COMMON)
    values["NCCL_TUNER_CONFIG_PATH"] = f"{folder}/{TUNER_CONFIGS[profile]}"
    values["NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE"] = f"{folder}/{GUEST_CONFIGS[profile]}"
    key = version_key(version)
    if profile == DEFAULT and key >= _LL128_SINCE:
        values["NCCL_PROTO"] = "Simple,LL128"
        if key >= _NVLSTREE_SINCE:
            values["NCCL_NVLSTREE_MAX_CHUNKSIZE"] = "131072"
            return values
    else:
        values["NCCL_PROTO"] = "Simple"
    return values | {"NCCL_ALGO": "Ring,Tree", "NCCL_NVLS_ENABLE": "0"}


def profile_script(profile: str, version: str) -> str:
    """Return the text of a profile, to be sourced with `NCCL_LIB_DIR` set."""
    values = profile_environment(profile, version, "${NCCL_LIB_DIR}")
    lines = [
        f"# Simulated environment profile '{profile}' of plug-in {version}.",
        ': "${NCCL_LIB_DIR:?Must set NCCL_LIB_DIR}"',
        'export LD_LIBRARY_PATH="${NCCL_LIB_DIR}:${LD_LIBRARY_PATH:-}"',
    ]
    lines += [f'export {name}="{value}"' for name, value in values.items()]
    return "\n".join(lines) + "\n"
