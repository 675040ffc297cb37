"""Causes in one Pod, container by container: states, exit codes, events and logs.

Owns the rules over Pods. Does not own the wordings (`text_rules`) nor cluster-wide objects
(`cluster_rules`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpudirect.diagnosis.cluster_rules import (
    explain_text,
    injector_is_missing,
    interfaces_problem,
    named_networks,
)
from gpudirect.diagnosis.evidence import (
    DAEMON_CONTAINERS,
    INSTALLERS,
    Diagnosis,
    Evidence,
    KubeObject,
    LogKey,
    addon_of,
    conditions_of,
    container_specs,
    container_statuses,
    failure,
    gpu_container_names,
    name_of,
    nothing_found,
    pod_place,
)
from gpudirect.diagnosis.text_rules import causes_in

SILENCE_SECONDS = 60.0
"""A collective that prints nothing for so long hangs: one size takes a few seconds."""

_IMAGE_REASONS = {
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
    "ImageInspectError", "RegistryUnavailable",
}  # fmt: skip
_CREATE_REASONS = {
    "CreateContainerError", "CreateContainerConfigError", "RunContainerError",
    "CreatePodSandboxError", "StartError",
}  # fmt: skip
# Causes that only a Pod without a node can still have.
_BEFORE_NODE = {
    "quota-exceeded", "reservation-mismatch", "zone-without-machine", "placement-refused",
    "no-capacity", "not-schedulable", "quota-of-namespace", "cluster-too-old",
}  # fmt: skip
# What the kubelet says of a container that it could not start, and tries again.
_START_EVENTS = {
    "Failed", "FailedCreatePodSandBox", "FailedMount", "FailedAttachVolume", "InspectFailed",
    "NetworkNotReady", "BackOff",
}  # fmt: skip
# What a finished run can still be told: that it went over plain TCP.
_AFTER_SUCCESS = {"plugin-not-loaded", "wrong-mtu"}
_BAD_VERDICTS = {"degraded", "failed", "incomplete"}
_LOST_REASONS = {"Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated", "Shutdown"}
_MTU = re.compile(r"\b(eth[1-9])\b.{0,80}?\bmtu\b\W{0,3}(\d{3,5})", re.IGNORECASE)
_ROW = re.compile(r"\s\d{1,19}\s{1,20}\d{1,19}\s{1,20}(?:float|half|double|bfloat16|u?int\d)")
# How much NCCL prints is everybody's own choice.
_FREE_VARIABLES = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}
_MAX_LOG_LINES = 400


def pod_diagnoses(evidence: Evidence, pod: KubeObject) -> Iterator[Diagnosis]:
    """Yield what one Pod shows, and for each container that shows nothing, that."""
    events = [event for event in evidence.events if _is_about(event, pod)]
    yield from _pod_level(evidence, pod, events)
    states = list(container_statuses(pod))
    for status, is_init in states:
        found = list(_container(evidence, pod, status, is_init))
        yield from found
        if not any(diagnosis.is_failure for diagnosis in found):
            yield nothing_found(
                pod_place(pod, str(status.get("name"))), _state_text(status) or "no state yet"
            )
    if not states:
        phase = (pod.get("status") or {}).get("phase") or "unknown"
        yield nothing_found(pod_place(pod), f"phase {phase}, no container has a state yet")
    yield from _missing_daemon(pod)
    yield from _never_ending_daemon(pod)


def _pod_level(
    evidence: Evidence, pod: KubeObject, events: Sequence[KubeObject]
) -> Iterator[Diagnosis]:
    place = pod_place(pod)
    has_node = bool((pod.get("spec") or {}).get("nodeName"))
    problem = interfaces_problem(pod)
    if problem is not None:
        yield problem
    causes = set()
    is_up = _all_have_started(pod)
    for event in events:
        if is_up and event.get("reason") in _START_EVENTS:
            continue
        text = f"{event.get('reason')}: {event.get('message')}"
        for cause in causes_in(text, "event"):
            if not (has_node and cause in _BEFORE_NODE):
                causes.add(cause)
                yield _with_injector(evidence, pod, explain_text(cause, place, text))
    scheduled = conditions_of(pod).get("PodScheduled")
    scale_up = any(event.get("reason") == "TriggeredScaleUp" for event in events)
    refused = next((e for e in events if e.get("reason") == "NotTriggerScaleUp"), None)
    if scheduled is not None and scheduled.get("status") == "False" and not causes:
        if refused is not None and not scale_up:
            yield failure("not-schedulable", place, str(refused.get("message")))
        else:
            waiting = "a scale-up was triggered; " if scale_up else ""
            yield nothing_found(place, f"{waiting}{scheduled.get('message') or 'waits for a node'}")
    status = pod.get("status") or {}
    lost = str(status.get("reason") or "") in _LOST_REASONS
    disruption = conditions_of(pod).get("DisruptionTarget")
    if lost or (disruption is not None and disruption.get("status") == "True"):
        source: Mapping[str, Any] = status if lost else disruption or {}
        yield failure("node-lost", place, f"{source.get('reason')}: {source.get('message')}")


def _all_have_started(pod: KubeObject) -> bool:
    """Say whether every container got to run, so that what kept one from it is past."""
    states = [status.get("state") or {} for status, _ in container_statuses(pod)]
    return bool(states) and all("running" in state or "terminated" in state for state in states)


def _container(
    evidence: Evidence, pod: KubeObject, status: KubeObject, is_init: bool
) -> Iterator[Diagnosis]:
    name = str(status.get("name"))
    place = pod_place(pod, name)
    lines = tuple(evidence.logs.get((name_of(pod), name), ()))[-_MAX_LOG_LINES:]
    state = status.get("state") or {}
    causes: set[str] = set()
    for diagnosis in (
        *_from_state(evidence, pod, status, is_init),
        *_from_log(evidence, pod, status, lines),
    ):
        found = _with_injector(evidence, pod, diagnosis)
        if found.cause not in causes:
            causes.add(found.cause)
            yield found
    is_gpu = name in gpu_container_names(pod)
    if is_gpu and "running" in state and not causes:
        yield from _hang(evidence, (name_of(pod), name), place, lines)
    failed = (state.get("terminated") or {}).get("exitCode", 0) != 0
    # Settings of one's own are no failure: they are named only where something is wrong.
    if is_gpu and (failed or evidence.timed_out or evidence.run_verdict in _BAD_VERDICTS):
        yield from _wrong_environment(evidence, pod, name)


def _from_state(
    evidence: Evidence, pod: KubeObject, status: KubeObject, is_init: bool
) -> Iterator[Diagnosis]:
    name = str(status.get("name"))
    place = pod_place(pod, name)
    waiting = (status.get("state") or {}).get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if reason in _IMAGE_REASONS:
        yield failure("image-not-pulled", place, f"{reason}: {message or status.get('image')}")
        return
    if reason in _CREATE_REASONS:
        named = list(causes_in(message, "state"))
        for cause in named:
            yield explain_text(cause, place, f"{reason}: {message}")
        if not named:
            yield failure("container-failed", place, f"{reason}: {message}")
        return
    ended = _ended(status)
    if ended is None:
        return
    said = f": {ended['message']}" if ended.get("message") else ""
    text = f"exit code {ended.get('exitCode')} ({ended.get('reason')}){said}"
    if ended.get("reason") == "OOMKilled":
        yield failure("out-of-memory", place, text)
    for cause in causes_in(str(ended.get("message") or ""), "state"):
        yield explain_text(cause, place, text)
    if name in DAEMON_CONTAINERS:
        if _stopped_early(pod, ended):
            yield failure("daemon-stopped", place, text + _last_line(evidence, pod, name))
    elif addon_of(pod) in INSTALLERS and is_init and ended.get("exitCode") != 0:
        yield failure("installer-failed", place, text + _last_line(evidence, pod, name))
    elif ended.get("exitCode") != 0:
        yield failure("container-failed", place, text + _last_line(evidence, pod, name))


def _ended(status: KubeObject) -> KubeObject | None:
    """Return how a container ended, now or before its last restart."""
    now = (status.get("state") or {}).get("terminated")
    if now is not None:
        return now  # type: ignore[no-any-return]
    before = (status.get("lastState") or {}).get("terminated")
    ready = status.get("ready") and not (status.get("state") or {}).get("waiting")
    return None if ready else before


def _stopped_early(pod: KubeObject, ended: KubeObject) -> bool:
    """Say whether a daemon stopped while it was still needed.

    The daemon of a Pod that can end is stopped by Kubernetes once the work is done.
    """
    gpu_containers = gpu_container_names(pod) or {
        str(status.get("name")) for status, is_init in container_statuses(pod) if not is_init
    }
    ends = [
        (status.get("state") or {}).get("terminated")
        for status, _ in container_statuses(pod)
        if status.get("name") in gpu_containers
    ]
    finished = [str(end.get("finishedAt") or "") for end in ends if end]
    if not ends or len(finished) < len(ends):
        return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    # RFC 3339 in UTC compares as text.
    return str(ended.get("finishedAt") or "") < min(finished)


def _from_log(
    evidence: Evidence, pod: KubeObject, status: KubeObject, lines: Sequence[str]
) -> Iterator[Diagnosis]:
    name = str(status.get("name"))
    table_seen = any("busbw" in line for line in lines)
    started = _has_started(lines)
    ended = (status.get("state") or {}).get("terminated") or {}
    succeeded = ended.get("exitCode") == 0 and name not in DAEMON_CONTAINERS
    # An ended installer that succeeded has nothing to say; neither does a daemon that was stopped.
    if (addon_of(pod) is not None or name in DAEMON_CONTAINERS) and succeeded:
        return
    for line in lines:
        for cause in causes_in(line, "log", table_seen=table_seen, started=started):
            if not succeeded or cause in _AFTER_SUCCESS:
                yield explain_text(cause, pod_place(pod, name), line)
        mtu = _MTU.search(line[:1000])
        if mtu is not None and int(mtu[2]) != evidence.expected_mtu_bytes:
            yield failure("wrong-mtu", pod_place(pod, name), line)


def _has_started(lines: Sequence[str]) -> bool:
    """Say whether the ranks have spoken to one another: the first one lists them all."""
    return any("nThread" in line or "Using devices" in line for line in lines)


def _hang(evidence: Evidence, key: LogKey, place: str, lines: Sequence[str]) -> Iterator[Diagnosis]:
    silent = evidence.silent_seconds.get(key, 0.0)
    if not _has_started(lines) or not (silent >= SILENCE_SECONDS or evidence.timed_out):
        return
    text = f"silent for {silent:.0f} s after: {lines[-1].strip()}"
    has_rows = any(_ROW.search(f" {line[:400]}") for line in lines)
    yield failure("stalled" if has_rows else "firewall-closed", place, text)


def _wrong_environment(evidence: Evidence, pod: KubeObject, container: str) -> Iterator[Diagnosis]:
    """Compare the variables that the Pod sets itself with the profile; a script may set others."""
    for spec, _ in container_specs(pod):
        if spec.get("name") != container:
            continue
        different = [
            f"{entry.get('name')}={entry.get('value')} (profile: {wanted})"
            for entry in spec.get("env") or ()
            if (wanted := evidence.expected_environment.get(str(entry.get("name")))) is not None
            and entry.get("value") is not None
            and entry.get("name") not in _FREE_VARIABLES
            and entry.get("value") != wanted
        ]
        if different:
            yield failure("wrong-profile", pod_place(pod, container), ", ".join(different))


def _with_injector(evidence: Evidence, pod: KubeObject, diagnosis: Diagnosis) -> Diagnosis:
    """Missing devices are the injector's doing where there is none."""
    is_symptom = diagnosis.cause == "devices-missing"
    if is_symptom and addon_of(pod) is None and injector_is_missing(evidence, pod):
        return failure("injector-missing", diagnosis.where, diagnosis.evidence)
    return diagnosis


