"""Real control planes for the tests of the cluster side.

`cluster` is one control plane for the whole session, in an event loop of its own thread; tests that
need their own start one with `LocalClusterRuntime` in a folder of their own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from sandbox.contracts import ClusterContext, ClusterKey
from sandbox.gke.api import KubernetesApi
from sandbox.gke.runtime import LocalClusterRuntime
from tests.gke.fake_cloud import REGION, FakeCloud, cluster_resource, project_with_cluster_network

T = TypeVar("T")
TOKEN = "token-of-the-tests"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder with the control plane's programs.

    Their absence fails the tests: a check that is skipped where it matters is none. Only
    SANDBOX_TESTS=skip-without-binaries says that they may be missing.
    """
    folder = Path(os.environ.get("SANDBOX_BIN", REPOSITORY / ".sandbox" / "bin"))
    missing = [name for name in PROGRAMS if not (folder / name).exists()]
    if missing:
        reason = (
            f"{', '.join(missing)} not in {folder}: `python -m sandbox build` or set SANDBOX_BIN"
        )
        if os.environ.get("SANDBOX_TESTS") == "skip-without-binaries":
            pytest.skip(reason)
        pytest.fail(reason)
    return folder


class EventLoopThread:
    """An event loop that outlives single tests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = 100.0) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True)
class RunningCluster:
    """A cluster to test against."""

    loop: EventLoopThread
    runtime: LocalClusterRuntime
    key: ClusterKey
    cloud: FakeCloud
    context: ClusterContext
    api: KubernetesApi
    """With the rights of the sandbox's own controllers."""
    user_kubeconfig: Path
    """With the rights of the sandbox's user; needs no login helper."""

    def kubectl(self, *arguments: str, manifest: Any = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the user; a manifest, or a list of them, is given on standard input."""
        documents = manifest if isinstance(manifest, list) else [manifest]
        return subprocess.run(
            ["kubectl", "--kubeconfig", str(self.user_kubeconfig), *arguments],
            input=None if manifest is None else yaml.safe_dump_all(documents),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


def write_user_kubeconfig(path: Path, server: str, ca: Path) -> Path:
    """Write a kubeconfig with the token in it."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": server, "certificate-authority": str(ca)}}
        ],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="session")
def loop() -> Iterator[EventLoopThread]:
    thread = EventLoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def cluster(
    binaries: Path, loop: EventLoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """A running cluster with multi-networking and NET_ADMIN, without nodes."""
    home = tmp_path_factory.mktemp("gke")
    cloud = project_with_cluster_network()
    runtime = LocalClusterRuntime(home, token=TOKEN, cloud=cloud, binaries=binaries)
    key = ClusterKey(project="p", location=REGION, name="demo")
    endpoint = loop.run(runtime.start(key, cluster_resource()))
    context = runtime.context(key)
    assert context is not None
    ca = home / "ca.crt"
    ca.write_text(endpoint.ca_certificate_pem)
    api = KubernetesApi.from_kubeconfig(context.kubeconfig)
    kubeconfig = write_user_kubeconfig(home / "user.yaml", f"https://{endpoint.endpoint}", ca)
    yield RunningCluster(loop, runtime, key, cloud, context, api, kubeconfig)
    loop.run(api.aclose())
    loop.run(runtime.stop(key, delete=True))
