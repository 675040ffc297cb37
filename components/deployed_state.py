"""What the stack's state holds already, asked of the engine before anything is registered.

Owns reading the last state and finding a cluster that a killed update left behind. The engine
answers from its own snapshot: no request leaves the machine unless the cluster is missing there.
"""

import time
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_gcp as gcp

STACK_LABEL = "gpudirect-stack"
"""Label of the cluster that says which stack made it."""

_CLUSTER_TYPE = "gcp:container/cluster:Cluster"
_READ_ATTEMPTS = 30
_READ_AGAIN_SECONDS = 0.1
_POLL_SECONDS = 5.0
_LONGEST_CREATION_SECONDS = 1800.0


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


def interrupted_cluster(name: str, location: str, label: str) -> str | None:
    """Return the id of this stack's cluster if it exists although the state does not know it.

    An update that is killed while Google creates the cluster leaves one: the next update would be
    refused with "already exists". It is adopted only when it carries this stack's own label.

    Args:
        name: Exact name of the cluster.
        location: Its region.
        label: The value that `STACK_LABEL` must have.

    Raises:
        pulumi.RunError: it never got an address, so its creation has failed.
    """
    if any(f"${_CLUSTER_TYPE}::" in urn for urn in deployed_outputs()):
        return None
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
                "it over"
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
