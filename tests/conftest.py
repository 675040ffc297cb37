"""What holds for a whole run: how the tests are spread over the cores, examples, fault figures."""

from __future__ import annotations

import signal
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.sandbox.fault_account import ACCOUNT

ONE_AT_A_TIME = ("gke", "sandbox", "sandbox_runtime")
"""Tiers that start control planes: one process for each tier, so that not all cores run them."""

_FAULTS = "faults"

# The same examples in each run: what lands must not hang on luck. To look for new ones:
# `pytest --hypothesis-profile=default` (with `--hypothesis-seed=N`, to see the same ones again).
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")


class TierScheduling(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """A file's tests stay together, for its fixtures; those of some tiers as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        tests, tier, _ = nodeid.split("/", 2)
        return f"{tests}/{tier}" if tier in ONE_AT_A_TIME else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return TierScheduling(config, log)


def pytest_configure() -> None:
    """Let programs under test hear Ctrl-C, also where a shell has started the run with `&`.

    Such a shell has its children ignore SIGINT, and a child's children inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Take over what a process of the run has counted (`pytest -n …`)."""
    ACCOUNT.add(getattr(node, "workeroutput", {}).get(_FAULTS))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run whose faults were not all survived, or that has left something."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_FAULTS] = ACCOUNT.as_dict()
    elif exitstatus == pytest.ExitCode.OK and not ACCOUNT.balanced:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End a run that broke things on purpose with the figures."""
    if ACCOUNT.cases:
        terminalreporter.section("faults")
        for line in ACCOUNT.lines():
            terminalreporter.write_line(line)
