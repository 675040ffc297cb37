"""Draws bus bandwidth over message size: in a terminal, as SVG and as PNG.

Owns what a plot shows and how. Does not own the figures. The drawing libraries are loaded when a
plot is asked for, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudirect.nccl_bands import Reference
from gpudirect.nccl_data import NcclRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[int, float | None, float | None]]
"""Message size in bytes, out-of-place and in-place bus bandwidth in GB/s."""

# Okabe and Ito's palette, which people with colour blindness tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_REFERENCE_COLOUR = "#6b6b6b"
_FLOOR_COLOUR = "#c0392b"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlottedRun:
    """One run as a plot shows it."""

    label: str
    points: Points
    simulated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """What is drawn.

    Attributes:
        title: Above the plot.
        runs: The first one with both directions; further ones, to compare, by the lower one.
        reference: Points (message size in bytes, bus bandwidth in GB/s); empty for none.
        min_fraction: Part of the reference that the gate asks for.
    """

    title: str
    runs: Sequence[PlottedRun]
    reference: Reference = ()
    min_fraction: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no run has a size that moved data."""
        return not any(size for run in self.runs for size, _, _ in run.points)

    @property
    def simulated(self) -> bool:
        """Whether any of the runs had no hardware."""
        return any(run.simulated for run in self.runs)


def plotted_run(label: str, run: NcclRun) -> PlottedRun:
    """Return a run as a plot shows it."""
    points = [
        (
            row.size_bytes,
            row.out_of_place.bus_bandwidth_gbps,
            None if row.in_place is None else row.in_place.bus_bandwidth_gbps,
        )
        for row in run.rows
        if row.size_bytes
    ]
    return PlottedRun(label=label, points=points, simulated=run.simulated)


def draw_in_terminal(plot: Plot, *, width: int, height: int = 22, colour: bool = True) -> str:
    """Return the plot as lines of text."""
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.theme("default" if colour else "colorless")
    figure.plot_size(width, height)
    sizes = _sizes(plot)
    place = {size: index for index, size in enumerate(sizes)}
    for label, values, marker in _curves(plot):
        if values:
            x, y = [place[size] for size, _ in values], [value for _, value in values]
            figure.draw(figure.signal(x, y, marker=marker).lines().label(label))
    figure.title(plot.title + (" (simulated)" if plot.simulated else ""))
    figure.label("message size", "x")
    step = max(1, -(-len(sizes) * 9 // max(width - 10, 9)))
    shown = _every(sizes, step)
    figure.ruler("x").ticks([place[size] for size in shown], [_short_size(s) for s in shown])
    figure.ruler("y").lim(0, None)
    text: str = figure.build().string(colorless=not colour)
    figure.clear()
    return text.rstrip("\n")


def write_image(plot: Plot, path: Path) -> None:
    """Write the plot as an image; the file's suffix decides between SVG and PNG.

    The bytes of an SVG depend on the plot alone.
    """
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "gpudirect", "svg.fonttype": "none"}):
        figure = draw_figure(plot)
        if path.suffix.lower() == ".svg":
            figure.savefig(path, format="svg", metadata={"Date": None})
        else:
            figure.savefig(path, format="png", dpi=144)


def draw_figure(plot: Plot) -> Figure:
    """Return the plot as a figure that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _draw_reference(axes, plot)
    for index, run in enumerate(plot.runs):
        _draw_run(axes, run, _COLOURS[index % len(_COLOURS)], compared=len(plot.runs) > 1)
    _draw_frame(axes, plot)
    if plot.simulated:
        figure.text(
            0.5, 0.5, "simulated", fontsize=48, color="#000000", alpha=0.1, rotation=25,
            ha="center", va="center",
        )  # fmt: skip
    return figure


def _draw_reference(axes: Axes, plot: Plot) -> None:
    sizes = set(_sizes(plot))
    points = [(size, value) for size, value in plot.reference if size in sizes]
    if not points:
        return
    x, y = [size for size, _ in points], [value for _, value in points]
    axes.plot(x, y, color=_REFERENCE_COLOUR, linestyle="--", linewidth=1.5, label="reference")
    if plot.min_fraction is not None:
        floor = [value * plot.min_fraction for value in y]
        label = f"{plot.min_fraction:.0%} of the reference"
        axes.plot(x, floor, color=_FLOOR_COLOUR, linestyle=":", linewidth=1.2, label=label)
        axes.fill_between(x, 0, floor, color=_FLOOR_COLOUR, alpha=0.06, linewidth=0)


def _draw_run(axes: Axes, run: PlottedRun, colour: str, *, compared: bool) -> None:
    style: dict[str, Any] = {"color": colour, "markersize": 4.5, "linewidth": 1.8}
    if compared:
        values = _lower(run.points)
        axes.plot(*_columns(values), marker="o", label=run.label, **style)
        return
    for name, column, marker, line in (
        ("out-of-place", 1, "o", "-"),
        ("in-place", 2, "s", (0, (4, 1.5))),
    ):
        values = [(p[0], value) for p in run.points if (value := p[column]) is not None]
        if values:
            shown = style if column == 1 else style | {"color": _COLOURS[1], "linewidth": 1.4}
            axes.plot(*_columns(values), marker=marker, linestyle=line, label=name, **shown)


def _draw_frame(axes: Axes, plot: Plot) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    sizes = _sizes(plot)
    axes.set_title(plot.title, loc="left", fontsize=12)
    axes.set_xlabel("message size")
    axes.set_ylabel("bus bandwidth, GB/s (10⁹ bytes)")
    if sizes:
        axes.set_xscale("log", base=2)
        shown = _every(sizes, -(-len(sizes) // 16))
        axes.xaxis.set_major_locator(FixedLocator(shown))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([_short_size(size) for size in shown])
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, color="#e3e3e3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", frameon=False)


def _curves(plot: Plot) -> list[tuple[str, list[tuple[int, float]], str]]:
    """Return label, points and marker of each curve in a terminal."""
    sizes = set(_sizes(plot))
    curves = [("reference", [(s, v) for s, v in plot.reference if s in sizes], "·")]
    if len(plot.runs) > 1:
        markers = ("braille", "x", "o", "+", "*", "#")
        curves += [
            (run.label, _lower(run.points), markers[index % len(markers)])
            for index, run in enumerate(plot.runs)
        ]
        return curves
    for run in plot.runs:
        out = [(size, value) for size, value, _ in run.points if value is not None]
        inside = [(size, value) for size, _, value in run.points if value is not None]
        curves += [("out-of-place", out, "braille"), ("in-place", inside, "+")]
    return curves


def _lower(points: Points) -> list[tuple[int, float]]:
    """Return the lower direction at each size."""
    values = []
    for size, out_of_place, in_place in points:
        known = [value for value in (out_of_place, in_place) if value is not None]
        if known:
            values.append((size, min(known)))
    return values


def _columns(values: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [size for size, _ in values], [value for _, value in values]


def _sizes(plot: Plot) -> list[int]:
    return sorted({size for run in plot.runs for size, _, _ in run.points if size})


def _every(sizes: Sequence[int], step: int) -> list[int]:
    """Return each step-th size, the largest among them."""
    return list(reversed(sizes[::-1][::step]))


def _short_size(size_bytes: int) -> str:
    for unit, factor in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)