def _missing_daemon(pod: KubeObject) -> Iterator[Diagnosis]:
    """A Pod on the GPU networks without a daemon cannot use them."""
    names = {str(container.get("name")) for container, _ in container_specs(pod)}
    networks, _ = named_networks(pod)
    if networks and gpu_container_names(pod) and not names & set(DAEMON_CONTAINERS):
        text = f"it has {len(networks)} GPU networks and the containers {', '.join(sorted(names))}"
        yield failure("daemon-missing", pod_place(pod), text)


def _never_ending_daemon(pod: KubeObject) -> Iterator[Diagnosis]:
    can_end = (pod.get("spec") or {}).get("restartPolicy") in ("Never", "OnFailure")
    gpu_containers = gpu_container_names(pod)
    done, daemon = [], None
    for status, is_init in container_statuses(pod):
        state = status.get("state") or {}
        if status.get("name") in gpu_containers:
            done.append((state.get("terminated") or {}).get("exitCode") == 0)
        elif status.get("name") in DAEMON_CONTAINERS and not is_init and "running" in state:
            daemon = str(status.get("name"))
    if can_end and daemon is not None and done and all(done):
        yield failure(
            "sidecar-never-ends",
            pod_place(pod, daemon),
            "every GPU container ended with exit code 0, and the daemon is an ordinary container",
        )


