"""The guard of what is live, in the program: nothing is registered once it has refused."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components import deployed_state
from tests.components.recording import Recording, run_program
from tests.stack_config import full_config

_URN = "urn:pulumi:dev::gpudirect::gpudirect:index:GpuNetworkFabric$gcp:compute/network:Network::"
LIVE = {f"{_URN}fabric-net-1": {"name": "dev-net-1", "mtu": 8244.0, "project": "example-project"}}


@pytest.fixture(autouse=True)
def _live(monkeypatch: Any) -> None:
    monkeypatch.setattr(deployed_state, "deployed_outputs", lambda: LIVE)


def _preview(**overrides: Any) -> Recording:
    return run_program(full_config("dev", **overrides), stack="dev", preview=True)


def test_a_live_network_is_not_replaced_without_leave() -> None:
    with pytest.raises(pulumi.RunError, match="dev-net-1 -> ml-net-1") as raised:
        _preview(prefix="ml")
    assert "pulumi config set allowReplace fabric" in str(raised.value)


def test_a_live_network_is_replaced_where_the_config_says_so() -> None:
    names = {
        r.inputs["name"]
        for r in _preview(prefix="ml", allowReplace="fabric").resources
        if r.type == "gcp:compute/network:Network"
    }
    assert names == {f"ml-net-{n}" for n in range(1, 9)}


def test_an_update_that_keeps_it_passes() -> None:
    assert _preview().of_type("gcp:compute/network:Network")
