"""What is put into a Pod, where it goes, and what becomes of what was there."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gpudirect.releases import load_releases
from gpudirect.stacks import A3_HIGH, A3_MEGA
from gpudirect.workloads import (
    Environment,
    pod_annotations,
    render_documents,
    render_pod_template,
)
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    Document,
    assert_complete,
    container_named,
    environment_of,
    errors_of,
    findings_of,
    gpu_container,
    job,
    mounts,
    pod,
    render,
    variables,
    volumes,
)

LIBRARY = "/usr/local/nvidia/lib64"
SPOT = {"cloud.google.com/gke-spot": "true"}
FLEX = {"cloud.google.com/gke-flex-start": "true"}


def names(containers: list[Document] | None) -> list[str]:
    return [container["name"] for container in containers or []]


# Purity


def test_what_is_given_stays_as_it_is() -> None:
    document = job(pod(gpu_container(env=[{"name": "A", "value": "b"}]), volumes=[]))
    before = copy.deepcopy(document)
    assert render(document) != before
    assert document == before


def test_a_template_comes_out_of_the_library_call_as_out_of_a_document() -> None:
    template = job()["spec"]["template"]
    rendered = render_pod_template(template, MEGA, can_end=True)
    assert rendered == render(job())["spec"]["template"]
    assert_complete(rendered, MEGA)


def test_documents_without_gpus_are_handed_back_themselves() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    idle = pod({"name": "web", "image": "nginx"})
    results, findings = render_documents([service, None, idle], MEGA)  # type: ignore[list-item]
    assert results[0] is service
    assert results[1] is idle
    assert findings == []


# Annotations


def test_annotations_are_json_for_both_stacks() -> None:
    for environment, devices in ((MEGA, 11), (HIGH, 10)):
        annotations = pod_annotations(environment)
        assert len(annotations) == 3
        key = f"devices.gke.io/container.{environment.stack.daemon_container}"
        assert len(json.loads(annotations[key])) == devices
        interfaces = json.loads(annotations["networking.gke.io/interfaces"])
        assert len(interfaces) == environment.stack.nic_count + 1


def test_the_stacks_own_network_names_are_used() -> None:
    environment = environment_of(A3_HIGH, networks=("gpu-a", "gpu-b", "gpu-c", "gpu-d"))
    rendered = render(pod(), environment)
    interfaces = json.loads(rendered["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert [entry["network"] for entry in interfaces] == [
        "default",
        "gpu-a",
        "gpu-b",
        "gpu-c",
        "gpu-d",
    ]


# The daemon


def test_a_pod_that_must_end_has_the_daemon_as_a_native_sidecar() -> None:
    for document in (job(), pod(restartPolicy="Never"), pod(restartPolicy="OnFailure")):
        spec = render(document)["spec"]
        spec = spec.get("template", {"spec": spec})["spec"]
        assert names(spec["initContainers"]) == ["tcpxo-daemon"]
        assert spec["initContainers"][0]["restartPolicy"] == "Always"
        assert names(spec["containers"]) == ["train"]


def test_a_pod_that_runs_on_has_the_daemon_as_its_last_container() -> None:
    spec = render(pod(gpu_container(), {"name": "logs", "image": "x"}))["spec"]
    assert "initContainers" not in spec
    assert names(spec["containers"]) == ["train", "logs", "tcpxo-daemon"]
    assert "restartPolicy" not in spec["containers"][2]


def test_the_daemon_starts_before_an_init_container_with_gpus() -> None:
    document = job(
        pod(
            gpu_container(),
            initContainers=[
                {"name": "download", "image": "x"},
                gpu_container("warm-up"),
                {"name": "last", "image": "x"},
            ],
        )
    )
    spec = render(document)["spec"]["template"]["spec"]
    assert names(spec["initContainers"]) == ["download", "tcpxo-daemon", "warm-up", "last"]
    assert_complete(render(document)["spec"]["template"], MEGA)


def test_a_pod_that_runs_on_has_a_sidecar_where_an_init_container_needs_it() -> None:
    document = pod(gpu_container(), initContainers=[gpu_container("warm-up")])
    spec = render(document)["spec"]
    assert names(spec["initContainers"]) == ["tcpxo-daemon", "warm-up"]
    assert names(spec["containers"]) == ["train"]
    daemon = {**spec["initContainers"][0], "volumeMounts": []}
    [warning] = findings_of(pod(gpu_container(), daemon, initContainers=[gpu_container("warm-up")]))
    assert "an init container needs it" in warning.message


def test_a_daemon_among_the_init_containers_is_kept_from_blocking_them() -> None:
    daemon = {**render(job())["spec"]["template"]["spec"]["initContainers"][0], "volumeMounts": []}
    del daemon["restartPolicy"]
    document = pod(initContainers=[daemon, {"name": "next", "image": "x"}])
    [warning] = findings_of(document)
    assert "never start" in warning.message
    spec = render(document)["spec"]
    assert names(spec["initContainers"]) == ["tcpxo-daemon", "next"]
    assert spec["initContainers"][0]["restartPolicy"] == "Always"


def test_only_the_sidecar_of_tcpxo_holds_the_others_back_until_it_is_ready() -> None:
    sidecar = container_named(render(job())["spec"]["template"]["spec"], "tcpxo-daemon")
    file = variables(sidecar)["HEALTH_CHECK_LOG_FILE"]
    # The daemon takes no underscore in the file's name (facts gpudirect.md 7).
    assert "_" not in file
    assert sidecar["startupProbe"]["exec"]["command"] == ["cat", file]
    assert (
        sidecar["startupProbe"]["periodSeconds"] * sidecar["startupProbe"]["failureThreshold"] > 60
    )
    beside = container_named(render(pod())["spec"], "tcpxo-daemon")
    assert "startupProbe" not in beside
    tcpx = container_named(render(job(), HIGH)["spec"]["template"]["spec"], "tcpx-daemon")
    assert "startupProbe" not in tcpx


def test_daemon_and_arguments_follow_the_release() -> None:
    old = load_releases().get("tcpxo-v1.0.11", "a3-mega")
    for release, wanted in ((old, "--num_nics=8"), (MEGA.release, "--num_hops=2")):
        environment = environment_of(A3_MEGA, release=release)
        daemon = container_named(render(pod(), environment)["spec"], "tcpxo-daemon")
        assert daemon["image"] == release.daemon_image
        assert daemon["args"] == list(release.daemon_args)
        assert wanted in daemon["args"][0]
    assert "--uid" not in "".join(MEGA.release.daemon_args)
    assert "--alsologtostderr" not in "".join(MEGA.release.daemon_args)


def test_the_daemon_of_tcpx_gets_its_words_as_published() -> None:
    daemon = container_named(render(pod(), HIGH)["spec"], "tcpx-daemon")
    words = [*daemon["command"], *daemon.get("args", [])]
    assert words[-2:] == ["--setup_param", '\\"--verbose 128 2 0 \\"']
    assert daemon["resources"]["requests"] == {
        "cpu": "1",
        "memory": "2Gi",
        "ephemeral-storage": "10Gi",
    }


def test_the_daemon_comes_from_the_registry_of_the_environment() -> None:
    environment = environment_of(A3_MEGA, image_registry="registry.example")
    daemon = container_named(render(pod(), environment)["spec"], "tcpxo-daemon")
    assert daemon["image"].startswith("registry.example/")
    assert daemon["image"].endswith(MEGA.release.daemon_version)


def test_a_daemon_that_keeps_a_job_from_ending_becomes_a_sidecar() -> None:
    plain = {**render(pod())["spec"]["containers"][1], "volumeMounts": []}
    document = job(pod(gpu_container(), plain, {"name": "logs", "image": "x"}))
    [warning] = findings_of(document)
    assert "from ending" in warning.message
    spec = render(document)["spec"]["template"]["spec"]
    assert names(spec["containers"]) == ["train", "logs"]
    assert names(spec["initContainers"]) == ["tcpxo-daemon"]
    assert spec["initContainers"][0]["restartPolicy"] == "Always"


def test_a_daemon_of_another_version_is_set_right_with_a_word() -> None:
    by_hand = {
        "name": "tcpxo-daemon",
        "image": "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.17",
        "command": ["/bin/sh", "-c"],
        "args": ["/fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid="],
        "resources": {"requests": {"cpu": "2"}},
    }
    document = pod(gpu_container(), by_hand)
    image, flags = findings_of(document)
    assert "v1.0.17" in image.value
    assert "--num_nics=8" in flags.value
    daemon = container_named(render(document)["spec"], "tcpxo-daemon")
    assert daemon["image"] == MEGA.release.daemon_image
    assert daemon["args"] == list(MEGA.release.daemon_args)
    assert daemon["resources"] == {"requests": {"cpu": "2"}}


def test_the_right_daemon_from_a_registry_of_the_users_own_stays() -> None:
    image = f"mirror.example/x/tcpgpudmarxd-dev:{MEGA.release.daemon_version}"
    daemon = container_named(render(pod())["spec"], "tcpxo-daemon")
    document = pod(gpu_container(), {**daemon, "image": image, "volumeMounts": []})
    once = render(document)
    assert container_named(once["spec"], "tcpxo-daemon")["image"] == image
    assert render(once) == once


# Volumes


def test_shared_memory_is_left_where_there_is_some() -> None:
    memory = {"name": "mine", "emptyDir": {"medium": "Memory"}}
    container = gpu_container(volumeMounts=[{"name": "mine", "mountPath": "/dev/shm/"}])
    spec = render(pod(container, volumes=[memory]))["spec"]
    paths = [mount["mountPath"] for mount in container_named(spec, "train")["volumeMounts"]]
    assert paths.count("/dev/shm/") == 1
    assert "/dev/shm" not in paths


def test_a_volume_name_that_is_taken_gets_a_neighbour() -> None:
    taken = [{"name": "libraries", "emptyDir": {}}, {"name": "sys", "emptyDir": {}}]
    spec = render(pod(volumes=taken))["spec"]
    assert volumes(spec)["libraries"] == taken[0]
    name = mounts(container_named(spec, "train"))[LIBRARY]
    assert volumes(spec)[name]["hostPath"]["path"] == "/home/kubernetes/bin/nvidia/lib64"
    assert_complete(render(pod(volumes=taken)), MEGA)


def test_the_folder_above_the_libraries_is_as_good() -> None:
    container = gpu_container(volumeMounts=[{"name": "nv", "mountPath": "/usr/local/nvidia"}])
    volume = {"name": "nv", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}}
    spec = render(pod(container, volumes=[volume]))["spec"]
    assert LIBRARY not in mounts(container_named(spec, "train"))


def test_claims_of_a_stateful_set_count_as_volumes() -> None:
    container = gpu_container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    document = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {
            "selector": {"matchLabels": {"app": "s"}},
            "template": {
                "metadata": {"labels": {"app": "s"}},
                "spec": pod(container)["spec"],
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        },
    }
    assert findings_of(document) == []
    del document["spec"]["volumeClaimTemplates"]  # type: ignore[attr-defined]
    assert errors_of(document)


def test_two_containers_with_gpus_share_each_volume() -> None:
    document = job(pod(gpu_container(), initContainers=[gpu_container("warm-up")]))
    spec = render(document, HIGH)["spec"]["template"]["spec"]
    for path in (LIBRARY, "/tmp", "/dev/shm"):
        first = mounts(container_named(spec, "train"))[path]
        assert first == mounts(container_named(spec, "warm-up"))[path]


# Selectors


def test_the_capacity_choice_of_the_stack_is_put_in() -> None:
    environment = environment_of(A3_MEGA, node_selector=SPOT)
    assert render(pod(), environment)["spec"]["nodeSelector"] == {
        "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb",
        "cloud.google.com/gke-gpu-driver-version": "latest",
        **SPOT,
    }


def test_a_capacity_choice_of_the_users_own_is_kept_whole() -> None:
    environment = environment_of(
        A3_MEGA, node_selector={**FLEX, "topology.kubernetes.io/zone": "us-central1-c"}
    )
    document = pod(nodeSelector=SPOT)
    [warning] = findings_of(document, environment)
    assert "gke-flex-start" in warning.message
    selectors = render(document, environment)["spec"]["nodeSelector"]
    assert "cloud.google.com/gke-flex-start" not in selectors
    assert selectors["cloud.google.com/gke-spot"] == "true"
    assert selectors["topology.kubernetes.io/zone"] == "us-central1-c"


def test_the_same_capacity_choice_needs_no_word() -> None:
    environment = environment_of(A3_MEGA, node_selector=SPOT)
    assert findings_of(pod(nodeSelector=SPOT), environment) == []


def test_another_zone_is_kept_with_a_word() -> None:
    zone = {"topology.kubernetes.io/zone": "us-central1-c"}
    environment = environment_of(A3_MEGA, node_selector=zone)
    document = pod(nodeSelector={"topology.kubernetes.io/zone": "us-central1-a"})
    [warning] = findings_of(document, environment)
    assert "us-central1-c" in warning.message
    selectors = render(document, environment)["spec"]["nodeSelector"]
    assert selectors["topology.kubernetes.io/zone"] == "us-central1-a"


def test_with_a_custom_class_nothing_is_selected_that_the_class_decides() -> None:
    chosen = {"cloud.google.com/compute-class": "gpus"}
    environment = environment_of(A3_MEGA, node_selector=chosen)
    assert render(pod(), environment)["spec"]["nodeSelector"] == chosen
    assert render(pod(nodeSelector=chosen))["spec"]["nodeSelector"] == chosen
    own = pod(nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"})
    [error] = errors_of(own, environment)
    assert "'gpus'" in error.message


# One Pod a node


def test_pods_of_the_gpu_network_stay_off_each_others_nodes() -> None:
    for environment, key in ((MEGA, "tcpxo"), (HIGH, "tcpx")):
        rendered = render(pod(), environment)
        assert rendered["metadata"]["labels"] == {key: "daemon"}
        affinity = rendered["spec"]["affinity"]["podAntiAffinity"]
        [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
        [expression] = term["labelSelector"]["matchExpressions"]
        assert expression == {"key": key, "operator": "In", "values": ["daemon"]}


def test_a_term_of_the_users_own_that_says_the_same_is_enough() -> None:
    term = {
        "labelSelector": {"matchLabels": {"tcpxo": "daemon"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    own = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert render(pod(affinity=own))["spec"]["affinity"] == own


@pytest.mark.parametrize("environment", [MEGA, HIGH])
@pytest.mark.parametrize("can_end", [True, False])
def test_the_daemon_stays_root_in_a_pod_whose_other_containers_are_not(
    environment: Environment, can_end: bool
) -> None:
    def context(**of_pod: Any) -> Document:
        document = pod(securityContext=of_pod, restartPolicy="Never" if can_end else "Always")
        spec = render(document, environment)["spec"]
        assert spec["securityContext"] == of_pod
        name = environment.stack.daemon_container
        return dict(container_named(spec, name)["securityContext"])

    plain = context(fsGroup=1000, runAsUser=0)
    assert set(plain) == {"capabilities"}
    assert context(runAsNonRoot=True) == plain | {"runAsNonRoot": False}
    assert context(runAsNonRoot=True, runAsUser=1000) == plain | {
        "runAsNonRoot": False,
        "runAsUser": 0,
    }
