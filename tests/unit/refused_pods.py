"""Pods that GPUDirect or Autopilot refuses, where the refusal points, and words of it."""

from __future__ import annotations

from typing import Any

from tests.unit.workload_samples import Document, gpu_container, pod

ACCELERATOR = "cloud.google.com/gke-accelerator"
INTERFACES = "networking.gke.io/interfaces"


def limits(count: Any) -> Document:
    return {"limits": {"nvidia.com/gpu": count}}


def node_affinity(key: str, *values: str, operator: str = "In") -> Document:
    expression = {"key": key, "operator": operator, "values": list(values)}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    }


def worker(**fields: Any) -> Document:
    """Return a Pod whose one container has GPUs."""
    return pod(gpu_container(**fields))


def selecting(**labels: str) -> Document:
    """Return a Pod that selects nodes by Google's labels, written with underscores."""
    keys = {f"cloud.google.com/{name.replace('_', '-')}": value for name, value in labels.items()}
    return pod(nodeSelector=keys)


def annotated(**annotations: str) -> Document:
    return pod(metadata={"annotations": annotations})


def mounted(path: str, **source: Any) -> Document:
    return pod(
        gpu_container(volumeMounts=[{"name": "own", "mountPath": path}]),
        volumes=[{"name": "own", **source}],
    )


