"""`make sandbox`: from nothing to the outputs of one stack, as a user would get there by hand.

Owns the order of the commands and the closing lines. The program is reached only through the
Pulumi CLI in its folder; nothing of it is imported.

Usage: python -m sandbox.try_it [STACK]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from sandbox import environment, lifecycle
from sandbox.errors import SandboxError
from sandbox.home import DEFAULT_HOME, PROJECT_FOLDER, Home

_HOME = Home(DEFAULT_HOME)
_PULUMI = str(_HOME.programs / "pulumi")


def run(stack: str) -> None:
    """Start the sandbox, bring one stack up, and say what came out.

    Raises:
        SandboxError: a step failed; what it printed is on the screen already.
    """
    started = time.monotonic()
    _headline("1 of 3", "sandbox: toolchain, cloud")
    running = lifecycle.up(_HOME, os.environ, click.echo, pace=None, port=None)
    click.echo(f"The sandbox answers on http://127.0.0.1:{running.port}.")
    environ = os.environ | environment.variables(_HOME, running.port, os.environ)
    _headline("2 of 3", f"pulumi up on stack {stack}")
    _pulumi(environ, "stack", "select", "--create", stack)
    _pulumi(environ, "up", "--yes", "--stack", stack)
    _headline("3 of 3", "outputs")
    _pulumi(environ, "stack", "output", "--stack", stack)
    verdict = _verdict(environ, stack)
    click.echo(
        f"\n{verdict}\n\nDone in {time.monotonic() - started:.0f} s. To go on by hand in this "
        'shell:\n\n  eval "$(.venv/bin/python -m sandbox env)"\n  '
        f"pulumi preview --stack {stack} --expect-no-changes\n  "
        f"kubectl get networks.networking.gke.io,daemonsets -A\n  "
        f"pulumi destroy --stack {stack}\n  python -m sandbox down"
    )


def _headline(position: str, text: str) -> None:
    click.echo(f"\n=== [{position}] {text}")


def _pulumi(environ: Mapping[str, str], *words: str) -> None:
    done = subprocess.run([_PULUMI, *words], cwd=PROJECT_FOLDER, env=environ, check=False)
    if done.returncode != 0:
        raise SandboxError(
            f"`pulumi {' '.join(words)}` ended with {done.returncode}, for the reason above. The "
            "sandbox runs on: mend it and run `make sandbox` again."
        )


def _verdict(environ: Mapping[str, str], stack: str) -> str:
    """Return the smoke test's result in one sentence."""
    command = [_PULUMI, "stack", "output", "smokeTest", "--json", "--stack", stack]
    done = subprocess.run(
        command, cwd=PROJECT_FOLDER, env=environ, check=True, capture_output=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    sentence = f"NCCL verdict of stack {stack}: {result.get('verdict')}"
    largest = result.get("largest") or {}
    bandwidth = largest.get("outOfPlaceBusBandwidth")
    if bandwidth is not None:
        sentence += (
            f", {bandwidth} GB/s bus bandwidth at {largest.get('sizeBytes')} bytes on "
            f"{result.get('nodes')} nodes"
        )
    if result.get("simulated"):
        sentence += " (simulated: no GPU was used)"
    return sentence


def main() -> None:
    """Read the command line and run."""
    try:
        run(sys.argv[1] if len(sys.argv) > 1 else "dev")
    except SandboxError as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        sys.exit("Interrupted. What was finished is kept: run `make sandbox` again to go on.")


if __name__ == "__main__":
    main()
