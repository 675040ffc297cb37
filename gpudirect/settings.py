"""From a stack's config to one frozen value, or to every reason why there is none.

Owns the composition: which part reads which keys, and the rules between parts. Does not own the
rules within a part (`location`, `naming`, `fabric_settings`, `cluster_settings`, `capacity`,
`smoke_test_settings`), and holds no default: those are in `Pulumi.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from gpudirect.addressing import NamedRange
from gpudirect.capacity import CapacitySettings, read_capacity
from gpudirect.cluster_settings import ClusterSettings, read_cluster, read_labels
from gpudirect.config_values import ConfigReader
from gpudirect.fabric_settings import (
    FabricSettings,
    NicPlan,
    check_overlaps,
    fabric_settings,
    read_fabric,
    read_range,
)
from gpudirect.findings import Finding, SettingsError
from gpudirect.location import Location, check_stack, read_location
from gpudirect.naming import Names, read_names, read_network_names
from gpudirect.releases import (
    Release,
    ReleaseLock,
    ReleaseLockError,
    is_registry,
    load_releases,
)
from gpudirect.smoke_test_settings import (
    SmokeTestSettings,
    check_run_on_capacity,
    read_smoke_test,
)
from gpudirect.stacks import STACKS, GpuStack
from gpudirect.universes import Universe
from gpudirect.versions import ServerConfig

__all__ = [
    "CapacitySettings",
    "ClusterSettings",
    "FabricSettings",
    "Finding",
    "NicPlan",
    "Settings",
    "SettingsError",
    "SettingsReading",
    "SmokeTestSettings",
    "load_settings",
    "read_settings",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Everything that decides the shape of an environment, checked.

    Attributes:
        stack_name: Name of the Pulumi stack.
        project: Google Cloud project, or None where the config does not say it.
        region: Region of cluster and subnets.
        universe: The Google Cloud universe.
        gpu_stack: Machine and technology.
        prefix: Start of every physical name.
        labels: Labels of the cluster.
        fabric: The GPU networks.
        cluster: The cluster.
        release: Plug-in and daemon with what belongs to them.
        profile: NCCL profile of the release.
        image_registry: Registry of a mirror, or empty for the published one.
        device_injector: Whether the stack brings its own device injector.
        capacity: How nodes are asked for.
        smoke_test: The NCCL run.
        allow_replace: What an update may replace although it is live: `fabric`, `cluster`.
        network_names: Names of the cluster's `Network` objects, in the order of the GPU NICs.
        ranges: Every range that the environment takes up, for comparison with other environments.
        warnings: Findings that refuse nothing.
    """

    stack_name: str
    project: str | None
    region: str
    universe: Universe
    gpu_stack: GpuStack
    prefix: str
    labels: Mapping[str, str]
    fabric: FabricSettings
    cluster: ClusterSettings
    release: Release
    profile: str
    image_registry: str
    device_injector: bool
    capacity: CapacitySettings
    smoke_test: SmokeTestSettings
    allow_replace: frozenset[str]
    network_names: tuple[str, ...]
    ranges: tuple[NamedRange, ...] = ()
    warnings: tuple[Finding, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsReading:
    """What came of reading a config.

    Attributes:
        settings: None where a finding is an error.
        findings: All of them, warnings included.
        ranges: Every range that could be read, even of a config that is refused.
        location: Where the environment is, as far as that could be read.
        names: Its physical names, or None where they are wrong.
    """

    settings: Settings | None
    findings: tuple[Finding, ...]
    ranges: tuple[NamedRange, ...]
    location: Location
    names: Names | None


def load_settings(
    *,
    stack_name: str,
    values: Mapping[str, object],
    gcp: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    secret_keys: Iterable[str] = (),
    server_config: ServerConfig | None = None,
) -> Settings:
    """Return the settings of a stack.

    Args:
        stack_name: Name of the Pulumi stack.
        values: All keys of the project's namespace, without it, as Pulumi hands them over: texts,
            arrays and objects as JSON or as what it means; the defaults of `Pulumi.yaml` included.
        gcp: Keys of the `gcp` namespace without it.
        environ: Environment variables, where the provider would look for the project.
        secret_keys: Keys, without namespace, that are or hold secrets.
        server_config: Google's list of versions, where it is at hand.

    Raises:
        SettingsError: with every finding at once.
    """
    reading = read_settings(
        stack_name=stack_name,
        values=values,
        gcp=gcp,
        environ=environ,
        secret_keys=secret_keys,
        server_config=server_config,
    )
    if reading.settings is None:
        errors = [finding for finding in reading.findings if finding.severity == "error"]
        raise SettingsError(errors, stack_name=stack_name)
    return reading.settings


def read_settings(
    *,
    stack_name: str,
    values: Mapping[str, object],
    gcp: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    secret_keys: Iterable[str] = (),
    server_config: ServerConfig | None = None,
    written: Mapping[str, str] | None = None,
) -> SettingsReading:
    """Read a config and return what came of it; the arguments are those of `load_settings`.

    Args:
        stack_name: As in `load_settings`.
        values: As in `load_settings`.
        gcp: As in `load_settings`.
        environ: As in `load_settings`.
        secret_keys: As in `load_settings`.
        server_config: As in `load_settings`.
        written: How unquoted scalars stand in the stack file, where one was read.
    """

    def new_reader() -> ConfigReader:
        return ConfigReader(values, stack_name=stack_name, secret_keys=secret_keys, written=written)

    reader = new_reader()
    chosen = STACKS.get(reader.choice("gpuStack") or "")
    if chosen is not None:
        return _read_for(reader, chosen, gcp, environ, server_config)
    # Nobody knows which is meant. What is wrong for every one of them is wrong.
    readings = [
        _read_for(new_reader(), stack, gcp, environ, server_config) for stack in STACKS.values()
    ]
    return replace(
        readings[0],
        settings=None,
        findings=(*reader.findings, *_in_all([reading.findings for reading in readings])),
    )


def _in_all(readings: Sequence[Sequence[Finding]]) -> Iterator[Finding]:
    """Yield the findings about keys that every reading finds wrong."""
    first, *others = readings
    for finding in first:
        same = [finding]
        for reading in others:
            about = [
                other
                for other in reading
                if (other.key, other.severity) == (finding.key, finding.severity)
            ]
            about.sort(key=lambda other: other.message != finding.message)
            same += about[:1]
        if len(same) == len(readings):
            yield replace(
                finding,
                message=" or ".join(dict.fromkeys(other.message for other in same)),
                expected=" or ".join(dict.fromkeys(other.expected for other in same)),
            )


def _read_for(
    reader: ConfigReader,
    stack: GpuStack,
    gcp: Mapping[str, str],
    environ: Mapping[str, str] | None,
    server_config: ServerConfig | None,
) -> SettingsReading:
    """Read everything, for one GPU stack."""
    reader.check_keys()
    location = read_location(reader, gcp, environ)
    names = read_names(reader, stack)
    network_names = read_network_names(reader, stack)
    lock = load_releases()
    release, profile = _read_release(reader, stack, lock)
    capacity = read_capacity(reader, region=location.region, universe=location.universe)
    check_stack(reader, location.universe, stack, capacity.mode or None)
    smoke_test = read_smoke_test(reader, gpus_per_node=stack.gpus_per_node)
    check_run_on_capacity(reader, smoke_test, capacity)
    public = reader.boolean("allowPublicRanges") is not False
    fabric = read_fabric(reader, stack, public=public, nodes=_wanted_nodes(reader, smoke_test))
    cluster = read_cluster(
        reader,
        names,
        universe=location.universe,
        release=release or lock.default(stack.name),
        public=public,
        server_config=server_config,
    )
    ranges = (*fabric.ranges, *cluster.ranges)
    reserved = _read_reserved(reader)
    check_overlaps(reader, [*reserved, *ranges])
    registry = _read_registry(reader, location.universe)
    labels = read_labels(reader)
    allow_replace = reader.choice("allowReplace") or ""
    device_injector = reader.boolean("deviceInjector") is not False
    reader.check_scalars()

    findings = tuple(reader.findings)
    settings = None
    if not any(finding.severity == "error" for finding in findings):
        if not (names and network_names and release and location.universe):
            raise AssertionError("a config without a finding could not be read")
        settings = Settings(
            stack_name=reader.stack_name,
            project=location.project,
            region=location.region or "",
            universe=location.universe,
            gpu_stack=stack,
            prefix=names.prefix,
            labels=MappingProxyType(labels),
            fabric=fabric_settings(fabric, stack, names, network_names),
            cluster=cluster.settings,
            release=release,
            profile=profile,
            image_registry=registry,
            device_injector=device_injector,
            capacity=capacity,
            smoke_test=smoke_test,
            allow_replace=frozenset(allow_replace.split(",")) - {""},
            network_names=network_names,
            ranges=ranges,
            warnings=findings,
        )
    return SettingsReading(
        settings=settings, findings=findings, ranges=ranges, location=location, names=names
    )


def _wanted_nodes(reader: ConfigReader, smoke_test: SmokeTestSettings) -> int:
    wanted = reader.integer(
        "fabricNodes", least=0, most=None, why="it counts the nodes that a subnet has room for"
    )
    nodes = smoke_test.nodes if smoke_test.mode != "off" else 1
    return max(wanted or 0, nodes)


def _read_release(
    reader: ConfigReader, stack: GpuStack, lock: ReleaseLock
) -> tuple[Release | None, str]:
    name, profile = reader.text("release"), reader.text("ncclProfile") or ""
    if name is None:
        return None, profile
    release = None
    try:
        release = lock.get(name, stack.name)
    except ReleaseLockError:
        known = [known.name for known in lock.for_stack(stack.name)]
        reader.report(
            "release",
            f"no release of {stack.name}",
            f"one of {', '.join(known)}",
            "plug-in, daemon, arguments and environment belong together",
            fix=reader.set_to("release", lock.default(stack.name).name),
        )
    with_profiles = release or lock.default(stack.name)
    if profile and profile not in with_profiles.profiles:
        reader.report(
            "ncclProfile",
            f"no profile of {with_profiles.name}",
            f"one of {', '.join(with_profiles.profiles)}",
            "a profile's variables and files come with the release",
            fix=reader.set_to("ncclProfile", "default"),
        )
    if release is None:
        return None, profile
    if _numbers(release.qualified_driver) > _numbers(lock.newest_gke_driver):
        reader.report(
            "release",
            f"qualified with GPU driver {release.qualified_driver}",
            f"a GKE version that installs it; the newest one seen there is "
            f"{lock.newest_gke_driver}",
            "an older driver is not what the release was tested with",
            fix=reader.set_to("release", lock.default(stack.name).name),
            severity="warning",
        )
    return release, profile


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")) if version else ()


def _read_reserved(reader: ConfigReader) -> list[NamedRange]:
    found = []
    for number, text in enumerate(reader.texts("reservedCidrs") or ()):
        if text is None:
            continue
        place = f"reservedCidrs[{number}]"
        label = f"range of others in gpudirect:{place}"
        item = read_range(reader, place, text, label=label, public=True, is_subnet=False)
        if item:
            found.append(replace(item, stated=False))
    return found


def _read_registry(reader: ConfigReader, universe: Universe | None) -> str:
    registry = reader.text("imageRegistry") or ""
    if registry and not is_registry(registry):
        reader.report(
            "imageRegistry",
            "no registry host",
            "a host, with a path where the mirror has one, such as "
            f"{universe.registry('us-east4') if universe else 'us-east4-docker.pkg.dev'}"
            "/PROJECT/REPOSITORY",
            "it takes the place of the host in every image reference",
        )
    elif not registry and universe and not universe.has_published_images:
        reader.report(
            "imageRegistry",
            f"the published images are outside {universe.title}",
            f"a mirror in {universe.registry(universe.regions[0])}",
            "nobody has said that its nodes reach the published registry",
            fix=reader.set_to(
                "imageRegistry", f"{universe.registry(universe.regions[0])}/PROJECT/REPOSITORY"
            ),
            severity="warning",
        )
    return registry
