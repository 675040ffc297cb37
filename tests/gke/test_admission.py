"""What Autopilot admits and refuses, asked of a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.gke.api import ApiError
from sandbox.gke.control_plane import USER
from sandbox.gke.network_resources import offered_by_node
from sandbox.gke.resource_types import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    ResourceType,
)
from tests.gke.conftest import RunningCluster
from tests.gke.fake_cloud import cluster_resource
from tests.gke.vendor_manifests import (
    NAMESPACE,
    Manifest,
    device_injector,
    edited,
    host_path,
    mount,
    sidecar,
    tcpx_installer,
    tcpx_workload,
    tcpxo_installer,
    tcpxo_workload,
)

pytestmark = pytest.mark.sandbox
KINDS = {kind.kind: kind for kind in (PODS, DAEMON_SETS, DEPLOYMENTS, JOBS, CONFIG_MAPS, LEASES)}
CRON_JOBS = ResourceType("batch", "v1", "cronjobs", "CronJob")


@pytest.fixture(scope="module", autouse=True)
def _namespaces(cluster: RunningCluster) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    cluster.loop.run(cluster.api.apply(NAMESPACES, body))
    cluster.loop.run(_service_account(cluster, "default"))
    cluster.loop.run(_service_account(cluster, NAMESPACE))


async def _service_account(cluster: RunningCluster, namespace: str) -> None:
    accounts = ResourceType("", "v1", "serviceaccounts", "ServiceAccount")
    async for change in cluster.api.follow(accounts, namespace):
        if change.object and change.object["metadata"]["name"] == "default":
            return


def refusal(cluster: RunningCluster, manifest: Manifest, user: str = USER) -> str:
    """Why a user may not create an object; empty if it is admitted. Nothing is created."""
    kind = KINDS.get(manifest["kind"], CRON_JOBS)
    path = kind.path(manifest["metadata"]["namespace"])
    request = cluster.api.request(
        "POST", path, body=manifest, params={"dryRun": "All"}, impersonate=user
    )
    try:
        cluster.loop.run(request)
    except ApiError as error:
        return error.message
    return ""


def violations(message: str) -> dict[str, list[str]]:
    """Read the JSON that Warden puts into its refusals."""
    if not message:
        return {}
    assert "GKE Warden rejected the request because it violates one or more" in message, message
    _, _, details = message.partition("Violations details: ")
    found: dict[str, list[str]] = json.loads(details)
    return {
        key.removeprefix("[denied by ").removesuffix("]"): value for key, value in found.items()
    }


def pod(edit: Callable[[Manifest], object] = lambda spec: None) -> Manifest:
    plain = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "birds", "namespace": "default"},
        "spec": {"containers": [{"name": "counter", "image": "birds"}]},
    }
    return edited(plain, edit)


def first(spec: Manifest, **fields: Any) -> None:
    spec["containers"][0].update(fields)


def gpu(spec: Manifest, selector: dict[str, str]) -> None:
    first(spec, resources={"limits": {"nvidia.com/gpu": 8}})
    spec["nodeSelector"] = selector


def host_mount(path: str, **more: Any) -> Callable[[Manifest], None]:
    def edit(spec: Manifest) -> None:
        spec["volumes"] = [host_path("data", path)]
        first(spec, volumeMounts=[mount("data", "/data", **more)])

    return edit


H100 = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
CLASS = {"cloud.google.com/compute-class": "birds-h100"}


@pytest.mark.parametrize(
    ("edit", "policy", "text"),
    [
        pytest.param(
            lambda spec: first(spec, securityContext={"privileged": True}),
            "autogke-disallow-privilege",
            "container counter is privileged; not allowed in Autopilot",
            id="privileged",
        ),
        pytest.param(
            lambda spec: spec.update(hostNetwork=True),
            "autogke-disallow-hostnamespaces",
            "enabling hostNetwork is not allowed in Autopilot.",
            id="host-network",
        ),
        pytest.param(
            lambda spec: spec.update(hostPID=True),
            "autogke-disallow-hostnamespaces",
            "enabling hostPID is not allowed in Autopilot.",
            id="host-pid",
        ),
        pytest.param(
            lambda spec: spec.update(hostIPC=True),
            "autogke-disallow-hostnamespaces",
            "enabling hostIPC is not allowed in Autopilot.",
            id="host-ipc",
        ),
        pytest.param(
            lambda spec: first(spec, ports=[{"containerPort": 80, "hostPort": 8080}]),
            "autogke-no-host-port",
            "container counter specifies host ports [8080], which are disallowed in Autopilot.",
            id="host-port",
        ),
        pytest.param(
            host_mount("/etc", readOnly=True),
            "autogke-no-write-mode-hostpath",
            "hostPath volume data used in container counter uses path /etc which is not allowed in "
            "Autopilot. Allowed path prefixes for hostPath volumes are: [/var/log/].",
            id="host-path-elsewhere",
        ),
        pytest.param(
            host_mount("/var/log/birds"),
            "autogke-no-write-mode-hostpath",
            "hostPath volume data in container counter is accessed in write mode; disallowed in "
            "Autopilot.",
            id="host-path-writable-log",
        ),
        pytest.param(
            host_mount("/home/kubernetes/bin/nvidia"),
            "autogke-no-write-mode-hostpath",
            "hostPath volume data in container counter is accessed in write mode; disallowed in "
            "Autopilot.",
            id="writable-libraries-without-daemon",
        ),
        pytest.param(
            lambda spec: spec.update(volumes=[{"name": "code", "gitRepo": {"repository": "x"}}]),
            "autogke-volume-types",
            "volume code is of a type that is not allowed in Autopilot.",
            id="volume-type",
        ),
        # [facts autopilot.md §1.1], cases/config/denials.json
        pytest.param(
            lambda spec: gpu(spec, {}),
            "autogke-gpu-limitation",
            "When requesting 'nvidia.com/gpu' resources, you must specify node selector "
            "'cloud.google.com/gke-accelerator' with accelerator type.",
            id="gpu-without-accelerator",
        ),
        pytest.param(
            lambda spec: spec.update(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]),
            "autogke-gpu-limitation",
            "The toleration with key 'nvidia.com/gpu' and operator 'Exists' cannot be specified if "
            "the pod does not request to use GPU in Autopilot.",
            id="gpu-toleration-without-gpu",
        ),
        # [R12], cases/config/denials.json
        pytest.param(
            lambda spec: spec.update(nodeSelector={"cloud.google.com/gke-nodepool": "pool"}),
            "autogke-node-affinity-selector-limitation",
            "Key 'cloud.google.com/gke-nodepool' is not allowed with node selector",
            id="node-pool",
        ),
        # [facts autopilot.md §1.6]
        pytest.param(
            lambda spec: gpu(spec, CLASS | H100),
            "autogke-node-affinity-selector-limitation",
            "Key 'cloud.google.com/gke-accelerator' is not allowed with node selector when the "
            "compute class 'birds-h100' is selected",
            id="accelerator-with-class",
        ),
        pytest.param(
            lambda spec: gpu(spec, CLASS | {"node.kubernetes.io/instance-type": "a3-highgpu-8g"}),
            "autogke-node-affinity-selector-limitation",
            "Key 'node.kubernetes.io/instance-type' is not allowed with node selector when the "
            "compute class 'birds-h100' is selected",
            id="instance-type-with-class",
        ),
    ],
)
def test_autopilot_refuses_what_its_rules_forbid(
    cluster: RunningCluster, edit: Callable[[Manifest], object], policy: str, text: str
) -> None:
    """[facts autopilot.md §3.1] unless the case says otherwise."""
    assert violations(refusal(cluster, pod(edit))) == {policy: [text]}


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda spec: None, id="plain"),
        pytest.param(
            lambda spec: first(spec, securityContext={"capabilities": {"add": ["NET_RAW"]}}),
            id="NET_RAW",
        ),
        pytest.param(host_mount("/var/log/birds", readOnly=True), id="read-only-log"),
        # [facts autopilot.md §3.3]: the RDMA example of Google mounts them read-only.
        pytest.param(host_mount("/home/kubernetes/bin/gib", readOnly=True), id="gib"),
        pytest.param(host_mount("/home/kubernetes/bin/nvidia", readOnly=True), id="libraries"),
        pytest.param(lambda spec: gpu(spec, H100), id="gpu-with-accelerator"),
        pytest.param(lambda spec: gpu(spec, CLASS), id="gpu-with-custom-class"),
        pytest.param(
            lambda spec: gpu(spec, H100 | {"cloud.google.com/compute-class": "Accelerator"}),
            id="gpu-with-built-in-class",
        ),
        pytest.param(
            lambda spec: gpu(
                spec,
                H100
                | {
                    "cloud.google.com/gke-spot": "true",
                    "topology.kubernetes.io/zone": "us-central1-a",
                },
            ),
            id="spot-and-zone",
        ),
        pytest.param(lambda spec: spec.update(tolerations=[{"operator": "Exists"}]), id="tolerant"),
    ],
)
def test_autopilot_admits_what_its_rules_allow(
    cluster: RunningCluster, edit: Callable[[Manifest], object]
) -> None:
    assert refusal(cluster, pod(edit)) == ""


def test_all_violations_of_a_pod_are_told_in_one_answer(cluster: RunningCluster) -> None:
    def edit(spec: Manifest) -> None:
        spec.update(hostNetwork=True, hostPID=True)
        spec["nodeSelector"] = {"cloud.google.com/gke-nodepool": "pool"}
        first(spec, securityContext={"privileged": True})
        spec["initContainers"] = [
            {"name": "setup", "image": "x", "securityContext": {"privileged": True}}
        ]

    assert violations(refusal(cluster, pod(edit))) == {
        "autogke-disallow-hostnamespaces": [
            "enabling hostNetwork is not allowed in Autopilot.",
            "enabling hostPID is not allowed in Autopilot.",
        ],
        "autogke-disallow-privilege": [
            "container counter is privileged; not allowed in Autopilot",
            "container setup is privileged; not allowed in Autopilot",
        ],
        "autogke-node-affinity-selector-limitation": [
            "Key 'cloud.google.com/gke-nodepool' is not allowed with node selector"
        ],
    }


def test_a_large_pod_is_judged_within_the_budget_of_the_api_server(
    cluster: RunningCluster,
) -> None:
    def edit(spec: Manifest) -> None:
        spec["volumes"] = [host_path(f"v{n}", f"/var/log/v{n}") for n in range(40)]
        mounts = [mount(f"v{n}", f"/data/{n}", readOnly=True) for n in range(40)]
        spec["containers"] = [
            {"name": f"c{n}", "image": "birds", "volumeMounts": mounts} for n in range(20)
        ]

    assert refusal(cluster, pod(edit)) == ""
    privileged = {"securityContext": {"privileged": True}}

    def worse(spec: Manifest) -> None:
        edit(spec)
        spec["containers"][19].update(privileged)

    assert list(violations(refusal(cluster, pod(worse)))) == ["autogke-disallow-privilege"]


def _template(kind: str, spec: Manifest) -> Manifest:
    template = {"metadata": {"labels": {"app": "birds"}}, "spec": spec}
    selector = {"matchLabels": {"app": "birds"}}
    job = {"template": template}
    specs: dict[str, tuple[str, Manifest]] = {
        "Deployment": ("apps/v1", {"selector": selector, "template": template}),
        "DaemonSet": ("apps/v1", {"selector": selector, "template": template}),
        "Job": ("batch/v1", job),
        "CronJob": ("batch/v1", {"schedule": "0 0 * * *", "jobTemplate": {"spec": job}}),
    }
    version, body = specs[kind]
    metadata = {"name": "birds", "namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": body}


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "Job", "CronJob"])
def test_pod_templates_of_workloads_are_judged_like_pods(
    cluster: RunningCluster, kind: str
) -> None:
    restart = {"restartPolicy": "Never" if kind in ("Job", "CronJob") else "Always"}
    plain = pod()["spec"] | restart
    assert refusal(cluster, _template(kind, plain)) == ""
    answer = refusal(cluster, _template(kind, plain | {"hostNetwork": True}))
    assert list(violations(answer)) == ["autogke-disallow-hostnamespaces"]


def test_net_admin_follows_the_workload_policy_of_the_cluster(cluster: RunningCluster) -> None:
    """[R12, R26]; the change is in force when `update` returns."""
    wants = pod(lambda spec: first(spec, securityContext={"capabilities": {"add": ["NET_ADMIN"]}}))
    assert refusal(cluster, wants) == ""
    cluster.loop.run(cluster.runtime.update(cluster.key, cluster_resource(net_admin=False)))
    try:
        assert violations(refusal(cluster, wants)) == {
            "autogke-default-linux-capabilities": [
                "linux capability 'NET_ADMIN' on container 'counter' not allowed; Autopilot only "
                "allows the capabilities: 'AUDIT_WRITE,CHOWN,DAC_OVERRIDE,FOWNER,FSETID,KILL,MKNOD,"
                "NET_BIND_SERVICE,NET_RAW,SETFCAP,SETGID,SETPCAP,SETUID,SYS_CHROOT,SYS_PTRACE'."
            ]
        }
        daemon = violations(refusal(cluster, tcpxo_workload()))
        assert list(daemon) == ["autogke-default-linux-capabilities"]
    finally:
        cluster.loop.run(cluster.runtime.update(cluster.key, cluster_resource()))
    assert refusal(cluster, wants) == ""


def test_a_capability_that_autopilot_never_allows_is_refused(cluster: RunningCluster) -> None:
    capabilities = {"capabilities": {"add": ["NET_ADMIN", "SYS_ADMIN", "IPC_LOCK"]}}
    answer = refusal(cluster, pod(lambda spec: first(spec, securityContext=capabilities)))
    (text,) = violations(answer)["autogke-default-linux-capabilities"]
    assert text.startswith("linux capability 'SYS_ADMIN,IPC_LOCK' on container 'counter'")


@pytest.mark.parametrize("manifest", [tcpx_installer(), tcpxo_installer(), device_injector()])
def test_the_gpudirect_daemon_sets_of_google_are_admitted(
    cluster: RunningCluster, manifest: Manifest
) -> None:
    """[facts gpudirect.md §1-§3, §11.12]."""
    assert refusal(cluster, manifest) == ""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": manifest["metadata"]["name"],
        "uid": "0",
    }
    template = manifest["spec"]["template"]
    metadata = {"generateName": "x-", "namespace": NAMESPACE, "ownerReferences": [owner]}
    made = (
        {"apiVersion": "v1", "kind": "Pod"}
        | template
        | {"metadata": template["metadata"] | metadata}
    )
    assert refusal(cluster, made) == ""


EXEMPTION_LOST = [
    pytest.param(tcpx_installer, lambda s: s["initContainers"][0].update(name="x"), id="container"),
    pytest.param(tcpx_installer, lambda s: s["initContainers"][0].update(image="x"), id="image"),
    pytest.param(
        tcpx_installer,
        lambda s: s["initContainers"][0].update(command=["/bin/bash", "-c"]),
        id="command",
    ),
    pytest.param(
        tcpx_installer,
        lambda s: s["initContainers"][0]["volumeMounts"][0].update(mountPath="/host"),
        id="mount",
    ),
    pytest.param(
        tcpx_installer,
        lambda s: s["volumes"][0].update(hostPath={"path": "/etc"}),
        id="host-path",
    ),
    pytest.param(tcpxo_installer, lambda s: s["initContainers"].pop(0), id="no-preparation"),
    pytest.param(tcpxo_installer, lambda s: s["initContainers"].reverse(), id="order"),
    pytest.param(
        tcpxo_installer,
        lambda s: s["initContainers"][0].update(command=["sh", "-c", "modprobe import-helper"]),
        id="preparation-command",
    ),
    pytest.param(
        tcpxo_installer,
        lambda s: s["containers"].append({"name": "shell", "image": "ubuntu"}),
        id="second-container",
    ),
    pytest.param(device_injector, lambda s: s["containers"][0].update(name="x"), id="injector"),
    pytest.param(
        device_injector, lambda s: s["containers"][0].update(args=["--x"]), id="injector-arguments"
    ),
]


@pytest.mark.parametrize(("make", "edit"), EXEMPTION_LOST)
def test_an_edit_of_a_gpudirect_daemon_set_loses_its_exemption(
    cluster: RunningCluster, make: Callable[[], Manifest], edit: Callable[[Manifest], object]
) -> None:
    """[facts autopilot.md §3.3, facts gpudirect.md §11.12]."""
    found = violations(refusal(cluster, edited(make(), edit)))
    assert "autogke-disallow-privilege" in found
    assert "autogke-disallow-hostnamespaces" in found


def test_the_exemption_holds_in_no_other_namespace(cluster: RunningCluster) -> None:
    manifest = tcpx_installer()
    manifest["metadata"]["namespace"] = "default"
    assert "autogke-disallow-privilege" in violations(refusal(cluster, manifest))


@pytest.mark.parametrize(
    "manifest",
    [tcpx_workload(), tcpxo_workload(), sidecar(tcpx_workload()), sidecar(tcpxo_workload())],
)
def test_the_gpudirect_workloads_of_google_are_admitted(
    cluster: RunningCluster, manifest: Manifest
) -> None:
    """[facts gpudirect.md §5, §7]."""
    assert refusal(cluster, manifest) == ""


@pytest.mark.parametrize(
    ("edit", "volumes"),
    [
        pytest.param(
            lambda s: s["containers"][0].update(image="birds/tcpgpudmarxd-dev:v1"),
            ["nvidia", "sys", "proc-sys", "aperture-devices"],
            id="image-of-somebody-else",
        ),
        pytest.param(
            lambda s: s["containers"][0].update(name="daemon"),
            ["nvidia", "sys", "proc-sys", "aperture-devices"],
            id="container-renamed",
        ),
        pytest.param(
            lambda s: s["containers"][1]["volumeMounts"].append(mount("sys", "/hostsysfs")),
            ["sys"],
            id="sys-in-the-workload",
        ),
        pytest.param(
            lambda s: s["containers"][0]["volumeMounts"][1].update(mountPath="/sys"),
            ["sys"],
            id="sys-elsewhere",
        ),
    ],
)
def test_host_paths_of_a_daemon_are_allowed_to_the_daemon_alone(
    cluster: RunningCluster, edit: Callable[[Manifest], object], volumes: list[str]
) -> None:
    found = violations(refusal(cluster, edited(tcpxo_workload(), edit)))
    assert list(found) == ["autogke-no-write-mode-hostpath"]
    texts = found["autogke-no-write-mode-hostpath"]
    assert [text.split()[2] for text in texts] == volumes


def test_namespaces_of_gke_take_nothing_from_users(cluster: RunningCluster) -> None:
    """[facts autopilot.md §3.1]."""
    manifests: list[Manifest] = [
        pod(),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "birds"}},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "birds"}},
    ]
    for manifest in manifests:
        manifest["metadata"]["namespace"] = "kube-system"
        answer = refusal(cluster, manifest)
        assert (
            "GKE Warden authz [denied by managed-namespaces-limitation]: the namespace "
            '"kube-system" is managed and the request\'s verb "create" is denied' in answer
        )
        assert refusal(cluster, manifest, user="system:kube-controller-manager") != answer


def test_kubectl_shows_the_refusal_to_the_user(cluster: RunningCluster) -> None:
    answer = cluster.kubectl(
        "create",
        "-f",
        "-",
        manifest=pod(lambda spec: first(spec, securityContext={"privileged": True})),
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("Error from server (Forbidden): ")
    assert "[denied by autogke-disallow-privilege]" in answer.stderr


def test_an_addon_from_another_registry_is_admitted_with_a_warning(
    cluster: RunningCluster,
) -> None:
    """Its fate at Google is unknown [facts gpudirect.md §11.12]: the sandbox says so."""

    def mirror(spec: Manifest) -> None:
        container = spec["initContainers"][0]
        container["image"] = container["image"].replace("us-docker.pkg.dev", "birds.example")

    answer = cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", manifest=edited(tcpx_installer(), mirror)
    )
    assert answer.returncode == 0
    assert "Warning: " in answer.stderr
    assert "birds.example/gce-ai-infra/gpudirect-tcpx/nccl-plugin" in answer.stderr
    original = cluster.kubectl("create", "--dry-run=server", "-f", "-", manifest=tcpx_installer())
    assert (original.returncode, original.stderr) == (0, "")


def test_a_workload_admitted_under_older_rules_can_still_be_deleted(
    cluster: RunningCluster,
) -> None:
    """Its finalizers change when it goes, and nothing judges it anew for that."""
    manifest = _template(
        "Deployment",
        pod(lambda spec: first(spec, securityContext={"capabilities": {"add": ["NET_ADMIN"]}}))[
            "spec"
        ],
    )
    manifest["spec"]["replicas"] = 0
    cluster.loop.run(cluster.api.create(DEPLOYMENTS, manifest))
    cluster.loop.run(cluster.runtime.update(cluster.key, cluster_resource(net_admin=False)))
    try:
        gone = cluster.kubectl(
            "delete", "deployment", "birds", "--cascade=foreground", "--timeout=20s"
        )
        assert gone.returncode == 0, gone.stderr
    finally:
        cluster.loop.run(cluster.runtime.update(cluster.key, cluster_resource()))


def made(cluster: RunningCluster, manifest: Manifest) -> Manifest:
    """What the API server makes of an object, without keeping it."""
    return cluster.loop.run(cluster.api.create(PODS, manifest, dry_run=True))


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"resources": {}},
        {"resources": {"limits": {"nvidia.com/gpu": "8"}}},
        {"resources": {"requests": {"cpu": "1"}}},
    ],
)
def test_interfaces_of_a_pod_become_resources_of_its_first_container(
    cluster: RunningCluster, resources: Manifest
) -> None:
    """[facts autopilot.md §1.7]; `default` asks for nothing."""
    manifest = pod(lambda spec: first(spec, **resources))
    manifest["spec"]["containers"].append({"name": "second", "image": "birds"})
    interfaces = [
        {"interfaceName": "eth0", "network": "default"},
        {"interfaceName": "eth1", "network": "vpc1"},
        {"interfaceName": "eth2", "network": "birds.net"},
    ]
    manifest["metadata"]["annotations"] = {
        "networking.gke.io/interfaces": json.dumps(interfaces, indent=1)
    }
    containers = made(cluster, manifest)["spec"]["containers"]
    expected = offered_by_node(each["network"] for each in interfaces)
    assert sorted(expected) == [
        "networking.gke.io.networks/birds.net",
        "networking.gke.io.networks/birds.net.IP",
        "networking.gke.io.networks/vpc1",
        "networking.gke.io.networks/vpc1.IP",
    ]
    for part in ("limits", "requests"):
        given = (resources.get("resources") or {}).get(part) or {}
        assert containers[0]["resources"][part].items() >= (expected | given).items()
    assert containers[1]["resources"] == {}


def test_a_pod_without_interfaces_keeps_its_resources(cluster: RunningCluster) -> None:
    assert made(cluster, pod())["spec"]["containers"][0]["resources"] == {}


def test_the_recorded_denials_name_policies_that_exist_here() -> None:
    """cases/config/denials.json holds refusals as seen at Google."""
    cases = json.loads(
        (Path(__file__).parents[1] / "cases" / "config" / "denials.json").read_text()
    )
    policy = (
        Path(__file__).parents[2] / "sandbox" / "gke" / "admission" / "warden.yaml"
    ).read_text()
    for case in cases:
        for constraint in case["expect"]["constraints"]:
            assert f"[denied by {constraint}]" in policy
