"""Each thing that GPUDirect or Autopilot refuses is said, with the field and a way out."""

from __future__ import annotations

from typing import Any

import pytest

from gpudirect.stacks import A3_HIGH, A3_MEGA
from gpudirect.workloads import WorkloadError, render_documents, render_pod_template
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    Document,
    environment_of,
    errors_of,
    findings_of,
    gpu_container,
    job,
    pod,
)

ACCELERATOR = "cloud.google.com/gke-accelerator"
INTERFACES = "networking.gke.io/interfaces"


def limits(count: Any) -> Document:
    return {"limits": {"nvidia.com/gpu": count}}


def node_affinity(key: str, *values: str) -> Document:
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    }


def annotated(**annotations: str) -> Document:
    return pod(metadata={"annotations": annotations})


def mounted(path: str, **source: Any) -> Document:
    return pod(
        gpu_container(volumeMounts=[{"name": "own", "mountPath": path}]),
        volumes=[{"name": "own", **source}],
    )


REFUSED: list[tuple[str, Document, str, str]] = [
    # what, the Pod, the field, words of the message
    ("one GPU", pod(gpu_container(resources=limits(1))), "containers[0].resources", "all 8 GPUs"),
    ("sixteen GPUs", pod(gpu_container(resources=limits("16"))), "containers[0].resources", "16"),
    ("GPUs that are no number", pod(gpu_container(resources=limits("x"))), "resources", "'train'"),
    (
        "a request alone",
        pod(gpu_container(resources={"requests": {"nvidia.com/gpu": 8}})),
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
        pod(nodeSelector={ACCELERATOR: "nvidia-h100-80gb"}),
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
        pod(nodeSelector={"cloud.google.com/gke-accelerator-count": "4"}),
        "gke-accelerator-count",
        "expects 8",
    ),
    (
        "a node pool",
        pod(nodeSelector={"cloud.google.com/gke-nodepool": "pool"}),
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
        pod(nodeSelector={"cloud.google.com/gke-gpu-partition-size": "1g.10gb"}),
        "gke-gpu-partition-size",
        "multi-instance",
    ),
    (
        "time-sharing",
        pod(nodeSelector={"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}),
        "gke-gpu-sharing-strategy",
        "time-sharing",
    ),
    (
        "MPS",
        pod(nodeSelector={"cloud.google.com/gke-max-shared-clients-per-gpu": "2"}),
        "gke-max-shared-clients-per-gpu",
        "MPS",
    ),
    (
        "FastSocket nodes",
        pod(nodeSelector={"cloud.google.com/gke-nccl-fastsocket": "true"}),
        "gke-nccl-fastsocket",
        "FastSocket",
    ),
    (
        "FastSocket by variable",
        pod(gpu_container(env=[{"name": "NCCL_NET", "value": "FastSocket"}])),
        "containers[0].env[0]",
        "FastSocket",
    ),
    (
        "local SSD selector",
        pod(nodeSelector={"cloud.google.com/gke-ephemeral-storage-local-ssd": "true"}),
        "gke-ephemeral-storage-local-ssd",
        "always have",
    ),
    (
        "Spot and flex-start",
        pod(
            nodeSelector={
                "cloud.google.com/gke-spot": "true",
                "cloud.google.com/gke-flex-start": "true",
            }
        ),
        "gke-spot",
        "together with",
    ),
    (
        "a reservation and flex-start",
        pod(
            nodeSelector={
                "cloud.google.com/reservation-name": "mine",
                "cloud.google.com/gke-flex-start": "true",
            }
        ),
        "reservation-name",
        "together with",
    ),
    (
        "a custom class beside the accelerator",
        pod(
            nodeSelector={
                "cloud.google.com/compute-class": "mine",
                ACCELERATOR: "nvidia-h100-mega-80gb",
            }
        ),
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
        pod(gpu_container(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})),
        "capabilities.add",
        "refuses",
    ),
    (
        "a port of the node",
        pod(gpu_container(ports=[{"containerPort": 80, "hostPort": 80}])),
        "ports[0].hostPort",
        "port of the node",
    ),
    (
        "a capability in the kernel's spelling",
        pod(gpu_container(securityContext={"capabilities": {"add": ["CAP_NET_RAW"]}})),
        "capabilities.add",
        "refuses",
    ),
    (
        "all of /proc",
        pod(gpu_container(securityContext={"procMount": "Unmasked"})),
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
        pod(gpu_container(volumeMounts=[{"name": "gone", "mountPath": "/x"}])),
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
        pod(gpu_container(env=[{"name": "NCCL_NVLSTREE_MAX_CHUNKSIZE", "value": "65536"}])),
        "env[NCCL_NVLSTREE_MAX_CHUNKSIZE]",
        "131072",
    ),
    (
        "quote marks copied from the page",
        pod(gpu_container(env=[{"name": "NCCL_SOCKET_IFNAME", "value": '"eth0"'}])),
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
        pod(gpu_container(env=[{"name": "SEED", "value": 7}])),
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
        pod(gpu_container(resources=[{"nvidia.com/gpu": 8}])),
        "containers[0].resources",
        "mapping",
    ),
    (
        "another request than the limit",
        pod(gpu_container(resources={"requests": {"nvidia.com/gpu": 4}, **limits(8)})),
        "containers[0].resources.requests",
        "another number",
    ),
    ("GPUs with blanks", pod(gpu_container(resources=limits(" 8"))), "resources", "all 8 GPUs"),
    (
        "GPUs in other digits",
        pod(gpu_container(resources=limits("\uff18"))),
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
        "GPUs of an ephemeral container",
        pod(ephemeralContainers=[{"name": "debug", "resources": limits(8)}]),
        "spec.ephemeralContainers",
        "gives none",
    ),
    (
        "words that are numbers",
        pod(gpu_container(args=["--port", 8080])),
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
    ("a container without a name", pod(gpu_container(), {"image": "x"}), "containers[1].name", ""),
]


@pytest.mark.parametrize(
    ("what", "document", "field", "words"), REFUSED, ids=[r[0] for r in REFUSED]
)
def test_it_is_refused(what: str, document: Document, field: str, words: str) -> None:
    found = errors_of(document)
    assert found, what
    assert any(
        field in finding.path and words in f"{finding.message} {finding.fix}" for finding in found
    ), "\n".join(map(str, found))
    assert all(finding.fix.endswith(".") for finding in found)


@pytest.mark.parametrize(
    "document",
    [document for what, document, _field, _words in REFUSED if what != "GKE's namespace"],
    ids=[what for what, *_rest in REFUSED if what != "GKE's namespace"],
)
def test_a_refusal_names_the_field_from_the_documents_root(document: Document) -> None:
    inside = job(document)
    inside["spec"]["template"]["metadata"] = document["metadata"]
    found = errors_of(inside)
    assert found
    assert all(finding.path.startswith("spec.template.") for finding in found)


def test_a_pod_that_needs_nothing_special_is_not_refused() -> None:
    assert findings_of(pod()) == []
    assert findings_of(pod(), HIGH) == []


def test_what_gpudirect_does_not_mind_is_not_refused() -> None:
    document = pod(
        gpu_container(
            resources={
                "limits": {"nvidia.com/gpu": "8", "cpu": "100"},
                "requests": {"nvidia.com/gpu": 8, "memory": "200Gi"},
            },
            securityContext={"capabilities": {"add": ["NET_RAW", "SYS_PTRACE"]}},
            volumeMounts=[{"name": "log", "mountPath": "/log", "readOnly": True}],
        ),
        nodeSelector={
            ACCELERATOR: "nvidia-h100-mega-80gb",
            "cloud.google.com/gke-accelerator-count": "8",
            "topology.kubernetes.io/zone": "us-central1-c",
        },
        volumes=[{"name": "log", "hostPath": {"path": "/var/log/pods"}}],
        affinity=node_affinity(ACCELERATOR, "nvidia-h100-mega-80gb", "nvidia-l4"),
    )
    assert errors_of(document) == []


def test_tcpx_refuses_a_mount_at_tmp_and_tcpxo_does_not_mind() -> None:
    document = mounted("/tmp", emptyDir={})
    [error] = errors_of(document, HIGH)
    assert "/tmp" in str(error)
    assert "'train'" in str(error)
    assert "tcpx-socket" in str(error)
    assert errors_of(document, MEGA) == []


def test_all_reasons_are_given_at_once() -> None:
    document = pod(
        gpu_container(resources=limits(4), securityContext={"privileged": True}),
        hostNetwork=True,
        nodeSelector={"cloud.google.com/gke-nodepool": "pool", ACCELERATOR: "nvidia-l4"},
    )
    assert len(errors_of(document)) == 5


def test_one_refused_document_leaves_all_others_as_they_are() -> None:
    documents = [pod(), pod(gpu_container(resources=limits(4)))]
    results, findings = render_documents(documents, MEGA)
    assert results == documents
    assert [finding.document for finding in findings] == [2]


def test_a_template_without_gpus_cannot_be_rendered_by_itself() -> None:
    with pytest.raises(WorkloadError, match=r"no container asks for nvidia\.com/gpu"):
        render_pod_template({"spec": {"containers": [{"name": "web"}]}}, MEGA, can_end=True)


def test_a_refused_template_raises_every_reason() -> None:
    template = {"spec": pod(gpu_container(resources=limits(4)), hostPID=True)["spec"]}
    with pytest.raises(WorkloadError) as raised:
        render_pod_template(template, MEGA, can_end=True)
    assert len(raised.value.findings) == 2
    assert "hostPID" in str(raised.value)


@pytest.mark.parametrize("count", [8, 8.0, "8", "8.0", "8000m", "8e0", "0.8e1"])
def test_eight_gpus_may_be_written_as_kubernetes_reads_them(count: Any) -> None:
    assert errors_of(pod(gpu_container(resources=limits(count)))) == []


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"kind": None}, "Write its apiVersion and kind."),
        ({"kind": "pod"}, "Write kind: Pod."),
        (
            {"kind": "Job", "apiVersion": "example.com/v1"},
            "Write kind: Job and the apiVersion of a Job.",
        ),
        ({"kind": "Thing"}, "Write apiVersion: v1 and kind: Pod, if that is what it is."),
    ],
)
def test_a_pod_under_another_name_is_told_how_to_become_one(changes: Document, fix: str) -> None:
    [error] = errors_of(pod() | changes)
    assert error.fix == fix


