"""`releases`: what the release lock holds, as a list or one release in full.

Owns the printing. Does not own the lock (`releases`).
"""

from __future__ import annotations

import json
from typing import Any

import click

from gpudirect.releases import (
    GkeFloor,
    Release,
    ReleaseLock,
    ReleaseLockError,
    load_releases,
)
from gpudirect.stacks import STACKS

_EXAMPLES = """\b
Examples:
  python -m gpudirect releases
  python -m gpudirect releases tcpxo-v1.0.15
  python -m gpudirect releases --gpu-stack a3-high --json
"""
_COLUMNS = ("release", "GPU stack", "plug-in", "daemon", "NCCL", "date", "profiles")


class _Trouble(click.ClickException):
    exit_code = 2


@click.command("releases", epilog=_EXAMPLES)
@click.argument("name", required=False)
@click.option("--gpu-stack", type=click.Choice(list(STACKS)), help="Only those of one GPU stack.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(name: str | None, gpu_stack: str | None, as_json: bool) -> None:
    """List and explain the releases of the lock.

    A release is plug-in and daemon with the arguments, environment and versions that belong to
    them; the config key `release` picks one by name.
    """
    try:
        lock = load_releases()
        found = _select(lock, name, gpu_stack)
    except ReleaseLockError as error:
        raise _Trouble(str(error)) from error
    if as_json:
        data = [_data(release) for release in found]
        click.echo(json.dumps(data[0] if name else data, indent=2, ensure_ascii=False))
    elif name:
        click.echo(_explained(found[0], lock))
    else:
        click.echo(_listed(found))


def _select(lock: ReleaseLock, name: str | None, gpu_stack: str | None) -> tuple[Release, ...]:
    found = lock.for_stack(gpu_stack) if gpu_stack else lock.releases
    if not name:
        return found
    return (lock.get(name, gpu_stack) if gpu_stack else lock.find(name),)


def _listed(releases: tuple[Release, ...]) -> str:
    rows = [_COLUMNS] + [
        (
            f"{release.name}{' *' if release.is_default else ''}",
            release.stack,
            release.plugin_version,
            release.daemon_version,
            release.nccl_version,
            release.date,
            ", ".join(release.profiles),
        )
        for release in releases
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join((*lines, "", "* the default of its GPU stack"))


def _explained(release: Release, lock: ReleaseLock) -> str:
    reference = release.reference
    size, bandwidth = reference.curve[-1]
    lines = [
        f"{release.name}, for {release.stack}{' (the default)' if release.is_default else ''}",
        "",
        release.note,
        f"Source: {release.source}, {release.date}.",
        "",
        f"plug-in    {release.plugin_image}",
        f"daemon     {release.daemon_image}",
        f"command    {json.dumps(release.daemon_command)}",
        *(f"args       {argument.strip()}" for argument in _argument_lines(release)),
        f"NCCL       {release.nccl_version}",
        f"driver     {_driver(release, lock)}",
        *(f"GKE        {_floor(floor)}" for floor in release.gke_floors),
        f"reference  {bandwidth} GB/s at {size} bytes, {reference.nodes} nodes, "
        f"{reference.collective}: {reference.source}; measured with: {reference.measured_with}",
    ]
    for profile, environment in release.profiles.items():
        script = release.profile_files.get(profile)
        lines += ["", f"profile {profile}{f' (on the node: {script})' if script else ''}"]
        for variable, value in environment.items():
            required = variable in release.required_environment and profile == "default"
            mark = "  # its checker insists on it" if required else ""
            lines.append(f"  {variable}={value}{mark}")
    return "\n".join(lines)


def _argument_lines(release: Release) -> list[str]:
    return [line for argument in release.daemon_args for line in argument.splitlines()]


def _driver(release: Release, lock: ReleaseLock) -> str:
    text = f"{release.least_driver} or newer"
    if release.qualified_driver:
        cuda = f", CUDA {release.qualified_cuda}" if release.qualified_cuda else ""
        text += f"; qualified with {release.qualified_driver}{cuda}"
    return f"{text}; newest seen on GKE: {lock.newest_gke_driver}"


def _floor(floor: GkeFloor) -> str:
    where = f" (of {floor.minor})" if floor.minor else ""
    return f"{floor.version} or newer{where}{', advised' if floor.advised else ''}: {floor.source}"


def _data(release: Release) -> dict[str, Any]:
    reference = release.reference
    return {
        "name": release.name,
        "gpuStack": release.stack,
        "default": release.is_default,
        "plugin": release.plugin_image,
        "daemon": release.daemon_image,
        "daemonCommand": list(release.daemon_command),
        "daemonArgs": list(release.daemon_args),
        "ncclVersion": release.nccl_version,
        "leastDriver": release.least_driver,
        "qualifiedDriver": release.qualified_driver,
        "qualifiedCuda": release.qualified_cuda,
        "gkeFloors": [
            {
                "version": floor.version,
                "minor": floor.minor,
                "advised": floor.advised,
                "source": floor.source,
            }
            for floor in release.gke_floors
        ],
        "profiles": {name: dict(values) for name, values in release.profiles.items()},
        "profileFiles": dict(release.profile_files),
        "requiredEnvironment": dict(release.required_environment),
        "reference": {
            "rows": [list(row) for row in reference.rows],
            "nodes": reference.nodes,
            "collective": reference.collective,
            "source": reference.source,
            "measuredWith": reference.measured_with,
        },
        "note": release.note,
        "source": release.source,
        "date": release.date,
    }
