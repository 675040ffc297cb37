"""What makes a release lock wrong: parts that are missing, or that do not go together.

Owns the rules. Does not own reading the file nor what is made of it (`releases`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

from gpudirect.stacks import STACKS

_SECTIONS: Mapping[str, type] = {
    "sources": dict,
    "images": dict,
    "floors": dict,
    "newestGkeDriver": str,
    "daemonFlags": dict,
    "references": dict,
    "environments": dict,
    "releases": list,
}
_IMAGES = ("pause", "deviceInjector", "preInstallation")
_FIELDS: Mapping[str, type] = {
    "name": str,
    "stack": str,
    "default": bool,
    "note": str,
    "source": str,
    "plugin": str,
    "daemon": str,
    "daemonCommand": list,
    "daemonArgs": list,
    "ncclVersion": str,
    "leastDriver": str,
    "profiles": dict,
    "profileFiles": dict,
    "required": dict,
}
_FLOOR_FIELDS: Mapping[str, type] = {
    "version": str,
    "source": str,
    "minor": str,
    "advised": bool,
}

_VERSION = re.compile(r"v\d+\.\d+\.\d+")
_GKE_VERSION = re.compile(r"\d+\.\d+\.\d+-gke\.\d+")
_CPU_RANGES = re.compile(r"(eth\d+):(\d+-\d+(?:,\d+-\d+)*)")


_SOURCE = re.compile(r"\[([A-Z])\]")


def sources_in(text: str) -> list[str]:
    """Return the letters that stand for sources in a text."""
    return _SOURCE.findall(text)


def lock_problems(data: object) -> Iterator[str]:
    """Yield every problem of a lock that has been read from YAML, one sentence each."""
    if not isinstance(data, dict):
        yield f"holds {type(data).__name__}, expected a mapping with {', '.join(_SECTIONS)}"
        return
    wrong = [name for name, kind in _SECTIONS.items() if not isinstance(data.get(name), kind)]
    if wrong:
        yield f"lacks {', '.join(wrong)}, or has them in another form"
        return
    checked = cast("dict[str, Any]", data)
    for name in _IMAGES:
        if not isinstance(checked["images"].get(name), str):
            yield f"images: lacks {name}"
    texts = (item.get("source") for item in _sourced(checked))
    for letter in sorted({letter for text in texts for letter in sources_in(str(text))}):
        if letter not in checked["sources"]:
            yield f"sources: nothing stands for [{letter}]"
    for name, floors in checked["floors"].items():
        yield from (f"floors.{name}: {p}" for p in _floor_problems(floors))
    for name, entry in checked["references"].items():
        yield from (f"references.{name}: {p}" for p in _reference_problems(entry))
    for name, environment in checked["environments"].items():
        yield from (f"environments.{name}: {p}" for p in environment_problems(environment))
    releases = []
    for number, entry in enumerate(checked["releases"]):
        where = entry.get("name", number) if isinstance(entry, dict) else number
        problems = [f"releases.{where}: {p}" for p in _form_problems(entry)]
        yield from problems
        if not problems:
            releases.append(entry)
            yield from (f"releases.{where}: {p}" for p in _release_problems(entry, checked))
    yield from (f"releases: {p}" for p in _set_problems(releases))


def _sourced(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    listed = [data["releases"], *(data["floors"].values()), list(data["references"].values())]
    for items in listed:
        yield from (item for item in items if isinstance(item, dict))


def _floor_problems(floors: object) -> Iterator[str]:
    if not isinstance(floors, list):
        yield f"holds {type(floors).__name__}, expected a list"
        return
    for floor in floors:
        if not isinstance(floor, dict) or not {"version", "source"} <= set(floor):
            yield f"{floor} lacks version or source"
            continue
        for name, value in floor.items():
            if not isinstance(value, _FLOOR_FIELDS.get(name, type(None))):
                yield f"{name}: {value!r} is unknown or of another form"
        if not _GKE_VERSION.fullmatch(str(floor["version"])):
            yield f"version: {floor['version']} is no full GKE version"
        elif not str(floor["version"]).startswith(f"{floor.get('minor', '')}"):
            yield f"minor: {floor['minor']} is not that of {floor['version']}"


def _reference_problems(entry: object) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"holds {type(entry).__name__}, expected a mapping"
        return
    lacking = [
        name
        for name in ("curve", "nodes", "collective", "source", "measuredWith")
        if not entry.get(name)
    ]
    if lacking:
        yield f"lacks {', '.join(lacking)}"
        return
    for point in entry["curve"]:
        if not (isinstance(point, list) and len(point) == 3 and all(_is_number(n) for n in point)):
            yield f"curve: {point} is not [bytes, out of place, in place]"
            return
    sizes = [point[0] for point in entry["curve"]]
    if not all(left < right for left, right in pairwise(sizes)):
        yield "curve: sizes must grow"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def environment_problems(environment: object) -> Iterator[str]:
    """Yield what is wrong with a set of NCCL settings: quotes, or CPUs bound twice [R17]."""
    if not isinstance(environment, dict):
        yield f"holds {type(environment).__name__}, expected a mapping"
        return
    for name, value in environment.items():
        if not isinstance(value, str):
            yield f"{name}: {value!r} is no text, put it in quotes"
        elif '"' in value or "'" in value:
            yield f"{name}: the value {value} holds a quote mark"
    prefix = "NCCL_GPUDIRECTTCPX_"
    if f"{prefix}CTRL_DEV" not in environment:
        return
    wanted = set(str(environment.get(f"{prefix}SOCKET_IFNAME", "")).split(","))
    bound = {way: _cpus(environment.get(f"{prefix}{way}_BINDINGS")) for way in ("TX", "RX")}
    for way, cpus in bound.items():
        if set(cpus) != wanted:
            yield f"{way} bindings name {sorted(cpus)}, the NICs are {sorted(wanted)}"
    for nic in sorted(set(bound["TX"]) & set(bound["RX"])):
        shared = bound["TX"][nic] & bound["RX"][nic]
        if shared:
            yield f"{nic} transmits and receives on the CPUs {sorted(shared)}"


def _cpus(bindings: object) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for nic, ranges in _CPU_RANGES.findall(str(bindings or "")):
        found[nic] = set()
        for span in ranges.split(","):
            first, last = span.split("-")
            found[nic] |= set(range(int(first), int(last) + 1))
    return found


def _form_problems(entry: object) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"holds {type(entry).__name__}, expected a mapping"
        return
    wrong = [name for name, kind in _FIELDS.items() if not isinstance(entry.get(name), kind)]
    if "date" not in entry:
        wrong.append("date")
    if wrong:
        yield f"lacks {', '.join(wrong)}, or has it in another form"


def _release_problems(entry: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    stack = entry["stack"]
    if stack not in STACKS:
        yield f"stack: got {stack}, expected one of {', '.join(STACKS)}"
    elif stack not in data["references"]:
        yield f"there is no reference for {stack}"
    versions = {part: entry[part].rpartition(":")[2] for part in ("plugin", "daemon")}
    incomplete = [part for part, version in versions.items() if not _VERSION.fullmatch(version)]
    for part in incomplete:
        yield f"{part}: {entry[part]} has no version, half a pair is none"
    if "plugin" not in incomplete and not entry["name"].endswith(f"-{versions['plugin']}"):
        yield f"the name does not end with the plug-in's version {versions['plugin']}"
    if "daemon" not in incomplete:
        flags = data["daemonFlags"].get(stack, {})
        yield from _argument_problems(entry, versions["daemon"], flags)
    if "default" not in entry["profiles"]:
        yield "profiles: there is no profile `default`"
    for profile, name in entry["profiles"].items():
        if name not in data["environments"]:
            yield f"profiles.{profile}: there is no environment {name}"
    for profile in entry["profileFiles"]:
        if profile not in entry["profiles"]:
            yield f"profileFiles.{profile}: there is no such profile"
    default = data["environments"].get(entry["profiles"].get("default"), {})
    for name, value in entry["required"].items():
        if default.get(name) != value:
            yield f"the default profile lacks {name}={value}, which its checker enforces"


def _argument_problems(
    entry: Mapping[str, Any], daemon: str, flags: Mapping[str, Any]
) -> Iterator[str]:
    text = " ".join(map(str, (*entry["daemonCommand"], *entry["daemonArgs"])))
    given = set(re.findall(r"--\w+", text))
    for flag, version in flags.get("retired", {}).items():
        if flag in given and _numbers(daemon) >= _numbers(version):
            yield f"daemonArgs: {flag} is gone since {version}, the daemon is {daemon}"
    for flag in flags.get("never", ()):
        if flag in given:
            yield f"daemonArgs: no daemon takes {flag}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.removeprefix("v").split("."))


def _set_problems(releases: list[Mapping[str, Any]]) -> Iterator[str]:
    for part in ("name", "plugin", "daemon"):
        values = [entry[part] for entry in releases]
        for value in sorted({value for value in values if values.count(value) > 1}):
            owners = ", ".join(entry["name"] for entry in releases if entry[part] == value)
            yield f"{part} {value} is in {owners}: it belongs to one release"
    for stack in STACKS:
        defaults = [e["name"] for e in releases if e["stack"] == stack and e["default"]]
        if len(defaults) != 1:
            yield f"{stack} has {len(defaults)} defaults, expected one"
