"""The examples that the documentation links to are rendered for both stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudirect.releases import load_releases
from gpudirect.stacks import STACKS
from gpudirect.workloads import Environment, errors_in, render_documents

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))


def environment(stack_name: str) -> Environment:
    stack = STACKS[stack_name]
    return Environment(
        stack=stack,
        release=load_releases().default(stack_name),
        networks=stack.default_network_names,
    )


def gpu_templates(value: object) -> list[dict[str, Any]]:
    """Return every Pod template, or Pod, with a GPU container in a document."""
    found: list[dict[str, Any]] = []
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            limits = [c.get("resources", {}).get("limits", {}) for c in spec["containers"]]
            return [value] if any("nvidia.com/gpu" in limit for limit in limits) else []
        for child in value.values():
            found += gpu_templates(child)
    elif isinstance(value, list):
        for child in value:
            found += gpu_templates(child)
    return found


@pytest.mark.parametrize("stack_name", list(STACKS))
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_gpu_pod_of_an_example_gets_its_daemon(path: Path, stack_name: str) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    rendered, findings = render_documents(documents, environment(stack_name))
    assert not errors_in(findings)
    templates = [t for document in rendered for t in gpu_templates(document)]
    assert len(templates) == len([t for d in documents for t in gpu_templates(d)]) > 0
    for template in templates:
        spec = template["spec"]
        names = [c["name"] for c in [*spec.get("initContainers", []), *spec["containers"]]]
        assert STACKS[stack_name].daemon_container in names
