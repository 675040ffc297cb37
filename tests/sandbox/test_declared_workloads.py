"""Workloads of a user's own Pulumi program, under the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sandbox.harness import Done, Sandbox
from tests.unit.workload_samples import MEGA, assert_complete

# Renders into a folder in place of a cluster: what is asked here ends before one is needed.
PROGRAM = """\
import os
import sys

# The provider takes it for a cluster of its own.
os.environ.pop("KUBECONFIG", None)
sys.path.insert(0, {project!r})

import pulumi
import pulumi_kubernetes as kubernetes

from components.workload_transform import GpuDirectWorkloads
from gpudirect.releases import load_releases
from gpudirect.stacks import A3_MEGA
from gpudirect.workloads import Environment

environment = Environment(
    stack=A3_MEGA,
    release=load_releases().default("a3-mega"),
    networks=A3_MEGA.default_network_names,
)
pulumi.runtime.register_resource_transform(GpuDirectWorkloads(environment).transform)
provider = kubernetes.Provider("yaml", render_yaml_to_directory="rendered")


def job(name, gpus, **spec):
    container = {{
        "name": "train",
        "image": "registry.example/train:1",
        "resources": {{"limits": {{"nvidia.com/gpu": gpus}}}},
    }}
    pod = {{"restartPolicy": "Never", "containers": [container], **spec}}
    kubernetes.batch.v1.Job(
        name,
        metadata={{"name": name}},
        spec={{"template": {{"spec": pod}}}},
        opts=pulumi.ResourceOptions(provider=provider),
    )


{jobs}
"""


@pytest.fixture
def program(sandbox: Sandbox, tmp_path: Path) -> Program:
    return Program(sandbox, tmp_path)


class Program:
    """A program of the user's with some Jobs."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self._sandbox, self.folder = sandbox, folder
        (folder / "Pulumi.yaml").write_text("name: of-a-user\nruntime: python\n")
        self._pulumi("stack", "init", folder.name).ok()

    def up(self, *jobs: str) -> Done:
        text = PROGRAM.format(project=str(self._sandbox.project), jobs="\n".join(jobs))
        (self.folder / "__main__.py").write_text(text)
        return self._pulumi("up", "--yes", "--skip-preview", "--stack", self.folder.name)

    def rendered(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "rendered").rglob("*.yaml"))
        return [yaml.safe_load(file.read_text()) for file in files]

    def _pulumi(self, *words: str) -> Done:
        return self._sandbox.pulumi("-C", str(self.folder), *words)


def test_a_declared_job_gets_gpudirect_from_the_transform(program: Program) -> None:
    program.up('job("lark", 8)').ok()
    (job,) = program.rendered()
    assert_complete(job["spec"]["template"], MEGA)


def test_refused_jobs_are_one_error_without_a_trace_and_none_is_created(program: Program) -> None:
    done = program.up('job("wren", 4, hostPID=True)', 'job("lark", 8)', 'job("swift", 16)')
    assert done.code != 0
    assert "Traceback" not in done.text
    assert 'File "' not in done.text
    assert "invoke transform" not in done.text
    for words in ("wren cannot be given GPUDirect:", "swift cannot be given GPUDirect:"):
        assert done.text.partition("Diagnostics:")[2].count(words) == 1
    assert "spec.template.spec.hostPID" in done.text
    assert not [job for job in program.rendered() if job["metadata"]["name"] != "lark"]
