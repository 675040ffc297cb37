"""`python -m sandbox`: start, look at and end a sandbox.

Owns the commands and their words. Does not own the server (`sandbox.server`), the toolchain
(`sandbox.build`) nor the variables (`sandbox.environment`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import psutil

from sandbox.build import BuildError, build, missing_programs
from sandbox.environment import shell_lines, variables, write_launchers
from sandbox.home import DEFAULT_HOME, Home, HomeError, ServerRecord

_STOP_SECONDS = 30


class SandboxError(click.ClickException):
    """What a user can mend; printed as one sentence."""

    def show(self, file: Any = None) -> None:
        """Print the sentence to stderr."""
        click.echo(f"sandbox: {self.format_message()}", err=True, file=file)


def _home_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        default=DEFAULT_HOME,
        help="Folder of this sandbox; several can run side by side.  [default: .sandbox]",
    )(command)


@click.group(help=__doc__.splitlines()[0].partition(": ")[2].capitalize() if __doc__ else None)
def cli() -> None:
    """Hold the commands together."""


@cli.command("build")
@_home_option
def build_command(home: Path) -> None:
    """Build the toolchain, as far as it is not there yet."""
    _build(Home(home.absolute()))


@cli.command()
@_home_option
@click.option(
    "--port", type=int, help="Port of the cloud.  [default: the last one, else a free one]"
)
@click.option(
    "--pace",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="0 = operations end at once, 1 = Google's usual times.",
)
def up(home: Path, port: int | None, pace: float) -> None:
    """Start the sandbox; nothing happens if it runs already."""
    folder = Home(home.absolute())
    running = folder.running()
    if running is not None:
        if port not in (None, running.port) or pace != running.pace:
            raise SandboxError(
                f"it runs already, on port {running.port} at pace {running.pace:g}; end it first "
                f"with `python -m sandbox down`"
            )
        click.echo(f"The sandbox runs on port {running.port}.", err=True)
        return
    started = time.monotonic()
    folder.prepare()
    _build(folder)
    write_launchers(folder)
    record = _start(folder, port, pace)
    click.echo(
        f"The sandbox runs on port {record.port} ({time.monotonic() - started:.1f} s). Now: "
        'eval "$(python -m sandbox env)"',
        err=True,
    )


def _build(folder: Home) -> None:
    try:
        build(folder.bin, lambda text: click.echo(text, err=True))
    except BuildError as error:
        raise SandboxError(str(error)) from error
    lacking = missing_programs(folder.bin)
    if lacking:
        raise SandboxError(f"{', '.join(lacking)}: missing; run `python -m sandbox build`")


def _start(folder: Home, port: int | None, pace: float) -> ServerRecord:
    last = folder.record()
    wanted = port if port is not None else (last.port if last is not None else 0)
    reading, writing = os.pipe()
    with folder.log.open("ab") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "sandbox.server", "--home", str(folder.root)),
                *("--port", str(wanted), "--pace", str(pace), "--ready-fd", str(writing)),
            ],
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[writing],
            start_new_session=True,
        )
    os.close(writing)
    with os.fdopen(reading) as ready:
        # The end of the pipe comes with readiness, with a reason, or with the process's end.
        said = ready.read()
    record = folder.running()
    if said == "ready" and record is not None:
        return record
    process.wait()
    raise SandboxError(
        said or f"the server did not start; the end of its log:\n{_tail(folder.log)}"
    )


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


@cli.command()
@_home_option
def down(home: Path) -> None:
    """End the sandbox and every process that it started; its state stays."""
    folder = Home(home.absolute())
    record = folder.running()
    if record is None:
        click.echo("The sandbox does not run.", err=True)
        return
    process = record.process()
    if process is None:
        return
    children = process.children(recursive=True)
    process.terminate()
    _, alive = psutil.wait_procs([process, *children], timeout=_STOP_SECONDS)
    for left in alive:
        left.kill()
    psutil.wait_procs(alive)
    click.echo("The sandbox is down; its state is kept.", err=True)


@cli.command()
@_home_option
@click.option("--json", "as_json", is_flag=True, help="Print resources, clusters and processes.")
def status(home: Path, as_json: bool) -> None:
    """Show what exists in the sandbox's cloud, and which processes run."""
    folder = Home(home.absolute())
    found = _status(folder)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if found["processes"] == []:
        console.print("The sandbox does not run: `python -m sandbox up` starts it.")
        return
    for title in ("resources", "clusters", "processes"):
        entries = found[title]
        console.print(f"{len(entries)} {title}")
        if entries:
            table = Table(*entries[0])
            for entry in entries:
                table.add_row(*(str(value) for value in entry.values()))
            console.print(table)


def _status(folder: Home) -> dict[str, Any]:
    record = folder.running()
    if record is None:
        return {"resources": [], "clusters": [], "processes": []}
    server = {"name": "server", "pid": record.pid, "cluster": None}
    found = {title: _ask(record, title) for title in ("resources", "clusters", "processes")}
    return found | {"processes": [server, *found["processes"]]}


def _ask(record: ServerRecord, what: str) -> list[dict[str, Any]]:
    import httpx

    try:
        answer = httpx.get(f"http://127.0.0.1:{record.port}/sandbox/v1/{what}", timeout=10)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise SandboxError(f"the server on port {record.port} does not answer: {error}") from error
    entries: list[dict[str, Any]] = answer.json()[what]
    return entries


@cli.command()
@_home_option
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of shell lines.")
@click.option(
    "--real-gcp-plugin",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this pulumi-resource-gcp in place of the stand-in.",
)
def env(home: Path, as_json: bool, real_gcp_plugin: Path | None) -> None:
    """Print the variables that lead pulumi, gcloud and kubectl here."""
    folder = Home(home.absolute())
    record = folder.running()
    if record is None:
        raise SandboxError("it does not run; `python -m sandbox up` starts it")
    write_launchers(folder, gcp_plugin=real_gcp_plugin and real_gcp_plugin.absolute())
    values = variables(folder, record.port)
    click.echo(json.dumps(values, indent=2) if as_json else shell_lines(values))


@cli.command()
@_home_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(home: Path, yes: bool) -> None:
    """Forget everything: the cloud's state, clusters and Pulumi's stacks of this sandbox."""
    folder = Home(home.absolute())
    if folder.running() is not None:
        raise SandboxError("it runs; end it first with `python -m sandbox down`")
    kept = {"bin"}
    entries = (
        [e for e in folder.root.iterdir() if e.name not in kept] if folder.root.exists() else []
    )
    if not yes:
        click.confirm(f"Remove everything in {folder.root} but its programs?", abort=True)
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    click.echo("The sandbox is empty.", err=True)


def main() -> None:
    """Run the command line; a folder that cannot be used is one sentence, not a traceback."""
    try:
        cli.main(prog_name="python -m sandbox")
    except HomeError as error:
        click.echo(f"sandbox: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
