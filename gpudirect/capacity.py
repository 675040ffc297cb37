"""How an environment asks Google for GPU nodes, and what cannot go together.

Owns the keys of the capacity choice and the node selectors that follow from them. Does not own the
selectors of GPU and driver, which every GPU Pod has (`pod_selectors`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudirect.config_values import ConfigReader
from gpudirect.naming import CLUSTER_NAME_LENGTH, check_name
from gpudirect.universes import Universe

MOST_PLACED_NODES = 96
"""Nodes of a compact placement group on A3 [facts autopilot.md §2]."""

LEAST_FLEX_START, MOST_FLEX_START = "10m", "7d"
"""How long a flex-start node may live [facts autopilot.md §1.1]."""

_PREFIX = "cloud.google.com/"
_CLASS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")

# What belongs to one way of asking alone.
_OWN_KEYS = {
    "reservationName": "reservation",
    "reservationProject": "reservation",
    "maxRunDuration": "flex-start",
    "computeClass": "compute-class",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacitySettings:
    """How nodes are asked for.

    Attributes:
        mode: One of `config_keys.CAPACITY_MODES`.
        zone: The zone of all GPU nodes, or None for Google's choice.
        reservation_name: The reservation, with mode `reservation`.
        reservation_project: The project that shares it, or None for the stack's own.
        max_run_duration_seconds: How long a node may live, with mode `flex-start`.
        placement_group: Compact placement group, or None.
        compute_class: The custom ComputeClass, with mode `compute-class`.
    """

    mode: str
    zone: str | None
    reservation_name: str | None = None
    reservation_project: str | None = None
    max_run_duration_seconds: int | None = None
    placement_group: str | None = None
    compute_class: str | None = None

    def node_selector(self) -> dict[str, str]:
        """Return the selectors of this choice, to be put on a Pod that needs GPU nodes."""
        selector = {}
        if self.mode == "spot":
            selector[f"{_PREFIX}gke-spot"] = "true"
        if self.mode == "flex-start":
            selector[f"{_PREFIX}gke-flex-start"] = "true"
        if self.max_run_duration_seconds is not None:
            selector[f"{_PREFIX}gke-max-run-duration-seconds"] = str(self.max_run_duration_seconds)
        if self.reservation_name:
            selector[f"{_PREFIX}reservation-name"] = self.reservation_name
            # Selectors reach named reservations alone; the name without this is not enough.
            selector[f"{_PREFIX}reservation-affinity"] = "specific"
        if self.reservation_project:
            selector[f"{_PREFIX}reservation-project"] = self.reservation_project
        if self.compute_class:
            selector[f"{_PREFIX}compute-class"] = self.compute_class
        if self.placement_group:
            selector[f"{_PREFIX}gke-placement-group"] = self.placement_group
        if self.zone:
            selector["topology.kubernetes.io/zone"] = self.zone
        return selector


def read_capacity(
    reader: ConfigReader, *, region: str | None, universe: Universe | None
) -> CapacitySettings:
    """Read the capacity choice; it is whole only if the reader found no error."""
    mode = reader.choice("capacity")
    values = {key: reader.text(key) or None for key in _OWN_KEYS}
    placement = reader.text("placementGroup") or None
    if mode is not None:
        _check_mode(reader, mode, values, universe)
    if placement:
        _check_placement(reader, placement, mode, universe)
    _check_names(reader, values)
    duration = reader.duration(
        "maxRunDuration",
        least=LEAST_FLEX_START,
        most=MOST_FLEX_START,
        why="flex-start nodes live no shorter and no longer",
    )
    return CapacitySettings(
        mode=mode or "",
        zone=_read_zone(reader, region),
        reservation_name=values["reservationName"],
        reservation_project=values["reservationProject"],
        max_run_duration_seconds=duration,
        placement_group=placement,
        compute_class=values["computeClass"],
    )


def _check_mode(
    reader: ConfigReader, mode: str, values: dict[str, str | None], universe: Universe | None
) -> None:
    if universe and mode not in universe.capacity_modes:
        reader.report(
            "capacity",
            f"{universe.title} has none",
            f"one of {', '.join(universe.capacity_modes)}",
            "nodes asked for that way would never come",
            fix=reader.set_to("capacity", universe.capacity_modes[0]),
        )
    for key, owner in _OWN_KEYS.items():
        if values[key] and mode != owner:
            reader.report(
                key,
                f"given with capacity {mode}",
                f"none, or capacity {owner}",
                "GKE refuses a Pod, or ignores the selector, when two ways of asking meet",
            )
    needed = {"reservation": "reservationName", "compute-class": "computeClass"}.get(mode)
    if needed and not values[needed]:
        reader.report(
            needed,
            f"capacity {mode} needs it",
            f"the name of the {'reservation' if mode == 'reservation' else 'ComputeClass'}",
            "Autopilot's selectors reach a named one alone",
            fix=reader.set_to(needed, "NAME"),
        )


def _check_placement(
    reader: ConfigReader, group: str, mode: str | None, universe: Universe | None
) -> None:
    check_name(reader, "placementGroup", group, longest=CLUSTER_NAME_LENGTH)
    if universe and not universe.has_compact_placement:
        message, expected = f"{universe.title} is not known to have it", "none"
        why = "a Pod that selects it would wait for ever"
    elif mode == "flex-start":
        message, expected = "given with capacity flex-start", "none, or another capacity"
        why = "flex-start places A3 nodes near one another by itself and takes no group"
    elif mode == "reservation":
        message, expected = "given with capacity reservation", "none, or another capacity"
        why = "the placement of a reservation is its own, and GKE refuses a second one"
    else:
        return
    reader.report("placementGroup", message, expected, why)


def _check_names(reader: ConfigReader, values: dict[str, str | None]) -> None:
    if values["reservationName"]:
        check_name(reader, "reservationName", values["reservationName"])
    project = values["reservationProject"]
    if project and not re.fullmatch(r"[a-z0-9][-a-z0-9.:]*[a-z0-9]", project):
        reader.report(
            "reservationProject",
            "no project id",
            "small letters, digits and hyphens",
            "Google knows projects by their id, not by their title",
        )
    name = values["computeClass"]
    if name and (name.startswith(("gke", "autopilot")) or not _CLASS_NAME.fullmatch(name)):
        reader.report(
            "computeClass",
            "no name of a custom ComputeClass",
            "small letters, digits and hyphens, not beginning with gke or autopilot",
            "GKE keeps the other names for classes of its own",
        )


def _read_zone(reader: ConfigReader, region: str | None) -> str | None:
    zone = reader.text("zone")
    of_region = re.escape(region) if region else r"[a-z]+(?:-[a-z]+)+\d+"
    if zone and not re.fullmatch(rf"{of_region}-[a-z]", zone):
        several = len(re.split(r"[,\s]+", zone.strip())) > 1
        example = f"{region or 'us-east4'}-a"
        reader.report(
            "zone",
            "more than one zone" if several else f"no zone{f' of {region}' if region else ''}",
            f"one zone of the region, such as {example}",
            "all nodes of a job must be in one zone, and the subnets are in this region",
            fix=reader.set_to("zone", example),
        )
    return zone or None
