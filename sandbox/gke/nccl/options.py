"""The command line of the nccl-tests programs.

Owns names, options and the list of message sizes. Does not own where the program runs.
Source: NVIDIA/nccl-tests, README (options `-b -e -i -f -n -w -g -t -c -d`), layout of 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One program of nccl-tests."""

    program: str
    reduction: str
    """What the `redop` column shows."""
    divides_by_ranks: bool
    """Whether the size is that of the whole buffer, cut into one part per rank."""

    def bus_share(self, ranks: int) -> float:
        """Factor from algorithm bandwidth to bus bandwidth (nccl-tests doc/PERFORMANCE.md)."""
        if ranks < 1:
            return 0.0
        share = (ranks - 1) / ranks
        return 2 * share if self.program == "all_reduce_perf" else share


BENCHMARKS = {
    item.program: item
    for item in (
        Benchmark("all_gather_perf", "none", divides_by_ranks=True),
        Benchmark("all_reduce_perf", "sum", divides_by_ranks=False),
        Benchmark("reduce_scatter_perf", "sum", divides_by_ranks=True),
        Benchmark("alltoall_perf", "none", divides_by_ranks=True),
    )
}

_FLOAT_BYTES = 4
_ALIGNED_ELEMENTS = 4
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


class OptionError(ValueError):
    """An option that the program refuses; the text is what it prints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of one run; defaults are those of nccl-tests."""

    min_bytes: int = 32 << 20
    max_bytes: int = 32 << 20
    step_factor: int = 1
    step_bytes: int = 1 << 20
    iterations: int = 20
    warmup: int = 5
    gpus_per_rank: int = 1
    threads_per_rank: int = 1
    checks: int = 1

    def sizes(self) -> tuple[int, ...]:
        """List the message sizes asked for, smallest first."""
        sizes = []
        size = self.min_bytes
        while size <= self.max_bytes:
            sizes.append(size)
            if self.step_factor > 1:
                size = max(size * self.step_factor, 1)
            elif self.step_bytes > 0:
                size += self.step_bytes
            else:
                break
        return tuple(sizes)


def parse_size(text: str) -> int:
    """Read a size such as `8`, `1M` or `8G` (powers of two).

    Raises:
        OptionError: the text is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"invalid size specified for 'minbytes' or 'maxbytes': {text!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def parse_options(arguments: Sequence[str]) -> Options:
    """Read the arguments of an nccl-tests program.

    Raises:
        OptionError: an option is unknown or has no usable value.
    """
    values: dict[str, int] = {}
    queue = list(arguments)
    while queue:
        name, _, joined = queue.pop(0).partition("=")
        field = _FIELDS.get(name)
        if field is None:
            raise OptionError(f"invalid option '{name}'")
        if not joined and not queue:
            raise OptionError(f"option requires an argument -- '{name.lstrip('-')}'")
        text = joined or queue.pop(0)
        if not field:
            continue
        if field in {"min_bytes", "max_bytes", "step_bytes"}:
            values[field] = parse_size(text)
        elif text.isdigit():
            values[field] = int(text)
        else:
            raise OptionError(f"invalid value '{text}' for option '{name}'")
    options = Options(**values)
    if options.max_bytes < options.min_bytes:
        raise OptionError("invalid sizes: minbytes is larger than maxbytes")
    return options


_FIELDS = {
    "-b": "min_bytes",
    "--minbytes": "min_bytes",
    "-e": "max_bytes",
    "--maxbytes": "max_bytes",
    "-f": "step_factor",
    "--stepfactor": "step_factor",
    "-i": "step_bytes",
    "--stepbytes": "step_bytes",
    "-n": "iterations",
    "--iters": "iterations",
    "-w": "warmup",
    "--warmup_iters": "warmup",
    "-g": "gpus_per_rank",
    "--ngpus": "gpus_per_rank",
    "-t": "threads_per_rank",
    "--nthreads": "threads_per_rank",
    "-c": "checks",
    "--check": "checks",
} | dict.fromkeys(
    # Accepted and without effect on what is printed here.
    [
        "-d",
        "--datatype",
        "-o",
        "--op",
        "-r",
        "--root",
        "-m",
        "--agg_iters",
        "-z",
        "--blocking",
        "-p",
        "--parallel_init",
        "-G",
        "--cudagraph",
        "-a",
        "--average",
        "-N",
        "--run_cycles",
        "-C",
        "--report_cputime",
        "-R",
        "--local_register",
        "-T",
        "--timeout",
    ],
    "",
)


@dataclass(frozen=True, slots=True)
class Message:
    """One row's message: elements per rank and bytes, as nccl-tests rounds them."""

    count: int
    size_bytes: int


def message(benchmark: Benchmark, size_bytes: int, ranks: int) -> Message:
    """Round a size the way nccl-tests does.

    A buffer that is cut into parts is cut on 16-byte borders, so that small sizes become 0: the
    published table with 16 ranks starts with five zero rows for 8 to 128 bytes.
    """
    if not benchmark.divides_by_ranks:
        count = size_bytes // _FLOAT_BYTES
        return Message(count, count * _FLOAT_BYTES)
    count = size_bytes // _FLOAT_BYTES // ranks // _ALIGNED_ELEMENTS * _ALIGNED_ELEMENTS
    return Message(count, count * ranks * _FLOAT_BYTES)
