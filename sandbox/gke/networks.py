"""The controller of `Network` and `GKENetworkParamSet` objects.

Owns: finalizers, status and the `default` pair, driven by watches and a slow resync. Does not own
the checks themselves (`sandbox.gke.network_rules`) or the VPCs (`sandbox.cloud`).
Behaviour: [facts autopilot.md §4.3].
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Mapping
from typing import Any

import httpx

from sandbox.contracts import ClusterContext
from sandbox.gke.api import ApiError, ChangeType, KubeObject, KubernetesApi
from sandbox.gke.network_rules import (
    ProjectView,
    Verdict,
    check_network,
    check_param_set,
    network_ready,
    pod_cidrs,
    refers_to,
)
from sandbox.gke.resource_types import NETWORKS, PARAM_SETS, ResourceType

FINALIZER = "networking.gke.io/gnp-controller"
DEFAULT = "default"
_RESYNC_SECONDS = 30.0
_LEAST_RESYNC_SECONDS = 0.5
_LABELS = {
    "addonmanager.kubernetes.io/mode": "EnsureExists",
    "components.gke.io/component-name": "cloud-controller-manager",
    "components.gke.io/layer": "addon",
}
_log = logging.getLogger(__name__)


class NetworkController:
    """Keeps the network objects of one cluster as GKE keeps them."""

    def __init__(self, context: ClusterContext, api: KubernetesApi) -> None:
        self._context = context
        self._api = api
        self._project = project_view(context)
        self._param_sets: dict[str, KubeObject] = {}
        self._networks: dict[str, KubeObject] = {}
        self._due: set[str] = set()
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        self._param_sets.clear()
        self._networks.clear()
        self._due.add(DEFAULT)
        self._wake.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(PARAM_SETS, self._param_sets))
            group.create_task(self._follow(NETWORKS, self._networks))
            group.create_task(self._resync())
            group.create_task(self._work())

    async def _create_default(self) -> None:
        """Create the pair that stands for the cluster's own VPC, unless it is there.

        In a new cluster this takes two seconds: the API server delays the first object of a kind
        that it serves since less than that.
        """
        param_set, network = default_pair(self._context)
        for kind, body in ((PARAM_SETS, param_set), (NETWORKS, network)):
            try:
                await self._api.create(kind, body)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise

    async def _follow(self, kind: ResourceType, known: dict[str, KubeObject]) -> None:
        async for change in self._api.follow(kind):
            if change.type is ChangeType.SYNCED:
                continue
            name = _name(change.object)
            before = known.pop(name, None)
            if change.type is not ChangeType.DELETED:
                known[name] = change.object
            for item in (before, change.object):
                if item is not None:
                    self._due.add(name if kind is PARAM_SETS else _reference(item))
            if name == DEFAULT:
                self._due.add(DEFAULT)
            self._wake.set()

    async def _resync(self) -> None:
        """Look at everything again from time to time: nothing tells of a VPC that came late."""
        pause = max(_RESYNC_SECONDS * self._context.pace, _LEAST_RESYNC_SECONDS)
        while True:
            await asyncio.sleep(pause)
            self._due |= set(self._param_sets) | {DEFAULT}
            self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._due = sorted(self._due), set()
            for name in due:
                try:
                    await self._sync(name)
                except (ApiError, httpx.TransportError) as error:
                    # NotFound or Conflict: the object changed meanwhile, and its event is coming.
                    # Anything else: the API server is away, or comes up. The resync tries again.
                    _log.info("parameter set %r: %s", name, error)

    async def _sync(self, name: str) -> None:
        if name == DEFAULT and not (DEFAULT in self._param_sets and DEFAULT in self._networks):
            await self._create_default()
        networks = [each for each in self._networks.values() if refers_to(each, name)]
        networks.sort(key=lambda each: (each["metadata"]["creationTimestamp"], _name(each)))
        param_set = self._param_sets.get(name)
        if param_set is None:
            for network in networks:
                # Nothing is said about a parameter set that never was.
                if _condition(network, "ParamsReady"):
                    gone = Verdict(False, "GNPDeleted", f"GKENetworkParamSet {name!r} is deleted")
                    await self._set_network_status(network, gone)
            return
        if param_set["metadata"].get("deletionTimestamp"):
            await self._finish(param_set, networks)
            return
        if FINALIZER not in (param_set["metadata"].get("finalizers") or []):
            param_set = await self._set_finalizers(param_set, add=True)
        await self._set_status(param_set, networks)

    async def _finish(self, param_set: KubeObject, networks: list[KubeObject]) -> None:
        """Let a parameter set go once no Network uses it."""
        for network in networks:
            await self._set_network_status(network, check_network(network, param_set, False))
        if networks and (param_set.get("status") or {}).get("networkName"):
            return
        if FINALIZER in (param_set["metadata"].get("finalizers") or []):
            await self._set_finalizers(param_set, add=False)

    async def _set_finalizers(self, param_set: KubeObject, *, add: bool) -> KubeObject:
        metadata = param_set["metadata"]
        others = [each for each in metadata.get("finalizers") or [] if each != FINALIZER]
        patch = {
            "metadata": {
                "finalizers": [*others, FINALIZER] if add else others,
                # Another writer's finalizer must not get lost.
                "resourceVersion": metadata["resourceVersion"],
            }
        }
        return await self._api.patch(PARAM_SETS, _name(param_set), patch)

    async def _set_status(self, param_set: KubeObject, networks: list[KubeObject]) -> None:
        """Write what the checks say about a parameter set and the Networks that refer to it."""
        others = [each for each in self._param_sets.values() if _name(each) != _name(param_set)]
        verdict = check_param_set(param_set, others, self._project)
        before = param_set.get("status") or {}
        user = ""
        for network in networks:
            params = check_network(network, param_set, verdict.ok)
            if params.ok and user:
                params = Verdict(
                    False, "GNPParamsNotReady", f"the parameter set is used by Network {user!r}"
                )
            if params.ok:
                user = _name(network)
            await self._set_network_status(network, params)
        status: dict[str, Any] = {
            "conditions": _with_condition(before.get("conditions"), "Ready", verdict)
        }
        if verdict.ok and (cidrs := pod_cidrs(param_set, self._project)):
            status["podCIDRs"] = {"cidrBlocks": cidrs}
        if user:
            status["networkName"] = user
        if status != before:
            # A merge patch keeps what it does not name: absent keys must be said to be gone.
            gone = {key: None for key in ("podCIDRs", "networkName") if key not in status}
            await self._write_status(PARAM_SETS, param_set, status | gone)

    async def _set_network_status(self, network: KubeObject, params: Verdict) -> None:
        before = (network.get("status") or {}).get("conditions")
        conditions = _with_condition(before, "ParamsReady", params)
        conditions = _with_condition(conditions, "Ready", network_ready(params))
        if conditions != before:
            await self._write_status(NETWORKS, network, {"conditions": conditions})

    async def _write_status(
        self, kind: ResourceType, item: KubeObject, status: Mapping[str, Any]
    ) -> None:
        # The answer is not kept: the watch may have told of a newer state already.
        await self._api.patch(kind, _name(item), {"status": status}, subresource="status")


def project_view(context: ClusterContext) -> ProjectView:
    """Look at the cloud through the eyes of a cluster."""
    key, cloud = context.key, context.cloud
    configured = str(
        (context.cluster.get("networkConfig") or {}).get("network")
        or context.cluster.get("network")
        or DEFAULT
    )
    # `projects/P/global/networks/NAME`, or the short name: then it is of the cluster's project.
    parts = configured.split("/")
    project = parts[parts.index("projects") + 1] if "projects" in parts else key.project
    region = cluster_region(context)
    return ProjectView(
        region=region,
        cluster_network=parts[-1],
        shared_vpc=project != key.project,
        network=lambda name: cloud.network(project, name),
        subnetwork=lambda name: cloud.subnetwork(project, region, name),
    )


def cluster_region(context: ClusterContext) -> str:
    """The region of a cluster; a zonal location ends with the zone's letter."""
    parts = context.key.location.split("-")
    return "-".join(parts[:-1]) if len(parts[-1]) == 1 else context.key.location


