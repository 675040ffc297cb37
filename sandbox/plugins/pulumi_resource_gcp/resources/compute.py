"""The part that all Compute resources share: one collection, asynchronous changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..configuration import ProviderConfig
from ..errors import GoogleApiError, OperationError, ProviderError
from ..mapping import Json, expand, flatten
from ..operations import wait_compute
from ..values import Properties
from .base import Call, ResourceKind

COMPUTE_NAME = r"^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$"


class ComputeResource(ResourceKind):
    """A resource of the Compute API with one collection and asynchronous changes."""

    collection: ClassVar[str]
    regional: ClassVar[bool] = False

    def resource_id(self, config: ProviderConfig, inputs: Mapping[str, Any]) -> str:
        """Return the id, which is also the path below the API's base."""
        return f"{self.parent(config, inputs)}/{inputs['name']}"

    def parent(self, config: ProviderConfig, inputs: Mapping[str, Any]) -> str:
        """Return the path of the collection."""
        project = config.require_project(inputs.get("project"))
        if not self.regional:
            return f"projects/{project}/global/{self.collection}"
        region = config.require_region(inputs.get("region"))
        return f"projects/{project}/regions/{region}/{self.collection}"

    def body(self, config: ProviderConfig, inputs: Properties) -> Json:  # noqa: ARG002
        """Return the body of the create request."""
        return expand(self.fields, inputs, compact=True)

    def state(self, config: ProviderConfig, answer: Json, previous: Properties) -> Properties:  # noqa: ARG002
        """Return the saved form of an answer."""
        return flatten(self.fields, answer, previous)

    def guard_name(self, resource_id: str) -> str:  # noqa: ARG002
        """Return the Terraform name of the type; Compute resources are named so [§2]."""
        return f"Compute{self.noun}"

    def create(self, call: Call, inputs: Properties) -> tuple[str, Properties]:
        """Create, wait, read [real-provider.md]."""
        resource_id = self.resource_id(call.config, inputs)
        project = call.config.require_project(inputs.get("project"))
        body = self.body(call.config, inputs)
        try:
            operation = call.compute("POST", self.parent(call.config, inputs), body)
        except ProviderError as error:
            raise ProviderError(f"Error creating {self.noun}: {error}") from error
        try:
            wait_compute(call.client, operation, project, f"Creating {self.noun}", call.deadline)
        except ProviderError as error:
            raise ProviderError(f"Error waiting to create {self.noun}: {error}") from error
        self.after_create(call, resource_id, inputs)
        found = self.read(call, resource_id, inputs)
        if found is None:
            raise ProviderError(
                f"Error reading {self.noun}: {resource_id} is gone after its creation"
            )
        return found

    def after_create(self, call: Call, resource_id: str, inputs: Properties) -> None:
        """Do what the provider does itself once the resource exists."""

    def read(
        self, call: Call, resource_id: str, previous: Properties
    ) -> tuple[str, Properties] | None:
        """Fetch the resource."""
        path = self.canonical_id(call.config, resource_id)
        try:
            answer = call.compute("GET", path)
        except GoogleApiError as error:
            if error.status == 404:
                return None
            raise ProviderError(
                f'Error when reading or editing Compute{self.noun} "{path}": {error}'
            ) from error
        state = self.state(call.config, answer, previous)
        parts = path.split("/")
        state["project"] = parts[1]
        if self.regional:
            state["region"] = parts[3]
        if not state.get("deletionPolicy"):
            state["deletionPolicy"] = call.config.deletion_policy or "DELETE"
        state["id"] = path
        return path, state

    def canonical_id(self, config: ProviderConfig, given: str) -> str:
        """Turn any form that an import accepts into the id."""
        parts = given.split("/")
        start = next((index for index, part in enumerate(parts) if part == "projects"), None)
        if start is not None:
            return "/".join(parts[start:])
        values: Json = {"name": parts[-1]}
        if self.regional and len(parts) >= 2:
            values["region"] = parts[-2]
            parts = parts[:-1]
        if len(parts) >= 2:
            values["project"] = parts[-2]
        return self.resource_id(config, values)

    def delete(self, call: Call, resource_id: str, state: Properties) -> None:
        """Delete and wait."""
        if not self.guard(resource_id, state):
            return
        try:
            operation = call.compute("DELETE", resource_id)
        except GoogleApiError as error:
            if error.status == 404:
                return
            raise ProviderError(f"Error when reading or editing {self.noun}: {error}") from error
        project = resource_id.split("/")[1]
        try:
            wait_compute(call.client, operation, project, f"Deleting {self.noun}", call.deadline)
        except OperationError as error:
            if "was not found" not in str(error):
                raise

    def change(
        self, call: Call, resource_id: str, method: str, path: str, body: Mapping[str, Any]
    ) -> None:
        """Send one change and wait for it."""
        try:
            operation = call.compute(method, path, body)
        except ProviderError as error:
            raise ProviderError(f'Error updating {self.noun} "{resource_id}": {error}') from error
        project = resource_id.split("/")[1]
        wait_compute(call.client, operation, project, f"Updating {self.noun}", call.deadline)

    def read_again(self, call: Call, resource_id: str, inputs: Properties) -> Properties:
        """Return the state after a change."""
        found = self.read(call, resource_id, inputs)
        if found is None:
            raise ProviderError(
                f"Error reading {self.noun}: {resource_id} is gone after its change"
            )
        return found[1]
