from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudirect.nccl_data import NcclRun
from gpudirect.nccl_results import bounded_lines, read_results
from tests.unit.nccl_tables import A3_HIGH, HEADER, device_lines, row_line, table

CASES = Path(__file__).parents[1] / "cases"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "nccl" / "expected.json").read_text())


def read_file(path: Path) -> NcclRun:
    with path.open(newline="\n") as stream:
        return read_results(bounded_lines(stream))


def read_text(text: str) -> NcclRun:
    return read_results(text.splitlines(keepends=True))


def figures_of(run: NcclRun) -> dict[str, Any]:
    largest = run.largest
    return {
        "verdict": run.status,
        "rows": len(run.rows),
        "tables": run.tables,
        "ranks": run.ranks,
        "transport": run.transport,
        "avg_busbw": run.average_bus_bandwidth_gbps,
        "data_checked": run.data_checked,
        "out_of_bounds": run.out_of_bounds,
        "largest_size": largest and largest.size_bytes,
        "busbw_out_of_place_at_largest": largest and largest.out_of_place_bus_bandwidth_gbps,
        "busbw_in_place_at_largest": largest and largest.in_place_bus_bandwidth_gbps,
    }


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_case_comes_out_as_expected(name: str) -> None:
    expected = EXPECTED[name]
    run = read_file(CASES / "nccl" / name)
    figures = figures_of(run)
    for key, value in expected.items():
        if key == "reason":
            assert run.reason is not None
            assert run.reason.startswith(value)
        elif key != "note":
            # The JSON report has more decimals than the text that the figures were taken from.
            assert figures[key] == (
                pytest.approx(value, abs=0.005) if isinstance(value, float) else value
            ), key


@pytest.mark.parametrize(
    ("name", "average", "version", "nccl"),
    [
        ("all-gather-2.13.txt", 80.226, None, None),
        ("all-gather-2.19.6.txt", 80.4108, "2.19.6", "2.28.9"),
    ],
)
def test_real_outputs_of_two_versions_are_read_in_full(
    name: str, average: float, version: str | None, nccl: str | None
) -> None:
    run = read_file(CASES / "nccl-tests" / name)
    assert run.status == "complete"
    assert run.average_bus_bandwidth_gbps == average
    assert run.largest is not None
    assert run.largest.size_bytes == 512 * 1024 * 1024
    assert len(run.rows) == 20
    assert run.ranks == 2
    assert run.ranks_per_host == {"vm": 2}
    assert run.data_checked is True
    assert run.versions.get("ncclTests") == version
    assert run.versions.get("nccl") == nccl


def test_a_row_keeps_its_units() -> None:
    run = read_file(CASES / "nccl-tests" / "all-gather-2.13.txt")
    row = run.rows[-1]
    assert (row.size_bytes, row.count, row.data_type, row.reduction, row.root) == (
        536870912, 67108864, "float", "none", -1,
    )  # fmt: skip
    assert row.out_of_place.time_us == 1044.8
    assert row.out_of_place.alg_bandwidth_gbps == 513.84
    assert row.out_of_place.bus_bandwidth_gbps == 256.92
    assert row.in_place is not None
    assert (row.in_place.time_us, row.in_place.wrong) == (978.5, 0)


def test_carriage_returns_change_no_number() -> None:  # [R45]
    plain = read_file(CASES / "nccl" / "e01_a3high_unchecked.txt")
    terminal = read_file(CASES / "nccl" / "e03_tty_crlf.txt")
    assert terminal.rows == plain.rows


def test_unchecked_values_are_none_and_never_zero() -> None:  # [R44]
    run = read_file(CASES / "nccl" / "e01_a3high_unchecked.txt")
    assert {direction.wrong for row in run.rows for direction in row.directions} == {None}


def test_an_aborted_run_names_the_daemon_that_refused() -> None:  # [R48]
    run = read_file(CASES / "nccl" / "e06_aborted.txt")
    assert any("refused the connection" in line for line in run.problem_lines)


def test_an_output_without_a_table_keeps_its_last_lines() -> None:  # [R48]
    run = read_file(CASES / "nccl" / "e16_no_table.txt")
    assert run.last_lines[-1] == "bash: /configs/allgather.sh: No such file or directory"


def test_the_environment_of_a_report_never_leaves_it() -> None:  # [R54]
    run = read_file(CASES / "nccl" / "e14_report.json")
    assert "HF_TOKEN" not in repr(run)
    assert "not-a-real-token" not in repr(run)


def test_the_simulated_marker_is_kept() -> None:
    assert read_text(table(A3_HIGH)).simulated is False
    assert read_text("# simulated: no hardware\n" + table(A3_HIGH)).simulated is True


