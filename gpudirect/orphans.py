"""What exists in the cloud under a stack's exact names although the stack's state does not know it.

An update that is killed while Google makes something leaves it behind. Owns the list of names that
a stack uses, the two questions (state, cloud) and the lines that mend it; nothing is deleted here,
and nothing is looked for by a pattern. Does not own the printing (`cli/orphans.py`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpudirect.findings import PROJECT
from gpudirect.installed_programs import NoAnswerError, ask
from gpudirect.settings import Settings

STACK_LABEL = "gpudirect-stack"
_TIMEOUT_SECONDS = 120
_FABRIC = ("gpudirect:index:GpuNetworkFabric", "fabric")
_CLUSTER = ("gpudirect:index:AutopilotCluster", "cluster")


class OrphanSearchError(ValueError):
    """The search is not possible; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnedResource:
    """One resource that a stack has in the cloud, by its exact name.

    Attributes:
        api: `compute` or `container`.
        type: Its Pulumi type.
        logical_name: Its name in the program.
        component: Type and name of the component that it is a child of.
        id: Its id, which is its path in the API and what `pulumi import` takes.
        delete: The gcloud command that deletes it.
    """

    api: str
    type: str
    logical_name: str
    component: tuple[str, str]
    id: str
    delete: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in the cloud."""
        return self.id.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphan:
    """A resource that exists and that the state does not know.

    Attributes:
        resource: Which one.
        created: When it was made, as the API says it; empty where it does not.
        owner: Whether its label names this stack; None for kinds that carry no labels.
        import_line: The command that takes it into the state.
        delete_line: The command that deletes it.
        needs_component: Whether the state lacks the component that the import needs.
    """

    resource: OwnedResource
    created: str
    owner: bool | None
    import_line: str
    delete_line: str
    needs_component: bool


def owned_resources(settings: Settings, project: str) -> Iterator[OwnedResource]:
    """Yield everything that the stack has under a name of its own, in the order of deletion."""
    region, cluster = settings.region, settings.cluster
    yield OwnedResource(
        api="container",
        type="gcp:container/cluster:Cluster",
        logical_name="cluster-cluster",
        component=_CLUSTER,
        id=f"projects/{project}/locations/{region}/clusters/{cluster.name}",
        delete=("container", "clusters", "delete", cluster.name, f"--location={region}"),
    )
    for nic in settings.fabric.nics:
        yield OwnedResource(
            api="compute",
            type="gcp:compute/firewall:Firewall",
            logical_name=f"fabric-internal-{nic.index}",
            component=_FABRIC,
            id=f"projects/{project}/global/firewalls/{nic.firewall_name}",
            delete=("compute", "firewall-rules", "delete", nic.firewall_name),
        )
    subnets = [(f"fabric-sub-{n.index}", _FABRIC, n.subnet_name) for n in settings.fabric.nics]
    networks = [(f"fabric-net-{n.index}", _FABRIC, n.vpc_name) for n in settings.fabric.nics]
    if cluster.create_network and cluster.network_name and cluster.subnetwork_name:
        subnets.append(("cluster-sub", _CLUSTER, cluster.subnetwork_name))
        networks.append(("cluster-net", _CLUSTER, cluster.network_name))
    for logical_name, component, name in subnets:
        yield OwnedResource(
            api="compute",
            type="gcp:compute/subnetwork:Subnetwork",
            logical_name=logical_name,
            component=component,
            id=f"projects/{project}/regions/{region}/subnetworks/{name}",
            delete=("compute", "networks", "subnets", "delete", name, f"--region={region}"),
        )
    for logical_name, component, name in networks:
        yield OwnedResource(
            api="compute",
            type="gcp:compute/network:Network",
            logical_name=logical_name,
            component=component,
            id=f"projects/{project}/global/networks/{name}",
            delete=("compute", "networks", "delete", name),
        )


def find_orphans(
    settings: Settings, project: str, state: Mapping[str, Any], cloud: Cloud
) -> list[Orphan]:
    """Return what exists although the state does not know it, in the order of deletion.

    Args:
        settings: The stack's settings, from which its exact names come.
        project: The Google Cloud project.
        state: What `pulumi stack export` says.
        cloud: Where to ask.

    Raises:
        OrphanSearchError: the cloud does not answer the question.
    """
    held = (state.get("deployment") or {}).get("resources") or []
    ids = {entry.get("id") for entry in held}
    urns = {entry.get("urn") for entry in held}
    orphans = []
    for resource in owned_resources(settings, project):
        if resource.id in ids:
            continue
        found = cloud.get(resource)
        if found is None:
            continue
        kind, name = resource.component
        component = f"urn:pulumi:{settings.stack_name}::{PROJECT}::{kind}::{name}"
        labels = found.get("resourceLabels") or {}
        orphans.append(
            Orphan(
                resource=resource,
                created=str(found.get("creationTimestamp") or found.get("createTime") or ""),
                owner=(
                    labels.get(STACK_LABEL) == _label_value(settings.stack_name)
                    if resource.api == "container"
                    else None
                ),
                import_line=shlex.join(
                    (
                        *("pulumi", "import", "--stack", settings.stack_name),
                        *("--protect=false", "--generate-code=false"),
                        *("--parent", f"{name}={component}"),
                        *(resource.type, resource.logical_name, resource.id),
                    )
                ),
                delete_line=shlex.join(("gcloud", *resource.delete, f"--project={project}")),
                needs_component=component not in urns,
            )
        )
    return orphans


class Cloud:
    """The APIs, at the addresses and with the login that the Pulumi provider uses.

    Args:
        domain: Domain of the universe, `googleapis.com` for Google's own cloud.
        environ: The environment.

    Raises:
        OrphanSearchError: there is no login.
    """

    def __init__(self, domain: str, environ: Mapping[str, str]) -> None:
        import urllib3

        self._addresses = {
            "compute": environ.get(
                "GOOGLE_COMPUTE_CUSTOM_ENDPOINT", f"https://compute.{domain}/compute/v1/"
            ),
            "container": environ.get(
                "GOOGLE_CONTAINER_CUSTOM_ENDPOINT", f"https://container.{domain}/v1/"
            ),
        }
        token = environ.get("GOOGLE_OAUTH_ACCESS_TOKEN") or _gcloud_token()
        self._http = urllib3.PoolManager(
            headers={"Authorization": f"Bearer {token}"}, timeout=30, retries=3
        )

    def get(self, resource: OwnedResource) -> Mapping[str, Any] | None:
        """Return a resource as the API shows it, or None if there is none of that exact name.

        Raises:
            OrphanSearchError: the API gives no such answer.
        """
        status, body, message = self._ask(self._addresses[resource.api] + resource.id)
        if status == 200:
            return body
        if status == 404 or "has not been used in project" in message:
            return None
        raise OrphanSearchError(
            f"whether {resource.id} exists cannot be said: the API answered {status} {message}"
        )

    def firewall_rules(self, project: str) -> Iterator[Mapping[str, Any]]:
        """Yield every firewall rule of a project as the API shows it.

        Raises:
            OrphanSearchError: the API gives no such answer.
        """
        address = f"{self._addresses['compute']}projects/{project}/global/firewalls"
        token = ""
        while True:
            status, body, message = self._ask(f"{address}?pageToken={token}" if token else address)
            if status != 200:
                raise OrphanSearchError(
                    f"the firewall rules of {project} cannot be listed: the API answered {status} "
                    f"{message}"
                )
            yield from body.get("items") or ()
            token = str(body.get("nextPageToken") or "")
            if not token:
                return

    def _ask(self, address: str) -> tuple[int, Mapping[str, Any], str]:
        """Return status, body and the message of a refusal."""
        import urllib3

        try:
            answer = self._http.request("GET", address)
        except urllib3.exceptions.HTTPError as error:
            raise OrphanSearchError(f"{address} does not answer: {error}") from error
        try:
            body = json.loads(answer.data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            # An answer of no such API, whatever its status.
            return (502 if answer.status == 200 else answer.status), {}, answer.reason or ""
        refusal = body.get("error")
        message = str(refusal.get("message", "")) if isinstance(refusal, dict) else ""
        return answer.status, body, message or answer.reason or ""


def read_state(stack: str, *, program: Path | None = None) -> Mapping[str, Any]:
    """Return what `pulumi stack export` says; secrets in it stay encrypted.

    Raises:
        OrphanSearchError: no Pulumi, or no such stack.
    """
    words = ("stack", "export", "--non-interactive", "--stack", stack)
    try:
        text = ask("pulumi", *words, folder=program)
    except NoAnswerError as error:
        raise OrphanSearchError(f"the state of stack {stack!r} cannot be read: {error}") from error
    state = json.loads(text)
    if not isinstance(state, dict):
        raise OrphanSearchError(f"the state of stack {stack!r} is no JSON object")
    return state


def _label_value(stack: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "-", stack.lower())[:63]


def _gcloud_token() -> str:
    try:
        return ask("gcloud", "auth", "print-access-token").strip()
    except NoAnswerError as error:
        raise OrphanSearchError(
            f"there is no login for Google Cloud: {error}. GOOGLE_OAUTH_ACCESS_TOKEN can hold one "
            "instead"
        ) from error
