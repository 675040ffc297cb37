"""Node selectors of a Pod on the GPU network.

Owns which selectors are put in beside the user's: GPUs, driver, and the stack's capacity choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpudirect.pod_reading import Report, fields
from gpudirect.tree_edit import TreeEditor
from gpudirect.workload_environment import Environment, RenderRecord
from gpudirect.workload_rules import (
    ACCELERATOR,
    COMPUTE_CLASS,
    DRIVER,
    NOT_WITH_A_CLASS,
    custom_class,
    selected_keys,
    selected_values,
)

_DRIVER_VERSION = "latest"

# One choice in several keys: a user who makes it wants no half of the stack's.
_CAPACITY_CHOICE = frozenset(
    f"cloud.google.com/{name}"
    for name in (
        "compute-class",
        "gke-flex-start",
        "gke-max-run-duration-seconds",
        "gke-provisioning",
        "gke-spot",
        "reservation-affinity",
        "reservation-name",
        "reservation-project",
    )
)


def put_in_selectors(
    editor: TreeEditor,
    spec: dict[str, Any],
    environment: Environment,
    record: RenderRecord | None,
    report: Report,
) -> tuple[str, ...]:
    """Put the stack's selectors into a Pod spec.

    Args:
        editor: Edits the template.
        spec: The Pod spec, for change.
        environment: What the stack offers.
        record: What an older render had put in, if there was one.
        report: Takes the findings.

    Returns:
        The keys that are this project's own and not the user's.
    """
    own = set(record.selectors) if record else set()
    if own & set(fields(spec, "nodeSelector")):
        selectors = editor.mapping(spec, "nodeSelector")
        for key in own:
            selectors.pop(key, None)
    wanted = _wanted(spec, environment, report)
    asked = selected_keys(spec)
    added = []
    for key, value in wanted.items():
        if key in asked and not _allows(spec, key, value):
            _report_other_value(spec, key, value, asked[key], report)
        elif key not in fields(spec, "nodeSelector"):
            editor.mapping(spec, "nodeSelector")[key] = value
            added.append(key)
    if not fields(spec, "nodeSelector"):
        spec.pop("nodeSelector", None)
    return tuple(sorted(added))


def _wanted(spec: Mapping[str, Any], environment: Environment, report: Report) -> dict[str, str]:
    capacity = dict(environment.node_selector)
    users = selected_keys(spec)
    chosen = sorted(_CAPACITY_CHOICE & users.keys())
    stack_choice = {k: v for k, v in capacity.items() if k in _CAPACITY_CHOICE}
    if stack_choice and not all(
        key in stack_choice and _allows(spec, key, stack_choice[key]) for key in chosen
    ):
        report.warning(
            users[chosen[0]],
            fields(spec, "nodeSelector").get(chosen[0]),
            f"the Pod makes a capacity choice of its own ({', '.join(chosen)}); the stack's is "
            f"{', '.join(sorted(stack_choice))}; yours was kept",
            "Remove the selectors to take the stack's choice.",
        )
        capacity = {k: v for k, v in capacity.items() if k not in _CAPACITY_CHOICE}
    name = custom_class(spec) or capacity.get(COMPUTE_CLASS)
    if name is not None and name != "Accelerator":
        # GKE takes GPUs and driver from the class and refuses them on the Pod.
        for key in sorted(NOT_WITH_A_CLASS & users.keys()):
            if custom_class(spec) is None:
                report.error(
                    users[key],
                    fields(spec, "nodeSelector").get(key),
                    f"the stack's capacity comes from the ComputeClass {name!r}, beside which GKE "
                    f"refuses {key}",
                    "Remove the selector.",
                )
        return {k: v for k, v in capacity.items() if k not in NOT_WITH_A_CLASS}
    return {
        ACCELERATOR: environment.stack.accelerator,
        DRIVER: _DRIVER_VERSION,
        **capacity,
    }


def _allows(spec: Mapping[str, Any], key: str, value: str) -> bool:
    return all(value in values for _path, values in selected_values(spec, key))


def _report_other_value(
    spec: Mapping[str, Any], key: str, value: str, path: str, report: Report
) -> None:
    if key == ACCELERATOR:
        # The rules refuse another accelerator.
        return
    values = [v for _path, found in selected_values(spec, key) for v in found]
    report.warning(
        path,
        ", ".join(values),
        f"the Pod selects {key} itself, the stack wants {value!r}; yours was kept",
        "Remove the selector to take the stack's value.",
    )
