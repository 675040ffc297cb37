"""An environment at rest: what a preview without changes takes, and what memory it holds."""

from __future__ import annotations

from benchmarks.figures import Result
from benchmarks.ground import Say, ground, memory

AIM_OF_EMPTY = 1.5
_PROGRAMS = ("empty", "sdks")
"""Programs without resources: nothing at all, and Pulumi's SDKs loaded, which any program pays."""


def run(say: Say) -> Result:
    """Measure one A3 Mega environment, smoke test included, at pace 0."""
    result = Result(name="rest")
    with ground(0) as at:
        least = {}
        for name in _PROGRAMS:
            where = ("-C", f"benchmarks/programs/{name}", "--stack", name)
            at.pulumi("stack", "init", *where[:2], name)
            at.pulumi("up", "--yes", "--skip-preview", *where)
            say(f"previews of the program `{name}`")
            least[name] = at.preview_seconds(*where)
        at.pulumi("stack", "init", "dev")
        say("pulumi up of A3 Mega")
        at.pulumi("up", "--yes", "--skip-preview", "--stack", "dev")
        say("previews without changes")
        preview = at.preview_seconds("--stack", "dev")
        held = memory(at.box)
        at.pulumi("destroy", "--yes", "--skip-preview", "--stack", "dev")
    result.add("no-change preview", preview, aim=2.0)
    result.add("empty program's preview", least["empty"])
    result.add("preview of a program that only loads the SDKs", least["sdks"])
    result.add(
        "no-change preview / empty program's", preview / least["empty"], "x", aim=AIM_OF_EMPTY
    )
    result.add("no-change preview / one that only loads the SDKs", preview / least["sdks"], "x")
    for name, figure in held.items():
        title = "sandbox with one cluster" if name == "all" else name
        result.add(f"memory of {title}, resident", figure.resident, "MB")
        result.add(f"memory of {title}, proportional", figure.proportional, "MB")
    return result
