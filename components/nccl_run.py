"""One NCCL run in a cluster: create its objects, wait phase by phase, read the log, clean up.

Owns the Kubernetes side of the smoke test: everything that the Pulumi providers cannot do. Does
not own what is run (`nccl_smoke_test`), what the states of Pods mean (`nccl_run_pods`), how the log
is read and judged (`gpudirect.nccl_results`, `gpudirect.nccl_judgement`) nor why a run failed
(`gpudirect.diagnosis`).
"""

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException

from components.nccl_run_pods import (
    INDEX_LABEL,
    Phase,
    end_problem,
    hopeless_problem,
    phase_of,
    summary,
)
from components.nccl_run_provider import LAUNCHER_CONTAINER
from components.pod_watch import PodWatch
from gpudirect.cluster_access import ClusterAccessError, connect
from gpudirect.cluster_evidence import collect_evidence
from gpudirect.diagnosis import Evidence
from gpudirect.nccl_results import NcclRun, lines_of_chunks, read_results
from gpudirect.redaction import redact

__all__ = ["ClusterUnreachableError", "Phase", "RunInCluster", "RunOutcome"]

Document = dict[str, Any]

_JOB_LABEL = "batch.kubernetes.io/job-name"
# How often a waiting run says what it waits for, and how soon a cancelled one ends.
_STATUS_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_CLEAN_UP_SECONDS = 120
_CLEAN_UP_WATCH_SECONDS = 5
_LONGEST_STATUS = 200

_WAITS_FOR = {
    Phase.CAPACITY: "GPU nodes for every Pod",
    Phase.PULL: "images on the nodes",
    Phase.START: "the receive daemons and the test containers to start",
    Phase.RUN: "the collective to finish",
}
# Events by which Autopilot says what it does for a Pod without a node.
_SCALE_UP_REASONS = {"FailedScaleUp", "NotTriggerScaleUp", "TriggeredScaleUp"}


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


