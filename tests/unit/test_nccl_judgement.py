from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpudirect.nccl_bands import interpolate
from gpudirect.nccl_data import NcclRun
from gpudirect.nccl_judgement import DEFAULT_MIN_FRACTION, Judgement, judge
from gpudirect.nccl_results import read_results
from tests.unit.nccl_tables import A3_HIGH, A3_MEGA, Change, Figures, curve, scaled, table

CASES = Path(__file__).parents[1] / "cases"
MIB = 1024 * 1024
GIB = 1024 * MIB

both_machines = pytest.mark.parametrize("figures", [A3_HIGH, A3_MEGA], ids=["a3-high", "a3-mega"])


def judge_text(text: str, figures: Figures, **options: object) -> Judgement:
    return judge_run(read_results(text.splitlines()), figures, **options)


def judge_run(run: NcclRun, figures: Figures, **options: object) -> Judgement:
    arguments: dict[str, object] = {"reference": curve(figures), "nodes": 2, **options}
    return judge(run, **arguments)  # type: ignore[arg-type]


def judge_changed(figures: Figures, change: Change, **options: object) -> Judgement:
    return judge_text(table(scaled(figures, change)), figures, **options)


@both_machines
@pytest.mark.parametrize(
    ("percent", "verdict"), [(100, "passed"), (82, "passed"), (75, "failed"), (50, "failed")]
)
def test_the_reference_at_a_share_of_itself(figures: Figures, percent: int, verdict: str) -> None:
    share = percent / 100
    judgement = judge_changed(figures, lambda _s, out, _i: (out * share, out * share))
    assert judgement.verdict == verdict


@both_machines
def test_the_published_table_passes_as_it_was_published(figures: Figures) -> None:
    judgement = judge_text(table(figures), figures)
    assert judgement.verdict == "passed"
    assert [band.name for band in judgement.bands][-2:] == ["middle", "largest"]


@both_machines
def test_a_table_clipped_at_half_its_peak_fails_although_its_average_is_good(
    figures: Figures,
) -> None:
    peak = max(out for _, out, _ in figures)
    judgement = judge_changed(figures, lambda _s, o, i: (min(o, peak / 2), min(i, peak / 2)))
    assert judgement.verdict == "failed"
    assert "largest sizes" in judgement.texts[0]


@both_machines
@pytest.mark.parametrize("direction", ["out-of-place", "in-place"])
def test_one_low_direction_fails(figures: Figures, direction: str) -> None:
    low = direction == "out-of-place"
    judgement = judge_changed(figures, lambda _s, o, i: (o * 0.5, i) if low else (o, i * 0.5))
    assert judgement.verdict == "failed"
    assert f"{direction} " in judgement.texts[0]
    assert "(50%)" in judgement.texts[0]


@both_machines
def test_only_the_largest_size_low_fails(figures: Figures) -> None:
    largest = figures[-1][0]
    judgement = judge_changed(
        figures, lambda size, o, i: (o * 0.7, i * 0.7) if size == largest else (o, i)
    )
    assert judgement.verdict == "failed"


@both_machines
@pytest.mark.parametrize(("part", "verdict"), [(2, "failed"), (4, "failed"), (8, "passed")])
def test_sizes_down_to_a_quarter_of_the_largest_decide(
    figures: Figures, part: int, verdict: str
) -> None:
    low = figures[-1][0] // part
    judgement = judge_changed(
        figures, lambda size, o, i: (o * 0.7, i * 0.7) if size == low else (o, i)
    )
    assert judgement.verdict == verdict


@both_machines
def test_a_dip_in_the_middle_is_reported_and_does_not_decide(figures: Figures) -> None:
    judgement = judge_changed(
        figures, lambda size, o, i: (o * 0.3, i) if size == 16 * MIB else (o, i)
    )
    assert judgement.verdict == "passed"
    assert any("dips in the middle" in text and "16 MiB" in text for text in judgement.texts)


def test_sizes_bound_by_latency_decide_nothing() -> None:
    judgement = judge_changed(A3_MEGA, lambda s, o, i: (o * 0.1, i * 0.1) if s < MIB else (o, i))
    assert judgement.verdict == "passed"
    assert any("bound by latency" in text for text in judgement.texts)


def test_low_bandwidth_is_degraded_where_the_gate_only_reports() -> None:
    judgement = judge_changed(A3_HIGH, lambda _s, o, i: (o / 2, i / 2), mode="report")
    assert judgement.verdict == "degraded"


@pytest.mark.parametrize("mode", ["gate", "report"])
def test_wrong_values_fail_at_any_bandwidth(mode: str) -> None:
    judgement = judge_text(table(A3_HIGH, wrong="4", bad=10), A3_HIGH, mode=mode)
    assert judgement.verdict == "failed"
    assert judgement.texts[0].startswith("wrong values")


