"""Draws how things grow, as SVG."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures import Result

# Okabe and Ito's palette, which people with colour blindness tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def draw(result: Result, path: Path) -> None:
    """Draw the series of a benchmark, one panel for each unit."""
    # Loaded when a plot is wanted: it takes longer than everything else here.
    from matplotlib.figure import Figure

    units = list(dict.fromkeys(series.unit for series in result.series))
    figure = Figure(figsize=(6 * len(units), 4), layout="constrained")
    for axes, unit in zip(figure.subplots(1, len(units), squeeze=False)[0], units, strict=True):
        shown = [series for series in result.series if series.unit == unit]
        for number, series in enumerate(shown):
            axes.plot(
                series.counts,
                series.values,
                marker="o",
                color=_COLOURS[number % len(_COLOURS)],
                linestyle="--" if series.name.startswith("bound") else "-",
                label=series.name,
            )
        axes.set_xlabel(result.name)
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        axes.set_xticks(shown[0].counts)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg")
