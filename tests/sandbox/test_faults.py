"""What goes wrong in the cloud, by plan: after it, the next command gets where it was going.

A plan is a named, seeded rule of the sandbox's cloud that counts how often it fired. The compact
matrix is one life of one stack; the soak runs every plan against every command of both stacks.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.sandbox.cloud_client import CloudClient, wait_until
from tests.sandbox.harness import Done, Sandbox

pytestmark = pytest.mark.soak

Rule = Mapping[str, Any]

INTERNAL = {"code": "INTERNAL_ERROR", "message": "Internal error."}
API = "/(compute|container)/v"
UNSTEADY: Mapping[str, Rule] = {
    "too many requests": {"path": API, "status": 429, "probability": 0.04, "seed": 1},
    "internal error": {"path": API, "status": 500, "probability": 0.04, "seed": 2},
    "unavailable": {"path": API, "status": 503, "probability": 0.04, "seed": 3},
    "dropped connection": {"path": API, "drop": "before", "probability": 0.04, "seed": 4},
}
"""An API that is not well: clients are expected to try again, and nobody notices."""

FAILED: Mapping[str, Mapping[str, Rule]] = {
    "up": {
        "failed network": {"operation": r"networks\.insert", "skip": 1},
        "failed subnet": {"operation": r"subnetworks\.insert", "skip": 2},
        "failed rule": {"operation": r"firewalls\.insert", "skip": 3},
        "failed cluster": {"operation": r"clusters\.create"},
    },
    "edit": {"failed cluster update": {"operation": r"clusters\.(update|setLabels|setResource)"}},
    "destroy": {
        "failed network deletion": {"operation": r"networks\.delete", "skip": 1},
        "failed cluster deletion": {"operation": r"clusters\.delete"},
    },
}
"""Operations that begin and end in an error, once: the command fails, the next one does not."""


@dataclass
class Environment:
    """One stack that faults happen to."""

    sandbox: Sandbox
    cloud: CloudClient
    stack: str

    def run(self, command: str) -> Done:
        if command == "edit":
            words = ("config", "set", "--path", "labels.team", "birds", "--stack", self.stack)
            self.sandbox.pulumi(*words).ok()
        return (
            self.sandbox.destroy(self.stack)
            if command == "destroy"
            else self.sandbox.up(self.stack)
        )

    def under(self, plans: Mapping[str, Rule], command: str) -> tuple[Done, dict[str, int]]:
        """Run a command under plans; return it and how often each plan fired."""
        for name, rule in plans.items():
            self.cloud.plan(name, **rule)
        try:
            done = self.run(command)
        finally:
            fired = {name: self.cloud.end_plan(name) for name in plans}
        return done, fired

    def killed_at(self, operation: str, number: int, command: str) -> int:
        """Kill a command (SIGKILL) while its nth operation of a kind is on its way."""
        self.cloud.plan("killed", operation=operation, skip=number, times=1, hang=True)
        words = ("pulumi", "destroy" if command == "destroy" else "up", "--yes")
        with self.sandbox.popen(*words, "--non-interactive", "--stack", self.stack) as process:
            wait_until(
                lambda: self.cloud.fired("killed") > 0 or process.poll() is not None,
                f"operation {number} of {operation} has begun",
            )
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        fired = self.cloud.end_plan("killed")
        wait_until(self.cloud.at_rest, "what Google had begun has ended")
        return fired

    def repair(self) -> int:
        """Take orphans into the state by the printed lines; return how many there were."""
        words = ("-m", "gpudirect", "orphans", "--stack", self.stack, "--json")
        orphans = json.loads(self.sandbox.run(sys.executable, *words).text)
        for orphan in orphans:
            if "clusters" not in orphan["id"]:
                self.sandbox.run(*shlex.split(orphan["import"]), "--yes").ok()
        return len(orphans)

    def in_the_cloud(self) -> list[str]:
        """Return the paths of what users have there, each as often as it is there."""
        return sorted(
            f"{r['kind']}/{r['name']}" for r in self.cloud.resources() if r["madeBy"] == "user"
        )

    def in_the_state(self) -> list[str]:
        """Return the same of what the state holds."""
        resources = self.sandbox.state(self.stack)["deployment"].get("resources") or []
        kinds = ("gcp:compute/", "gcp:container/")
        return sorted(
            "/".join(r["id"].split("/")[-2:]) for r in resources if r["type"].startswith(kinds)
        )

    def check(self, nics: int) -> None:
        """Fail unless cloud and state agree on a whole environment."""
        assert self.in_the_cloud() == self.in_the_state()
        assert len(self.in_the_cloud()) == (3 * nics + 1 if nics else 0)
        text = json.dumps(self.sandbox.state(self.stack))
        assert "BEGIN CERTIFICATE" not in text
        assert self.sandbox.environment["GOOGLE_OAUTH_ACCESS_TOKEN"] not in text


@pytest.fixture(scope="module")
def environment(sandbox: Sandbox) -> Environment:
    sandbox.pulumi("stack", "init", "staging").ok()
    sandbox.set_config("staging", smokeTest="off")
    return Environment(sandbox, CloudClient(sandbox.environment), "staging")


@dataclass
class Life:
    """What each step printed, and how often each plan fired."""

    done: dict[str, Done] = field(default_factory=dict)
    fired: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def life(environment: Environment) -> Life:
    """One stack: quota, a failed cluster, an unsteady API, a failed edit, a failed deletion."""
    life, cloud = Life(), environment.cloud
    done = life.done
    failing = {"fail": INTERNAL, "times": 1}

    # The network `default` counts too: there is room for two of four.
    cloud.set_quota(NETWORKS=3)
    done["quota"] = environment.run("up")
    life.fired["quota"] = sum(
        "QUOTA" in json.dumps(operation["error"]) for operation in cloud.operations()
    )
    cloud.set_quota(NETWORKS=50)
    plans = {"failed cluster": {**FAILED["up"]["failed cluster"], **failing}}
    done["failed cluster"], fired = environment.under(plans, "up")
    life.fired |= fired
    # A cluster whose creation failed stays, without an address: it has to go first.
    done["destroy of the failed cluster"] = environment.run("destroy").ok()
    environment.check(0)
    done["after the failed cluster"] = environment.run("up").ok()
    environment.check(4)
    plans = {name: {**rule, **failing} for name, rule in FAILED["edit"].items()}
    done["failed edit"], fired = environment.under(plans, "edit")
    life.fired |= fired
    done["after the failed edit"], fired = environment.under(UNSTEADY, "edit")
    life.fired |= fired
    environment.check(4)
    plans = {"failed network deletion": {**FAILED["destroy"]["failed network deletion"], **failing}}
    done["failed destroy"], fired = environment.under(plans, "destroy")
    life.fired |= fired
    done["after the failed destroy"] = environment.run("destroy").ok()
    environment.check(0)
    done["unsteady up"], fired = environment.under(UNSTEADY, "up")
    life.fired |= {f"{name} in up": count for name, count in fired.items()}
    done["unsteady up"].ok()
    environment.check(4)
    done["unsteady destroy"], fired = environment.under(UNSTEADY, "destroy")
    life.fired |= {f"{name} in destroy": count for name, count in fired.items()}
    environment.check(0)
    return life


def test_a_quota_that_ends_in_the_middle_is_named_and_later_enough(life: Life) -> None:
    assert life.fired["quota"] >= 1
    assert life.done["quota"].code != 0
    assert "Quota 'NETWORKS' exceeded" in life.done["quota"].text


def test_a_cluster_that_could_not_be_made_is_made_after_a_destroy(life: Life) -> None:
    assert life.fired["failed cluster"] == 1
    assert life.done["failed cluster"].code != 0
    life.done["after the failed cluster"].ok()


def test_an_edit_that_failed_is_done_by_the_next_up(life: Life) -> None:
    assert life.fired["failed cluster update"] == 1
    assert life.done["failed edit"].code != 0
    life.done["after the failed edit"].ok()


def test_a_deletion_that_failed_is_done_by_the_next_destroy(life: Life) -> None:
    assert life.fired["failed network deletion"] == 1
    assert life.done["failed destroy"].code != 0
    life.done["after the failed destroy"].ok()


@pytest.mark.parametrize("command", ["up", "destroy"])
def test_an_api_that_is_not_well_is_not_noticed(life: Life, command: str) -> None:
    life.done[f"unsteady {command}"].ok()
    fired = [life.fired[f"{name} in {command}"] for name in UNSTEADY]
    assert sum(fired) >= 1, fired


@pytest.mark.parametrize("stack", ["dev", "staging"])
class TestEveryPlanAgainstEveryCommand:
    """Hours, not minutes; each case starts and ends with nothing in the cloud."""

    @pytest.fixture
    def environment(self, sandbox: Sandbox, stack: str) -> Environment:
        sandbox.pulumi("stack", "init", stack)
        sandbox.set_config(stack, smokeTest="off")
        sandbox.pulumi("config", "rm", "labels", "--stack", stack)
        made = Environment(sandbox, CloudClient(sandbox.environment), stack)
        made.run("destroy").ok()
        made.check(0)
        return made

    @pytest.mark.parametrize(
        ("command", "plan"), [(c, p) for c, plans in FAILED.items() for p in plans]
    )
    def test_the_next_command_converges_after_a_failed_operation(
        self, environment: Environment, stack: str, command: str, plan: str
    ) -> None:
        nics = {"dev": 8, "staging": 4}[stack]
        if command != "up":
            environment.run("up").ok()
        rule = {**FAILED[command][plan], "fail": INTERNAL, "times": 1}
        done, fired = environment.under({plan: rule}, command)
        assert fired[plan] == 1
        assert done.code != 0
        if plan == "failed cluster":
            environment.run("destroy").ok()
        environment.run(command).ok()
        environment.check(0 if command == "destroy" else nics)
        environment.run("destroy").ok()
        environment.check(0)

    @pytest.mark.parametrize("seed", range(3))
    def test_an_unsteady_api_is_survived_by_all_commands(
        self, environment: Environment, stack: str, seed: int
    ) -> None:
        nics = {"dev": 8, "staging": 4}[stack]
        plans = {name: {**rule, "seed": 100 + seed} for name, rule in UNSTEADY.items()}
        for command in ("up", "edit", "destroy"):
            done, fired = environment.under(plans, command)
            done.ok()
            assert sum(fired.values()) > 0, fired
            environment.check(0 if command == "destroy" else nics)

    @pytest.mark.parametrize("operation", ["networks", "subnetworks", "firewalls"])
    @pytest.mark.parametrize("number", range(8))
    def test_a_kill_at_each_boundary_leaves_nothing_that_cannot_be_taken_back(
        self, environment: Environment, stack: str, operation: str, number: int
    ) -> None:
        nics = {"dev": 8, "staging": 4}[stack]
        if number >= nics:
            pytest.skip(f"{stack} has {nics} of them")
        assert environment.killed_at(rf"^{operation}\.insert", number, "up") == 1
        environment.run("up")
        environment.repair()
        environment.run("up").ok()
        environment.check(nics)
        assert environment.killed_at(rf"^{operation}\.delete", number, "destroy") == 1
        environment.run("destroy").ok()
        environment.check(0)
