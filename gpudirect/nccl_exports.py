"""An NCCL run for other programs: the JSON contract, CSV and Prometheus text.

Owns the names and units of what is exported. Does not own what the figures mean.

Bandwidths are GB/s with 1 GB = 10^9 bytes, in Prometheus text bytes per second, as is usual there.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from gpudirect.nccl_bands import Reference, interpolate
from gpudirect.nccl_data import Measurement, NcclRun, Row, RunStatus, Transport
from gpudirect.nccl_judgement import Judgement

_VERDICTS = ("passed", "degraded", "failed", "incomplete")
_BYTES_PER_GB = 10**9


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
        "nicsPerHost": {host: list(nics) for host, nics in run.nics_per_host.items()},
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


def run_from_json(result: Mapping[str, Any]) -> NcclRun:
    """Return the run that `to_json` made a result of; numbers may have become floats on the way.

    Raises:
        ValueError: this is no such result; the text says what is wrong with it.
    """
    try:
        reasons = [str(reason) for reason in result["reasons"]]
        return NcclRun(
            status=_one_of(result["run"], RunStatus),
            reason=next(iter(reasons), None) if result["run"] != "complete" else None,
            rows=tuple(_row_from_json(row) for row in result["rows"]),
            tables=int(result.get("tables") or bool(result["rows"])),
            ranks=_integer(result["ranks"]),
            data_checked=_truth(result["dataChecked"]),
            out_of_bounds=_integer(result["outOfBounds"]),
            average_bus_bandwidth_gbps=_number(result["averageBusBandwidth"]),
            transport=_one_of(result["transport"], Transport),
            nics=tuple(int(nic) for nic in result.get("nics") or ()),
            nics_per_host={
                str(host): tuple(int(nic) for nic in nics)
                for host, nics in (result.get("nicsPerHost") or {}).items()
            },
            collective=None if result.get("collective") is None else str(result["collective"]),
            versions={str(k): str(v) for k, v in (result.get("versions") or {}).items()},
            simulated=bool(result.get("simulated")),
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"no result of an NCCL run: {error!r}") from error


def to_csv(run: NcclRun, reference: Reference = ()) -> str:
    """Return the rows as CSV with a header; empty cells stand for what was not measured."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measured = ("time_us", "alg_bandwidth_gbps", "bus_bandwidth_gbps", "wrong")
    writer.writerow(
        [
            "size_bytes",
            "count",
            *(f"out_of_place_{name}" for name in measured),
            *(f"in_place_{name}" for name in measured),
            "reference_bus_bandwidth_gbps",
        ]
    )
    for row in run.rows:
        in_place = row.in_place or Measurement()
        expected = interpolate(reference, row.size_bytes)
        writer.writerow(
            [
                row.size_bytes,
                row.count,
                *(getattr(row.out_of_place, name) for name in measured),
                *(getattr(in_place, name) for name in measured),
                None if expected is None else round(expected, 4),
            ]
        )
    return text.getvalue()


def to_prometheus(
    run: NcclRun, verdict: str, *, labels: Mapping[str, str], reference: Reference = ()
) -> str:
    """Return the run in Prometheus' text format; what was not measured is left out.

    Args:
        run: The run.
        verdict: The verdict of the gate.
        labels: Labels of every sample, such as the stack's name.
        reference: Points (message size in bytes, bus bandwidth in GB/s).
    """
    families: list[tuple[str, str, Sequence[tuple[Mapping[str, str], float | int | None]]]] = [
        (
            "verdict",
            "1 for the verdict of the NCCL gate, 0 for the others.",
            [({"verdict": name}, int(name == verdict)) for name in _VERDICTS],
        ),
        (
            "bus_bandwidth_bytes_per_second",
            "Bus bandwidth of the NCCL test by message size and direction.",
            list(_bandwidth_samples(run)),
        ),
        (
            "reference_bus_bandwidth_bytes_per_second",
            "Bus bandwidth that the release is known to reach, by message size.",
            [
                ({"size_bytes": str(size)}, interpolate(reference, size))
                for size in dict.fromkeys(row.size_bytes for row in run.rows)
            ],
        ),
        (
            "average_bus_bandwidth_bytes_per_second",
            "Average over all message sizes, as nccl-tests prints it.",
            [({}, run.average_bus_bandwidth_gbps)],
        ),
        ("ranks", "Ranks that took part.", [({}, run.ranks)]),
        ("out_of_bounds", "Wrong values, as nccl-tests counts them.", [({}, run.out_of_bounds)]),
        (
            "data_checked",
            "Whether values were compared.",
            [({}, None if run.data_checked is None else int(run.data_checked))],
        ),
        ("simulated", "Whether no hardware produced these figures.", [({}, int(run.simulated))]),
    ]
    return "".join(
        _family(f"gpudirect_nccl_{name}", help_text, samples, labels)
        for name, help_text, samples in families
    )


def _bandwidth_samples(run: NcclRun) -> Iterator[tuple[Mapping[str, str], float | None]]:
    seen: set[tuple[int, str]] = set()
    for row in run.rows:
        for direction, measurement in (
            ("out_of_place", row.out_of_place),
            ("in_place", row.in_place),
        ):
            # A sample may be there once only: with several rows of a size the first one stands.
            if measurement is not None and (row.size_bytes, direction) not in seen:
                seen.add((row.size_bytes, direction))
                sample = {"size_bytes": str(row.size_bytes), "direction": direction}
                yield sample, measurement.bus_bandwidth_gbps


def _family(
    name: str,
    help_text: str,
    samples: Sequence[tuple[Mapping[str, str], float | int | None]],
    labels: Mapping[str, str],
) -> str:
    scale = _BYTES_PER_GB if name.endswith("_bytes_per_second") else 1
    lines = [
        f"{name}{_labels({**labels, **own})} {value * scale:.12g}\n"
        for own, value in samples
        if value is not None
    ]
    if not lines:
        return ""
    return f"# HELP {name} {help_text}\n# TYPE {name} gauge\n" + "".join(lines)


def _labels(labels: Mapping[str, str]) -> str:
    escaped = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(escaped) + "}" if labels else ""


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _row_from_json(row: Mapping[str, Any]) -> Row:
    in_place = row["inPlace"]
    return Row(
        size_bytes=int(row["sizeBytes"]),
        count=int(row["count"]),
        out_of_place=_measurement_from_json(row["outOfPlace"]),
        in_place=None if in_place is None else _measurement_from_json(in_place),
    )


def _measurement_from_json(measurement: Mapping[str, Any]) -> Measurement:
    return Measurement(
        time_us=_number(measurement["timeUs"]),
        alg_bandwidth_gbps=_number(measurement["algBandwidth"]),
        bus_bandwidth_gbps=_number(measurement["busBandwidth"]),
        wrong=_integer(measurement["wrong"]),
    )


def _integer(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return value


def _truth(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ValueError(f"{value!r} is neither true nor false")


def _one_of(value: Any, choices: Any) -> Any:
    """Return a value that is among those of a `Literal`."""
    if value not in get_args(choices):
        raise ValueError(f"{value!r} is none of {', '.join(get_args(choices))}")
    return value


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
