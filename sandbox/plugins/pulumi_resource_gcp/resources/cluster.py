"""`gcp:container/cluster:Cluster`: plan and life of a GKE cluster [facts google-cloud.md §6].

Owns the order of calls and the waits. The table stands in `cluster_fields`, the JSON in
`cluster_body`, the update requests in `cluster_updates`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..checking import DEFAULTS, AutoName
from ..configuration import CONTAINER, ProviderConfig
from ..diffing import ADD, UPDATE, Change, Difference
from ..errors import CancelledWaitError, GoogleApiError, PartialFailureError, ProviderError
from ..operations import Poller, wait_container
from ..transport import Deadline
from ..values import UNKNOWN, Properties, contains_unknown
from . import cluster_body as body
from .base import Call, Json, ResourceKind, Timeouts, without_defaults
from .cluster_fields import FIELDS
from .cluster_state import cluster_state
from .cluster_updates import steps

_AT_REST = frozenset({"RUNNING", "DEGRADED", "ERROR"})
_BROKEN = frozenset({"DEGRADED", "ERROR"})
DELETE_RETRY_SECONDS = 30.0


class Cluster(ResourceKind):
    """A GKE cluster."""

    pulumi_type = "gcp:container/cluster:Cluster"
    noun = "Cluster"
    autoname = AutoName()
    fields = FIELDS
    secret_outputs = frozenset(
        {("masterAuth", "clientKey"), ("pulumiLabels",), ("effectiveLabels",)}
    )
    timeouts = Timeouts(create=90 * 60.0, read=40 * 60.0, update=90 * 60.0, delete=90 * 60.0)

    # --- plan ---

    def planned(self, config: ProviderConfig, inputs: Properties) -> Properties:
        """An Autopilot cluster is VPC-native and sees its nodes' traffic [§1.5, §6.1]."""
        found: Properties = {"enableMultiNetworking": False, "allowNetAdmin": False}
        if inputs.get("enableAutopilot") is True:
            found |= {"networkingMode": "VPC_NATIVE", "enableIntranodeVisibility": True}
        labels = self._labels(config, inputs, None)
        if not contains_unknown(labels):
            found |= {"pulumiLabels": labels, "effectiveLabels": labels}
        found["operation"] = ""
        return found

    def plan_errors(
        self,
        config: ProviderConfig,  # noqa: ARG002
        inputs: Properties,
        state: Properties | None,
    ) -> list[str]:
        """At creation the node version follows the master's [§1.6 for how this is told]."""
        node, master = inputs.get("nodeVersion"), inputs.get("minMasterVersion")
        errors: list[str] = []
        if state is not None or contains_unknown([node, master]) or not node:
            return errors
        if inputs.get("removeDefaultNodePool"):
            errors.append(
                "node_version can only be specified if remove_default_node_pool is not true"
            )
        if master and str(node).partition("-")[0] != str(master).partition("-")[0]:
            errors.append(
                f"Resource argument node_version (value: {node}) must either be unset or set to "
                f"the same value as min_master_version (value: {master}) on create."
            )
        return errors

    def adjust(
        self,
        config: ProviderConfig,
        difference: Difference,
        state: Properties,
        inputs: Properties,
    ) -> Difference:
        """Add labels that Pulumi keeps and that are not as they should be."""
        wanted = self._labels(config, inputs, state)
        changes = [change for change in difference.changes if not _quiet(change, inputs)]
        networks = "masterAuthorizedNetworksConfig"
        if inputs.get(networks) == {DEFAULTS: []} and state.get(networks) is None:
            # No block means open to all, an empty one open to nobody.
            changes.append(Change(networks, ADD, replaces=False))
        for index, change in enumerate(changes):
            turned_off = state.get(change.path) is True and not inputs.get(change.path)
            if change.path in _CANNOT_BE_TURNED_OFF and turned_off:
                changes[index] = Change(change.path, change.kind, replaces=True)
        if wanted != (state.get("pulumiLabels") or {}):
            changes += [
                Change("effectiveLabels", UPDATE, replaces=False),
                Change("pulumiLabels", UPDATE, replaces=False),
            ]
        return Difference(changes)

    def _labels(self, config: ProviderConfig, inputs: Properties, state: Properties | None) -> Json:
        labels = {**body.provider_labels(config), **_known_labels(inputs)}
        kept = (state or {}).get("pulumiLabels") or {}
        if state is not None and body.ATTRIBUTION_LABEL not in kept:
            # The label is added at creation only, unless the strategy says otherwise.
            labels.pop(body.ATTRIBUTION_LABEL, None)
        return labels

    # --- life ---

    def create(self, call: Call, inputs: Properties) -> tuple[str, Properties]:
        """Look, create, wait for the operation, read, wait until it runs [real-provider.md]."""
        project = call.config.require_project(inputs.get("project"))
        location = call.config.require_location(inputs.get("location"))
        name = inputs["name"]
        resource_id = f"projects/{project}/locations/{location}/clusters/{name}"
        self._check_node_tags(inputs)
        if location in (inputs.get("nodeLocations") or ()):
            raise ProviderError(
                "when using a multi-zonal cluster, node_locations should not contain the "
                "original 'zone'"
            )
        found: Json = {}
        # Only the maintenance policy of what is there already counts; errors do not.
        with suppress(ProviderError):
            found = self._get(call, resource_id).get("maintenancePolicy") or {}
        cluster = body.create_body(call.config, inputs, project, location, found)
        started: Properties = {
            **self.planned_state(inputs),
            "id": resource_id,
            "project": project,
            "location": location,
            "operation": "",
            "pulumiLabels": dict(cluster.get("resourceLabels") or {}),
        }
        parent = f"projects/{project}/locations/{location}/clusters"
        operation = self._send(call, "POST", parent, {"cluster": cluster})
        try:
            wait_container(
                call.client, operation, project, location, "creating GKE cluster", call.deadline
            )
        except CancelledWaitError as error:
            started["operation"] = operation.get("name", "")
            raise PartialFailureError(resource_id, started, str(error)) from error
        except ProviderError as error:
            self._fail_creation(call, resource_id, started, error)
        return self._finish_creation(call, resource_id, started)

    def _fail_creation(
        self, call: Call, resource_id: str, started: Properties, cause: ProviderError
    ) -> None:
        """A cluster that exists stays in the state, one that does not is forgotten [§1.7]."""
        try:
            answer = self._get(call, resource_id)
        except ProviderError:
            raise cause from None
        _, project, _, location, *_ = resource_id.split("/")
        state = cluster_state(answer, started, project, location)
        raise PartialFailureError(resource_id, state, str(cause)) from cause

    def _finish_creation(
        self, call: Call, resource_id: str, started: Properties
    ) -> tuple[str, Properties]:
        found = self.read(call, resource_id, started)
        if found is None:
            raise ProviderError(
                f"Error reading Cluster {resource_id}: it is gone after its creation"
            )
        try:
            answer = self._await_rest(call, resource_id)
        except ProviderError as error:
            raise PartialFailureError(resource_id, found[1], str(error)) from error
        status = answer.get("status")
        _, project, _, location, *_ = resource_id.split("/")
        state = cluster_state(answer, started, project, location)
        if not state["deletionPolicy"]:
            state["deletionPolicy"] = call.config.deletion_policy or "DELETE"
        if status in _BROKEN:
            name = resource_id.rsplit("/", 1)[-1]
            reason = f'Cluster {name} was created in the error state "{status}"'
            raise PartialFailureError(resource_id, state, reason)
        return resource_id, state

    def read(
        self, call: Call, resource_id: str, previous: Properties
    ) -> tuple[str, Properties] | None:
        """Fetch the cluster; an interrupted creation is waited for first [§6.3]."""
        resource_id = self.canonical_id(call.config, resource_id)
        _, project, _, location, *_ = resource_id.split("/")
        if previous.get("operation"):
            operation = {"name": previous["operation"]}
            wait_container(
                call.client, operation, project, location, "resuming GKE cluster", call.deadline
            )
        try:
            answer = self._get(call, resource_id)
        except GoogleApiError as error:
            if error.status == 404:
                return None
            name = resource_id.rsplit("/", 1)[-1]
            raise ProviderError(
                f'Error when reading or editing Container Cluster "{name}": {error}'
            ) from error
        state = cluster_state(answer, previous, project, location)
        if not state["deletionPolicy"]:
            state["deletionPolicy"] = call.config.deletion_policy or "DELETE"
        return resource_id, state

    def update(
        self,
        call: Call,
        resource_id: str,
        state: Properties,
        inputs: Properties,
        changed: frozenset[str],
    ) -> Properties:
        """One call per changed field, each after the one before has ended [§6.3]."""
        _, project, _, location, *_ = resource_id.split("/")
        labels = None
        wanted = self._labels(call.config, inputs, state)
        if {"resourceLabels", "pulumiLabels"} & changed:
            foreign = {
                name: value
                for name, value in (state.get("effectiveLabels") or {}).items()
                if name not in (state.get("pulumiLabels") or {})
            }
            labels = {**foreign, **wanted}
        requests = list(steps(state, inputs, changed, labels))
        kept = {
            **without_defaults(inputs),
            "operation": state.get("operation", ""),
            "pulumiLabels": wanted,
            "deletionPolicy": inputs.get("deletionPolicy") or state.get("deletionPolicy"),
            "resourceLabels": inputs.get("resourceLabels") or {},
        }
        if changed == {"deletionPolicy"}:
            return self.without_api(state, inputs)
        self._await_rest(call, resource_id)
        for step in requests:
            if step.is_maintenance:
                policy = self._get(call, resource_id).get("maintenancePolicy") or {}
                request = {"maintenancePolicy": body.maintenance(inputs, policy)}
                operation = self._send(call, "POST", resource_id + step.action, request)
            elif step.action:
                operation = self._send(call, "POST", resource_id + step.action, step.request)
            else:
                operation = self._send(call, "PUT", resource_id, step.request)
            wait_container(call.client, operation, project, location, step.activity, call.deadline)
        self._await_rest(call, resource_id)
        found = self.read(call, resource_id, kept)
        if found is None:
            raise ProviderError(f"Error reading Cluster {resource_id}: it is gone after its change")
        return found[1]

    def delete(self, call: Call, resource_id: str, state: Properties) -> None:
        """Wait for rest, delete, wait [real-provider.md]."""
        if not self.guard(resource_id, state):
            return
        if state.get("deletionProtection"):
            raise ProviderError(
                "Cannot destroy cluster because deletion_protection is set to true. Set it to "
                "false to proceed with cluster deletion."
            )
        _, project, _, location, *_ = resource_id.split("/")
        try:
            self._await_rest(call, resource_id)
        except GoogleApiError as error:
            if error.status == 404:
                return
            raise
        operation = self._delete_with_patience(call, resource_id)
        if operation is None:
            return
        wait_container(
            call.client, operation, project, location, "deleting GKE cluster", call.deadline
        )

    def _delete_with_patience(self, call: Call, resource_id: str) -> Json | None:
        """Retry every error for half a minute, as the real provider does [§1.7]."""
        seconds = min(DELETE_RETRY_SECONDS, call.deadline.remaining)
        poller = Poller(call.client, Deadline(seconds, call.deadline.cancelled))
        while True:
            try:
                return self._send(call, "DELETE", resource_id)
            except GoogleApiError as error:
                if error.status == 404:
                    return None
                if not poller.wait():
                    raise ProviderError(f"Error deleting Cluster: {error}") from error

    def canonical_id(self, config: ProviderConfig, given: str) -> str:
        """Turn `projects/P/locations/L/clusters/N`, `P/L/N` or `L/N` into the id."""
        parts = given.split("/")
        if len(parts) == 6 and parts[0] == "projects":
            return given
        if len(parts) not in {2, 3}:
            raise ProviderError(
                f'"{given}" is not the id of a cluster; expected '
                "projects/PROJECT/locations/LOCATION/clusters/NAME, PROJECT/LOCATION/NAME or "
                "LOCATION/NAME"
            )
        project = parts[0] if len(parts) == 3 else config.require_project()
        return f"projects/{project}/locations/{parts[-2]}/clusters/{parts[-1]}"

    def _await_rest(self, call: Call, resource_id: str) -> Json:
        """Wait until the cluster is neither made nor changed nor deleted [§6.3]."""
        poller = Poller(call.client, call.deadline)
        while True:
            answer = self._get(call, resource_id)
            if answer.get("status") in _AT_REST:
                return answer
            if not poller.wait():
                raise ProviderError(
                    f'timeout while waiting for cluster "{resource_id}" to be at rest '
                    f"(last status: {answer.get('status', 'none')})"
                )

    @staticmethod
    def _check_node_tags(inputs: Properties) -> None:
        tags = (inputs.get("nodePoolAutoConfig") or {}).get("networkTags")
        provisioning = (inputs.get("clusterAutoscaling") or {}).get("enabled")
        if tags and not inputs.get("enableAutopilot") and not provisioning:
            raise ProviderError(
                "node_pool_auto_config network tags can only be set if enable_autopilot or "
                "cluster_autoscaling is enabled"
            )

    @staticmethod
    def _get(call: Call, resource_id: str) -> Json:
        return call.client.request(CONTAINER, "GET", resource_id, deadline=call.deadline)

    @staticmethod
    def _send(call: Call, method: str, path: str, request: Mapping[str, Any] | None = None) -> Json:
        return call.client.request(CONTAINER, method, path, body=request, deadline=call.deadline)


_CANNOT_BE_TURNED_OFF = frozenset({"enableL4IlbSubsetting", "enableFqdnNetworkPolicy"})
_AUTOPILOT_DECIDES = re.compile(
    r"dnsConfig(\.(?!additiveVpcScopeDnsDomain).*)?$"
    r"|clusterAutoscaling\.(resourceLimits|autoscalingProfile)"
    r"|clusterAutoscaling\.autoProvisioningDefaults\.(diskSize|diskType|imageType)$"
)


def _quiet(change: Change, inputs: Properties) -> bool:
    """Say whether an Autopilot cluster hides a difference: the field is its own affair [R20]."""
    if inputs.get("enableAutopilot") is not True:
        return False
    given = inputs.get("dnsConfig")
    if change.path == "dnsConfig" and isinstance(given, Mapping):
        return not given.get("additiveVpcScopeDnsDomain")
    return _AUTOPILOT_DECIDES.match(change.path) is not None


def _known_labels(inputs: Properties) -> Json:
    labels = inputs.get("resourceLabels")
    if labels is UNKNOWN:
        return {"": UNKNOWN}
    return {str(name): value for name, value in (labels or {}).items()}
