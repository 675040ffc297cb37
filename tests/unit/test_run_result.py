from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudirect.diagnosis import Evidence
from gpudirect.nccl_results import read_results
from gpudirect.releases import load_releases
from gpudirect.run_result import (
    describe_result,
    judge_result_again,
    result_of_run,
    result_without_run,
)

CASES = Path(__file__).resolve().parents[1] / "cases" / "nccl"
REFERENCE = {
    "nodes": 2,
    "curve": [list(point) for point in load_releases().default("a3-mega").reference_bandwidth],
}
POLICY = {
    "mode": "gate",
    "minFraction": 0.8,
    "nodes": 2,
    "gpusPerNode": 8,
    "nicsPerNode": 8,
    "collective": "all-gather",
}


def _policy(**changed: Any) -> dict[str, Any]:
    return {**POLICY, **changed}


def _result(problem: str | None = None, **policy: Any) -> dict[str, Any]:
    lines = (CASES / "e02_a3mega_zero_size_rows.txt").read_text().splitlines()
    result = result_of_run(
        read_results(lines),
        policy=_policy(**policy),
        reference=REFERENCE,
        problem=problem,
        phase="done",
        evidence=Evidence(),
        seconds=12.34,
    )
    # What Pulumi's state makes of it: every number comes back as a float.
    stored: dict[str, Any] = json.loads(json.dumps(result), parse_int=float)
    return stored


def test_a_good_run_is_stored_with_its_rows_and_its_verdict() -> None:
    result = _result()
    assert result["verdict"] == "passed"
    assert result["largest"]["sizeBytes"] == 2**32
    assert result["rows"][-1]["outOfPlace"]["busBandwidth"] == pytest.approx(186.03)
    assert result["seconds"] == 12.3


def test_a_run_that_was_stopped_has_not_passed_and_says_first_what_stopped_it() -> None:
    result = _result(problem="the daemon stopped")
    assert result["verdict"] == "failed"
    assert result["reasons"][0] == "the daemon stopped"


def test_stored_rows_are_judged_again_under_another_bar() -> None:
    stored = _result()
    raised = judge_result_again(stored, policy=_policy(minFraction=1.2), reference=REFERENCE)
    assert raised["verdict"] == "failed"
    assert raised["rows"] == stored["rows"]
    lowered = judge_result_again(raised, policy=_policy(minFraction=0.5), reference=REFERENCE)
    assert lowered["verdict"] == "passed"


def test_what_stopped_a_run_stops_it_under_every_bar() -> None:
    stored = _result(problem="the daemon stopped", mode="report")
    assert stored["verdict"] == "failed"
    again = judge_result_again(
        stored, policy=_policy(mode="report", minFraction=0.5), reference=REFERENCE
    )
    assert again["verdict"] == "failed"
    assert again["reasons"] == stored["reasons"]


def test_a_host_that_used_too_few_nics_fails_when_it_is_judged_again() -> None:
    stored = _result() | {"transport": "fastrak", "nicsPerHost": {"a": [0.0, 1.0], "b": [0.0]}}
    again = judge_result_again(stored, policy=_policy(), reference=REFERENCE)
    assert again["verdict"] == "failed"
    assert "2 of 8 GPU NICs: 0, 1 on a; 1 of 8 GPU NICs: 0 on b" in again["reasons"][0]


def test_a_low_run_is_degraded_where_the_gate_only_reports() -> None:
    assert _result(mode="report", minFraction=1.2)["verdict"] == "degraded"


def test_a_run_that_could_not_begin_is_incomplete_with_its_reason() -> None:
    result = result_without_run("no login to the cluster")
    assert result["verdict"] == "incomplete"
    assert result["reasons"] == ["no login to the cluster"]


def test_a_run_that_could_not_begin_names_the_cause_that_its_reason_shows() -> None:
    result = result_without_run(
        "gke-gcloud-auth-plugin, the login helper of the kubeconfig, is not on PATH."
    )
    assert [cause["cause"] for cause in result["diagnosis"]] == ["login-helper-missing"]


def test_the_text_shows_verdict_reasons_causes_and_table() -> None:
    result = _result(problem="the daemon stopped") | {
        "diagnosis": [
            {
                "summary": "the receive daemon stopped",
                "where": "Pod a, container tcpxo-daemon",
                "evidence": "exit code 0",
                "remedy": "read its log",
            }
        ]
    }
    text = describe_result(result)
    assert text.startswith("verdict: failed\n  - the daemon stopped")
    assert "cause: the receive daemon stopped\n  Pod a, container tcpxo-daemon: exit code 0" in text
    assert "  4096 MiB        186.03        186.33" in text


def test_a_cause_of_many_pods_is_told_once() -> None:
    cause = {"cause": "wrong-mtu", "summary": "MTU.", "remedy": "Mend it.", "evidence": "eth3"}
    result = {
        "verdict": "failed",
        "diagnosis": [{**cause, "where": f"Pod {number}"} for number in range(3)],
    }
    text = describe_result(result)
    assert text.count("cause: MTU.") == 1
    assert "  Pod 0: eth3 (and at 2 more)\n  Mend it." in text


def test_a_simulated_figure_is_called_simulated() -> None:
    assert "simulated" in describe_result(_result() | {"simulated": True})
    assert "simulated" not in describe_result(_result())
