"""What the stack's state holds already, asked of the engine before anything is registered.

Owns reading the last state, finding a cluster that a killed update left behind, and telling one
that never came up. The engine answers from its own snapshot: no request leaves the machine unless
the cluster, or its address, is missing there.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpudirect.replacement import clusters_in, has_come_up

STACK_LABEL = "gpudirect-stack"
"""Label of the cluster that says which stack made it."""

_READ_ATTEMPTS = 30
_READ_AGAIN_SECONDS = 0.1
_POLL_SECONDS = 5.0
_LONGEST_CREATION_SECONDS = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class FormerCluster:
    """What earlier updates left of the cluster, where an ordinary update would not do.

    Attributes:
        adopted_id: Id of a cluster that an interrupted update left, or None.
        failed: Whether the cluster in the state never came up: it has no address, so nothing has
            ever run in it.
        held: Whether that one cannot be replaced yet, because the state says that it is protected:
            the provider asks the state before it deletes.
    """

    adopted_id: str | None = None
    failed: bool = False
    held: bool = False


def former_cluster(
    deployed: Mapping[str, Mapping[str, Any]], name: str, location: str, label: str
) -> FormerCluster:
    """Return what earlier updates left of the stack's cluster.

    Args:
        deployed: What `deployed_outputs` has found.
        name: Exact name of the cluster.
        location: Its region.
        label: The value that `STACK_LABEL` must have on a cluster that the state does not know.

    Raises:
        pulumi.RunError: an interrupted update left a cluster that never got an address.
    """
    outputs = next(clusters_in(deployed), None)
    if outputs is None:
        return FormerCluster(adopted_id=_interrupted_cluster(name, location, label))
    if has_come_up(outputs) or _has_address(outputs):
        return FormerCluster()
    held = outputs.get("deletionProtection") is True
    pulumi.log.warn(
        f"the cluster {outputs.get('name')} never came up: "
        + ("its deletion protection is turned off" if held else "it is deleted and made anew")
    )
    return FormerCluster(failed=True, held=held)


def deployed_outputs() -> Mapping[str, Mapping[str, Any]]:
    """Return the outputs of every resource in the stack's last state, by URN.

    With a state in a folder the engine can read a file that it writes at this moment itself, and
    finds half of it: it is asked again.
    """
    for attempt in range(_READ_ATTEMPTS):
        try:
            found = pulumi.runtime.invoke(
                "pulumi:pulumi:readStackResourceOutputs", {"stackName": pulumi.get_stack()}
            )
            break
        except Exception as error:
            # The SDK raises nothing more special.
            if "failed to load checkpoint" not in str(error) or attempt == _READ_ATTEMPTS - 1:
                raise
            time.sleep(_READ_AGAIN_SECONDS)
    return {urn: entry.get("outputs") or {} for urn, entry in found.value["outputs"].items()}


def _has_address(outputs: Mapping[str, Any]) -> bool:
    """Return whether the cluster has come up since the state was written."""
    try:
        found = gcp.container.get_cluster(
            name=outputs["name"], location=outputs["location"], project=outputs.get("project")
        )
    except Exception as error:  # noqa: BLE001 - the SDK raises nothing more special
        pulumi.log.debug(f"no cluster {outputs.get('name')}: {error}")
        return False
    return bool(found.endpoint)


def _interrupted_cluster(name: str, location: str, label: str) -> str | None:
    """Return the id of this stack's cluster if it exists although the state does not know it.

    An update that is killed while Google creates the cluster leaves one: the next update would be
    refused with "already exists". It is adopted only when it carries this stack's own label.

    Raises:
        pulumi.RunError: it never got an address, so its creation has failed.
    """
    deadline = time.monotonic() + _LONGEST_CREATION_SECONDS
    waiting = False
    where = f"{name} --location={location}"
    while True:
        try:
            found = gcp.container.get_cluster(name=name, location=location)
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing more special
            # Not there, or an API that is not enabled yet: the ordinary first update.
            pulumi.log.debug(f"no cluster {name} in {location}: {error}")
            return None
        labels = found.resource_labels or {}
        if labels.get(STACK_LABEL) != label:
            return None
        if found.endpoint:
            pulumi.log.warn(
                f"the cluster {name} was left by an update that was interrupted; this stack takes "
                "it over. It is protected against deletion at first: run `pulumi up` once more, "
                "which makes it what the config says"
            )
            return f"projects/{found.project}/locations/{location}/clusters/{name}"
        if time.monotonic() > deadline:
            raise pulumi.RunError(
                f"the cluster {name} was left by an update that was interrupted, and has no "
                f"address after {_LONGEST_CREATION_SECONDS / 60:.0f} minutes: delete it with "
                f"`gcloud container clusters delete {where}` and run `pulumi up` again"
            )
        if not waiting:
            waiting = True
            pulumi.log.info(
                f"waiting for the interrupted creation of {name} to end. If `gcloud container "
                f"clusters describe {where}` says ERROR, it never will: stop this update, delete "
                f"the cluster with `gcloud container clusters delete {where}` and begin again"
            )
        time.sleep(_POLL_SECONDS)
