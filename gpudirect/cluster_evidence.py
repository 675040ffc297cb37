"""Collects from a cluster what a diagnosis is made from.

Owns the calls to the Kubernetes API (pods, jobs, events, network objects, addons, nodes, logs), all
of them reads, with a bound on time and size. Does not own what is concluded (`diagnosis`).

What cannot be read is not an error: it is said in `Evidence.unreadable`, so that a missing right
never looks like a healthy cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from gpudirect.diagnosis.evidence import (
    DAEMON_CONTAINERS,
    Evidence,
    KubeObject,
    LogKey,
    addon_of,
    annotations_of,
    container_specs,
    container_statuses,
    gpu_container_names,
    name_of,
    namespace_of,
)
from gpudirect.redaction import redact

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from gpudirect.nccl_data import NcclRun

ADDON_NAMESPACE = "gpudirect-system"
_INTERFACES_ANNOTATION = "networking.gke.io/interfaces"
_GPU_NODES = "cloud.google.com/gke-accelerator in (nvidia-h100-80gb,nvidia-h100-mega-80gb)"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_TIMEOUT_SECONDS = (5, 20)
_PAGE_SIZE = 500
_MAX_ITEMS = 5000
_MAX_PODS_WITH_LOGS = 32
_LOG_LINES = 300
_LOG_BYTES = 256 * 1024


def collect_evidence(
    api_client: ApiClient,
    namespace: str | None,
    *,
    job: str | None = None,
    timed_out: bool = False,
    run: NcclRun | None = None,
    run_verdict: str | None = None,
    expected_networks: Sequence[str] = (),
    expected_environment: Mapping[str, str] | None = None,
) -> Evidence:
    """Look at everything that can explain why a GPU workload does not work.

    Args:
        api_client: An authenticated client of the cluster.
        namespace: Namespace of the workload; None for all namespaces.
        job: Name of the Job whose Pods are looked at; None for every Pod that uses GPUs or the GPU
            networks.
        timed_out: Whether a caller waited for the work as long as it may take.
        run: What the launcher of a test printed, if it was read already.
        run_verdict: What the gate says of that run.
        expected_networks: Names that the environment's Network objects are to have.
        expected_environment: NCCL variables that workloads are to have.
    """
    reader = _Reader(api_client)
    pods = reader.workload_pods(namespace, job)
    addons = reader.pods(ADDON_NAMESPACE, None)
    pods += [pod for pod in addons if addon_of(pod) is not None and pod not in pods]
    logs, silent_seconds = reader.logs(pods)
    return Evidence(
        pods=pods,
        jobs=reader.jobs(namespace, job),
        events=reader.events(namespace, job, pods),
        networks=reader.networking("networks"),
        parameter_sets=reader.networking("gkenetworkparamsets"),
        daemonsets=reader.daemonsets(),
        nodes=reader.nodes(),
        logs=logs,
        silent_seconds=silent_seconds,
        unreadable=tuple(reader.unreadable),
        expected_networks=tuple(expected_networks),
        expected_environment=dict(expected_environment or {}),
        timed_out=timed_out,
        run=run,
        run_verdict=run_verdict,
    )


class _Reader:
    """Reads objects in the API's own JSON form, and notes what it could not read."""

    def __init__(self, api_client: ApiClient) -> None:
        import kubernetes
        import urllib3

        self._core = kubernetes.client.CoreV1Api(api_client)
        self._apps = kubernetes.client.AppsV1Api(api_client)
        self._batch = kubernetes.client.BatchV1Api(api_client)
        self._custom = kubernetes.client.CustomObjectsApi(api_client)
        self._refused = kubernetes.client.exceptions.ApiException
        self._broken = (urllib3.exceptions.HTTPError, OSError)
        self.unreadable: list[str] = []

    def workload_pods(self, namespace: str | None, job: str | None) -> list[KubeObject]:
        pods = self.pods(namespace, f"{_JOB_LABEL}={job}" if job else None)
        if job:
            return pods
        return [pod for pod in pods if addon_of(pod) is None and _uses_gpu_network(pod)]

    def pods(self, namespace: str | None, selector: str | None) -> list[KubeObject]:
        if namespace is None:
            return self._items(
                "pods", self._core.list_pod_for_all_namespaces, label_selector=selector
            )
        return self._items(
            f"pods in {namespace}",
            self._core.list_namespaced_pod,
            namespace,
            label_selector=selector,
        )

    def jobs(self, namespace: str | None, job: str | None) -> list[KubeObject]:
        field = f"metadata.name={job}" if job else None
        if namespace is None:
            jobs = self._items("jobs", self._batch.list_job_for_all_namespaces)
        else:
            jobs = self._items(
                f"jobs in {namespace}",
                self._batch.list_namespaced_job,
                namespace,
                field_selector=field,
            )
        return [item for item in jobs if _uses_gpu_network((item["spec"] or {}).get("template"))]

    def events(
        self, namespace: str | None, job: str | None, pods: Sequence[KubeObject]
    ) -> list[KubeObject]:
        """Return the events about the Pods, their owners and the addons, newest first."""
        if namespace is None:
            events = self._items("events", self._core.list_event_for_all_namespaces)
        else:
            events = self._items(
                f"events in {namespace}", self._core.list_namespaced_event, namespace
            )
            if namespace != ADDON_NAMESPACE:
                events += self._items(
                    f"events in {ADDON_NAMESPACE}",
                    self._core.list_namespaced_event,
                    ADDON_NAMESPACE,
                )
        if job is not None:
            names = {job, *(name_of(pod) for pod in pods)}
            events = [event for event in events if _involved(event) in names]
        return sorted(events, key=_event_time, reverse=True)

    def networking(self, plural: str) -> list[KubeObject] | None:
        try:
            answer: Any = self._custom.list_cluster_custom_object(
                "networking.gke.io", "v1", plural, _request_timeout=_TIMEOUT_SECONDS
            )
        except self._refused as error:
            if error.status == 404:
                return None
            self._note(plural, error)
            return []
        except self._broken as error:
            self._note(plural, error)
            return []
        return list(answer.get("items") or ())

    def daemonsets(self) -> list[KubeObject] | None:
        before = len(self.unreadable)
        items = self._items(
            f"daemonsets in {ADDON_NAMESPACE}",
            self._apps.list_namespaced_daemon_set,
            ADDON_NAMESPACE,
        )
        return None if len(self.unreadable) > before else items

    def nodes(self) -> list[KubeObject]:
        return self._items("nodes", self._core.list_node, label_selector=_GPU_NODES)

    def logs(
        self, pods: Sequence[KubeObject]
    ) -> tuple[dict[LogKey, tuple[str, ...]], dict[LogKey, float]]:
        lines: dict[LogKey, tuple[str, ...]] = {}
        silent: dict[LogKey, float] = {}
        for pod in sorted(pods, key=_is_healthy)[:_MAX_PODS_WITH_LOGS]:
            for status, _ in container_statuses(pod):
                if not _has_log(status) or (addon_of(pod) and _is_healthy(pod)):
                    continue
                key = (name_of(pod), str(status["name"]))
                before = self._log(pod, key[1], previous=True)[0] if _restarted(status) else []
                now, seconds = self._log(pod, key[1], previous=False)
                lines[key] = tuple(before + now)
                if seconds is not None:
                    silent[key] = seconds
        return lines, silent

    def _log(
        self, pod: KubeObject, container: str, *, previous: bool
    ) -> tuple[list[str], float | None]:
        """Return the last lines of a container, and for how long it has printed nothing."""
        try:
            response: Any = self._core.read_namespaced_pod_log(
                name_of(pod),
                namespace_of(pod),
                container=container,
                previous=previous,
                tail_lines=_LOG_LINES,
                limit_bytes=_LOG_BYTES,
                timestamps=True,
                _preload_content=False,
                _request_timeout=_TIMEOUT_SECONDS,
            )
            text = response.data.decode("utf-8", "replace")
            now = _answer_time(response.headers)
        except (self._refused, *self._broken) as error:
            self._note(f"log of {name_of(pod)}/{container}", error)
            return [], None
        stamped = [_split_stamp(line) for line in text.splitlines()]
        times = [time for time, _ in stamped if time is not None]
        silent = (now - times[-1]).total_seconds() if times else None
        return [line for _, line in stamped], silent

    def _items(self, what: str, call: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
        return list(self._pages(what, call, *args, **options))

    def _pages(
        self, what: str, call: Callable[..., Any], *args: Any, **options: Any
    ) -> Iterator[Any]:
        token: str | None = None
        read = 0
        options = {key: value for key, value in options.items() if value is not None}
        while read < _MAX_ITEMS:
            if token:
                options["_continue"] = token
            try:
                response = call(
                    *args,
                    **options,
                    limit=_PAGE_SIZE,
                    _preload_content=False,
                    _request_timeout=_TIMEOUT_SECONDS,
                )
                page = json.loads(response.data)
            except (self._refused, ValueError, *self._broken) as error:
                self._note(what, error)
                return
            items = page.get("items") or ()
            read += len(items)
            yield from items
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return

    def _note(self, what: str, error: Exception) -> None:
        status = getattr(error, "status", None)
        reason = f"{status} {getattr(error, 'reason', '')}" if status else str(error)
        self.unreadable.append(redact(f"{what}: {reason}"[:300]))


def _uses_gpu_network(pod: KubeObject | None) -> bool:
    """Whether a Pod, or a Pod template, takes GPUs or GPU networks."""
    if not pod:
        return False
    names = {str(container.get("name")) for container, _ in container_specs(pod)}
    return (
        bool(gpu_container_names(pod))
        or bool(names & set(DAEMON_CONTAINERS))
        or _INTERFACES_ANNOTATION in annotations_of(pod)
    )


def _is_healthy(pod: KubeObject) -> bool:
    statuses = [status for status, is_init in container_statuses(pod) if not is_init]
    return bool(statuses) and all(status.get("ready") for status in statuses)


def _has_log(status: KubeObject) -> bool:
    state = status.get("state") or {}
    return "running" in state or "terminated" in state or _restarted(status)


def _restarted(status: KubeObject) -> bool:
    return int(status.get("restartCount") or 0) > 0


def _involved(event: KubeObject) -> str:
    return str((event.get("involvedObject") or {}).get("name"))


def _event_time(event: KubeObject) -> str:
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or (event.get("metadata") or {}).get("creationTimestamp")
        or ""
    )


def _answer_time(headers: Mapping[str, str]) -> datetime:
    """Return the server's time: the clock of this machine may differ from the nodes'."""
    try:
        return parsedate_to_datetime(headers["Date"])
    except (KeyError, TypeError, ValueError):
        return datetime.now(UTC)


def _split_stamp(line: str) -> tuple[datetime | None, str]:
    """Split the time that the kubelet puts before each line from the line."""
    stamp, _, rest = line.partition(" ")
    try:
        # Nanoseconds are more than Python reads.
        time = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC)
    except ValueError:
        return None, line
    return (time, rest) if stamp[19:20] in (".", "Z", "+", "-") else (None, line)
