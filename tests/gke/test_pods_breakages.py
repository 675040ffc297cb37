"""Each way in which GPUDirect breaks leaves its own evidence, as field reports and facts say.

One story per breakage: what is wrong, and where a person would see it (container state, event,
log, result). The stories run without an API server.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.gke.nccl.throughput import mtu_share
from tests.gke import vendor_manifests as vendor
from tests.gke.pod_world import Execution, PodWorld, RunningPod, play
from tests.gke.simulated import (
    HIGH,
    IMPORT_HELPER,
    MEGA,
    TCPX_SETTINGS,
    Manifest,
    daemon_container,
    gpu_pod,
    interfaces,
    service,
    workload_container,
)

HOSTS = ("nccl-host-1", "nccl-host-2")
RUNNER = "/scripts/demo-run-nccl-test-tcpxo-via-mpi.sh"
LIBRARIES = "/usr/local/nvidia/lib64"
RUN_SETTINGS = {
    "BENCHMARK": "all_gather_perf",
    "NHOSTS": "2",
    "NCCL_LIB_DIR": LIBRARIES,
    "LD_LIBRARY_PATH": LIBRARIES,
    "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
    "DATA_MAX": "8G",
}
Edit = Callable[[Manifest], object]


def mega_pod(name: str, *edits: Edit) -> Manifest:
    pod = gpu_pod(name, MEGA)
    pod["spec"]["containers"][1]["command"] = [
        "sh",
        "-c",
        "service ssh restart; sleep infinity",
    ]
    for edit in edits:
        edit(pod)
    return pod


def high_pod(name: str, *edits: Edit) -> Manifest:
    pod = gpu_pod(name, HIGH)
    for edit in edits:
        edit(pod)
    return pod


def daemon_of(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"]["containers"][0]
    return found


def annotation_of(pod: Manifest, container: str) -> list[Any]:
    key = f"devices.gke.io/container.{container}"
    return list(json.loads(pod["metadata"]["annotations"][key]))


async def ready_pair(world: PodWorld, *edits: Edit) -> list[RunningPod]:
    """Two prepared nodes with a ready GPU Pod on each."""
    nodes = [world.node(), world.node()]
    await world.prepare(*nodes)
    make = mega_pod if world.accelerator == MEGA else high_pod
    pods = []
    for name, node in zip(HOSTS, nodes, strict=True):
        world.service(service(name))
        pods.append(world.start(make(name, *edits), node))
    for pod in pods:
        await pod.until(pod.serves)
    return pods


async def all_gather(pod: RunningPod, settings: dict[str, str] | None = None) -> Execution:
    """Run the recommended runner on both hosts, with some settings instead of the usual ones."""
    given = RUN_SETTINGS | (settings or {})
    words = " ".join(f'{name}="{value}"' for name, value in given.items())
    hosts = " ".join(HOSTS)
    script = f"(cd /scripts && /scripts/gen_hostfiles.sh {hosts}) >/dev/null; {words} {RUNNER}"
    return await pod.execute("nccl-test", "bash", "-c", script, seconds=3)


async def tcpx_all_gather(pod: RunningPod, **changes: str) -> Execution:
    """Run the all-gather with TCPX's settings; an empty value leaves one out."""
    settings = {"LD_LIBRARY_PATH": LIBRARIES, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
    settings |= TCPX_SETTINGS | changes
    passed = " ".join(f'-x {name}="{value}"' for name, value in settings.items() if value)
    hosts = ",".join(f"{name}:8" for name in HOSTS)
    script = (
        f"mpirun --allow-run-as-root -H {hosts} {passed} "
        "/third_party/nccl-tests-mpi/build/all_gather_perf -b 1M -e 512M -f 2 -g 1 -c 0"
    )
    return await pod.execute("nccl-test", "bash", "-c", script, seconds=3)


@pytest.fixture
def world(tmp_path: Path) -> Callable[[], PodWorld]:
    return lambda: PodWorld(tmp_path)


@pytest.fixture
def high_world(tmp_path: Path) -> Callable[[], PodWorld]:
    return lambda: PodWorld(tmp_path, accelerator=HIGH)


# --- What works


def test_a_healthy_pair_reaches_the_published_bandwidth(world: Callable[[], PodWorld]) -> None:
    async def story(here: PodWorld) -> Execution:
        first, _ = await ready_pair(here)
        return await all_gather(first)

    result = play(story, world)
    assert result.code == 0
    assert len(result.rows) == 31
    # The page's table: 189.03 GB/s at 8 GiB, five rows of size 0.
    assert result.largest == pytest.approx(189.03, rel=0.02)
    assert [row[0] for row in result.rows[:6]] == ["0", "0", "0", "0", "0", "256"]
    assert "simulated" in result.output
    assert "# Out of bounds values : 0 OK" in result.output


def test_a_healthy_tcpx_pair_reaches_the_published_bandwidth(
    high_world: Callable[[], PodWorld],
) -> None:
    async def story(here: PodWorld) -> Execution:
        first, _ = await ready_pair(here)
        return await tcpx_all_gather(first)

    result = play(story, high_world)
    assert result.code == 0
    assert result.largest == pytest.approx(70.87, rel=0.02)
    assert "Using network GPUDirectTCPX_v7" in result.output
    # `-c 0`: nothing was compared [R44].
    assert {row[-1] for row in result.rows} == {"N/A"}


# --- Devices and node preparation


def test_without_an_injector_the_daemon_finds_no_gpu(world: Callable[[], PodWorld]) -> None:
    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node, injectors=0)
        pod = here.start(mega_pod("no-injector"), node)
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "CUDA initialization failed" in pod.log("tcpxo-daemon")
        # The entry point's exit code is that of its clean-up [R04].
        assert pod.last_end("tcpxo-daemon")["exitCode"] == 0  # type: ignore[index]

    play(story, world)


