from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gpudirect.nccl_exports import run_from_json, to_csv, to_json, to_prometheus
from gpudirect.nccl_history import MAX_RUNS, append_history
from gpudirect.nccl_judgement import judge
from gpudirect.nccl_results import read_results
from tests.unit.nccl_tables import A3_HIGH, A3_MEGA, curve, table

CASES = Path(__file__).parents[1] / "cases" / "nccl"
CONTRACT = {
    "run", "verdict", "reasons", "dataChecked", "outOfBounds", "ranks", "transport",
    "averageBusBandwidth", "largest", "rows",
}  # fmt: skip


def document_of(text: str, **options: Any) -> dict[str, Any]:
    run = read_results(text.splitlines())
    arguments: dict[str, Any] = {"reference": curve(A3_HIGH), "nodes": 2, **options}
    return to_json(run, judge(run, **arguments))


def case(name: str) -> str:
    return (CASES / name).read_text()


@pytest.mark.parametrize("path", sorted(CASES.glob("e*")), ids=lambda path: path.stem)
def test_every_case_fulfils_the_contract_and_is_json_without_nan(path: Path) -> None:
    document = document_of(path.read_text())
    assert set(document) >= CONTRACT
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["run"] in ("complete", "incomplete", "failed", "ambiguous")
    assert document["verdict"] in ("passed", "degraded", "failed", "incomplete")
    for row in document["rows"]:
        assert set(row) == {"sizeBytes", "count", "outOfPlace", "inPlace"}
        assert set(row["outOfPlace"]) == {"timeUs", "algBandwidth", "busBandwidth", "wrong"}


def test_the_contract_of_a_checked_run() -> None:
    document = document_of(case("e04_mpirun_tag_output.txt"))
    assert document["run"] == "complete"
    assert document["verdict"] == "passed"
    assert document["reasons"] == []
    assert document["dataChecked"] is True
    assert document["outOfBounds"] == 0
    assert document["ranks"] == 16
    assert document["transport"] == "tcpx"
    assert document["averageBusBandwidth"] == 29.0904
    assert document["simulated"] is False
    assert document["largest"] == {
        "sizeBytes": 536870912,
        "outOfPlaceBusBandwidth": 69.06,
        "inPlaceBusBandwidth": 68.92,
    }
    assert document["rows"][0] == {
        "sizeBytes": 1048576,
        "count": 16384,
        "outOfPlace": {"timeUs": 655.0, "algBandwidth": 1.6, "busBandwidth": 1.5, "wrong": 0},
        "inPlace": {"timeUs": 671.0, "algBandwidth": 1.56, "busBandwidth": 1.47, "wrong": 0},
    }


def test_what_was_not_measured_is_null() -> None:
    unchecked = document_of(case("e01_a3high_unchecked.txt"))
    assert unchecked["dataChecked"] is False
    assert unchecked["rows"][0]["outOfPlace"]["wrong"] is None
    nothing = document_of(case("e16_no_table.txt"))
    assert nothing["largest"] is None
    assert nothing["rows"] == []
    for key in ("dataChecked", "outOfBounds", "ranks", "averageBusBandwidth"):
        assert nothing[key] is None


def test_a_simulated_run_says_so() -> None:
    document = document_of("# simulated\n" + table(A3_HIGH))
    assert document["simulated"] is True
    assert any("simulated" in reason for reason in document["reasons"])


def test_no_export_holds_the_environment_of_a_report() -> None:  # [R54]
    run = read_results(case("e14_report.json").splitlines())
    exports = [
        json.dumps(to_json(run, judge(run, reference=[], nodes=2))),
        to_csv(run),
        to_prometheus(run, "passed", labels={}),
    ]
    assert not any("HF_TOKEN" in text or "not-a-real-token" in text for text in exports)


@pytest.mark.parametrize("name", ["e02_a3mega_zero_size_rows.txt", "e11_before_2_13.txt"])
def test_a_result_comes_back_from_json_even_after_numbers_became_floats(name: str) -> None:
    document = document_of(case(name))

    def as_state_keeps_it(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: as_state_keeps_it(item) for key, item in value.items()}
        if isinstance(value, list):
            return [as_state_keeps_it(item) for item in value]
        return float(value) if type(value) is int else value

    run = run_from_json(as_state_keeps_it(document))
    again = to_json(run, judge(run, reference=curve(A3_HIGH), nodes=2))
    assert again["rows"] == document["rows"]
    assert again["largest"] == document["largest"]
    assert run.status == document["run"]


