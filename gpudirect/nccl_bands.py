"""Message sizes of an NCCL run against a reference curve, in bands that count alike.

Owns interpolation, comparison per size and direction, and which sizes are small, middle and
largest. Does not own what a low band does to the verdict (`nccl_judgement`).

All bandwidths are GB/s with 1 GB = 10^9 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gpudirect.nccl_data import Measurement, Row

Reference = Sequence[tuple[int, float]]

# Below this size a collective takes the same time whatever it carries.
LATENCY_BOUND_BELOW_BYTES = 1024 * 1024
# The largest sizes reach from the largest compared one down to this part of it.
_LARGEST_SPAN = 4
# nccl-tests prints two decimals.
_ROUNDING_GBPS = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One message size against the reference curve; fractions of 1 where measured."""

    size_bytes: int
    reference_gbps: float
    out_of_place_gbps: float | None
    in_place_gbps: float | None
    has_in_place: bool

    @property
    def directions(self) -> tuple[tuple[str, float | None], ...]:
        """Names and bus bandwidths (GB/s) of the directions that the table has."""
        out_of_place = ("out-of-place", self.out_of_place_gbps)
        if not self.has_in_place:
            return (out_of_place,)
        return (out_of_place, ("in-place", self.in_place_gbps))

    @property
    def fraction(self) -> float:
        """The worse direction as a fraction of the reference; 0 where one was not measured."""
        return min((value or 0.0) / self.reference_gbps for _, value in self.directions)

    def reaches(self, min_fraction: float) -> bool:
        """Whether both directions reach the fraction, within what printing rounds away."""
        floor = min_fraction * self.reference_gbps - _ROUNDING_GBPS
        return all(value is not None and value >= floor for _, value in self.directions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """Neighbouring message sizes that count alike.

    Attributes:
        name: `largest` decides, `middle` is reported, `small` is bound by latency.
        comparisons: The sizes in it, smallest first.
    """

    name: Literal["small", "middle", "largest"]
    comparisons: tuple[Comparison, ...]

    def low(self, min_fraction: float) -> tuple[Comparison, ...]:
        """Return the sizes in which a direction stays under the fraction."""
        return tuple(c for c in self.comparisons if not c.reaches(min_fraction))


def interpolate(curve: Reference, size_bytes: int) -> float | None:
    """Return the curve's bus bandwidth at a size, linear in log2(size); None outside of it."""
    for (left, low), (right, high) in pairwise(curve):
        if left <= size_bytes <= right:
            if left == right:
                return min(low, high)
            share = math.log2(size_bytes / left) / math.log2(right / left)
            return low + share * (high - low)
    return next((value for size, value in curve if size == size_bytes), None)


def format_size(size_bytes: int) -> str:
    """Return a message size as people say it: 512 MiB, 8 GiB, 1000 B."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def compare(rows: Iterable[Row], curve: Reference) -> list[Comparison]:
    """Compare every size that lies within the curve, smallest first."""
    by_size: dict[int, list[Row]] = {}
    for row in rows:
        if row.size_bytes > 0:
            by_size.setdefault(row.size_bytes, []).append(row)
    comparisons = []
    for size, same_size in sorted(by_size.items()):
        reference = interpolate(curve, size)
        if reference is None:
            continue
        in_place = [row.in_place for row in same_size if row.in_place is not None]
        comparisons.append(
            Comparison(
                size_bytes=size,
                reference_gbps=reference,
                out_of_place_gbps=_worst(row.out_of_place for row in same_size),
                in_place_gbps=_worst(in_place),
                has_in_place=bool(in_place),
            )
        )
    return comparisons


def _worst(measurements: Iterable[Measurement]) -> float | None:
    """Return the least bus bandwidth; None if one of them has none."""
    values = [measurement.bus_bandwidth_gbps for measurement in measurements]
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def split_into_bands(comparisons: Sequence[Comparison]) -> tuple[Band, ...]:
    """Return the bands that have sizes in them, smallest first."""
    if not comparisons:
        return ()
    decisive_from = comparisons[-1].size_bytes / _LARGEST_SPAN
    small, middle, largest = [], [], []
    for comparison in comparisons:
        if comparison.size_bytes < LATENCY_BOUND_BELOW_BYTES:
            small.append(comparison)
        elif comparison.size_bytes >= decisive_from:
            largest.append(comparison)
        else:
            middle.append(comparison)
    bands = (
        Band(name="small", comparisons=tuple(small)),
        Band(name="middle", comparisons=tuple(middle)),
        Band(name="largest", comparisons=tuple(largest)),
    )
    return tuple(band for band in bands if band.comparisons)
