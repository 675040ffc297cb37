"""Text tables of nccl-tests made from figures, and the published figures of both machine types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# (bytes, out-of-place, in-place) bus bandwidth in GB/s of two nodes, all-gather, as published for
# Autopilot [facts autopilot-gpu-bandwidth.es.txt, "Implementa una carga de trabajo de prueba"].
A3_HIGH = (
    (1048576, 1.41, 1.35),
    (2097152, 2.53, 2.71),
    (4194304, 5.08, 4.88),
    (8388608, 9.68, 9.62),
    (16777216, 15.19, 14.73),
    (33554432, 26.59, 25.96),
    (67108864, 39.49, 41.65),
    (134217728, 59.13, 54.41),
    (268435456, 69.85, 70.17),
    (536870912, 70.87, 71.28),
)
A3_MEGA = (
    (0, 0.0, 0.0),
    (65536, 0.25, 0.26),
    (131072, 0.47, 0.45),
    (262144, 0.88, 0.91),
    (524288, 1.80, 1.80),
    (1048576, 3.12, 3.13),
    (2097152, 6.16, 6.31),
    (4194304, 11.85, 11.87),
    (8388608, 22.07, 22.23),
    (16777216, 38.45, 38.81),
    (33554432, 69.69, 70.26),
    (67108864, 88.19, 88.13),
    (134217728, 112.14, 112.72),
    (268435456, 140.92, 142.24),
    (536870912, 176.00, 176.44),
    (1073741824, 183.22, 180.78),
    (2147483648, 185.71, 186.45),
    (4294967296, 187.70, 187.37),
    (8589934592, 189.03, 188.73),
)

Figures = Sequence[tuple[int, float, float]]
Change = Callable[[int, float, float], tuple[float, float]]

HEADER = (
    "#                                          out-of-place               in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       "
    "     (us)  (GB/s)  (GB/s)       \n"
)


def curve(figures: Figures) -> list[tuple[int, float]]:
    """Return the out-of-place reference curve."""
    return [(size, out_of_place) for size, out_of_place, _ in figures if size]


def scaled(figures: Figures, change: Change) -> list[tuple[int, float, float]]:
    """Return the figures with both directions changed."""
    return [(size, *change(size, out, inside)) for size, out, inside in figures]


def device_lines(nodes: int, gpus_per_node: int = 8) -> str:
    """Return the lines that name the ranks."""
    ranks = [(node, gpu) for node in range(nodes) for gpu in range(gpus_per_node)]
    return "# Using devices\n" + "".join(
        f"#  Rank {rank:2} Group  0 Pid {300 + rank:6} on nccl-test-{node} device {gpu:2} "
        f"[0x{gpu + 4:02x}] NVIDIA H100 80GB HBM3\n"
        for rank, (node, gpu) in enumerate(ranks)
    )


def row_line(size: int, out: float, inside: float, wrong: str = "0") -> str:
    """Return one row."""

    def direction(bus_bandwidth: float) -> str:
        alg_bandwidth = bus_bandwidth * 16 / 15
        time_us = size / alg_bandwidth / 1000 if alg_bandwidth else 0.17
        return f"{time_us:8.1f} {alg_bandwidth:7.2f} {bus_bandwidth:7.2f} {wrong:>6}"

    return (
        f"{size:12} {size // 64:13} {'float':>9} {'none':>7} {-1:7} "
        f"{direction(out)} {direction(inside)}\n"
    )


def table(
    figures: Figures, *, nodes: int = 2, wrong: str = "0", validation: int = 1, bad: int = 0
) -> str:
    """Return a whole output for these figures."""
    largest = max(size for size, _, _ in figures)
    average = sum(out + inside for _, out, inside in figures) / (2 * len(figures))
    return (
        f"# nThread 1 nGpus 1 minBytes 1 maxBytes {largest} step: 2(factor) warmup iters: 5 "
        f"iters: 20 agg iters: 1 validation: {validation} graph: 0\n#\n"
        + device_lines(nodes)
        + "#\n"
        + HEADER
        + "".join(row_line(*figure, wrong=wrong) for figure in figures)
        + f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}\n"
        + f"# Avg bus bandwidth    : {average:g} \n#\n"
    )