def _last_line(evidence: Evidence, pod: KubeObject, container: str) -> str:
    lines = [line for line in evidence.logs.get((name_of(pod), container), ()) if line.strip()]
    return f"; its log ends with: {lines[-1].strip()}" if lines else ""


def _state_text(status: KubeObject) -> str:
    state = status.get("state") or {}
    if (running := state.get("running")) is not None:
        ready = "ready" if status.get("ready") else "not ready"
        since = f"running since {running.get('startedAt') or 'an unknown time'}, {ready}"
        return since + _restarts_text(status)
    if (waiting := state.get("waiting")) is not None:
        return f"waiting: {waiting.get('reason')} {waiting.get('message') or ''}".strip()
    if (ended := state.get("terminated")) is not None:
        return f"ended with exit code {ended.get('exitCode')} ({ended.get('reason')})"
    return ""


def _restarts_text(status: KubeObject) -> str:
    """Say how often a container began anew: of a daemon, each time is a broken collective."""
    count = status.get("restartCount") or 0
    if not count:
        return ""
    before = (status.get("lastState") or {}).get("terminated") or {}
    ended = f", the last time after exit code {before['exitCode']}" if "exitCode" in before else ""
    return f"; restarted {count} time{'' if count == 1 else 's'}{ended}"


def _is_about(event: KubeObject, pod: KubeObject) -> bool:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    if involved.get("kind") not in (None, "Pod") or involved.get("name") != name_of(pod):
        return False
    uid, own = involved.get("uid"), (pod.get("metadata") or {}).get("uid")
    return not uid or not own or uid == own
