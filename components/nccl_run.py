"""One NCCL run in a cluster: create its objects, wait phase by phase, read the log, clean up.

Owns the Kubernetes side of the smoke test: everything that the Pulumi providers cannot do. Does
not own what is run (`nccl_smoke_test`), how the log is read and judged (`gpudirect.nccl_results`,
`gpudirect.nccl_judgement`) nor why a run failed (`gpudirect.diagnosis`).
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException

from components.nccl_run_provider import LAUNCHER_CONTAINER
from gpudirect.cluster_evidence import collect_evidence
from gpudirect.diagnosis import Evidence
from gpudirect.nccl_results import NcclRun, read_results

Document = dict[str, Any]

_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
_JOB_LABEL = "batch.kubernetes.io/job-name"
# How long one watch stays open: how soon a cancelled run is noticed, and how often a
# waiting run says what it waits for.
_WATCH_SECONDS = 5
_CLEAN_UP_SECONDS = 120
# A Pod that a node could not create, or an image that is not there, does not get better by waiting
# for the whole deadline; kubelet's own back-off has tried a few times by then.
_HOPELESS = {"ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}


class Phase(StrEnum):
    """What a run waits for; each has a deadline of its own."""

    CAPACITY = "capacity"
    PULL = "pull"
    START = "start"
    RUN = "run"
    DONE = "done"


_WAITS_FOR = {
    Phase.CAPACITY: "GPU nodes for every Pod",
    Phase.PULL: "images on the nodes",
    Phase.START: "the receive daemons and the test containers to start",
    Phase.RUN: "the collective to finish",
}


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What one run left behind.

    Attributes:
        run: The launcher's log as data; empty where no log came to be.
        phase: The phase in which the run ended; `Phase.DONE` when the launcher ended by itself.
        problem: Why it ended early, in one sentence, or None.
        evidence: What was to be seen in the cluster before it was cleaned up.
        seconds: How long it took, with the wait for capacity.
    """

    run: NcclRun
    phase: Phase
    problem: str | None
    evidence: Evidence
    seconds: float


class ClusterUnreachableError(RuntimeError):
    """The API server gave no usable answer; the text says which call and what came back."""


