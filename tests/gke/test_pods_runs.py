"""What a collective between two simulated Pods comes to, and what breaks it.

One story per breakage, without an API server: result, log, bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.gke.nccl.throughput import mtu_share
from tests.gke.gpu_stories import (
    HOSTS,
    LIBRARIES,
    all_gather,
    high_world,
    mega_pod,
    ready_pair,
    tcpx_all_gather,
    world,
)
from tests.gke.pod_world import Execution, PodWorld, play
from tests.gke.simulated import (
    MEGA,
    TCPX_SETTINGS,
    Manifest,
    daemon_container,
    service,
)

__all__ = ["high_world", "world"]


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


def test_a_daemon_newer_than_the_plug_in_is_refused(world: Callable[[], PodWorld]) -> None:
    # [facts gpudirect.md §0]: the installer is upgraded before the daemon.
    def newer(pod: Manifest) -> None:
        pod["spec"]["containers"][0] = daemon_container(MEGA, "v1.0.23")

    async def story(here: PodWorld) -> str:
        first, _ = await ready_pair(here, newer)
        assert (await all_gather(first)).rows == []
        return (await first.execute("nccl-test", "sh", "-c", "cat /tmp/*.log")).text

    assert "speaks a newer protocol than plug-in v1.0.15" in play(story, world)
