"""What keeps a GPU Pod or its receive daemon from coming up, and where a person sees it.

One story per breakage, without an API server: container states, events, logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.gke import vendor_manifests as vendor
from tests.gke.gpu_stories import (
    annotation_of,
    daemon_of,
    high_pod,
    high_world,
    mega_pod,
    on_a_node,
    world,
)
from tests.gke.pod_world import PodWorld, play
from tests.gke.simulated import (
    IMPORT_HELPER,
    MEGA,
    Manifest,
    interfaces,
    workload_container,
)

__all__ = ["high_world", "world"]


def test_without_an_injector_the_daemon_finds_no_gpu(world: Callable[[], PodWorld]) -> None:
    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("no-injector"), injectors=0)
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "CUDA initialization failed" in pod.log("tcpxo-daemon")
        # The entry point's exit code is that of its clean-up [R04].
        assert pod.last_end("tcpxo-daemon")["exitCode"] == 0  # type: ignore[index]

    play(story, world)


def test_two_injectors_make_containerd_refuse_the_daemon(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §11.13]
    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("two-injectors"), injectors=2)
        await pod.until(lambda: pod.waits_for("tcpxo-daemon", "CreateContainerError"))
        message = pod.container("tcpxo-daemon")["state"]["waiting"]["message"]
        assert "is claimed by plugin" in message

    play(story, world)


def test_the_daemon_is_not_created_before_the_installer_made_its_device(
    world: Callable[[], PodWorld],
) -> None:
    # [facts gpudirect.md §3, §11.2]
    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node, install=False)
        pod = here.start(mega_pod("early"), node)
        await pod.until(lambda: pod.waits_for("tcpxo-daemon", "CreateContainerError"))
        assert IMPORT_HELPER in pod.container("tcpxo-daemon")["state"]["waiting"]["message"]
        assert ("Failed", pod.container("tcpxo-daemon")["state"]["waiting"]["message"]) in [
            (reason, message.removeprefix("Error: ")) for reason, message in here.events("early")
        ]
        await here.prepare(node, injectors=0)
        await pod.until(lambda: pod.record.daemon)
        assert "Buffer manager initialization completed." in pod.log("tcpxo-daemon")

    play(story, world)


def test_without_the_import_helper_the_daemon_ends_with_code_0(
    world: Callable[[], PodWorld],
) -> None:
    # [R04]: a home-made installer, and a device list without the helper.
    def without_helper(pod: Manifest) -> None:
        paths = [
            item for item in annotation_of(pod, "tcpxo-daemon") if "dmabuf" not in item["path"]
        ]
        pod["metadata"]["annotations"]["devices.gke.io/container.tcpxo-daemon"] = json.dumps(paths)

    def never_again(pod: Manifest) -> None:
        pod["spec"]["restartPolicy"] = "Never"

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(
            here, mega_pod("no-helper", without_helper, never_again), install=False
        )
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert pod.last_end("tcpxo-daemon") == pod.container("tcpxo-daemon")["state"]["terminated"]
        assert pod.last_end("tcpxo-daemon")["reason"] == "Completed"  # type: ignore[index]
        assert pod.phase == "Running"
        assert pod.container("nccl-test")["ready"] is True
        assert "failed to initialize addr translator" in pod.log("tcpxo-daemon")

    play(story, world)


def test_devices_annotated_for_another_name_reach_nobody(world: Callable[[], PodWorld]) -> None:
    # [R10]: the annotation says tcpx-daemon, the container is tcpxo-daemon.
    def misname(pod: Manifest) -> None:
        annotations = pod["metadata"]["annotations"]
        text = annotations.pop("devices.gke.io/container.tcpxo-daemon")
        annotations["devices.gke.io/container.tcpx-daemon"] = text

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("misnamed", misname))
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "CUDA initialization failed" in pod.log("tcpxo-daemon")

    play(story, world)


def test_a_library_folder_one_level_off_hides_the_driver(world: Callable[[], PodWorld]) -> None:
    # [R08]: .../nvidia/lib64 mounted at /usr/local/nvidia.
    def one_off(pod: Manifest) -> None:
        daemon_of(pod)["volumeMounts"][0]["mountPath"] = "/usr/local/nvidia"

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("one-off", one_off))
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "libcuda.so.1: cannot open shared object file" in pod.log("tcpxo-daemon")

    play(story, world)


def test_a_library_folder_one_level_off_ends_the_tcpx_daemon_with_an_error(
    high_world: Callable[[], PodWorld],
) -> None:
    # [R08]; this daemon is the container's own process, so its exit code shows.
    def one_off(pod: Manifest) -> None:
        daemon_of(pod)["volumeMounts"][0]["mountPath"] = "/usr/local/nvidia"

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, high_pod("one-off", one_off))
        await pod.until(lambda: pod.last_end("tcpx-daemon"))
        assert pod.last_end("tcpx-daemon")["exitCode"] == 127  # type: ignore[index]

    play(story, high_world)


def test_a_ninth_nic_costs_a_gpu(tmp_path: Path) -> None:
    # [R01]
    def nine(pod: Manifest) -> None:
        pod["metadata"]["annotations"]["networking.gke.io/interfaces"] = interfaces(9)

    async def story(here: PodWorld) -> None:
        here.cloud.add("net-9", "sub-9", "192.168.9.0/24")
        node = here.node(nics=9)
        await here.prepare(node)
        pod = here.start(mega_pod("nine", nine), node)
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "PCI tree 7 is not equal to the actual number of GPUs reported by CUDA 8" in pod.log(
            "tcpxo-daemon"
        )

    play(story, lambda: PodWorld(tmp_path))


def test_a_missing_nic_leaves_a_gpu_without_a_partner(world: Callable[[], PodWorld]) -> None:
    def seven(pod: Manifest) -> None:
        pod["metadata"]["annotations"]["networking.gke.io/interfaces"] = interfaces(7)

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("seven", seven))
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "PCI tree 7" in pod.log("tcpxo-daemon")

    play(story, world)


def test_without_net_admin_the_daemon_cannot_tune_the_kernel(
    world: Callable[[], PodWorld],
) -> None:
    def no_rights(pod: Manifest) -> None:
        del daemon_of(pod)["securityContext"]

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("no-rights", no_rights))
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert pod.last_end("tcpxo-daemon")["exitCode"] == 8  # type: ignore[index]
        assert "Operation not permitted" in pod.log("tcpxo-daemon")

    play(story, world)


def test_obsolete_flags_are_complained_about_and_harmless(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §9 row 3]
    def old_flags(pod: Manifest) -> None:
        daemon_of(pod)["args"] = [
            "/fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid= --alsologtostderr"
        ]

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("old-flags", old_flags))
        await pod.until(lambda: pod.record.daemon)
        log = pod.log("tcpxo-daemon")
        for flag in ("num_nics", "uid", "alsologtostderr"):
            assert f"Flag '{flag}' is retired" in log

    play(story, world)


def test_an_unknown_flag_ends_the_daemon(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §9 row 4]
    def unknown_flag(pod: Manifest) -> None:
        daemon_of(pod)["args"] = [
            "/fts/entrypoint_rxdm_container.sh --num_hops=2 --enforce_kernel_ipv6_support=false"
        ]

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("unknown-flag", unknown_flag))
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "Unknown command line flag 'enforce_kernel_ipv6_support'" in pod.log("tcpxo-daemon")

    play(story, world)


def test_an_old_tcpx_daemon_fails_on_a_new_cluster(high_world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §9 row 28]: the cluster of these tests has 1.36.
    def old_daemon(pod: Manifest) -> None:
        daemon_of(pod)["image"] = vendor.DAEMON.format(stack="tcpx", tag="v2.0.9")

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, high_pod("old-daemon", old_daemon))
        await pod.until(lambda: pod.last_end("tcpx-daemon"))
        assert pod.last_end("tcpx-daemon")["exitCode"] != 0  # type: ignore[index]

    play(story, high_world)


def test_an_interface_list_that_is_no_json_keeps_the_pod_in_creation(
    world: Callable[[], PodWorld],
) -> None:
    # [R03]: a comma after the last entry.
    def trailing_comma(pod: Manifest) -> None:
        annotations = pod["metadata"]["annotations"]
        text = annotations["networking.gke.io/interfaces"]
        annotations["networking.gke.io/interfaces"] = text.removesuffix("]") + ",]"

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("comma", trailing_comma))
        await pod.until(lambda: here.events("comma"))
        reason, message = here.events("comma")[0]
        assert reason == "FailedCreatePodSandBox"
        assert "invalid character ']' looking for beginning of value" in message
        assert pod.phase == "Pending"
        assert pod.waits_for("nccl-test", "ContainerCreating")

    play(story, world)


def test_an_unknown_tag_ends_in_image_pull_back_off(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §10]: there never was a daemon v1.0.19.
    def wrong_tag(pod: Manifest) -> None:
        daemon_of(pod)["image"] = vendor.DAEMON.format(stack="tcpxo", tag="v1.0.19")

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("wrong-tag", wrong_tag))
        await pod.until(lambda: pod.waits_for("tcpxo-daemon", "ImagePullBackOff"))
        reasons = [reason for reason, _ in here.events("wrong-tag")]
        assert reasons.count("Failed") >= 2
        assert "BackOff" in reasons
        assert any("v1.0.19: not found" in text for _, text in here.events("wrong-tag"))

    play(story, world)


def test_a_missing_config_map_keeps_the_pod_in_creation_until_it_is_there(
    world: Callable[[], PodWorld],
) -> None:
    def with_map(pod: Manifest) -> None:
        pod["spec"]["volumes"].append({"name": "config", "configMap": {"name": "nccl-configmap"}})

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("no-map", with_map))
        await pod.until(lambda: here.events("no-map"))
        reason, message = here.events("no-map")[0]
        assert reason == "FailedMount"
        assert 'configmap "nccl-configmap" not found' in message
        here.api.objects[("ConfigMap", "nccl-configmap")] = {"kind": "ConfigMap", "data": {}}
        here.world.news.changed()
        await pod.until(lambda: pod.phase == "Running")

    play(story, world)


def test_a_job_pod_ends_with_a_native_sidecar_and_never_with_a_plain_daemon(
    world: Callable[[], PodWorld],
) -> None:
    # [R11], [facts gpudirect.md §11.7]
    def ends(pod: Manifest) -> None:
        pod["spec"]["restartPolicy"] = "Never"
        pod["spec"]["containers"][1]["command"] = ["sh", "-c", "echo done"]

    def as_sidecar(pod: Manifest) -> None:
        daemon = pod["spec"]["containers"].pop(0)
        pod["spec"]["initContainers"] = [daemon | {"restartPolicy": "Always"}]

    async def story(here: PodWorld) -> None:
        nodes = [here.node(), here.node()]
        await here.prepare(*nodes)
        plain = here.start(mega_pod("plain", ends), nodes[0])
        sidecar = here.start(mega_pod("sidecar", ends, as_sidecar), nodes[1])
        await sidecar.until(lambda: sidecar.phase == "Succeeded")
        assert sidecar.last_end("tcpxo-daemon") is not None
        await plain.until(lambda: plain.last_end("nccl-test"))
        assert plain.phase == "Running"
        assert "running" in plain.container("tcpxo-daemon")["state"]

    play(story, world)


def test_a_startup_probe_on_the_health_file_holds_the_workload_back(
    world: Callable[[], PodWorld],
) -> None:
    # [facts gpudirect.md §11.8]
    def probed(pod: Manifest) -> None:
        daemon = pod["spec"]["containers"].pop(0) | {
            "restartPolicy": "Always",
            "env": [{"name": "HEALTH_CHECK_LOG_FILE", "value": "/run/health-check"}],
            "startupProbe": {
                "exec": {"command": ["cat", "/run/health-check"]},
                "initialDelaySeconds": 1,
                "periodSeconds": 5,
                "failureThreshold": 6,
            },
        }
        pod["spec"]["initContainers"] = [daemon]

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("probed", probed))
        await pod.until(lambda: pod.record.ready)
        assert pod.container("tcpxo-daemon")["started"] is True
        assert pod.record.daemon is not None

    play(story, world)


def test_a_restarting_daemon_backs_off(world: Callable[[], PodWorld]) -> None:
    def broken(pod: Manifest) -> None:
        daemon_of(pod)["args"] = ["exit 3"]

    async def story(here: PodWorld) -> None:
        pod = await on_a_node(here, mega_pod("broken", broken))
        await pod.until(lambda: pod.waits_for("tcpxo-daemon", "CrashLoopBackOff"))
        assert pod.container("tcpxo-daemon")["lastState"]["terminated"]["exitCode"] == 3
        assert pod.container("tcpxo-daemon")["restartCount"] >= 1
        await pod.until(lambda: "BackOff" in [reason for reason, _ in here.events("broken")])

    play(story, world)


def test_an_unknown_command_cannot_start(world: Callable[[], PodWorld]) -> None:
    def unknown(pod: Manifest) -> None:
        pod["spec"]["containers"] = [
            workload_container(MEGA) | {"command": ["/scripts/no-such.sh"]},
        ]

    async def story(here: PodWorld) -> None:
        node = here.node()
        pod = here.start(mega_pod("unknown", unknown), node)
        await pod.until(lambda: pod.last_end("nccl-test"))
        end = pod.last_end("nccl-test")
        assert end is not None
        assert (end["reason"], end["exitCode"]) == ("StartError", 128)
        assert "no such file or directory" in end["message"]

    play(story, world)
