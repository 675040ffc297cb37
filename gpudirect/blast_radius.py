"""What an edit of a stack file does to a live environment.

Owns the comparison of two configs, key by key, and what a change comes to in the case at hand: a
range that only grows stays in place, a name that comes out the same changes nothing. Does not own
the class of a key (`config_keys`) nor the guard at preview (`replacement`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpudirect.addressing import parse_range
from gpudirect.config_keys import CONFIG_KEYS, Effect
from gpudirect.findings import full_key
from gpudirect.settings import Settings
from gpudirect.versions import GkeVersion

_GCP_KEYS: Mapping[str, Effect] = {
    "gcp:project": Effect.CLUSTER,
    "gcp:region": Effect.CLUSTER,
    "gcp:universeDomain": Effect.CLUSTER,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """One side of a comparison.

    Attributes:
        values: Keys of the project without namespace, defaults included.
        gcp: Keys of the `gcp` namespace without it.
        settings: What they mean, or None where the config is refused.
    """

    values: Mapping[str, Any]
    gcp: Mapping[str, str]
    settings: Settings | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One key that differs.

    Attributes:
        key: In full.
        old: Value before, as text.
        new: Value after, as text.
        effect: What it comes to.
        note: What else to know, or empty.
        lost: What is taken away, as Google names it.
    """

    key: str
    old: str
    new: str
    effect: Effect
    note: str = ""
    lost: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the change as plain data."""
        return {
            "key": self.key,
            "old": self.old,
            "new": self.new,
            "effect": self.effect.value,
            "note": self.note,
            "lost": list(self.lost),
        }


def compare(old: Config, new: Config) -> tuple[Change, ...]:
    """Return the keys that differ, in the order of the reference, with what each comes to."""
    return tuple(_changes(old, new))


def worst(changes: tuple[Change, ...]) -> Effect:
    """Return the largest effect of all."""
    effects = [change.effect for change in changes]
    return max(effects, key=lambda effect: effect.weight, default=Effect.NOTHING)


def replaced_parts(changes: tuple[Change, ...]) -> frozenset[str]:
    """Return what `allowReplace` must name for the changes to pass."""
    parts = set()
    for change in changes:
        if change.effect is Effect.FABRIC:
            parts.add("fabric")
        if change.effect is Effect.CLUSTER:
            parts.add("cluster")
            if any(item.startswith("Network ") for item in change.lost):
                parts.add("fabric")
    return frozenset(parts)


def _changes(old: Config, new: Config) -> Iterator[Change]:
    for name, key in CONFIG_KEYS.items():
        before, after = _text(old.values.get(name)), _text(new.values.get(name))
        if before == after:
            continue
        effect, note = key.effect, ""
        if old.settings and new.settings:
            rule = _RULES.get(name)
            effect, note = rule(old.settings, new.settings) if rule else (effect, "")
        yield _change(full_key(name), before, after, effect, note, old.settings)
    for name, effect in _GCP_KEYS.items():
        short = name.removeprefix("gcp:")
        before, after = old.gcp.get(short, ""), new.gcp.get(short, "")
        if before != after:
            yield _change(name, before, after, effect, "", old.settings)


def _change(
    key: str, before: str, after: str, effect: Effect, note: str, settings: Settings | None
) -> Change:
    lost: tuple[str, ...] = ()
    if settings and effect in (Effect.FABRIC, Effect.CLUSTER):
        whole = key in _GCP_KEYS or key == full_key("prefix")
        fabric = tuple(f"Network {nic.vpc_name}" for nic in settings.fabric.nics)
        cluster = (f"Cluster {settings.cluster.name}",)
        lost = (fabric if effect is Effect.FABRIC or whole else ()) + (
            cluster if effect is Effect.CLUSTER else ()
        )
    return Change(key=key, old=before, new=after, effect=effect, note=note, lost=lost)


def _prefix(old: Settings, new: Settings) -> tuple[Effect, str]:
    if old.prefix == new.prefix:
        return Effect.NOTHING, "the names come out the same"
    if old.cluster.name == new.cluster.name:
        return Effect.FABRIC, "the cluster keeps its name"
    return Effect.CLUSTER, "and the fabric: every name starts with it"


def _fabric_ranges(old: Settings, new: Settings) -> tuple[Effect, str]:
    if old.gpu_stack != new.gpu_stack:
        return Effect.FABRIC, ""
    pairs = [
        (parse_range(mine.cidr), parse_range(theirs.cidr))
        for mine, theirs in zip(old.fabric.nics, new.fabric.nics, strict=True)
    ]
    if all(before == after for before, after in pairs):
        sources = old.fabric.source_ranges == new.fabric.source_ranges
        note = "the subnets come out the same"
        return (Effect.NOTHING, note) if sources else (Effect.SMOKE_TEST, note)
    if all(before.subnet_of(after) for before, after in pairs):
        return Effect.SMOKE_TEST, "subnets that only grow stay in place"
    return Effect.FABRIC, ""


def _network_names(old: Settings, new: Settings) -> tuple[Effect, str]:
    if old.network_names == new.network_names:
        return Effect.NOTHING, "the names come out the same"
    return Effect.ADDONS, "manifests that were injected with the old names must be injected again"


def _cluster_name(old: Settings, new: Settings) -> tuple[Effect, str]:
    if old.cluster.name == new.cluster.name:
        return Effect.NOTHING, "the name comes out the same"
    return Effect.CLUSTER, ""


def _cluster_network_cidr(old: Settings, new: Settings) -> tuple[Effect, str]:
    before, after = old.cluster.subnetwork_cidr, new.cluster.subnetwork_cidr
    if not before or not after:
        return Effect.NOTHING, "it counts with clusterNetwork create alone"
    if parse_range(before).subnet_of(parse_range(after)):
        return Effect.IN_PLACE, "a subnet that only grows stays in place"
    return Effect.CLUSTER, "the cluster is in that subnet"


def _version(old: Settings, new: Settings) -> tuple[Effect, str]:
    before, after = old.cluster.version, new.cluster.version
    if after is None:
        return Effect.NOTHING, "the cluster keeps the version that it has"
    if before and GkeVersion.parse(after) < GkeVersion.parse(before):
        return Effect.NOTHING, "GKE lowers no version, and the provider does not even ask"
    return Effect.SMOKE_TEST, "after an upgrade in place, if the cluster is older"


def _chosen_by_google(
    read: Callable[[Settings], str | None],
) -> Callable[[Settings, Settings], tuple[Effect, str]]:
    def rule(_old: Settings, new: Settings) -> tuple[Effect, str]:
        if read(new) is None:
            return Effect.NOTHING, "the cluster keeps the range that it has"
        return Effect.CLUSTER, "unless the cluster has the range already"

    return rule


def _smoke_test(old: Settings, new: Settings) -> tuple[Effect, str]:
    if new.smoke_test.mode == "off":
        return Effect.NOTHING, "the last result is forgotten"
    if old.smoke_test.mode == "off":
        return Effect.SMOKE_TEST, ""
    return Effect.IN_PLACE, "the last result is judged again; it runs only if the gate was shut"


def _of_the_run(_old: Settings, new: Settings) -> tuple[Effect, str]:
    if new.smoke_test.mode == "off":
        return Effect.NOTHING, "the smoke test is off"
    return Effect.SMOKE_TEST, ""


def _then_the_run(_old: Settings, new: Settings) -> tuple[Effect, str]:
    if new.smoke_test.mode == "off":
        return Effect.IN_PLACE, ""
    return Effect.SMOKE_TEST, "after a change in place"


def _release(old: Settings, new: Settings) -> tuple[Effect, str]:
    if old.release == new.release:
        return Effect.NOTHING, "it is the default of the stack"
    note = "the installer changes in place: no workload should run meanwhile, and manifests that "
    note += "were injected with the old release must be injected again"
    return (Effect.IN_PLACE if new.smoke_test.mode == "off" else Effect.SMOKE_TEST), note


_RULES: Mapping[str, Callable[[Settings, Settings], tuple[Effect, str]]] = {
    "prefix": _prefix,
    "fabricCidr": _fabric_ranges,
    "fabricSubnets": _fabric_ranges,
    "networkNames": _network_names,
    "clusterName": _cluster_name,
    "clusterNetworkCidr": _cluster_network_cidr,
    "clusterVersion": _version,
    "podCidr": _chosen_by_google(lambda settings: settings.cluster.pod_cidr),
    "serviceCidr": _chosen_by_google(lambda settings: settings.cluster.service_cidr),
    "controlPlaneCidr": _chosen_by_google(lambda settings: settings.cluster.control_plane_cidr),
    "release": _release,
    "smokeTest": _smoke_test,
    "fabricSourceRanges": _then_the_run,
    "imageRegistry": _then_the_run,
    **dict.fromkeys(
        (
            "ncclProfile",
            "capacity",
            "zone",
            "reservationName",
            "reservationProject",
            "maxRunDuration",
            "placementGroup",
            "computeClass",
            "smokeTestNodes",
            "smokeTestCollective",
            "smokeTestRerun",
        ),
        _of_the_run,
    ),
}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value) if value else ""
