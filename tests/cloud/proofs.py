"""Ties tests to the rules of the registry: a rule without a test that proves it is a defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def proves(*rules: str) -> Callable[[Test], Test]:
    """Say which rules of `sandbox.cloud.registry` a test proves."""

    def mark(test: Test) -> Test:
        test.proves = rules  # type: ignore[attr-defined]
        return test

    return mark
