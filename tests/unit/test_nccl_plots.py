from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.lines import Line2D

from gpudirect.nccl_plots import Plot, draw_figure, draw_in_terminal, plotted_run, write_image
from gpudirect.nccl_results import read_results
from tests.unit.nccl_tables import A3_MEGA, curve, scaled, table


def plot_of(*texts: str) -> Plot:
    runs = [
        plotted_run(f"run {number}", read_results(text.splitlines()))
        for number, text in enumerate(texts)
    ]
    return Plot(title="dev: passed", runs=runs, reference=curve(A3_MEGA), min_fraction=0.8)


def values(line: Line2D, axis: str) -> list[float]:
    data = line.get_ydata() if axis == "y" else line.get_xdata()
    return [float(value) for value in np.asarray(data)]


def half() -> str:
    return table(scaled(A3_MEGA, lambda _s, o, i: (o / 2, i / 2)))


def test_a_figure_shows_both_directions_reference_and_floor_in_gigabytes() -> None:
    (axes,) = draw_figure(plot_of(table(A3_MEGA))).axes
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {"reference", "80% of the reference", "out-of-place", "in-place"}
    assert values(lines["out-of-place"], "y")[-1] == 189.03
    assert values(lines["in-place"], "y")[-1] == 188.73
    assert values(lines["80% of the reference"], "y")[-1] == pytest.approx(0.8 * 189.03)
    assert values(lines["out-of-place"], "x")[-1] == 8589934592
    assert "GB/s" in axes.get_ylabel()
    assert [label.get_text() for label in axes.get_xticklabels()][-1] == "8G"
    assert axes.get_ylim()[0] == 0


def test_compared_runs_are_drawn_by_their_lower_direction() -> None:
    (axes,) = draw_figure(plot_of(table(A3_MEGA), half())).axes
    lines = {line.get_label(): line for line in axes.lines}
    assert values(lines["run 0"], "y")[-1] == 188.73
    assert values(lines["run 1"], "y")[-1] == pytest.approx(94.36, abs=0.01)


def test_a_simulated_run_is_marked_in_every_picture() -> None:
    plot = plot_of("# simulated\n" + table(A3_MEGA))
    assert "simulated" in [text.get_text() for text in draw_figure(plot).texts]
    assert "(simulated)" in draw_in_terminal(plot, width=90, colour=False)


def test_a_terminal_plot_is_plain_text_without_colour(capsys: pytest.CaptureFixture[str]) -> None:
    text = draw_in_terminal(plot_of(table(A3_MEGA)), width=90, colour=False)
    assert "\x1b" not in text
    for word in ("reference", "out-of-place", "in-place", "message size", "8G"):
        assert word in text
    assert capsys.readouterr().out == ""


def test_an_svg_depends_on_the_plot_alone(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        write_image(plot_of(table(A3_MEGA)), tmp_path / name)
    first = (tmp_path / "a.svg").read_bytes()
    assert first == (tmp_path / "b.svg").read_bytes()
    root = ElementTree.fromstring(first)
    assert "out-of-place" in "".join(root.itertext())


def test_a_png_is_written(tmp_path: Path) -> None:
    write_image(plot_of(half()), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["", "no table"])
def test_a_run_without_rows_is_nothing_to_draw(text: str) -> None:
    assert plot_of(text).is_empty
    assert not plot_of(table(A3_MEGA)).is_empty
