"""The cluster part of the settings: names, version, ranges, access, lifecycle.

Owns the keys of the cluster but its version (`version_settings`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network

from gpudirect.addressing import (
    AUTO_MODE_RANGE,
    NamedRange,
    RangeError,
    is_covered,
    parse_range,
)
from gpudirect.config_text import place_in
from gpudirect.config_values import ConfigReader
from gpudirect.fabric_settings import read_range
from gpudirect.naming import Names, check_name
from gpudirect.releases import Release
from gpudirect.universes import Universe
from gpudirect.version_settings import read_version
from gpudirect.versions import ServerConfig

DEFAULT_NETWORK = "default"
CREATE_NETWORK = "create"

_CONTROL_PLANE_PREFIX = 28
_EVERYBODY = IPv4Network("0.0.0.0/0")
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_LABEL_LENGTH = 63
_MOST_LABELS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSettings:
    """The Autopilot cluster.

    Attributes:
        name: Physical name.
        network: `default`, the name of a VPC that exists, or `create`.
        subnetwork: Subnet of it, or None for Google's choice.
        create_network: Whether the stack makes the cluster's own VPC.
        network_name: Its name, where the stack makes it.
        subnetwork_name: Its subnet's name, where the stack makes it.
        subnetwork_cidr: Its subnet's range, where the stack makes it.
        version: GKE version in full, or None for the channel's default.
        release_channel: One of `versions.RELEASE_CHANNELS`.
        pod_cidr: Range of the Pods' first interface, or None for Google's choice.
        service_cidr: Range of Services, or None for Google's choice.
        private_nodes: Whether nodes have no external address.
        control_plane_cidr: The control plane's /28, or None for Google's choice.
        authorized_networks: Names and ranges that may reach the control plane; empty for GKE's own
            setting.
        deletion_protection: Whether destroy is refused.
        maintenance_window: Start of the daily window in UTC as `HH:MM`, or None.
    """

    name: str
    network: str
    subnetwork: str | None
    create_network: bool
    network_name: str | None
    subnetwork_name: str | None
    subnetwork_cidr: str | None
    version: str | None
    release_channel: str
    pod_cidr: str | None
    service_cidr: str | None
    private_nodes: bool
    control_plane_cidr: str | None
    authorized_networks: tuple[tuple[str, str], ...]
    deletion_protection: bool
    maintenance_window: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterPlan:
    """What could be read of the cluster; None and absence stand for what could not."""

    settings: ClusterSettings
    ranges: tuple[NamedRange, ...]


def read_cluster(
    reader: ConfigReader,
    names: Names | None,
    *,
    universe: Universe | None,
    release: Release,
    public: bool,
    server_config: ServerConfig | None,
) -> ClusterPlan:
    """Read the cluster's keys.

    The settings are whole only if the reader found no error.
    """
    network, subnetwork = _read_network(reader, names, universe)
    private_nodes = reader.boolean("privateNodes") or False
    ranges = _read_ranges(reader, network, private_nodes=private_nodes, public=public)
    by_key = {item.key: str(item.network) for item in ranges}
    channel = reader.choice("releaseChannel") or ""
    version = read_version(reader, channel, release, server_config)
    create = network == CREATE_NETWORK
    settings = ClusterSettings(
        name=names.cluster if names else "",
        network=network or "",
        subnetwork=subnetwork or None,
        create_network=create,
        network_name=names.cluster_vpc if names and create else None,
        subnetwork_name=names.cluster_subnet if names and create else None,
        subnetwork_cidr=by_key.get("clusterNetworkCidr"),
        version=version,
        release_channel=channel,
        pod_cidr=by_key.get("podCidr"),
        service_cidr=by_key.get("serviceCidr"),
        private_nodes=private_nodes,
        control_plane_cidr=by_key.get("controlPlaneCidr"),
        authorized_networks=_read_authorized_networks(reader),
        deletion_protection=reader.boolean("deletionProtection") is not False,
        maintenance_window=_read_maintenance_window(reader),
    )
    return ClusterPlan(settings=settings, ranges=tuple(ranges))


def read_labels(reader: ConfigReader) -> dict[str, str]:
    """Return the labels, checked by Google's rules."""
    labels = reader.mapping("labels")
    if len(labels) > _MOST_LABELS:
        reader.report(
            "labels",
            f"{len(labels)} labels",
            f"{_MOST_LABELS} at most",
            "Google takes no more",
            value=f"{len(labels)} labels",
        )
    for key, value in labels.items():
        place = place_in("labels", key)
        if key.startswith("goog-"):
            message, expected = "a label of Google's own", "another name"
            why = "the provider sets labels of that kind itself"
        elif not key or not key[0].islower() or not _is_label_text(key):
            message = "no name of a label"
            expected = f"small letters, digits, _ and -, a letter first, {_LABEL_LENGTH} at most"
            why = "Google refuses the cluster otherwise"
        elif not _is_label_text(value):
            message = "no value of a label"
            expected = f"small letters, digits, _ and -, {_LABEL_LENGTH} at most"
            why = "Google refuses the cluster otherwise"
        else:
            continue
        reader.report(place, message, expected, why, value=value)
    return labels


