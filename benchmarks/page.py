"""The page's own procedure against `pulumi up`, and both against what the API imposes.

Each way starts in a sandbox of its own in which no API is on yet, at the same pace, under the same
names: so every operation takes the same time for both.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from benchmarks.bound import Chain, Operation, creation, deletion, holdings, longest
from benchmarks.figures import Result
from benchmarks.ground import LONGEST_SECONDS, Ground, Say, ground
from benchmarks.run_watch import RunWatch

STACKS = {"a3-high": ("staging", "us-central1", 4), "a3-mega": ("dev", "us-east4", 8)}
"""GPU stack -> stack file, region, GPU NICs of a node."""
AIM_OF_BOUND = 1.10
AIM_OF_SCRIPT = 1.5


def run(pace: float, gpu_stacks: tuple[str, ...], say: Say) -> Result:
    """Compare script, `pulumi up`, `pulumi destroy` and bounds for each GPU stack."""
    result = Result(name="page")
    for gpu_stack in gpu_stacks:
        with ground(pace) as at:
            _program(at, gpu_stack, result, say)
        if shutil.which("gcloud"):
            with ground(pace) as at:
                _script(at, gpu_stack, result, say)
            _compare(gpu_stack, result)
        else:
            result.notes.append(
                f"{gpu_stack}: the page's script was left out, for gcloud is not installed."
            )
    return result


def _program(at: Ground, gpu_stack: str, result: Result, say: Say) -> None:
    stack, _, nics = STACKS[gpu_stack]
    configure(at, stack, nics)
    say(f"{gpu_stack}: pulumi up")
    since = time.time()
    watch = RunWatch(at)
    with watch.watching():
        up = at.pulumi("up", "--yes", "--skip-preview", "--stack", stack).seconds
    test = watch.seconds
    operations = creation(at.cloud.operations(), since)
    made, safe = longest(operations), longest(_subnets_first(operations))
    clusters = {
        cluster["name"]: "projects/{project}/locations/{location}/clusters/{name}".format_map(
            cluster
        )
        for cluster in at.cloud.clusters()
    }
    instances = [
        instance
        for scope in at.cloud.compute("GET", "aggregated/instances")["items"].values()
        for instance in scope.get("instances", ())
    ]
    say(f"{gpu_stack}: pulumi destroy")
    since = time.time()
    destroy = at.pulumi("destroy", "--yes", "--skip-preview", "--stack", stack).seconds
    gone = longest(deletion(at.cloud.operations(), since, holdings(instances, clusters)))
    bound = made.seconds + test
    result.add(f"{gpu_stack} bound of up", bound)
    result.add(f"{gpu_stack} nodes and test, of it", test)
    result.add(f"{gpu_stack} pulumi up", up)
    result.add(f"{gpu_stack} up / bound", up / bound, "x", aim=AIM_OF_BOUND)
    result.add(f"{gpu_stack} of up: the cluster waits for its subnets", safe.seconds - made.seconds)
    result.add(f"{gpu_stack} of up: ours", up - safe.seconds - test)
    result.add(f"{gpu_stack} bound of destroy", gone.seconds)
    result.add(f"{gpu_stack} pulumi destroy", destroy)
    result.add(f"{gpu_stack} destroy / bound", destroy / gone.seconds, "x", aim=AIM_OF_BOUND)
    result.notes += [
        f"{gpu_stack} bound of up: {_text(made)} -> nodes and test ({test:.1f} s)",
        f"{gpu_stack} bound of destroy: {_text(gone)}",
    ]


def _subnets_first(operations: Iterable[Operation]) -> list[Operation]:
    """Return the operations with the one edge that the program adds to what the API imposes.

    The cluster is made after the GPU subnets, so that it is deleted before them: its nodes hold
    NICs there, and Google refuses to delete a subnet in use.
    """
    operations = list(operations)
    subnets = {done.name for done in operations if done.action == "subnetworks.insert"}
    return [
        replace(done, after=done.after | subnets) if done.action == "clusters.create" else done
        for done in operations
    ]


def _text(chain: Chain) -> str:
    return chain.describe() or "nothing"


def configure(at: Ground, stack: str, nics: int) -> None:
    """Make a stack that has the page's names and ranges."""
    at.pulumi("stack", "init", stack)
    at.box.set_config(stack, prefix="page")
    paths = {f"fabricSubnets[{n - 1}]": f"192.168.{n}.0/24" for n in range(1, nics + 1)}
    for path, value in {**paths, "fabricSourceRanges[0]": "192.168.0.0/16"}.items():
        at.pulumi("config", "set", "--path", path, value, "--stack", stack)
    at.pulumi("config", "rm", "fabricCidr", "--stack", stack)


def _script(at: Ground, gpu_stack: str, result: Result, say: Say) -> None:
    _, region, _ = STACKS[gpu_stack]
    script = str(Path(at.box.project, "benchmarks", "page_script.sh"))
    at.box.environment |= {"PREFIX": "page", "REGION": region}
    for action in ("up", "down"):
        say(f"{gpu_stack}: the page's script, {action}")
        done = at.box.run("bash", script, action, gpu_stack, timeout=LONGEST_SECONDS).ok()
        result.add(f"{gpu_stack} script {action}", done.seconds)


def _compare(gpu_stack: str, result: Result) -> None:
    seconds = {figure.name: figure.value for figure in result.figures}
    up, script = seconds[f"{gpu_stack} pulumi up"], seconds[f"{gpu_stack} script up"]
    result.add(f"{gpu_stack} script / up", script / up, "x", aim=AIM_OF_SCRIPT, at_least=True)
    most = script / seconds[f"{gpu_stack} bound of up"]
    result.add(f"{gpu_stack} script / bound: the most that any client can gain", most, "x")
    test = seconds[f"{gpu_stack} nodes and test, of it"]
    until_test = (script - test) / (up - test)
    result.add(f"{gpu_stack} script / up, both without nodes and test", until_test, "x")
    destroy, down = seconds[f"{gpu_stack} pulumi destroy"], seconds[f"{gpu_stack} script down"]
    result.add(f"{gpu_stack} script down / destroy", down / destroy, "x")
