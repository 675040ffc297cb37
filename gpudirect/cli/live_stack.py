"""What the commands share that look at a stack as it lives in the cloud.

Owns their options, and reading the stack's settings from its file in the working tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from gpudirect.settings import Settings

CHECKOUT = Path(__file__).resolve().parents[2]
_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--stack", envvar="GPUDIRECT_STACK", metavar="NAME", required=True, help="The stack."
    ),
    click.option(
        "--program",
        "folder",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default=CHECKOUT,
        help="Folder of the Pulumi program.  [default: this checkout]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Everything as JSON."),
)


class Trouble(click.ClickException):
    """The search was not possible: exit code 1 is for what was found."""

    exit_code = 2


def live_stack_options(command: _Command) -> _Command:
    """Give a command `stack`, `folder` and `as_json`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def stack_settings(folder: Path, stack: str) -> tuple[Settings, str]:
    """Return the settings that a stack's file gives, and the project.

    Raises:
        Trouble: the file is missing or wrong, or names no project.
    """
    from gpudirect.settings import SettingsError, load_settings
    from gpudirect.stack_files import (
        StackFileError,
        declared_keys,
        merged_values,
        parse_stack_file,
    )

    path = folder / f"Pulumi.{stack.rpartition('/')[2]}.yaml"
    try:
        declared = declared_keys(folder / "Pulumi.yaml")
        text = path.read_text(encoding="utf-8")
        file = parse_stack_file(text, path=str(path), stack_name=stack)
        settings = load_settings(
            stack_name=stack.rpartition("/")[2],
            values=merged_values(file, declared),
            gcp=file.gcp,
            environ=os.environ,
            secret_keys=file.secret_keys,
        )
    except (OSError, UnicodeDecodeError) as error:
        raise Trouble(f"the stack's file cannot be read: {error}") from error
    except (StackFileError, SettingsError) as error:
        raise Trouble(f"{path}: {error}") from error
    if settings.project is None:
        raise Trouble(
            f"the project of stack {stack!r} is not known: set GOOGLE_PROJECT, or "
            f"`pulumi config set gcp:project PROJECT --stack {stack}`"
        )
    return settings, settings.project
