"""`make benchmark`, or `python -m benchmarks [NAME …]`: figures to look at, none of them tested.

`life`: start, up, preview and destroy at pace 0, and which part uses the CPU. `rest`: an
environment's no-change preview and memory. `page`: the page's script, `pulumi up`, `destroy`, and
what the API imposes, at a fraction of Google's usual times. `environments`, `networks`: growth.
Without names all of them run, which takes most of an hour. Tables are printed; JSON and plots go to
`benchmarks/out/`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import click
from rich.console import Console

from benchmarks import growth, lifecycle, page, rest
from benchmarks.figures import Result, as_json, machine, show
from benchmarks.plot import draw
from sandbox.home import PROJECT_FOLDER

NAMES = ("life", "rest", "page", "environments", "networks")
OUT = PROJECT_FOLDER / "benchmarks" / "out"


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option(
    "--pace",
    type=click.FloatRange(min=0.001, max=1),
    default=0.2,
    show_default=True,
    help="Share of Google's usual times, for `page` and `networks`.",
)
@click.option(
    "--gpu-stack",
    "gpu_stacks",
    multiple=True,
    type=click.Choice(list(page.STACKS)),
    help="For `page`; both if not given.",
)
def main(names: tuple[str, ...], pace: float, gpu_stacks: tuple[str, ...]) -> None:
    """Run benchmarks."""
    console, started, host = Console(), time.monotonic(), machine()
    console.print(
        "{cores} cores, {memoryGb} GB, {machine}, load {load}, {date}".format_map(host),
        highlight=False,
    )

    def say(text: str) -> None:
        console.print(f"[{time.monotonic() - started:5.0f} s] {text}", markup=False)

    known: dict[str, Callable[[], Result]] = {
        "life": lambda: lifecycle.measure(say),
        "rest": lambda: rest.run(say),
        "page": lambda: page.run(pace, gpu_stacks or tuple(page.STACKS), say),
        "environments": lambda: growth.environments(say),
        "networks": lambda: growth.networks(pace, say),
    }
    OUT.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        say(f"{name} begins")
        host = machine()
        result = known[name]()
        show(result, console)
        data = as_json([result], pace=pace, host=host)
        (OUT / f"{name}.json").write_text(json.dumps(data, indent=2) + "\n")
        if result.series:
            draw(result, OUT / f"{name}.svg")
        say(f"{name} is kept in {OUT / name}.json")


if __name__ == "__main__":
    main()
