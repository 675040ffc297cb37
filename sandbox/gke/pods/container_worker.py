"""One container of a Pod: pulling its image, making it, running it, restarting it.

Owns the life of one container as the kubelet leads it. Does not own the order of containers in a
Pod (`pod_worker`).
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Protocol

from sandbox.gke.pods.container import Container
from sandbox.gke.pods.container_status import ContainerStatus
from sandbox.gke.pods.creation import Created, CreationError, create_container
from sandbox.gke.pods.environment import command_of
from sandbox.gke.pods.events import EventRecorder
from sandbox.gke.pods.image_files import default_command
from sandbox.gke.pods.images import Image, parse_image, pull_problem
from sandbox.gke.pods.logs import ContainerLog, log_file
from sandbox.gke.pods.pod_spec import gpus_of
from sandbox.gke.pods.probes import succeeds, wait_for_success
from sandbox.gke.pods.programs.system import run
from sandbox.gke.pods.shell.process import Process
from sandbox.gke.pods.world import PodRecord, World

KubeObject = dict[str, Any]
_FIRST_BACKOFF_SECONDS = 10.0
_LONGEST_BACKOFF_SECONDS = 300.0
_FIRST_REAL_BACKOFF_SECONDS = 0.5
_LONGEST_REAL_BACKOFF_SECONDS = 30.0
_START_FAILED = 128
_LAST_EXIT_GRACE_SECONDS = 0.05
_log = logging.getLogger(__name__)


class Surroundings(Protocol):
    """What a container worker needs of its Pod."""

    pod: PodRecord
    world: World
    recorder: EventRecorder
    home: Path

    async def fetch(self, kind: str, name: str) -> KubeObject | None:
        """Fetch a ConfigMap or Secret of the Pod's namespace."""
        ...

    def status_changed(self) -> None:
        """Have the Pod's status written soon."""
        ...


