"""What `diff` says of an edit is what the engine plans; nothing live goes without leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpudirect.config_keys import Effect
from tests.sandbox.harness import Done, Sandbox

STACK = "staging"
ALLOW = 'allowReplace: "fabric,cluster"'

EDITS: list[tuple[str, tuple[str, ...], dict[str, str], Effect]] = [
    ("nothing", ("reservedCidrs: [10.200.0.0/16]",), {}, Effect.NOTHING),
    ("a label", ("labels: {team: ml}",), {}, Effect.IN_PLACE),
    ("protection", (), {"deletionProtection: false": "deletionProtection: true"}, Effect.IN_PLACE),
    ("rerun", ("smokeTestRerun: again",), {}, Effect.SMOKE_TEST),
    ("profile's release", ("release: tcpx-v3.1.9",), {}, Effect.SMOKE_TEST),
    ("network names", ("networkNames: [a, b, c, d]",), {}, Effect.ADDONS),
    ("injector", ("deviceInjector: false",), {}, Effect.ADDONS),
    ("range", (ALLOW,), {"192.168.128.0/17": "172.20.0.0/17"}, Effect.FABRIC),
    ("cluster name", (ALLOW, "clusterName: other"), {}, Effect.CLUSTER),
    ("prefix", (ALLOW, "prefix: ml"), {}, Effect.CLUSTER),
    ("region", (ALLOW,), {"gcp:region: us-central1": "gcp:region: us-east4"}, Effect.CLUSTER),
]


@pytest.fixture(scope="module")
def live(sandbox: Sandbox) -> Iterator[Sandbox]:
    sandbox.pulumi("stack", "init", STACK).ok()
    sandbox.up(STACK).ok()
    yield sandbox
    sandbox.destroy(STACK).ok()


@pytest.fixture
def stack_file(live: Sandbox) -> Iterator[Path]:
    path = live.project / f"Pulumi.{STACK}.yaml"
    before = path.read_text()
    yield path
    path.write_text(before)


def _edit(path: Path, lines: tuple[str, ...], changes: dict[str, str]) -> None:
    text = path.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    added = "".join(f"  gpudirect:{line}\n" for line in lines)
    path.write_text(text.replace("config:\n", f"config:\n{added}", 1))


def _json(done: Done) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        done.text[done.text.index("{\n") : done.text.rindex("}") + 1]
    )
    return found


def _planned(steps: list[dict[str, Any]]) -> Effect:
    """Return the class of change that a preview's steps come to."""
    effect = Effect.NOTHING
    for step in steps:
        kind = step["urn"].split("::")[2].rpartition("$")[2]
        made_anew = step["op"] in ("create", "delete", "replace", "create-replacement")
        if step["op"] == "same":
            found = Effect.NOTHING
        elif kind == "gcp:container/cluster:Cluster" and made_anew:
            found = Effect.CLUSTER
        elif kind.startswith("gcp:compute/") and made_anew:
            found = Effect.FABRIC
        elif kind.startswith("kubernetes:") and made_anew:
            found = Effect.ADDONS
        elif kind.endswith("gpudirect:NcclRun"):
            found = Effect.SMOKE_TEST
        else:
            found = Effect.IN_PLACE
        effect = max(effect, found, key=lambda e: e.weight)
    return effect


def test_before_an_edit_the_engine_plans_nothing(live: Sandbox) -> None:
    preview = _json(live.pulumi("preview", "--json", "--stack", STACK).ok())
    assert _planned(preview["steps"]) is Effect.NOTHING


@pytest.mark.parametrize(
    ("lines", "changes", "effect"), [edit[1:] for edit in EDITS], ids=[edit[0] for edit in EDITS]
)
def test_the_engine_plans_what_diff_says(
    live: Sandbox,
    stack_file: Path,
    lines: tuple[str, ...],
    changes: dict[str, str],
    effect: Effect,
) -> None:
    before = live.folder / "before.yaml"
    before.write_text(stack_file.read_text())
    _edit(stack_file, lines, changes)
    preview = _json(live.pulumi("preview", "--json", "--stack", STACK).ok())
    assert _planned(preview["steps"]) is effect
    said = live.run("python", "-m", "gpudirect", "diff", str(before), STACK, "--json").ok()
    assert json.loads(said.text)["effect"] == effect.value


def _without_nodes(live: Sandbox) -> list[dict[str, Any]]:
    """Return what the stack has made: GKE takes idle nodes away in its own time."""
    return [found for found in live.status()["resources"] if found["kind"] != "instances"]


@pytest.mark.parametrize(
    ("lines", "changes", "part"),
    [
        ((), {"192.168.128.0/17": "172.20.0.0/17"}, "fabric"),
        (("clusterName: other",), {}, "cluster"),
        ((ALLOW.replace("fabric,", ""), "prefix: ml"), {}, "fabric"),
    ],
)
def test_what_is_live_is_not_replaced_without_leave(
    live: Sandbox,
    stack_file: Path,
    lines: tuple[str, ...],
    changes: dict[str, str],
    part: str,
) -> None:
    before = _without_nodes(live)
    assert before
    _edit(stack_file, lines, changes)
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        done = live.pulumi(*command, "--stack", STACK)
        assert done.code != 0
        assert f"the {part} is live" in done.text
        assert "pulumi config set allowReplace" in done.text
    assert _without_nodes(live) == before


@pytest.mark.parametrize(
    "line",
    ["gpuStack: a3-ultra", "fabricCidr: 192.168.0.0/28", "clusterVersion: 1.34.4-gke.1", "nics: 5"],
)
def test_a_wrong_value_is_one_clear_error_and_nothing_is_registered(  # [R40]
    live: Sandbox, stack_file: Path, line: str
) -> None:
    key = line.partition(":")[0]
    text = stack_file.read_text()
    kept = [words for words in text.splitlines() if not words.startswith(f"  gpudirect:{key}:")]
    stack_file.write_text("\n".join(kept) + "\n")
    _edit(stack_file, (line,), {})
    done = live.pulumi("preview", "--stack", STACK)
    assert done.code != 0
    assert "1 problem in the config of stack staging:" in done.text
    assert f"gpudirect:{key}: " in done.text
    assert "Traceback" not in done.text
    assert "gcp:compute" not in done.text


def test_the_guard_does_not_stand_before_destroy(live: Sandbox, stack_file: Path) -> None:
    _edit(stack_file, ("prefix: ml",), {})
    assert live.pulumi("preview", "--stack", STACK).code != 0
    done = live.pulumi("destroy", "--preview-only", "--stack", STACK)
    assert done.code == 0, done.text
    assert "the fabric is live" not in done.text
