"""Whether an object that a stack is about to make in a cluster is there already, and whose it is.

Owns the one question to the API server and the sentence that refuses. Does not own the way in
(`cluster_access`) nor when it is asked (`components.existing_objects`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_TIMEOUT_SECONDS = (5, 20)


class ForeignObjectError(ValueError):
    """An object of that name is there and is somebody else's; the text says what to do."""


def check_owner(client: ApiClient, document: Mapping[str, Any], *, label: str, owner: str) -> None:
    """Return unless an object of the document's kind and name exists and is somebody else's.

    Args:
        client: The way into the cluster.
        document: `apiVersion`, `kind` and `metadata` of what is to be made.
        label: The label that says who made an object.
        owner: Its value on this stack's own objects.

    Raises:
        ForeignObjectError: it exists and does not carry the label.
    """
    labels = _labels(client, document)
    if labels is None or labels.get(label) == owner:
        return
    kind, metadata = document["kind"], document["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    place = f" -n {namespace}" if namespace else ""
    what = f"{kind.lower()} {name}{place}"
    raise ForeignObjectError(
        f'{_plural(kind)} "{name}" already exists in the cluster, and this stack did not make it. '
        f"Delete it with `kubectl delete {what}`, or give it to this stack, which then changes and "
        f"in the end deletes it, with `kubectl label {what} --overwrite {label}={owner}`"
    )


def _labels(client: ApiClient, document: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the labels of the object that is there, or None if there is none."""
    import kubernetes

    name = document["metadata"]["name"]
    namespace = document["metadata"].get("namespace")
    group, _, version = document["apiVersion"].rpartition("/")
    with_timeout = {"_request_timeout": _TIMEOUT_SECONDS}
    try:
        if document["kind"] == "Namespace":
            found = kubernetes.client.CoreV1Api(client).read_namespace(name, **with_timeout)
            return found.metadata.labels or {}
        objects = kubernetes.client.CustomObjectsApi(client)
        kind = (group, version, *([namespace] if namespace else []), _plural(document["kind"]))
        read = (
            objects.get_namespaced_custom_object if namespace else objects.get_cluster_custom_object
        )
        return read(*kind, name, **with_timeout)["metadata"].get("labels") or {}
    except kubernetes.client.exceptions.ApiException as error:
        # Also where the cluster does not know the kind yet: the provider waits for it.
        if error.status == 404:
            return None
        raise


def _plural(kind: str) -> str:
    """Return the name that the API has for a kind of the addons; all of theirs are regular."""
    return f"{kind.lower()}s"
