"""A cluster with simulated nodes, and the objects that the tests put into it.

Manifests follow Google's published Autopilot files as facts gpudirect.md §1 to §8 restate them;
none of them comes from this project's own program.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.contracts import ClusterContext, ClusterKey
from sandbox.gke.api import KubernetesApi
from sandbox.gke.runtime import LocalClusterRuntime
from sandbox.gke.simulation import kwok_arguments, make_simulation
from tests.gke import vendor_manifests as vendor
from tests.gke.conftest import TOKEN, EventLoopThread, RunningCluster, write_user_kubeconfig
from tests.gke.fake_cloud import REGION, FakeCloud, cluster_resource, project_with_cluster_network

Manifest = dict[str, Any]
MEGA, HIGH = "nvidia-h100-mega-80gb", "nvidia-h100-80gb"
NIC_COUNTS = {MEGA: 8, HIGH: 4}
GPU_DEVICES = [f"/dev/nvidia{number}" for number in range(8)] + [
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
]
IMPORT_HELPER = "/dev/dmabuf_import_helper"


def project_with_gpu_networks(count: int = 8) -> FakeCloud:
    """A project with GPU networks `net-N`, open inside, beside the cluster's own."""
    cloud = project_with_cluster_network()
    for number in range(1, count + 1):
        cloud.add(f"net-{number}", f"sub-{number}", f"192.168.{number}.0/24")
        cloud.rules.append(open_rule(number))
    return cloud


def open_rule(number: int) -> Manifest:
    return {
        "name": f"internal-{number}",
        "network": f"projects/p/global/networks/net-{number}",
        "direction": "INGRESS",
        "sourceRanges": ["192.168.0.0/16"],
        "allowed": [
            {"IPProtocol": "tcp", "ports": ["0-65535"]},
            {"IPProtocol": "udp", "ports": ["0-65535"]},
            {"IPProtocol": "icmp"},
        ],
    }