class ContainerWorker:
    """Leads one container.

    Attributes:
        status: What the Pod's status says about it.
        started: Set once it counts as started; a failing sidecar sets it as well when it has run.
        finished: Set when it ended and will not be started again.
    """

    def __init__(
        self,
        spec: KubeObject,
        around: Surroundings,
        *,
        init: bool,
        sidecar: bool,
        policy: str,
        waiting_reason: str,
    ) -> None:
        self._spec = spec
        self._around = around
        self._init = init
        self._sidecar = sidecar
        self._policy = policy
        self._pulled = False
        self.started = asyncio.Event()
        self.finished = asyncio.Event()
        self.status = ContainerStatus(
            name=spec["name"], image=spec.get("image", ""), init=init, sidecar=sidecar
        )
        self.status.wait(waiting_reason)

    async def run(self) -> None:
        """Run the container, and run it again as the restart policy says, until cancelled."""
        failures = 0
        while True:
            code = await self._run_once()
            if not self._restarts(code):
                self.finished.set()
                return
            self.status.restart()
            failures += 1
            await self._back_off(failures, code)

    def _restarts(self, code: int) -> bool:
        if self._sidecar:
            return True
        if self._init:
            return code != 0 and self._policy != "Never"
        return self._policy == "Always" or (self._policy == "OnFailure" and code != 0)

    async def _run_once(self) -> int:
        image = await self._pull()
        created = await self._create(image)
        command = self._command(created.container, image)
        log = self._open_log()
        try:
            return await self._run_process(created, command, log)
        finally:
            log.close()

    async def _run_process(self, created: Created, command: list[str], log: ContainerLog) -> int:
        container, status = created.container, self.status
        first = container.process(log.stdout, log.stderr)
        if command and container.program(command[0], first) is None:
            return self._cannot_start(command[0], created)
        self._event("Started", f"Container started: {status.name}")
        status.run(created.container_id)
        self._around.pod.containers[status.name] = container
        self._news()
        prober = asyncio.create_task(self._probe(container))
        main = asyncio.create_task(self._execute(first, container, command))
        try:
            await asyncio.wait({main, prober}, return_when=asyncio.FIRST_COMPLETED)
            killed = not main.done() and not prober.result()
            if killed:
                main.cancel()
            await asyncio.wait({main})
            code = 137 if killed or main.cancelled() else main.result()
        finally:
            prober.cancel()
            main.cancel()
            await asyncio.gather(main, prober, return_exceptions=True)
            self._forget(container)
        status.end(code)
        self._news()
        return code

    def _command(self, container: Container, image: Image) -> list[str]:
        words = command_of(self._spec, container.environment)
        if self._spec.get("command"):
            return words
        own = default_command(image)
        return words if own is None else [*own, *words]

    async def _execute(self, process: Process, container: Container, command: list[str]) -> int:
        """Run the main process; an image with an unknown command serves or works."""
        working = self._spec.get("workingDir")
        if working:
            container.files.make_folder(working)
            process.directory = working
        if not command:
            if container.runs_to_completion:
                return 0
            await container.sleep_for_ever()
        try:
            return await run(process, command)
        except Exception:  # noqa: BLE001 - programs are many, and each may be odd
            # A mistake of the simulation must not take the node's other Pods with it.
            _log.exception("%s in %s", self.status.name, self._around.pod.name)
            await process.complain("(simulated: the simulation failed here; see its own log)")
            return 1

    def _open_log(self) -> ContainerLog:
        pod, status = self._around.pod, self.status
        home = self._around.home
        return ContainerLog(
            log_file(home, pod.namespace, pod.name, pod.uid, status.name, status.restarts)
        )

    def _forget(self, container: Container) -> None:
        """Take a container that ended out of its Pod."""
        pod = self._around.pod
        pod.containers.pop(self.status.name, None)
        for port, listener in list(pod.listeners.items()):
            if listener is container:
                del pod.listeners[port]

    def _cannot_start(self, command: str, created: Created) -> int:
        message = (
            "failed to create containerd task: failed to create shim task: OCI runtime create"
            f' failed: runc create failed: unable to start container process: exec: "{command}":'
            + (
                " stat " + command + ": no such file or directory: unknown"
                if "/" in command
                else " executable file not found in $PATH: unknown"
            )
        )
        self._event("Failed", f"Error: {message}", warning=True)
        self.status.container_id = created.container_id
        self.status.end(_START_FAILED, "StartError", message)
        self._news()
        return _START_FAILED

    async def _probe(self, container: Container) -> bool:
        """Work the startup and readiness probes; False: the container is to be killed."""
        startup = self._spec.get("startupProbe")
        if startup is not None and not await wait_for_success(startup, container):
            self._event("Unhealthy", "Startup probe failed: ", warning=True)
            self._event(
                "Killing", f"Container {self.status.name} failed startup probe, will be restarted"
            )
            return False
        self.status.started = True
        self.started.set()
        readiness = self._spec.get("readinessProbe")
        if readiness is not None:
            await self._wait_until_ready(readiness, container)
        self.status.ready = True
        self._news()
        await container.sleep_for_ever()
        return True

    async def _wait_until_ready(self, probe: KubeObject, container: Container) -> None:
        self._news()
        while not await wait_for_success(probe, container):
            self._event("Unhealthy", "Readiness probe failed: ", warning=True)
            if not await succeeds(probe, container):
                await asyncio.sleep(_LAST_EXIT_GRACE_SECONDS)

    async def _pull(self) -> Image:
        """Get the image; a pull that fails is tried again for ever, ever more slowly."""
        reference = self._spec.get("image", "")
        image = parse_image(reference)
        tries = 0
        if image is None:
            message = f'Failed to apply default image tag "{reference}": couldn\'t parse image name'
            self.status.wait("InvalidImageName", message)
            self._event("InspectFailed", message, warning=True)
            self._news()
            await self._around.world.clock.sleep_for_ever()
            raise AssertionError
        policy = self._spec.get("imagePullPolicy") or "IfNotPresent"
        if self._pulled and policy != "Always":
            return image
        while True:
            self._event("Pulling", f'Pulling image "{reference}"')
            problem = pull_problem(image)
            if problem is None:
                break
            tries += 1
            self._event("Failed", f'Failed to pull image "{reference}": {problem}', warning=True)
            self._event("Failed", "Error: ErrImagePull", warning=True)
            self.status.wait("ErrImagePull", problem)
            self._news()
            await asyncio.sleep(_LAST_EXIT_GRACE_SECONDS)
            shown = f'Back-off pulling image "{reference}"'
            self._event("BackOff", shown)
            self._event("Failed", "Error: ImagePullBackOff", warning=True)
            self.status.wait("ImagePullBackOff", f"{shown}: ErrImagePull: {problem}")
            self._news()
            await asyncio.sleep(self._delay(tries))
        if not self._pulled:
            await self._around.world.clock.pass_seconds(image.pull_seconds)
        self._pulled = True
        self.status.image = image.full_name
        self.status.image_id = image.full_name
        self._event("Pulled", f'Successfully pulled image "{reference}"')
        return image

    async def _create(self, image: Image) -> Created:
        """Make the container, trying again when something on the node changed."""
        around = self._around
        tries = 0
        while True:
            while around.pod.node.preparing and gpus_of(around.pod.object):
                await around.world.news.wait(around.world.news.version)
            since = around.world.news.version
            try:
                created = await create_container(
                    self._spec, image, around.pod, around.world, around.fetch, init=self._init
                )
            except CreationError as error:
                self.status.wait(error.reason, error.message)
                self.status_news()
                self._event("Failed", f"Error: {error.message}", warning=True)
                tries += 1
                await asyncio.sleep(max(0.2, 5 * around.world.clock.pace))
                await around.world.news.wait(since, self._delay(tries))
            else:
                self._event("Created", f"Container created: {self.status.name}")
                return created

    async def _back_off(self, failures: int, code: int) -> None:
        """Wait before the next start, as CrashLoopBackOff."""
        name, pod = self.status.name, self._around.pod
        if self._init and not self._sidecar and code == 0:
            return
        usual = min(_FIRST_BACKOFF_SECONDS * (1 << min(failures - 1, 16)), _LONGEST_BACKOFF_SECONDS)
        message = (
            f"back-off {usual:.0f}s restarting failed container={name}"
            f" pod={pod.name}_{pod.namespace}({pod.uid})"
        )
        # The kubelet starts a container again at once after its first end.
        if failures > 1:
            self.status.wait("CrashLoopBackOff", message)
            self.status_news()
            shown = f"{name} in pod {pod.name}_{pod.namespace}({pod.uid})"
            self._event("BackOff", f"Back-off restarting failed container {shown}", warning=True)
        await asyncio.sleep(self._delay(failures) if failures > 1 else _LAST_EXIT_GRACE_SECONDS)

    def _delay(self, failures: int) -> float:
        doublings = float(1 << min(failures - 1, 16))
        usual = min(_FIRST_BACKOFF_SECONDS * doublings, _LONGEST_BACKOFF_SECONDS)
        least = min(_FIRST_REAL_BACKOFF_SECONDS * doublings, _LONGEST_REAL_BACKOFF_SECONDS)
        return max(usual * self._around.world.clock.pace, least)

    def status_news(self) -> None:
        """Have the status written; processes elsewhere see nothing of it."""
        self._around.status_changed()

    def _news(self) -> None:
        self._around.status_changed()
        self._around.world.news.changed()

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        around = self._around
        record = around.recorder.warning if warning else around.recorder.normal
        record(around.pod.object, reason, message, around.pod.node.name)
