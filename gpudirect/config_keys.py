"""The project's config keys: type, legal choices, and what changing each one does.

Owns the class of a change (its blast radius) of every key, once, as data. Defaults and meanings
live in `Pulumi.yaml` alone; a contract test ties both files together. Does not own the rules beyond
type and choice (`settings` and the modules it calls).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Literal

from gpudirect.stacks import STACKS
from gpudirect.versions import RELEASE_CHANNELS

KeyType = Literal["string", "integer", "boolean", "array", "object"]


class Effect(Enum):
    """What a change of config does to a live environment, from the least to the most."""

    NOTHING = "changes no resource"
    IN_PLACE = "in place"
    SMOKE_TEST = "re-runs the smoke test"
    ADDONS = "replaces addons"
    FABRIC = "replaces the fabric"
    CLUSTER = "replaces the cluster"

    @property
    def weight(self) -> int:
        """Place in the order, 0 being the least."""
        return list(Effect).index(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigKey:
    """One config key of the project.

    Attributes:
        name: The key without its namespace.
        theme: Heading in the reference.
        effect: The most that a change of it does.
        type: Type in `Pulumi.yaml`.
        choices: Every legal value, where they can be counted.
        optional: Whether the empty value has a meaning of its own.
        is_number: Whether the value is a number, however it is written.
    """

    name: str
    theme: str
    effect: Effect
    type: KeyType = "string"
    choices: tuple[str, ...] = ()
    optional: bool = False
    is_number: bool = False


CAPACITY_MODES = ("on-demand", "spot", "flex-start", "reservation", "compute-class")
SMOKE_TEST_MODES = ("off", "report", "gate")
COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all")
REPLACEABLE = ("fabric", "cluster", "fabric,cluster")

_KEYS = (
    ConfigKey(name="gpuStack", theme="environment", effect=Effect.FABRIC, choices=tuple(STACKS)),
    ConfigKey(name="prefix", theme="environment", effect=Effect.CLUSTER, optional=True),
    ConfigKey(name="labels", theme="environment", effect=Effect.IN_PLACE, type="object"),
    ConfigKey(
        name="allowReplace",
        theme="environment",
        effect=Effect.NOTHING,
        choices=REPLACEABLE,
        optional=True,
    ),
    ConfigKey(name="fabricCidr", theme="fabric", effect=Effect.FABRIC),
    ConfigKey(name="fabricSubnets", theme="fabric", effect=Effect.FABRIC, type="array"),
    ConfigKey(name="fabricSourceRanges", theme="fabric", effect=Effect.SMOKE_TEST, type="array"),
    ConfigKey(name="fabricNodes", theme="fabric", effect=Effect.NOTHING, type="integer"),
    ConfigKey(name="networkNames", theme="fabric", effect=Effect.ADDONS, type="array"),
    ConfigKey(name="reservedCidrs", theme="fabric", effect=Effect.NOTHING, type="array"),
    ConfigKey(name="allowPublicRanges", theme="fabric", effect=Effect.NOTHING, type="boolean"),
    ConfigKey(name="clusterName", theme="cluster", effect=Effect.CLUSTER, optional=True),
    ConfigKey(name="clusterNetwork", theme="cluster", effect=Effect.CLUSTER),
    ConfigKey(name="clusterSubnetwork", theme="cluster", effect=Effect.CLUSTER, optional=True),
    ConfigKey(name="clusterNetworkCidr", theme="cluster", effect=Effect.CLUSTER),
    ConfigKey(name="clusterVersion", theme="cluster", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(
        name="releaseChannel",
        theme="cluster",
        effect=Effect.IN_PLACE,
        choices=RELEASE_CHANNELS,
    ),
    ConfigKey(name="podCidr", theme="cluster", effect=Effect.CLUSTER, optional=True),
    ConfigKey(name="serviceCidr", theme="cluster", effect=Effect.CLUSTER, optional=True),
    ConfigKey(name="privateNodes", theme="cluster", effect=Effect.IN_PLACE, type="boolean"),
    ConfigKey(name="controlPlaneCidr", theme="cluster", effect=Effect.CLUSTER, optional=True),
    ConfigKey(name="authorizedNetworks", theme="cluster", effect=Effect.IN_PLACE, type="object"),
    ConfigKey(name="allowOpenControlPlane", theme="cluster", effect=Effect.NOTHING, type="boolean"),
    ConfigKey(name="deletionProtection", theme="cluster", effect=Effect.IN_PLACE, type="boolean"),
    ConfigKey(name="maintenanceWindow", theme="cluster", effect=Effect.IN_PLACE, optional=True),
    ConfigKey(name="release", theme="GPUDirect", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="ncclProfile", theme="GPUDirect", effect=Effect.SMOKE_TEST),
    ConfigKey(name="imageRegistry", theme="GPUDirect", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="deviceInjector", theme="GPUDirect", effect=Effect.ADDONS, type="boolean"),
    ConfigKey(name="capacity", theme="capacity", effect=Effect.SMOKE_TEST, choices=CAPACITY_MODES),
    ConfigKey(name="zone", theme="capacity", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="reservationName", theme="capacity", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="reservationProject", theme="capacity", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="maxRunDuration", theme="capacity", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="placementGroup", theme="capacity", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="computeClass", theme="capacity", effect=Effect.SMOKE_TEST, optional=True),
    ConfigKey(name="gpuQuota", theme="capacity", effect=Effect.NOTHING, type="integer"),
    ConfigKey(
        name="smokeTest", theme="smoke test", effect=Effect.SMOKE_TEST, choices=SMOKE_TEST_MODES
    ),
    ConfigKey(name="smokeTestNodes", theme="smoke test", effect=Effect.SMOKE_TEST, type="integer"),
    ConfigKey(
        name="smokeTestCollective",
        theme="smoke test",
        effect=Effect.SMOKE_TEST,
        choices=COLLECTIVES,
    ),
    ConfigKey(
        name="smokeTestMinFraction",
        theme="smoke test",
        effect=Effect.IN_PLACE,
        is_number=True,
    ),
    ConfigKey(name="smokeTestCapacityDeadline", theme="smoke test", effect=Effect.NOTHING),
    ConfigKey(name="smokeTestPullDeadline", theme="smoke test", effect=Effect.NOTHING),
    ConfigKey(name="smokeTestStartDeadline", theme="smoke test", effect=Effect.NOTHING),
    ConfigKey(name="smokeTestRunDeadline", theme="smoke test", effect=Effect.NOTHING),
    ConfigKey(name="smokeTestRerun", theme="smoke test", effect=Effect.SMOKE_TEST, optional=True),
)

CONFIG_KEYS: Mapping[str, ConfigKey] = MappingProxyType({key.name: key for key in _KEYS})
"""Every key by name, in the order of the reference."""

OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "mtu": "the MTU of the GPU networks is 8244 and no other",
        "fabricMtu": "the MTU of the GPU networks is 8244 and no other",
        "nics": "the number of GPU NICs follows from gpuStack",
        "machine": "the machine type follows from gpuStack",
        "machineType": "the machine type follows from gpuStack",
        "pluginVersion": "plug-in and daemon are a pair: choose one by `release`",
        "pluginImage": "plug-in and daemon are a pair: choose one by `release`",
        "daemonVersion": "plug-in and daemon are a pair: choose one by `release`",
        "daemonImage": "plug-in and daemon are a pair: choose one by `release`",
        "nodeConfig": "on Autopilot it makes every later preview a replacement",
        "dnsConfig": "on Autopilot it makes every later preview a replacement",
        "namespace": "GKE exempts the addons in gpudirect-system only; kube-system takes no "
        "workloads of users",
        "project": "the project is gcp:project, or the environment variable GOOGLE_PROJECT",
        "region": "the region is gcp:region",
        "universeDomain": "the universe is gcp:universeDomain",
    }
)
"""Keys that people look for and that do not exist, with the reason."""
