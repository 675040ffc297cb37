"""Reads a large NCCL log that is made while it is read, and prints speed and memory.

Usage: python -m benchmarks.read_results [MEGABYTES]   (default 1024)

The log is what a run with NCCL_DEBUG=INFO prints: mostly channel lines, the table somewhere between
them. Nothing is written to disk, so the figures are those of the reader and the generator; the
generator's own share is printed too.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

from gpudirect.nccl_results import read_results

_MEGABYTE = 1_000_000
_ROWS = [
    f"  {1 << power:12} {1 << power - 6:13}  float  none  -1"
    "  655.0  1.60  1.50  0  671.0  1.56  1.47  0\n"
    for power in range(20, 34)
]
_LINES = [
    "[1,9]<stdout>:nccl-test-1:1301:1377 [1] NCCL INFO Channel 03/0 : 9[1] -> 0[0] [send] via "
    "NET/FasTrak/3/GDRDMA\n",
    "[1,3]<stdout>:nccl-test-0:303:391 [3] NCCL INFO NET/FasTrak 2026-12-01 flow 12 opened\n",
    "nccl-test-0:303:391 [3] NCCL INFO AllGather: opCount 1b sendbuff 0x7f count 16384 type 7\n",
    "some line of the application that has nothing to do with NCCL at all, 12 numbers: 1 2 3 4\n",
]


def make_log(size: int) -> Iterator[str]:
    """Yield the lines of a log of about this many bytes."""
    yield "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8589934592 step: 2(factor) validation: 1\n"
    for rank in range(16):
        host, device = f"nccl-test-{rank // 8}", rank % 8
        yield f"#  Rank {rank:2} Group  0 Pid 3{rank:02} on {host} device {device} [0x04] H100\n"
    yield "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    block = sum(map(len, _LINES))
    every = max(1, size // block // len(_ROWS))
    rows = iter(_ROWS)
    for number in range(size // block):
        if number % every == 0:
            yield next(rows, "\n")
        yield from _LINES
    yield from rows
    yield "# Out of bounds values : 0 OK\n"
    yield "# Avg bus bandwidth    : 1.485 \n"


def main() -> None:
    """Run the benchmark."""
    size = int(sys.argv[1] if len(sys.argv) > 1 else 1024) * _MEGABYTE
    started = time.perf_counter()
    characters = sum(map(len, make_log(size)))
    generating = time.perf_counter() - started
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    run = read_results(make_log(size))
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"log:      {characters / _MEGABYTE:.0f} MB, {len(run.rows)} rows, {run.status}")
    print(f"reading:  {characters / _MEGABYTE / seconds:.0f} MB/s ({seconds:.1f} s)")
    print(f"          of which making the log {generating:.1f} s")
    print(f"memory:   {after / 1024:.0f} MB at most, {(after - before) / 1024:.1f} MB for reading")


if __name__ == "__main__":
    main()
