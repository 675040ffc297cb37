"""The cluster's version: in full, not below what GPUDirect needs, and offered by Google.

Owns the key `clusterVersion`. Does not own versions' arithmetic (`versions`) nor the floors
(`releases`).
"""

from __future__ import annotations

import difflib
import re

from gpudirect.config_values import ConfigReader
from gpudirect.releases import GkeFloor, Release
from gpudirect.versions import GkeVersion, ServerConfig, floor_below


def read_version(
    reader: ConfigReader,
    channel: str,
    release: Release,
    server_config: ServerConfig | None,
) -> str | None:
    """Read the version, and compare it with every floor.

    Args:
        reader: Takes the findings.
        channel: The release channel, or empty where the config does not name one.
        release: Whose floors hold.
        server_config: Google's list of versions, where it is at hand.
    """
    text = reader.text("clusterVersion")
    if text is None:
        return None
    if not text:
        _check_channel_default(reader, channel, release, server_config)
        return None
    try:
        version = GkeVersion.parse(text)
    except ValueError:
        wanted = _full_version_for(text, release)
        reader.report(
            "clusterVersion",
            _no_version(text, guess=not reader.is_written("clusterVersion")),
            f"all four parts, such as {wanted}, in quotes",
            "only a full version compares with the least one that GPUDirect needs",
            fix=reader.set_to("clusterVersion", wanted),
        )
        for likely in map(GkeVersion.parse, _likely_versions(text)):
            floor = floor_of(likely, release)
            # What was meant is judged too: one mistake hides no other.
            if floor is not None and not floor.advised:
                _check_floors(reader, likely, release)
        return None
    _check_floors(reader, version, release)
    offered = server_config.valid_versions.get(channel, ()) if server_config else ()
    if server_config and channel and text not in offered:
        near = difflib.get_close_matches(text, offered, n=1)
        reader.report(
            "clusterVersion",
            f"not offered in channel {channel}",
            f"one of {', '.join(offered) or 'none: the channel has no versions here'}",
            "GKE makes clusters of the versions it offers alone",
            fix=reader.set_to("clusterVersion", near[0]) if near else "",
        )
    return text


def floor_of(version: GkeVersion, release: Release) -> GkeFloor | None:
    """Return the floor of a release that a version is below; an advised one is the last."""
    for advised in (False, True):
        floors = tuple(floor for floor in release.gke_floors if floor.advised is advised)
        if (found := floor_below(version, floors)) is not None:
            return found
    return None


def floor_words(floor: GkeFloor) -> tuple[str, str]:
    """Return what a finding says about a floor: what is expected, and why."""
    of_minor = f" of {floor.minor}" if floor.minor else ""
    reason = "its release notes advise it" if floor.advised else "older nodes do not work"
    return f"{floor.version} or newer{of_minor}", f"{reason} ({floor.source})"


def _check_channel_default(
    reader: ConfigReader,
    channel: str,
    release: Release,
    server_config: ServerConfig | None,
) -> None:
    default = server_config.default_versions.get(channel, "") if server_config else ""
    if default:
        _check_floors(reader, GkeVersion.parse(default), release, of_channel=True)
    elif channel == "EXTENDED":
        reader.report(
            "clusterVersion",
            "the channel EXTENDED serves versions below what GPUDirect needs as well",
            "a full version",
            "a version that nobody can compare may be too old",
            fix=reader.set_to("releaseChannel", "REGULAR"),
        )


def _check_floors(
    reader: ConfigReader, version: GkeVersion, release: Release, *, of_channel: bool = False
) -> None:
    floor = floor_of(version, release)
    if floor is not None:
        subject = f"the channel's default {version} is " if of_channel else ""
        expected, why = floor_words(floor)
        reader.report(
            "clusterVersion",
            f"{subject}older than GPUDirect needs",
            expected,
            why,
            fix=reader.set_to("clusterVersion", floor.version),
            severity="warning" if floor.advised else "error",
        )


def _full_version_for(text: str, release: Release) -> str:
    """Return the full version that a part of one, or one with a leading v, most likely means."""
    for likely in _likely_versions(text):
        floor = floor_of(GkeVersion.parse(likely), release)
        return likely if floor is None or floor.advised else floor.version
    floors = release.gke_floors
    of_minor = [floor.version for floor in floors if floor.minor and text.startswith(floor.minor)]
    return of_minor[0] if of_minor else (floors[0].version if floors else "1.35.8-gke.1036000")


def _likely_versions(text: str) -> list[str]:
    """Return the full version that a text holds but for a leading v, blanks or capitals, if any."""
    return [v for v in (text[1:], text.strip().lower()) if _is_full(v)][:1]


def _no_version(text: str, *, guess: bool) -> str:
    if _is_full(text[1:]) and text[0] in "vV":
        return "a leading v"
    if guess and re.fullmatch(r"1\.\d", text):
        return f"no full GKE version; unquoted, YAML reads {text}0 as the number {text}: put quotes"
    if re.fullmatch(r"[\d.]+", text):
        return "not a full GKE version"
    return "no GKE version that can be compared"


def _is_full(text: str) -> bool:
    try:
        GkeVersion.parse(text)
    except ValueError:
        return False
    return True
