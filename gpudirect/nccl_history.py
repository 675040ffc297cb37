"""The last runs of a stack, small enough to live in a stack output.

Owns the compact form of one run and the bound on their number. Does not own the full result of the
last run (`run_result`).

One entry holds `startedAt`, `verdict`, `simulated`, `release`, `nodes`, `averageBusBandwidth` and
`rows`, a list of [message size in bytes, out-of-place, in-place bus bandwidth in GB/s]: about 500
bytes a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

MAX_RUNS: Final = 20
# Sizes are powers of two up to 8 GiB; more rows come of several tables or types.
_MAX_ROWS: Final = 40

Entry = dict[str, Any]


def append_history(history: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> list[Entry]:
    """Return the history with one more run at its end, oldest runs first.

    Args:
        history: What `append_history` returned before; empty at first.
        result: The result of a run as `nccl_exports.to_json` makes it, with `startedAt` and, where
            known, `release` and `nodes`.
    """
    return [*(dict(entry) for entry in history), compact(result)][-MAX_RUNS:]


def compact(result: Mapping[str, Any]) -> Entry:
    """Return the compact form of a result."""
    rows = [row for row in result.get("rows") or () if row["sizeBytes"]]
    return {
        "startedAt": result.get("startedAt"),
        "verdict": result.get("verdict"),
        "simulated": bool(result.get("simulated")),
        "release": result.get("release"),
        "nodes": result.get("nodes"),
        "averageBusBandwidth": result.get("averageBusBandwidth"),
        "rows": [
            [
                int(row["sizeBytes"]),
                row["outOfPlace"]["busBandwidth"],
                None if row["inPlace"] is None else row["inPlace"]["busBandwidth"],
            ]
            for row in rows[-_MAX_ROWS:]
        ],
    }
