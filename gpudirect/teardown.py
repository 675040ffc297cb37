"""What a `pulumi destroy` of a stack would meet: what refuses it, what it would stop at, what goes.

Owns what counts as being in the way and the line that removes it; nothing is changed here. Does not
own the questions to state and cloud (`orphans`) nor the printing (`cli/teardown.py`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpudirect.findings import full_key, set_command
from gpudirect.orphans import Cloud, owned_resources
from gpudirect.settings import Settings

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_TIMEOUT_SECONDS = (5, 20)
_CLUSTER = "gcp:container/cluster:Cluster"
_INTERFACES = "networking.gke.io/interfaces"
_OVER = ("Succeeded", "Failed")

KubeObject = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Obstacle:
    """One thing that a destroy meets.

    Attributes:
        what: The thing, by its kind and name.
        because: What happens for it.
        remedy: The command that removes it; empty where it goes by itself.
        stops: Whether the destroy fails, now or halfway.
    """

    what: str
    because: str
    remedy: str
    stops: bool


def protection(state: Mapping[str, Any], settings: Settings) -> Iterator[Obstacle]:
    """Yield the deletion protection that the last state holds."""
    for entry in (state.get("deployment") or {}).get("resources") or ():
        outputs = entry.get("outputs") or {}
        if entry.get("type") == _CLUSTER and outputs.get("deletionProtection") is True:
            off = set_command("deletionProtection", "false", stack_name=settings.stack_name)
            yield Obstacle(
                what=f"{full_key('deletionProtection')} of cluster {outputs.get('name')}",
                because="pulumi destroy is refused, and nothing is deleted",
                remedy=f"{off} && pulumi up --stack {settings.stack_name}",
                stops=True,
            )


def foreign_rules(settings: Settings, project: str, cloud: Cloud) -> Iterator[Obstacle]:
    """Yield the firewall rules that somebody else made in the stack's own networks [R18].

    Raises:
        OrphanSearchError: the cloud does not answer the question.
    """
    own = {resource.name for resource in owned_resources(settings, project)}
    networks = {nic.vpc_name for nic in settings.fabric.nics}
    if settings.cluster.create_network and settings.cluster.network_name:
        networks.add(settings.cluster.network_name)
    for rule in cloud.firewall_rules(project):
        name = str(rule.get("name"))
        network = str(rule.get("network")).rpartition("/")[2]
        # GKE takes the cluster's own rules away with the cluster.
        of_the_cluster = name.startswith(f"gke-{settings.cluster.name}-")
        if network in networks and name not in own and not of_the_cluster:
            words = ("gcloud", "compute", "firewall-rules", "delete", name, f"--project={project}")
            yield Obstacle(
                what=f"firewall rule {name}",
                because=f"it holds network {network}, which cannot be deleted before it",
                remedy=shlex.join(words),
                stops=True,
            )


def workloads(
    pods: Sequence[KubeObject], services: Sequence[KubeObject], settings: Settings
) -> Iterator[Obstacle]:
    """Yield what users still have in the cluster: its load balancers, then its GPU Pods."""
    for service in services:
        if (service.get("spec") or {}).get("type") != "LoadBalancer":
            continue
        own_network = settings.cluster.create_network
        yield Obstacle(
            what=f"Service {_place(service)}",
            because=(
                "its load balancer may outlive the cluster, and then holds network "
                f"{settings.cluster.network_name if own_network else settings.cluster.network}"
            ),
            remedy=_delete("service", service),
            # Google's own network is not this stack's to delete.
            stops=own_network,
        )
    device_networks = set(settings.network_names)
    for pod in pods:
        held = sorted(_networks_of(pod) & device_networks)
        if held and (pod.get("status") or {}).get("phase") not in _OVER:
            yield Obstacle(
                what=f"Pod {_place(pod)}",
                because=f"it uses {', '.join(held)} and ends with the cluster",
                remedy="",
                stops=False,
            )


def read_workloads(client: ApiClient) -> tuple[list[KubeObject], list[KubeObject]]:
    """Return all Pods and all Services of a cluster."""
    import kubernetes

    core = kubernetes.client.CoreV1Api(client)
    listed = []
    for read in (core.list_pod_for_all_namespaces, core.list_service_for_all_namespaces):
        answer = read(_preload_content=False, _request_timeout=_TIMEOUT_SECONDS)
        items: list[KubeObject] = json.loads(answer.data)["items"]
        listed.append(items)
    return listed[0], listed[1]


def _networks_of(pod: KubeObject) -> set[str]:
    text = (pod["metadata"].get("annotations") or {}).get(_INTERFACES, "")
    try:
        interfaces = json.loads(text)
    except ValueError:
        return set()
    if not isinstance(interfaces, list):
        return set()
    return {str(entry.get("network")) for entry in interfaces if isinstance(entry, dict)}


def _place(item: KubeObject) -> str:
    return f"{item['metadata'].get('namespace')}/{item['metadata']['name']}"


def _delete(kind: str, item: KubeObject) -> str:
    metadata = item["metadata"]
    words = ("kubectl", "delete", kind, metadata["name"], "-n", str(metadata.get("namespace")))
    return shlex.join(words)
