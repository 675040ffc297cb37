"""From what a user says on the command line or in a function's config to an environment.

Owns the defaults: a deployed stack's outputs first, what is said beside them wins. Does not own the
outputs (`deployed_stack`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpudirect.deployed_stack import environment_of, read_stack_outputs
from gpudirect.releases import ReleaseLockError, is_registry, load_releases
from gpudirect.stacks import STACKS
from gpudirect.workload_environment import Environment

_NETWORK_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_RESERVED_NETWORKS = ("default", "pod-network")


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentOptions:
    """How a user says where workloads will run; None stands for what was not said.

    Attributes:
        pulumi_stack: Pulumi stack whose outputs to read.
        program: Folder of the Pulumi program.
        gpu_stack: Name of the GPU stack.
        networks: Names of the `Network` objects.
        profile: NCCL profile.
        release: Name of a release.
        image_registry: Registry host in place of the published one.
        node_selector: Selectors of the capacity choice.
    """

    pulumi_stack: str | None = None
    program: Path | None = None
    gpu_stack: str | None = None
    networks: tuple[str, ...] | None = None
    profile: str | None = None
    release: str | None = None
    image_registry: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> Environment:
        """Return the environment that is meant.

        Raises:
            ValueError: it cannot be told, or parts do not go together; the text says what to say.
        """
        if self.networks is not None:
            _check_networks(self.networks)
        if self.pulumi_stack:
            environment = environment_of(
                self.pulumi_stack, read_stack_outputs(self.pulumi_stack, program=self.program)
            )
            if self.gpu_stack not in (None, environment.stack.name):
                raise ValueError(
                    f"stack {self.pulumi_stack!r} is {environment.stack.name}, not "
                    f"{self.gpu_stack}. Leave --gpu-stack out."
                )
        elif self.gpu_stack:
            if self.gpu_stack not in STACKS:
                raise ValueError(
                    f"GPU stack: {self.gpu_stack!r}, expected one of {', '.join(STACKS)}"
                )
            stack = STACKS[self.gpu_stack]
            environment = Environment(
                stack=stack,
                release=load_releases().default(stack.name),
                networks=stack.default_network_names,
            )
        else:
            raise ValueError(
                "where will the Pods run? Say --stack NAME for a deployed Pulumi stack, or "
                f"--gpu-stack {' or '.join(STACKS)}."
            )
        return replace(environment, **self._changes(environment))

    def _changes(self, environment: Environment) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if self.networks is not None:
            changes["networks"] = self.networks
        if self.profile is not None:
            changes["profile"] = self.profile
        if self.release is not None:
            try:
                changes["release"] = load_releases().get(self.release, environment.stack.name)
            except ReleaseLockError as error:
                raise ValueError(str(error)) from error
        if self.image_registry is not None:
            registry = self.image_registry.rstrip("/")
            if registry and not is_registry(registry):
                raise ValueError(
                    f"image registry: {self.image_registry!r}, expected a host, with a path where "
                    "the mirror has one, such as us-east4-docker.pkg.dev/PROJECT/REPOSITORY"
                )
            changes["image_registry"] = registry
        if self.node_selector:
            changes["node_selector"] = {**environment.node_selector, **self.node_selector}
        return changes


def split_networks(text: str | None) -> tuple[str, ...] | None:
    """Read `vpc1,vpc2,...`; None stands for nothing said."""
    return None if text is None else tuple(name.strip() for name in text.split(","))


def selectors_from(texts: Iterable[str]) -> dict[str, str]:
    """Read `KEY=VALUE` pairs.

    Raises:
        ValueError: a text is no such pair.
    """
    selectors = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ValueError(
                f"node selector: {text!r}, expected KEY=VALUE such as "
                "cloud.google.com/gke-spot=true"
            )
        selectors[key] = value
    return selectors


def _check_networks(names: tuple[str, ...]) -> None:
    for name in names:
        if not _NETWORK_NAME.fullmatch(name):
            raise ValueError(
                f"networks: {name!r} is no name of a Network object, expected names such as "
                "vpc1,vpc2"
            )
        if name in _RESERVED_NETWORKS:
            raise ValueError(
                f"networks: {name!r} is the cluster's own network on eth0; name those of the GPU "
                "NICs only"
            )