def network_objects(count: int) -> list[Manifest]:
    found: list[Manifest] = []
    for number in range(1, count + 1):
        name = f"vpc{number}"
        found.append(
            {
                "apiVersion": "networking.gke.io/v1",
                "kind": "GKENetworkParamSet",
                "metadata": {"name": name},
                "spec": {
                    "vpc": f"net-{number}",
                    "vpcSubnet": f"sub-{number}",
                    "deviceMode": "NetDevice",
                },
            }
        )
        reference = {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": name}
        found.append(
            {
                "apiVersion": "networking.gke.io/v1",
                "kind": "Network",
                "metadata": {"name": name},
                "spec": {"type": "Device", "parametersRef": reference},
            }
        )
    return found


def interfaces(count: int) -> str:
    entries = [{"interfaceName": "eth0", "network": "default"}]
    entries += [
        {"interfaceName": f"eth{number}", "network": f"vpc{number}"}
        for number in range(1, count + 1)
    ]
    return json.dumps(entries)


def gpu_annotations(accelerator: str, *, nics: int | None = None) -> dict[str, str]:
    """The three annotations of a GPU Pod [facts gpudirect.md §4]."""
    mega = accelerator == MEGA
    devices = [*GPU_DEVICES, IMPORT_HELPER] if mega else GPU_DEVICES
    daemon = "tcpxo-daemon" if mega else "tcpx-daemon"
    return {
        f"devices.gke.io/container.{daemon}": json.dumps([{"path": path} for path in devices]),
        "networking.gke.io/default-interface": "eth0",
        "networking.gke.io/interfaces": interfaces(nics or NIC_COUNTS[accelerator]),
    }


def pre_installation() -> Manifest:
    """The first init container of the TCPXO installer [facts gpudirect.md §2]."""
    script = (
        "/sbin/iptables -I INPUT -p tcp -m tcp -j ACCEPT && modprobe import-helper\n"
        "mkdir -p /dev/aperture_devices\n"
        "while IFS= read -r line; do\n"
        "  address=$(echo \"$line\" | awk '{print $1}')\n"
        '  mkdir -p "/dev/aperture_devices/$address"\n'
        '  umount -R "/dev/aperture_devices/$address"\n'
        '  mount --bind "$(readlink -f "/sys/bus/pci/devices/$address")"'
        ' "/dev/aperture_devices/$address"\n'
        "done < <(lspci -nn -D | grep '1ae0:0084')\n"
        "if [ -d /dev/aperture_devices ]; then\n"
        "  chmod -R a+r /dev/aperture_devices/\n"
        "  chmod a+rw /dev/aperture_devices/*/resource*\n"
        "fi\n"
    )
    return {
        "name": "pre-installation",
        "image": "ubuntu",
        "command": ["nsenter", "-at", "1", "--", "sh", "-c", script],
        "securityContext": {"privileged": True},
    }


def installer(accelerator: str, tag: str | None = None) -> Manifest:
    if accelerator == HIGH:
        return vendor.tcpx_installer(tag or "v3.1.12")
    found = vendor.tcpxo_installer(tag or "v1.0.15")
    preparation = found["spec"]["template"]["spec"]["initContainers"][0]
    preparation |= pre_installation()
    return found


def daemon_container(accelerator: str, tag: str | None = None) -> Manifest:
    """The receive daemon [facts gpudirect.md §5, §7]."""
    if accelerator == MEGA:
        return {
            "name": "tcpxo-daemon",
            "image": vendor.DAEMON.format(stack="tcpxo", tag=tag or "v1.0.21"),
            "imagePullPolicy": "Always",
            "command": ["/bin/sh", "-c"],
            "args": [
                "set -ex\nchmod 755 /fts/entrypoint_rxdm_container.sh\n"
                "/fts/entrypoint_rxdm_container.sh --num_hops=2\n"
            ],
            "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]}},
            "volumeMounts": [
                vendor.mount("nvidia", "/usr/local/nvidia/lib64"),
                vendor.mount("sys", "/hostsysfs"),
                vendor.mount("proc-sys", "/hostprocsysfs"),
            ],
        }
    return {
        "name": "tcpx-daemon",
        "image": vendor.DAEMON.format(stack="tcpx", tag=tag or "v2.0.15"),
        "imagePullPolicy": "Always",
        "command": [
            "/tcpgpudmarxd/build/app/tcpgpudmarxd",
            *("--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd", "--uds_path", "/run/tcpx"),
            *("--setup_param", '\\"--verbose 128 2 0 \\"'),
        ],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
        "volumeMounts": [
            vendor.mount("nvidia", "/usr/local/nvidia/lib64"),
            vendor.mount("tcpx-socket", "/run/tcpx"),
            vendor.mount("sys", "/hostsysfs"),
            vendor.mount("proc-sys", "/hostprocsysfs"),
        ],
    }


def volumes(accelerator: str) -> list[Manifest]:
    found = [
        vendor.host_path("nvidia", vendor.LIBRARIES),
        vendor.host_path("sys", "/sys"),
        vendor.host_path("proc-sys", "/proc/sys"),
    ]
    if accelerator == MEGA:
        return [
            *found,
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            vendor.host_path("aperture-devices", "/dev/aperture_devices"),
        ]
    return [*found, {"name": "tcpx-socket", "emptyDir": {}}]


ALLGATHER = """cat >/scripts/allgather.sh <<EOF
#!/bin/bash
/scripts/init_ssh.sh \\${@};
pushd /scripts;
/scripts/gen_hostfiles.sh \\${@};
popd;
/scripts/run-nccl-fastrak.sh all_gather_perf "${LD_LIBRARY_PATH}" 8 \
eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8 1M 1G 3 2 10
EOF
chmod +x /scripts/allgather.sh
service ssh restart;
sleep infinity;
"""


def workload_container(accelerator: str, tag: str | None = None) -> Manifest:
    """The published test container; it waits for `exec` [facts gpudirect.md §5, §7]."""
    mega = accelerator == MEGA
    image = vendor.PLUGIN.format(
        stack="tcpxo" if mega else "tcpx", tag=tag or ("v1.0.15" if mega else "v3.1.12")
    )
    mounts = (
        [
            vendor.mount("shared-memory", "/dev/shm"),
            vendor.mount("aperture-devices", "/dev/aperture_devices"),
        ]
        if mega
        else [vendor.mount("tcpx-socket", "/tmp")]
    )
    return {
        "name": "nccl-test",
        "image": image,
        "command": [
            "/bin/sh",
            "-c",
            ALLGATHER if mega else "service ssh restart; sleep infinity;",
        ],
        "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
        "resources": {"limits": {"nvidia.com/gpu": 8}},
        "volumeMounts": mounts,
    }


def gpu_pod(name: str, accelerator: str, **changes: Any) -> Manifest:
    """One of the page's two bare Pods; its Service has the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"name": name},
            "annotations": gpu_annotations(accelerator),
        },
        "spec": {
            "nodeSelector": {
                "cloud.google.com/gke-accelerator": accelerator,
                "cloud.google.com/gke-gpu-driver-version": "latest",
            },
            "containers": [daemon_container(accelerator), workload_container(accelerator)],
            "volumes": volumes(accelerator),
        }
        | changes,
    }


def service(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": "None", "selector": {"name": name}},
    }


TCPX_SETTINGS = {
    "NCCL_SOCKET_IFNAME": "eth0",
    "NCCL_ALGO": "Ring,Tree",
    "NCCL_PROTO": "Simple",
    "NCCL_CROSS_NIC": "0",
    "NCCL_NET_GDR_LEVEL": "PIX",
    "NCCL_P2P_PXN_LEVEL": "0",
    "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1,eth2,eth3,eth4",
    "NCCL_GPUDIRECTTCPX_CTRL_DEV": "eth0",
    "NCCL_DYNAMIC_CHUNK_SIZE": "524288",
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "NCCL_P2P_PCI_CHUNKSIZE": "524288",
    "NCCL_P2P_NVL_CHUNKSIZE": "1048576",
    "NCCL_BUFFSIZE": "4194304",
    "NCCL_NSOCKS_PERTHREAD": "4",
    "NCCL_SOCKET_NTHREADS": "1",
    "NCCL_GPUDIRECTTCPX_TX_BINDINGS": "eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;"
    "eth4:60-73,164-177",
    "NCCL_GPUDIRECTTCPX_RX_BINDINGS": "eth1:22-35,126-139;eth2:22-35,126-139;eth3:74-87,178-191;"
    "eth4:74-87,178-191",
    "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS": "500000",
}
"""[facts gpudirect.md §8, TCPX]"""


def tcpx_config_map() -> Manifest:
    """ConfigMap `nccl-configmap` [facts gpudirect.md §6]."""
    passed = " \\\n".join(f'  -x {name}="{value}"' for name, value in TCPX_SETTINGS.items())
    run = (
        "#!/bin/bash\n"
        'SCRIPT_DIR=$( cd -- "$( dirname -- "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )\n'
        'source "${SCRIPT_DIR}"/unix_client_prefix_selection.sh\n'
        "benchmark=$1\nld_library_path_override=$2\ngpu_per_node=$3\nsocket_ifnames=$4\n"
        "data_b=$5\ndata_e=$6\nnhosts=2\n"
        'if ! [[ -z "$7" ]]; then nhosts=$7; fi\n'
        "LD_LIBRARY_PATH=${ld_library_path_override} \\\n"
        "mpirun --mca btl tcp,self --mca btl_tcp_if_include eth0 --allow-run-as-root \\\n"
        '-np $(( gpu_per_node * "${nhosts}" )) \\\n'
        '--hostfile "${SCRIPT_DIR}/hostfiles${nhosts}/hostfile${gpu_per_node}" \\\n'
        '-x LD_LIBRARY_PATH="${LD_LIBRARY_PATH}:/usr/local/nvidia/lib64" \\\n'
        "-x NCCL_DEBUG=INFO -x NCCL_DEBUG_SUBSYS=INIT,NET \\\n"
        f"{passed} \\\n"
        "taskset -c 0-7,104-111,52-59,156-163 \\\n"
        '/third_party/nccl-tests-mpi/build/"${benchmark}" \\\n'
        '-b "${data_b}" -e "${data_e}" -f 2 -g 1 -w 5 --iters 100 -c 0 2>&1 \\\n'
        '| tee "a_${nhosts}_${gpu_per_node}_${socket_ifnames}.txt"\n'
    )
    allgather = (
        "#!/bin/bash\n"
        "for script in /configs/*; do\n"
        "  name=$(basename $script)\n"
        '  cp $script "/scripts/$name"\n'
        '  chmod +x "/scripts/$name"\n'
        "done\n"
        "/scripts/init_ssh.sh ${@};\npushd /scripts;\n/scripts/gen_hostfiles.sh ${@};\npopd;\n"
        "/scripts/run-allgather.sh 8 eth1,eth2,eth3,eth4 1M 512M ${#};\n"
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "nccl-configmap", "namespace": "default"},
        "data": {"allgather.sh": allgather, "run-nccl.sh": run},
    }


@dataclass(frozen=True)
class SimulatedCluster(RunningCluster):
    """A cluster whose Pods run."""

    def apply(self, *manifests: Manifest) -> None:
        answer = self.kubectl("apply", "-f", "-", manifest=list(manifests))
        assert answer.returncode == 0, answer.stderr

    def get(self, kind: str, name: str = "", namespace: str = "default") -> Manifest:
        answer = self.kubectl("-n", namespace, "get", kind, *filter(None, [name]), "-o", "json")
        assert answer.returncode == 0, answer.stderr
        found: Manifest = json.loads(answer.stdout)
        return found

    def wait(self, what: Callable[[], Any], seconds: float = 40.0) -> Any:
        """Ask until the answer is true; a failing command counts as no."""
        deadline = time.monotonic() + seconds
        while True:
            found = what()
            if found or time.monotonic() > deadline:
                assert found, "it did not happen in time"
                return found
            time.sleep(0.1)

    def events(self, name: str, namespace: str = "default") -> list[Manifest]:
        items = self.get("events", namespace=namespace)["items"]
        return [item for item in items if item["involvedObject"]["name"] == name]


@contextmanager
def simulated_cluster(binaries: Path, home: Path, cloud: FakeCloud) -> Iterator[SimulatedCluster]:
    """Start a control plane with simulated nodes, in a loop of its own, and stop it."""
    loop = EventLoopThread()
    runtime = LocalClusterRuntime(
        home,
        token=TOKEN,
        cloud=cloud,
        binaries=binaries,
        kwok_arguments=kwok_arguments,
        simulation=make_simulation,
    )
    key = ClusterKey(project="p", location=REGION, name="demo")
    endpoint = loop.run(runtime.start(key, cluster_resource()))
    context: ClusterContext | None = runtime.context(key)
    assert context is not None
    ca = home / "ca.crt"
    ca.write_text(endpoint.ca_certificate_pem)
    api = KubernetesApi.from_kubeconfig(context.kubeconfig)
    kubeconfig = write_user_kubeconfig(home / "user.yaml", f"https://{endpoint.endpoint}", ca)
    try:
        yield SimulatedCluster(loop, runtime, key, cloud, context, api, kubeconfig)
    finally:
        loop.run(api.aclose())
        loop.run(runtime.stop(key, delete=True))
        left = loop.run(_still_running())
        loop.close()
        assert not left, left


async def _still_running() -> list[str]:
    """Name the tasks of the loop that do not end by themselves within seconds."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    pending = (await asyncio.wait(tasks, timeout=10))[1] if tasks else set()
    return [repr(task) for task in pending]
