"""What the benchmark says of its figures."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.figures import Figure, Result, Series, as_json, show


def test_an_aim_is_met_from_the_side_that_is_meant() -> None:
    assert Figure(name="up / bound", value=1.1, unit="x", aim=1.1).holds is True
    assert Figure(name="up / bound", value=1.11, unit="x", aim=1.1).holds is False
    assert Figure(name="script / up", value=1.4, unit="x", aim=1.5, at_least=True).holds is False
    assert Figure(name="script / up", value=1.5, unit="x", aim=1.5, at_least=True).holds is True
    assert Figure(name="up", value=3.0, unit="s").holds is None


def test_a_slope_is_what_one_more_costs() -> None:
    grown = Series(name="up", unit="s", counts=(4, 8, 16, 32), values=(3.0, 5.0, 9.0, 17.0))
    assert grown.slope == pytest.approx(0.5)


def test_table_and_json_say_the_same() -> None:
    result = Result(name="page")
    result.add("up / bound", 1.2, "x", aim=1.1)
    result.series.append(Series(name="up", unit="s", counts=(1, 2), values=(3.0, 4.0)))
    result.notes.append("gcloud is not installed")
    console = Console(file=io.StringIO(), width=100)
    show(result, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "1.20 x" in text
    assert "at most 1.1 x" in text
    assert "missed" in text
    assert "1: 3.00, 2: 4.00; +1.000 for each one more" in text
    assert "gcloud is not installed" in text
    (data,) = as_json([result], pace=0.1, host={})["benchmarks"]
    assert data["figures"][0]["holds"] is False
    assert data["series"][0]["slope"] == 1.0
