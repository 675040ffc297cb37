"""What a benchmark has found: figures with their aims, series, notes; as a table and as JSON."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        name: What was measured.
        value: In `unit`: s (seconds), MB (10^6 bytes), or x for a ratio.
        aim: What it should be at most, or at least if `at_least`; None = it is only shown.
    """

    name: str
    value: float
    unit: str
    aim: float | None = None
    at_least: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether the aim is met; None without one."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.at_least else self.value <= self.aim


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """How something grows.

    Attributes:
        name: What grows.
        counts: Of what there are more and more (environments, networks).
        values: One for each count, in `unit`.
    """

    name: str
    unit: str
    counts: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def slope(self) -> float:
        """Units more for each one more, by least squares."""
        return statistics.linear_regression(self.counts, self.values).slope


@dataclass(kw_only=True, slots=True)
class Result:
    """What one benchmark has found."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        name: str,
        value: float,
        unit: str = "s",
        *,
        aim: float | None = None,
        at_least: bool = False,
    ) -> None:
        """Take a figure down."""
        figure = Figure(name=name, value=round(value, 3), unit=unit, aim=aim, at_least=at_least)
        self.figures.append(figure)


def machine() -> dict[str, Any]:
    """Return when and on what the figures were measured, and how busy it was beforehand."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memoryGb": round(psutil.virtual_memory().total / 1e9),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def as_json(results: Sequence[Result], *, pace: float, host: dict[str, Any]) -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        "machine": host,
        "pace": pace,
        "benchmarks": [
            {
                "name": result.name,
                "figures": [{**asdict(figure), "holds": figure.holds} for figure in result.figures],
                "series": [asdict(series) | {"slope": series.slope} for series in result.series],
                "notes": result.notes,
            }
            for result in results
        ],
    }


def show(result: Result, console: Console) -> None:
    """Print one benchmark's figures."""
    table = Table(
        "figure", "measured", "aim", "", title=result.name, title_justify="left", box=None
    )
    for figure in result.figures:
        sign = "at least" if figure.at_least else "at most"
        table.add_row(
            figure.name,
            f"{figure.value:.2f} {figure.unit}",
            "" if figure.aim is None else f"{sign} {figure.aim:g} {figure.unit}",
            {True: "holds", False: "missed", None: ""}[figure.holds],
        )
    console.print(table)
    for series in result.series:
        points = ", ".join(
            f"{count}: {value:.2f}"
            for count, value in zip(series.counts, series.values, strict=True)
        )
        console.print(
            f"{series.name} ({series.unit}): {points}; {series.slope:+.3f} for each one more",
            highlight=False,
        )
    for note in result.notes:
        console.print(note, highlight=False, soft_wrap=True)