def test_an_empty_output_is_incomplete() -> None:
    run = read_results([])
    assert (run.status, run.largest, run.data_checked) == ("incomplete", None, None)


def test_a_table_with_its_head_cut_off_is_still_read() -> None:
    lines = table(A3_HIGH).splitlines()
    start = next(i for i, line in enumerate(lines) if "1048576 " in line and "#" not in line)
    run = read_results(lines[start:])
    assert run.status == "complete"
    assert len(run.rows) == len(A3_HIGH)
    assert run.ranks is None


LOG = "nccl-test-1:1301:1377 [1] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [send] via NET/FasTrak/3"


@pytest.mark.parametrize("cut", ["after root", "after out-of-place", "at the end", "before"])
@pytest.mark.parametrize("gap", ["", " "])
def test_log_text_glued_into_a_row_does_not_break_it(cut: str, gap: str) -> None:  # [R46]
    row = row_line(1048576, 1.5, 1.4).rstrip("\n")
    cells = row.split()
    position = {
        "after root": row.index(cells[4]) + len(cells[4]),
        "after out-of-place": row.index(f"{cells[8]:>6}", row.index(cells[7])) + 6,
        "at the end": len(row),
        "before": 0,
    }[cut]
    glued = row[:position] + gap + LOG + ("  " if cut == "before" else "\n") + row[position:] + "\n"
    run = read_text(table(A3_HIGH).replace(row_line(*A3_HIGH[0]), glued))
    assert len(run.rows) == len(A3_HIGH)
    first = run.rows[0]
    assert first.in_place is not None
    assert (first.size_bytes, first.out_of_place.bus_bandwidth_gbps) == (1048576, 1.5)
    assert (first.in_place.bus_bandwidth_gbps, first.in_place.wrong) == (1.4, 0)
    assert (run.transport, run.nics, run.unreadable_rows) == ("fastrak", (3,), 0)


CHANNEL = "NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/FasTrak"


@pytest.mark.parametrize(
    "before",
    [
        "host-a:301:377 [1] ",
        "[1,9]<stdout>:host-a:301:377 [1] ",
        "2026-07-28T10:00:00.123456789Z host-a:301:377 [1] ",
        "[2026-07-28 10:00:00] host-a:301:377 [1] ",
        "host-a: ",
    ],
)
def test_nics_are_counted_for_each_host(before: str) -> None:
    other = before.replace("host-a", "host-b")
    lines = [f"{before}{CHANNEL}/{nic}/GDRDMA" for nic in (0, 3, 3)]
    run = read_results([*lines, f"{other}{CHANNEL}/3/GDRDMA/Shared"])
    assert run.nics_per_host == {"host-a": (0, 3), "host-b": (3,)}
    assert run.nics == (0, 3)


def test_a_channel_of_no_host_counts_for_none() -> None:
    run = read_results(["via NET/FasTrak/3"])
    assert (run.transport, run.nics, run.nics_per_host) == ("fastrak", (3,), {})


def test_a_number_cut_in_two_is_an_unreadable_row_and_not_another_number() -> None:
    row = row_line(*A3_HIGH[-1])
    run = read_text(table(A3_HIGH).replace(row, f"{row[:60]}{LOG}\n{row[60:]}"))
    assert len(run.rows) == len(A3_HIGH) - 1
    assert run.unreadable_rows == 1


def test_a_line_of_numbers_is_no_part_of_a_row() -> None:
    split = row_line(*A3_HIGH[0]).split(" -1 ")
    text = f"{split[0]} -1\n 8 GPUs found\n{split[1]}"
    run = read_text(table(A3_HIGH).replace(row_line(*A3_HIGH[0]), text))
    assert len(run.rows) == len(A3_HIGH)
    assert run.rows[0].out_of_place.bus_bandwidth_gbps == 1.41


@pytest.mark.parametrize(
    "tag",
    [
        "[1,0]<stdout>:",
        "[1,0]<stdout>: ",
        "[prterun-nccl-test-0-77@1,0]<stdout>: ",
        "[1,0][nccl-test-0:77]<stdout>: ",
        "[pod/nccl-test-0-x/nccl-test] ",
        "2026-12-01T10:00:00.123456789Z ",
        "\x1b[32m",
    ],
)
def test_prefixes_before_every_line_change_no_number(tag: str) -> None:  # [R46]
    plain = read_text(table(A3_HIGH))
    tagged = read_text("".join(tag + line for line in table(A3_HIGH).splitlines(keepends=True)))
    assert tagged.rows == plain.rows
    assert tagged.ranks == 16
    assert tagged.status == "complete"


