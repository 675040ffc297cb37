"""The figures of the fault matrix: what counts as survived, and what does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.sandbox.fault_account import Account, accounted


@dataclass
class Case:
    """A case, and a session that it can fail in."""

    fired: int = 0
    left: list[str] = field(default_factory=list)
    testsfailed: int = 0

    def in_the_way(self) -> list[str]:
        return self.left


def test_faults_of_a_case_that_passed_were_survived() -> None:
    account, case = Account(), Case(testsfailed=7)
    with accounted(case, "case", case, account):
        case.fired = 3
    assert account == Account(cases=1, fired=3, survived=3)
    assert account.balanced


def test_faults_of_a_case_that_failed_were_not_survived() -> None:
    account, case = Account(), Case(testsfailed=7)
    with accounted(case, "case", case, account):
        case.fired, case.testsfailed = 3, 8
    assert account == Account(cases=1, fired=3, lost=["case"])
    assert not account.balanced
    assert account.lines() == [
        "fired: 3, survived: 0, left over: 0 (in 1 cases)",
        "not survived: case",
    ]


def test_what_a_case_leaves_fails_it() -> None:
    account, case = Account(), Case(fired=2, left=["networks/a", "firewalls/b"])
    with (
        pytest.raises(AssertionError, match="left over in the cloud: networks/a, firewalls/b"),
        accounted(case, "case", case, account),
    ):
        pass
    assert account == Account(cases=1, fired=2, left_over=2, lost=["case"])


def test_an_account_that_is_cut_short_is_not_balanced() -> None:
    class Silent(Case):
        def in_the_way(self) -> list[str]:
            raise ConnectionError

    account, case = Account(), Silent(fired=1)
    with pytest.raises(ConnectionError), accounted(case, "case", case, account):
        pass
    assert not account.balanced


def test_the_processes_of_a_run_are_added_up() -> None:
    account = Account(cases=1, fired=3, survived=3)
    account.add(Account(cases=2, fired=4, left_over=1, lost=["case"]).as_dict())
    account.add(None)
    assert account == Account(cases=3, fired=7, survived=3, left_over=1, lost=["case"])


@pytest.mark.parametrize(
    ("account", "status"),
    [
        (Account(cases=1, fired=2, survived=2), pytest.ExitCode.OK),
        (Account(cases=1, fired=2, survived=1), pytest.ExitCode.TESTS_FAILED),
        (Account(cases=1, left_over=1), pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_a_run_ends_well_only_if_its_account_balances(
    account: Account, status: pytest.ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "ACCOUNT", account)
    session: Any = SimpleNamespace(config=SimpleNamespace(), exitstatus=pytest.ExitCode.OK)
    conftest.pytest_sessionfinish(session, pytest.ExitCode.OK)
    assert session.exitstatus == status


def test_a_process_of_a_run_hands_its_account_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "ACCOUNT", Account(cases=1, fired=2, survived=2))
    config: Any = SimpleNamespace(workeroutput={})
    worker: Any = SimpleNamespace(config=config, exitstatus=pytest.ExitCode.OK)
    conftest.pytest_sessionfinish(worker, pytest.ExitCode.OK)
    whole_run = Account(cases=1, fired=3, survived=3)
    monkeypatch.setattr(conftest, "ACCOUNT", whole_run)
    conftest.pytest_testnodedown(SimpleNamespace(workeroutput=config.workeroutput), None)
    assert whole_run == Account(cases=2, fired=5, survived=5)
