"""How long it takes to put GPUDirect into manifests, and how much memory.

Run it from the checkout: `python -m benchmarks.render`. Prints seconds of one core for 1,000
documents (plain data and YAML to YAML) and seconds and peak memory for a 50 MB stream.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from gpudirect.manifest_stream import RenderRequest, render_stream
from gpudirect.releases import load_releases
from gpudirect.stacks import A3_MEGA, STACKS, GpuStack
from gpudirect.workload_environment import Environment
from gpudirect.workloads import errors_in, render_documents
from gpudirect.yaml_documents import StreamWriter

DOCUMENTS = 1000
STREAM_BYTES = 50_000_000
LIMIT_SECONDS = 5.0

JOB = """\
# Job {number} of a queue: downloads, trains, logs.
apiVersion: batch/v1
kind: Job
metadata:
  name: job-{number}
  labels: {{team: birds}}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    metadata:
      annotations:
        gke-gcsfuse/volumes: "true"
    spec:
      restartPolicy: Never
      initContainers:
      - name: fetch
        image: registry.example/fetch:3
        volumeMounts: [{{name: scratch, mountPath: /scratch}}]
      containers:
      - name: train  # takes the whole node
        image: registry.example/train:0.{number}
        command: [bash, -c, "torchrun --nnodes=2 train.py"]
        env:
        - {{name: LD_LIBRARY_PATH, value: /opt/train/lib}}
        - name: SEED
          value: "{number}"
        resources:
          limits: {{nvidia.com/gpu: 8}}
        volumeMounts:
        - {{name: scratch, mountPath: /scratch}}
      - name: logs
        image: registry.example/logs:1
      volumes:
      - {{name: scratch, emptyDir: {{}}}}
"""

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {{name: scripts-{number}}}
data:
  run.sh: |
{lines}
"""


def main() -> int:
    """Print the figures; exit code 1 when 1,000 documents take longer than they may."""
    # First, while this process has held nothing large yet.
    _measure_stream(_environment(A3_MEGA))
    slowest = 0.0
    for stack in STACKS.values():
        environment = _environment(stack)
        text = "---\n".join(JOB.format(number=number) for number in range(DOCUMENTS))
        plain = list(yaml.load_all(text, yaml.CSafeLoader))
        seconds = _seconds(lambda: _render_plain(plain, environment))  # noqa: B023 - called here
        print(f"{stack.name}: {DOCUMENTS} documents as plain data: {seconds:.2f} s")
        lines = text.splitlines(keepends=True)
        seconds = _seconds(lambda: _render_text(lines, environment))  # noqa: B023 - called here
        print(f"{stack.name}: {DOCUMENTS} documents, YAML to YAML:  {seconds:.2f} s")
        slowest = max(slowest, seconds)
    print(f"aim: {DOCUMENTS} documents in {LIMIT_SECONDS:.0f} s on one core")
    return 0 if slowest < LIMIT_SECONDS else 1


def _environment(stack: GpuStack) -> Environment:
    return Environment(
        stack=stack,
        release=load_releases().default(stack.name),
        networks=stack.default_network_names,
    )


def _render_plain(documents: list[dict[str, object]], environment: Environment) -> None:
    _rendered, findings = render_documents(documents, environment)
    if errors_in(findings):
        raise SystemExit(str(findings[0]))


def _render_text(lines: list[str], environment: Environment) -> None:
    summary = render_stream(
        lines, RenderRequest(environment=environment), writer=StreamWriter(lambda _text: None)
    )
    if summary.changed != DOCUMENTS:
        raise SystemExit(f"{summary.changed} of {DOCUMENTS} documents came out changed")


def _measure_stream(environment: Environment) -> None:
    """Render a stream of scripts and Jobs from a file to a file."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.yaml", Path(folder) / "out.yaml"
        with source.open("w", encoding="utf-8") as out:
            for text in _stream():
                out.write(text)
        size = source.stat().st_size / 1e6
        before = _peak_megabytes()
        started = time.perf_counter()
        with source.open(encoding="utf-8", newline="") as lines, target.open("w") as out:
            summary = render_stream(
                lines, RenderRequest(environment=environment), writer=StreamWriter(out.write)
            )
        seconds = time.perf_counter() - started
        print(
            f"stream of {size:.0f} MB, {summary.documents} documents, {summary.changed} of them "
            f"rendered: {seconds:.1f} s, peak memory {_peak_megabytes():.0f} MB "
            f"({_peak_megabytes() - before:.0f} MB more than before)"
        )


def _stream() -> Iterator[str]:
    lines = "".join(f"    echo {number} # a line of a script\n" for number in range(1000))
    written = number = 0
    while written < STREAM_BYTES:
        text = (
            JOB.format(number=number)
            if number % 2
            else CONFIG_MAP.format(number=number, lines=lines)
        )
        text = f"---\n{text}"
        written += len(text)
        number += 1
        yield text


def _seconds(work: Callable[[], None]) -> float:
    """Return the better of two runs in seconds of this process's own time on a core."""
    times = []
    for _ in range(2):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
