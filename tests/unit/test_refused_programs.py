"""A program whose workloads are refused ends with one error, as the SDK ends programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.stack_config import PROJECT_FOLDER
from tests.unit.fake_engine import FakeEngine, running_engine
from tests.unit.workload_samples import Document, gpu_container, job, pod

# What a language host does around a program: the released one waits for its threads before it ends
# (pulumi 3.274.1, sdk/python/cmd/pulumi-language-python-exec).
HOST = """
import asyncio, json, sys
from concurrent.futures import ThreadPoolExecutor

import pulumi
from components.workload_transform import GpuDirectWorkloads
from tests.unit.workload_samples import MEGA

address, jobs = sys.argv[1], json.loads(sys.argv[2])


async def program():
    pulumi.runtime.register_resource_transform(GpuDirectWorkloads(MEGA).transform)
    for name, props in jobs.items():
        pulumi.CustomResource("kubernetes:batch/v1:Job", name, props)


pulumi.runtime.configure(
    pulumi.runtime.Settings(project="p", stack="s", monitor=address, engine=address, parallel=16)
)
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
threads = ThreadPoolExecutor(16)
loop.set_default_executor(threads)
code = 1
try:
    loop.run_until_complete(pulumi.runtime.run_in_stack(program))
    code = 0
except pulumi.RunError as error:
    pulumi.log.error(str(error))
finally:
    threads.shutdown(wait=True)
    loop.close()
sys.exit(code)
"""


def run(engine: FakeEngine, **jobs: Document) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HOST, engine.address, json.dumps(jobs)],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def with_gpus(count: int, **spec: Any) -> Document:
    return job(pod(gpu_container(resources={"limits": {"nvidia.com/gpu": count}}), **spec))


@pytest.fixture
def right() -> Document:
    return with_gpus(8)


def test_a_program_whose_workloads_are_right_ends_well(right: Document) -> None:
    with running_engine() as engine:
        done = run(engine, lark=right)
    assert (done.returncode, engine.errors) == (0, []), done.stderr
    assert "tcpxo-daemon" in str(engine.registered["lark"])


def test_every_refusal_is_in_one_error_without_a_trace(right: Document) -> None:
    with running_engine() as engine:
        done = run(engine, wren=with_gpus(4, hostPID=True), lark=right, swift=with_gpus(16))
    assert done.returncode == 1
    # gRPC's own loop may complain of being closed as the process ends; that is no program's trace.
    assert not re.search(r'Traceback[^\n]*\n(?!\s+File "src/python/grpcio/)', done.stderr)
    (error,) = engine.errors
    assert "Traceback" not in error
    assert 'File "' not in error
    blocks = sorted(error.split("\n\n"))
    assert [block.splitlines()[0] for block in blocks] == [
        "swift cannot be given GPUDirect:",
        "wren cannot be given GPUDirect:",
    ]
    assert "spec.template.spec.hostPID: hostPID is refused by Autopilot" in blocks[1]
    assert {"wren", "swift"}.isdisjoint(engine.registered)


def test_a_refusal_of_the_last_workload_is_the_same(right: Document) -> None:
    with running_engine() as engine:
        done = run(engine, lark=right, swift=with_gpus(16))
    assert done.returncode == 1
    (error,) = engine.errors
    assert error.startswith("swift cannot be given GPUDirect:\n- Job/lark: spec.template.spec.")