REFUSED: list[tuple[str, Document, str, str]] = [
    # what, the Pod, the field, words of the message
    ("one GPU", worker(resources=limits(1)), "containers[0].resources", "all 8 GPUs"),
    ("sixteen GPUs", worker(resources=limits("16")), "containers[0].resources", "16"),
    ("GPUs that are no number", worker(resources=limits("x")), "resources", "'train'"),
    (
        "a request alone",
        worker(resources={"requests": {"nvidia.com/gpu": 8}}),
        "containers[0].resources.requests",
        "without a limit",
    ),
    (
        "all GPUs twice",
        pod(gpu_container("one"), gpu_container("two")),
        "spec.containers[1].resources",
        "'two'",
    ),
    (
        "the other machine by selector",
        selecting(gke_accelerator="nvidia-h100-80gb"),
        f"spec.nodeSelector[{ACCELERATOR}]",
        "nvidia-h100-mega-80gb",
    ),
    (
        "the other machine by affinity",
        pod(affinity=node_affinity(ACCELERATOR, "nvidia-h100-80gb", "nvidia-l4")),
        "nodeSelectorTerms[0].matchExpressions[0]",
        "nvidia-h100-mega-80gb",
    ),
    (
        "another machine type",
        pod(nodeSelector={"node.kubernetes.io/instance-type": "a2-highgpu-1g"}),
        "spec.nodeSelector[node.kubernetes.io/instance-type]",
        "a3-megagpu-8g",
    ),
    (
        "half of the accelerators",
        selecting(gke_accelerator_count="4"),
        "gke-accelerator-count",
        "expects 8",
    ),
    (
        "a node pool",
        selecting(gke_nodepool="pool"),
        "spec.nodeSelector[cloud.google.com/gke-nodepool]",
        "cloud.google.com/gke-nodepool",
    ),
    (
        "a node pool by affinity",
        pod(affinity=node_affinity("cloud.google.com/gke-nodepool", "pool")),
        "matchExpressions[0]",
        "cloud.google.com/gke-nodepool",
    ),
    (
        "multi-instance GPUs",
        selecting(gke_gpu_partition_size="1g.10gb"),
        "gke-gpu-partition-size",
        "multi-instance",
    ),
    (
        "time-sharing",
        selecting(gke_gpu_sharing_strategy="time-sharing"),
        "gke-gpu-sharing-strategy",
        "time-sharing",
    ),
    (
        "MPS",
        selecting(gke_max_shared_clients_per_gpu="2"),
        "gke-max-shared-clients-per-gpu",
        "MPS",
    ),
    (
        "FastSocket nodes",
        selecting(gke_nccl_fastsocket="true"),
        "gke-nccl-fastsocket",
        "FastSocket",
    ),
    (
        "FastSocket by variable",
        worker(env=[{"name": "NCCL_NET", "value": "FastSocket"}]),
        "containers[0].env[0]",
        "FastSocket",
    ),
    (
        "local SSD selector",
        selecting(gke_ephemeral_storage_local_ssd="true"),
        "gke-ephemeral-storage-local-ssd",
        "always have",
    ),
    (
        "Spot and flex-start",
        selecting(gke_spot="true", gke_flex_start="true"),
        "gke-spot",
        "together with",
    ),
    (
        "a reservation and flex-start",
        selecting(reservation_name="mine", gke_flex_start="true"),
        "reservation-name",
        "together with",
    ),
    (
        "a custom class beside the accelerator",
        selecting(compute_class="mine", gke_accelerator="nvidia-h100-mega-80gb"),
        f"spec.nodeSelector[{ACCELERATOR}]",
        "ComputeClass 'mine'",
    ),
    ("host network", pod(hostNetwork=True), "spec.hostNetwork", "Autopilot"),
    ("host processes", pod(hostPID=True), "spec.hostPID", "Autopilot"),
    (
        "a privileged container without GPUs",
        pod(gpu_container(), {"name": "tune", "securityContext": {"privileged": True}}),
        "spec.containers[1].securityContext.privileged",
        "'tune'",
    ),
    (
        "a privileged init container",
        pod(initContainers=[{"name": "tune", "securityContext": {"privileged": True}}]),
        "spec.initContainers[0].securityContext.privileged",
        "'tune'",
    ),
    (
        "a capability",
        worker(securityContext={"capabilities": {"add": ["IPC_LOCK"]}}),
        "capabilities.add",
        "refuses",
    ),
    (
        "a port of the node",
        worker(ports=[{"containerPort": 80, "hostPort": 80}]),
        "ports[0].hostPort",
        "port of the node",
    ),
    (
        "a capability in the kernel's spelling",
        worker(securityContext={"capabilities": {"add": ["CAP_NET_RAW"]}}),
        "capabilities.add",
        "refuses",
    ),
    (
        "all of /proc",
        worker(securityContext={"procMount": "Unmasked"}),
        "securityContext.procMount",
        "/proc",
    ),
    (
        "a folder of the node",
        mounted("/data", hostPath={"path": "/mnt/disks"}),
        "containers[0].volumeMounts[0]",
        "does not allow",
    ),
    (
        "the node's logs for writing",
        mounted("/log", hostPath={"path": "/var/log/pods"}),
        "containers[0].volumeMounts[0]",
        "readOnly: true",
    ),
    (
        "the daemon's view of the node in another container",
        mounted("/hostsysfs", hostPath={"path": "/sys"}),
        "containers[0].volumeMounts[0]",
        "does not allow",
    ),
    (
        "a type of volume",
        pod(volumes=[{"name": "own", "rbd": {"image": "x"}}]),
        "spec.volumes[0]",
        "type",
    ),
    (
        "the libraries one level off",
        mounted("/usr/local/nvidia", hostPath={"path": "/home/kubernetes/bin/nvidia/lib64"}),
        "containers[0].volumeMounts[0]",
        "/usr/local/nvidia/lib64",
    ),
    (
        "another volume over the libraries",
        mounted("/usr/local/nvidia/lib64", emptyDir={}),
        "containers[0].volumeMounts[own]",
        "libraries",
    ),
    (
        "another volume over the apertures",
        mounted("/dev/aperture_devices/", emptyDir={}),
        "containers[0].volumeMounts[own]",
        "aperture-devices",
    ),
    (
        "a mount without a volume",
        worker(volumeMounts=[{"name": "gone", "mountPath": "/x"}]),
        "containers[0].volumeMounts[0]",
        "does not have",
    ),
    (
        "two mounts at one path",
        pod(
            gpu_container(
                volumeMounts=[
                    {"name": "a", "mountPath": "/x"},
                    {"name": "b", "mountPath": "/x/"},
                ]
            ),
            volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}],
        ),
        "containers[0].volumeMounts[1]",
        "one path",
    ),
    (
        "the other stack's daemon",
        pod(gpu_container(), {"name": "tcpx-daemon", "image": "x/tcpgpudmarxd-dev:v2.0.12"}),
        "spec.containers[1]",
        "'tcpxo-daemon'",
    ),
    (
        "a daemon under another name",
        pod(gpu_container(), {"name": "rxdm", "image": "x/y/tcpgpudmarxd-dev:v1.0.21"}),
        "spec.containers[1]",
        "'tcpxo-daemon'",
    ),
    (
        "something else under the daemon's name",
        pod(gpu_container(), {"name": "tcpxo-daemon", "image": "busybox"}),
        "spec.containers[1].image",
        "something else",
    ),
    (
        "another first interface",
        annotated(**{"networking.gke.io/default-interface": "eth1"}),
        "default-interface",
        "eth0",
    ),
    ("interfaces that are no list", annotated(**{INTERFACES: '{"a":1}'}), INTERFACES, "list"),
    ("interfaces that are no JSON", annotated(**{INTERFACES: "[{},]"}), INTERFACES, "JSON"),
    (
        "too few interfaces",
        annotated(**{INTERFACES: '[{"interfaceName":"eth0","network":"default"}]'}),
        INTERFACES,
        "1 entries, expected 9",
    ),
    (
        "devices for a container that is not there",
        annotated(**{"devices.gke.io/container.tcpx-daemon": "- path: /dev/nvidia0"}),
        "devices.gke.io/container.tcpx-daemon",
        "does not have",
    ),
    (
        "devices that are too few",
        annotated(**{"devices.gke.io/container.tcpxo-daemon": "- path: /dev/nvidia0"}),
        "devices.gke.io/container.tcpxo-daemon",
        "/dev/dmabuf_import_helper",
    ),
    (
        "a value that ends the workload",
        worker(env=[{"name": "NCCL_NVLSTREE_MAX_CHUNKSIZE", "value": "65536"}]),
        "env[NCCL_NVLSTREE_MAX_CHUNKSIZE]",
        "131072",
    ),
    (
        "quote marks copied from the page",
        worker(env=[{"name": "NCCL_SOCKET_IFNAME", "value": '"eth0"'}]),
        "env[NCCL_SOCKET_IFNAME]",
        "quote marks",
    ),
    (
        "a label of ours with another meaning",
        pod(metadata={"labels": {"tcpxo": "off"}}),
        "metadata.labels[tcpxo]",
        "'daemon'",
    ),
    (
        "GKE's namespace",
        pod(metadata={"namespace": "gke-managed-system"}),
        "metadata.namespace",
        "namespace of your own",
    ),
    ("a list where Kubernetes wants a mapping", pod(nodeSelector=[]), "nodeSelector", "mapping"),
    (
        "a number where Kubernetes wants text",
        worker(env=[{"name": "SEED", "value": 7}]),
        "containers[0].env[0].value",
        "quotes",
    ),
    (
        "a mapping where Kubernetes wants a list",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {},
            "spec": {"containers": gpu_container()},
        },
        "spec.containers",
        "list",
    ),
    (
        "resources that are a list",
        worker(resources=[{"nvidia.com/gpu": 8}]),
        "containers[0].resources",
        "mapping",
    ),
    (
        "another request than the limit",
        worker(resources={"requests": {"nvidia.com/gpu": 4}, **limits(8)}),
        "containers[0].resources.requests",
        "another number",
    ),
    ("GPUs with blanks", worker(resources=limits(" 8")), "resources", "all 8 GPUs"),
    (
        "GPUs in other digits",
        worker(resources=limits("\uff18")),
        "resources",
        "all 8 GPUs",
    ),
    (
        "GPUs of the Pod as a whole",
        pod({"name": "web"}, resources=limits(8)),
        "spec.resources",
        "gives none",
    ),
    (
        "GPUs beside the limits",
        worker(resources={"nvidia.com/gpu": 8}),
        "spec.containers[0].resources",
        "gives none",
    ),
    (
        "limits beside the resources",
        pod({"name": "train", "image": "x", "limits": {"nvidia.com/gpu": 8}}),
        "spec.containers[0].limits",
        "gives none",
    ),
    (
        "GPUs of an ephemeral container",
        pod(ephemeralContainers=[{"name": "debug", "resources": limits(8)}]),
        "spec.ephemeralContainers",
        "gives none",
    ),
    (
        "words that are numbers",
        worker(args=["--port", 8080]),
        "containers[0].args[1]",
        "text",
    ),
    (
        "a label selector of another shape",
        pod(
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchExpressions": True}}
                    ]
                }
            }
        ),
        "labelSelector.matchExpressions",
        "a list",
    ),
    (
        "a node pool as a wish",
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {
                                "matchExpressions": [
                                    {
                                        "key": "cloud.google.com/gke-nodepool",
                                        "operator": "In",
                                        "values": ["pool"],
                                    }
                                ]
                            },
                        }
                    ]
                }
            }
        ),
        "preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]",
        "cloud.google.com/gke-nodepool",
    ),
    (
        "away from the stack's GPUs",
        pod(affinity=node_affinity(ACCELERATOR, "nvidia-h100-mega-80gb", operator="NotIn")),
        "nodeSelectorTerms[0].matchExpressions[0]",
        "keeps away from nvidia-h100-mega-80gb",
    ),
    (
        "GPUs without a driver",
        selecting(gke_gpu_driver_version="disabled"),
        "spec.nodeSelector[cloud.google.com/gke-gpu-driver-version]",
        "one of default, latest",
    ),
    (
        "two containers of one name",
        pod(gpu_container(), {"name": "train", "image": "x"}),
        "spec.containers[1].name",
        "two containers",
    ),
    (
        "a value and a source of one",
        worker(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "y"}}}]),
        "spec.containers[0].env[0]",
        "A a value and a source",
    ),
    (
        "two volumes of one name",
        pod(volumes=[{"name": "own", "emptyDir": {}}] * 2),
        "spec.volumes[1].name",
        "two volumes",
    ),
    (
        "a device list that nobody can read",
        annotated(**{"devices.gke.io/container.tcpxo-daemon": "- path: [x"}),
        "metadata.annotations[devices.gke.io/container.tcpxo-daemon]",
        "no YAML list",
    ),
    ("a container without a name", pod(gpu_container(), {"image": "x"}), "containers[1].name", ""),
]
