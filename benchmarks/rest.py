"""An environment at rest: what a preview without changes takes, and what memory it holds."""

from __future__ import annotations

from benchmarks.figures import Result
from benchmarks.ground import Say, ground, memory

AIM_OF_EMPTY = 1.5
_EMPTY = ("-C", "benchmarks/programs/empty", "--stack", "empty")


def run(say: Say) -> Result:
    """Measure one A3 Mega environment, smoke test included, at pace 0."""
    result = Result(name="rest")
    with ground(0) as at:
        at.pulumi("stack", "init", *_EMPTY[:2], "empty")
        at.pulumi("up", "--yes", "--skip-preview", *_EMPTY)
        say("previews of an empty program")
        empty = at.preview_seconds(*_EMPTY)
        at.pulumi("stack", "init", "dev")
        say("pulumi up of A3 Mega")
        at.pulumi("up", "--yes", "--skip-preview", "--stack", "dev")
        say("previews without changes")
        preview = at.preview_seconds("--stack", "dev")
        held = memory(at.box)
        at.pulumi("destroy", "--yes", "--skip-preview", "--stack", "dev")
    result.add("no-change preview", preview, aim=2.0)
    result.add("empty program's preview", empty)
    result.add("no-change preview / empty program's", preview / empty, "x", aim=AIM_OF_EMPTY)
    for name, figure in held.items():
        title = "sandbox with one cluster" if name == "all" else name
        result.add(f"memory of {title}, resident", figure.resident, "MB")
        result.add(f"memory of {title}, proportional", figure.proportional, "MB")
    return result