@pytest.mark.parametrize("mode", ["gate", "report"])
def test_the_socket_transport_fails_at_any_bandwidth(mode: str) -> None:
    log = "a:1:2 [0] NCCL INFO Using network Socket\n"
    judgement = judge_text(log + table(A3_HIGH), A3_HIGH, mode=mode)
    assert judgement.verdict == "failed"
    assert "Socket" in judgement.texts[0]


def test_ranks_must_be_eight_on_each_node() -> None:  # [R49]
    judgement = judge_text(table(A3_HIGH, nodes=2), A3_HIGH, nodes=4)
    assert judgement.verdict == "failed"
    assert "16 ranks took part, 32 are wanted" in judgement.texts[0]
    assert judge_text(table(A3_HIGH, nodes=4), A3_HIGH, nodes=4).verdict == "passed"


def test_ranks_on_too_few_hosts_fail() -> None:
    text = table(A3_HIGH).replace(" on nccl-test-1 ", " on nccl-test-0 ")
    judgement = judge_text(text, A3_HIGH)
    assert judgement.verdict == "failed"
    assert "1 hosts" in judgement.texts[0]


def test_ranks_split_into_groups_fail() -> None:
    judgement = judge_text(table(A3_HIGH).replace("Rank 15 Group  0", "Rank 15 Group  1"), A3_HIGH)
    assert judgement.verdict == "failed"
    assert "2 groups" in judgement.texts[0]


def test_a_run_on_one_node_proves_nothing() -> None:
    assert judge_text(table(A3_HIGH, nodes=1), A3_HIGH, nodes=1).verdict == "incomplete"


def test_another_number_of_nodes_than_the_reference_is_said() -> None:
    judgement = judge_text(table(A3_HIGH, nodes=3), A3_HIGH, nodes=3)
    assert "reference measured with 2 nodes, this run with 3" in judgement.texts


def test_sizes_outside_of_the_reference_are_said_and_not_compared() -> None:
    figures = [*A3_HIGH, (GIB, 1.0, 1.0)]
    judgement = judge_text(table(figures), A3_HIGH)
    assert judgement.verdict == "passed"
    assert any("not compared" in text and "1 GiB" in text for text in judgement.texts)


def test_unchecked_values_are_said() -> None:  # [R44]
    judgement = judge_text(table(A3_HIGH, wrong="N/A", validation=0), A3_HIGH)
    assert judgement.verdict == "passed"
    assert any("not checked" in text for text in judgement.texts)


def test_without_a_reference_there_is_no_verdict_on_bandwidth() -> None:
    judgement = judge(read_results(table(A3_HIGH).splitlines()), reference=[], nodes=2)
    assert judgement.verdict == "incomplete"
    assert "no reference" in judgement.texts[0]


def test_small_sizes_alone_prove_no_bandwidth() -> None:
    judgement = judge_text(table(A3_MEGA[:6]), A3_MEGA)
    assert judgement.verdict == "incomplete"
    assert "no size large enough" in judgement.texts[0]


def test_a_lost_row_of_the_largest_size_is_no_pass() -> None:
    lines = table(A3_HIGH).splitlines()
    kept = [line for line in lines if not line.lstrip().startswith("536870912 ")]
    judgement = judge_run(read_results(kept), A3_HIGH)
    assert judgement.verdict == "incomplete"
    assert "512 MiB" in judgement.texts[0]


def test_all_to_all_is_not_measured_against_all_gather() -> None:
    text = "# Collective test starting: alltoall_perf\n" + table(A3_HIGH)
    judgement = judge_text(text, A3_HIGH)
    assert judgement.verdict == "passed"
    assert any("bandwidth was not judged" in text for text in judgement.texts)
    assert judgement.bands == ()


def test_the_collective_is_told_by_the_caller_where_the_output_does_not_say() -> None:
    low = table(scaled(A3_HIGH, lambda _s, o, i: (o * 0.5, i * 0.5)))
    assert judge_text(low, A3_HIGH, collective="all-gather").verdict == "failed"
    judgement = judge_text(low, A3_HIGH, collective="all-to-all")
    assert judgement.verdict == "passed"
    assert any("not of all_to_all" in text for text in judgement.texts)


def test_a_missing_direction_at_the_largest_size_fails() -> None:
    figures = scaled(A3_HIGH, lambda _s, o, i: (o, i))
    text = table(figures).replace("   71.28", "     N/A")
    judgement = judge_text(text, A3_HIGH)
    assert judgement.verdict == "failed"
    assert "in-place was not measured" in judgement.texts[0]


