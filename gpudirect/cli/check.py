"""`check`: every mistake in stack files, without engine, credentials or network.

Owns which files are looked at, what is printed in which form, and the exit code: 1 for findings, 2
for a call that cannot be carried out. Does not own any check (`stack_check`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpudirect.findings import Finding
from gpudirect.stack_check import CheckedFile, check_between, check_file
from gpudirect.stack_files import (
    PROJECT_FILE,
    DeclaredKey,
    StackFileError,
    declared_keys,
    stack_name_of,
)
from gpudirect.versions import ServerConfig

_CHECKOUT = Path(__file__).resolve().parents[2]

_EXAMPLES = """\b
Examples:
  python -m gpudirect check
  python -m gpudirect check dev staging --json
  python -m gpudirect check Pulumi.dev.yaml --github
"""


class Trouble(click.ClickException):
    """A call that cannot be carried out: exit code 1 is for findings alone."""

    exit_code = 2


@click.command("check", epilog=_EXAMPLES)
@click.argument("stacks", nargs=-1, metavar="[STACK|FILE]...")
@click.option("--json", "form", flag_value="json", help="Print findings as JSON.")
@click.option("--github", "form", flag_value="github", help="Print GitHub annotations.")
@click.option(
    "--server-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Answer of `gcloud container get-server-config --format json`: versions must be in it.",
)
@click.option(
    "--program",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the Pulumi program.  [default: this one, else this checkout]",
)
@click.pass_context
def command(context: click.Context, /, **said: Any) -> None:
    """Find every mistake in stack files, without credentials.

    Looks at all stack files of the program, or at those that are named, and at all of them together
    for what environments do to one another. A FILE that is not beside the program is compared with
    those that are named with it alone.
    """
    program = said["program"] or default_program()
    declared = load_declared(program)
    named = list(dict.fromkeys(find_stack_file(name, program) for name in said["stacks"]))
    everything = sorted(p for p in program.glob("Pulumi.*.yaml") if p.name != PROJECT_FILE)
    paths = named or everything
    if not paths:
        raise Trouble(f"{program} has no stack file. `pulumi stack init NAME` makes one.")
    versions = _server_config(said["server_config"])
    checked = [_check(path, declared, versions) for path in paths]
    for path, item in zip(paths, checked, strict=True):
        item.is_elsewhere = path.resolve().parent != program.resolve()
    own = {item.stack_name for item in checked}
    rest = [path for path in everything if stack_name_of(path) not in own]
    check_between(checked, [_check(path, declared, versions) for path in rest] if named else ())
    _print(checked, said["form"])
    if any(finding.severity == "error" for item in checked for finding in item.findings):
        context.exit(1)


def default_program() -> Path:
    """Return the folder of the program: the working folder where it is one, else the checkout."""
    here = Path.cwd()
    return here if (here / PROJECT_FILE).is_file() else _CHECKOUT


def load_declared(program: Path) -> dict[str, DeclaredKey]:
    """Return the keys of the program's `Pulumi.yaml`.

    Raises:
        Trouble: there is none.
    """
    try:
        return declared_keys(program / PROJECT_FILE)
    except StackFileError as error:
        raise Trouble(str(error)) from error


def find_stack_file(name: str, program: Path) -> Path:
    """Return the file that a word on the command line means: a path, or a stack's name.

    Raises:
        Trouble: there is no such file.
    """
    said = Path(name)
    in_program = program / f"Pulumi.{name}.yaml"
    is_path = said.suffix in (".yaml", ".yml") or said.parent != Path()
    meant = said if is_path else in_program
    if meant.is_file():
        return meant
    if said.is_dir():
        raise Trouble(
            f"{name}: a folder. Name its stack files, or the program's folder with --program."
        )
    if is_path:
        raise Trouble(f"{name}: no such file.")
    stacks = ", ".join(stack_name_of(p) for p in sorted(program.glob("Pulumi.*.yaml")))
    raise Trouble(
        f"stack {name}: {shown_path(in_program)} is not there. Stacks here: {stacks or 'none'}."
    )


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        Trouble: it cannot be read, or is no text.
    """
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise Trouble(f"{path}: cannot be read: {error}") from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        Trouble: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise Trouble(f"{path}: cannot be read: {error}") from error


def shown_path(path: Path) -> str:
    """Return a path as a reader would write it: from here, where it is below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _check(
    path: Path, declared: dict[str, DeclaredKey], versions: ServerConfig | None
) -> CheckedFile:
    return check_file(
        read_bytes(path),
        path=shown_path(path),
        stack_name=stack_name_of(path),
        declared=declared,
        server_config=versions,
    )


def _server_config(path: Path | None) -> ServerConfig | None:
    if path is None:
        return None
    try:
        return ServerConfig.parse(read_text(path))
    except ValueError as error:
        raise Trouble(f"{path}: {error}") from error


def _print(checked: Sequence[CheckedFile], form: str | None) -> None:
    findings = [finding for item in checked for finding in item.findings]
    errors = [finding for finding in findings if finding.severity == "error"]
    warnings = [finding for finding in findings if finding.severity == "warning"]
    if form == "json":
        answer = {
            "findings": [finding.to_json() for finding in errors],
            "warnings": [finding.to_json() for finding in warnings],
        }
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    if form == "github":
        for finding in findings:
            click.echo(_annotation(finding))
        return
    for finding in findings:
        colour = "red" if finding.severity == "error" else "yellow"
        head, *rest = str(finding).splitlines()
        click.echo("\n".join((click.style(head, fg=colour), *rest, "")))
    names = ", ".join(item.stack_name for item in checked)
    wrong = len({finding.file for finding in errors})
    files = f"{len(checked)} stack file{'' if len(checked) == 1 else 's'}"
    if errors:
        count = f"{len(errors)} problem{'' if len(errors) == 1 else 's'}"
        click.echo(f"{count} in {wrong} of {files} ({names}).")
    else:
        click.echo(f"{files}, no problem ({names}).")


def _annotation(finding: Finding) -> str:
    level = "error" if finding.severity == "error" else "warning"
    place = f"file={_property(finding.file)},line={finding.line}"
    title = _property(finding.key)
    return f"::{level} {place},title={title}::{_data(f'{finding.sentence}{chr(10)}{finding.fix}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
