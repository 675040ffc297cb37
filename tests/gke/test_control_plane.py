"""Control planes: started, killed, started again, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import psutil
import pytest

from sandbox.contracts import ClusterKey
from sandbox.gke.api import ApiError, ChangeType, KubeObject, KubernetesApi
from sandbox.gke.certificates import ADMIN
from sandbox.gke.cluster_folder import (
    ClusterFolder,
    ClusterRecord,
    Ports,
    choose_ports,
    ports_of_clusters,
)
from sandbox.gke.control_plane import USER
from sandbox.gke.resource_types import CONFIG_MAPS
from sandbox.gke.runtime import LocalClusterRuntime
from tests.gke.conftest import REPOSITORY, TOKEN, EventLoopThread, RunningCluster
from tests.gke.fake_cloud import REGION, cluster_resource, project_with_cluster_network

pytestmark = pytest.mark.sandbox
KEY = ClusterKey(project="p", location=REGION, name="demo")
PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


@pytest.fixture
def runtime(binaries: Path, loop: EventLoopThread, tmp_path: Path) -> Iterator[LocalClusterRuntime]:
    """A runtime of the test's own; whatever it started is ended afterwards."""
    made = LocalClusterRuntime(
        tmp_path, token=TOKEN, cloud=project_with_cluster_network(), binaries=binaries
    )
    yield made
    loop.run(made.stop(KEY, delete=True))
    assert processes_below(tmp_path) == []


def folder_of(home: Path) -> ClusterFolder:
    return ClusterFolder(home / "clusters" / KEY.context)


