"""The command line `python -m gpudirect`: names the commands and loads the one that is called.

Owns which commands there are. Does not own any of them (`cli/`): each lives in a module of its own
that is imported when it is called, so that `check` starts without what `results` needs.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

import click

COMMANDS = MappingProxyType(
    {
        "check": "Find every mistake in stack files, without credentials.",
        "diff": "Say what a stack-file edit does to the environment.",
        "doctor": "Say why an environment gives no bandwidth.",
        "inject": "Put GPUDirect into manifests.",
        "orphans": "Find what an interrupted update left in the cloud.",
        "releases": "List and explain the releases of the lock.",
        "results": "Read, judge and plot NCCL results.",
        "teardown": "Find what stands in the way of a destroy.",
    }
)
"""Name of each command, which is its module in `gpudirect.cli`, and its line in the help."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command by name."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"gpudirect.cli.{cmd_name}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"gpudirect.cli.{cmd_name}.command is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list without importing any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=LazyGroup,
    name="gpudirect",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def main() -> None:
    """GPUDirect environments on GKE Autopilot: config, manifests, results."""


if __name__ == "__main__":
    main(prog_name="python -m gpudirect")
