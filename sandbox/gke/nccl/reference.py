"""Reference curves: what two nodes of each GPU machine reached in the published all-gather runs.

Owns the measured points with their source and the interpolation between them. Does not own what
lowers the throughput (`fabric`) or how it is printed (`table`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

MEASURED_NODES = 2
GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Point:
    """One row of a measured table: message size and the time of one operation."""

    size_bytes: int
    out_of_place_us: float
    in_place_us: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A measured all-gather on `MEASURED_NODES` nodes with 8 GPUs each."""

    machine_type: str
    source: str
    points: tuple[Point, ...]

    @property
    def latency_us(self) -> float:
        """Time of the smallest measured message: the part that bandwidth does not change."""
        return self.points[0].out_of_place_us

    def time_us(self, size_bytes: int, *, in_place: bool) -> float:
        """Interpolate between the measured points, on logarithmic axes.

        Below the first point the time stays the latency; above the last one the bandwidth stays.

        Args:
            size_bytes: Message size as nccl-tests counts it, in bytes; at least 1.
            in_place: Which of the two measurements.
        """
        times = [point.in_place_us if in_place else point.out_of_place_us for point in self.points]
        sizes = [point.size_bytes for point in self.points]
        if size_bytes <= sizes[0]:
            return times[0]
        if size_bytes >= sizes[-1]:
            return times[-1] * size_bytes / sizes[-1]
        right = bisect_left(sizes, size_bytes)
        span = math.log(sizes[right] / sizes[right - 1])
        share = math.log(size_bytes / sizes[right - 1]) / span
        return times[right - 1] * math.pow(times[right] / times[right - 1], share)


def _points(*rows: tuple[int, float, float]) -> tuple[Point, ...]:
    return tuple(Point(*row) for row in rows)


_KIB, _MIB = 1 << 10, 1 << 20

A3_MEGA = Curve(
    machine_type="a3-megagpu-8g",
    source="Google's page on GPU bandwidth in Autopilot, sample output for GPUDirect-TCPXO"
    " (all-gather, 2 nodes, 8 B to 8 GiB)",
    points=_points(
        (256, 235.2, 235.1),
        (512, 241.0, 236.1),
        (1 * _KIB, 236.3, 233.3),
        (2 * _KIB, 234.1, 233.4),
        (4 * _KIB, 237.1, 235.3),
        (8 * _KIB, 236.2, 235.2),
        (16 * _KIB, 236.6, 238.5),
        (32 * _KIB, 237.9, 238.8),
        (64 * _KIB, 242.3, 239.4),
        (128 * _KIB, 263.0, 275.1),
        (256 * _KIB, 279.2, 269.9),
        (512 * _KIB, 273.5, 273.5),
        (1 * _MIB, 315.1, 314.1),
        (2 * _MIB, 319.2, 311.5),
        (4 * _MIB, 331.8, 331.3),
        (8 * _MIB, 356.3, 353.8),
        (16 * _MIB, 409.1, 405.2),
        (32 * _MIB, 451.4, 447.7),
        (64 * _MIB, 713.4, 713.8),
        (128 * _MIB, 1122.1, 1116.3),
        (256 * _MIB, 1785.8, 1769.2),
        (512 * _MIB, 2859.7, 2852.6),
        (1024 * _MIB, 5494.1, 5568.2),
        (2048 * _MIB, 10841.0, 10798.0),
        (4096 * _MIB, 21453.0, 21490.0),
        (8192 * _MIB, 42603.0, 42670.0),
    ),
)

A3_HIGH = Curve(
    machine_type="a3-highgpu-8g",
    source="Google's page on GPU bandwidth in Autopilot, sample output for GPUDirect-TCPX"
    " (all-gather, 2 nodes, 1 MiB to 512 MiB)",
    points=_points(
        (1 * _MIB, 696.8, 729.0),
        (2 * _MIB, 776.4, 726.7),
        (4 * _MIB, 774.3, 805.1),
        (8 * _MIB, 812.1, 817.6),
        (16 * _MIB, 1035.2, 1067.8),
        (32 * _MIB, 1183.3, 1211.8),
        (64 * _MIB, 1593.4, 1510.5),
        (128 * _MIB, 2127.8, 2312.7),
        (256 * _MIB, 3603.0, 3586.2),
        (512 * _MIB, 7101.7, 7060.9),
    ),
)

_CURVES = {curve.machine_type: curve for curve in (A3_MEGA, A3_HIGH)}


def curve_for(machine_type: str) -> Curve | None:
    """Return the curve of a machine type, or None if no run on it was published."""
    return _CURVES.get(machine_type)