def processes_below(folder: Path) -> list[str]:
    """Names of all processes whose command line names a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in word for word in process.cmdline()):
                found.append(process.name())
        except psutil.Error:
            continue
    return found


def config_map(name: str) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


async def add_config_map(home: Path, name: str) -> None:
    async with KubernetesApi.from_kubeconfig(folder_of(home).kubeconfig(ADMIN)) as api:
        await api.create(CONFIG_MAPS, config_map(name))


async def has_config_map(home: Path, name: str) -> bool:
    async with KubernetesApi.from_kubeconfig(folder_of(home).kubeconfig(ADMIN)) as api:
        return await api.get(CONFIG_MAPS, name, "default") is not None


def test_the_token_of_the_sandbox_is_a_cluster_admin(cluster: RunningCluster) -> None:
    who = cluster.kubectl("auth", "whoami", "-o", "json")
    assert json.loads(who.stdout)["status"]["userInfo"]["username"] == USER
    assert cluster.kubectl("auth", "can-i", "*", "*", "--all-namespaces").stdout == "yes\n"


def test_another_token_is_turned_away(cluster: RunningCluster) -> None:
    answer = cluster.kubectl("get", "namespaces", "--token=birds")
    assert answer.returncode == 1
    assert "You must be logged in to the server" in answer.stderr


def test_the_users_kubeconfig_works_with_the_login_helper(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    helper = tmp_path / "gke-gcloud-auth-plugin"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": TOKEN},
    }
    helper.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    helper.chmod(0o755)
    answer = subprocess.run(
        [
            "kubectl",
            f"--kubeconfig={cluster.runtime.kubeconfig}",
            f"--context={cluster.key.context}",
            "get",
            "namespaces",
            "--output=name",
        ],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "namespace/default" in answer.stdout


def test_a_cluster_that_runs_is_found_not_started_twice(cluster: RunningCluster) -> None:
    before = [(each.name, each.pid) for each in cluster.runtime.processes()]
    assert [name for name, _ in before] == PROGRAMS
    again = cluster.loop.run(cluster.runtime.start(cluster.key, cluster_resource()))
    assert [(each.name, each.pid) for each in cluster.runtime.processes()] == before
    assert again.endpoint in cluster.user_kubeconfig.read_text()
    assert cluster.runtime.problems(cluster.key) == []


def test_endpoint_ca_and_objects_survive_a_restart_of_the_server(
    runtime: LocalClusterRuntime, loop: EventLoopThread, tmp_path: Path, binaries: Path
) -> None:
    """A port that somebody took meanwhile is named; once it is free again all goes on."""
    first = loop.run(runtime.start(KEY, cluster_resource()))
    loop.run(add_config_map(tmp_path, "kept"))
    loop.run(runtime.aclose())
    assert processes_below(tmp_path) == []
    later = LocalClusterRuntime(
        tmp_path, token=TOKEN, cloud=project_with_cluster_network(), binaries=binaries
    )
    port = int(first.endpoint.rpartition(":")[2])
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        text = failure(loop, later)
    assert f"port {port} (kubernetes) is taken by process {os.getpid()}" in text
    try:
        assert loop.run(later.start(KEY, cluster_resource())) == first
        assert loop.run(has_config_map(tmp_path, "kept"))
    finally:
        loop.run(later.aclose())


def test_programs_that_are_killed_are_started_again(
    runtime: LocalClusterRuntime, loop: EventLoopThread, tmp_path: Path
) -> None:
    """The objects are still there, and a watch that was open goes on."""
    loop.run(runtime.start(KEY, cluster_resource()))
    seen: list[tuple[ChangeType, str]] = []
    arrived = asyncio.Condition()

    async def follow(api: KubernetesApi) -> None:
        async for change in api.follow(CONFIG_MAPS, "default"):
            async with arrived:
                name = change.object["metadata"]["name"] if change.object else ""
                seen.append((change.type, name))
                arrived.notify_all()

    async def until_seen(name: str) -> None:
        async with arrived:
            await arrived.wait_for(lambda: (ChangeType.ADDED, name) in seen)

    async def kill_one_after_the_other() -> None:
        async with KubernetesApi.from_kubeconfig(folder_of(tmp_path).kubeconfig(ADMIN)) as api:
            follower = asyncio.create_task(follow(api))
            for program in PROGRAMS:
                await create_when_possible(api, f"before-{program}")
                await until_seen(f"before-{program}")
                victim = pid_of(program)
                assert victim is not None
                os.kill(victim, signal.SIGKILL)
                while pid_of(program) in (victim, None):
                    await asyncio.sleep(0.01)
                await create_when_possible(api, f"after-{program}")
                await until_seen(f"after-{program}")
            follower.cancel()

    def pid_of(program: str) -> int | None:
        return next((each.pid for each in runtime.processes() if each.name == program), None)

    loop.run(kill_one_after_the_other())
    assert sorted(each.name for each in runtime.processes()) == sorted(PROGRAMS)
    assert runtime.problems(KEY) == []
    names = [name for kind, name in seen if kind is ChangeType.ADDED]
    expected = [f"{when}-{program}" for program in PROGRAMS for when in ("before", "after")]
    assert [name for name in names if name in expected] == expected
    assert ChangeType.DELETED not in [kind for kind, _ in seen]


async def create_when_possible(api: KubernetesApi, name: str) -> None:
    """Create a ConfigMap; while the API server or its store is away that takes several tries."""
    while True:
        try:
            await api.create(CONFIG_MAPS, config_map(name))
        except ApiError as error:
            # The store may have taken it although the answer was lost.
            if error.reason == "AlreadyExists":
                return
            await asyncio.sleep(0.05)
        except httpx.TransportError:
            await asyncio.sleep(0.05)
        else:
            return


def _processes(pids: Sequence[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        try:
            found.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    return found


class _FailsTwice:
    """A simulation that fails when it starts, two times."""

    runs = 0

    async def run(self) -> None:
        self.runs += 1
        if self.runs <= 2:
            raise ValueError(f"run {self.runs}")
        await asyncio.Event().wait()


def test_what_keeps_failing_is_told_until_it_works(
    binaries: Path, loop: EventLoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here: kwok, which never works, and a simulation that works the third time."""
    monkeypatch.setattr("sandbox.gke.runtime._CONTROLLER_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("sandbox.gke.runtime._CONTROLLER_HEALTHY_SECONDS", 0.3)
    simulation = _FailsTwice()
    runtime = LocalClusterRuntime(
        tmp_path,
        token=TOKEN,
        cloud=project_with_cluster_network(),
        binaries=binaries,
        kwok_arguments=lambda _context, _ports: ["--no-such-flag"],
        simulation=lambda _context: simulation,
    )

    async def problems_over_time() -> list[str]:
        await runtime.start(KEY, cluster_resource(multi_networking=False))
        seen: list[str] = []
        while True:
            now = list(runtime.problems(KEY))
            seen += [each for each in now if each not in seen]
            if simulation.runs == 3 and len(now) == 1 and now[0].startswith("kwok"):
                return seen
            await asyncio.sleep(0.005)

    try:
        told = loop.run(problems_over_time())
        assert "Pod simulation failed: ValueError: run 2" in told
        (kwok,) = runtime.problems(KEY)
        assert kwok.startswith("kwok ended with code 1")
        assert "unknown flag: --no-such-flag" in kwok
        assert [each.name for each in runtime.processes()] == PROGRAMS
    finally:
        loop.run(runtime.stop(KEY, delete=True))


OWNER = """
    import asyncio, sys
    from pathlib import Path
    from sandbox.gke.runtime import LocalClusterRuntime
    from tests.gke.test_control_plane import KEY, TOKEN
    from tests.gke.fake_cloud import cluster_resource, project_with_cluster_network

    async def main() -> None:
        runtime = LocalClusterRuntime(
            Path(sys.argv[1]), token=TOKEN, cloud=project_with_cluster_network(),
            binaries=Path(sys.argv[2]))
        await runtime.start(KEY, cluster_resource())
        print(*(each.pid for each in runtime.processes()), flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


def owner(home: Path, binaries: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a process that owns a cluster, and return it with the pids of the cluster."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(home), str(binaries)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    process.stdout.close()
    return process, pids


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_the_cluster_dies_with_its_server_and_comes_back(
    runtime: LocalClusterRuntime, binaries: Path, loop: EventLoopThread, tmp_path: Path
) -> None:
    process, pids = owner(tmp_path, binaries)
    assert len(pids) == len(PROGRAMS)
    children = _processes(pids)
    loop.run(add_config_map(tmp_path, "kept"))
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    loop.run(runtime.start(KEY, cluster_resource()))
    assert loop.run(has_config_map(tmp_path, "kept"))


def test_left_over_processes_of_a_killed_server_are_ended_before_the_start(
    runtime: LocalClusterRuntime,
    binaries: Path,
    loop: EventLoopThread,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the kernel does not end children with their parent, the next start does."""
    monkeypatch.setattr("sandbox.gke.child_process._die_with_parent", lambda: None)
    lost = LocalClusterRuntime(
        tmp_path, token=TOKEN, cloud=project_with_cluster_network(), binaries=binaries
    )
    loop.run(lost.start(KEY, cluster_resource()))
    leftovers = _processes([each.pid for each in lost.processes()])
    # As if the server were gone: nobody watches over them any more.
    cluster = lost._clusters.pop(KEY)
    loop.run(_forget(cluster))
    loop.run(runtime.start(KEY, cluster_resource()))
    _, alive = psutil.wait_procs(leftovers, timeout=30)
    assert alive == []
    assert sorted(processes_below(tmp_path)) == sorted(PROGRAMS)


async def _forget(cluster: object) -> None:
    tasks = [*cluster.tasks, *cluster.plane._keepers]  # type: ignore[attr-defined]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await cluster.plane.api.aclose()  # type: ignore[attr-defined]


def failure(loop: EventLoopThread, runtime: LocalClusterRuntime) -> str:
    with pytest.raises(RuntimeError) as error:
        loop.run(runtime.start(KEY, cluster_resource()))
    assert runtime.processes() == []
    return str(error.value)


def test_missing_binaries_are_named(loop: EventLoopThread, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "etcd").touch()
    runtime = LocalClusterRuntime(tmp_path, token=TOKEN, cloud=project_with_cluster_network())
    text = failure(loop, runtime)
    assert "kube-apiserver, kube-controller-manager, kube-scheduler not found in" in text
    assert str(tmp_path / "bin") in text
    assert "etcd," not in text


def test_damaged_data_is_told_with_the_words_of_the_store(
    runtime: LocalClusterRuntime, loop: EventLoopThread, tmp_path: Path
) -> None:
    loop.run(runtime.start(KEY, cluster_resource()))
    loop.run(runtime.aclose())
    for file in (folder_of(tmp_path).etcd_data / "member" / "wal").iterdir():
        file.write_bytes(b"birds" * 1000)
    text = failure(loop, runtime)
    assert "etcd ended with code" in text
    assert str(folder_of(tmp_path).log("etcd")) in text


@pytest.mark.parametrize(
    ("content", "why"),
    [("{", "it is no JSON"), ('{"format": 0}', "format 0, this version reads 1")],
)
def test_a_record_that_cannot_be_read_is_told_with_the_remedy(
    binaries: Path, loop: EventLoopThread, tmp_path: Path, content: str, why: str
) -> None:
    record = folder_of(tmp_path).root / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text(content)
    runtime = LocalClusterRuntime(
        tmp_path, token=TOKEN, cloud=project_with_cluster_network(), binaries=binaries
    )
    text = failure(loop, runtime)
    assert text.startswith(f"{record}: {why}")
    assert "create the cluster anew" in text
    assert record.read_text() == content


def test_a_cluster_with_a_broken_record_can_be_deleted(
    binaries: Path, loop: EventLoopThread, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path).root
    folder.mkdir(parents=True)
    (folder / "record.json").write_text("{")
    runtime = LocalClusterRuntime(
        tmp_path, token=TOKEN, cloud=project_with_cluster_network(), binaries=binaries
    )
    with pytest.raises(RuntimeError, match="it is no JSON"):
        loop.run(runtime.stop(KEY, delete=False))
    loop.run(runtime.stop(KEY, delete=True))
    assert not folder.exists()


def test_ports_of_clusters_that_do_not_run_are_not_given_away(tmp_path: Path) -> None:
    """Their users know them; nothing listens there to tell."""
    first, second = 20001, 20003
    record = ClusterRecord(ports=Ports(kubernetes=first, kubelet=second))
    folder = ClusterFolder(tmp_path / "stopped")
    folder.root.mkdir()
    folder.write_record(record)
    assert ports_of_clusters(tmp_path) == {first, second}
    everything_else = set(range(20000, 32000)) - {first, second}
    chosen = choose_ports(everything_else)
    assert {chosen.kubernetes, chosen.kubelet} == {first, second}
    with pytest.raises(RuntimeError, match="no 2 free ports"):
        choose_ports(everything_else | {first})


def test_secrets_of_a_cluster_are_readable_by_their_owner_alone(cluster: RunningCluster) -> None:
    root = Path(cluster.context.home)
    assert root.stat().st_mode & 0o077 == 0
    for path in (*root.glob("certificates/*.key"), root / "users.csv"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert not (root / "certificates" / "ca.key").exists()


def test_nothing_listens_beyond_loopback(cluster: RunningCluster) -> None:
    for each in cluster.runtime.processes():
        for connection in psutil.Process(each.pid).net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip == "127.0.0.1", each.name


def test_two_clusters_live_side_by_side_and_one_goes_without_a_trace(
    cluster: RunningCluster, loop: EventLoopThread
) -> None:
    runtime = cluster.runtime
    other = ClusterKey(project="p", location="europe-west4", name="demo")
    folder = runtime.kubeconfig.parent / "clusters" / other.context
    endpoint = loop.run(runtime.start(other, cluster_resource()))
    try:
        assert endpoint.endpoint not in cluster.user_kubeconfig.read_text()
        assert other.context in runtime.kubeconfig.read_text()
        owners = {each.cluster for each in runtime.processes()}
        assert owners == {cluster.key.context, other.context}
        assert sorted(processes_below(folder)) == sorted(PROGRAMS)
    finally:
        loop.run(runtime.stop(other, delete=True))
    assert processes_below(folder) == []
    assert {each.cluster for each in runtime.processes()} == {cluster.key.context}
    assert not folder.exists()
    assert other.context not in runtime.kubeconfig.read_text()
    assert cluster.key.context in runtime.kubeconfig.read_text()
    assert cluster.kubectl("get", "namespaces").returncode == 0


def test_stopping_a_cluster_that_never_was_is_no_error(
    runtime: LocalClusterRuntime, loop: EventLoopThread, tmp_path: Path
) -> None:
    loop.run(runtime.stop(KEY, delete=True))
    assert list(tmp_path.iterdir()) == []
