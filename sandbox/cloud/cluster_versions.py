"""GKE versions: server config, and what a requested version becomes.

Owns `serverConfig` and version resolution. Citations: facts google-cloud.md §6.4, §9 and
autopilot.md §6.
"""

from __future__ import annotations

import re
from typing import Any

from sandbox.cloud import catalog
from sandbox.cloud.core import Call
from sandbox.cloud.errors import ApiError, bad_request
from sandbox.cloud.registry import endpoint, rule

_SECTION = "facts google-cloud.md §6.4"
_EXACT = re.compile(r"\d+\.\d+\.\d+-gke\.\d+")
_PREFIX = re.compile(r"\d+\.\d+(?:\.\d+)?")
DEFAULT_CHANNEL = "REGULAR"

rule(
    "clusters.version-exact", "an exact version must be offered", citation=_SECTION, judges="gcloud"
)
rule(
    "clusters.version-prefix",
    "1.X or 1.X.Y becomes the newest that fits",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "clusters.version-channel",
    "an exact version must be one of its channel",
    citation=_SECTION,
    judges="gcloud",
)
rule(
    "clusters.version-order", "versions compare by numbers", citation="facts google-cloud.md §9 [K]"
)
rule("clusters.location", "an unknown location answers 400", citation=_SECTION, judges="gcloud")


def sort_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: 1.31.14 is newer than 1.31.2."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def all_versions() -> list[str]:
    """Return every version that some channel offers, newest first."""
    offered = {version for channel in catalog.CHANNELS.values() for version in channel.valid}
    return sorted(offered, key=sort_key, reverse=True)


def resolve(wanted: str, channel: str, *, default: str | None = None) -> str:
    """Return the version that a cluster gets.

    Args:
        wanted: Empty, `-`, `latest`, a prefix or an exact version.
        channel: The release channel of the cluster.
        default: What empty means, the channel's default otherwise.

    Raises:
        ApiError: 400 in the words of facts google-cloud.md §6.4.
    """
    offered = catalog.CHANNELS[channel]
    valid = sorted(offered.valid, key=sort_key, reverse=True)
    if wanted in ("", "-"):
        return default or offered.default
    if wanted == "latest":
        return valid[0]
    if _PREFIX.fullmatch(wanted):
        for version in valid:
            if version.startswith((f"{wanted}.", f"{wanted}-")):
                return version
        raise bad_request(f'No valid versions with the prefix "{wanted}" found.')
    if not _EXACT.fullmatch(wanted) or wanted not in all_versions():
        raise bad_request(f'Master version "{wanted}" is unsupported.')
    if wanted not in valid:
        raise bad_request(
            f'Master version must be one of "{channel}" channel supported versions '
            f"[{', '.join(valid)}]."
        )
    return wanted


def check_location(project: str, location: str) -> None:
    """Refuse a location that is neither region nor zone of the project's cloud.

    S3NS serves GKE at the region only [facts google-cloud.md §10].

    Raises:
        ApiError: 400.
    """
    zones_count = not project.startswith("s3ns:")
    if location in catalog.regions(project):
        return
    if zones_count and location in catalog.all_zones(project):
        return
    raise ApiError(400, f'Location "{location}" does not exist.', "badRequest")


@endpoint(
    "container",
    "GET",
    "projects/{project}/locations/{location}/serverConfig",
    citation="facts gcloud-requests.md; google-cloud.md §9",
    judges="gcloud",
)
def server_config(call: Call) -> dict[str, Any]:
    """Read which versions can be had."""
    check_location(call.project, call.params["location"])
    versions = all_versions()
    return {
        "defaultClusterVersion": catalog.CHANNELS[DEFAULT_CHANNEL].default,
        "validMasterVersions": versions,
        "validNodeVersions": versions,
        "defaultImageType": "COS_CONTAINERD",
        "validImageTypes": ["COS_CONTAINERD", "UBUNTU_CONTAINERD"],
        "channels": [
            {
                "channel": name,
                "defaultVersion": channel.default,
                "validVersions": sorted(channel.valid, key=sort_key, reverse=True),
                "upgradeTargetVersion": channel.default,
            }
            for name, channel in catalog.CHANNELS.items()
        ],
    }