def _is_label_text(text: str) -> bool:
    letters = all((c.isalnum() and c == c.lower()) or c in "_-" for c in text)
    return letters and len(text) <= _LABEL_LENGTH


def _read_network(
    reader: ConfigReader, names: Names | None, universe: Universe | None
) -> tuple[str | None, str | None]:
    network, subnetwork = reader.text("clusterNetwork"), reader.text("clusterSubnetwork")
    if network == DEFAULT_NETWORK and universe and not universe.has_default_network:
        reader.report(
            "clusterNetwork",
            f"{universe.title} makes no network of that name",
            "the name of a network that you have, or create",
            "the cluster's own interface needs one",
            fix=reader.set_to("clusterNetwork", CREATE_NETWORK),
        )
    elif network and names and network in (*names.vpcs, names.cluster_vpc):
        reader.report(
            "clusterNetwork",
            "a network that this stack makes for something else",
            "another network, or create",
            "GKE refuses the cluster's own network for a GPU NIC",
            fix=reader.set_to("clusterNetwork", CREATE_NETWORK),
        )
    elif network:
        check_name(reader, "clusterNetwork", network)
    if subnetwork and network == CREATE_NETWORK:
        reader.report(
            "clusterSubnetwork",
            "a subnet beside a network that the stack makes",
            "no clusterSubnetwork with clusterNetwork create",
            "the stack makes the subnet as well",
        )
    elif subnetwork:
        check_name(reader, "clusterSubnetwork", subnetwork)
    return network, subnetwork


def _read_ranges(
    reader: ConfigReader, network: str | None, *, private_nodes: bool, public: bool
) -> list[NamedRange]:
    found: list[NamedRange | None] = []
    primary = reader.text("clusterNetworkCidr")
    made = primary and read_range(
        reader, "clusterNetworkCidr", primary, label="cluster's subnet", public=public
    )
    if network == DEFAULT_NETWORK:
        found.append(
            NamedRange(
                key="clusterNetwork",
                label="default network's subnets",
                network=AUTO_MODE_RANGE,
                stated=False,
            )
        )
    elif network == CREATE_NETWORK and made:
        found.append(made)
    for key, label in (("podCidr", "Pods' range"), ("serviceCidr", "Services' range")):
        text = reader.text(key)
        if text:
            found.append(read_range(reader, key, text, label=label, public=public))
    found.append(_control_plane(reader, private_nodes=private_nodes, public=public))
    return [item for item in found if item]


def _control_plane(reader: ConfigReader, *, private_nodes: bool, public: bool) -> NamedRange | None:
    text = reader.text("controlPlaneCidr")
    if not text:
        return None
    if not private_nodes:
        reader.report(
            "controlPlaneCidr",
            "given although nodes are not private",
            "none, or privateNodes true",
            "GKE takes a range for the control plane with private nodes only",
        )
    found = read_range(reader, "controlPlaneCidr", text, label="control plane", public=public)
    if found and found.network.prefixlen != _CONTROL_PLANE_PREFIX:
        first = found.network.network_address
        reader.report(
            "controlPlaneCidr",
            f"a /{found.network.prefixlen}",
            f"a /{_CONTROL_PLANE_PREFIX}",
            "GKE gives the control plane exactly that many addresses",
            fix=reader.set_to("controlPlaneCidr", f"{first}/{_CONTROL_PLANE_PREFIX}"),
        )
    return found


def _read_authorized_networks(reader: ConfigReader) -> tuple[tuple[str, str], ...]:
    networks = reader.mapping("authorizedNetworks")
    allow_open = reader.boolean("allowOpenControlPlane")
    everybody = "the ranges of those who work with the cluster, or allowOpenControlPlane true"
    said_twice = "an open control plane is meant only where it is said twice"
    ranges = []
    for name, text in networks.items():
        place = place_in("authorizedNetworks", name)
        try:
            network = parse_range(text)
        except RangeError as error:
            fix = reader.set_to(place, error.mended) if error.mended else ""
            reader.report(
                place, str(error), error.expected, "GKE refuses the range", fix=fix, value=text
            )
            continue
        ranges.append(network)
        if network == _EVERYBODY and allow_open is False:
            reader.report(
                place,
                "the whole internet",
                everybody,
                said_twice,
                fix=f"{reader.remove(place)}, or {reader.set_to('allowOpenControlPlane', 'true')}",
                value=text,
            )
    in_parts = _EVERYBODY not in ranges and is_covered(_EVERYBODY, ranges)
    if in_parts and allow_open is False:
        reader.report(
            "authorizedNetworks",
            "together the whole internet",
            everybody,
            said_twice,
            fix=reader.set_to("allowOpenControlPlane", "true"),
        )
    return tuple(networks.items())


def _read_maintenance_window(reader: ConfigReader) -> str | None:
    text = reader.text("maintenanceWindow")
    if text and not _TIME.fullmatch(text):
        reader.report(
            "maintenanceWindow",
            "no time of day",
            "HH:MM in UTC, 00:00 to 23:59",
            "GKE starts the daily window then",
            fix=reader.set_to("maintenanceWindow", "03:00"),
        )
    return text or None