def test_two_injectors_make_containerd_refuse_the_daemon(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §11.13]
    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node, injectors=2)
        pod = here.start(mega_pod("two-injectors"), node)
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
        node = here.node()
        await here.prepare(node, install=False)
        pod = here.start(mega_pod("no-helper", without_helper, never_again), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("misnamed", misname), node)
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "CUDA initialization failed" in pod.log("tcpxo-daemon")

    play(story, world)


def test_a_library_folder_one_level_off_hides_the_driver(world: Callable[[], PodWorld]) -> None:
    # [R08]: .../nvidia/lib64 mounted at /usr/local/nvidia.
    def one_off(pod: Manifest) -> None:
        daemon_of(pod)["volumeMounts"][0]["mountPath"] = "/usr/local/nvidia"

    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("one-off", one_off), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(high_pod("one-off", one_off), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("seven", seven), node)
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "PCI tree 7" in pod.log("tcpxo-daemon")

    play(story, world)


def test_without_net_admin_the_daemon_cannot_tune_the_kernel(
    world: Callable[[], PodWorld],
) -> None:
    def no_rights(pod: Manifest) -> None:
        del daemon_of(pod)["securityContext"]

    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("no-rights", no_rights), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("old-flags", old_flags), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("unknown-flag", unknown_flag), node)
        await pod.until(lambda: pod.last_end("tcpxo-daemon"))
        assert "Unknown command line flag 'enforce_kernel_ipv6_support'" in pod.log("tcpxo-daemon")

    play(story, world)


def test_an_old_tcpx_daemon_fails_on_a_new_cluster(high_world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §9 row 28]: the cluster of these tests has 1.36.
    def old_daemon(pod: Manifest) -> None:
        daemon_of(pod)["image"] = vendor.DAEMON.format(stack="tcpx", tag="v2.0.9")

    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node)
        pod = here.start(high_pod("old-daemon", old_daemon), node)
        await pod.until(lambda: pod.last_end("tcpx-daemon"))
        assert pod.last_end("tcpx-daemon")["exitCode"] != 0  # type: ignore[index]

    play(story, high_world)


# --- Pod creation


def test_an_interface_list_that_is_no_json_keeps_the_pod_in_creation(
    world: Callable[[], PodWorld],
) -> None:
    # [R03]: a comma after the last entry.
    def trailing_comma(pod: Manifest) -> None:
        annotations = pod["metadata"]["annotations"]
        text = annotations["networking.gke.io/interfaces"]
        annotations["networking.gke.io/interfaces"] = text.removesuffix("]") + ",]"

    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("comma", trailing_comma), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("wrong-tag", wrong_tag), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("no-map", with_map), node)
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
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("probed", probed), node)
        await pod.until(lambda: pod.record.ready)
        assert pod.container("tcpxo-daemon")["started"] is True
        assert pod.record.daemon is not None

    play(story, world)


