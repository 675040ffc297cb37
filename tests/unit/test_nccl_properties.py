from __future__ import annotations

import json
import resource
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudirect.nccl_data import NcclRun
from gpudirect.nccl_exports import run_from_json, to_csv, to_json, to_prometheus
from gpudirect.nccl_judgement import judge
from gpudirect.nccl_results import MAX_LINE_CHARACTERS, lines_of_chunks, read_results
from tests.unit.nccl_tables import A3_MEGA, curve, table

# The machine that runs the tests may be busy: time is no property of a single example.
RELAXED = settings(deadline=None)
THOROUGH = settings(deadline=None, max_examples=200)

PREFIXES = ["", "[1,0]<stdout>:", "[host@1,0]<stdout>: ", "[pod/a/b] ", "2026-12-01T10:00:00.1Z "]

bandwidths = st.floats(0.01, 400).map(lambda value: round(value, 2))
figure_lists = st.lists(
    st.tuples(st.sampled_from([1 << power for power in range(8, 34)]), bandwidths, bandwidths),
    min_size=1,
    max_size=30,
    unique_by=lambda figure: figure[0],
).map(sorted)
log_lines = st.sampled_from(
    [
        "nccl-test-1:1301:1377 [1] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [send] via NET/FasTrak/3",
        "nccl-test-0:303:391 [3] misc/socket.cc:58 NCCL WARN text 1 2 3 4 5 6 7 8 9 10 11 12",
        "Warning: Permanently added '[nccl-test-1]:222' (ED25519) to the list of known hosts.",
        "# a comment of somebody else: size count",
        "1 2 3 4",
        "",
    ]
)


def figures_of(run: NcclRun) -> list[tuple[int, float | None, float | None]]:
    return [
        (
            row.size_bytes,
            row.out_of_place.bus_bandwidth_gbps,
            row.in_place.bus_bandwidth_gbps if row.in_place else None,
        )
        for row in run.rows
    ]


@RELAXED
@given(figures=figure_lists)
def test_what_a_table_says_is_what_is_read(figures: Sequence[tuple[int, float, float]]) -> None:
    run = read_results(table(figures).splitlines())
    assert figures_of(run) == list(figures)
    assert run.status == "complete"
    assert run.unreadable_rows == 0


@RELAXED
@given(
    figures=figure_lists,
    prefix=st.sampled_from(PREFIXES),
    line_end=st.sampled_from(["\n", "\r\n"]),
    noise=st.lists(st.tuples(st.integers(0, 60), log_lines), max_size=20),
)
def test_what_stands_around_the_rows_changes_no_number(
    figures: Sequence[tuple[int, float, float]],
    prefix: str,
    line_end: str,
    noise: Sequence[tuple[int, str]],
) -> None:
    lines = table(figures).splitlines()
    for position, line in noise:
        lines.insert(min(position, len(lines)), line)
    run = read_results([f"{prefix}{line}{line_end}" for line in lines])
    assert figures_of(run) == list(figures)
    assert run.status == "complete"


@RELAXED
@given(figures=figure_lists, cut=st.integers(0, 5000))
def test_an_output_cut_off_anywhere_never_gains_a_row_or_a_pass(
    figures: Sequence[tuple[int, float, float]], cut: int
) -> None:
    text = table(figures)[:cut]
    run = read_results(text.splitlines())
    assert set(figures_of(run)) <= set(figures) | {(s, o, None) for s, o, _ in figures}
    if "Avg bus bandwidth" not in text:
        assert run.status == "incomplete"


@THOROUGH
@given(text=st.text(max_size=2000))
def test_any_text_is_read_without_an_error(text: str) -> None:
    run = read_results(text.splitlines(keepends=True))
    judgement = judge(run, reference=curve(A3_MEGA), nodes=2)
    json.dumps(to_json(run, judgement), allow_nan=False)


words = st.sampled_from(
    [
        "#", "size", "count", "type", "time", "busbw", "algbw", "#wrong", "float", "none", "-1",
        "0", "1024", "N/A", "nan", "1e+05", "9" * 19, "Rank", "Group", "Pid", "on", "h", "device",
        "nThread", "validation: 1", "maxBytes 8", "Out of bounds values : 0 OK",
        "Avg bus bandwidth    : 1.5", "NCCL INFO via NET/FasTrak/1", "[1,0]<stdout>:", "\r",
        "\x1b[31m", "{", '"results": [',
    ]
)  # fmt: skip


@THOROUGH
@given(lines=st.lists(st.lists(words, max_size=14).map(" ".join), max_size=40))
def test_any_order_of_the_words_of_nccl_tests_is_read_without_an_error(lines: list[str]) -> None:
    run = read_results(lines)
    judgement = judge(run, reference=curve(A3_MEGA), nodes=2)
    document = to_json(run, judgement)
    json.dumps(document, allow_nan=False)
    to_csv(run, curve(A3_MEGA))
    to_prometheus(run, judgement.verdict, labels={"stack": "x"})
    assert figures_of(run_from_json(document)) == figures_of(run)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["results", "size", "count", "out_of_place", "in_place", "bus_bw", "nwrong", "config",
             "devices", "rank", "hostname", "average_bus_bandwidth", "bandwidth", "out_of_bounds",
             "okay", "errors", "env", "nccl_version", "args", "root", "validation"]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=40,
)  # fmt: skip


