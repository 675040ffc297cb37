"""What the renderer makes is admitted by Autopilot's rules; what it was made from is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudirect.stacks import STACKS
from gpudirect.workloads import render_documents
from tests.gke.conftest import RunningCluster
from tests.unit.test_examples import EXAMPLES, environment, gpu_templates


def _pods(documents: list[Any]) -> list[dict[str, Any]]:
    """Return each GPU template as a Pod: the kinds around them are not in a bare cluster."""
    templates = [template for document in documents for template in gpu_templates(document)]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template.get("metadata", {}), "name": f"example-{n}"},
            "spec": template["spec"],
        }
        for n, template in enumerate(templates)
    ]


@pytest.mark.sandbox
@pytest.mark.parametrize("stack_name", list(STACKS))
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_rendered_examples_are_admitted_and_plain_ones_are_not(
    cluster: RunningCluster, path: Path, stack_name: str
) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    rendered, _ = render_documents(documents, environment(stack_name))
    dry_run = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    admitted = cluster.kubectl(*dry_run, manifest=_pods(rendered))
    assert admitted.returncode == 0, admitted.stderr
    refused = cluster.kubectl(*dry_run, manifest=_pods(documents))
    assert refused.returncode != 0
    assert "autogke-gpu-limitation" in refused.stderr
