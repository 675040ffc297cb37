"""The release lock: reads `releases.yaml` and refuses one whose parts do not fit together.

Owns what a release is and how an image gets another registry. Does not own the choice of a release
(`settings`) nor what is made of it (`workloads`, `manifests`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import yaml

from gpudirect.stacks import STACKS

RELEASES_FILE = Path(__file__).with_name("releases.yaml")

Curve = tuple[tuple[int, float], ...]
"""Points of (message size in bytes, bus bandwidth in GB/s), by size."""

_VERSION = re.compile(r"v\d+\.\d+\.\d+")
_CPU_RANGES = re.compile(r"(eth\d+):(\d+-\d+(?:,\d+-\d+)*)")


class ReleaseLockError(ValueError):
    """The lock, or a name looked up in it, is wrong; the text lists every problem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """Bandwidth that a stack is known to reach.

    Attributes:
        curve: The lower of out-of-place and in-place at each size.
        nodes: How many nodes it was measured with.
        collective: Which collective.
        source: Where it was published.
    """

    curve: Curve
    nodes: int
    collective: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One pair of plug-in and daemon with all that belongs to it.

    Attributes:
        name: Value of the config key `release`.
        stack: Name of the GPU stack.
        plugin_image: Image of installer and NCCL test, with tag.
        daemon_image: Image of the receive daemon, with tag.
        daemon_command: `command` of the daemon's container.
        daemon_args: `args` of the daemon's container, as that version wants them.
        profiles: Profile name to NCCL environment.
        profile_files: Profile name to the script that the installer puts on the node.
        required_environment: What the guest config checker of the default profile enforces.
        least_driver: Least GPU driver (the page).
        qualified_driver: Driver that the release was qualified with, or empty if not published.
        source: Where the pair was published.
        date: When, ISO 8601.
        is_default: Whether the stack takes it when config names none.
        reference: Bandwidth to compare a run with.
    """

    name: str
    stack: str
    plugin_image: str
    daemon_image: str
    daemon_command: tuple[str, ...]
    daemon_args: tuple[str, ...]
    profiles: Mapping[str, Mapping[str, str]]
    profile_files: Mapping[str, str]
    required_environment: Mapping[str, str]
    least_driver: str
    qualified_driver: str
    source: str
    date: str
    is_default: bool
    reference: Reference

    @property
    def plugin_version(self) -> str:
        """Tag of the plug-in image."""
        return self.plugin_image.rpartition(":")[2]

    @property
    def daemon_version(self) -> str:
        """Tag of the daemon image."""
        return self.daemon_image.rpartition(":")[2]

    @property
    def reference_bandwidth(self) -> Curve:
        """The reference curve."""
        return self.reference.curve


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseLock:
    """All releases, and the images and floors that they share.

    Attributes:
        gke_floor: Least GKE version of both stacks.
        minor_floors: Stack name to GKE minor version to its own least version.
    """

    releases: tuple[Release, ...]
    pause_image: str
    injector_image: str
    pre_installation_image: str
    gke_floor: str
    minor_floors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def for_stack(self, stack: str) -> tuple[Release, ...]:
        """Return the releases of a stack, oldest first."""
        return tuple(release for release in self.releases if release.stack == stack)

    def default(self, stack: str) -> Release:
        """Return the release that a stack takes when config names none."""
        return next(release for release in self.for_stack(stack) if release.is_default)

    def get(self, name: str, stack: str) -> Release:
        """Return a release by name; the empty name stands for the default.

        Raises:
            ReleaseLockError: no such release for this stack; the text names those that there are.
        """
        if not name:
            return self.default(stack)
        known = {release.name: release for release in self.for_stack(stack)}
        if name in known:
            return known[name]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ReleaseLockError(
            f"release: got {name!r}, expected one of {', '.join(known)} for {stack}{hint}"
        )


def with_registry(image: str, registry: str) -> str:
    """Return an image reference with another registry host (and path in front, if given).

    The repository path stays, so that a mirror keeps the published layout; an image without a
    registry, such as `ubuntu`, is one of Docker Hub's library.
    """
    if not registry:
        return image
    host, slash, path = image.partition("/")
    if not slash or ("." not in host and ":" not in host):
        path = image if slash else f"library/{image}"
    return f"{registry.rstrip('/')}/{path}"


def load_releases(text: str | None = None) -> ReleaseLock:
    """Return the lock, checked.

    Args:
        text: YAML in the form of `releases.yaml`; None reads that file, once.

    Raises:
        ReleaseLockError: every problem of the text, one a line.
    """
    return _packaged() if text is None else _load(text)


@cache
def _packaged() -> ReleaseLock:
    return _load(RELEASES_FILE.read_text(encoding="utf-8"))


def _load(text: str) -> ReleaseLock:
    # The C loader, where PyYAML has it, takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        raise ReleaseLockError(f"releases.yaml: not YAML: {error}") from error
    problems = [f"releases.yaml: {problem}" for problem in _problems(data)]
    if problems:
        raise ReleaseLockError("\n".join(problems))
    references = {name: _reference(entry) for name, entry in data["references"].items()}
    return ReleaseLock(
        releases=tuple(
            _release(entry, data["environments"], references) for entry in data["releases"]
        ),
        pause_image=data["images"]["pause"],
        injector_image=data["images"]["deviceInjector"],
        pre_installation_image=data["images"]["preInstallation"],
        gke_floor=data["floors"]["page"],
        minor_floors=MappingProxyType(
            {k: MappingProxyType(v) for k, v in data["floors"].items() if isinstance(v, dict)}
        ),
    )


def _reference(entry: Mapping[str, Any]) -> Reference:
    return Reference(
        curve=tuple((int(size), float(min(ways))) for size, *ways in entry["curve"]),
        nodes=entry["nodes"],
        collective=entry["collective"],
        source=entry["source"],
    )


def _release(
    entry: Mapping[str, Any],
    environments: Mapping[str, Mapping[str, str]],
    references: Mapping[str, Reference],
) -> Release:
    return Release(
        name=entry["name"],
        stack=entry["stack"],
        plugin_image=entry["plugin"],
        daemon_image=entry["daemon"],
        daemon_command=tuple(entry["daemonCommand"]),
        daemon_args=tuple(entry["daemonArgs"]),
        profiles=MappingProxyType(
            {
                profile: MappingProxyType(dict(environments[name]))
                for profile, name in entry["profiles"].items()
            }
        ),
        profile_files=MappingProxyType(dict(entry["profileFiles"])),
        required_environment=MappingProxyType(dict(entry["required"])),
        least_driver=entry["leastDriver"],
        qualified_driver=entry.get("qualifiedDriver", ""),
        source=entry["source"],
        date=str(entry["date"]),
        is_default=entry["default"],
        reference=references[entry["stack"]],
    )


_SECTIONS = {
    "images": dict,
    "floors": dict,
    "references": dict,
    "environments": dict,
    "releases": list,
}
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "stack": str,
    "default": bool,
    "source": str,
    "plugin": str,
    "daemon": str,
    "daemonCommand": list,
    "daemonArgs": list,
    "leastDriver": str,
    "profiles": dict,
    "profileFiles": dict,
    "required": dict,
}


def _problems(data: object) -> Iterator[str]:
    if not isinstance(data, dict):
        yield f"holds {type(data).__name__}, expected a mapping with {', '.join(_SECTIONS)}"
        return
    wrong = [name for name, kind in _SECTIONS.items() if not isinstance(data.get(name), kind)]
    if wrong:
        yield f"lacks {', '.join(wrong)}, or has them in another form"
        return
    checked = cast("dict[str, Any]", data)
    for name, entry in checked["references"].items():
        yield from (f"references.{name}: {p}" for p in _reference_problems(entry))
    for name, environment in checked["environments"].items():
        yield from (f"environments.{name}: {p}" for p in environment_problems(environment))
    for number, entry in enumerate(checked["releases"]):
        where = entry.get("name", number) if isinstance(entry, dict) else number
        yield from (f"releases.{where}: {p}" for p in _release_problems(entry, checked))
    names = [entry.get("name") for entry in checked["releases"] if isinstance(entry, dict)]
    for name in sorted({str(n) for n in names if names.count(n) > 1}):
        yield f"releases: the name {name} is there twice"
    for stack in STACKS:
        defaults = [
            entry["name"]
            for entry in checked["releases"]
            if isinstance(entry, dict) and entry.get("stack") == stack and entry.get("default")
        ]
        if len(defaults) != 1:
            yield f"releases: {stack} has {len(defaults)} defaults, expected one"


def _release_problems(entry: object, data: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"holds {type(entry).__name__}, expected a mapping"
        return
    wrong = [name for name, kind in _FIELDS.items() if not isinstance(entry.get(name), kind)]
    if wrong or "date" not in entry:
        yield f"lacks {', '.join(wrong or ['date'])}, or has it in another form"
        return
    if entry["stack"] not in STACKS:
        yield f"stack: got {entry['stack']}, expected one of {', '.join(STACKS)}"
    elif entry["stack"] not in data["references"]:
        yield f"there is no reference for {entry['stack']}"
    for part in ("plugin", "daemon"):
        if not _VERSION.fullmatch(entry[part].rpartition(":")[2]):
            yield f"{part}: {entry[part]} has no version, half a pair is none"
    if "default" not in entry["profiles"]:
        yield "profiles: there is no profile `default`"
    for profile, name in entry["profiles"].items():
        if name not in data["environments"]:
            yield f"profiles.{profile}: there is no environment {name}"
    default = data["environments"].get(entry["profiles"].get("default"), {})
    for name, value in entry["required"].items():
        if default.get(name) != value:
            yield f"the default profile lacks {name}={value}, which its checker enforces"


def _reference_problems(entry: object) -> Iterator[str]:
    if not isinstance(entry, dict) or not entry.get("source") or not entry.get("curve"):
        yield "lacks source or curve"
        return
    sizes = [point[0] for point in entry["curve"]]
    if not all(left < right for left, right in pairwise(sizes)):
        yield "curve: sizes must grow"


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
    transmit = _cpus(environment.get(f"{prefix}TX_BINDINGS"))
    receive = _cpus(environment.get(f"{prefix}RX_BINDINGS"))
    if not transmit and not receive:
        return
    wanted = set(str(environment.get(f"{prefix}SOCKET_IFNAME", "")).split(","))
    if set(transmit) != wanted or set(receive) != wanted:
        yield f"the bindings name {sorted({*transmit, *receive})}, the NICs are {sorted(wanted)}"
    for nic in sorted(set(transmit) & set(receive)):
        shared = transmit[nic] & receive[nic]
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