# --- The run


@pytest.mark.parametrize(
    ("settings", "evidence"),
    [
        ({"NCCL_LIB_DIR": ""}, "Must set NCCL_LIB_DIR"),
        ({"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": ""}, "No LLCM device found"),
        ({"NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices/"}, "No LLCM device found"),
    ],
)
def test_a_missing_setting_stops_the_run(
    world: Callable[[], PodWorld], settings: dict[str, str], evidence: str
) -> None:
    # [facts gpudirect.md §8]
    async def story(here: PodWorld) -> tuple[Execution, str]:
        first, second = await ready_pair(here)
        result = await all_gather(first, settings)
        logs = [
            (await pod.execute("nccl-test", "sh", "-c", "cat /tmp/*.log; true")).text
            for pod in (first, second)
        ]
        return result, "".join(logs)

    result, logs = play(story, world)
    assert result.rows == []
    assert evidence in result.text + logs


def test_the_checker_aborts_when_the_default_profile_is_incomplete(
    world: Callable[[], PodWorld],
) -> None:
    # [facts gpudirect.md §8]: from v1.0.12 on NCCL_NVLSTREE_MAX_CHUNKSIZE must be 131072.
    async def story(here: PodWorld) -> tuple[Execution, str]:
        first, second = await ready_pair(here)
        profile = f"{LIBRARIES}/nccl-env-profile.sh"
        for pod in (first, second):
            text = pod.record.node.files.read(
                "/home/kubernetes/bin/nvidia/lib64/nccl-env-profile.sh"
            )
            kept = [line for line in (text or "").splitlines() if "NVLSTREE" not in line]
            pod.record.node.files.write(
                "/home/kubernetes/bin/nvidia/lib64/nccl-env-profile.sh", "\n".join(kept) + "\n"
            )
        assert (await first.execute("nccl-test", "grep", "-c", "NVLSTREE", profile)).code == 1
        result = await all_gather(first)
        return result, (await first.execute("nccl-test", "sh", "-c", "cat /tmp/*.log")).text

    result, log = play(story, world)
    assert result.rows == []
    assert "exited on signal 6 (Aborted)" in result.text
    assert "NCCL_NVLSTREE_MAX_CHUNKSIZE is unset, expected 131072" in log


def test_apertures_bound_after_the_container_started_stay_invisible(
    world: Callable[[], PodWorld],
) -> None:
    # [facts gpudirect.md §11.2]: no mount propagation.
    def workload_only(pod: Manifest) -> None:
        pod["spec"]["containers"].pop(0)

    async def story(here: PodWorld) -> None:
        node = here.node()
        early = here.start(mega_pod("early", workload_only), node)
        await early.until(lambda: early.record.ready)
        await here.prepare(node)
        late = here.start(mega_pod("late", workload_only), node)
        await late.until(lambda: late.record.ready)
        listed = "ls /dev/aperture_devices/*/resource4 2>/dev/null | wc -l"
        assert (await early.execute("nccl-test", "sh", "-c", listed)).output.strip() == "0"
        assert (await late.execute("nccl-test", "sh", "-c", listed)).output.strip() == "8"

    play(story, world)


def test_a_closed_firewall_makes_the_run_hang_after_its_header(
    world: Callable[[], PodWorld],
) -> None:
    async def story(here: PodWorld) -> Execution:
        here.cloud.rules = [rule for rule in here.cloud.rules if rule["name"] != "internal-5"]
        first, _ = await ready_pair(here)
        return await all_gather(first)

    result = play(story, world)
    assert result.code is None
    assert "# Using devices" in result.output
    assert result.rows == []


def test_a_small_mtu_in_one_network_costs_bandwidth(world: Callable[[], PodWorld]) -> None:
    # [facts autopilot.md §4.3]: nobody checks the MTU.
    async def story(here: PodWorld) -> Execution:
        here.cloud.networks["net-3"]["mtu"] = 1460
        first, _ = await ready_pair(here)
        return await all_gather(first)

    result = play(story, world)
    assert result.code == 0
    assert result.largest == pytest.approx(189.03 * mtu_share(1460), rel=0.05)


