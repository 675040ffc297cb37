"""Every manifest in tests/cases/manifests comes out as its `expected.json` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudirect.stacks import A3_HIGH, A3_MEGA
from gpudirect.workload_kinds import kinds_for, node_at, template_places
from gpudirect.workloads import Environment
from gpudirect.yaml_reading import read_tree
from tests.unit.workload_samples import (
    HIGH,
    LIBRARIES,
    MEGA,
    all_containers,
    assert_complete,
    container_named,
    gpus,
    load_all,
    mounts,
    render_text,
    variables,
    volumes,
)

CASES = Path(__file__).parent.parent / "cases" / "manifests"
EXPECTED: dict[str, Any] = {
    name: case
    for name, case in json.loads((CASES / "expected.json").read_text()).items()
    if name != "_how"
}
ENVIRONMENTS = {"tcpxo": MEGA, "tcpx": HIGH}
INJECTED = [name for name, case in EXPECTED.items() if case["expect"] != "error"]
REFUSED = [name for name, case in EXPECTED.items() if case["expect"] == "error"]


def environment_for(name: str) -> Environment:
    return ENVIRONMENTS[EXPECTED[name]["stack"]]


def text_of(name: str) -> str:
    return (CASES / name).read_text()


def rendered(name: str) -> list[dict[str, Any]]:
    text, summary = render_text(text_of(name), environment_for(name))
    assert not [str(f) for f in summary.findings if f.severity == "error"]
    return load_all(text)


def as_kubernetes_reads(name: str) -> list[dict[str, Any]]:
    """Return the case's documents; PyYAML would take some scalars for something else."""
    parts = text_of(name).replace("\n...", "").split("\n---")
    trees = [read_tree(part.removeprefix("---").lstrip("-")).data for part in parts]
    return [json.loads(json.dumps(tree)) for tree in trees if tree is not None]


def templates(document: dict[str, Any]) -> list[dict[str, Any]]:
    places = template_places(document, kinds_for(document, ()))
    return [node_at(document, place.path) for place in places]


