"""How time and memory grow with environments in one sandbox, and with networks in one stack."""

from __future__ import annotations

import time

from benchmarks.bound import creation, deletion, longest
from benchmarks.figures import Result, Series
from benchmarks.ground import Ground, Say, ground, memory

ENVIRONMENTS = (1, 2, 4, 8)
NETWORKS = (4, 8, 16, 32)
_MANY = "benchmarks/programs/networks"
_NARROW = "8"
"""Operations side by side by Pulumi's own default on two cores; the sandbox sets 64."""
_CONFIG = """\
config:
  gpudirect:gpuStack: a3-high
  gpudirect:fabricCidr: 192.168.128.0/17
  gpudirect:deletionProtection: false
  gpudirect:smokeTest: "off"
  gcp:region: us-central1
"""


def environments(say: Say) -> Result:
    """Bring up environments one beside the other and look at each number of them.

    At pace 0 and without the smoke test: what grows is the work of engine, program and sandbox.
    """
    result = Result(name="environments")
    up, preview, resident, proportional = (dict[int, float]() for _ in range(4))
    destroy: list[float] = []
    with ground(0) as at:
        at.cloud.set_quota(NETWORKS=100)
        names = [f"env-{number}" for number in range(1, max(ENVIRONMENTS) + 1)]
        for number, name in enumerate(names, 1):
            (at.box.project / f"Pulumi.{name}.yaml").write_text(_CONFIG)
            at.pulumi("stack", "init", name)
            say(f"environment {number} of {len(names)}")
            seconds = at.pulumi("up", "--yes", "--skip-preview", "--stack", name).seconds
            if number not in ENVIRONMENTS:
                continue
            up[number] = seconds
            preview[number] = at.preview_seconds("--stack", names[0], times=3)
            held = memory(at.box)["all"]
            resident[number], proportional[number] = held.resident, held.proportional
        for name in names:
            say(f"destroy {name}")
            destroy.append(at.pulumi("destroy", "--yes", "--skip-preview", "--stack", name).seconds)
    for title, unit, values in (
        ("up of the last environment", "s", up),
        ("no-change preview of the first", "s", preview),
        ("memory, proportional", "MB", proportional),
        ("memory, resident", "MB", resident),
    ):
        result.series.append(_series(title, unit, values))
        most = max(values)
        result.add(f"{title}, {most} environments / 1", values[most] / values[1], "x")
    result.add(f"destroy with {len(names) - 1} others beside it", destroy[0])
    result.add("destroy of the last one", destroy[-1])
    return result


def networks(pace: float, say: Say) -> Result:
    """Make and delete fabrics of more and more networks.

    The operations of different networks wait for nothing of one another, so the API's own slope is
    that of the slowest of N chains. What `up` and `destroy` add to it is theirs.
    """
    result = Result(name="networks")
    series: dict[str, dict[int, float]] = {}
    with ground(pace) as at:
        at.cloud.set_quota(NETWORKS=100)
        # Switched on once and left on: not what is measured.
        _one(at, 1, ())
        for count in NETWORKS:
            say(f"{count} networks")
            for title, value in _one(at, count, ()).items():
                series.setdefault(title, {})[count] = value
            say(f"{count} networks, {_NARROW} operations side by side")
            for title, value in _one(at, count, ("--parallel", _NARROW)).items():
                if not title.startswith("bound"):
                    series.setdefault(f"{title} --parallel {_NARROW}", {})[count] = value
    result.series += [_series(title, "s", values) for title, values in series.items()]
    slopes = {grown.name: grown.slope for grown in result.series}
    most = max(NETWORKS)
    for action in ("up", "destroy"):
        for title in (action, f"{action} --parallel {_NARROW}"):
            own = slopes[title] - slopes[f"bound of {action}"]
            result.add(f"{title}: seconds per network beyond the API's", own)
            ratio = series[title][most] / series[f"bound of {action}"][most]
            result.add(f"{title} / bound, {most} networks", ratio, "x")
    return result


def _one(at: Ground, count: int, more: tuple[str, ...]) -> dict[str, float]:
    stack = f"many-{count}"
    words = ("-C", _MANY, "--stack", stack)
    if at.box.pulumi("stack", "select", *words).code != 0:
        at.pulumi("stack", "init", "-C", _MANY, stack)
        at.pulumi("config", "set", "count", str(count), *words)
    since = time.time()
    up = at.pulumi("up", "--yes", "--skip-preview", *words, *more).seconds
    made = longest(creation(at.cloud.operations(), since)).seconds
    since = time.time()
    destroy = at.pulumi("destroy", "--yes", "--skip-preview", *words, *more).seconds
    gone = longest(deletion(at.cloud.operations(), since)).seconds
    return {"bound of up": made, "up": up, "bound of destroy": gone, "destroy": destroy}


def _series(name: str, unit: str, values: dict[int, float]) -> Series:
    return Series(name=name, unit=unit, counts=tuple(values), values=tuple(values.values()))
