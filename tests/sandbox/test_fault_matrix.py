"""Every plan against every command of both stacks: an hour, not minutes.

Each case starts and ends with nothing in the cloud. The figures of the whole run stand at its end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from tests.sandbox.cloud_client import CloudClient
from tests.sandbox.fault_account import accounted
from tests.sandbox.fault_environment import (
    API,
    FAILED,
    INTERNAL,
    NICS,
    RESOURCES,
    UNSTEADY,
    Environment,
    can_mount,
)
from tests.sandbox.harness import Sandbox

pytestmark = pytest.mark.soak
on_both_stacks = pytest.mark.parametrize("stack", NICS)

KINDS = ("networks", "subnetworks", "firewalls")


@pytest.fixture
def environment(
    sandbox: Sandbox, stack: str, request: pytest.FixtureRequest
) -> Iterator[Environment]:
    made = Environment(sandbox, CloudClient(sandbox.environment), stack)
    made.start_over()
    made.configure(smokeTest="off", deletionProtection=False, deviceInjector=True)
    with accounted(made, request.node.name, request.session):
        yield made


def _empty(environment: Environment) -> None:
    environment.run("destroy").ok()
    environment.check(0)


@on_both_stacks
@pytest.mark.parametrize(
    ("command", "plan"), [(c, p) for c, plans in FAILED.items() for p in plans]
)
def test_the_next_command_converges_after_a_failed_operation(
    environment: Environment, command: str, plan: str
) -> None:
    if command != "up":
        environment.bring_up()
    rule = {**FAILED[command][plan], "fail": INTERNAL, "times": 1}
    done, fired = environment.under({plan: rule}, command)
    assert fired[plan] == 1
    assert done.code != 0
    environment.run(command).ok()
    environment.check(0 if command == "destroy" else environment.nics)
    _empty(environment)


@on_both_stacks
def test_a_quota_that_ends_at_any_network_stops_the_update_there_and_later_is_enough(
    environment: Environment,
) -> None:
    for room in range(environment.nics):
        # The network `default` counts too.
        environment.cloud.set_quota(NETWORKS=1 + room)
        refused = environment.run("up")
        environment.count(1)
        assert refused.code != 0
        assert "Quota 'NETWORKS' exceeded" in refused.text
        assert len(environment.cloud.names("networks")) == room
        environment.agree()
    environment.cloud.set_quota(NETWORKS=50)
    environment.run("up").ok()
    environment.check(environment.nics)
    _empty(environment)


@on_both_stacks
def test_a_protected_cluster_that_never_came_up_takes_two_updates(
    environment: Environment,
) -> None:
    environment.configure(deletionProtection=True)
    plan = {"cluster": {"operation": r"clusters\.create", "fail": INTERNAL, "times": 1}}
    done, fired = environment.under(plan, "up")
    assert fired == {"cluster": 1}
    assert done.code != 0
    unprotected = environment.run("up")
    assert unprotected.code != 0
    assert "run `pulumi up` again, which deletes it and makes it anew" in unprotected.text
    assert "Traceback" not in unprotected.text
    environment.run("up").ok()
    environment.check(environment.nics)
    assert environment.run("destroy").code != 0
    environment.check(environment.nics)
    environment.configure(deletionProtection=False)
    environment.run("up").ok()
    _empty(environment)


@on_both_stacks
@pytest.mark.parametrize("seed", range(3))
def test_an_unsteady_api_is_survived_by_all_commands(environment: Environment, seed: int) -> None:
    plans = {name: {**rule, "seed": 100 + seed} for name, rule in UNSTEADY.items()}
    # Chance may spare a command of a few requests.
    plans["for sure"] = {"path": API, "method": "GET", "status": 503, "times": 1}
    for command in ("up", "edit", "destroy"):
        done, fired = environment.under(plans, command)
        done.ok()
        assert fired["for sure"] == 1, fired
        environment.check(0 if command == "destroy" else environment.nics)


@on_both_stacks
@pytest.mark.parametrize("kind", [*KINDS, "clusters"])
def test_a_creation_whose_answer_is_lost_leaves_nothing_that_cannot_be_taken_back(
    environment: Environment, kind: str
) -> None:
    plan = {"lost": {"path": f"/{kind}$", "method": "POST", "drop": "after", "times": 1}}
    _, fired = environment.under(plan, "up")
    assert fired == {"lost": 1}
    environment.converge()
    environment.check(environment.nics)
    _empty(environment)


@on_both_stacks
@pytest.mark.parametrize("operation", ["networks.insert", "clusters.create"])
def test_an_operation_that_succeeds_after_its_client_gave_up_is_taken_back(
    environment: Environment, operation: str
) -> None:
    action = "^" + operation.replace(".", r"\.")
    assert environment.stopped_at(action, 0, "up", signal.SIGINT) == 1
    environment.converge()
    environment.check(environment.nics)
    _empty(environment)


@pytest.mark.parametrize(
    ("stack", "number"), [(stack, number) for stack, nics in NICS.items() for number in range(nics)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_in_the_middle_of_a_creation_leaves_nothing_that_cannot_be_taken_back(
    environment: Environment, kind: str, number: int
) -> None:
    assert environment.stopped_at(rf"^{kind}\.insert", number, "up", signal.SIGKILL) == 1
    environment.converge()
    environment.check(environment.nics)
    assert environment.stopped_at(rf"^{kind}\.delete", number, "destroy", signal.SIGKILL) == 1
    _empty(environment)


@pytest.mark.parametrize(
    ("stack", "boundary"),
    [(stack, told) for stack, count in RESOURCES.items() for told in range(1, count)],
)
def test_a_kill_between_two_resources_leaves_nothing_that_cannot_be_taken_back(
    environment: Environment, boundary: int
) -> None:
    assert environment.killed_after(boundary, "up") == boundary
    environment.converge()
    environment.check(environment.nics)
    assert environment.killed_after(boundary, "destroy") == boundary
    _empty(environment)


@on_both_stacks
@pytest.mark.parametrize("command", ["up", "destroy"])
def test_a_state_that_cannot_be_written_loses_nothing_for_good(
    environment: Environment, command: str
) -> None:
    if not can_mount():
        pytest.skip("this machine lets no test have a file system of its own")
    if command == "destroy":
        environment.bring_up()
    size = environment.state_kilobytes() + (24 if command == "up" else 4)
    done = environment.on_a_full_disk(size, command)
    assert done.code != 0
    assert "no space left on device" in done.text
    assert ("was cut off" in environment.sandbox.pulumi("stack", "ls").ok().text) or command != "up"
    environment.converge()
    environment.check(environment.nics)
    _empty(environment)


@on_both_stacks
def test_an_api_server_that_says_nothing_for_a_while_is_waited_for(
    environment: Environment,
) -> None:
    environment.bring_up()
    environment.configure(deviceInjector=False)
    with environment.api_server_silent() as resume:
        timer = threading.Timer(20, resume)
        timer.start()
        environment.run("up")
        timer.join()
    environment.run("up").ok()
    environment.check(environment.nics)
    _empty(environment)


@on_both_stacks
def test_nodes_that_never_appear_shut_the_gate_until_they_do(
    environment: Environment,
) -> None:
    environment.configure(smokeTest="gate", smokeTestCapacityDeadline="1m")
    metric = {"dev": "NVIDIA_H100_MEGA_GPUS", "staging": "NVIDIA_H100_GPUS"}[environment.stack]
    environment.cloud.set_quota(**{metric: 0})
    refused = environment.run("up")
    environment.count(1)
    assert refused.code != 0
    assert "did not pass the gate" in refused.text
    environment.check(environment.nics)
    environment.cloud.set_quota(**{metric: 64})
    environment.configure(smokeTestCapacityDeadline="30m")
    environment.run("up").ok()
    environment.check(environment.nics)
    _empty(environment)
