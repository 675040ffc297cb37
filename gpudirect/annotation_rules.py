"""What stands in the annotations of a Pod that somebody wired by hand.

Owns the judgement whether an annotation fits the stack. Does not own the right values
(`workload_environment`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpudirect.pod_reading import Report, containers_of, fields
from gpudirect.stacks import GpuStack
from gpudirect.workload_environment import (
    DEFAULT_INTERFACE,
    DEVICES_PREFIX,
    INTERFACES,
    Environment,
    interface_list,
)

_FIX = "Remove the annotation: the right one is put in."


def check_annotation(key: str, text: str, environment: Environment, report: Report) -> bool:
    """Report a value that does not fit the stack.

    Args:
        key: One of the annotations that `pod_annotations` makes.
        text: Its value as it was found.
        environment: What the stack offers.
        report: Takes the findings.

    Returns:
        Whether the value says what this project would write, in whatever layout.
    """
    path = f"metadata.annotations[{key}]"
    problem: tuple[str | None, str] | None
    if key == DEFAULT_INTERFACE:
        problem = None if text == "eth0" else (text, "the Pod's first interface must be eth0")
    elif key == INTERFACES:
        problem = _interfaces_problem(text, environment)
    else:
        problem = _devices_problem(text, environment.stack)
    if problem is not None:
        report.error(path, problem[0], problem[1], _FIX)
    return problem is None


def check_annotation_keys(template: Mapping[str, Any], stack: GpuStack, report: Report) -> None:
    """Report devices for a container that is not there [R10]."""
    names = {view.name for view in containers_of(template["spec"])} | {stack.daemon_container}
    for key in fields(template, "metadata", "annotations"):
        container = str(key).removeprefix(DEVICES_PREFIX)
        if container != key and container not in names:
            report.error(
                f"metadata.annotations[{key}]",
                None,
                f"gives devices to a container {container!r} that the Pod does not have",
                _FIX,
            )


def _interfaces_problem(text: str, environment: Environment) -> tuple[str | None, str] | None:
    """Return what is wrong with an interface list [R01, R03]: the value seen and the words."""
    try:
        entries = json.loads(text)
    except ValueError as error:
        return None, f"{INTERFACES} is no JSON ({error}), and GKE reads only that"
    expected = interface_list(environment)
    if entries == expected:
        return None
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        return text, f"{INTERFACES} is not a list of objects with interfaceName and network"
    found = _pairs(entries)
    if len(entries) != len(expected):
        return found, (
            f"{INTERFACES} has {len(entries)} entries, expected {len(expected)}: eth0 and one for "
            f"each of the {environment.stack.nic_count} GPU NICs"
        )
    return found, f"{INTERFACES} does not fit this stack, expected {_pairs(expected)}"


def _devices_problem(text: str, stack: GpuStack) -> tuple[str, str] | None:
    """Return which devices a list lacks (facts gpudirect.md 4)."""
    import yaml

    try:
        found = {str(entry["path"]) for entry in yaml.safe_load(text)}
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        return text, "the daemon's device list is no YAML list of objects with a path"
    missing = [device for device in stack.devices if device not in found]
    if not missing:
        return None
    return ", ".join(sorted(found)), f"the daemon's device list lacks {', '.join(missing)}"


def _pairs(entries: list[dict[str, Any]]) -> str:
    return ", ".join(f"{entry.get('interfaceName')}={entry.get('network')}" for entry in entries)
