"""The Google Cloud universes that are known, and what each one has.

Owns the profiles. A universe without a profile is refused: what it lacks would show minutes into an
update. Does not own the config key (`location`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpudirect.config_keys import CAPACITY_MODES
from gpudirect.stacks import A3_HIGH, A3_MEGA


@dataclass(frozen=True, kw_only=True, slots=True)
class Universe:
    """What one universe has [facts autopilot.md §5].

    Attributes:
        domain: Domain of the APIs, value of `gcp:universeDomain`.
        title: Name for people.
        regions: Every region, where there are few; empty for too many to list.
        project_prefix: What project ids start with.
        registry_host: Host of the universe's own Artifact Registry; `{region}` stands in it.
        service_account_suffix: End of the e-mail address of a user's service account.
        workload_pool_suffix: End of the workload identity pool's name.
        stacks: GPU stacks by name to the ways of asking that give their machines.
        capacity_modes: Ways to ask for nodes.
        has_compact_placement: Whether placement groups are known to work.
        has_default_network: Whether a new project has the VPC `default`.
        has_published_images: Whether the published images are known to be reachable.
    """

    domain: str
    title: str
    regions: tuple[str, ...]
    project_prefix: str
    registry_host: str
    service_account_suffix: str
    workload_pool_suffix: str
    stacks: Mapping[str, tuple[str, ...]]
    capacity_modes: tuple[str, ...]
    has_compact_placement: bool
    has_default_network: bool
    has_published_images: bool

    def service_account(self, name: str, project: str) -> str:
        """Return the e-mail address of a service account, whose project has no prefix in it."""
        return f"{name}@{project.removeprefix(self.project_prefix)}.{self.service_account_suffix}"

    def workload_pool(self, project: str) -> str:
        """Return the name of a project's workload identity pool."""
        return f"{project.removeprefix(self.project_prefix)}.{self.workload_pool_suffix}"

    def registry(self, region: str) -> str:
        """Return the host of the universe's registry in a region."""
        return self.registry_host.format(region=region)


GOOGLE = Universe(
    domain="googleapis.com",
    title="Google Cloud",
    regions=(),
    project_prefix="",
    registry_host="{region}-docker.pkg.dev",
    service_account_suffix="iam.gserviceaccount.com",
    workload_pool_suffix="svc.id.goog",
    stacks=MappingProxyType({A3_MEGA.name: CAPACITY_MODES, A3_HIGH.name: CAPACITY_MODES}),
    capacity_modes=CAPACITY_MODES,
    has_compact_placement=True,
    has_default_network=True,
    has_published_images=True,
)

S3NS = Universe(
    domain="s3nsapis.fr",
    title="Cloud de Confiance by S3NS",
    regions=("u-france-east1",),
    project_prefix="s3ns:",
    registry_host="{region}-docker.s3nsregistry.fr",
    service_account_suffix="s3ns.iam.gserviceaccount.com",
    workload_pool_suffix="s3ns.svc.id.goog",
    # No a3-megagpu-8g and no local SSD: of this project's machines only a3-highgpu-8g-nolssd is
    # there, and Autopilot gives that one through a custom ComputeClass alone.
    stacks=MappingProxyType({A3_HIGH.name: ("compute-class",)}),
    # Previews are absent, and flex-start is one.
    capacity_modes=("on-demand", "spot", "reservation", "compute-class"),
    has_compact_placement=False,
    has_default_network=False,
    has_published_images=False,
)

UNIVERSES: Mapping[str, Universe] = MappingProxyType({u.domain: u for u in (GOOGLE, S3NS)})