def test_lonely_ranks_that_print_at_once_are_found_by_their_tags() -> None:  # [R49]
    one = (
        "# nThread 1 nGpus 1 minBytes 1 maxBytes 1048576 step: 2(factor) validation: 1\n"
        + device_lines(1, 1)
        + HEADER
        + row_line(1048576, 0.0, 0.0)
        + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n"
    ).splitlines()
    tagged = [f"[1,{rank}]<stdout>:{line}" for line in one for rank in range(16)]
    untagged = [line for line in one for _ in range(16)]
    for lines in (tagged, untagged):
        run = read_results(lines)
        assert run.status == "failed"
        assert run.reason is not None
        assert run.reason.startswith("single-rank run")
        assert run.tables == 16


def test_two_different_tables_are_ambiguous() -> None:
    run = read_text(table(A3_HIGH) + table(A3_HIGH[:5]))
    assert run.status == "ambiguous"
    assert run.average_bus_bandwidth_gbps is None
    assert run.tables == 2


def test_wrong_values_fail_whatever_the_summary_says() -> None:
    assert read_text(table(A3_HIGH, bad=3)).status == "failed"
    silent = read_text(table(A3_HIGH).replace("      0\n", "      7\n", 1))
    assert silent.status == "failed"
    assert silent.wrong_values == 7


def test_a_table_of_one_rank_beside_another_is_ambiguous() -> None:
    lonely = table(A3_HIGH[:2]).replace(device_lines(2), device_lines(1, 1))
    run = read_text(lonely + table(A3_HIGH))
    assert (run.status, run.ranks) == ("ambiguous", None)


def test_a_run_below_its_own_minimum_fails() -> None:
    text = table(A3_HIGH)
    line = next(line for line in text.splitlines() if "Avg bus bandwidth" in line)
    assert read_text(text.replace(line, f"{line}FAILED")).status == "failed"
    assert read_text(text.replace(line, f"{line}OK")).status == "complete"


def report() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((CASES / "nccl" / "e14_report.json").read_text())
    return content


def test_the_traps_of_a_report() -> None:  # [R54]
    content = report()
    first = content["results"][0]
    first["out_of_place"] |= {"nwrong": None, "bus_bw": "nan"}
    first["in_place"] = None
    row = read_text(json.dumps(content)).rows[0]
    assert row.out_of_place.wrong is None
    assert row.out_of_place.bus_bandwidth_gbps is None
    assert (row.in_place, row.root) == (None, -1)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"out_of_bounds": {"count": 2, "okay": "false"}}, "failed"),
        ({"average_bus_bandwidth": {"bandwidth": 3.0, "okay": "false"}}, "failed"),
        ({"average_bus_bandwidth": None}, "incomplete"),
        ({"results": []}, "incomplete"),
    ],
)
def test_a_report_is_complete_only_with_rows_right_values_and_an_average(
    changes: dict[str, Any], status: str
) -> None:
    assert read_text(json.dumps(report() | changes)).status == status


def test_a_report_cut_off_keeps_the_rows_that_were_written() -> None:
    text = (CASES / "nccl" / "e14_report.json").read_text()
    third = text.index('"size": 16777216')
    run = read_text(text[:third])
    assert (run.status, len(run.rows), run.ranks) == ("incomplete", 2, 16)
    assert "HF_TOKEN" not in repr(run)


@pytest.mark.parametrize(
    "around",
    [
        "the run is over\n{report}\n",
        "{report}\nbye {{\n",
        "{report}\n{report}\n",
        '{{"level": "info"}}\n{{\n}}\n{report}\n',
    ],
)
@pytest.mark.parametrize("tag", ["", "[1,0]<stdout>:", "[1,0]<stdout>: "])
def test_a_report_among_other_lines_is_found(around: str, tag: str) -> None:
    alone = read_file(CASES / "nccl" / "e14_report.json")
    text = around.format(report=(CASES / "nccl" / "e14_report.json").read_text())
    assert read_text("".join(tag + line for line in text.splitlines(keepends=True))) == alone


def test_a_table_counts_before_a_report_of_the_same_run() -> None:
    text = table(A3_HIGH) + (CASES / "nccl" / "e14_report.json").read_text()
    assert len(read_text(text).rows) == len(A3_HIGH)


@pytest.mark.parametrize("before", ["", "the run is over\n"])
def test_a_report_cut_off_in_the_environment_shows_none_of_it(before: str) -> None:
    text = (CASES / "nccl" / "e14_report.json").read_text()
    run = read_text(before + text[: text.index("not-a-real-token") + 5])
    assert run.status == "incomplete"
    assert "HF_TOKEN" not in repr(run)


def test_a_log_that_begins_with_a_brace_is_no_report() -> None:
    assert len(read_text('{"level": "info"}\n' + table(A3_HIGH)).rows) == len(A3_HIGH)


