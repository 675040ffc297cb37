"""`teardown`: what a `pulumi destroy` would meet, before anybody runs it.

Owns the options and the list that is shown. Does not own what is in the way
(`gpudirect.teardown`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpudirect.cli.live_stack import Trouble, live_stack_options, stack_settings

if TYPE_CHECKING:
    from gpudirect.settings import Settings
    from gpudirect.teardown import Obstacle

_EXAMPLES = """\b
Examples:
  python -m gpudirect teardown --stack dev
  python -m gpudirect teardown --stack dev --json
"""


@click.command("teardown", epilog=_EXAMPLES)
@live_stack_options
@click.pass_context
def command(context: click.Context, stack: str, folder: Path, as_json: bool) -> None:
    """Find what stands in the way of `pulumi destroy`.

    Looks at the state, at the firewall rules in the stack's networks and at what users have in the
    cluster; changes nothing. Exit code 1 says that a destroy would not get through.
    """
    from gpudirect.orphans import Cloud, OrphanSearchError, read_state
    from gpudirect.teardown import foreign_rules, protection

    settings, project = stack_settings(folder, stack)
    try:
        found = [
            *protection(read_state(stack, program=folder), settings),
            *foreign_rules(settings, project, Cloud(settings.universe.domain, os.environ)),
        ]
    except OrphanSearchError as error:
        raise Trouble(str(error)) from error
    in_cluster, silence = _in_cluster(settings, stack, folder)
    found += in_cluster
    if as_json:
        document = {"obstacles": [asdict(entry) for entry in found], "clusterSilent": silence}
        click.echo(json.dumps(document, indent=2))
    else:
        _print(found, silence, stack)
    context.exit(1 if any(entry.stops for entry in found) else 0)


def _in_cluster(settings: Settings, stack: str, folder: Path) -> tuple[list[Obstacle], str | None]:
    """Return what is found in the cluster, and why nothing could be where it does not answer."""
    from gpudirect.cluster_access import ClusterAccessError, connect, read_stack_kubeconfig
    from gpudirect.teardown import read_workloads, workloads

    try:
        with connect(read_stack_kubeconfig(stack, program=folder)) as client:
            pods, services = read_workloads(client)
    except ClusterAccessError as error:
        return [], str(error)
    return list(workloads(pods, services, settings)), None


def _print(found: Sequence[Obstacle], silence: str | None, stack: str) -> None:
    for entry in found:
        click.secho(entry.what, fg="red" if entry.stops else "yellow")
        click.echo(f"   {entry.because}")
        if entry.remedy:
            click.echo(f"   {entry.remedy}")
    if silence:
        click.echo(f"What runs in the cluster is not known: {silence}")
        click.echo("Destroy needs no cluster that answers.")
    if not any(entry.stops for entry in found):
        click.echo(f"Nothing stands in the way of `pulumi destroy --stack {stack}`.")
