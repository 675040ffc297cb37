"""The rules of the policy pack, as functions over plain resources.

Owns what must hold of any stack that builds GPUDirect on GKE Autopilot. A GPU network is a VPC that
a `GKENetworkParamSet` in NetDevice mode names: names and numbers of the program do not matter. Does
not own how resources reach here (`__main__`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, collapse_addresses
from typing import Any, TypeGuard

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
FIREWALL = "gcp:compute/firewall:Firewall"
CLUSTER = "gcp:container/cluster:Cluster"
PARAMETER_SET = "kubernetes:networking.gke.io/v1:GKENetworkParamSet"
_WAYS_OUT = {
    "gcp:compute/routerNat:RouterNat": "a NAT gateway",
    "gcp:compute/router:Router": "a router",
    "gcp:compute/address:Address": "an external address",
}
_WORLD = ("0.0.0.0/0", "::/0")
# GPU NICs of A3 High and A3 Mega; another number is a machine that GPUDirect does not know.
_NIC_COUNTS = (4, 8)
_MTU_BYTES = 8244
_SHARING_SELECTORS = {
    "cloud.google.com/gke-gpu-partition-size": "multi-instance GPUs (MIG)",
    "cloud.google.com/gke-gpu-sharing-strategy": "GPU time-sharing or MPS",
    "cloud.google.com/gke-max-shared-clients-per-gpu": "GPU time-sharing or MPS",
    "cloud.google.com/gke-nccl-fastsocket": "FastSocket",
}
_DEVICES_PREFIX = "devices.gke.io/container."
_INTERFACES = "networking.gke.io/interfaces"
DEFAULT_REGISTRIES = (
    "us-docker.pkg.dev/gce-ai-infra/",
    "gke.gcr.io/",
    "gcr.io/gke-release/",
    # The published TCPXO installer names it without a registry.
    "ubuntu",
)


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One resource of a stack, without what is unknown during a preview.

    Attributes:
        networks: Logical names of the VPCs that it refers to.
    """

    type: str
    name: str
    urn: str
    props: Mapping[str, Any]
    networks: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Violation:
    """A rule that does not hold, and where."""

    message: str
    urn: str | None = None


Rule = Callable[[Sequence[Resource], Mapping[str, Any]], Iterator[Violation]]


def gpu_networks(resources: Sequence[Resource]) -> list[Resource]:
    """Return the VPCs that carry GPU NICs."""
    wanted = {
        spec.get("vpc")
        for resource in resources
        if resource.type == PARAMETER_SET
        and (spec := resource.props.get("spec") or {}).get("deviceMode") == "NetDevice"
    }
    return [r for r in resources if r.type == NETWORK and r.props.get("name") in wanted]


