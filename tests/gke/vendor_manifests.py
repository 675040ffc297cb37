"""Google's GPUDirect objects for Autopilot, written from facts gpudirect.md §1-§7."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

Manifest = dict[str, Any]

NAMESPACE = "gpudirect-system"
PLUGIN = "us-docker.pkg.dev/gce-ai-infra/gpudirect-{stack}/nccl-plugin-gpudirecttcpx-dev:{tag}"
DAEMON = "us-docker.pkg.dev/gce-ai-infra/gpudirect-{stack}/tcpgpudmarxd-dev:{tag}"
PAUSE = (
    "gke.gcr.io/pause:3.8@sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830"
)
INJECTOR = (
    "gcr.io/gke-release/nri-device-injector@sha256:"
    "6e79483d52abdc28454bf186320b10a56b0f117a10e8d65d5c74dbb821a76970"
)
LIMITS = {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "10Mi"}
LIBRARIES = "/home/kubernetes/bin/nvidia/lib64"


def host_path(name: str, path: str) -> Manifest:
    return {"name": name, "hostPath": {"path": path}}


def mount(name: str, path: str, **more: Any) -> Manifest:
    return {"name": name, "mountPath": path} | more


def _daemon_set(name: str, accelerators: list[str], spec: Manifest) -> Manifest:
    expression = {
        "key": "cloud.google.com/gke-accelerator",
        "operator": "In",
        "values": accelerators,
    }
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"k8s-app": name}},
        "spec": {
            "selector": {"matchLabels": {"k8s-app": name}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"name": name, "k8s-app": name}},
                "spec": {
                    "hostNetwork": True,
                    "hostPID": True,
                    "affinity": {
                        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}
                    },
                    "tolerations": [{"operator": "Exists"}],
                }
                | spec,
            },
        },
    }


def _installer_container(name: str, image: str, library: str) -> Manifest:
    return {
        "name": name,
        "image": image,
        "command": ["/bin/sh", "-c"],
        "args": [
            "set -ex\n/scripts/container_entry.sh install --install-nccl\n"
            f"mkdir -p /usr/local/nvidia/lib64\ncp -r {library}/. /usr/local/nvidia/lib64\n"
        ],
        "resources": {"limits": LIMITS},
        "securityContext": {"privileged": True},
        "volumeMounts": [mount("var-lib", "/var/lib"), mount("library-dir-host", "/usr/local")],
    }


def tcpx_installer(tag: str = "v3.1.12") -> Manifest:
    name = "nccl-tcpx-installer"
    image = PLUGIN.format(stack="tcpx", tag=tag)
    return _daemon_set(
        name,
        ["nvidia-h100-80gb"],
        {
            "volumes": [
                host_path("var-lib", "/var/lib"),
                host_path("tcpx", "/var/lib/tcpx"),
                host_path("library-dir-host", "/home/kubernetes/bin"),
            ],
            "initContainers": [_installer_container(name, image, "/var/lib/tcpx/lib64")],
            "containers": [{"name": "pause", "image": PAUSE, "resources": {"limits": LIMITS}}],
        },
    )


def tcpxo_installer(tag: str = "v1.0.15") -> Manifest:
    name = "nccl-tcpxo-installer"
    image = PLUGIN.format(stack="tcpxo", tag=tag)
    preparation = {
        "name": "pre-installation",
        "image": "ubuntu",
        "command": ["nsenter", "-at", "1", "--", "sh", "-c", "modprobe import-helper\n"],
        "resources": {"limits": LIMITS},
        "securityContext": {"privileged": True},
    }
    return _daemon_set(
        name,
        ["nvidia-h100-mega-80gb"],
        {
            "volumes": [
                host_path("var-lib", "/var/lib"),
                host_path("tcpxo", "/var/lib/tcpxo"),
                host_path("library-dir-host", "/home/kubernetes/bin"),
            ],
            "initContainers": [
                preparation,
                _installer_container(name, image, "/var/lib/tcpxo/lib64"),
            ],
            "containers": [{"name": "pause", "image": PAUSE, "resources": {"limits": LIMITS}}],
        },
    )


def device_injector() -> Manifest:
    name = "device-injector"
    return _daemon_set(
        name,
        ["nvidia-h100-80gb", "nvidia-h100-mega-80gb"],
        {
            "volumes": [host_path("dev", "/dev"), host_path("nri", "/var/run/nri")],
            "containers": [
                {
                    "name": name,
                    "image": INJECTOR,
                    "resources": {"limits": LIMITS},
                    "securityContext": {"privileged": True},
                    "volumeMounts": [mount("dev", "/dev"), mount("nri", "/var/run/nri")],
                }
            ],
        },
    )


def _workload(name: str, accelerator: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"name": name}},
        "spec": {
            "nodeSelector": {
                "cloud.google.com/gke-accelerator": accelerator,
                "cloud.google.com/gke-gpu-driver-version": "latest",
            }
        }
        | spec,
    }


def tcpx_workload(tag: str = "v2.0.15") -> Manifest:
    daemon = {
        "name": "tcpx-daemon",
        "image": DAEMON.format(stack="tcpx", tag=tag),
        "command": ["/tcpgpudmarxd/build/app/tcpgpudmarxd", "--gpu_nic_preset", "a3vm"],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}},
        "volumeMounts": [
            mount("libraries", "/usr/local/nvidia/lib64"),
            mount("tcpx-socket", "/run/tcpx"),
            mount("sys", "/hostsysfs"),
            mount("proc-sys", "/hostprocsysfs"),
        ],
    }
    test = {
        "name": "nccl-test",
        "image": PLUGIN.format(stack="tcpx", tag="v3.1.12"),
        "resources": {"limits": {"nvidia.com/gpu": 8}},
        "volumeMounts": [mount("tcpx-socket", "/tmp")],
    }
    return _workload(
        "nccl-host-1",
        "nvidia-h100-80gb",
        {
            "volumes": [
                host_path("libraries", LIBRARIES),
                {"name": "tcpx-socket", "emptyDir": {}},
                host_path("sys", "/sys"),
                host_path("proc-sys", "/proc/sys"),
            ],
            "containers": [daemon, test],
        },
    )


def tcpxo_workload(tag: str = "v1.0.21") -> Manifest:
    daemon = {
        "name": "tcpxo-daemon",
        "image": DAEMON.format(stack="tcpxo", tag=tag),
        "command": ["/bin/sh", "-c"],
        "args": ["chmod 755 /fts/entrypoint_rxdm_container.sh\n/fts/entrypoint_rxdm_container.sh"],
        "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]}},
        "volumeMounts": [
            mount("nvidia", "/usr/local/nvidia/lib64"),
            mount("sys", "/hostsysfs"),
            mount("proc-sys", "/hostprocsysfs"),
        ],
    }
    test = {
        "name": "nccl-test",
        "image": PLUGIN.format(stack="tcpxo", tag="v1.0.15"),
        "resources": {"limits": {"nvidia.com/gpu": 8}},
        "volumeMounts": [
            mount("shared-memory", "/dev/shm"),
            mount("aperture-devices", "/dev/aperture_devices"),
        ],
    }
    return _workload(
        "nccl-host-1",
        "nvidia-h100-mega-80gb",
        {
            "volumes": [
                host_path("nvidia", LIBRARIES),
                {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                host_path("sys", "/sys"),
                host_path("proc-sys", "/proc/sys"),
                host_path("aperture-devices", "/dev/aperture_devices"),
            ],
            "containers": [daemon, test],
        },
    )


def sidecar(workload: Manifest) -> Manifest:
    """The same workload with the daemon as a native sidecar [facts gpudirect.md §11.7]."""
    changed = copy.deepcopy(workload)
    daemon, *others = changed["spec"]["containers"]
    changed["spec"]["initContainers"] = [daemon | {"restartPolicy": "Always"}]
    changed["spec"]["containers"] = others
    return changed


def edited(manifest: Manifest, edit: Callable[[Manifest], object]) -> Manifest:
    """A copy with one change in the Pod's spec."""
    changed = copy.deepcopy(manifest)
    spec = changed["spec"]
    edit(spec["template"]["spec"] if "template" in spec else spec)
    return changed