class RunInCluster:
    """Runs the objects of one test.

    Args:
        kubeconfig: The cluster's kubeconfig as a mapping.
        documents: The objects to create, one of them a Job.
        networks: Names of the cluster's network objects that the Pods hold NICs in.
        deadlines: Seconds allowed for each `Phase`, by its value.
        report: Takes one line of progress: text, and whether it opens a new phase.
        cancelled: Says whether nobody waits for the result any more.
    """

    def __init__(
        self,
        *,
        kubeconfig: Mapping[str, Any],
        documents: Sequence[Document],
        networks: Sequence[str],
        deadlines: Mapping[str, float],
        report: Callable[[str, bool], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._api_client = kubernetes.config.new_client_from_config_dict(dict(kubeconfig))
        self._core = kubernetes.client.CoreV1Api(self._api_client)
        self._batch = kubernetes.client.BatchV1Api(self._api_client)
        self._networking = kubernetes.client.NetworkingV1Api(self._api_client)
        self._documents = documents
        self._job = next(d for d in documents if d["kind"] == "Job")
        self._name = self._job["metadata"]["name"]
        self._namespace = self._job["metadata"]["namespace"]
        self._pods_wanted = int(self._job["spec"]["completions"])
        self._networks = networks
        self._deadlines = deadlines
        self._report = report
        self._cancelled = cancelled

    def execute(self) -> RunOutcome:
        """Run the test and leave nothing behind.

        Raises:
            ClusterUnreachableError: no API server, no right to use it, or no login helper.
        """
        started = time.monotonic()
        with _explaining():
            # What an earlier, killed run may have left would be taken for this one's.
            self._delete_objects()
        try:
            with _explaining():
                self._create_objects()
                phase, problem = self._wait()
                run = self._read_log()
                evidence = collect_evidence(
                    self._api_client,
                    self._namespace,
                    job=self._name,
                    timed_out=problem is not None and phase is not Phase.DONE,
                    run=run,
                    expected_networks=self._networks,
                )
        finally:
            with contextlib.suppress(ApiException, urllib3.exceptions.HTTPError):
                self._delete_objects()
        return RunOutcome(
            run=run,
            phase=phase,
            problem=problem,
            evidence=evidence,
            seconds=time.monotonic() - started,
        )

    def _wait(self) -> tuple[Phase, str | None]:
        phase = Phase.CAPACITY
        entered = time.monotonic()
        shown, said = "", 0.0
        self._announce(phase)
        for pods in self._pod_states():
            if self._cancelled():
                return phase, "the update was cancelled"
            reached = _phase_of(pods, self._pods_wanted)
            if reached is Phase.DONE:
                return reached, _end_problem(pods)
            problem = _hopeless_problem(pods)
            if problem is not None:
                return phase, problem
            if _ORDER.index(reached) > _ORDER.index(phase):
                phase, entered, said = reached, time.monotonic(), 0.0
                self._announce(phase)
            if not pods and (refusal := self._refusal()) is not None:
                return phase, refusal
            waited = time.monotonic() - entered
            if waited > self._deadlines[phase.value]:
                return phase, (
                    f"waited {waited:.0f} s for {_WAITS_FOR[phase]}, "
                    f"the deadline of this phase is {self._deadlines[phase.value]:.0f} s"
                )
            summary = _summary(pods)
            if summary != shown or waited - said >= _WATCH_SECONDS:
                self._report(f"{phase.value}: {waited:.0f} s; {summary}", False)
                shown, said = summary, waited
        raise AssertionError("the stream of Pod states never ends by itself")

    def _announce(self, phase: Phase) -> None:
        deadline = self._deadlines[phase.value]
        self._report(
            f"{phase.value}: waiting for {_WAITS_FOR[phase]} (at most {deadline:.0f} s)", True
        )

    def _pod_states(self) -> Iterator[list[Any]]:
        """Yield the Pods of the Job whenever one changed, and every few seconds otherwise."""
        selector = f"{_JOB_LABEL}={self._name}"
        while True:
            listed = self._core.list_namespaced_pod(self._namespace, label_selector=selector)
            pods = {pod.metadata.name: pod for pod in listed.items}
            yield list(pods.values())
            watch = kubernetes.watch.Watch()
            try:
                for event in watch.stream(
                    self._core.list_namespaced_pod,
                    self._namespace,
                    label_selector=selector,
                    resource_version=listed.metadata.resource_version,
                    timeout_seconds=_WATCH_SECONDS,
                ):
                    pod = event["object"]
                    if event["type"] == "DELETED":
                        pods.pop(pod.metadata.name, None)
                    else:
                        pods[pod.metadata.name] = pod
                    yield list(pods.values())
            except ApiException as error:
                # The version is too old for the server: list anew.
                if error.status != 410:
                    raise

    def _refusal(self) -> str | None:
        """Return why the Job controller could not create a Pod, if it could not."""
        events = self._core.list_namespaced_event(
            self._namespace,
            field_selector=f"involvedObject.name={self._name},reason=FailedCreate",
        )
        if not events.items:
            return None
        return f"the cluster refused the Pods of the run: {events.items[-1].message}"

    def _read_log(self) -> NcclRun:
        for pod in self._core.list_namespaced_pod(
            self._namespace, label_selector=f"{_JOB_LABEL}={self._name},{_INDEX_LABEL}=0"
        ).items:
            with contextlib.suppress(ApiException):
                response = self._core.read_namespaced_pod_log(
                    pod.metadata.name,
                    self._namespace,
                    container=LAUNCHER_CONTAINER,
                    _preload_content=False,
                )
                return read_results(_lines(response))
        return read_results([])

    def _create_objects(self) -> None:
        for document in self._documents:
            self._calls(document)[0](self._namespace, document)

    def _delete_objects(self) -> None:
        for document in reversed(self._documents):
            with _ignoring_not_found():
                self._calls(document)[1](
                    document["metadata"]["name"],
                    self._namespace,
                    propagation_policy="Foreground",
                )
        deadline = time.monotonic() + _CLEAN_UP_SECONDS
        watch = kubernetes.watch.Watch()
        while time.monotonic() < deadline:
            jobs = self._batch.list_namespaced_job(
                self._namespace, field_selector=f"metadata.name={self._name}"
            )
            if not jobs.items:
                return
            for event in watch.stream(
                self._batch.list_namespaced_job,
                self._namespace,
                field_selector=f"metadata.name={self._name}",
                resource_version=jobs.metadata.resource_version,
                timeout_seconds=_WATCH_SECONDS,
            ):
                if event["type"] == "DELETED":
                    return

    def _calls(self, document: Document) -> tuple[Callable[..., Any], Callable[..., Any]]:
        match document["kind"]:
            case "Service":
                return self._core.create_namespaced_service, self._core.delete_namespaced_service
            case "NetworkPolicy":
                return (
                    self._networking.create_namespaced_network_policy,
                    self._networking.delete_namespaced_network_policy,
                )
            case "Job":
                return self._batch.create_namespaced_job, self._batch.delete_namespaced_job
            case kind:
                raise ValueError(f"a run is made of Service, NetworkPolicy and Job, got {kind}")


_ORDER = list(Phase)


def _statuses(pod: Any) -> list[Any]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def _launcher(pods: Sequence[Any]) -> Any | None:
    return next((pod for pod in pods if (pod.metadata.labels or {}).get(_INDEX_LABEL) == "0"), None)


def _container_state(pod: Any | None, container: str) -> Any | None:
    if pod is None:
        return None
    return next((s.state for s in _statuses(pod) if s.name == container), None)


def _phase_of(pods: Sequence[Any], wanted: int) -> Phase:
    """Return how far the Pods have come, the slowest deciding."""
    state = _container_state(_launcher(pods), LAUNCHER_CONTAINER)
    if state is not None and state.terminated is not None:
        return Phase.DONE
    if len(pods) < wanted or not all(pod.spec.node_name for pod in pods):
        return Phase.CAPACITY
    if not all(_statuses(pod) and all(s.image_id for s in _statuses(pod)) for pod in pods):
        return Phase.PULL
    running = [_container_state(pod, LAUNCHER_CONTAINER) for pod in pods]
    if not all(state is not None and state.running is not None for state in running):
        return Phase.START
    return Phase.RUN


def _hopeless_problem(pods: Sequence[Any]) -> str | None:
    """Return what will not mend itself however long one waits."""
    for pod in pods:
        for status in _statuses(pod):
            where = f"{pod.metadata.name}, container {status.name}"
            waiting = status.state and status.state.waiting
            if waiting is not None and waiting.reason in _HOPELESS:
                return f"{where}: {waiting.reason}: {waiting.message}"
            ended = status.state and status.state.terminated
            # A receive daemon that stopped before its Pod's work is a failure whatever its exit
            # code [R04]; afterwards kubelet stops it.
            own_work = _container_state(pod, LAUNCHER_CONTAINER)
            if own_work is not None and own_work.terminated is not None:
                continue
            if ended is not None and status.name != LAUNCHER_CONTAINER:
                return f"{where} stopped with exit code {ended.exit_code}"
    return None


def _end_problem(pods: Sequence[Any]) -> str | None:
    ended = _container_state(_launcher(pods), LAUNCHER_CONTAINER)
    if ended is None or ended.terminated.exit_code == 0:
        return None
    return f"the launcher ended with exit code {ended.terminated.exit_code}"


def _summary(pods: Sequence[Any]) -> str:
    parts = []
    for pod in sorted(pods, key=lambda pod: str(pod.metadata.name)):
        waiting = [s.state.waiting for s in _statuses(pod) if s.state and s.state.waiting]
        detail = waiting[0].reason if waiting else pod.status.phase
        parts.append(f"{pod.metadata.name} {detail}")
    return ", ".join(parts) or "no Pod yet"


def _lines(response: Any) -> Iterator[str]:
    """Yield the lines of a streamed answer without holding all of it."""
    rest = b""
    for chunk in response.stream(65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")


@contextlib.contextmanager
def _ignoring_not_found() -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        if error.status != 404:
            raise


@contextlib.contextmanager
def _explaining() -> Iterator[None]:
    """Turn what the client library raises into one sentence."""
    try:
        yield
    except ApiException as error:
        raise ClusterUnreachableError(
            f"the API server answered {error.status} {error.reason}: {error.body}"
        ) from error
    except urllib3.exceptions.HTTPError as error:
        raise ClusterUnreachableError(f"the API server cannot be reached: {error}") from error
    except kubernetes.config.ConfigException as error:
        raise ClusterUnreachableError(f"no login to the cluster: {error}") from error
