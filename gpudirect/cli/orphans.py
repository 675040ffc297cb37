"""`orphans`: what an interrupted update left in the cloud, with the lines that mend it.

Owns the options and the list that is shown. Does not own the search (`gpudirect.orphans`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpudirect.cli.live_stack import Trouble, live_stack_options, stack_settings

if TYPE_CHECKING:
    from gpudirect.orphans import Orphan

_EXAMPLES = """\b
Examples:
  python -m gpudirect orphans --stack dev
  python -m gpudirect orphans --stack dev --json
"""


@click.command("orphans", epilog=_EXAMPLES)
@live_stack_options
@click.pass_context
def command(context: click.Context, stack: str, folder: Path, as_json: bool) -> None:
    """Find what exists in the cloud under the stack's names and is in no state.

    An update that is killed can leave such things; the next one is then refused with "already
    exists". Each is shown with the line that takes it into the state and the line that deletes it;
    nothing is changed here. Exit code 1 says that something was found.
    """
    from gpudirect.orphans import Cloud, OrphanSearchError, find_orphans, read_state

    settings, project = stack_settings(folder, stack)
    try:
        state = read_state(stack, program=folder)
        cloud = Cloud(settings.universe.domain, os.environ)
        orphans = find_orphans(settings, project, state, cloud)
    except OrphanSearchError as error:
        raise Trouble(str(error)) from error
    if as_json:
        click.echo(json.dumps([_as_json(orphan) for orphan in orphans], indent=2))
    else:
        _print(orphans, stack)
    context.exit(1 if orphans else 0)


def _as_json(orphan: Orphan) -> dict[str, object]:
    return {
        "type": orphan.resource.type,
        "id": orphan.resource.id,
        "created": orphan.created,
        "labelledAsThisStack": orphan.owner,
        "import": orphan.import_line,
        "delete": orphan.delete_line,
    }


def _print(orphans: Sequence[Orphan], stack: str) -> None:
    if not orphans:
        click.echo(f"Nothing exists under the names of stack {stack} that its state does not know.")
        return
    click.secho(
        f"{len(orphans)} in the cloud under the names of stack {stack}, and not in its state",
        bold=True,
    )
    for orphan in orphans:
        click.secho(f"\n{orphan.resource.id}", fg="yellow", nl=False)
        click.echo(f"  (made {orphan.created})" if orphan.created else "")
        click.echo(f"   {_ownership(orphan)}")
        click.echo(f"   keep it:   {orphan.import_line}")
        click.echo(f"   delete it: {orphan.delete_line}")
    if any(orphan.needs_component for orphan in orphans):
        click.echo(
            f"\nBefore the first import run `pulumi up --stack {stack}` once more: it is refused, "
            "but the state then holds the component that the import names."
        )
    click.echo("\nDelete in this order. Nothing was changed.")


def _ownership(orphan: Orphan) -> str:
    if orphan.owner is None:
        return "carries no labels: look at it before you do either"
    if orphan.owner:
        return "carries this stack's label"
    return "DOES NOT carry this stack's label: it may be somebody else's"
