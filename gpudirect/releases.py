"""The release lock: what `releases.yaml` says, as data.

Owns what a release is, the look-up by name and how an image gets another registry. Does not own
what makes a lock wrong (`release_rules`), the choice of a release (`settings`) nor what is made of
it (`workloads`, `manifests`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from gpudirect.release_rules import lock_problems, sources_in

RELEASES_FILE = Path(__file__).with_name("releases.yaml")

# A part of an image's path, as registries take it.
_IMAGE_PATH = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")

Curve = tuple[tuple[int, float], ...]
"""Points of (message size in bytes, bus bandwidth in GB/s), by size."""


class ReleaseLockError(ValueError):
    """The lock, or a name looked up in it, is wrong; the text lists every problem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GkeFloor:
    """A least GKE version.

    Attributes:
        version: The full version.
        source: Who says so.
        minor: Minor version that it binds alone, such as `1.34`; empty for all.
        advised: Whether an older one is only worth a warning.
    """

    version: str
    source: str
    minor: str = ""
    advised: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """Bandwidth that a stack is known to reach, in GB/s (10^9 bytes) of bus bandwidth.

    Attributes:
        rows: Message size in bytes, out-of-place and in-place bandwidth, by size.
        nodes: How many nodes it was measured with.
        collective: Which collective.
        source: Where it was published.
        measured_with: Which release it was measured with, as far as that is known.
    """

    rows: tuple[tuple[int, float, float], ...]
    nodes: int
    collective: str
    source: str
    measured_with: str

    @property
    def curve(self) -> Curve:
        """The lower of out-of-place and in-place at each size."""
        return tuple((size, min(out, inside)) for size, out, inside in self.rows)


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
        gke_floors: Least GKE versions of the release's stack.
        least_driver: Least GPU driver (the page).
        qualified_driver: Driver that the release was qualified with, or empty if not published.
        qualified_cuda: CUDA that the release was qualified with, or empty if not published.
        nccl_version: NCCL that the installer puts on the node.
        note: What to know before choosing it.
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
    gke_floors: tuple[GkeFloor, ...]
    least_driver: str
    qualified_driver: str
    qualified_cuda: str
    nccl_version: str
    note: str
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
    """All releases, and the images that they share.

    Attributes:
        releases: Every release, those of a stack from the oldest to the newest.
        pause_image: Image of the container that keeps an installer's Pod alive.
        injector_image: Image of the NRI device injector.
        pre_installation_image: Image of the A3 Mega installer's first step.
        newest_gke_driver: Newest GPU driver that GKE is known to install.
    """

    releases: tuple[Release, ...]
    pause_image: str
    injector_image: str
    pre_installation_image: str
    newest_gke_driver: str

    def for_stack(self, stack: str) -> tuple[Release, ...]:
        """Return the releases of a stack, oldest first."""
        return tuple(release for release in self.releases if release.stack == stack)

    def default(self, stack: str) -> Release:
        """Return the release that a stack takes when config names none."""
        return next(release for release in self.for_stack(stack) if release.is_default)

    def get(self, name: str, stack: str) -> Release:
        """Return a release of a GPU stack by name; the empty name stands for the default.

        Raises:
            ReleaseLockError: no such release for this stack; the text names those that there are.
        """
        return self._named(name, self.for_stack(stack), stack) if name else self.default(stack)

    def find(self, name: str) -> Release:
        """Return a release of whichever GPU stack by name.

        Raises:
            ReleaseLockError: no such release; the text names all that there are.
        """
        return self._named(name, self.releases, "")

    def _named(self, name: str, among: Iterable[Release], stack: str) -> Release:
        known = {release.name: release for release in among}
        if name in known:
            return known[name]
        other = next((release for release in self.releases if release.name == name), None)
        problem = f"is for {other.stack}" if other else "is not in the lock"
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near and not other else ""
        raise ReleaseLockError(
            f"release {name!r} {problem}, expected one of {', '.join(known)}"
            f"{f' for {stack}' if stack else ''}{hint}"
        )


def is_registry(text: str) -> bool:
    """Whether a text is a registry's host, with a port or a path where it has one."""
    host, *path = text.split("/")
    name, _, port = host.partition(":")
    labels = name.split(".")
    return (
        (len(labels) > 1 or name == "localhost" or bool(port))
        and all(label and label.replace("-", "").isalnum() for label in labels)
        and host.isascii()
        and (not port or port.isdigit())
        and all(map(_IMAGE_PATH.fullmatch, path))
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
    problems = [f"releases.yaml: {problem}" for problem in lock_problems(data)]
    if problems:
        raise ReleaseLockError("\n".join(problems))
    return ReleaseLock(
        releases=tuple(_release(entry, data) for entry in data["releases"]),
        pause_image=data["images"]["pause"],
        injector_image=data["images"]["deviceInjector"],
        pre_installation_image=data["images"]["preInstallation"],
        newest_gke_driver=data["newestGkeDriver"],
    )


def _source(text: str, data: Mapping[str, Any]) -> str:
    for letter in sources_in(text):
        text = text.replace(f"[{letter}]", data["sources"][letter])
    return text


def _reference(entry: Mapping[str, Any], data: Mapping[str, Any]) -> Reference:
    return Reference(
        rows=tuple((int(size), float(out), float(inside)) for size, out, inside in entry["curve"]),
        nodes=entry["nodes"],
        collective=entry["collective"],
        source=_source(entry["source"], data),
        measured_with=entry["measuredWith"],
    )


def _release(entry: Mapping[str, Any], data: Mapping[str, Any]) -> Release:
    stack = entry["stack"]
    floors = (*data["floors"].get("all", ()), *data["floors"].get(stack, ()))
    return Release(
        name=entry["name"],
        stack=stack,
        plugin_image=entry["plugin"],
        daemon_image=entry["daemon"],
        daemon_command=tuple(entry["daemonCommand"]),
        daemon_args=tuple(entry["daemonArgs"]),
        profiles=MappingProxyType(
            {
                profile: MappingProxyType(dict(data["environments"][name]))
                for profile, name in entry["profiles"].items()
            }
        ),
        profile_files=MappingProxyType(dict(entry["profileFiles"])),
        required_environment=MappingProxyType(dict(entry["required"])),
        gke_floors=tuple(
            GkeFloor(**{**floor, "source": _source(floor["source"], data)}) for floor in floors
        ),
        least_driver=entry["leastDriver"],
        qualified_driver=entry.get("qualifiedDriver", ""),
        qualified_cuda=entry.get("qualifiedCuda", ""),
        nccl_version=entry["ncclVersion"],
        note=entry["note"],
        source=_source(entry["source"], data),
        date=str(entry["date"]),
        is_default=entry["default"],
        reference=_reference(data["references"][stack], data),
    )
