"""What is put into a Pod, where it goes, and what becomes of what was there."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gpudirect.releases import load_releases
from gpudirect.stacks import A3_HIGH, A3_MEGA
from gpudirect.workload_environment import NcclDebug, debug_file_pattern
from gpudirect.workloads import pod_annotations, render_documents, render_pod_template
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    Document,
    all_containers,
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


def with_env(*entries: Document) -> Document:
    return pod(gpu_container(env=list(entries)))


def env_of(document: Document) -> dict[str, Any]:
    return variables(container_named(document["spec"], "train"))


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


# Environment


def test_the_library_path_is_put_in_front_of_the_users() -> None:
    document = with_env({"name": "LD_LIBRARY_PATH", "value": "/opt/lib:/usr/lib"})
    assert env_of(render(document))["LD_LIBRARY_PATH"] == f"{LIBRARY}:/opt/lib:/usr/lib"


@pytest.mark.parametrize("value", [f"/opt/lib:{LIBRARY}", LIBRARY])
def test_a_library_path_that_holds_the_folder_stays(value: str) -> None:
    document = with_env({"name": "LD_LIBRARY_PATH", "value": value})
    assert env_of(render(document))["LD_LIBRARY_PATH"] == value


def test_an_empty_library_path_does_not_become_one_with_an_empty_folder() -> None:
    document = with_env({"name": "LD_LIBRARY_PATH", "value": ""})
    assert env_of(render(document))["LD_LIBRARY_PATH"] == LIBRARY


def test_a_library_path_from_elsewhere_is_left_with_a_word() -> None:
    source = {"configMapKeyRef": {"name": "c", "key": "k"}}
    document = with_env({"name": "LD_LIBRARY_PATH", "valueFrom": source})
    [warning] = findings_of(document)
    assert LIBRARY in warning.message
    assert env_of(render(document))["LD_LIBRARY_PATH"] == source


def test_the_users_entries_keep_their_place_and_order() -> None:
    document = with_env({"name": "B", "value": "1"}, {"name": "A", "value": "$(B)"})
    env = container_named(render(document)["spec"], "train")["env"]
    assert env[:2] == [{"name": "B", "value": "1"}, {"name": "A", "value": "$(B)"}]


def test_of_a_name_set_twice_the_last_one_stays() -> None:
    document = with_env(
        {"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}
    )
    [warning] = findings_of(document)
    assert warning.value == "A"
    env = container_named(render(document)["spec"], "train")["env"]
    assert env[:2] == [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]


def test_a_value_that_is_the_same_needs_no_word() -> None:
    assert findings_of(with_env({"name": "NCCL_CROSS_NIC", "value": "0"})) == []


def test_a_network_of_the_users_own_choice_is_told() -> None:
    [warning] = findings_of(with_env({"name": "NCCL_NET", "value": "Socket"}))
    assert "NCCL_NET" in warning.message


def test_the_simple_profile_has_neither_ll128_nor_nvlstree() -> None:
    own = env_of(render(pod(), environment_of(A3_MEGA, profile="simple")))
    assert own["NCCL_PROTO"] == "Simple"
    assert "NCCL_NVLSTREE_MAX_CHUNKSIZE" not in own
    assert own["NCCL_TUNER_CONFIG_PATH"].endswith("a3plus_tuner_config_simple.textproto")


def test_in_the_simple_profile_nobody_enforces_the_chunk_size() -> None:
    document = with_env({"name": "NCCL_NVLSTREE_MAX_CHUNKSIZE", "value": "65536"})
    assert errors_of(document, environment_of(A3_MEGA, profile="simple")) == []


# NCCL's log


def test_debug_turns_the_log_on() -> None:
    own = env_of(render(pod(), debug=NcclDebug()))
    assert own["NCCL_DEBUG"] == "INFO"
    assert own["NCCL_DEBUG_SUBSYS"] == "INIT,NET,ENV,COLL,GRAPH"
    assert "NCCL_DEBUG_FILE" not in own


@pytest.mark.parametrize(("nodes", "file", "level"), [(63, "", "INFO"), (64, "", "WARN")])
def test_from_64_nodes_on_only_errors_are_logged(nodes: int, file: str, level: str) -> None:
    own = env_of(render(pod(), debug=NcclDebug(file=file), nodes=nodes))
    assert own["NCCL_DEBUG"] == level


def test_64_nodes_log_everything_into_files() -> None:
    debug = NcclDebug(file=debug_file_pattern("/logs/nccl"))
    own = env_of(render(pod(), debug=debug, nodes=64))
    assert own["NCCL_DEBUG"] == "INFO"
    assert own["NCCL_DEBUG_FILE"] == "/logs/nccl.%h.%p"


def test_the_size_of_a_job_is_read_from_it() -> None:
    def level(**spec: Any) -> str:
        template = render(job(**spec), debug=NcclDebug())["spec"]["template"]
        return str(variables(container_named(template["spec"], "train"))["NCCL_DEBUG"])

    assert level(parallelism=63) == "INFO"
    assert level(parallelism=64) == "WARN"


def test_a_loud_log_of_the_users_own_is_told_from_64_nodes_on() -> None:
    loud = {"name": "NCCL_DEBUG", "value": "INFO"}
    file = {"name": "NCCL_DEBUG_FILE", "value": "/logs/n.%h.%p"}
    for count, entries, told in ((63, [loud], 0), (64, [loud], 1), (64, [loud, file], 0)):
        document = job(pod(gpu_container(env=entries)), parallelism=count)
        assert len(findings_of(document)) == told


def test_a_debug_file_needs_an_absolute_path() -> None:
    assert debug_file_pattern("/logs/n.%h.%p") == "/logs/n.%h.%p"
    with pytest.raises(ValueError, match="absolute"):
        debug_file_pattern("logs/nccl")


def test_a_debug_level_of_the_users_own_stays_and_is_told_only_when_another_was_asked_for() -> None:
    document = with_env({"name": "NCCL_DEBUG", "value": "VERSION"})
    assert findings_of(document) == []
    rendered = render(document, debug=NcclDebug())
    assert env_of(rendered)["NCCL_DEBUG"] == "VERSION"


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


# Rendering again


@pytest.mark.parametrize("environment", [MEGA, HIGH], ids=["a3-mega", "a3-high"])
def test_rendering_twice_is_rendering_once(environment: Any) -> None:
    for document in (pod(), job(), pod(restartPolicy="Never")):
        once = render(document, environment)
        assert render(once, environment) == once


def test_an_older_render_is_brought_up_to_date_in_place() -> None:
    old = environment_of(A3_MEGA, release=load_releases().get("tcpxo-v1.0.11", "a3-mega"))
    for document in (pod(gpu_container(env=[{"name": "MINE", "value": "1"}])), job()):
        upgraded = render(render(document, old))
        fresh = render(document)
        assert findings_of(render(document, old)) == []
        assert upgraded == fresh or _sorted(upgraded) == _sorted(fresh)


def test_another_profile_takes_the_first_ones_variables_out() -> None:
    simple = environment_of(A3_MEGA, profile="simple")
    there = render(render(pod()), simple)
    assert _sorted(there) == _sorted(render(pod(), simple))
    assert _sorted(render(there)) == _sorted(render(pod()))


def test_what_the_user_changed_since_the_first_render_is_kept() -> None:
    document = render(pod())
    for entry in container_named(document["spec"], "train")["env"]:
        if entry["name"] == "NCCL_BUFFSIZE":
            entry["value"] = "16777216"
    simple = environment_of(A3_MEGA, profile="simple")
    [warning] = findings_of(document, simple)
    assert "16777216" in warning.message
    assert env_of(render(document, simple))["NCCL_BUFFSIZE"] == "16777216"


def test_other_networks_capacity_and_registry_replace_the_first_ones() -> None:
    first = environment_of(A3_MEGA, node_selector=SPOT, image_registry="old.example")
    second = environment_of(
        A3_MEGA,
        node_selector=FLEX,
        image_registry="new.example",
        networks=tuple(f"gpu{n}" for n in range(8)),
    )
    assert findings_of(render(pod(), first), second) == []
    assert _sorted(render(render(pod(), first), second)) == _sorted(render(pod(), second))
    assert _sorted(render(render(pod(), first))) == _sorted(render(pod()))


def test_the_log_is_turned_off_again() -> None:
    loud = render(pod(), debug=NcclDebug(file="/logs/n.%h.%p"))
    assert _sorted(render(loud)) == _sorted(render(pod()))


def test_selectors_of_the_users_own_survive_another_capacity_choice() -> None:
    document = pod(nodeSelector={"topology.kubernetes.io/zone": "us-central1-c", **SPOT})
    spot = environment_of(A3_MEGA, node_selector=SPOT)
    selectors = render(render(document, spot))["spec"]["nodeSelector"]
    assert selectors["cloud.google.com/gke-spot"] == "true"


def test_a_render_for_the_other_stack_is_refused() -> None:
    [error] = errors_of(render(pod()), HIGH)
    assert "another stack" in error.message


def test_a_record_that_is_none_does_no_harm() -> None:
    for text in ("", "x", "[]", '{"release": 1}', '{"release":"gone-v1","profile":"default"}'):
        document = pod(metadata={"annotations": {"gpudirect/rendered": text}})
        rendered = render(document)
        assert_complete(rendered, MEGA)
        assert "tcpxo" in rendered["metadata"]["annotations"]["gpudirect/rendered"]


def _sorted(document: Document) -> Document:
    """Return a copy in which order does not count where Kubernetes gives it no meaning."""
    result = copy.deepcopy(document)
    spec = result["spec"].get("template", result)["spec"]
    for container in all_containers(spec):
        for key in ("env", "volumeMounts"):
            if key in container:
                container[key].sort(key=lambda entry: entry.get("mountPath", entry["name"]))
    if "volumes" in spec:
        spec["volumes"].sort(key=lambda volume: volume["name"])
    return result
