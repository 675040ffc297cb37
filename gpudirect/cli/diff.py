"""`diff`: what a stack-file edit does to the environment.

Owns where the two sides come from (files, stacks, git revisions), what is printed, and the exit
code: 1 where the program would refuse the new side. Does not own the comparison (`blast_radius`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gpudirect.blast_radius import Change, Config, compare, replaced_parts, worst
from gpudirect.cli.check import (
    Trouble,
    default_program,
    find_stack_file,
    load_declared,
    read_text,
    shown_path,
)
from gpudirect.config_keys import Effect
from gpudirect.findings import set_command
from gpudirect.stack_check import CheckedFile, check_file
from gpudirect.stack_files import DeclaredKey, is_stack_file, merged_values, stack_name_of

_EXAMPLES = """\b
Examples:
  python -m gpudirect diff dev
  python -m gpudirect diff old.yaml Pulumi.dev.yaml
  python -m gpudirect diff main:Pulumi.dev.yaml HEAD:Pulumi.dev.yaml --json
"""
_COLOURS = {
    Effect.NOTHING: "white",
    Effect.IN_PLACE: "green",
    Effect.SMOKE_TEST: "green",
    Effect.ADDONS: "yellow",
    Effect.FABRIC: "red",
    Effect.CLUSTER: "red",
}
_MOST_LISTED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    """One stack file of the two."""

    path: Path
    shown: str
    text: str


@click.command("diff", epilog=_EXAMPLES)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="[NEW]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the changes as JSON.")
@click.option(
    "--program",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the Pulumi program.  [default: this one, else this checkout]",
)
@click.pass_context
def command(context: click.Context, /, **said: Any) -> None:
    """Say what a stack-file edit does to the environment.

    OLD and NEW are stack files, stacks, or REVISION:FILE in git. With OLD alone, that stack or file
    is compared as git has it (HEAD) with the working tree.
    """
    program = said["program"] or default_program()
    declared = load_declared(program)
    if said["new"] is None:
        path = find_stack_file(said["old"], program)
        sides = (
            _from_git(f"HEAD:./{path.name}", path.resolve().parent),
            _read(str(path), program),
        )
    else:
        sides = (_read(said["old"], program), _read(said["new"], program))
    old, new = (_check(side, sides, declared) for side in sides)
    changes = compare(_config(old, declared), _config(new, declared))
    allowed = new.settings.allow_replace if new.settings else frozenset()
    needed = replaced_parts(changes)
    refused = bool(needed - allowed)
    errors = [finding for finding in new.findings if finding.severity == "error"]
    if said["as_json"]:
        answer = {
            "stack": new.stack_name,
            "changes": [change.to_json() for change in changes],
            "effect": worst(changes).value,
            "refused": refused,
            "findings": [finding.to_json() for finding in errors],
        }
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        _print(new.stack_name, changes)
        if refused:
            value = ",".join(part for part in ("fabric", "cluster") if part in needed | allowed)
            click.echo(
                f"\npulumi refuses it until the config says so: "
                f"{set_command('allowReplace', value, stack_name=new.stack_name)}"
            )
        for finding in errors:
            click.echo(f"\n{finding}")
    if refused or errors:
        context.exit(1)


def _read(word: str, program: Path) -> _Side:
    if ":" in word and not Path(word).exists():
        return _from_git(word, Path.cwd())
    path = find_stack_file(word, program)
    return _Side(path=path, shown=shown_path(path), text=read_text(path))


def _from_git(word: str, folder: Path) -> _Side:
    try:
        done = subprocess.run(
            ["git", "show", word],  # noqa: S607 - the user's own git
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise Trouble(f"{word}: git is not on PATH; name two files instead.") from error
    if done.returncode != 0:
        words = done.stderr.strip().removeprefix("fatal: ") or f"exit code {done.returncode}"
        raise Trouble(f"{word}: git does not have it: {words}")
    return _Side(path=Path(word.partition(":")[2]), shown=word.replace("./", ""), text=done.stdout)


def _check(side: _Side, sides: Iterable[_Side], declared: Mapping[str, DeclaredKey]) -> CheckedFile:
    # A copy under any name is of the stack that the other side is for.
    names = [stack_name_of(s.path) for s in (side, *sides) if is_stack_file(s.path)]
    name = names[0] if names else stack_name_of(side.path)
    return check_file(side.text, path=side.shown, stack_name=name, declared=declared)


def _config(checked: CheckedFile, declared: Mapping[str, DeclaredKey]) -> Config:
    if checked.file is None:
        raise Trouble("\n".join(map(str, checked.findings)))
    return Config(
        values=merged_values(checked.file, declared),
        gcp=checked.file.gcp,
        settings=checked.settings,
    )


def _print(stack_name: str, changes: tuple[Change, ...]) -> None:
    if not changes:
        click.echo(f"{stack_name}: no change.")
        return
    click.echo(f"{stack_name}: {len(changes)} change{'' if len(changes) == 1 else 's'}")
    for change in changes:
        effect = click.style(change.effect.value, fg=_COLOURS[change.effect])
        note = f" ({change.note})" if change.note else ""
        click.echo(f"  {change.key}: {change.old or '(empty)'} -> {change.new or '(empty)'}")
        click.echo(f"      {effect}{note}")
        if change.lost:
            more = len(change.lost) - _MOST_LISTED
            listed = ", ".join(change.lost[:_MOST_LISTED])
            click.echo(f"      lost: {listed}{f' and {more} more' if more > 0 else ''}")
    click.echo(f"At most: {worst(changes).value}.")
