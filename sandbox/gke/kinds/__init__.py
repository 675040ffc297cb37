"""The kinds that GKE adds to Kubernetes.

Owns: their definitions (the YAML documents beside this file) and installing them. Does not own
what happens to their objects: `sandbox.gke.networks` and `sandbox.gke.nodes` do.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import yaml

from sandbox.gke.api import ApiError, KubernetesApi
from sandbox.gke.resource_types import (
    COMPUTE_CLASSES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NETWORKS,
    PARAM_SETS,
    ResourceType,
)

_FOLDER = Path(__file__).parent
_SERVED_SECONDS = 30.0
_POLL_SECONDS = 0.02


async def install(api: KubernetesApi, *, multi_networking: bool) -> None:
    """Install the kinds of a cluster and wait until the API serves them.

    Args:
        api: The cluster.
        multi_networking: Whether the cluster has `Network` and `GKENetworkParamSet`: a cluster
            made without multi-networking never gets them [R30].

    Raises:
        TimeoutError: a kind is not served after half a minute.
    """
    kinds = {COMPUTE_CLASSES: "computeclass.yaml"}
    if multi_networking:
        kinds |= {PARAM_SETS: "gkenetworkparamset.yaml", NETWORKS: "network.yaml"}
    definitions = [yaml.safe_load((_FOLDER / name).read_text()) for name in kinds.values()]
    applied = (api.apply(CUSTOM_RESOURCE_DEFINITIONS, body) for body in definitions)
    await asyncio.gather(*applied)
    async with asyncio.timeout(_SERVED_SECONDS):
        await asyncio.gather(*(_served(api, kind) for kind in kinds))


async def _served(api: KubernetesApi, kind: ResourceType) -> None:
    """Wait until objects of a kind can be listed: `Established` comes a moment before that.

    Until then the API server does not know the path (404, or 503 while it is so young that it does
    not know all of its own paths), or opens the store for it (429).
    """
    while True:
        try:
            await api.list(kind)
        except ApiError as error:
            if error.code not in (404, 429, 503):
                raise
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return