def test_an_asterisk_behind_the_number_of_wrong_values_is_no_other_text() -> None:
    row = row_line(*A3_HIGH[-1])
    marked = row_line(*A3_HIGH[-1], wrong="17*")
    run = read_text(table(A3_HIGH).replace(row, marked))
    assert (run.status, run.wrong_values, run.unreadable_rows) == ("failed", 34, 0)


def test_a_small_distance_before_2_13_is_no_wrong_value() -> None:  # [R53]
    text = (CASES / "nccl" / "e11_before_2_13.txt").read_text().replace("0e+00", "1e-06", 1)
    run = read_text(text)
    assert run.status == "complete"
    assert run.rows[0].out_of_place.error == 1e-06
    assert run.rows[0].out_of_place.wrong is None
    assert run.data_checked is True


def test_exponents_and_not_a_number_are_read() -> None:
    text = table(A3_HIGH).replace("  655.4", "6.5e+02", 1)
    row = row_line(*A3_HIGH[0])
    cells = row.split()
    odd = (
        row.replace(cells[5], "7.4e+02", 1).replace(cells[6], "nan", 1).replace(cells[9], "N/A", 1)
    )
    first = read_text(text.replace(row, odd)).rows[0]
    assert first.out_of_place.time_us == 740.0
    assert first.out_of_place.alg_bandwidth_gbps is None
    assert first.in_place is not None
    assert first.in_place.time_us is None


def test_a_column_more_or_less_moves_no_value() -> None:  # [R51]
    header = "#  size  count  type  redop  root  time  algbw  busbw  copy  #wrong"
    values = "1024 16 float none -1 10.5 2.0 1.5 on 0"
    both = read_text(f"{header} time algbw busbw copy #wrong\n{values} 11.5 2.1 1.6 on 3\n")
    assert both.rows[0].in_place is not None
    assert both.rows[0].in_place.wrong == 3
    assert both.rows[0].out_of_place.bus_bandwidth_gbps == 1.5
    one = read_text(f"{header}\n{values}\n")
    assert one.rows[0].in_place is None
    assert one.rows[0].out_of_place.wrong == 0


@pytest.mark.parametrize("word", ["size", "count", "type", "redop", "root", "time", "#wrong"])
@pytest.mark.parametrize("instead", ["", "size", "x", "time", "#"])
def test_a_header_with_a_word_lost_on_the_way_raises_nothing(word: str, instead: str) -> None:
    header = HEADER.splitlines(keepends=True)[1]
    damaged = header.replace(word, instead, 1)
    run = read_text(table(A3_HIGH).replace(header, damaged))
    assert len(run.rows) + run.unreadable_rows == len(A3_HIGH)


@pytest.mark.parametrize(
    ("lines", "transport"),
    [
        (["a:1:2 [0] NCCL INFO Using network FasTrak"], "fastrak"),
        (["a:1:2 [0] NCCL INFO Using network GPUDirectTCPX_v7"], "tcpx"),
        (["a:1:2 [0] NCCL INFO Using network Socket"], "socket"),
        (["a:1:2 [0] NCCL INFO Using network FasTrak", LOG.replace("FasTrak", "Socket")], "socket"),
        (["a:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>", LOG], "fastrak"),
        (["a:1:2 [0] NCCL INFO NET/FastSocket : Using eth0"], "unknown"),
        (["a:1:2 [0] NCCL INFO Using network FastSocket"], "socket"),
        (["a:1:2 [0] NCCL INFO Assigned NET plugin FasTrak to comm"], "fastrak"),
        (["a:1:2 [0] NCCL INFO Assigned NET plugin Socket to comm"], "socket"),
        (["a:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin GPUDirectTCPX_v7 (v7)"], "tcpx"),
        (["a:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin Socket"], "unknown"),
        (["a:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"], "unknown"),
        (["a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"], "unknown"),
    ],
)
def test_the_transport_is_what_the_channels_used(lines: list[str], transport: str) -> None:
    assert read_results(lines).transport == transport


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("a:1:2 [0] NCCL INFO NET/GPUDirectTCPX ver. 3.1.8.", "3.1.8"),
        ("a:1:2 [0] NCCL INFO Initializing network FasTrak, version: 1.0.17", "1.0.17"),
        ("a:1:2 [0] NCCL INFO NET/FasTrak v1.0.15", "1.0.15"),
    ],
)
def test_the_plugin_version_is_read(line: str, version: str) -> None:
    assert read_results([line]).versions["plugin"] == version


def test_last_lines_hold_no_secret_and_no_address() -> None:
    run = read_text("HF_TOKEN=hf_abcdefghijkl\nmail someone@example.com\nNCCL_DEBUG=INFO\n")
    assert run.last_lines == ("HF_TOKEN=[redacted]", "mail [address]", "NCCL_DEBUG=INFO")
