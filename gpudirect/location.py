"""Where an environment is: universe, project and region.

Owns the keys of the `gcp` namespace that shape an environment. Does not own the zone, which is part
of the capacity choice (`capacity`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpudirect.config_text import SECRET
from gpudirect.config_values import ConfigReader
from gpudirect.findings import Severity
from gpudirect.stacks import GpuStack
from gpudirect.universes import GOOGLE, UNIVERSES, Universe

PROJECT_VARIABLES = (
    "GOOGLE_PROJECT",
    "GOOGLE_CLOUD_PROJECT",
    "GCLOUD_PROJECT",
    "CLOUDSDK_CORE_PROJECT",
)
"""Where the gcp provider looks for the project after the config [facts google-cloud.md §9]."""

_REGION = re.compile(r"[a-z]+(?:-[a-z]+)+\d+")
_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)+\d+)-[a-z]")
_PROJECT = re.compile(r"(?:[a-z0-9][a-z0-9.-]*:)?[a-z0-9][-a-z0-9]*[a-z0-9]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """Where an environment is; None stands for what the config does not say rightly."""

    universe: Universe | None
    project: str | None
    region: str | None


def read_location(
    reader: ConfigReader, gcp: Mapping[str, str], environ: Mapping[str, str] | None
) -> Location:
    """Read universe, project and region.

    Args:
        reader: Takes the findings.
        gcp: Keys of the `gcp` namespace without it.
        environ: Environment variables, where there may be a project; None where nobody knows them,
            and a missing project is no finding.
    """
    universe = _universe(reader, gcp.get("universeDomain") or GOOGLE.domain)
    return Location(
        universe=universe,
        project=_project(reader, gcp, environ, universe),
        region=_region(reader, gcp.get("region") or "", universe),
    )


def check_stack(
    reader: ConfigReader, universe: Universe | None, stack: GpuStack, capacity: str | None
) -> None:
    """Report a GPU stack that the universe does not have, or not by this way of asking."""
    if universe is None:
        return
    if stack.name not in universe.stacks:
        others = ", ".join(universe.stacks)
        reader.report(
            "gpuStack",
            f"{universe.title} has no {stack.machine_type}",
            f"{others}, or another universe",
            "the machine type decides the technology",
            fix=reader.set_to("gpuStack", next(iter(universe.stacks))),
        )
        return
    modes = universe.stacks[stack.name]
    if capacity is None or capacity in modes:
        if universe.has_published_images or capacity is None:
            return
        _warn(
            reader,
            "gpuStack",
            f"nobody is known to have run {stack.technology} in {universe.title}",
            "a first run that you watch",
            "its A3 machines have no local SSD, which the published ones have",
        )
        return
    reader.report(
        "capacity",
        f"{universe.title} gives no {stack.machine_type} that way",
        " or ".join(modes),
        f"its A3 machines have no local SSD, and Autopilot gives {stack.machine_type}-nolssd "
        "through a custom ComputeClass alone",
        fix=reader.set_to("capacity", modes[0]),
    )


def _warn(reader: ConfigReader, key: str, message: str, expected: str, why: str) -> None:
    severity: Severity = "warning"
    reader.report(key, message, expected, why, fix="nothing to mend", severity=severity)


def _universe(reader: ConfigReader, domain: str) -> Universe | None:
    if domain in UNIVERSES:
        return UNIVERSES[domain]
    reader.report(
        "gcp:universeDomain",
        "a universe that nobody has described",
        f"one of {', '.join(UNIVERSES)}",
        "what it lacks would show only minutes into an update",
        value=domain,
    )
    return None


def _project(
    reader: ConfigReader,
    gcp: Mapping[str, str],
    environ: Mapping[str, str] | None,
    universe: Universe | None,
) -> str | None:
    project = gcp.get("project") or next(
        (environ[name] for name in PROJECT_VARIABLES if environ and environ.get(name)), ""
    )
    set_it = reader.set_to("gcp:project", "PROJECT")
    if not project:
        if environ is not None:
            reader.report(
                "gcp:project",
                f"no project, neither here nor in {', '.join(PROJECT_VARIABLES)}",
                "the id of a Google Cloud project",
                "every resource is in one",
                fix=f"export {PROJECT_VARIABLES[0]}=PROJECT, or {set_it}",
            )
        return None
    prefix = universe.project_prefix if universe else ""
    if not _PROJECT.fullmatch(project):
        message, expected = "no project id", "small letters, digits and hyphens"
        why = "Google knows projects by their id, not by their title"
    elif prefix and not project.startswith(prefix):
        message, expected = "an id of another universe", f"{prefix}NAME"
        why = f"project ids of {universe.title if universe else ''} start so"
        set_it = reader.set_to("gcp:project", f"{prefix}{project}")
    else:
        return project
    reader.report("gcp:project", message, expected, why, fix=set_it, value=project)
    return None


def _region(reader: ConfigReader, region: str, universe: Universe | None) -> str | None:
    known = universe.regions if universe else ()
    zone = _ZONE.fullmatch(region)
    example = zone[1] if zone else (known[0] if known else "us-east4")
    if region == SECRET:
        message, expected, why = "a secret where none belongs", "the region in clear", "it is none"
    elif not region:
        message, expected = "not set", "a region, such as us-east4"
        why = (
            "cluster and subnets are in it, and one from the environment would move the stack "
            "with the next shell"
        )
    elif zone:
        message, expected = "a zone", f"its region, {zone[1]}"
        why = "Autopilot clusters are regional"
    elif known and region not in known:
        message, expected = f"not in {universe.title if universe else ''}", ", ".join(known)
        why = "the universe has no other region"
    elif not _REGION.fullmatch(region):
        message, expected, why = "no region", "a region, such as us-east4", "Google knows no other"
    else:
        return region
    reader.report(
        "gcp:region", message, expected, why, fix=reader.set_to("gcp:region", example), value=region
    )
    # The rest of the config can be looked at with what was meant.
    return zone[1] if zone else None
