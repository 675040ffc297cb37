"""What goes wrong in the cloud, by plan: after it, the next command gets where it was going.

A plan is a named, seeded rule of the sandbox's cloud that counts how often it fired. This is the
compact matrix, one life of one stack; `test_fault_matrix` runs every plan against every command of
both stacks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.sandbox.cloud_client import CloudClient
from tests.sandbox.fault_account import accounted
from tests.sandbox.fault_environment import FAILED, INTERNAL, UNSTEADY, Environment
from tests.sandbox.harness import Done, Sandbox

SILENT_SECONDS = 5.0


@dataclass
class Life:
    """What each step printed, and how often each plan fired."""

    done: dict[str, Done] = field(default_factory=dict)
    fired: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def environment(sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[Environment]:
    made = Environment(sandbox, CloudClient(sandbox.environment), "staging")
    sandbox.pulumi("stack", "init", made.stack).ok()
    made.configure(smokeTest="off")
    with accounted(made, request.node.nodeid, request.session):
        yield made


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
    environment.count(life.fired["quota"])
    cloud.set_quota(NETWORKS=50)
    plans = {"failed cluster": {**FAILED["up"]["failed cluster"], **failing}}
    done["failed cluster"], fired = environment.under(plans, "up")
    life.fired |= fired
    done["after the failed cluster"] = environment.run("up").ok()
    environment.check(4)
    life.made = dict(cloud.made("clusters.create"))

    plans = {name: {**rule, **failing} for name, rule in FAILED["edit"].items()}
    done["failed edit"], fired = environment.under(plans, "edit")
    life.fired |= fired
    # The next one has an unsteady API, and an API server that says nothing for a while.
    environment.configure(deviceInjector=False)
    with environment.api_server_silent() as resume:
        timer = threading.Timer(SILENT_SECONDS, resume)
        timer.start()
        done["after the failed edit"], fired = environment.under(UNSTEADY, "edit")
        timer.join()
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


def test_a_cluster_that_could_not_be_made_is_made_anew_by_the_next_up(life: Life) -> None:
    assert life.fired["failed cluster"] == 1
    assert life.done["failed cluster"].code != 0
    assert (
        "never came up: it is deleted and made anew" in life.done["after the failed cluster"].text
    )
    assert list(life.made.values()) == [1], "once more, after the one that failed"


def test_an_edit_that_failed_is_done_by_the_next_up(life: Life) -> None:
    assert life.fired["failed cluster update"] == 1
    assert life.done["failed edit"].code != 0


def test_an_api_server_that_says_nothing_for_a_while_is_waited_for(life: Life) -> None:
    done = life.done["after the failed edit"].ok()
    assert "device-injector" in done.text
    assert done.seconds > SILENT_SECONDS


def test_a_deletion_that_failed_is_done_by_the_next_destroy(life: Life) -> None:
    assert life.fired["failed network deletion"] == 1
    assert life.done["failed destroy"].code != 0
    life.done["after the failed destroy"].ok()


@pytest.mark.parametrize("command", ["up", "destroy"])
def test_an_api_that_is_not_well_is_not_noticed(life: Life, command: str) -> None:
    life.done[f"unsteady {command}"].ok()
    fired = [life.fired[f"{name} in {command}"] for name in UNSTEADY]
    assert sum(fired) >= 1, fired
