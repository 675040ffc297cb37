"""The command line: `python -m sandbox up | down | status | env | build | reset`.

Owns reading arguments and printing. What the commands do is in `lifecycle`, `status` and
`environment`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import click

from sandbox import environment, lifecycle
from sandbox.errors import SandboxError
from sandbox.home import DEFAULT_HOME, Home


def _remark(text: str) -> None:
    click.echo(text, err=True)


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --home, and print its errors without a traceback.

    Args:
        function: Takes the sandbox as its first argument, its own options as the others.
    """

    @wraps(function)
    def run(*, home: Path, **options: object) -> None:
        try:
            function(Home(home.absolute()), **options)
        except SandboxError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            raise click.ClickException(
                "interrupted. What was finished is kept: run the same command again to go on."
            ) from None

    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        default=DEFAULT_HOME,
        show_default=".sandbox in the repository",
        help="The sandbox's folder.",
    )(run)


@click.group()
def main() -> None:
    """A stand-in Google Cloud with real Kubernetes API servers, on this machine."""


@main.command()
@click.option(
    "--pace",
    type=click.FloatRange(min=0),
    help="0: operations end at once; 1: Google's usual times. Kept for the next time; at first 0.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Where the cloud answers on 127.0.0.1. Kept for the next time; at first any free one.",
)
@_command
def up(home: Home, pace: float | None, port: int | None) -> None:
    """Start the sandbox; build what is missing."""
    started = time.monotonic()
    running = lifecycle.up(home, os.environ, _remark, pace=pace, port=port)
    seconds = time.monotonic() - started
    state = f"ready after {seconds:.1f} s" if running.started else "runs already"
    click.echo(
        f"The sandbox {state}: http://127.0.0.1:{running.port} (pid {running.pid}, "
        f"pace {running.pace:g}).\nFor pulumi, kubectl and gcloud in this shell: "
        f'eval "$({_shown_command(home)})"'
    )


def _shown_command(home: Home) -> str:
    suffix = "" if home.root == DEFAULT_HOME else f" --home {home.root}"
    return f"{sys.executable} -m sandbox env{suffix}"


@main.command()
@_command
def down(home: Home) -> None:
    """Stop the sandbox; its state is kept."""
    lifecycle.down(home, click.echo)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_command
def status(home: Home, as_json: bool) -> None:
    """Show resources, clusters and processes."""
    from sandbox.status import collect, show

    found = collect(home)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
        return
    from rich.console import Console

    show(found, home, Console(highlight=False, markup=False))


@main.command()
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--shell", "form", flag_value="shell", default=True, help="Print shell exports.")
@click.option(
    "--real-gcp-plugin",
    type=click.Path(exists=True, path_type=Path),
    help="Use this pulumi-resource-gcp (or the one in this folder) instead of the stand-in.",
)
@_command
def env(home: Home, form: str, real_gcp_plugin: Path | None) -> None:
    """Print the environment that leads clients to the sandbox.

    For a shell: eval "$(python -m sandbox env)"
    """
    settings = home.settings()
    if not home.exists or settings is None:
        raise SandboxError(
            f"There is no sandbox in {home.root} yet: start one with `python -m sandbox up`."
        )
    home.check_version()
    folder = real_gcp_plugin and environment.folder_of_plugin(real_gcp_plugin)
    values = environment.variables(home, settings.port, os.environ, folder)
    click.echo(json.dumps(values, indent=2) if form == "json" else environment.as_shell(values))


@main.command()
@_command
def build(home: Home) -> None:
    """Build the toolchain and put it into the sandbox's folder; start nothing."""
    home.prepare()
    with home.locked():
        lifecycle.build(home, os.environ, _remark)
    click.echo(f"The toolchain is complete: {home.programs}")


@main.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@_command
def reset(home: Home, yes: bool) -> None:
    """Stop the sandbox and remove all that it holds: cloud, clusters, stacks."""
    if not yes:
        click.confirm(f"Remove everything in {home.root}?", abort=True)
    lifecycle.reset(home, click.echo)


if __name__ == "__main__":
    main(prog_name="python -m sandbox")
