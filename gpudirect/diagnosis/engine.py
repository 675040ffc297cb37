"""Puts all rules together: evidence in, causes out, the weightiest first.

Owns the order and what is told of events about objects that are not Pods. Holds no rule of a single
cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudirect.diagnosis.causes import weight
from gpudirect.diagnosis.cluster_rules import cluster_diagnoses, explain_text
from gpudirect.diagnosis.cluster_status import nodes_without_installer
from gpudirect.diagnosis.evidence import (
    Diagnosis,
    Evidence,
    KubeObject,
    addon_of,
    failure,
    gpu_container_names,
    name_of,
    owner_name,
)
from gpudirect.diagnosis.pod_rules import pod_diagnoses
from gpudirect.diagnosis.text_rules import causes_in
from gpudirect.nccl_data import NcclRun


def diagnose(evidence: Evidence) -> list[Diagnosis]:
    """Return what is wrong, weightiest cause first, then what shows no failure.

    The weight follows the life of a Pod, so that the first entry is a cause and not a symptom of
    another one in the list.
    """
    found = [
        *cluster_diagnoses(evidence),
        *_other_events(evidence),
        *(d for pod in evidence.pods for d in pod_diagnoses(evidence, pod)),
        *_unfinished_installers(evidence),
        *_run_diagnoses(evidence),
    ]
    failures = _without_echoes([d for d in found if d.is_failure])
    failures.sort(key=lambda diagnosis: weight(diagnosis.cause))
    if not failures and evidence.run and evidence.run_verdict in ("failed", "degraded"):
        failures = _slow_run(evidence.run)
    return failures + _unique([d for d in found if not d.is_failure])


def _other_events(evidence: Evidence) -> Iterator[Diagnosis]:
    """Read events about Jobs, DaemonSets and other owners: a refused Pod never exists."""
    owners_with_pods = {owner_name(pod) for pod in evidence.pods}
    for event in evidence.events:
        involved = event.get("involvedObject") or event.get("regarding") or {}
        # An owner that has Pods now was refused in the past.
        if involved.get("kind") in (None, "Pod", "Node") or (
            involved.get("name") in owners_with_pods
        ):
            continue
        where = f"{involved.get('kind')} {involved.get('namespace')}/{involved.get('name')}"
        text = f"{event.get('reason')}: {event.get('message')}"
        for cause in causes_in(text, "event"):
            yield explain_text(cause, where, text)
    for job in evidence.jobs:
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Failed" and condition.get("status") == "True":
                text = f"{condition.get('reason')}: {condition.get('message')}"
                for cause in causes_in(text, "event"):
                    yield explain_text(cause, f"Job {name_of(job)}", text)


def _unfinished_installers(evidence: Evidence) -> Iterator[Diagnosis]:
    if evidence.daemonsets is None:
        return
    nodes = dict.fromkeys(
        str(node)
        for pod in evidence.pods
        if _waits_on_node(pod) and (node := (pod.get("spec") or {}).get("nodeName"))
    )
    for node in nodes_without_installer(evidence.pods, list(nodes)):
        yield failure("installer-waiting", f"Node {node}", "no installer Pod is ready on this node")


def _waits_on_node(pod: KubeObject) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return (
        addon_of(pod) is None
        and bool(gpu_container_names(pod))
        and phase
        not in (
            "Succeeded",
            "Failed",
        )
    )


def _run_diagnoses(evidence: Evidence) -> Iterator[Diagnosis]:
    run = evidence.run
    if run is None:
        return
    where = "NCCL run"
    if run.transport == "socket":
        yield failure("plugin-not-loaded", where, "transport is Socket")
    elif evidence.run_verdict == "failed":
        yield from _unused_nics(run, len(evidence.expected_networks), where)
    for line in run.problem_lines:
        for cause in causes_in(
            line, "log", table_seen=bool(run.rows), started=run.ranks is not None
        ):
            yield explain_text(cause, where, line)


def _unused_nics(run: NcclRun, nic_count: int, where: str) -> Iterator[Diagnosis]:
    """Name the host that used the fewest NICs; a node has one for each GPU network."""
    if not run.nics_per_host:
        return
    host, nics = min(run.nics_per_host.items(), key=lambda entry: len(entry[1]))
    if len(nics) < nic_count:
        text = f"channels on {len(nics)} of {nic_count} GPU NICs on {host}"
        yield failure("nic-unused", where, f"{text}: {', '.join(map(str, nics))}")


def _slow_run(run: NcclRun) -> list[Diagnosis]:
    largest = run.largest
    if largest is None:
        return []
    text = (
        f"{largest.out_of_place_bus_bandwidth_gbps} GB/s out-of-place, "
        f"{largest.in_place_bus_bandwidth_gbps} GB/s in-place at {largest.size_bytes} bytes"
    )
    return [failure("low-bandwidth", "NCCL run", text)]


def _without_echoes(failures: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Leave out repetitions, and what only repeats a better known cause at the same place."""
    unique = _unique(failures)
    explained = {d.where for d in unique if d.cause not in _GENERAL}
    by_name = {d.cause for d in unique}
    kept = []
    for diagnosis in unique:
        if diagnosis.cause in _GENERAL and diagnosis.where in explained:
            continue
        if diagnosis.cause == "installer-waiting" and by_name & {
            "installer-failed",
            "installer-missing",
        }:
            continue
        kept.append(diagnosis)
    return kept


# They only say that something is wrong at a place.
_GENERAL = {"container-failed", "not-schedulable"}


def _unique(diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    return list({(d.cause, d.where): d for d in reversed(diagnoses)}.values())[::-1]
