"""Each thing that GPUDirect or Autopilot refuses is said, with the field and a way out."""

from __future__ import annotations

from typing import Any

import pytest

from gpudirect.stacks import A3_HIGH, A3_MEGA
from gpudirect.workloads import WorkloadError, render_documents, render_pod_template
from tests.unit.refused_pods import ACCELERATOR, REFUSED, limits, mounted, node_affinity
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


@pytest.mark.parametrize(
    ("terms", "place"),
    [("x", ""), (["x"], "[0]"), ([{"preference": {"matchExpressions": "x"}}], "[0].preference")],
)
def test_preferred_nodes_of_another_shape_are_told(terms: Any, place: str) -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    document = pod(gpu_container(), affinity={"nodeAffinity": {preferred: terms}})
    [error] = errors_of(document)
    assert error.path.startswith(f"spec.affinity.nodeAffinity.{preferred}{place}")
    assert "Kubernetes expects" in error.message


def test_a_field_of_another_shape_hides_no_other_reason() -> None:
    document = pod(
        gpu_container(
            resources=limits(4),
            securityContext={"privileged": True},
            env=[{"name": "SEED", "value": 7}],
        ),
        metadata={"annotations": {"count": 2}},
        hostNetwork=True,
        nodeSelector={"cloud.google.com/gke-spot": True, "cloud.google.com/gke-nodepool": "pool"},
    )
    paths = {finding.path for finding in errors_of(document)}
    assert paths == {
        "metadata.annotations.count",
        "spec.containers[0].env[0].value",
        "spec.nodeSelector.cloud.google.com/gke-spot",
        "spec.containers[0].resources.limits",
        "spec.containers[0].securityContext.privileged",
        "spec.hostNetwork",
        "spec.nodeSelector[cloud.google.com/gke-nodepool]",
    }


def test_a_finding_is_one_line_and_shows_no_values_of_a_collection() -> None:
    document = pod(gpu_container(env={"TOKEN": "hush"}, args="a\nb" * 500))
    lines = [str(finding) for finding in errors_of(document)]
    assert len(lines) == 2
    assert "a mapping with TOKEN" in lines[1]
    assert all("\n" not in line and "hush" not in line and len(line) < 700 for line in lines)
    both = {"name": "TOKEN", "value": "hush", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}
    assert "hush" not in str(errors_of(pod(gpu_container(env=[both]))))


def test_what_only_has_the_daemons_name_is_told_once() -> None:
    document = pod(gpu_container(), {"name": "tcpxo-daemon", "image": "registry.example/mine:1"})
    (finding,) = findings_of(document)
    assert "runs something else" in finding.message


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


@pytest.mark.parametrize("count", ["9e999999k", "1e" + "9" * 30, "8e-" + "9" * 30, 10**400])
def test_a_count_beyond_all_bounds_is_no_count(count: Any) -> None:
    (finding,) = errors_of(pod(gpu_container(resources=limits(count))))
    assert "all 8 GPUs" in finding.message


@pytest.mark.parametrize("replicas", [float("inf"), float("nan"), 10**400, -1, True])
def test_a_number_of_replicas_that_is_none_ends_no_rendering(replicas: Any) -> None:
    document = job() | {"kind": "Deployment", "apiVersion": "apps/v1"}
    document["spec"]["replicas"] = replicas
    assert findings_of(document) == []


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


def test_gpus_where_a_known_kind_has_no_template_are_an_error() -> None:
    document = job()
    document["kind"] = "CronJob"
    (finding,) = errors_of(document)
    assert finding.path == "spec.template"
    assert "spec.jobTemplate.spec.template" in finding.message


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("Workflow", {"templates": [{"container": gpu_container()}]}, "spec.templates.*.container"),
        ("InferenceService", {"predictor": {"model": gpu_container()}}, "spec.predictor.model"),
    ],
)
def test_gpus_outside_of_a_pod_template_are_told(kind: str, spec: Document, path: str) -> None:
    document = {"apiVersion": "example.org/v1", "kind": kind, "metadata": {}, "spec": spec}
    (finding,) = findings_of(document)
    assert (finding.severity, finding.path) == ("warning", f"{path}.resources")


@pytest.mark.parametrize(
    "spec",
    [
        {"hard": {"requests.nvidia.com/gpu": "8"}},
        {"limits": [{"type": "Container", "max": {"nvidia.com/gpu": 8}}]},
        {"resourceGroups": [{"flavors": [{"resources": [{"name": "nvidia.com/gpu"}]}]}]},
    ],
)
def test_an_object_that_only_counts_gpus_is_left_alone(spec: Document) -> None:
    document = {"apiVersion": "v1", "kind": "Quota", "metadata": {}, "spec": spec}
    assert findings_of(document) == []


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
