"""The gcloud command line, run against one served application.

It is pointed there by environment alone [facts gcloud-requests.md]; what it has been answered can
be read from its own log (`--log-http`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cloud.stand_in import AUTOPILOT, PROJECT, REGION, Served, clusters, compute

GCLOUD = shutil.which("gcloud")
MARKS = [
    # A call of gcloud takes a second of CPU before it sends anything, and there are many.
    pytest.mark.timeout(600),
    pytest.mark.gcloud,
    pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed"),
]
_AT_ONCE = 4
_ANSWER = re.compile(r"^status: (\d+)$.*?^-- body start --\n(.*?)\n-- body end --$", re.M | re.S)


class Gcloud:
    """Runs gcloud against one served application."""

    def __init__(self, served: Served, folder: Path, config: Path) -> None:
        self.served = served
        self.kubeconfig = folder / "kubeconfig"
        base = served.url
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "KUBECONFIG": str(self.kubeconfig),
            "CLOUDSDK_CORE_PROJECT": PROJECT,
            "CLOUDSDK_CONFIG": str(config),
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{base}/compute/v1/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"{base}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{base}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{base}/",
        }

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        assert GCLOUD is not None
        return subprocess.run(
            [GCLOUD, *command.split()],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def ok(self, command: str) -> str:
        done = self.run(command)
        assert done.returncode == 0, f"gcloud {command}\n{done.stderr}"
        return done.stdout

    def together(self, *commands: str) -> list[str]:
        """Run commands side by side; each takes most of a second to start."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            return list(pool.map(self.ok, commands))

    def read(self, *commands: str) -> list[Any]:
        """Return what commands show, run side by side."""
        return [
            json.loads(text)
            for text in self.together(*(f"{command} --format=json" for command in commands))
        ]

    def failed(self, command: str) -> str:
        done = self.run(command)
        assert done.returncode != 0, f"gcloud {command} should have failed\n{done.stdout}"
        return done.stderr

    def all_failed(self, *commands: str) -> list[str]:
        """Run commands that must fail side by side; return what they say."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            return list(pool.map(self.failed, commands))

    def all_run(self, *commands: str) -> list[subprocess.CompletedProcess[str]]:
        """Run commands side by side, whatever becomes of them."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            return list(pool.map(self.run, commands))

    def http(self, method: str, path: str, body: object = None) -> object:
        answer = httpx.request(method, f"{self.served.url}/sandbox/v1/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: object) -> None:
        """Send a request without gcloud, which takes a second for it."""
        answer = httpx.post(f"{self.served.url}{path}", json=body)
        assert answer.status_code == 200, answer.text

    def make_network(self, name: str) -> None:
        self.post(compute("global/networks"), {"name": name, "autoCreateSubnetworks": False})

    def make_subnetwork(self, name: str, network: str, cidr: str) -> None:
        body = {"name": name, "network": f"global/networks/{network}", "ipCidrRange": cidr}
        self.post(compute(f"regions/{REGION}/subnetworks"), body)

    def make_firewall(self, name: str, network: str, **fields: object) -> None:
        allowed = [{"IPProtocol": "tcp", "ports": ["22"]}]
        body = {"name": name, "network": f"global/networks/{network}", "allowed": allowed, **fields}
        self.post(compute("global/firewalls"), body)

    def make_cluster(self, name: str, **fields: object) -> None:
        """Make a cluster and wait until it is up."""
        self.post(clusters(), {"cluster": {**AUTOPILOT, "name": name, **fields}})
        self.served.settle()

    def endpoints(self) -> set[str]:
        """Return the endpoints that were reached."""
        answer = self.http("GET", "requests")
        assert isinstance(answer, dict)
        return {entry["endpoint"] for entry in answer["requests"] if entry["endpoint"]}


def bodies(log: str, at_least: int = 0) -> list[dict[str, Any]]:
    """Return the bodies of the answers in a log of gcloud's, from an HTTP status on."""
    return [json.loads(body) for status, body in _ANSWER.findall(log) if int(status) >= at_least]
