"""Updates that are killed (SIGKILL, as the kernel's out-of-memory killer does it) and go on.

One stack lives through three deaths in a row: while networks are made, while the cluster is made,
and with the plug-ins' requests still on their way.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest

from gpudirect.findings import PROJECT
from tests.sandbox.cloud_client import CloudClient, wait_until
from tests.sandbox.harness import Done, Sandbox

STACK = "staging"


@dataclass
class Life:
    """What each step printed or left."""

    done: dict[str, Done] = field(default_factory=dict)
    orphans: list[dict[str, Any]] = field(default_factory=list)
    left_processes: list[str] = field(default_factory=list)
    fired: dict[str, int] = field(default_factory=dict)
    made: dict[str, dict[str, int]] = field(default_factory=dict)
    locks: dict[str, int] = field(default_factory=dict)
    before_repair: set[str] = field(default_factory=set)
    left: list[dict[str, Any]] = field(default_factory=list)


def _locks(sandbox: Sandbox) -> int:
    return len(list((sandbox.home / "pulumi" / ".pulumi" / "locks").rglob("*.json")))


def _children_of_commands(sandbox: Sandbox) -> list[psutil.Process]:
    """Return the processes that run the sandbox's plug-ins: they end with their command."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(sandbox.home / "pulumi-home" / "plugins") in words or (
            str(sandbox.project) in words and "pulumi_language_python" in words
        ):
            found.append(process)
    return found


def _written_down(sandbox: Sandbox, *ids: str) -> bool:
    """Whether the stack's state holds resources of these ids already."""
    state = sandbox.home / "pulumi" / ".pulumi" / "stacks" / PROJECT / f"{STACK}.json"
    text = state.read_text(encoding="utf-8")
    return all(f'/{id_}"' in text for id_ in ids)


def _kill_up_when(sandbox: Sandbox, cloud: CloudClient, plan: str, *ids: str) -> None:
    """Run `up` until a fault plan has fired, and kill it: the command alone, not its children.

    Args:
        sandbox: Where.
        cloud: Its API.
        plan: Name of the fault plan.
        ids: Ends of ids that the state must hold first: what is made at the same time.
    """
    with sandbox.popen("pulumi", "up", "--yes", "--non-interactive", "--stack", STACK) as process:
        wait_until(
            lambda: (
                process.poll() is not None
                or (cloud.fired(plan) > 0 and _written_down(sandbox, *ids))
            ),
            f"{plan} has fired",
        )
        assert process.poll() is None, process.communicate()[0]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def _orphans(sandbox: Sandbox, *words: str) -> Done:
    return sandbox.run(sys.executable, "-m", "gpudirect", "orphans", "--stack", STACK, *words)


@pytest.fixture(scope="module")
def life(sandbox: Sandbox) -> Life:
    life, cloud = Life(), CloudClient(sandbox.environment)
    sandbox.pulumi("stack", "init", STACK).ok()

    # Two networks are being made when the update dies; Google finishes what it has begun.
    cloud.plan("network", operation=r"networks\.insert", target="staging-net-[23]$", hang=True)
    _kill_up_when(sandbox, cloud, "network")
    wait_until(lambda: not _children_of_commands(sandbox), "the plug-ins have ended")
    life.locks["after the first kill"] = _locks(sandbox)
    life.fired["network"] = cloud.end_plan("network")
    wait_until(cloud.at_rest, "all operations have ended")
    life.before_repair = {f"{r['kind']}/{r['name']}" for r in cloud.resources()}
    life.done["up over networks"] = sandbox.up(STACK)
    life.done["orphans"] = _orphans(sandbox)
    life.orphans = json.loads(_orphans(sandbox, "--json").text)
    for number, orphan in enumerate(life.orphans):
        life.done[f"import {number}"] = sandbox.run(*shlex.split(orphan["import"]), "--yes")
    life.done["orphans after import"] = _orphans(sandbox)

    # The cluster is being made when the next update dies.
    cloud.plan("cluster", operation=r"clusters\.create", hang=True)
    rules = (f"firewalls/{STACK}-internal-{number}" for number in range(1, 5))
    _kill_up_when(sandbox, cloud, "cluster", *rules)
    wait_until(lambda: not _children_of_commands(sandbox), "the plug-ins have ended")
    life.fired["cluster"] = cloud.end_plan("cluster")
    life.done["up over cluster"] = sandbox.up(STACK)
    life.done["second up"] = sandbox.up(STACK)
    life.done["preview"] = sandbox.pulumi("preview", "--expect-no-changes", "--stack", STACK)
    life.done["export"] = sandbox.pulumi("stack", "export", "--stack", STACK)
    for action in ("networks.insert", "subnetworks.insert", "firewalls.insert", "clusters.create"):
        life.made[action] = dict(cloud.made(action))
    life.done["destroy"] = sandbox.destroy(STACK)
    life.left = cloud.resources()
    life.locks["at the end"] = _locks(sandbox)
    return life


def test_the_command_after_a_kill_is_not_refused_by_a_lock_of_the_dead(life: Life) -> None:
    assert life.fired["network"] >= 1
    assert life.locks["after the first kill"] == 1
    text = life.done["up over networks"].text
    assert "currently locked" not in text
    assert "Removed the lock of a command that no longer runs" in text
    assert life.locks["at the end"] == 0


def test_networks_that_a_killed_update_left_are_found_and_not_taken_by_force(life: Life) -> None:
    assert life.done["up over networks"].code != 0
    assert "already exists" in life.done["up over networks"].text
    hint = f"`python -m gpudirect orphans --stack {STACK}` lists it"
    assert life.done["up over networks"].text.count(hint) >= 1
    found = {"/".join(orphan["id"].split("/")[-2:]) for orphan in life.orphans}
    # Those whose creation was on its way, and any that was made and not yet written down.
    assert found & {"networks/staging-net-2", "networks/staging-net-3"}
    assert found <= life.before_repair
    assert life.done["orphans"].code == 1
    for name in (path.rpartition("/")[2] for path in found):
        assert f" delete {name} --" in life.done["orphans"].text


def test_the_printed_import_lines_take_the_orphans_into_the_state(life: Life) -> None:
    for number in range(len(life.orphans)):
        life.done[f"import {number}"].ok()
    after = life.done["orphans after import"].ok()
    assert "Nothing exists" in after.text


def test_a_cluster_whose_creation_was_interrupted_is_taken_over(life: Life) -> None:
    assert life.fired["cluster"] == 1
    up = life.done["up over cluster"].ok()
    assert "takes it over" in up.text
    life.done["second up"].ok()
    life.done["preview"].ok()


def test_nothing_was_made_twice(life: Life) -> None:
    for action, count in {
        "networks.insert": 4,
        "subnetworks.insert": 4,
        "firewalls.insert": 4,
        "clusters.create": 1,
    }.items():
        made = life.made[action]
        assert len(made) == count, made
        assert set(made.values()) == {1}, made


def test_the_state_holds_whatever_was_interrupted_and_no_credential(life: Life) -> None:
    deployment = json.loads(life.done["export"].ok().text)["deployment"]
    known = {resource["urn"] for resource in deployment["resources"]}
    # The engine remembers interrupted creations until a refresh; each must have found its end.
    pending = {entry["resource"]["urn"] for entry in deployment.get("pending_operations") or ()}
    assert pending <= known
    assert "BEGIN CERTIFICATE" not in life.done["export"].text


def test_destroy_leaves_nothing_of_any_of_the_lives(life: Life) -> None:
    life.done["destroy"].ok()
    assert life.left == []
