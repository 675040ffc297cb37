"""The NCCL model: reference curves, output layout, order of checks, what costs bandwidth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.gke.nccl import table
from sandbox.gke.nccl.hosts import Daemon, Host, Nic, Plugin, Run, Technology
from sandbox.gke.nccl.options import (
    BENCHMARKS,
    OptionError,
    Options,
    message,
    parse_options,
    parse_size,
)
from sandbox.gke.nccl.performance import Performance, perform
from sandbox.gke.nccl.reference import A3_HIGH, A3_MEGA, Curve, curve_for
from sandbox.gke.nccl.throughput import binding_overlaps, mtu_share
from sandbox.gke.nccl.verdict import Outcome, decide, version_key
from sandbox.gke.pods.nccl_profiles import DEFAULT, SIMPLE, profile_environment
from tests.gke.simulated import TCPX_SETTINGS

CASES = Path(__file__).parents[1] / "cases" / "nccl-tests"
LIBRARIES = "/usr/local/nvidia/lib64"


def mega(name: str, **changes: object) -> Host:
    nics = {
        f"eth{number}": Nic(
            interface=f"eth{number}",
            network=f"net-{number}",
            address=f"192.168.{number}.{len(name)}",
            mtu_bytes=8244,
        )
        for number in range(1, 9)
    }
    host = Host(
        name=name,
        machine_type="a3-megagpu-8g",
        ranks=8,
        gpus=8,
        environment=profile_environment(DEFAULT, "v1.0.15", LIBRARIES),
        plugin=Plugin(technology=Technology.TCPXO, version="v1.0.15", checker=True),
        daemon=Daemon(technology=Technology.TCPXO, version="v1.0.21"),
        nics=nics,
        apertures_visible=True,
        guest_config=DEFAULT,
    )
    return replace(host, **changes)  # type: ignore[arg-type]


def high(name: str, **changes: object) -> Host:
    base = mega(name)
    host = replace(
        base,
        machine_type="a3-highgpu-8g",
        environment=TCPX_SETTINGS,
        plugin=Plugin(technology=Technology.TCPX, version="v3.1.12"),
        daemon=Daemon(technology=Technology.TCPX, version="v2.0.15"),
        nics={name: nic for name, nic in base.nics.items() if int(name[3:]) <= 4},
        daemon_socket_visible=True,
        guest_config=None,
    )
    return replace(host, **changes)  # type: ignore[arg-type]


def run(
    *hosts: Host, options: str = "-b 1M -e 8G -f 2", program: str = "all_gather_perf"
) -> Performance:
    return perform(
        Run(hosts=hosts), BENCHMARKS[program], parse_options(options.split()), seed="test"
    )


def read(text: str) -> Options:
    return parse_options(text.split())


def bus(result: Performance) -> dict[int, tuple[float, float]]:
    """Bus bandwidth by size, out of place and in place."""
    rows = [line.split() for line in result.results if " float " in line]
    return {int(row[0]): (float(row[7]), float(row[11])) for row in rows}


def test_the_page_tables_are_kept_as_they_were_printed() -> None:
    # Largest rows of the page's samples: 42603 us and 42670 us; 7101.7 us and 7060.9 us.
    assert A3_MEGA.time_us(8 << 30, in_place=False) == 42603.0
    assert A3_MEGA.time_us(8 << 30, in_place=True) == 42670.0
    assert A3_HIGH.time_us(512 << 20, in_place=False) == 7101.7
    assert A3_HIGH.time_us(512 << 20, in_place=True) == 7060.9
    assert len(A3_MEGA.points) == 26
    assert len(A3_HIGH.points) == 10
    assert curve_for("n2-standard-4") is None


@pytest.mark.parametrize("curve", [A3_MEGA, A3_HIGH])
@given(size=st.integers(min_value=1, max_value=1 << 36))
def test_times_lie_between_the_measured_neighbours(curve: Curve, size: int) -> None:
    time = curve.time_us(size, in_place=False)
    points = curve.points
    below = [point.out_of_place_us for point in points if point.size_bytes <= size]
    above = [point.out_of_place_us for point in points if point.size_bytes >= size]
    if below and above:
        low, high_ = sorted((below[-1], above[0]))
        assert low * 0.999 <= time <= high_ * 1.001
    elif above:
        assert time == points[0].out_of_place_us
    else:
        assert time >= points[-1].out_of_place_us


def test_a_healthy_run_gives_the_page_average_over_the_pages_sizes() -> None:
    result = run(mega("host1"), mega("host2"), options="-b 8 -e 8G -f 2")
    average = next(line for line in result.results if "Avg bus bandwidth" in line)
    # The page prints 45.7587 for its 31 rows and 29.8293 for TCPX's 10.
    assert float(average.split(":")[1]) == pytest.approx(45.7587, rel=0.01)
    result = run(high("host1"), high("host2"), options="-b 1M -e 512M -f 2 -c 0")
    average = next(line for line in result.results if "Avg bus bandwidth" in line)
    assert float(average.split(":")[1]) == pytest.approx(29.8293, rel=0.01)


@given(seed=st.text(max_size=20))
def test_noise_is_small_and_the_same_for_the_same_seed(seed: str) -> None:
    hosts = Run(hosts=[mega("host1"), mega("host2")])
    options = parse_options(["-b", "8G", "-e", "8G"])
    first = perform(hosts, BENCHMARKS["all_gather_perf"], options, seed=seed)
    again = perform(hosts, BENCHMARKS["all_gather_perf"], options, seed=seed)
    assert first.results == again.results
    assert bus(first)[8 << 30][0] == pytest.approx(189.03, rel=0.011)


def test_the_layout_is_that_of_real_nccl_tests() -> None:
    # A real output of 2.13 (2 H200): same header lines, and rows that end at the same columns.
    real = (CASES / "all-gather-2.13.txt").read_text().splitlines()
    ours = table.column_header()
    start = next(i for i, line in enumerate(real) if "out-of-place" in line)
    assert [line.rstrip() for line in ours[1:]] == [
        line.rstrip() for line in real[start : start + 3]
    ]
    sample = real[start + 3]
    line, _ = table.row(
        BENCHMARKS["all_gather_perf"],
        message(BENCHMARKS["all_gather_perf"], 1024, 2),
        table.Timing(17.03, 15.86),
        ranks=2,
        checked=True,
    )
    assert line == sample
    header = table.header(read("-b 1024 -e 536870912 -f 2 -g 2 -w 5 -n 20"), [])
    assert header[1] == real[0]
    assert header[0].startswith("# simulated")
    assert table.summary([80.226])[:2] == ["# Out of bounds values : 0 OK", real[-3]]


@pytest.mark.parametrize(
    ("time_us", "shown"), [(0.24, "0.24"), (235.2, "235.2"), (5494.1, "5494.1"), (10841.4, "10841")]
)
def test_times_have_the_digits_of_the_pages_tables(time_us: float, shown: str) -> None:
    gather = BENCHMARKS["all_gather_perf"]
    sent = message(gather, 1 << 30, 16)
    line, _ = table.row(gather, sent, table.Timing(time_us, time_us), ranks=16, checked=True)
    assert line.split()[5] == line.split()[9] == shown


def test_every_row_is_marked_unchecked_without_a_data_check() -> None:
    # [R44]
    result = run(mega("host1"), mega("host2"), options="-b 1M -e 2M -f 2 -c 0")
    rows = [line for line in result.results if " float " in line]
    assert all(line.split()[8] == line.split()[12] == "N/A" for line in rows)


@pytest.mark.parametrize(
    ("program", "size", "ranks", "count", "shown"),
    [
        ("all_gather_perf", 128, 16, 0, 0),
        ("all_gather_perf", 256, 16, 4, 256),
        ("all_gather_perf", 1 << 20, 16, 16384, 1 << 20),
        ("all_reduce_perf", 8, 16, 2, 8),
        ("reduce_scatter_perf", 1 << 20, 16, 16384, 1 << 20),
    ],
)
def test_sizes_are_rounded_as_nccl_tests_rounds_them(
    program: str, size: int, ranks: int, count: int, shown: int
) -> None:
    rounded = message(BENCHMARKS[program], size, ranks)
    assert (rounded.count, rounded.size_bytes) == (count, shown)


def test_options_are_read_in_both_forms() -> None:
    options = read("--minbytes=1M -e 4M -f 2 --iters 100 -w 5 -g 1 -c 0 -d float")
    assert options.sizes() == (1 << 20, 2 << 20, 4 << 20)
    assert (options.iterations, options.warmup, options.checks) == (100, 5, 0)
    assert read("-b 1M -e 3M -i 1M").sizes() == tuple(number << 20 for number in (1, 2, 3))


@pytest.mark.parametrize("text", ["-b", "-b x", "-q 1", "-n many", "-b 2M -e 1M"])
def test_wrong_options_are_refused(text: str) -> None:
    with pytest.raises(OptionError):
        read(text)


def test_sizes_have_units() -> None:
    assert [parse_size(text) for text in ("8", "1K", "1M", "8G", "1GB", "2MiB")] == [
        8, 1 << 10, 1 << 20, 8 << 30, 1 << 30, 2 << 20,
    ]  # fmt: skip


# --- Verdicts


def environment(**changes: str | None) -> Mapping[str, str]:
    found = dict(profile_environment(DEFAULT, "v1.0.15", LIBRARIES))
    for name, value in changes.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"gpus": 0}, "no CUDA-capable device"),
        ({"daemon": None}, "RxDM not ready"),
        ({"apertures_visible": False}, "No LLCM device found"),
        ({"guest_config": None}, "cannot read config file"),
        (
            {"environment": environment(NCCL_NVLSTREE_MAX_CHUNKSIZE=None)},
            "is unset, expected 131072",
        ),
        ({"environment": environment(NCCL_NVLSTREE_MAX_CHUNKSIZE="1")}, "is '1', expected 131072"),
        ({"environment": environment(NCCL_FASTRAK_IFNAME=None)}, "names no interface"),
        ({"environment": environment(NCCL_FASTRAK_IFNAME="eth1,eth9")}, "no such interface: eth9"),
        (
            {"environment": environment(NCCL_FASTRAK_IFNAME="eth1,eth2,eth3")},
            "device:3 (INTERNAL: Could not find closest netdev",
        ),
        ({"daemon": Daemon(technology=Technology.TCPX, version="v2.0.15")}, "RxDM not ready"),
        ({"daemon": Daemon(technology=Technology.TCPXO, version="v1.0.23")}, "newer protocol"),
    ],
)
def test_a_broken_tcpxo_host_aborts_and_says_why(changes: dict[str, object], evidence: str) -> None:
    verdict = decide(Run(hosts=[mega("host1"), mega("host2", **changes)]))
    assert verdict.outcome is Outcome.ABORTS
    assert verdict.failure is not None
    assert verdict.failure.host == "host2"
    assert evidence in verdict.failure.message


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"daemon": None}, "Connection refused"),
        ({"daemon_socket_visible": False}, "/tmp/rx_rule_manager: Connection refused"),
        ({"environment": {}}, "names no interface"),
        ({"daemon": Daemon(technology=Technology.TCPX, version="v9.0.0")}, "does not fit"),
    ],
)
def test_a_broken_tcpx_host_aborts_and_says_why(changes: dict[str, object], evidence: str) -> None:
    verdict = decide(Run(hosts=[high("host1"), high("host2", **changes)]))
    assert verdict.failure is not None
    assert evidence in verdict.failure.message


@pytest.mark.parametrize(
    "changes",
    [
        {
            "environment": environment(
                NCCL_SHIMNET_SHIM_LAYERS="UNUSED", NCCL_NVLSTREE_MAX_CHUNKSIZE=None
            )
        },
        {"plugin": Plugin(technology=Technology.TCPXO, version="v1.0.15", checker=False)},
        {"environment": environment(NCCL_ALGO="Ring", NCCL_NVLS_ENABLE="0")},
    ],
)
def test_what_the_checker_does_not_forbid_runs(changes: dict[str, object]) -> None:
    # [facts gpudirect.md §8]: switched off, not installed, or only reported.
    hosts = [mega("host1", **changes), mega("host2", **changes)]
    assert decide(Run(hosts=hosts)).outcome is Outcome.COMPLETES


def test_before_v1_0_12_the_checker_asks_for_no_nvlstree_chunk() -> None:
    old = {
        "plugin": Plugin(technology=Technology.TCPXO, version="v1.0.11", checker=True),
        "daemon": Daemon(technology=Technology.TCPXO, version="v1.0.17"),
        "environment": profile_environment(DEFAULT, "v1.0.11", LIBRARIES),
    }
    assert "NCCL_NVLSTREE_MAX_CHUNKSIZE" not in old["environment"]  # type: ignore[operator]
    hosts = [mega("host1", **old), mega("host2", **old)]
    assert decide(Run(hosts=hosts)).outcome is Outcome.COMPLETES


def test_the_simple_profile_needs_no_chunk_and_costs_a_little() -> None:
    simple = {
        "environment": profile_environment(SIMPLE, "v1.0.15", LIBRARIES),
        "guest_config": SIMPLE,
    }
    hosts = [mega("host1", **simple), mega("host2", **simple)]
    verdict = decide(Run(hosts=hosts))
    assert verdict.outcome is Outcome.COMPLETES
    assert 0.85 < verdict.share < 1


def test_a_closed_network_hangs_only_runs_that_use_it() -> None:
    hosts = [mega("host1"), mega("host-two")]
    assert decide(Run(hosts=hosts, closed_networks=["net-4"])).outcome is Outcome.HANGS
    assert decide(Run(hosts=hosts, closed_networks=["net-9"])).outcome is Outcome.COMPLETES
    assert decide(Run(hosts=hosts[:1], closed_networks=["net-4"])).outcome is Outcome.COMPLETES


def test_different_plug_ins_or_transports_do_not_mix() -> None:
    other = Plugin(technology=Technology.TCPXO, version="v1.0.16", checker=True)
    for second in (mega("host2", plugin=other), mega("host2", plugin=None)):
        verdict = decide(Run(hosts=[mega("host1"), second]))
        assert verdict.outcome is Outcome.ABORTS


def test_without_a_plug_in_or_with_anothers_nccl_uses_sockets_at_4_gb_per_second() -> None:
    for plugin in (None, Plugin(technology=None, version="")):
        result = run(mega("host1", plugin=plugin), mega("host2", plugin=plugin))
        assert bus(result)[8 << 30][0] == pytest.approx(4.1, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        (
            {
                "environment": environment(
                    NCCL_FASTRAK_IFNAME="eth1,eth2,eth3,eth4", NCCL_FASTRAK_ALLOW_NIC_SUBSET="1"
                )
            },
            0.51,
        ),
        ({"environment": environment(NCCL_NET_GDR_LEVEL="LOC")}, 0.61),
        ({"environment": environment(NCCL_FASTRAK_USE_LLCM="0")}, 0.86),
        ({"zone": "us-central1-b"}, 0.31),
    ],
)
def test_departures_cost_bandwidth_at_large_sizes(changes: dict[str, object], most: float) -> None:
    good = bus(run(mega("host1"), mega("host2")))[8 << 30][0]
    bad = bus(run(mega("host1"), mega("host2", **changes)))[8 << 30][0]
    assert bad < good * most * 1.03


def test_mtu_share_grows_with_the_mtu() -> None:
    shares = [mtu_share(mtu) for mtu in (1300, 1460, 4000, 8000, 8244, 8896)]
    assert shares == sorted(shares)
    assert shares[-2:] == [1.0, 1.0]
    assert shares[1] == pytest.approx(0.45)


def test_the_cpu_list_published_before_march_2026_overlaps() -> None:
    # [R17]: 124 and 125 on eth1 and eth2.
    transmit = TCPX_SETTINGS["NCCL_GPUDIRECTTCPX_TX_BINDINGS"]
    receive = TCPX_SETTINGS["NCCL_GPUDIRECTTCPX_RX_BINDINGS"]
    assert not binding_overlaps(transmit, receive)
    assert binding_overlaps(transmit, receive.replace("126-139", "124-139"))
    assert not binding_overlaps(transmit, "garbage;eth1:x-y")


def test_other_collectives_and_more_nodes_follow_their_documented_factors() -> None:
    hosts = [mega("host1"), mega("host2")]
    gather = bus(run(*hosts))[8 << 30][0]
    reduce = bus(run(*hosts, program="all_reduce_perf"))[8 << 30][0]
    scatter = bus(run(*hosts, program="reduce_scatter_perf"))[8 << 30][0]
    exchange = bus(run(*hosts, program="alltoall_perf"))[8 << 30][0]
    assert reduce == pytest.approx(335, rel=0.03)
    assert scatter == pytest.approx(gather, rel=0.03)
    assert exchange == pytest.approx(gather / 4, rel=0.05)
    four = bus(run(*hosts, mega("host3"), mega("host4")))[8 << 30][0]
    assert four == pytest.approx(gather * 0.97, rel=0.03)


def test_in_all_to_all_only_the_out_of_place_half_is_checked() -> None:
    result = run(mega("host1"), mega("host2"), program="alltoall_perf")
    rows = [line.split() for line in result.results if " float " in line]
    assert {(row[8], row[12]) for row in rows} == {("0", "N/A")}


def test_logs_follow_nccl_debug() -> None:
    def log(**settings: str | None) -> str:
        changed = environment(**settings)
        result = run(mega("host1", environment=changed), mega("host2", environment=changed))
        return "\n".join(line.text for line in result.log)

    # The profile sets WARN: the version, and nothing of the transport [facts gpudirect.md §11.16].
    assert re.findall("NCCL (version|INFO)", log()) == ["version", "version"]
    assert log(NCCL_DEBUG=None) == ""
    informed = log(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET")
    assert "Using network FasTrak" in informed
    assert "via NET/FasTrak/0/GDRDMA" in informed
    assert "Using [0]eth1:192.168.1.5<0>[1]eth2:192.168.2.5<0>" in informed
    some = log(
        NCCL_DEBUG="INFO",
        NCCL_DEBUG_SUBSYS="INIT,NET",
        NCCL_FASTRAK_IFNAME="eth1,eth2",
        NCCL_FASTRAK_ALLOW_NIC_SUBSET="1",
    )
    assert set(re.findall(r"via NET/FasTrak/(\d)", some)) == {"0", "1"}
    assert "NET/FasTrak : Initializing" not in log(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT")


def test_versions_compare_by_number() -> None:
    ordered = ["v1.0.8-1", "v1.0.9-1", "v1.0.11", "v1.0.12", "v1.1.0", "v3.1.9", "v3.1.12"]
    assert sorted(ordered, key=version_key) == ordered
