"""GKE versions, compared number by number, and the floors below which GPUDirect does not work.

Owns the arithmetic and Google's list of versions, where somebody has it at hand. Does not own the
floors themselves (`releases`) nor the wording of findings (`cluster_settings`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpudirect.releases import GkeFloor

_NUMBER = r"(0|[1-9][0-9]*)"
_FULL = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}-gke\.{_NUMBER}")

RELEASE_CHANNELS = ("RAPID", "REGULAR", "STABLE", "EXTENDED")
"""Channels of an Autopilot cluster; it must be in one [facts autopilot.md §6]."""


@dataclass(frozen=True, order=True, slots=True)
class GkeVersion:
    """A full GKE version, `MAJOR.MINOR.PATCH-gke.N`, ordered by its four numbers."""

    major: int
    minor: int
    patch: int
    gke: int

    @classmethod
    def parse(cls, text: str) -> GkeVersion:
        """Read a full version.

        Raises:
            ValueError: the text is an alias, a part of a version or none at all, so that it
                compares with nothing.
        """
        found = _FULL.fullmatch(text)
        if not found:
            raise ValueError(f"{text!r} is not MAJOR.MINOR.PATCH-gke.N")
        return cls(*(int(number) for number in found.groups()))

    @property
    def minor_version(self) -> str:
        """The minor version, such as `1.35`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}-gke.{self.gke}"


def floor_below(version: GkeVersion, floors: tuple[GkeFloor, ...]) -> GkeFloor | None:
    """Return the floor that a version is below, or None.

    A floor with a minor version binds that minor alone: A3 High works on any 1.33 but only on later
    patches of 1.34 [facts gpudirect.md §9 row 28].
    """
    for floor in floors:
        if floor.minor and floor.minor != version.minor_version:
            continue
        if version < GkeVersion.parse(floor.version):
            return floor
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerConfig:
    """Versions that Google offers in a location, as `gcloud container get-server-config` prints.

    Attributes:
        valid_versions: Control plane versions by release channel.
        default_versions: Default version by release channel.
    """

    valid_versions: Mapping[str, tuple[str, ...]]
    default_versions: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> ServerConfig:
        """Read the JSON form.

        Raises:
            ValueError: the text is not that command's answer.
        """
        try:
            channels = json.loads(text)["channels"]
            return cls(
                valid_versions={c["channel"]: tuple(c.get("validVersions", ())) for c in channels},
                default_versions={c["channel"]: c.get("defaultVersion", "") for c in channels},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                "not the answer of `gcloud container get-server-config --format json`: "
                "it has no list of channels"
            ) from error
