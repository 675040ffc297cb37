"""The smoke-test part of the settings: what is run, how long it may take, what it must reach.

Owns the keys `smokeTest…`. Does not own the run (`components`) nor the judgement
(`nccl_judgement`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpudirect.capacity import MOST_PLACED_NODES, CapacitySettings
from gpudirect.config_values import ConfigReader

LEAST_NODES = 2
MOST_NODES = 1500
"""Nodes of the largest group that Google documents [facts autopilot.md §2]."""

_LEAST_DEADLINE, _MOST_DEADLINE = "1m", "7d"


@dataclass(frozen=True, kw_only=True, slots=True)
class SmokeTestSettings:
    """The NCCL run.

    Attributes:
        mode: One of `config_keys.SMOKE_TEST_MODES`.
        nodes: How many nodes it takes.
        collective: One of `config_keys.COLLECTIVES`.
        min_fraction: Least part of the reference bandwidth.
        capacity_deadline_seconds: How long to wait for nodes.
        pull_deadline_seconds: How long to wait for images.
        start_deadline_seconds: How long to wait for the containers.
        run_deadline_seconds: How long the collective may take.
        rerun: Any text; another one runs the test again.
    """

    mode: str
    nodes: int
    collective: str
    min_fraction: float
    capacity_deadline_seconds: int
    pull_deadline_seconds: int
    start_deadline_seconds: int
    run_deadline_seconds: int
    rerun: str


def read_smoke_test(reader: ConfigReader, *, gpus_per_node: int) -> SmokeTestSettings:
    """Read the smoke test's keys; they are whole only if the reader found no error."""
    nodes = reader.integer(
        "smokeTestNodes",
        least=LEAST_NODES,
        most=MOST_NODES,
        why="one node has no network to prove, and Google places no more in one group",
    )
    _check_quota(reader, nodes, gpus_per_node)
    return SmokeTestSettings(
        mode=reader.choice("smokeTest") or "",
        nodes=nodes or LEAST_NODES,
        collective=reader.choice("smokeTestCollective") or "",
        min_fraction=_read_fraction(reader),
        capacity_deadline_seconds=_read_deadline(reader, "smokeTestCapacityDeadline"),
        pull_deadline_seconds=_read_deadline(reader, "smokeTestPullDeadline"),
        start_deadline_seconds=_read_deadline(reader, "smokeTestStartDeadline"),
        run_deadline_seconds=_read_deadline(reader, "smokeTestRunDeadline"),
        rerun=reader.text("smokeTestRerun") or "",
    )


def check_run_on_capacity(
    reader: ConfigReader, settings: SmokeTestSettings, capacity: CapacitySettings
) -> None:
    """Report a run that the nodes it gets cannot hold."""
    if settings.mode == "off":
        return
    if capacity.placement_group and settings.nodes > MOST_PLACED_NODES:
        reader.report(
            "smokeTestNodes",
            "more than a placement group holds",
            f"{MOST_PLACED_NODES} at most with placementGroup",
            "Google places no more A3 nodes close to one another",
            fix=reader.set_to("smokeTestNodes", str(MOST_PLACED_NODES)),
        )
    life = capacity.max_run_duration_seconds
    needed = (
        settings.pull_deadline_seconds
        + settings.start_deadline_seconds
        + settings.run_deadline_seconds
    )
    if capacity.mode == "flex-start" and life is not None and 0 < life < needed:
        reader.report(
            "maxRunDuration",
            "shorter than the smoke test may take",
            f"{needed}s or more, the deadlines for pull, start and run together",
            "Google takes the nodes away under the run",
            fix=reader.set_to("maxRunDuration", f"{needed}s"),
        )


def _check_quota(reader: ConfigReader, nodes: int | None, gpus_per_node: int) -> None:
    quota = reader.integer("gpuQuota", least=0, most=None, why="a quota counts GPUs")
    if not quota or nodes is None or nodes * gpus_per_node <= quota:
        return
    most = quota // gpus_per_node
    reader.report(
        "smokeTestNodes",
        f"{nodes * gpus_per_node} GPUs, and gpuQuota is {quota}",
        f"{most} nodes at most"
        if most >= LEAST_NODES
        else f"a quota of {LEAST_NODES * gpus_per_node} GPUs or more",
        f"a node has {gpus_per_node} GPUs, and nodes above the quota never come",
        fix=reader.set_to("smokeTestNodes", str(most))
        if most >= LEAST_NODES
        else reader.set_to("smokeTest", "off"),
    )


def _read_fraction(reader: ConfigReader) -> float:
    text = reader.text("smokeTestMinFraction")
    if text is None:
        return 0.0
    number = float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?|\.\d{1,9}", text) else None
    if number is not None and 0 < number <= 1:
        return number
    reader.report(
        "smokeTestMinFraction",
        "no number" if number is None else "out of bounds",
        "a number above 0 and up to 1, such as 0.8",
        "it is a part of the release's reference bandwidth; for no bar at all there is smokeTest "
        "report",
        fix=reader.set_to("smokeTestMinFraction", "0.8"),
    )
    return 0.0


def _read_deadline(reader: ConfigReader, key: str) -> int:
    seconds = reader.duration(
        key,
        least=_LEAST_DEADLINE,
        most=_MOST_DEADLINE,
        why="a shorter one ends before Google has answered, and nothing waits longer than a week",
    )
    return seconds or 0