def default_pair(context: ClusterContext) -> tuple[KubeObject, KubeObject]:
    """Make the `default` GKENetworkParamSet and Network of a cluster."""
    cluster = context.cluster
    config = cluster.get("networkConfig") or {}
    network = str(config.get("network") or cluster.get("network") or DEFAULT)
    subnetwork = str(config.get("subnetwork") or cluster.get("subnetwork") or DEFAULT)
    policy = cluster.get("ipAllocationPolicy") or {}
    pod_range = policy.get("clusterSecondaryRangeName") or f"gke-{context.key.name}-pods"
    metadata = {"name": DEFAULT, "labels": _LABELS}
    param_set = {
        "apiVersion": PARAM_SETS.api_version,
        "kind": PARAM_SETS.kind,
        "metadata": metadata,
        "spec": {
            "vpc": network.rsplit("/", 1)[-1],
            "vpcSubnet": subnetwork.rsplit("/", 1)[-1],
            "podIPv4Ranges": {"rangeNames": [pod_range]},
        },
    }
    return param_set, {
        "apiVersion": NETWORKS.api_version,
        "kind": NETWORKS.kind,
        "metadata": metadata,
        "spec": {
            "type": "L3",
            "provider": "GKE",
            "parametersRef": {
                "group": PARAM_SETS.group,
                "kind": PARAM_SETS.kind,
                "name": DEFAULT,
            },
        },
    }


def _name(item: KubeObject) -> str:
    return str(item["metadata"]["name"])


def _reference(network: KubeObject) -> str:
    return str((network["spec"].get("parametersRef") or {}).get("name", ""))


def _condition(item: KubeObject, kind: str) -> dict[str, Any] | None:
    conditions = (item.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), None)


def _with_condition(
    conditions: list[dict[str, Any]] | None, kind: str, verdict: Verdict
) -> list[dict[str, Any]]:
    """Set one condition in a list; its time changes only when its status does."""
    status = "True" if verdict.ok else "False"
    before = next((each for each in conditions or [] if each["type"] == kind), None)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    changed = {
        "type": kind,
        "status": status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": before["lastTransitionTime"]
        if before and before["status"] == status
        else now,
    }
    return [*(each for each in conditions or [] if each["type"] != kind), changed]
