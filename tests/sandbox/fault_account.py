"""The figures of a run that breaks things on purpose: fired, survived, left over.

Owns counting and saying. A fault is survived when the case that it belongs to has passed as a
whole, its teardown included, and never before: what a case finds on the way is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


@dataclass
class Account:
    """What came of the faults of one test run, or of one of its processes."""

    cases: int = 0
    fired: int = 0
    survived: int = 0
    left_over: int = 0
    """Things in the cloud at the end of a case, which must be none."""
    lost: list[str] = field(default_factory=list)
    """The cases whose faults were not survived."""

    @property
    def balanced(self) -> bool:
        """Whether every fault was survived and nothing is left over."""
        return self.fired == self.survived and self.left_over == 0 and not self.lost

    def add(self, other: Mapping[str, Any] | None) -> None:
        """Add what another process of the run counted, as `as_dict` gives it."""
        for key, value in (other or {}).items():
            setattr(self, key, getattr(self, key) + value)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """Return what to print at the end of the run."""
        figures = f"fired: {self.fired}, survived: {self.survived}, left over: {self.left_over}"
        return [
            f"{figures} (in {self.cases} cases)",
            *(f"not survived: {case}" for case in self.lost),
        ]


ACCOUNT = Account()
"""Of the whole test run."""


class Session(Protocol):
    """The part of a pytest session that says whether something has failed."""

    testsfailed: int


class Broken(Protocol):
    """What faults happen to."""

    fired: int

    def in_the_way(self) -> Sequence[str]:
        """Return what is still in the cloud."""
        ...


@contextmanager
def accounted(
    broken: Broken, case: str, session: Session, account: Account = ACCOUNT
) -> Iterator[None]:
    """Enter the faults of a case into the account once the case is over.

    Args:
        broken: What the faults happen to.
        case: Its name.
        session: Counts failures, those of the case among them, before the case is torn down.
        account: Where to.

    Raises:
        AssertionError: something is left over in the cloud.
    """
    failed_before = session.testsfailed
    yield
    account.cases += 1
    account.fired += broken.fired
    left = broken.in_the_way()
    account.left_over += len(left)
    if left or session.testsfailed != failed_before:
        account.lost.append(case)
    else:
        account.survived += broken.fired
    assert not left, f"left over in the cloud: {', '.join(left)}"