def test_gpus_in_a_kind_nobody_knows_are_an_error_that_names_the_way() -> None:
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "r"},
        "spec": {"template": {"spec": pod()["spec"]}},
    }
    [error] = errors_of(rollout)
    assert "--template-path Rollout=spec.template" in error.fix
    [rendered], findings = render_documents(
        [rollout], MEGA, template_paths=["Rollout=spec.template"]
    )
    assert findings == []
    assert rendered["spec"]["template"]["metadata"]["annotations"]


def test_a_train_job_points_to_its_runtime() -> None:
    train_job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t"},
        "spec": {"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}},
    }
    [finding] = findings_of(train_job)
    assert finding.severity == "warning"
    assert "ClusterTrainingRuntime" in finding.fix


def test_an_mpi_launcher_that_passes_no_variables_is_told() -> None:
    def mpi_job(command: list[str]) -> Document:
        launcher = {"spec": {"containers": [{"name": "mpi", "command": command}]}}
        return {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": {"name": "m"},
            "spec": {
                "mpiReplicaSpecs": {
                    "Launcher": {"template": launcher},
                    "Worker": {"replicas": 2, "template": {"spec": pod()["spec"]}},
                }
            },
        }

    [finding] = findings_of(mpi_job(["mpirun", "train"]))
    assert finding.severity == "warning"
    assert "SSH" in finding.message
    assert findings_of(mpi_job(["mpirun", "-x", "NCCL_PROTO", "train"])) == []
    assert findings_of(mpi_job(["sh", "-c", ". nccl-env-profile.sh; mpirun train"])) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"networks": ("vpc1",)}, "1 given"),
        ({"networks": ("vpc1",) * 8}, "twice"),
        ({"profile": "fast"}, "'fast'"),
        ({"release": HIGH.release}, "a3-high"),
    ],
)
def test_an_environment_whose_parts_do_not_go_together_cannot_be_made(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        environment_of(A3_MEGA, **changes)


def test_both_stacks_refuse_each_others_pods() -> None:
    for environment, other in ((MEGA, A3_HIGH), (HIGH, A3_MEGA)):
        [error] = errors_of(pod(nodeSelector={ACCELERATOR: other.accelerator}), environment)
        assert other.accelerator in str(error)
        assert environment.stack.accelerator in str(error)
