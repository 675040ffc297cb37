"""What an Autopilot cluster may be: name, place, and what Autopilot refuses.

Owns the checks of a cluster that need nothing but the request. Citations: facts google-cloud.md
§6.4 unless said otherwise.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from sandbox.cloud import catalog
from sandbox.cloud.cluster_versions import DEFAULT_CHANNEL
from sandbox.cloud.errors import bad_request
from sandbox.cloud.payload import parse_range
from sandbox.cloud.registry import rule

_SECTION = "facts google-cloud.md §6.4"
_MOST_NAME = 40
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MOST_LABELS = 64
_CONTROL_PLANE_PREFIX = 28

rule(
    "clusters.name",
    "a name is 1 to 40 of a-z, 0-9, -",
    citation="facts google-cloud.md §1.1",
    judges="gcloud",
)
rule(
    "clusters.regional",
    "an Autopilot cluster must be regional",
    citation=_SECTION,
    judges="gcloud",
)
rule("clusters.network-policy", "no NetworkPolicy with Dataplane V2", citation=_SECTION)
rule(
    "clusters.datapath", "LEGACY_DATAPATH is refused for Autopilot", citation="facts §13 [K: words]"
)
rule(
    "clusters.channel",
    "REGULAR unless given; UNSPECIFIED is refused",
    citation="facts §6.3, §13",
    judges="gcloud",
)
rule("clusters.autopilot-only", "this stand-in makes Autopilot clusters only", citation="decision")
rule("clusters.label-form", "labels are lower case, 64 at most", citation="[K]", judges="gcloud")
rule(
    "clusters.control-plane-range",
    "the control plane's range is a /28, authorized networks are CIDR",
    citation="facts google-cloud.md §6.1 (master_ipv4_cidr_block); words K",
    judges="gcloud",
)


def check_cluster(project: str, location: str, sent: Mapping[str, Any]) -> str:
    """Check a cluster that shall be made; return its release channel.

    Raises:
        ApiError: 400.
    """
    _check_name(sent.get("name", ""))
    _check_autopilot(project, location, sent)
    check_labels(sent.get("resourceLabels", {}))
    check_authorized_networks(sent.get("masterAuthorizedNetworksConfig", {}))
    addresses = sent.get("controlPlaneEndpointsConfig", {}).get("ipEndpointsConfig", {})
    check_authorized_networks(addresses.get("authorizedNetworksConfig", {}))
    _check_control_plane_range(sent.get("privateClusterConfig", {}).get("masterIpv4CidrBlock", ""))
    return check_channel(sent.get("releaseChannel", {}).get("channel", ""))


def _check_name(name: str) -> None:
    if len(name) > _MOST_NAME or not re.fullmatch(r"[a-z](?:[-a-z0-9]*[a-z0-9])?", name):
        raise bad_request(
            f'Invalid value for field "cluster.name": "{name}". Must be 1 to {_MOST_NAME} '
            "lowercase letters, numbers and hyphens, start with a letter and end with a letter or "
            "a number."
        )


def _check_autopilot(project: str, location: str, sent: Mapping[str, Any]) -> None:
    if not sent.get("autopilot", {}).get("enabled"):
        raise bad_request("This stand-in makes Autopilot clusters only: set autopilot.enabled.")
    if location not in catalog.regions(project):
        raise bad_request("Autopilot clusters must be regional clusters.")
    datapath = sent.get("networkConfig", {}).get("datapathProvider", "")
    if datapath == "LEGACY_DATAPATH":
        raise bad_request("Autopilot clusters require DatapathProvider=ADVANCED_DATAPATH.")
    if sent.get("networkPolicy", {}).get("enabled"):
        raise bad_request(
            "Enabling NetworkPolicy for clusters with DatapathProvider=ADVANCED_DATAPATH is not "
            "allowed."
        )
    for field, on in (
        ("legacyAbac", sent.get("legacyAbac", {}).get("enabled")),
        ("enableKubernetesAlpha", sent.get("enableKubernetesAlpha")),
    ):
        if on:
            raise bad_request(f"Autopilot clusters do not support {field}.")
    zones = catalog.zones(location)
    for zone in sent.get("locations", []):
        if zone not in zones:
            raise bad_request(f'Invalid zone provided: "{zone}" is not in region "{location}".')


def check_channel(channel: str) -> str:
    """Return the channel of an Autopilot cluster.

    Raises:
        ApiError: 400, Autopilot must be in a channel [facts autopilot.md §6; words K].
    """
    if channel == "UNSPECIFIED":
        raise bad_request("Autopilot clusters must be enrolled in a release channel.")
    return channel or DEFAULT_CHANNEL


def check_labels(labels: Mapping[str, str]) -> None:
    """Check labels.

    Raises:
        ApiError: 400.
    """
    if len(labels) > _MOST_LABELS:
        raise bad_request(f"{len(labels)} labels were given, at most {_MOST_LABELS} are allowed.")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise bad_request(
                f'Invalid label "{key}": "{value}". Keys and values are lowercase letters, '
                "numbers, hyphens and underscores, at most 63 characters; keys start with a letter."
            )


def check_authorized_networks(config: Mapping[str, Any]) -> None:
    """Check the CIDR blocks that may reach the control plane.

    Raises:
        ApiError: 400.
    """
    for block in config.get("cidrBlocks", []):
        value = block.get("cidrBlock", "")
        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            raise bad_request(f'Authorized network "{value}" is not a valid CIDR block.') from None


def _check_control_plane_range(value: str) -> None:
    if not value:
        return
    found = parse_range(value)
    if found is None or found.prefixlen != _CONTROL_PLANE_PREFIX:
        raise bad_request(
            f'Invalid master_ipv4_cidr_block "{value}": a CIDR range of size '
            f"/{_CONTROL_PLANE_PREFIX} is required."
        )
