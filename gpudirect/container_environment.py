"""Merging of a stack's NCCL variables into the environment a user gave a container.

Owns which of two values wins, and the joined library path. The user's value wins where the plug-in
can live with it; one entry per name comes out [R63].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpudirect.pod_reading import ContainerView, Report
from gpudirect.tree_edit import TreeEditor
from gpudirect.workload_environment import DEBUG_VARIABLES, LIBRARY_PATH, MANY_NODES

_LOUD = ("INFO", "TRACE")
# Values that take NCCL off the GPU network however well the rest is set.
_BYPASS = ("NCCL_NET", "NCCL_NET_PLUGIN")


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedVariables:
    """What a GPU container's environment shall hold.

    Attributes:
        values: Variables by name, in the order to add them.
        previous: What an older render had put in; an entry equal to it may be changed or removed.
        required: Variables whose values the plug-in enforces.
        debug: Variables of the debug log that was asked for.
        library_path: Folder that `LD_LIBRARY_PATH` must reach.
        nodes: How many nodes the workload spans.
    """

    values: Mapping[str, str]
    previous: Mapping[str, str]
    required: Mapping[str, str]
    debug: Mapping[str, str]
    library_path: str
    nodes: int


def merge_variables(
    editor: TreeEditor,
    container: dict[str, Any],
    view: ContainerView,
    wanted: WantedVariables,
    report: Report,
) -> None:
    """Put the wanted variables into a container that the editor gave out.

    Args:
        editor: Edits the template.
        container: The container to change.
        view: The container as the user wrote it, for the findings.
        wanted: What to put in.
        report: Takes the findings.
    """
    entries = editor.sequence(container, "env")
    _leave_last_of_each_name(entries, view, report)
    _update_own_entries(editor, entries, wanted)
    present = {entry["name"]: index for index, entry in enumerate(entries)}
    _join_library_path(editor, entries, present, view, wanted.library_path, report)
    for name, value in wanted.values.items():
        if name not in present:
            entries.append({"name": name, "value": value})
        else:
            _compare(entries[present[name]], value, wanted, view, report)
    for name in _BYPASS:
        if name in present and name not in wanted.values:
            report.warning(
                f"{view.path}.env",
                f"{name}={entries[present[name]].get('value')}",
                f"container {view.name!r} chooses its own NCCL network with {name}, so the GPU "
                "network may not be used",
                f"Remove {name} unless that is meant.",
            )
    for entry in entries:
        _check_quotes(entry, view, report)
    own = {entry["name"]: entry.get("value") for entry in entries}
    if (
        wanted.nodes >= MANY_NODES
        and own.get("NCCL_DEBUG") in _LOUD
        and not own.get("NCCL_DEBUG_FILE")
    ):
        report.warning(
            f"{view.path}.env[NCCL_DEBUG]",
            own["NCCL_DEBUG"],
            f"container {view.name!r} has every rank on {wanted.nodes} nodes log into one place",
            "Set NCCL_DEBUG to WARN, or NCCL_DEBUG_FILE to /DIRECTORY/NAME.%h.%p.",
        )


def _leave_last_of_each_name(entries: list[Any], view: ContainerView, report: Report) -> None:
    """Remove all but the last entry of each name, the one that Kubernetes uses."""
    last = {entry["name"]: index for index, entry in enumerate(entries)}
    if len(last) == len(entries):
        return
    for index in reversed(range(len(entries))):
        name = entries[index]["name"]
        if last[name] != index:
            report.warning(
                f"{view.path}.env[{index}]",
                name,
                f"container {view.name!r} sets {name} more than once; the last one counts",
                "Only that one was left.",
            )
            del entries[index]


def _update_own_entries(editor: TreeEditor, entries: list[Any], wanted: WantedVariables) -> None:
    """Bring what an older render put in up to date, in its place."""
    for index in reversed(range(len(entries))):
        entry = entries[index]
        name = entry["name"]
        if name not in wanted.previous or entry.get("value") != wanted.previous[name]:
            continue
        if name not in wanted.values:
            del entries[index]
        elif entry["value"] != wanted.values[name]:
            editor.mapping(entries, index)["value"] = wanted.values[name]


def _join_library_path(
    editor: TreeEditor,
    entries: list[Any],
    present: Mapping[str, int],
    view: ContainerView,
    folder: str,
    report: Report,
) -> None:
    if LIBRARY_PATH not in present:
        entries.append({"name": LIBRARY_PATH, "value": folder})
        return
    index = present[LIBRARY_PATH]
    entry = entries[index]
    if entry.get("valueFrom") is not None:
        report.warning(
            f"{view.path}.env[{index}]",
            "valueFrom",
            f"container {view.name!r} takes {LIBRARY_PATH} from elsewhere; it must hold {folder}",
            f"Make sure that it does, or set it as a value to have {folder} joined in.",
        )
        return
    value = str(entry.get("value") or "")
    if folder not in value.split(":"):
        # In front: a libnccl-net.so of the image would silently take the plug-in's place
        # (facts gpudirect.md 11.17).
        editor.mapping(entries, index)["value"] = f"{folder}:{value}" if value else folder


def _compare(
    entry: Mapping[str, Any],
    value: str,
    wanted: WantedVariables,
    view: ContainerView,
    report: Report,
) -> None:
    name = entry["name"]
    path = f"{view.path}.env[{name}]"
    if entry.get("valueFrom") is not None:
        report.warning(
            path,
            "valueFrom",
            f"container {view.name!r} takes {name} from elsewhere; {value!r} was to be put in",
            "Make sure that it is the same, or remove the entry.",
        )
        return
    own = str(entry.get("value") or "")
    if own == value or '"' in own:
        return
    if name in wanted.required:
        report.error(
            path,
            own,
            f"container {view.name!r} sets {name} to {own!r}, but the plug-in ends a workload "
            f"whose value is not {value!r}",
            f"Remove the entry, or set it to {value!r}.",
        )
    elif name not in DEBUG_VARIABLES or name in wanted.debug:
        report.warning(
            path,
            own,
            f"container {view.name!r} sets {name} to {own!r}, {value!r} was to be put in; "
            "yours was kept",
            "Remove the entry to have the other.",
        )


def _check_quotes(entry: Mapping[str, Any], view: ContainerView, report: Report) -> None:
    name, value = str(entry["name"]), str(entry.get("value") or "")
    if name.startswith("NCCL_") and ('"' in value or "'" in value):
        report.error(
            f"{view.path}.env[{name}]",
            value,
            f"container {view.name!r} sets {name} to a value that holds quote marks, which NCCL "
            "takes as part of it",
            "Write the value without them.",
        )