@dataclass(frozen=True, kw_only=True)
class _End:
    """How the wait ended: in which phase, why too early, and whether a deadline was the reason."""

    phase: Phase
    problem: str | None
    timed_out: bool = False


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

    Raises:
        ClusterUnreachableError: no API server, no right to use it, or no login helper.
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
        with _explaining():
            self._api_client = connect(kubeconfig)
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
            ClusterUnreachableError: the API server went away or refuses to go on.
        """
        started = time.monotonic()
        with _explaining():
            # What an earlier, killed run may have left would be taken for this one's.
            self._delete_objects()
        try:
            with _explaining():
                refusal = self._create_objects()
                end = (
                    self._wait() if refusal is None else _End(phase=Phase.CAPACITY, problem=refusal)
                )
                run = self._read_log()
                evidence = collect_evidence(
                    self._api_client,
                    self._namespace,
                    job=self._name,
                    timed_out=end.timed_out,
                    run=run,
                    expected_networks=self._networks,
                )
        finally:
            with contextlib.suppress(ApiException, urllib3.exceptions.HTTPError):
                self._delete_objects()
            self._api_client.rest_client.pool_manager.clear()
        return RunOutcome(
            run=run,
            phase=end.phase,
            problem=end.problem,
            evidence=evidence if refusal is None else replace(evidence, messages=(refusal,)),
            seconds=time.monotonic() - started,
        )

    def _wait(self) -> _End:
        """Follow the Pods to the end of the run, or to what ends it early.

        Pods go back and forth between pulling and starting, one image after the other, so that each
        phase has an account of the time spent in it.
        """
        spent: defaultdict[Phase, float] = defaultdict(float)
        phase, announced = Phase.CAPACITY, Phase.CAPACITY
        pods: list[Any] = []
        shown, said, now = "", 0.0, time.monotonic()
        self._announce(phase)
        with PodWatch(self._core, self._namespace, f"{_JOB_LABEL}={self._name}") as watch:
            while True:
                left = self._deadlines[phase.value] - spent[phase]
                news = watch.news(min(_LOOK_SECONDS, left))
                before, now = now, time.monotonic()
                spent[phase] += now - before
                if self._cancelled():
                    return _End(phase=phase, problem="the update was cancelled")
                seen = bool(pods)
                pods = pods if news is None else news
                reached = phase_of(pods, self._pods_wanted)
                if reached is Phase.DONE:
                    return _End(phase=reached, problem=end_problem(pods))
                problem = hopeless_problem(pods) if pods else self._job_problem(seen=seen)
                if problem is not None:
                    return _End(phase=phase, problem=problem)
                phase = reached
                if _ORDER.index(phase) > _ORDER.index(announced):
                    announced = phase
                    self._announce(phase)
                if spent[phase] >= self._deadlines[phase.value]:
                    return _End(
                        phase=phase,
                        problem=f"waited {_duration(spent[phase])} for {_WAITS_FOR[phase]}, the "
                        f"deadline of this phase; at its end: {summary(pods)}",
                        timed_out=True,
                    )
                stands = summary(pods)
                if stands != shown or now - said >= _STATUS_SECONDS:
                    self._say(phase, spent[phase], pods)
                    shown, said = stands, now

    def _announce(self, phase: Phase) -> None:
        deadline = self._deadlines[phase.value]
        self._report(
            f"{phase.value}: waiting for {_WAITS_FOR[phase]} (at most {_duration(deadline)})", True
        )

    def _say(self, phase: Phase, seconds: float, pods: Sequence[Any]) -> None:
        """Show where the run stands; without a node, also what Autopilot says of it."""
        deadline = self._deadlines[phase.value]
        text = f"{phase.value}: {_duration(seconds)} of {_duration(deadline)}; {summary(pods)}"
        if phase is Phase.CAPACITY and (reason := self._scale_up(pods)) is not None:
            text = f"{text}; {reason}"
        self._report(text[:_LONGEST_STATUS], False)

    def _scale_up(self, pods: Sequence[Any]) -> str | None:
        """Return the newest word of Autopilot's about the Pods, most of which have no node."""
        uids = {pod.metadata.uid for pod in pods}
        with contextlib.suppress(ApiException, urllib3.exceptions.HTTPError):
            events = self._core.list_namespaced_event(
                self._namespace, field_selector="involvedObject.kind=Pod"
            ).items
            told = [
                event
                for event in events
                if event.reason in _SCALE_UP_REASONS and event.involved_object.uid in uids
            ]
            if told:
                newest = max(told, key=lambda event: str(event.metadata.creation_timestamp))
                # Of a scale-up the message is the address of an instance group.
                is_good = newest.reason == "TriggeredScaleUp"
                return redact(newest.reason if is_good else f"{newest.reason}: {newest.message}")
        return None

    def _job_problem(self, *, seen: bool) -> str | None:
        """Return why the Job has no Pod, if there is a reason.

        Args:
            seen: Whether it had some a moment ago.
        """
        events = self._core.list_namespaced_event(
            self._namespace,
            field_selector=f"involvedObject.name={self._name},reason=FailedCreate",
        )
        if events.items and not seen:
            return redact(f"the cluster refused the Pods of the run: {events.items[-1].message}")
        jobs = self._batch.list_namespaced_job(
            self._namespace, field_selector=f"metadata.name={self._name}"
        )
        if not jobs.items:
            return "the Job of the run was deleted"
        for condition in jobs.items[0].status.conditions or ():
            if condition.type == "Failed" and condition.status == "True":
                return redact(f"the Job failed: {condition.reason}: {condition.message}")
        return None

    def _read_log(self) -> NcclRun:
        for pod in self._core.list_namespaced_pod(
            self._namespace, label_selector=f"{_JOB_LABEL}={self._name},{INDEX_LABEL}=0"
        ).items:
            with contextlib.suppress(ApiException):
                response = self._core.read_namespaced_pod_log(
                    pod.metadata.name,
                    self._namespace,
                    container=LAUNCHER_CONTAINER,
                    _preload_content=False,
                )
                return read_results(lines_of_chunks(response.stream(65536)))
        return read_results([])

    def _create_objects(self) -> str | None:
        """Create the objects, or return why the cluster refused one."""
        for document in self._documents:
            try:
                self._calls(document)[0](self._namespace, document)
            except ApiException as error:
                if error.status not in _REFUSALS:
                    raise
                return redact(f"the cluster refused the {document['kind']}: {_said(error)}")
        return None

    def _delete_objects(self) -> None:
        for document in reversed(self._documents):
            with _ignoring_not_found():
                self._calls(document)[1](
                    document["metadata"]["name"],
                    self._namespace,
                    # The Job goes when its Pods have gone; the others own nothing.
                    propagation_policy="Foreground" if document["kind"] == "Job" else "Background",
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
                timeout_seconds=_CLEAN_UP_WATCH_SECONDS,
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
# Admission, and an object that the API server finds invalid: answers about the object itself.
_REFUSALS = {400, 403, 422}


def _duration(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02} s"


def _said(error: ApiException) -> str:
    """Return what the API server says, without the envelope."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"


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
            redact(f"the API server answered {error.status} {error.reason}: {_said(error)}")
        ) from error
    except urllib3.exceptions.HTTPError as error:
        raise ClusterUnreachableError(f"the API server cannot be reached: {error}") from error
    except ClusterAccessError as error:
        raise ClusterUnreachableError(redact(str(error))) from error