def test_a_pod_sees_the_mtu_of_each_of_its_interfaces(world: Callable[[], PodWorld]) -> None:
    async def story(here: PodWorld) -> Execution:
        here.cloud.networks["net-3"]["mtu"] = 1460
        first, _ = await ready_pair(here)
        script = 'for n in /sys/class/net/eth[1-8]; do echo "${n##*/} $(cat "$n/mtu")"; done'
        return await first.execute("nccl-test", "sh", "-c", script)

    lines = play(story, world).output.splitlines()
    assert lines[2] == "eth3 1460"
    assert [line for line in lines if "8244" in line] == [
        f"eth{number} 8244" for number in (1, 2, 4, 5, 6, 7, 8)
    ]


def test_without_the_installed_libraries_nccl_uses_plain_sockets(
    world: Callable[[], PodWorld],
) -> None:
    # A library path that leads elsewhere: about 4 GB/s (NVIDIA/aicr).
    async def story(here: PodWorld) -> Execution:
        first, _ = await ready_pair(here)
        script = (
            "mpirun --allow-run-as-root -H nccl-host-1:8,nccl-host-2:8 -x NCCL_DEBUG=INFO "
            "-x NCCL_DEBUG_SUBSYS=INIT,NET -x LD_LIBRARY_PATH=/opt/nccl "
            "/third_party/nccl-tests-mpi/build/all_gather_perf -b 1M -e 1G -f 2"
        )
        return await first.execute("nccl-test", "bash", "-c", script)

    result = play(story, world)
    assert result.code == 0
    assert "Using network Socket" in result.output
    assert result.largest == pytest.approx(4.0, rel=0.1)


def test_a_plug_in_of_ones_own_in_front_bypasses_the_stack(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §11.17]
    async def story(here: PodWorld) -> Execution:
        first, second = await ready_pair(here)
        for pod in (first, second):
            await pod.execute("nccl-test", "sh", "-c", "mkdir -p /own; echo x >/own/libnccl-net.so")
        script = (
            "mpirun --allow-run-as-root -H nccl-host-1:8,nccl-host-2:8 -x NCCL_DEBUG=INFO "
            f"-x NCCL_DEBUG_SUBSYS=INIT,NET -x LD_LIBRARY_PATH=/own:{LIBRARIES} "
            "/third_party/nccl-tests-mpi/build/all_gather_perf -b 1M -e 1G -f 2"
        )
        return await first.execute("nccl-test", "bash", "-c", script)

    result = play(story, world)
    assert "Using network Socket" in result.output


def test_nodes_with_different_plug_ins_do_not_talk(tmp_path: Path) -> None:
    # [facts gpudirect.md §0]: every Pod of one workload must see the same plug-in.
    async def story(here: PodWorld) -> tuple[Execution, str]:
        nodes = [here.node(), here.node()]
        await here.prepare(nodes[0], tag="v1.0.15")
        await here.prepare(nodes[1], tag="v1.0.16")
        pods = []
        for name, node in zip(HOSTS, nodes, strict=True):
            here.service(service(name))
            pods.append(here.start(mega_pod(name), node))
        for pod in pods:
            await pod.until(pod.serves)
        result = await all_gather(pods[0])
        log = await pods[1].execute("nccl-test", "sh", "-c", "cat /tmp/*.log")
        return result, log.text

    result, log = play(story, lambda: PodWorld(tmp_path))
    assert result.rows == []
    assert "VERSION MISMATCH" in log


def test_without_a_daemon_the_plug_in_ends_every_rank(world: Callable[[], PodWorld]) -> None:
    def without_daemon(pod: Manifest) -> None:
        pod["spec"]["containers"].pop(0)

    async def story(here: PodWorld) -> tuple[Execution, str]:
        nodes = [here.node(), here.node()]
        await here.prepare(*nodes)
        pods = []
        for name, node in zip(HOSTS, nodes, strict=True):
            here.service(service(name))
            pods.append(here.start(mega_pod(name, without_daemon), node))
            await pods[-1].until(lambda: pods[-1].record.ready)
        result = await all_gather(pods[0])
        return result, (await pods[0].execute("nccl-test", "sh", "-c", "cat /tmp/*.log")).text

    result, log = play(story, world)
    assert "exited on signal 6 (Aborted)" in result.text
    assert "RxDM not ready" in log


