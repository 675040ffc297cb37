"""Startup and readiness probes.

Owns one look at a container as a probe does it, and the waiting between looks. Liveness probes
are taken to succeed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from sandbox.gke.pods.container import Container
from sandbox.gke.pods.programs.system import run
from sandbox.gke.pods.shell.streams import NoOutput

KubeObject = dict[str, Any]
_HEALTH_PORT = 7332
_LEAST_BUDGET_SECONDS = 5.0
_LEAST_PERIOD_SECONDS = 0.2


async def succeeds(probe: KubeObject, container: Container) -> bool:
    """Probe once."""
    command = (probe.get("exec") or {}).get("command")
    if command:
        process = container.process(NoOutput(), NoOutput())
        try:
            async with asyncio.timeout(float(probe.get("timeoutSeconds") or 1)):
                return await run(process, [str(word) for word in command]) == 0
        except TimeoutError:
            return False
    target = probe.get("httpGet") or probe.get("tcpSocket") or {}
    if target.get("port") == _HEALTH_PORT:
        return container.pod.daemon is not None
    return True


async def wait_for_success(probe: KubeObject, container: Container) -> bool:
    """Probe until it succeeds.

    Returns:
        False if it failed as often as allowed; at pace 0 at least for some real seconds, so that
        work elsewhere can end first.
    """
    clock = container.world.clock
    period = float(probe.get("periodSeconds") or 10)
    tries = int(probe.get("failureThreshold") or 3)
    await clock.pass_seconds(float(probe.get("initialDelaySeconds") or 0))
    deadline = time.monotonic() + max(period * tries * clock.pace, _LEAST_BUDGET_SECONDS)
    while True:
        since = clock.news.version
        if await succeeds(probe, container):
            return True
        if time.monotonic() > deadline:
            return False
        await clock.news.wait(since, max(period * clock.pace, _LEAST_PERIOD_SECONDS))
        await asyncio.sleep(0.01)
