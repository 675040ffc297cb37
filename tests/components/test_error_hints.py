"""The sentence that a failed creation gets beside the provider's own words."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components import error_hints

TAKEN = (
    "1 error occurred:\n\t* Error creating Network: googleapi: Error 409: The resource "
    "'projects/p/global/networks/n' already exists, alreadyExists"
)
TAKEN_CLUSTER = (
    "1 error occurred:\n\t* googleapi: Error 409: Already exists: "
    "projects/p/locations/l/clusters/c., alreadyExists"
)
UNKNOWN_KIND = 'no matches for kind "Network" in version "networking.gke.io/v1"'


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", lambda text, *_: lines.append(text))
    monkeypatch.setattr(pulumi, "get_stack", lambda: "dev")
    monkeypatch.setattr(pulumi, "ErrorHook", lambda _name, hook: hook)
    return lines


def _failed(error: str, operation: str = "create") -> Any:
    return pulumi.ErrorHookArgs(
        urn="u", id="", name="n", type="t", failed_operation=operation, errors=[error]
    )


@pytest.mark.parametrize("error", [TAKEN, TAKEN_CLUSTER])
def test_a_name_that_is_taken_leads_to_the_search_for_orphans_once(
    said: list[str], error: str
) -> None:
    hook = error_hints.orphan_hint("fabric")
    assert [hook(_failed(error)), hook(_failed(error))] == [False, False]
    assert len(said) == 1
    assert "`python -m gpudirect orphans --stack dev`" in said[0]


def test_a_kind_that_is_missing_leads_to_multi_networking(said: list[str]) -> None:
    hook = error_hints.missing_kind_hint("addons")
    assert hook(_failed(UNKNOWN_KIND)) is False
    assert "multi-networking is not enabled on this cluster?" in said[0]


@pytest.mark.parametrize(
    ("error", "operation"), [("Quota 'NETWORKS' exceeded.", "create"), (TAKEN, "update")]
)
def test_other_failures_speak_for_themselves(said: list[str], error: str, operation: str) -> None:
    assert error_hints.orphan_hint("fabric")(_failed(error, operation)) is False
    assert said == []