@pytest.mark.parametrize("broken", [{}, {"run": "complete"}, {"run": "complete", "rows": 3}])
def test_something_else_is_no_result(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no result of an NCCL run"):
        run_from_json(broken)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("run",), "done"),
        (("transport",), ["fastrak"]),
        (("dataChecked",), "yes"),
        (("averageBusBandwidth",), "29.09"),
        (("ranks",), float("inf")),
        (("reasons",), None),
        (("versions",), ["2.28"]),
        (("nicsPerHost",), {"a": 1}),
        (("rows",), [None]),
        (("rows", 0, "sizeBytes"), None),
        (("rows", 0, "outOfPlace"), None),
        (("rows", 0, "outOfPlace", "busBandwidth"), "fast"),
        (("rows", 0, "inPlace", "busBandwidth"), True),
        (("rows", 0, "inPlace", "timeUs"), float("nan")),
    ],
)
def test_a_result_that_somebody_spoilt_is_none(path: tuple[Any, ...], value: Any) -> None:
    document = document_of(case("e04_mpirun_tag_output.txt"))
    assert run_from_json(document).ranks == 16
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match="no result of an NCCL run"):
        run_from_json(document)


def test_csv_has_units_in_its_names_and_the_reference_beside_the_values() -> None:
    run = read_results(case("e01_a3high_unchecked.txt").splitlines())
    rows = list(csv.DictReader(io.StringIO(to_csv(run, curve(A3_HIGH)))))
    assert len(rows) == 10
    assert rows[-1]["size_bytes"] == "536870912"
    assert rows[-1]["out_of_place_bus_bandwidth_gbps"] == "69.06"
    assert rows[-1]["in_place_wrong"] == ""
    assert rows[-1]["reference_bus_bandwidth_gbps"] == "70.87"


def test_prometheus_text_is_in_base_units_with_each_sample_once() -> None:
    run = read_results(table([*A3_MEGA, A3_MEGA[-1]]).splitlines())
    text = to_prometheus(run, "passed", labels={"stack": 'a"b\\c\n'}, reference=curve(A3_MEGA))
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    names = [sample.rpartition(" ")[0] for sample in samples]
    assert len(names) == len(set(names))
    stack = r'stack="a\"b\\c\n"'
    assert (
        f"gpudirect_nccl_bus_bandwidth_bytes_per_second{{{stack},"
        'size_bytes="8589934592",direction="in_place"} 188730000000'
    ) in samples
    assert f'gpudirect_nccl_verdict{{{stack},verdict="passed"}} 1' in samples
    assert f'gpudirect_nccl_verdict{{{stack},verdict="failed"}} 0' in samples


def test_prometheus_text_leaves_out_what_was_not_measured() -> None:
    text = to_prometheus(read_results([]), "incomplete", labels={})
    assert "data_checked" not in text
    assert "bandwidth" not in text
    assert 'gpudirect_nccl_verdict{verdict="incomplete"} 1' in text


def test_history_keeps_the_last_runs_in_a_compact_form() -> None:
    history: list[dict[str, Any]] = []
    for number in range(MAX_RUNS + 5):
        result = document_of(table(A3_MEGA)) | {"startedAt": f"run {number}", "nodes": 2}
        history = append_history(history, result)
    assert [entry["startedAt"] for entry in history] == [f"run {n}" for n in range(5, 25)]
    entry = history[-1]
    assert entry["rows"][-1] == [8589934592, 189.03, 188.73]
    assert all(size for size, _, _ in entry["rows"])
    assert len(json.dumps(history)) < 20 * 1024


def test_history_takes_a_run_without_a_number_and_changes_nothing_it_was_given() -> None:
    before: list[dict[str, Any]] = []
    after = append_history(before, document_of("") | {"startedAt": "now"})
    assert before == []
    assert after[0]["rows"] == []
    assert after[0]["verdict"] == "incomplete"
