"""One environment to break: its cloud, its cluster, and the gate driven against it.

Owns changing what is really there (over the cloud's own API, the sandbox's admin namespace and the
API server), putting it back, and running the smoke test's own code without an update around it.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import kubernetes
import yaml

from components.nccl_run import RunInCluster, RunOutcome
from components.nccl_smoke_test import smoke_test_documents
from components.stack_config import workload_environment
from gpudirect.run_result import Result, result_of_run
from gpudirect.settings import load_settings
from tests.sandbox.harness import Sandbox
from tests.stack_config import PROJECT as CONFIG_PROJECT
from tests.stack_config import full_config

Document = dict[str, Any]

STACK = "dev"
SYSTEM = "gpudirect-system"
MACHINE = "a3-megagpu-8g"
GPU_NODES = "cloud.google.com/gke-accelerator=nvidia-h100-mega-80gb"
LONG = {"capacity": 180.0, "pull": 180.0, "start": 180.0, "run": 180.0}
"""Deadlines in seconds for runs that end by themselves; a loaded machine may be slow."""


@dataclass
class Attempt:
    """One run of the gate, and what was said meanwhile."""

    outcome: RunOutcome
    result: Result
    lines: list[str] = field(default_factory=list)
    announced: dict[str, float] = field(default_factory=dict)
    """When each phase was announced, by the monotonic clock."""
    decisions: list[float] = field(default_factory=list)
    """When the run decided whether to go on waiting."""

    @property
    def causes(self) -> list[str]:
        """The identifiers of the causes, weightiest first."""
        return [str(entry["cause"]) for entry in self.result["diagnosis"]]

    def decisions_after(self, phase: str, seconds: float) -> int:
        """Count how often the run went on waiting, or not, once a phase had taken so long."""
        end = self.announced[phase] + seconds
        return sum(decision >= end for decision in self.decisions)


class Environment:
    """A stack that is up in a sandbox.

    Args:
        sandbox: The sandbox.
        stack: The stack's name, one with a tracked file.
    """

    def __init__(self, sandbox: Sandbox, stack: str) -> None:
        self._stack = stack
        values = sandbox.environment
        self._project = values["GOOGLE_PROJECT"]
        self._cloud = httpx.Client(
            base_url=values["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"].removesuffix("compute/v1/"),
            headers={"Authorization": f"Bearer {values['GOOGLE_OAUTH_ACCESS_TOKEN']}"},
            trust_env=False,
        )
        config = full_config(stack)
        self._config = {
            key.removeprefix(f"{CONFIG_PROJECT}:"): value
            for key, value in config.items()
            if key.startswith(f"{CONFIG_PROJECT}:")
        }
        self.region = config["gcp:region"]
        self.networks = self._settings().network_names
        context = f"gke_{self._project}_{self.region}_{stack}-cluster"
        self._kubeconfig = _kubeconfig(
            Path(values["KUBECONFIG"]), context, values["GOOGLE_OAUTH_ACCESS_TOKEN"]
        )
        client = kubernetes.config.new_client_from_config_dict(self._kubeconfig)
        self._connections = client.rest_client.pool_manager
        self.core = kubernetes.client.CoreV1Api(client)
        self.batch = kubernetes.client.BatchV1Api(client)
        self.custom = kubernetes.client.CustomObjectsApi(client)
        self.apps = kubernetes.client.AppsV1Api(client)

    @classmethod
    @contextlib.contextmanager
    def brought_up(cls, sandbox: Sandbox) -> Iterator[Environment]:
        """Bring up the stack in a sandbox that has none yet."""
        sandbox.pulumi("stack", "init", STACK).ok()
        sandbox.up(STACK).ok()
        with contextlib.closing(cls(sandbox, STACK)) as environment:
            yield environment

    def close(self) -> None:
        """Close the connections to cloud and cluster."""
        self._cloud.close()
        self._connections.clear()

    def _settings(self, **config: str) -> Any:
        return load_settings(
            stack_name=self._stack,
            values={**self._config, **config},
            gcp={"region": self.region, "project": self._project},
            environ={},
        )

    def documents(self, **config: str) -> list[Document]:
        """Return the objects of a run, as the program renders them for this config."""
        settings = self._settings(**config)
        return smoke_test_documents(settings.smoke_test, workload_environment(settings))

    def attempt(
        self,
        documents: Sequence[Document],
        **deadlines: float,
    ) -> Attempt:
        """Run the test against what is there now, and judge it as the provider does."""
        settings = self._settings()
        lines: list[str] = []
        announced: dict[str, float] = {}
        decisions: list[float] = []

        def report(text: str, new_phase: bool) -> None:
            lines.append(text)
            if new_phase:
                announced[text.partition(":")[0]] = time.monotonic()

        def never() -> bool:
            # The run asks this before each of its decisions.
            decisions.append(time.monotonic())
            return False

        outcome = RunInCluster(
            kubeconfig=self._kubeconfig,
            documents=copy.deepcopy(list(documents)),
            networks=list(self.networks),
            deadlines={**LONG, **deadlines},
            report=report,
            cancelled=never,
        ).execute()
        result = result_of_run(
            outcome.run,
            policy={
                "mode": "gate",
                "minFraction": settings.smoke_test.min_fraction,
                "nodes": settings.smoke_test.nodes,
                "gpusPerNode": settings.gpu_stack.gpus_per_node,
                "nicsPerNode": settings.gpu_stack.nic_count,
                "collective": settings.smoke_test.collective,
            },
            reference={
                "nodes": settings.release.reference.nodes,
                "curve": [list(point) for point in settings.release.reference_bandwidth],
            },
            problem=outcome.problem,
            phase=outcome.phase.value,
            evidence=outcome.evidence,
            seconds=outcome.seconds,
        )
        return Attempt(outcome, result, lines, announced, decisions)

    def leftovers(self) -> list[str]:
        """List the objects of a run that are still there."""
        found = [
            *self.core.list_namespaced_pod(SYSTEM, label_selector="app=nccl-test").items,
            *self.batch.list_namespaced_job(SYSTEM).items,
            *self.core.list_namespaced_service(SYSTEM).items,
        ]
        return [item.metadata.name for item in found]

    def wait_for_no_gpu_node(self, seconds: float = 180) -> None:
        """Wait until scale-down has taken the last GPU node.

        Raises:
            AssertionError: some are still there.
        """
        deadline = time.monotonic() + seconds
        while True:
            listed = self.core.list_node(label_selector=GPU_NODES)
            left = {node.metadata.name for node in listed.items}
            if not left:
                return
            remaining = int(deadline - time.monotonic())
            if remaining < 1:
                raise AssertionError(f"GPU nodes are left: {', '.join(sorted(left))}")
            watch = kubernetes.watch.Watch()
            for event in watch.stream(
                self.core.list_node,
                label_selector=GPU_NODES,
                resource_version=listed.metadata.resource_version,
                timeout_seconds=remaining,
            ):
                if event["type"] == "DELETED":
                    left.discard(event["object"].metadata.name)
                if not left:
                    watch.stop()

    @contextlib.contextmanager
    def without_firewall_rule(self, number: int) -> Iterator[None]:
        """Close the GPU network of one NIC."""
        name = f"{self._stack}-internal-{number}"
        rule = self._compute("GET", f"global/firewalls/{name}")
        self._compute("DELETE", f"global/firewalls/{name}")
        try:
            yield
        finally:
            kept = ("name", "network", "direction", "allowed", "sourceRanges", "priority")
            self._compute(
                "POST", "global/firewalls", {key: rule[key] for key in kept if key in rule}
            )

    @contextlib.contextmanager
    def with_mtu(self, number: int, mtu_bytes: int) -> Iterator[None]:
        """Give one GPU network another MTU."""
        path = f"global/networks/{self._stack}-net-{number}"
        before = self._compute("GET", path)["mtu"]
        self._compute("PATCH", path, {"mtu": mtu_bytes})
        try:
            yield
        finally:
            self._compute("PATCH", path, {"mtu": before})

    @contextlib.contextmanager
    def with_gpu_quota(self, gpus: int) -> Iterator[None]:
        """Set the region's GPU quota."""
        path = f"sandbox/v1/projects/{self._project}"
        metric = "NVIDIA_H100_MEGA_GPUS"
        before = self._answer("GET", path)["quotas"][metric]
        self._answer("PUT", path, {"quotas": {f"{self.region}/{metric}": gpus}})
        try:
            yield
        finally:
            self._answer("PUT", path, {"quotas": {f"{self.region}/{metric}": before}})

    @contextlib.contextmanager
    def without_machines_in(self, zone: str) -> Iterator[None]:
        """Sell out a zone."""
        self._answer("PUT", "sandbox/v1/stock", {zone: {MACHINE: 0}})
        try:
            yield
        finally:
            self._answer("PUT", "sandbox/v1/stock", {})

    @contextlib.contextmanager
    def without_network(self, name: str) -> Iterator[None]:
        """Delete one `Network` object; GKE's controller takes its new one up again."""
        where = ("networking.gke.io", "v1", "networks")
        found: Any = self.custom.get_cluster_custom_object(*where, name)
        self.custom.delete_cluster_custom_object(*where, name)
        try:
            yield
        finally:
            self.custom.create_cluster_custom_object(*where, _anew(found))
            self._wait_until_ready(name)

    def _wait_until_ready(self, name: str) -> None:
        watch = kubernetes.watch.Watch()
        for event in watch.stream(
            self.custom.list_cluster_custom_object,
            "networking.gke.io",
            "v1",
            "networks",
            field_selector=f"metadata.name={name}",
            timeout_seconds=120,
        ):
            conditions = (event["object"].get("status") or {}).get("conditions") or ()
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                return
        raise AssertionError(f"Network {name} did not become ready again")

    @contextlib.contextmanager
    def without_daemon_set(self, name: str) -> Iterator[None]:
        """Delete one of the addons.

        What comes back is not Pulumi's: a later update that changes it would meet a conflict.
        """
        found = self.apps.api_client.sanitize_for_serialization(
            self.apps.read_namespaced_daemon_set(name, SYSTEM)
        )
        self.delete_daemon_set(name)
        try:
            yield
        finally:
            self.apps.create_namespaced_daemon_set(SYSTEM, _anew(found))

    def delete_daemon_set(self, name: str) -> None:
        """Delete one of the addons for good."""
        self.apps.delete_namespaced_daemon_set(name, SYSTEM)

    def _compute(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the Compute API and wait for the operation that it starts."""
        base = f"compute/v1/projects/{self._project}/"
        answer = self._answer(method, base + path, body)
        while answer.get("kind") == "compute#operation" and answer["status"] != "DONE":
            answer = self._answer("POST", f"{base}global/operations/{answer['name']}/wait")
        assert "error" not in answer, answer
        return answer

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        response = self._cloud.request(method, path, json=body)
        assert response.is_success, response.text
        return response.json()


def edited(documents: Sequence[Document], edit: Callable[[Document], None]) -> list[Document]:
    """Return the objects of a run with the Job's Pod spec changed."""
    changed = copy.deepcopy(list(documents))
    job = next(document for document in changed if document["kind"] == "Job")
    edit(job["spec"]["template"])
    return changed


def container(template: Document, name: str) -> Document:
    """Return a container of a Pod template, whichever list holds it."""
    spec = template["spec"]
    found: Document = next(
        entry
        for entry in (*spec.get("initContainers", ()), *spec["containers"])
        if entry["name"] == name
    )
    return found


def after_profile(*lines: str) -> Callable[[Document], None]:
    """Return an edit that adds lines to what each rank runs after the profile of the release."""

    def edit(template: Document) -> None:
        launcher = container(template, "nccl-test")
        (script,) = launcher["args"]
        sourced = '. "\\$NCCL_LIB_DIR/$PROFILE_SCRIPT"\n'
        assert script.count(sourced) == 1
        launcher["args"] = [script.replace(sourced, "\n".join([sourced.strip(), *lines, ""]))]

    return edit


def _anew(item: Mapping[str, Any]) -> Document:
    """Return an object that was read in the form in which it is created."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: item["metadata"][key] for key in kept if key in item["metadata"]}
    return {
        **{key: item[key] for key in ("apiVersion", "kind") if item.get(key)},
        "metadata": metadata,
        "spec": item["spec"],
    }


def _kubeconfig(file: Path, context: str, token: str) -> Document:
    """Return the sandbox's kubeconfig with a token: its login helper is not on this PATH."""
    config: Document = yaml.safe_load(file.read_text())
    config["current-context"] = context
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    return config