def test_every_case_is_there() -> None:
    assert {path.name for path in CASES.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", INJECTED)
def test_a_case_to_inject_comes_out_complete(name: str) -> None:
    case, environment = EXPECTED[name], environment_for(name)
    done = []
    for document in rendered(name):
        for template in templates(document):
            if any(gpus(c) for c in all_containers(template["spec"])):
                assert_complete(template, environment)
                done += [c["name"] for c in all_containers(template["spec"]) if gpus(c)]
    assert done == case.get("gpu_containers", ["fish"])


@pytest.mark.parametrize("name", INJECTED)
def test_containers_without_gpus_and_documents_without_templates_stay_the_same(name: str) -> None:
    before = {
        (d["kind"], d["metadata"]["name"], c["name"]): c
        for d in as_kubernetes_reads(name)
        for t in templates(d)
        for c in all_containers(t["spec"])
        if not gpus(c)
    }
    after = {
        (d["kind"], d["metadata"]["name"], c["name"]): c
        for d in rendered(name)
        for t in templates(d)
        for c in all_containers(t["spec"])
    }
    for key, container in before.items():
        if not key[2].endswith("-daemon"):
            assert after[key] == container
    untouched = EXPECTED[name].get("untouched", [])
    assert set(untouched) <= {key[2] for key in before}


@pytest.mark.parametrize("name", INJECTED)
def test_rendering_a_case_twice_is_rendering_it_once(name: str) -> None:
    once, _ = render_text(text_of(name), environment_for(name))
    twice, summary = render_text(once, environment_for(name))
    assert twice == once
    assert summary.changed == 0


@pytest.mark.parametrize("name", INJECTED)
def test_a_case_reads_the_same_under_yaml_1_1_and_1_2(name: str) -> None:
    from ruamel.yaml import YAML

    text, _ = render_text(text_of(name), environment_for(name))
    assert list(YAML(typ="safe", pure=True).load_all(text)) == load_all(text)


@pytest.mark.parametrize("name", REFUSED)
def test_a_case_to_refuse_says_the_words_and_changes_nothing(name: str) -> None:
    text, summary = render_text(text_of(name), environment_for(name))
    errors = [finding for finding in summary.findings if finding.severity == "error"]
    assert errors
    words = "\n".join(str(finding) for finding in errors)
    for word in EXPECTED[name]["says"]:
        assert word in words
    assert text == text_of(name)


def test_m01_keeps_the_order_of_init_containers_and_the_users_shared_memory() -> None:
    [document] = rendered("m01_job_own_inits_and_sidecar.yaml")
    template = document["spec"]["template"]
    spec = template["spec"]
    names = [c["name"] for c in spec["initContainers"]]
    assert names == ["fetch-tokens", "metrics", "tcpxo-daemon"]
    daemon = container_named(spec, "tcpxo-daemon")
    assert daemon["restartPolicy"] == "Always"
    assert [c["name"] for c in spec["containers"]] == ["train", "tail-logs"]
    assert mounts(container_named(spec, "train"))["/dev/shm"] == "shm"
    assert volumes(spec)["shm"] == {
        "name": "shm",
        "emptyDir": {"medium": "Memory", "sizeLimit": "200Gi"},
    }
    assert volumes(spec)["scratch"] == {"name": "scratch", "emptyDir": {}}
    assert "shared-memory" not in volumes(spec)
    assert template["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    assert template["metadata"]["annotations"]["gke-gcsfuse/cpu-limit"] == "0"
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_m02_gets_eleven_devices_nine_interfaces_and_memory() -> None:
    [document] = rendered("m02_pod_bare.yaml")
    annotations = document["metadata"]["annotations"]
    assert len(json.loads(annotations["devices.gke.io/container.tcpxo-daemon"])) == 11
    interfaces = json.loads(annotations["networking.gke.io/interfaces"])
    assert [i["interfaceName"] for i in interfaces] == [f"eth{n}" for n in range(9)]
    spec = document["spec"]
    memory = mounts(container_named(spec, "wren"))["/dev/shm"]
    assert volumes(spec)[memory]["emptyDir"]["medium"] == "Memory"
    assert "privileged" not in json.dumps(document)


def test_m04_renders_both_templates_and_their_shared_list_once_each() -> None:
    [document] = rendered("m04_lws_two_templates_with_anchor.yaml")
    group = document["spec"]["leaderWorkerTemplate"]
    assert group["leaderTemplate"]["metadata"]["labels"]["role"] == "leader"
    for template, name in (("leaderTemplate", "head"), ("workerTemplate", "follower")):
        own = variables(container_named(group[template]["spec"], name))
        assert own["HF_HOME"] == "/models"
        assert "fieldRef" in own["RANK"]
    text, _ = render_text(text_of("m04_lws_two_templates_with_anchor.yaml"), MEGA)
    assert text.count("&shared") == text.count("*shared") == 1


def test_m05_drops_the_empty_document_and_keeps_the_others_to_the_byte() -> None:
    name = "m05_many_documents.yaml"
    text, summary = render_text(text_of(name), MEGA)
    documents = load_all(text)
    assert [f"{d['kind']}/{d['metadata']['name']}" for d in documents] == [
        "Service/finch-0",
        "ConfigMap/finch-scripts",
        "Pod/finch-0",
        "Pod/finch-watch",
    ]
    assert summary.documents == 4
    assert summary.rendered == 1
    assert "null" not in text
    parts = [part for part in text_of(name).split("\n---\n") if part.strip("-\n")]
    service, config, _pod, watch = parts
    for part in (service, config, watch.removesuffix("...\n")):
        assert part in text
    pod = documents[2]
    assert volumes(pod["spec"])["scripts"]["configMap"]["defaultMode"] == 0o755
    assert "defaultMode: 493" in text
    assert documents[1]["data"]["run.sh"].endswith('echo "---"\n')
    labels = pod["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "spare"
    assert labels["kueue.x-k8s.io/pod-group-name"] == "finch"
    annotations = pod["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "2"
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_m06_with_its_mount_below_tmp_is_rendered_and_the_head_stays() -> None:
    text = text_of("m06_raycluster_tmp_taken.yaml").replace(
        "mountPath: /tmp}", "mountPath: /tmp/ray}"
    )
    out, summary = render_text(text, HIGH)
    assert not summary.findings
    [before], [after] = load_all(text), load_all(out)
    assert after["spec"]["headGroupSpec"] == before["spec"]["headGroupSpec"]
    template = after["spec"]["workerGroupSpecs"][0]["template"]
    assert_complete(template, HIGH)
    paths = mounts(container_named(template["spec"], "ray-worker"))
    assert paths["/tmp/ray"] == "ray-tmp"
    assert paths["/tmp"] == "tcpx-socket"
    # KubeRay takes the first container for Ray's.
    assert template["spec"]["containers"][0]["name"] == "ray-worker"


def test_m07_keeps_the_container_that_the_operator_looks_for_in_its_place() -> None:
    [document] = rendered("m07_pytorchjob.yaml")
    for role in ("Master", "Worker"):
        template = document["spec"]["pytorchReplicaSpecs"][role]["template"]
        assert template["spec"]["containers"][0]["name"] == "pytorch"
        assert template["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
        daemons = [c for c in all_containers(template["spec"]) if c["name"] == "tcpx-daemon"]
        assert len(daemons) == 1
    text, _ = render_text(text_of("m07_pytorchjob.yaml"), HIGH)
    assert text.count("&pod") == text.count("*pod") == 1
    assert 'sidecar.istio.io/inject: "false"' in text


def test_m08_gets_no_second_daemon_and_no_second_volume_of_one_folder() -> None:
    [document] = rendered("m08_done_by_hand.yaml")
    [before] = load_all(text_of("m08_done_by_hand.yaml"))
    spec = document["spec"]
    assert [c["name"] for c in all_containers(spec)] == ["tcpxo-daemon", "fish"]
    folders = [v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v]
    assert len(folders) == len(set(folders))
    assert spec["volumes"] == before["spec"]["volumes"]
    assert mounts(container_named(spec, "fish"))["/usr/local/nvidia/lib64"] == "nv"
    # What says the same is left as the user wrote it.
    daemon, own = container_named(spec, "tcpxo-daemon"), before["spec"]["containers"][0]
    assert {key: daemon[key] for key in own} == own
    for key, value in before["metadata"]["annotations"].items():
        assert document["metadata"]["annotations"][key] == value


def test_m11_lists_every_finding_at_once() -> None:
    _, summary = render_text(text_of("m11_standard_mode_selectors.yaml"), MEGA)
    paths = [finding.path for finding in summary.findings]
    assert paths == [
        "spec.template.spec.nodeSelector[cloud.google.com/gke-nodepool]",
        "spec.template.spec.containers[0].securityContext.privileged",
    ]


def test_m13_takes_empty_keys_as_empty_and_text_as_a_number() -> None:
    [document] = rendered("m13_nulls_and_strings.yaml")
    first, second = document["spec"]["replicatedJobs"]
    assert_complete(first["template"]["spec"]["template"], MEGA)
    assert second == load_all(text_of("m13_nulls_and_strings.yaml"))[0]["spec"]["replicatedJobs"][1]
    daemon = container_named(first["template"]["spec"]["template"]["spec"], "tcpxo-daemon")
    assert daemon["restartPolicy"] == "Always"


def test_m15_scalars_are_what_kubernetes_takes_them_for() -> None:
    [document] = rendered("m15_yaml_scalars.yaml")
    spec = document["spec"]["template"]["spec"]
    own = variables(container_named(spec, "swift"))
    assert own["WALL_LIMIT"] == "12:30:00"
    assert own["RUN_ID"] == "0012"
    assert own["SEED"] == "1e3"
    assert own["FLAG"] == "on"
    assert volumes(spec)["scripts"]["configMap"]["defaultMode"] == 511
    assert container_named(spec, "swift")["args"] == [
        "echo \"keep   these   spaces\"\necho 'tab:\tand trailing space '\n"
    ]


def test_m16_finds_the_gpu_container_by_its_limit_and_leaves_the_labels() -> None:
    [document] = rendered("m16_deployment.yaml")
    [before] = load_all(text_of("m16_deployment.yaml"))
    assert document["spec"]["selector"] == before["spec"]["selector"]
    assert document["metadata"]["labels"] == before["metadata"]["labels"]
    template = document["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "gull"}
    spec = template["spec"]
    assert [c["name"] for c in spec["containers"]] == ["exporter", "serve", "tcpx-daemon"]
    assert "restartPolicy" not in container_named(spec, "tcpx-daemon")
    [term] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {
        "labelSelector": {"matchLabels": {"app": "gull"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    assert volumes(spec)["tcpx-socket"] == {"name": "tcpx-socket", "emptyDir": {}}
    assert volumes(spec)["libraries"]["hostPath"]["path"] == LIBRARIES


def test_m20_joins_the_library_path_and_warns_of_the_others() -> None:
    text, summary = render_text(text_of("m20_env_of_its_own.yaml"), HIGH)
    [document] = load_all(text)
    own = variables(container_named(document["spec"], "tern"))
    folders = own["LD_LIBRARY_PATH"].split(":")
    assert set(folders) == {
        "/usr/local/nvidia/lib64",
        "/opt/tern/lib",
        "/usr/lib/x86_64-linux-gnu",
    }
    assert own["NCCL_DEBUG"] == "INFO"
    assert own["NCCL_BUFFSIZE"] == "16777216"
    assert own["NCCL_SOCKET_IFNAME"] == {"configMapKeyRef": {"name": "tern-net", "key": "ifname"}}
    words = [str(finding) for finding in summary.findings]
    assert len(words) == 2
    assert all(finding.severity == "warning" for finding in summary.findings)
    assert any("16777216" in w and "4194304" in w and "NCCL_BUFFSIZE" in w for w in words)
    assert any("NCCL_SOCKET_IFNAME" in w for w in words)


def test_the_cases_name_both_stacks() -> None:
    assert {case["stack"] for case in EXPECTED.values()} == {"tcpx", "tcpxo"}
    assert HIGH.stack is A3_HIGH
    assert MEGA.stack is A3_MEGA
