"""`results`: what an NCCL run measured, against what its release is known to reach.

Owns the options and what goes where. Does not own finding runs (`nccl_sources`), texts
(`nccl_text`), plots (`nccl_plots`) nor exports (`nccl_exports`).
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from gpudirect.stacks import STACKS

_PLOTTED_HISTORY = 6

_EXAMPLES = """\b
Examples:
  python -m gpudirect results --stack dev
  python -m gpudirect results --stack dev --history
  python -m gpudirect results all-gather.log --gpu-stack a3-mega --svg bandwidth.svg
  python -m gpudirect results new.log --compare old.log
"""


class _Trouble(click.ClickException):
    exit_code = 2


@click.command("results", epilog=_EXAMPLES)
@click.argument("source", required=False, metavar="[FILE|-]")
@click.option("--stack", envvar="GPUDIRECT_STACK", metavar="NAME", help="Pulumi stack to read.")
@click.option(
    "--program",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the Pulumi program.  [default: this checkout]",
)
@click.option(
    "--gpu-stack",
    type=click.Choice(list(STACKS)),
    help="GPU nodes that a FILE was measured on.  [default: by the transport it names]",
)
@click.option("--release", metavar="NAME", help="Release whose reference to compare with.")
@click.option("--nodes", type=click.IntRange(min=1), help="Nodes that took part in a FILE.")
@click.option(
    "--collective",
    type=click.Choice(["all-gather", "all-reduce", "reduce-scatter", "all-to-all"]),
    help="What was run, where the output does not say.",
)
@click.option(
    "--min-fraction",
    type=click.FloatRange(0, 2),
    help="Least part of the reference.  [default: 0.8, of a stack its verdict]",
)
@click.option(
    "--mode", type=click.Choice(["gate", "report"]), default="gate", show_default=True,
    help="Whether low bandwidth is failed or degraded.",
)  # fmt: skip
@click.option(
    "--compare", "compared", multiple=True, metavar="FILE", help="Another run; may be repeated."
)
@click.option("--history", "shows_history", is_flag=True, help="The last runs of the stack.")
@click.option("--json", "form", flag_value="json", help="The result as JSON, a stable contract.")
@click.option("--csv", "form", flag_value="csv", help="The rows as CSV.")
@click.option("--prometheus", "form", flag_value="prometheus", help="Prometheus' text format.")
@click.option("--plot/--no-plot", default=None, help="Draw here.  [default: in a terminal]")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw into a file.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Draw into a file.")
@click.pass_context
def command(context: click.Context, /, **said: Any) -> None:
    """Show what an NCCL run measured, and its verdict.

    FILE is a log of nccl-tests, its JSON report, or what --json wrote. Exit code 1 says that the
    run failed or has no result.
    """
    # Drawing and tables take long to import; other commands should not wait for them.
    from gpudirect.deployed_stack import StackOutputError
    from gpudirect.nccl_sources import Bar, ResultSourceError, run_of_file, run_of_stack
    from gpudirect.releases import ReleaseLockError

    source = said["source"]
    if source is not None and context.get_parameter_source("stack") is not _ENVIRONMENT:
        _refuse_both(source, said["stack"])
    bar = Bar(
        gpu_stack=said["gpu_stack"],
        release=said["release"],
        nodes=said["nodes"],
        min_fraction=said["min_fraction"],
        mode=said["mode"],
        collective=said["collective"],
    )
    try:
        if source is not None:
            judged = run_of_file(source, bar)
        elif said["stack"]:
            judged = run_of_stack(said["stack"], bar, program=said["program"])
        else:
            raise click.UsageError("no result: name a FILE, - for standard input, or --stack.")
        others = [run_of_file(path, bar) for path in said["compared"]]
    except (ResultSourceError, StackOutputError, ReleaseLockError) as error:
        raise _Trouble(str(error)) from error
    if said["shows_history"] and not judged.history:
        raise _Trouble(f"{judged.label} has no history: only the output of a stack has one.")
    _print(judged, others, said)
    context.exit(0 if judged.verdict in ("passed", "degraded") else 1)


_ENVIRONMENT = click.core.ParameterSource.ENVIRONMENT


def _refuse_both(source: str, stack: str | None) -> None:
    if stack:
        raise click.UsageError(f"both {source} and --stack {stack} were named: choose one.")


def _print(judged: Any, others: list[Any], said: dict[str, Any]) -> None:
    from gpudirect.nccl_exports import to_csv, to_prometheus

    match said["form"]:
        case "json":
            click.echo(json.dumps(judged.document, indent=2, allow_nan=False))
        case "csv":
            click.echo(to_csv(judged.run, judged.reference), nl=False)
        case "prometheus":
            labels = {"stack" if judged.is_stack else "source": judged.label}
            text = to_prometheus(
                judged.run, judged.verdict, labels=labels, reference=judged.reference
            )
            click.echo(text, nl=False)
        case _:
            _print_text(judged, others, said)
    _draw(judged, others, said)


def _print_text(judged: Any, others: list[Any], said: dict[str, Any]) -> None:
    from rich.console import Console

    from gpudirect.nccl_plots import plotted_run
    from gpudirect.nccl_text import (
        comparison_table,
        describe_run,
        describe_verdict,
        history_table,
        run_table,
    )

    console = Console(highlight=False, markup=False, emoji=False)
    document = judged.document
    click.echo(
        describe_verdict(document["verdict"], document["reasons"], simulated=judged.run.simulated)
    )
    click.echo(describe_run(judged.run))
    if judged.run.rows and not judged.reference:
        click.echo("There is no reference: name the GPU nodes with --gpu-stack.", err=True)
    if said["shows_history"]:
        console.print(history_table(judged.history))
    elif others:
        runs = [plotted_run(each.label, each.run) for each in (judged, *others)]
        console.print(comparison_table(runs))
    elif judged.run.rows:
        console.print(run_table(judged.run, judged.reference))
    for line in judged.run.last_lines if not judged.run.rows else ():
        click.echo(f"  | {line}")


def _draw(judged: Any, others: list[Any], said: dict[str, Any]) -> None:
    wanted = said["plot"]
    if wanted is None:
        wanted = said["form"] is None and sys.stdout.isatty()
    if not (wanted or said["svg"] or said["png"]):
        return
    from gpudirect.nccl_plots import Plot, draw_in_terminal, plotted_run, write_image
    from gpudirect.nccl_text import history_runs

    if said["shows_history"]:
        runs = history_runs(judged.history)[-_PLOTTED_HISTORY:]
    else:
        runs = [plotted_run(each.label, each.run) for each in (judged, *others)]
    plot = Plot(
        title=f"{judged.label}: {judged.verdict}",
        runs=runs,
        reference=judged.reference,
        min_fraction=judged.min_fraction,
    )
    if plot.is_empty:
        click.echo("nothing to draw: no message size was measured", err=True)
        return
    if wanted:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(draw_in_terminal(plot, width=min(width, 140), colour=sys.stdout.isatty()))
    for key in ("svg", "png"):
        if said[key] is not None:
            try:
                write_image(plot, said[key])
            except OSError as error:
                raise _Trouble(f"{said[key]} cannot be written: {error.strerror}") from error
            click.echo(f"wrote {said[key]}", err=True)
