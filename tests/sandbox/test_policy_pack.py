"""The policy pack under the real engine: both stacks pass, an open fabric fails."""

from __future__ import annotations

import pytest

from tests.sandbox.harness import Sandbox

PACK = ("--policy-pack", "policy")


@pytest.mark.parametrize("stack", ["dev", "staging"])
def test_a_stack_as_it_is_passes(sandbox: Sandbox, stack: str) -> None:
    sandbox.pulumi("stack", "init", stack).ok()
    done = sandbox.pulumi("preview", "--stack", stack, *PACK).ok()
    assert "Policies:" in done.text
    assert "mandatory" not in done.text


def test_a_fabric_that_is_open_to_the_world_fails(sandbox: Sandbox) -> None:
    program = sandbox.project / "components" / "network_fabric.py"
    before = program.read_text()
    assert before.count("list(args.settings.source_ranges)") == 1
    sandbox.pulumi("stack", "init", "open").ok()
    file = sandbox.project / "Pulumi.staging.yaml"
    (sandbox.project / "Pulumi.open.yaml").write_text(file.read_text())
    program.write_text(before.replace("list(args.settings.source_ranges)", '["0.0.0.0/0"]'))
    try:
        done = sandbox.pulumi("preview", "--stack", "open", *PACK)
    finally:
        program.write_text(before)
    assert done.code != 0
    assert "[mandatory]" in done.text
    assert "0.0.0.0/0" in done.text
    assert "fabric-internal-1" in done.text
