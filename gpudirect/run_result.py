"""The result of one NCCL run as the stack keeps it: plain data in state and in an output.

Owns the form in which verdict, figures and causes are stored, judging stored rows once more, and
the text that people read. Does not own the figures' meaning (`nccl_judgement`) nor the causes
(`diagnosis`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpudirect.nccl_data import NcclRun
from gpudirect.nccl_exports import run_from_json, to_json
from gpudirect.nccl_judgement import judge

if TYPE_CHECKING:
    from gpudirect.diagnosis import Evidence

Result = dict[str, Any]
Policy = Mapping[str, Any]
Reference = Mapping[str, Any]

_MEBIBYTE = 1024 * 1024
# A run of hundreds of Pods that all fail alike must not fill the stack's state.
_MOST_CAUSES = 30


def result_of_run(
    run: NcclRun,
    *,
    policy: Policy,
    reference: Reference,
    problem: str | None,
    phase: str,
    evidence: Evidence,
    seconds: float,
) -> Result:
    """Return the result of a run that took place, however it ended.

    Args:
        run: What the launcher printed.
        policy: `mode`, `minFraction`, `nodes`, `gpusPerNode`, `nicsPerNode`, `collective`.
        reference: `nodes` that it was measured with and `curve`, points (message size in bytes,
            bus bandwidth in GB/s).
        problem: Why the run ended early, or None.
        phase: The phase in which it ended.
        evidence: What was to be seen in the cluster.
        seconds: How long it took.
    """
    result = _stopped_by(problem, _judged(run, policy, reference))
    return result | {
        "problem": problem,
        "phase": phase,
        "seconds": round(seconds, 1),
        "diagnosis": _causes(evidence, result["verdict"]),
    }


def _stopped_by(problem: str | None, result: Result) -> Result:
    """Return a result of rows with what stopped the run, before what follows from it."""
    if problem is None:
        return result
    verdict = result["verdict"]
    return result | {
        "reasons": [problem, *result["reasons"]],
        "verdict": "failed" if verdict in ("passed", "degraded") else verdict,
    }


def _causes(evidence: Evidence, verdict: str) -> list[dict[str, str]]:
    if verdict == "passed":
        return []
    # Imported here: most updates run nothing, and most runs pass.
    from gpudirect.diagnosis import diagnose

    found = diagnose(replace(evidence, run_verdict=verdict))
    failures = [diagnosis.to_json() for diagnosis in found if diagnosis.is_failure]
    return failures[:_MOST_CAUSES]


def result_without_run(reason: str) -> Result:
    """Return the result of a run that could not even begin."""
    empty = NcclRun(status="incomplete", reason=reason)
    judgement = judge(empty, reference=(), nodes=0)
    # Imported here as in `_causes`.
    from gpudirect.diagnosis import Evidence, diagnose

    return to_json(empty, judgement) | {
        "reasons": [reason],
        "problem": reason,
        "phase": "capacity",
        "seconds": 0.0,
        "diagnosis": [d.to_json() for d in diagnose(Evidence(messages=(reason,))) if d.is_failure],
    }


def judge_result_again(result: Result, *, policy: Policy, reference: Reference) -> Result:
    """Return a stored result under another bar; the rows stay what was measured."""
    judged = _stopped_by(result.get("problem"), _judged(run_from_json(result), policy, reference))
    return result | {key: judged[key] for key in ("verdict", "reasons")}


def describe_result(result: Result) -> str:
    """Return verdict, reasons, causes and table as people read them."""
    simulated = " (simulated: no GPU was involved)" if result.get("simulated") else ""
    lines = [f"verdict: {result['verdict']}{simulated}"]
    lines += [f"  - {reason}" for reason in result.get("reasons", ())]
    lines += _cause_lines(result.get("diagnosis", ()))
    if result.get("rows"):
        lines += ["", *_table(result["rows"])]
    return "\n".join(lines)


def _cause_lines(diagnoses: Sequence[Mapping[str, str]]) -> list[str]:
    """Return each cause once, with its first place: many Pods often fail alike."""
    places: dict[str, list[Mapping[str, str]]] = {}
    for diagnosis in diagnoses:
        places.setdefault(diagnosis["summary"], []).append(diagnosis)
    lines = []
    for first, *others in places.values():
        more = f" (and at {len(others)} more)" if others else ""
        lines += [
            f"cause: {first['summary']}",
            f"  {first['where']}: {first['evidence']}{more}",
            f"  {first['remedy']}",
        ]
    return lines


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [f"{'size':>10}  {'out of place':>12}  {'in place':>12}  bus bandwidth, GB/s"]
    for row in rows:
        cells = [_bandwidth(row["outOfPlace"]), _bandwidth(row["inPlace"])]
        lines.append(f"{_size(row['sizeBytes']):>10}  {cells[0]:>12}  {cells[1]:>12}")
    return lines


def _bandwidth(measurement: Mapping[str, Any] | None) -> str:
    value = None if measurement is None else measurement["busBandwidth"]
    return "-" if value is None else f"{value:.2f}"


def _size(size_bytes: float) -> str:
    size = int(size_bytes)
    if size >= _MEBIBYTE and size % _MEBIBYTE == 0:
        return f"{size // _MEBIBYTE} MiB"
    return f"{size} B"


def _judged(run: NcclRun, policy: Policy, reference: Reference) -> Result:
    judgement = judge(
        run,
        # Numbers come back from Pulumi's state as floats.
        reference=[(int(size), float(bandwidth)) for size, bandwidth in reference["curve"]],
        nodes=int(policy["nodes"]),
        gpus_per_node=int(policy["gpusPerNode"]),
        min_fraction=float(policy["minFraction"]),
        mode=str(policy["mode"]),
        nic_count=int(policy["nicsPerNode"]),
        reference_nodes=int(reference["nodes"]),
        collective=str(policy["collective"]),
    )
    return to_json(run, judgement)
