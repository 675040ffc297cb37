"""An NCCL run for other programs: the JSON contract, CSV and Prometheus text.

Owns the names and units of what is exported. Does not own what the figures mean.

All bandwidths are GB/s with 1 GB = 10^9 bytes.
"""

from __future__ import annotations

from typing import Any

from gpudirect.nccl_data import Measurement, NcclRun, Row
from gpudirect.nccl_judgement import Judgement


def to_json(run: NcclRun, judgement: Judgement) -> dict[str, Any]:
    """Return the contract of `results --json`; null stands for what was not measured."""
    largest = run.largest
    return {
        "run": run.status,
        "verdict": judgement.verdict,
        "reasons": list(judgement.texts),
        "simulated": run.simulated,
        "dataChecked": run.data_checked,
        "outOfBounds": run.out_of_bounds,
        "ranks": run.ranks,
        "tables": run.tables,
        "transport": run.transport,
        "nics": list(run.nics),
        "collective": run.collective,
        "versions": dict(run.versions),
        "averageBusBandwidth": run.average_bus_bandwidth_gbps,
        "largest": largest
        and {
            "sizeBytes": largest.size_bytes,
            "outOfPlaceBusBandwidth": largest.out_of_place_bus_bandwidth_gbps,
            "inPlaceBusBandwidth": largest.in_place_bus_bandwidth_gbps,
        },
        "rows": [_row_to_json(row) for row in run.rows],
    }


def _row_to_json(row: Row) -> dict[str, Any]:
    return {
        "sizeBytes": row.size_bytes,
        "count": row.count,
        "outOfPlace": _measurement_to_json(row.out_of_place),
        "inPlace": None if row.in_place is None else _measurement_to_json(row.in_place),
    }


def _measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    return {
        "timeUs": measurement.time_us,
        "algBandwidth": measurement.alg_bandwidth_gbps,
        "busBandwidth": measurement.bus_bandwidth_gbps,
        "wrong": measurement.wrong,
    }