@THOROUGH
@given(value=st.dictionaries(st.sampled_from(["results", "config", "env", "errors"]), json_values))
def test_any_json_is_read_without_an_error(value: object) -> None:
    run = read_results([json.dumps(value)])
    json.dumps(to_json(run, judge(run, reference=[], nodes=2)), allow_nan=False)


@RELAXED
@given(figures=figure_lists, fraction=st.floats(0.0, 1.0), factor=st.floats(0.01, 1.0))
def test_less_bandwidth_never_gets_a_better_verdict(
    figures: Sequence[tuple[int, float, float]], fraction: float, factor: float
) -> None:
    def verdict_of(scale: float) -> str:
        scaled = [(size, out * scale, inside * scale) for size, out, inside in figures]
        run = read_results(table(scaled).splitlines())
        reference = curve(A3_MEGA)
        return judge(run, reference=reference, nodes=2, min_fraction=fraction).verdict

    if verdict_of(factor) == "passed":
        assert verdict_of(1.0) == "passed"


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "line",
    [
        "1 " * 50_000,
        "1024 16 float " * 10_000,
        " " * 100_000 + "1",
        "9" * 200_000,
        "# size count type " * 5_000 + "busbw time",
        "Rank 1 Group 1 Pid 1 on " * 5_000,
        "[1,0]<stdout>:" * 10_000,
        "\x1b[0m" * 50_000,
        "via NET/" * 20_000,
        "\r" * 100_000,
    ],
    ids=lambda line: line[:12],
)
def test_hostile_lines_cost_linear_time(line: str) -> None:
    read_results([line, f"# {line}", f"a NCCL INFO {line}"] * 5)


def test_a_flood_of_rows_is_bounded_and_never_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudirect.nccl_results.MAX_ROWS", 1000)
    row = "  1048576 16384 float none -1 655.0 1.60 1.50 0 671.0 1.56 1.47 0"
    kept = read_results([*[row] * 1000, "# Avg bus bandwidth : 1.5"])
    assert (len(kept.rows), kept.status) == (1000, "complete")
    flooded = read_results([*[row] * 1001, "# Avg bus bandwidth : 1.5"])
    assert (len(flooded.rows), flooded.status) == (1000, "incomplete")
    assert flooded.reason is not None
    assert flooded.reason.startswith("1 rows beyond the first")


def _long_log(megabytes: int) -> Iterator[bytes]:
    """A good table with so many lines of NCCL's log of 64 hosts in the middle of it, in chunks."""
    lines = table(A3_MEGA).splitlines(keepends=True)
    noise = "".join(
        f"nccl-test-{number % 64}:{number}:{number + 82} [{number % 8}] NCCL INFO Channel "
        f"{number % 16:02}/0 : {number % 128}[0] -> 1[0] [send] via NET/FasTrak/{number % 8}\n"
        for number in range(10_000)
    ).encode()
    yield "".join(lines[:-3]).encode()
    for _ in range((megabytes << 20) // len(noise) + 1):
        for start in range(0, len(noise), 65_536):
            yield noise[start : start + 65_536]
    yield "".join(lines[-3:]).encode()


def test_a_log_is_read_in_memory_that_does_not_grow_with_it() -> None:
    peaks = []
    for megabytes in (1, 8):
        tracemalloc.start()
        run = read_results(lines_of_chunks(_long_log(megabytes)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (run.status, len(run.rows), len(run.nics_per_host)) == ("complete", 19, 64)
    assert peaks[1] < peaks[0] * 1.2 + 100_000
    assert peaks[1] < 8 << 20


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_log_of_a_gigabyte_is_read_in_the_memory_of_a_small_one() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = read_results(lines_of_chunks(_long_log(1024)))
    grown_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (run.status, len(run.rows)) == ("complete", 19)
    assert grown_kilobytes < 64 << 10


def test_a_line_without_end_is_cut_off_and_what_follows_is_read() -> None:
    end = b"\n" + table(A3_MEGA).encode()
    tracemalloc.start()
    lines = lines_of_chunks(chain((b"x" * 65_536 for _ in range(2_000)), [end]))
    assert len(next(lines)) == MAX_LINE_CHARACTERS
    assert read_results(lines).status == "complete"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@given(st.lists(st.binary(max_size=8)))
def test_chunks_give_the_lines_of_the_whole(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).decode("utf-8", "replace")
    lines = whole.split("\n")
    assert list(lines_of_chunks(chunks)) == (lines if lines[-1] else lines[:-1])
