"""What every resource kind offers: its table, its plan and its four calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..checking import DEFAULTS, AutoName
from ..configuration import COMPUTE, ProviderConfig
from ..diffing import Difference
from ..errors import ProviderError
from ..mapping import zero
from ..schema import Field, Fields, Type
from ..transport import Client, Deadline
from ..values import UNKNOWN, Path, Properties

Json = dict[str, Any]

DELETION_POLICY = Field(client=True, computed=True)
"""DELETE, PREVENT or ABANDON; the provider's own, no request carries it."""
PROJECT = Field(computed=True, force_new=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Default limits in seconds; `customTimeouts` of the program replaces them [§1.8]."""

    create: float = 20 * 60.0
    read: float = 20 * 60.0
    update: float = 20 * 60.0
    delete: float = 20 * 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What one request of the engine works with."""

    client: Client
    deadline: Deadline

    @property
    def config(self) -> ProviderConfig:
        """The provider's configuration."""
        return self.client.config

    def compute(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
        """Send one request to the Compute API."""
        return self.client.request(COMPUTE, method, path, body=body, deadline=self.deadline)


class ResourceKind(ABC):
    """One resource type: its table and what its four calls do."""

    pulumi_type: ClassVar[str]
    noun: ClassVar[str]
    """As error texts name it, for example `Network`."""
    fields: ClassVar[Fields]
    autoname: ClassVar[AutoName | None] = None
    exactly_one: ClassVar[tuple[tuple[str, ...], ...]] = ()
    timeouts: ClassVar[Timeouts] = Timeouts()
    secret_outputs: ClassVar[frozenset[Path]] = frozenset()
    """Outputs that are secret whatever the inputs were."""

    # --- plan ---

    def provider_defaults(self, config: ProviderConfig, inputs: Properties) -> Properties:
        """Return inputs that the provider's configuration supplies when the program does not."""
        found: Properties = {}
        if config.project and "project" in self.fields:
            found["project"] = config.project
        if "deletionPolicy" in self.fields:
            found["deletionPolicy"] = config.deletion_policy or "DELETE"
        return {name: value for name, value in found.items() if inputs.get(name) is None}

    def plan_errors(
        self,
        config: ProviderConfig,  # noqa: ARG002 - part of the contract
        inputs: Properties,  # noqa: ARG002
        state: Properties | None,  # noqa: ARG002
    ) -> list[str]:
        """Return what the provider refuses while planning, that is, in Diff and Create [§1.6]."""
        return []

    def adjust(
        self,
        config: ProviderConfig,  # noqa: ARG002
        difference: Difference,
        state: Properties,  # noqa: ARG002
        inputs: Properties,  # noqa: ARG002
    ) -> Difference:
        """Correct a difference where the table cannot say it."""
        return difference

    def planned(self, config: ProviderConfig, inputs: Properties) -> Properties:  # noqa: ARG002
        """Return computed outputs that are known before the resource exists [§1.5]."""
        return {}

    def preview_outputs(self, config: ProviderConfig, inputs: Properties) -> Properties:
        """Return the outputs that Create promises in a preview; what is not known is unknown."""
        outputs: Properties = {"id": UNKNOWN}
        given = {**self.provider_defaults(config, inputs), **without_defaults(inputs)}
        planned = self.planned(config, given)
        for name, spec in self.fields.items():
            value = given.get(name)
            if value is not None:
                outputs[name] = value
            elif name in planned:
                outputs[name] = planned[name]
            elif spec.unsupported:
                continue
            elif spec.output or (spec.computed and not spec.client):
                outputs[name] = UNKNOWN
            elif spec.default is not None:
                outputs[name] = spec.default
        return outputs

    def preview_update(
        self, config: ProviderConfig, state: Properties, inputs: Properties
    ) -> Properties:
        """Return what Update promises in a preview: the state with the inputs over it."""
        given = {**self.provider_defaults(config, inputs), **without_defaults(inputs)}
        outputs = {**state, **given}
        for name, spec in self.fields.items():
            if spec.unsupported:
                continue
            if given.get(name) is None and not spec.computed and not spec.output:
                outputs[name] = zero(spec) if spec.default is None else spec.default
            elif spec.type is Type.BLOCK and isinstance(given.get(name), Mapping):
                outputs[name] = {**(state.get(name) or {}), **given[name]}
        return outputs

    def planned_state(self, inputs: Properties) -> Properties:
        """Return what is known of a resource whose creation has begun: inputs and defaults."""
        given, state = without_defaults(inputs), {}
        for name, spec in self.fields.items():
            if not spec.unsupported:
                unset = zero(spec) if spec.default is None else spec.default
                state[name] = unset if given.get(name) is None else given[name]
        return state

    def without_api(self, state: Properties, inputs: Properties) -> Properties:
        """Return the state after a change of what the provider alone knows: nothing is asked."""
        known: Properties = {}
        for name, spec in self.fields.items():
            if spec.client:
                unset = zero(spec) if spec.default is None else spec.default
                known[name] = unset if inputs.get(name) is None else inputs[name]
        return {**state, **known}

    # --- life ---

    @abstractmethod
    def create(self, call: Call, inputs: Properties) -> tuple[str, Properties]:
        """Make the resource; return its id and state.

        Raises:
            ProviderError: nothing was made.
            PartialFailureError: it exists but is not right.
        """

    @abstractmethod
    def read(
        self, call: Call, resource_id: str, previous: Properties
    ) -> tuple[str, Properties] | None:
        """Return id and state as they are now, or None if the resource is gone.

        Args:
            call: The request's means.
            resource_id: The id, or for an import any form of it.
            previous: The saved state, or the inputs; empty for an import.
        """

    @abstractmethod
    def update(
        self,
        call: Call,
        resource_id: str,
        state: Properties,
        inputs: Properties,
        changed: frozenset[str],
    ) -> Properties:
        """Change what differs; return the new state."""

    @abstractmethod
    def delete(self, call: Call, resource_id: str, state: Properties) -> None:
        """Remove the resource; one that is already gone is a success [§1.7]."""

    def guard(self, resource_id: str, state: Properties) -> bool:
        """Judge by the saved state whether a deletion may go on [§0.4].

        Returns:
            False if the resource is only to be forgotten.

        Raises:
            ProviderError: the state forbids it.
        """
        policy = state.get("deletionPolicy")
        if policy == "PREVENT":
            raise ProviderError(
                f"cannot destroy {self.guard_name(resource_id)} without setting "
                'deletion_policy="DELETE" and running `terraform apply`'
            )
        return policy != "ABANDON"

    def guard_name(self, resource_id: str) -> str:
        """Return how the refusal of a deletion names the resource [§2]."""
        return f'"{resource_id}"'


def without_defaults(inputs: Mapping[str, Any]) -> Properties:
    """Drop the `__defaults` lists, which belong to inputs alone."""
    cleaned: Properties = {}
    for name, value in inputs.items():
        if name == DEFAULTS:
            continue
        if isinstance(value, Mapping):
            cleaned[name] = without_defaults(value)
        elif isinstance(value, list):
            cleaned[name] = [
                without_defaults(item) if isinstance(item, Mapping) else item for item in value
            ]
        else:
            cleaned[name] = value
    return cleaned
