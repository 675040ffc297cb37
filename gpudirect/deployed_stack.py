"""What a deployed Pulumi stack offers to workloads, read from its outputs.

Owns the call of `pulumi stack output` and the reading of its answer. Knows nothing of clusters:
everything comes from the stack's state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpudirect.installed_programs import NoAnswerError, ask
from gpudirect.releases import ReleaseLockError, load_releases
from gpudirect.stacks import STACKS
from gpudirect.workload_environment import Environment


class StackOutputError(ValueError):
    """A stack whose outputs cannot be had or do not say enough; the text says what to do."""


def read_stack_outputs(stack: str, *, program: Path | None = None) -> dict[str, Any]:
    """Return the outputs of a Pulumi stack.

    Args:
        stack: Name of the stack.
        program: Folder of the Pulumi program; this checkout where not given.

    Raises:
        StackOutputError: no Pulumi, no such stack, or an answer that is none.
    """
    command = ("pulumi", "stack", "output", "--json", "--non-interactive", "--stack", stack)
    try:
        text = ask(*command, folder=program)
    except NoAnswerError as error:
        raise StackOutputError(
            f"the outputs of stack {stack!r} cannot be read: {error}. `pulumi stack ls` lists the "
            "stacks; without one say --gpu-stack and --networks."
        ) from error
    try:
        outputs = json.loads(text)
    except ValueError as error:
        raise StackOutputError(
            f"pulumi's answer about stack {stack!r} is no JSON: {text[:200]!r}"
        ) from error
    if not isinstance(outputs, dict):
        raise StackOutputError(f"stack {stack!r} has no outputs. Run pulumi up first.")
    return outputs


def environment_of(stack: str, outputs: Mapping[str, Any]) -> Environment:
    """Return what a stack offers to workloads.

    Args:
        stack: Name of the stack, for messages.
        outputs: Its outputs.

    Raises:
        StackOutputError: an output is missing or not what this version of the program writes.
    """
    missing = [name for name in ("gpuStack", "networks", "release") if name not in outputs]
    if missing:
        raise StackOutputError(
            f"stack {stack!r} has no output {' and '.join(missing)}. Run pulumi up first, or say "
            "--gpu-stack and --networks."
        )
    gpu_stack = STACKS.get(str(outputs["gpuStack"]))
    if gpu_stack is None:
        raise StackOutputError(
            f"stack {stack!r}: output gpuStack is {outputs['gpuStack']!r}, expected one of "
            f"{', '.join(STACKS)}"
        )
    try:
        release = outputs["release"]
        return Environment(
            stack=gpu_stack,
            release=load_releases().get(str(release["name"]), gpu_stack.name),
            networks=tuple(str(network["network"]) for network in outputs["networks"]),
            profile=str(release.get("profile", "default")),
            image_registry=str(release.get("imageRegistry", "")),
            node_selector={
                str(key): str(value) for key, value in outputs.get("podNodeSelector", {}).items()
            },
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise StackOutputError(
            f"stack {stack!r}: its outputs networks and release are not what this version writes "
            f"({error!r}). Run pulumi up with this version."
        ) from error
    except (ReleaseLockError, ValueError) as error:
        raise StackOutputError(f"stack {stack!r}: {error}") from error
