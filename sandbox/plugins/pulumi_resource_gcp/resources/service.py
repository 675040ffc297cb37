"""`gcp:projects/service:Service` [facts google-cloud.md §7, real-provider.md].

The real provider gathers these calls for 3 s into batches; the calls themselves are the same
here, one service at a time and without the wait.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..configuration import RESOURCE_MANAGER, SERVICE_USAGE
from ..errors import GoogleApiError, ProviderError
from ..operations import Poller, wait_service_usage
from ..schema import Field, Fields, Type
from ..values import Properties
from .base import DELETION_POLICY, PROJECT, Call, Json, ResourceKind, Timeouts

_BANNED = {"bigquery-json.googleapis.com": "bigquery.googleapis.com"}


def _is_service(name: str, value: Any) -> list[str]:  # noqa: ARG001 - the name is not in the text
    if value in _BANNED:
        return [f"bad value for service: {value} is no longer supported; use {_BANNED[value]}"]
    if "." not in value:
        return [f"expected {value} to be a domain like serviceusage.googleapis.com"]
    return []


class Service(ResourceKind):
    """One API that is switched on in a project."""

    pulumi_type = "gcp:projects/service:Service"
    noun = "Project Service"
    timeouts = Timeouts(read=10 * 60.0)
    fields: ClassVar[Fields] = {
        "service": Field(required=True, force_new=True, validators=(_is_service,)),
        "project": PROJECT,
        "disableOnDestroy": Field(type=Type.BOOL, client=True),
        "disableDependentServices": Field(type=Type.BOOL, client=True),
        "checkIfServiceHasUsageOnDestroy": Field(type=Type.BOOL, client=True),
        "deletionPolicy": DELETION_POLICY,
    }

    def create(self, call: Call, inputs: Properties) -> tuple[str, Properties]:
        """Enable the service unless it is on; wait until the list shows it."""
        project = call.config.require_project(inputs.get("project"))
        service = inputs["service"]
        resource_id = f"{project}/{service}"
        if self._listed(call, project, service):
            return resource_id, self._state(call, project, service, inputs)
        self._enable(call, project, service)
        found = self.read(call, resource_id, inputs)
        if found is None:
            raise ProviderError(
                f"Error reading {self.noun} {resource_id}: the service is not enabled"
            )
        return found

    def read(
        self, call: Call, resource_id: str, previous: Properties
    ) -> tuple[str, Properties] | None:
        """Look for the project and for the service in its list."""
        project, _, service = resource_id.rpartition("/")
        project = call.config.require_project(project)
        try:
            call.client.request(
                RESOURCE_MANAGER, "GET", f"projects/{project}", deadline=call.deadline
            )
        except GoogleApiError as error:
            if error.status in {403, 404}:
                return None
            raise ProviderError(f"Error reading Project {project!r}: {error}") from error
        if not self._listed(call, project, service):
            return None
        return f"{project}/{service}", self._state(call, project, service, previous)

    def update(
        self,
        call: Call,  # noqa: ARG002
        resource_id: str,  # noqa: ARG002
        state: Properties,
        inputs: Properties,
        changed: frozenset[str],  # noqa: ARG002
    ) -> Properties:
        """Change nothing at Google: only the provider's own switches can differ [§7]."""
        return self.without_api(state, inputs)

    def delete(self, call: Call, resource_id: str, state: Properties) -> None:
        """Forget the service; disable it only if the state says so [§0.4]."""
        if not self.guard(resource_id, state) or not state.get("disableOnDestroy"):
            return
        project, _, service = resource_id.rpartition("/")
        body: Json = {"disableDependentServices": bool(state.get("disableDependentServices"))}
        if state.get("checkIfServiceHasUsageOnDestroy"):
            body["checkIfServiceHasUsage"] = "CHECK"
        try:
            operation = self._usage(
                call, "POST", f"projects/{project}/services/{service}:disable", body
            )
            wait_service_usage(call.client, operation, "api to disable", call.deadline)
        except ProviderError as error:
            raise ProviderError(
                f'Error disabling service "{service}" for project "{project}": {error}'
            ) from error

    def _state(self, call: Call, project: str, service: str, previous: Properties) -> Properties:
        state = self.without_api({}, previous)
        state["deletionPolicy"] = state["deletionPolicy"] or call.config.deletion_policy or "DELETE"
        return {**state, "id": f"{project}/{service}", "project": project, "service": service}

    def _enable(self, call: Call, project: str, service: str) -> None:
        poller = Poller(call.client, call.deadline)
        try:
            operation = self._usage(
                call, "POST", f"projects/{project}/services/{service}:enable", {}
            )
            wait_service_usage(call.client, operation, "api to enable", call.deadline)
        except ProviderError as error:
            raise ProviderError(
                f'Error when reading or editing {self.noun}: Request "Enable Project Service '
                f'\\"{service}\\" for project \\"{project}\\"" returned error: failed to send '
                f"enable services request: {error}"
            ) from error
        while not self._listed(call, project, service):
            if not poller.wait():
                raise ProviderError(
                    f'Error waiting for service "{service}" to be enabled for project "{project}"'
                )

    def _listed(self, call: Call, project: str, service: str) -> bool:
        query = {
            "fields": "services/name,nextPageToken",
            "filter": "state:ENABLED",
            "pageSize": "200",
        }
        try:
            while True:
                answer = call.client.request(
                    SERVICE_USAGE,
                    "GET",
                    f"projects/{project}/services",
                    query=query,
                    deadline=call.deadline,
                )
                names = (str(item.get("name", "")) for item in answer.get("services") or ())
                if any(name.endswith(f"/services/{service}") for name in names):
                    return True
                token = answer.get("nextPageToken")
                if not token:
                    return False
                query = {**query, "pageToken": str(token)}
        except GoogleApiError as error:
            raise ProviderError(
                f'Error when reading or editing {self.noun}: Request "List Project Services '
                f'{project}" returned error: Failed to list enabled services for project '
                f"{project}: {error}"
            ) from error

    def _usage(self, call: Call, method: str, path: str, body: Json) -> Json:
        """Send one change; another one that is under way is waited for [§7]."""
        poller = Poller(call.client, call.deadline)
        while True:
            try:
                return call.client.request(
                    SERVICE_USAGE, method, path, body=body, deadline=call.deadline
                )
            except GoogleApiError as error:
                busy = "Another activation or deactivation is in progress" in str(error)
                if not busy or not poller.wait():
                    raise