def fabric_shape(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    """N networks of MTU 8244 in custom mode with one subnet each, N = 4 or 8."""
    networks = gpu_networks(resources)
    sets = [r for r in resources if r.type == PARAMETER_SET]
    if sets and len(networks) not in _NIC_COUNTS:
        yield Violation(
            f"the stack has {len(networks)} GPU networks, A3 High has 4 GPU NICs and A3 Mega 8"
        )
    for network in networks:
        mtu = network.props.get("mtu")
        if mtu != _MTU_BYTES:
            yield Violation(f"mtu is {mtu}, GPUDirect wants {_MTU_BYTES}", network.urn)
        if network.props.get("autoCreateSubnetworks") is not False:
            yield Violation("autoCreateSubnetworks must be false", network.urn)
        subnets = [r.name for r in resources if r.type == SUBNETWORK and network.name in r.networks]
        if len(subnets) != 1:
            yield Violation(f"has {len(subnets)} subnets, expected one", network.urn)


def fabric_closed(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    """No NAT, router, external address or rule from everywhere on a GPU network."""
    names = {network.name for network in gpu_networks(resources)}
    for resource in resources:
        if not resource.networks & names:
            continue
        is_internal = resource.props.get("addressType") == "INTERNAL"
        if resource.type in _WAYS_OUT and not is_internal:
            yield Violation(f"is {_WAYS_OUT[resource.type]} on a GPU network", resource.urn)
        if resource.type == FIREWALL and _admits(resource.props):
            for world in _whole(resource.props.get("sourceRanges")):
                yield Violation(f"admits {world} to a GPU network", resource.urn)


def _admits(rule: Mapping[str, Any]) -> bool:
    return (rule.get("direction") or "INGRESS") == "INGRESS" and not rule.get("denies")


def _whole(ranges: object) -> Iterator[str]:
    """Yield the address spaces of which ranges hold the whole, by themselves or together."""
    texts = [text for text in ranges if isinstance(text, str)] if _is_list(ranges) else []
    parts = []
    for text in texts:
        try:
            parts.append(IPv4Network(text, strict=False))
        except ValueError:
            continue
    yield from (
        world
        for world in _WORLD
        if world in texts or any(str(part) == world for part in collapse_addresses(parts))
    )


def cluster_shape(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    """Autopilot with multi-networking and NET_ADMIN, and no nodeConfig."""
    for cluster in _of(resources, CLUSTER):
        for key in ("enableAutopilot", "enableMultiNetworking", "allowNetAdmin"):
            if cluster.props.get(key) is not True:
                yield Violation(f"{key} is {cluster.props.get(key)}, expected true", cluster.urn)
        if cluster.props.get("nodeConfig"):
            yield Violation(
                "nodeConfig is set: on Autopilot every later preview replaces the cluster",
                cluster.urn,
            )


def production_protected(
    resources: Sequence[Resource], config: Mapping[str, Any]
) -> Iterator[Violation]:
    """Deletion protection in stacks tagged or labelled as production."""
    for cluster in _of(resources, CLUSTER):
        labels = cluster.props.get("resourceLabels") or {}
        environment = config.get("environment") or labels.get("environment")
        if environment == "production" and cluster.props.get("deletionProtection") is not True:
            yield Violation("deletionProtection must be true in production", cluster.urn)


def whole_gpus(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    """No MIG, time-sharing, MPS or FastSocket in workloads that ask for GPUDirect."""
    for resource, template in _templates(resources):
        if not _asks_for_gpudirect(template):
            continue
        spec = template.get("spec") or {}
        for key in _selector_keys(spec):
            if key in _SHARING_SELECTORS:
                yield Violation(f"uses {_SHARING_SELECTORS[key]} with GPUDirect", resource.urn)
        for container in _containers(spec):
            values = {e.get("name"): str(e.get("value", "")) for e in _maps(container.get("env"))}
            if (
                "fastsocket"
                in values.get("NCCL_NET", "").lower() + values.get("NCCL_NET_PLUGIN", "").lower()
            ):
                yield Violation(
                    f"container {container.get('name')} uses FastSocket with GPUDirect",
                    resource.urn,
                )


def allowed_images(resources: Sequence[Resource], config: Mapping[str, Any]) -> Iterator[Violation]:
    """Images from the allowed registries alone."""
    allowed = [str(prefix) for prefix in config.get("allowedRegistries") or DEFAULT_REGISTRIES]
    for resource, template in _templates(resources):
        for container in _containers(template.get("spec") or {}):
            image = str(container.get("image", ""))
            if not any(_is_below(image, prefix) for prefix in allowed):
                yield Violation(
                    f"container {container.get('name')} runs {image}, "
                    f"allowed are {', '.join(allowed)}",
                    resource.urn,
                )


RULES: Mapping[str, Rule] = {
    "fabric-shape": fabric_shape,
    "fabric-closed": fabric_closed,
    "cluster-shape": cluster_shape,
    "production-protected": production_protected,
    "whole-gpus": whole_gpus,
    "allowed-images": allowed_images,
}


def _is_below(image: str, prefix: str) -> bool:
    """Whether an image is the one named, or below it: `ubuntu` is no part of `ubuntu-x`."""
    rest = image.removeprefix(prefix)
    return image.startswith(prefix) and (not rest or prefix.endswith("/") or rest[0] in "/:@")


def _of(resources: Sequence[Resource], token: str) -> list[Resource]:
    return [resource for resource in resources if resource.type == token]


def _templates(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Mapping[str, Any]]]:
    """Yield every Pod template: of workloads, bare Pods, and objects that a resource creates."""
    for resource in resources:
        if resource.type.startswith("kubernetes:"):
            yield from ((resource, template) for template in _in_object(resource.props))
        documents = resource.props.get("documents")
        if isinstance(documents, str):
            for document in json.loads(documents):
                yield from ((resource, template) for template in _in_object(document))


def _in_object(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        spec = value.get("spec")
        if isinstance(spec, Mapping) and isinstance(spec.get("containers"), Sequence):
            yield value
            return
        for child in value.values():
            yield from _in_object(child)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for child in value:
            yield from _in_object(child)


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from _maps(spec.get("initContainers"))
    yield from _maps(spec.get("containers"))


def _selector_keys(spec: Mapping[str, Any]) -> set[str]:
    keys = set(spec.get("nodeSelector") or ())
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in _maps(affinity.get("nodeSelectorTerms")):
        keys |= {e.get("key") for e in _maps(term.get("matchExpressions"))}
    return keys


def _maps(items: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; what is null or of another shape is somebody else's matter."""
    return [item for item in items if isinstance(item, Mapping)] if _is_list(items) else []


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _asks_for_gpudirect(template: Mapping[str, Any]) -> bool:
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return _INTERFACES in annotations or any(key.startswith(_DEVICES_PREFIX) for key in annotations)