def test_a_tcpx_socket_folder_of_its_own_is_a_refused_connection(
    high_world: Callable[[], PodWorld],
) -> None:
    # [facts gpudirect.md §5]: one emptyDir, seen as /run/tcpx and as /tmp.
    def apart(pod: Manifest) -> None:
        pod["spec"]["volumes"].append({"name": "other", "emptyDir": {}})
        pod["spec"]["containers"][1]["volumeMounts"][0]["name"] = "other"

    async def story(here: PodWorld) -> Execution:
        first, _ = await ready_pair(here, apart)
        return await tcpx_all_gather(first)

    result = play(story, high_world)
    assert result.rows == []
    assert "/tmp/rx_rule_manager: Connection refused" in result.text


def test_overlapping_cpu_bindings_cost_bandwidth(high_world: Callable[[], PodWorld]) -> None:
    # [R17]: 124-139 for 126-139.
    old = TCPX_SETTINGS["NCCL_GPUDIRECTTCPX_RX_BINDINGS"].replace("126-139", "124-139")

    async def story(here: PodWorld) -> tuple[Execution, Execution]:
        first, _ = await ready_pair(here)
        changed = await tcpx_all_gather(first, NCCL_GPUDIRECTTCPX_RX_BINDINGS=old)
        return await tcpx_all_gather(first), changed

    good, bad = play(story, high_world)
    assert bad.largest < good.largest * 0.95


@pytest.mark.parametrize(
    ("host", "evidence"),
    [
        ("nccl-host-3", "Could not resolve hostname nccl-host-3"),
        ("nccl-host-2", "connect to host nccl-host-2 port 222: Connection refused"),
    ],
)
def test_a_peer_that_is_not_there_yet_is_an_ssh_error(
    world: Callable[[], PodWorld], host: str, evidence: str
) -> None:
    def without_ssh(pod: Manifest) -> None:
        if pod["metadata"]["name"] == "nccl-host-2":
            pod["spec"]["containers"][1]["command"] = ["sleep", "infinity"]

    async def story(here: PodWorld) -> Execution:
        first, _ = await ready_pair(here, without_ssh)
        return await first.execute("nccl-test", "/scripts/init_ssh.sh", "nccl-host-1", host)

    result = play(story, world)
    assert evidence in result.text


def test_sixteen_ranks_of_a_program_without_mpi_measure_alone(
    world: Callable[[], PodWorld],
) -> None:
    # [R49]
    async def story(here: PodWorld) -> Execution:
        first, _ = await ready_pair(here)
        script = (
            "mpirun --allow-run-as-root -H nccl-host-1:2,nccl-host-2:2 -x NCCL_NET=Socket "
            "/third_party/nccl-tests/build/all_gather_perf -b 32M -e 64M -f 2"
        )
        return await first.execute("nccl-test", "bash", "-c", script)

    result = play(story, world)
    assert result.output.count("# nThread") == 4, result.text
    assert {row[7] for row in result.rows} == {"0.00"}


def test_a_restarting_daemon_backs_off(world: Callable[[], PodWorld]) -> None:
    def broken(pod: Manifest) -> None:
        daemon_of(pod)["args"] = ["exit 3"]

    async def story(here: PodWorld) -> None:
        node = here.node()
        await here.prepare(node)
        pod = here.start(mega_pod("broken", broken), node)
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


def test_a_daemon_newer_than_the_plug_in_is_refused(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §0]: the installer is upgraded before the daemon.
    def newer(pod: Manifest) -> None:
        pod["spec"]["containers"][0] = daemon_container(MEGA, "v1.0.23")

    async def story(here: PodWorld) -> str:
        first, _ = await ready_pair(here, newer)
        assert (await all_gather(first)).rows == []
        return (await first.execute("nccl-test", "sh", "-c", "cat /tmp/*.log")).text

    assert "speaks a newer protocol than plug-in v1.0.15" in play(story, world)


def test_manifests_of_these_tests_stay_as_they_are() -> None:
    before = copy.deepcopy(gpu_pod("x", MEGA))
    assert mega_pod("x") != before
    assert gpu_pod("x", MEGA) == before
