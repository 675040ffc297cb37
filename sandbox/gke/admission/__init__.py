"""What Autopilot refuses.

Owns: the admission policies (the YAML documents beside this file), installing them, and knowing
when they are in force. Does not own the cluster's NET_ADMIN setting (the cloud's cluster resource).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from sandbox.gke.api import ApiError, KubeObject, KubernetesApi
from sandbox.gke.control_plane import USER
from sandbox.gke.resource_types import (
    CONFIG_MAPS,
    JOBS,
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    NAMESPACES,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    ResourceType,
)

_FOLDER = Path(__file__).parent
_POLICIES = ("warden.yaml", "managed-namespaces.yaml", "exemption-doubt.yaml")
_MUTATIONS = ("network-resources.yaml",)
_WORKLOAD_POLICY = "workload-policy.yaml"
_IN_FORCE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_KINDS = {
    kind.kind: kind
    for kind in (
        VALIDATING_POLICIES,
        VALIDATING_POLICY_BINDINGS,
        MUTATING_POLICIES,
        MUTATING_POLICY_BINDINGS,
    )
}


async def install(api: KubernetesApi, *, net_admin: bool) -> None:
    """Install all policies and return when they refuse what they should.

    The API server compiles policies once a second: without waiting, the first workloads of a new
    cluster would slip through. `sandbox@example.com` must have its rights by then.

    Raises:
        TimeoutError: they are not in force after half a minute.
    """
    await _write_workload_policy(api, net_admin=net_admin)
    names = [*_POLICIES]
    # API servers before 1.36 have no such policies: Pods keep their resources there.
    if await _serves(api, MUTATING_POLICIES):
        names += _MUTATIONS
    await asyncio.gather(*(api.apply(_KINDS[body["kind"]], body) for body in _documents(names)))
    await _in_force(api, net_admin=net_admin)


async def set_net_admin(api: KubernetesApi, *, allowed: bool) -> None:
    """Admit or refuse NET_ADMIN from now on; returns when that is in force."""
    await _write_workload_policy(api, net_admin=allowed)
    await _in_force(api, net_admin=allowed)


async def _write_workload_policy(api: KubernetesApi, *, net_admin: bool) -> None:
    body = yaml.safe_load((_FOLDER / _WORKLOAD_POLICY).read_text())
    body["data"]["allowNetAdmin"] = "true" if net_admin else "false"
    # A young API server has not made the namespace yet.
    name = body["metadata"]["namespace"]
    await api.apply(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    await api.apply(CONFIG_MAPS, body)


async def _serves(api: KubernetesApi, kind: ResourceType) -> bool:
    served = await api.request("GET", f"/apis/{kind.api_version}")
    return kind.plural in {resource["name"] for resource in served["resources"]}


def _documents(names: Iterable[str]) -> Iterator[KubeObject]:
    for name in names:
        yield from yaml.safe_load_all((_FOLDER / name).read_text())


async def _in_force(api: KubernetesApi, *, net_admin: bool) -> None:
    """Try forbidden things, without doing them, until they are refused for the right reasons."""
    async with asyncio.timeout(_IN_FORCE_SECONDS):
        while True:
            workload = await _refusal(api, JOBS.path("default"), _forbidden_job())
            system = await _refusal(api, CONFIG_MAPS.path("kube-system"), _forbidden_config_map())
            if (
                "autogke-disallow-privilege" in workload
                and ("autogke-default-linux-capabilities" in workload) != net_admin
                and "managed-namespaces-limitation" in system
            ):
                return
            await asyncio.sleep(_POLL_SECONDS)


async def _refusal(api: KubernetesApi, path: str, body: KubeObject) -> str:
    """Return why a user may not create something; empty if admitted."""
    try:
        await api.request("POST", path, body=body, params={"dryRun": "All"}, impersonate=USER)
    except ApiError as error:
        return error.message
    return ""


def _forbidden_job() -> KubeObject:
    # No Pod: its service account may not exist yet, and that would be the reason.
    container = {
        "name": "probe",
        "image": "probe",
        "securityContext": {"privileged": True, "capabilities": {"add": ["NET_ADMIN"]}},
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "admission-probe", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def _forbidden_config_map() -> KubeObject:
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": "admission-probe", "namespace": "kube-system"},
    }