def test_a_part_of_a_log_that_names_too_few_nics_says_so() -> None:
    # Of the two hosts one speaks, and of that one a single rank.
    run = read_results((CASES / "nccl" / "e04_mpirun_tag_output.txt").read_text().splitlines())
    judgement = judge_run(run, A3_HIGH, nic_count=4)
    assert judgement.verdict == "passed"
    assert (
        "as far as the log goes, channels went through 1 of 4 GPU NICs: 2 on nccl-test-host-2"
        in judgement.texts
    )


def _with_nics(figures: Figures, **nics: tuple[int, ...]) -> NcclRun:
    run = read_results(table(figures).splitlines())
    return replace(run, transport="fastrak", nics_per_host=nics)


@pytest.mark.parametrize("mode", ["gate", "report"])
def test_a_host_that_used_fewer_nics_than_it_has_fails_at_any_bandwidth(mode: str) -> None:
    run = _with_nics(A3_MEGA, a=tuple(range(8)), b=(0, 1, 2, 3, 4, 5, 7))
    judgement = judge_run(run, A3_MEGA, nic_count=8, mode=mode)
    assert judgement.verdict == "failed"
    assert judgement.texts[0] == ("channels went through 7 of 8 GPU NICs: 0, 1, 2, 3, 4, 5, 7 on b")


def test_hosts_that_used_every_nic_give_no_reason() -> None:
    run = _with_nics(A3_MEGA, a=tuple(range(8)), b=tuple(range(8)))
    judgement = judge_run(run, A3_MEGA, nic_count=8)
    assert (judgement.verdict, judgement.texts) == ("passed", ())


def test_of_many_hosts_with_too_few_nics_three_are_shown() -> None:
    run = _with_nics(A3_MEGA, **{f"h{number}": (0,) for number in range(5)})
    (text,) = (t for t in judge_run(run, A3_MEGA, nic_count=8).texts if "NICs" in t)
    assert text.count("1 of 8 GPU NICs") == 3
    assert text.endswith("; and 2 more hosts")


@pytest.mark.parametrize(
    ("name", "figures", "verdict", "first"),
    [
        ("e01_a3high_unchecked.txt", A3_HIGH, "passed", "transport"),
        ("e02_a3mega_zero_size_rows.txt", A3_MEGA, "passed", "transport"),
        ("e04_mpirun_tag_output.txt", A3_HIGH, "passed", None),
        ("e06_aborted.txt", A3_MEGA, "incomplete", "no summary lines"),
        ("e07_every_rank_alone.txt", A3_MEGA, "failed", "single-rank run"),
        ("e09_new_layout_timestamps.txt", A3_MEGA, "passed", "transport"),
        ("e14_report.json", A3_MEGA, "passed", "transport"),
        ("e16_no_table.txt", A3_MEGA, "incomplete", "no table"),
    ],
)
def test_the_cases_get_the_verdict_of_the_gate(
    name: str, figures: Figures, verdict: str, first: str | None
) -> None:
    run = read_results((CASES / "nccl" / name).read_text().splitlines())
    judgement = judge_run(run, figures)
    assert judgement.verdict == verdict
    if first is None:
        assert judgement.texts == ()
    else:
        assert first in judgement.texts[0]


def test_the_average_never_decides() -> None:
    figures = [(0, 0.0, 0.0)] * 40 + list(A3_MEGA)
    assert judge_text(table(figures), A3_MEGA).verdict == "passed"


def test_interpolation_is_linear_in_the_logarithm_and_ends_with_the_curve() -> None:
    points = [(MIB, 10.0), (4 * MIB, 30.0)]
    assert interpolate(points, 2 * MIB) == pytest.approx(20.0)
    assert interpolate(points, MIB) == 10.0
    assert interpolate(points, 4 * MIB) == 30.0
    assert interpolate(points, MIB - 1) is None
    assert interpolate(points, 4 * MIB + 1) is None


def test_the_default_fraction_lies_between_a_sound_run_and_three_quarters() -> None:
    assert 0.75 < DEFAULT_MIN_FRACTION < 0.95


@pytest.mark.parametrize(
    "line",
    [
        "mpirun detected that one or more processes exited with non-zero status",
        "[nccl-test-0:00077] Signal: Segmentation fault (11)",
    ],
)
def test_a_failed_end_below_a_whole_table_is_told(line: str) -> None:
    judgement = judge_text(f"{table(A3_HIGH)}{line}\n", A3_HIGH)
    assert judgement.verdict == "passed"
    assert any(line in text for text in judgement.texts)
    calm = judge_text(table(A3_HIGH) + "a:1:2 [0] NCCL WARN slow start\n", A3_HIGH)
    assert not any("failed end" in text for text in calm.texts)
