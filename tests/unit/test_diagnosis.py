from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpudirect.diagnosis import Diagnosis, Evidence, diagnose
from gpudirect.diagnosis.causes import CAUSES
from gpudirect.diagnosis.text_rules import TEXT_RULES, causes_in
from gpudirect.nccl_data import NcclRun
from gpudirect.nccl_results import read_results
from tests.unit.cluster_objects import (
    NETWORKS,
    NODE,
    Document,
    addon_pod,
    daemonset,
    ended,
    event,
    gpu_node,
    gpu_pod,
    healthy,
    interfaces,
    network,
    owner_event,
    parameter_set,
    pending_pod,
    waiting,
)
from tests.unit.nccl_tables import A3_MEGA, HEADER, row_line, scaled, table

CASES = Path(__file__).parents[1] / "cases" / "config"
OTHER = gpu_pod("nccl-test-1", node="gk3-demo-node-2")
ADDON_PODS = healthy()["pods"][2:]
STARTED = ["# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8589934592", "# Using devices"]


def failures(**changes: Any) -> list[Diagnosis]:
    return [d for d in diagnose(Evidence(**healthy(**changes))) if d.is_failure]


def first(**changes: Any) -> Diagnosis:
    found = failures(**changes)
    assert found, "no cause was found"
    return found[0]


def with_pod(pod: Document, **changes: Any) -> dict[str, Any]:
    return {"pods": [pod, OTHER, *ADDON_PODS], **changes}


def log(text: str | Sequence[str], container: str = "nccl-test") -> dict[str, Any]:
    lines = [text] if isinstance(text, str) else list(text)
    return {"logs": {("nccl-test-0", container): lines}}


def test_a_healthy_environment_has_no_cause_and_says_so_for_each_container() -> None:
    found = diagnose(Evidence(**healthy()))
    assert not [d for d in found if d.is_failure]
    places = {d.where for d in found}
    assert "Pod gpudirect-system/nccl-test-0, container tcpxo-daemon" in places
    assert "Pod gpudirect-system/nccl-test-1, container nccl-test" in places
    assert {d.confidence for d in found} == {"no evidence"}


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("GCE quota exceeded", "quota-exceeded"),
        ("GCE out of resources", "no-capacity"),
        ("Reservation not found or incorrectly shared: r1", "reservation-mismatch"),
        ("Reservation incompatible with node group", "reservation-mismatch"),
        ("Unsupported Compact Placement Config", "placement-refused"),
        ('Node group "g1" already exists', "placement-refused"),
        (
            "Machine type with name 'a3-megagpu-8g' does not exist in zone 'us-central1-f'",
            "zone-without-machine",
        ),
        ("Internal error", "not-schedulable"),
    ],
)
def test_a_failed_scale_up_names_its_cause(message: str, cause: str) -> None:
    pod = pending_pod()
    text = (
        f"Node scale up in zones us-central1-c associated with this pod failed: {message}. "
        "Pod is at risk of not being scheduled."
    )
    found = first(**with_pod(pod, events=[event(pod, "FailedScaleUp", text)]))
    assert found.cause == cause
    assert found.where == "Pod gpudirect-system/nccl-test-0"
    assert message in found.evidence


def test_what_stopped_a_pod_before_it_had_a_node_is_past_once_it_has_one() -> None:
    text = "Node scale up in zones z associated with this pod failed: GCE out of resources."
    assert failures(events=[event(gpu_pod(), "FailedScaleUp", text)]) == []


def test_a_pod_that_no_node_was_asked_for_is_told_from_one_that_waits() -> None:
    pod = pending_pod()
    refused = event(pod, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 node(s) didn't match")
    assert first(**with_pod(pod, events=[refused])).cause == "not-schedulable"
    asked = event(pod, "TriggeredScaleUp", "pod triggered scale-up")
    found = diagnose(Evidence(**healthy(**with_pod(pod, events=[asked]))))
    assert not [d for d in found if d.is_failure]
    assert any("a scale-up was triggered" in d.evidence for d in found)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ('Network "vpc3" not found', "network-missing"),
        ('GKENetworkParamSet "vpc3-params" for Network "vpc3" not found', "network-not-ready"),
        ("nodes of a3-highgpu-8g need version 1.35.2-gke.1485000 or later", "cluster-too-old"),
        ('placement group name "A_b" is invalid', "placement-refused"),
        ("Pod incompatible with requested ComputeClass", "not-schedulable"),
        ("1 Insufficient cpu", "not-schedulable"),
    ],
)
def test_a_scale_up_that_was_not_tried_names_its_cause_once(reason: str, cause: str) -> None:
    pod = pending_pod()
    refused = event(pod, "NotTriggerScaleUp", f"pod didn't trigger scale-up: {reason}")
    found = failures(**with_pod(pod, events=[refused]))
    assert [d.cause for d in found] == [cause]


@pytest.mark.parametrize("case", json.loads((CASES / "denials.json").read_text()))
def test_a_refused_pod_names_rule_container_and_remedy_and_no_person(case: Document) -> None:
    refused = owner_event("Job", "nccl-test", "FailedCreate", f"Error creating: {case['text']}")
    found = first(pods=ADDON_PODS, events=[refused])
    assert found.cause == "admission-denied"
    for constraint in case["expect"]["constraints"]:
        assert constraint in found.evidence
    assert found.remedy.startswith(case["expect"]["hint"])
    assert "example.com" not in json.dumps(found.to_json())


def test_a_refusal_of_the_past_is_not_told_once_the_owner_has_pods() -> None:
    case = json.loads((CASES / "denials.json").read_text())[0]
    assert failures(events=[owner_event("Job", "nccl-test", "FailedCreate", case["text"])]) == []


@pytest.mark.parametrize("missing", ["networks", "parameter_sets"])
def test_a_cluster_without_the_network_kinds_lacks_multi_networking(missing: str) -> None:
    found = first(**{missing: None})
    assert found.cause == "multi-networking-missing"
    assert "multi-networking is not enabled on this cluster?" in found.summary


def test_no_matches_for_kind_is_explained_from_an_error_text() -> None:
    text = 'no matches for kind "Network" in version "networking.gke.io/v1"'
    assert first(messages=[text]).cause == "multi-networking-missing"


def test_a_deleted_network_is_named() -> None:
    found = first(networks=[network(name) for name in NETWORKS if name != "vpc3"])
    assert (found.cause, found.where) == ("network-missing", "Network vpc3")


def test_a_network_that_only_the_job_names_is_missed_too() -> None:
    template = {"metadata": {"annotations": {"networking.gke.io/interfaces": interfaces(["vpc9"])}}}
    job = {"metadata": {"name": "train"}, "spec": {"template": template}}
    assert first(jobs=[job]).where == "Network vpc9"


def test_an_expected_network_is_missed_without_any_pod() -> None:
    found = first(pods=[], networks=[], expected_networks=["vpc1"])
    assert (found.cause, found.where) == ("network-missing", "Network vpc1")


def test_a_parameter_set_that_is_not_ready_shows_its_reason() -> None:
    sets = [parameter_set(name) for name in NETWORKS[1:]]
    sets.append(parameter_set("vpc1", ready="False", reason="SubnetNotFound", message="dev-sub-1"))
    networks = [network("vpc1", ready="False", reason="ParamsNotReady")]
    networks += [network(name) for name in NETWORKS[1:]]
    found = first(networks=networks, parameter_sets=sets)
    assert found.cause == "network-not-ready"
    assert found.where == "Network vpc1, GKENetworkParamSet vpc1-params"
    assert found.evidence == "SubnetNotFound: dev-sub-1"


def test_an_interface_list_that_is_no_json_is_found() -> None:
    text = '[{"interfaceName":"eth0","network":"default"},]'
    pod = gpu_pod(annotations={"networking.gke.io/interfaces": text})
    found = first(**with_pod(pod))
    assert found.cause == "interfaces-invalid"


def test_a_wrong_image_tag_is_an_image_that_cannot_be_pulled() -> None:
    message = 'failed to pull "tcpgpudmarxd-dev:v9": not found'
    pod = gpu_pod(daemon=waiting("ImagePullBackOff", message), test=waiting("PodInitializing"))
    found = first(**with_pod(pod))
    assert found.cause == "image-not-pulled"
    assert found.where.endswith("container tcpxo-daemon")
    assert "v9" in found.evidence


def test_a_removed_installer_comes_before_the_devices_that_are_missing_for_it() -> None:
    message = 'failed to stat device "/dev/dmabuf_import_helper": no such file or directory'
    pod = gpu_pod(daemon=waiting("CreateContainerError", message), test=waiting("PodInitializing"))
    pods = [pod, addon_pod("device-injector"), addon_pod("device-injector", node="gk3-demo-node-2")]
    found = failures(pods=pods, daemonsets=[daemonset("device-injector")])
    assert [d.cause for d in found] == ["installer-missing", "devices-missing"]


def test_a_failed_installer_names_its_init_container() -> None:
    installer = addon_pod("nccl-tcpxo-installer", ready=False)
    installer["status"]["initContainerStatuses"] = [
        {"name": "pre-installation", "state": ended(1), "ready": False}
    ]
    pods = [gpu_pod(), installer, addon_pod("device-injector")]
    logs = {(installer["metadata"]["name"], "pre-installation"): ["modprobe: module not found"]}
    found = first(pods=pods, logs=logs)
    assert found.cause == "installer-failed"
    assert found.where.endswith("container pre-installation")
    assert "modprobe: module not found" in found.evidence


def test_an_installer_that_has_not_run_on_the_very_node_is_waited_for() -> None:
    pods = [gpu_pod(), addon_pod("nccl-tcpxo-installer", node="another"), *ADDON_PODS[2:]]
    found = first(pods=pods)
    assert (found.cause, found.where) == ("installer-waiting", f"Node {NODE}")


def test_missing_devices_without_an_injector_are_the_injectors_absence() -> None:
    pod = gpu_pod(daemon=ended(1, message="no CUDA-capable device is detected"))
    pods = [pod, OTHER, *ADDON_PODS[:2]]
    found = first(pods=pods, daemonsets=[daemonset("nccl-tcpxo-installer", 2)])
    assert found.cause == "injector-missing"


def test_an_absent_injector_alone_is_no_failure() -> None:
    found = failures(
        pods=[gpu_pod(), OTHER, *ADDON_PODS[:2]], daemonsets=[daemonset("nccl-tcpxo-installer", 2)]
    )
    assert found == []


@pytest.mark.parametrize(
    "message",
    [
        'plugins "device-injector" and "gke-nri" both tried to set device "/dev/nvidia0"',
        'device "/dev/nvidia0" is claimed by plugin "10-device_injector" and plugin "20-other"',
    ],
)
def test_two_injectors_clash(message: str) -> None:
    pod = gpu_pod(daemon=waiting("CreateContainerError", message))
    assert first(**with_pod(pod)).cause == "injector-doubled"


def test_seven_of_eight_gpus_are_found_in_the_daemons_log() -> None:
    line = "E0312 fastrak_gpumem_manager.cc:200] Number of GPUs detected in the PCI tree 7, CUDA 8"
    pod = gpu_pod(daemon=ended(1))
    found = failures(**with_pod(pod, **log(line, "tcpxo-daemon")))
    assert [d.cause for d in found] == ["gpu-count", "daemon-stopped"]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "E1 Number of GPUs detected in the PCI tree 0 is not equal to the actual number",
            "gpu-count",
        ),
        ("F1 GPU/NIC pairs: found 6 GPUs with a NIC, CUDA reports 8", "gpu-count"),
        ("E1 Incorrect number of fabric NICs detected: 7.", "interface-missing"),
        ("E1 Memory importer: failed to initialize addr translator on NIC", "devices-missing"),
        ("F1 Check failed: cuInit(0) no CUDA device", "devices-missing"),
        ("libcuda.so.1: cannot open shared object file: No such file", "library-missing"),
        ("E1 ethtool ioctl on eth1: Operation not permitted", "capability-missing"),
        ("E1 setsockopt(SO_DEVMEM_DONTNEED): Protocol not available", "daemon-too-old"),
        ("ERROR: Unknown command line flag 'enforce_kernel_ipv6_support'", "daemon-flags"),
    ],
)
def test_a_line_of_the_daemons_log_names_its_cause(line: str, cause: str) -> None:
    found = failures(**with_pod(gpu_pod(daemon=ended(1)), **log(line, "tcpxo-daemon")))
    assert [d.cause for d in found] == sorted([cause, "daemon-stopped"], key=list(CAUSES).index)


def test_a_retired_flag_is_no_cause() -> None:
    line = "E1 Flag 'uid' is retired and should not be set."
    assert failures(**log(line, "tcpxo-daemon")) == []


def test_a_node_with_too_few_gpus_is_found() -> None:
    found = first(nodes=[gpu_node(gpus=7), gpu_node("gk3-demo-node-2")])
    assert (found.cause, found.where, found.evidence) == (
        "gpu-count",
        f"Node {NODE}",
        "7 of 8 GPUs",
    )


def test_a_daemon_that_ended_with_code_0_is_a_failure() -> None:
    found = first(**with_pod(gpu_pod(daemon=ended(0))))
    assert found.cause == "daemon-stopped"
    assert "exit code 0" in found.evidence
    assert "daemon's log" in found.remedy


def test_a_daemon_is_allowed_to_end_after_the_work() -> None:
    done = gpu_pod(
        test=ended(0, "2026-12-01T10:05:00Z"),
        daemon=ended(0, "2026-12-01T10:05:03Z"),
        phase="Succeeded",
    )
    assert failures(**with_pod(done)) == []


def test_a_daemon_that_ended_before_a_failed_workload_is_the_cause() -> None:
    pod = gpu_pod(
        test=ended(1, "2026-12-01T10:05:00Z"),
        daemon=ended(1, "2026-12-01T10:04:00Z"),
        phase="Failed",
    )
    assert first(**with_pod(pod)).cause == "daemon-stopped"


def test_a_pod_without_a_daemon_is_found() -> None:
    line = "NET/FasTrak Timeout: RxDM not ready on nccl-test-0: connection refused; aborting..."
    found = failures(**with_pod(gpu_pod(daemon=None, test=ended(134)), **log(line)))
    assert [d.cause for d in found] == ["daemon-missing", "daemon-refused"]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "NCCL WARN NCCL/NET (shim) mismatch enforced: NCCL_FASTRAK_NUM_FLOWS=4 (expected 2)",
            "checker-aborted",
        ),
        (
            "NCCL WARN NET/Shim guest config checker: NCCL_NVLSTREE_MAX_CHUNKSIZE is unset, "
            "expected 131072, aborting...",
            "checker-aborted",
        ),
        ("/x/nccl-env-profile.sh: No such file or directory", "wrong-profile"),
        ("symbol lookup error: libnccl-net.so: undefined symbol: ncclFoo", "wrong-nccl"),
        ("/lib/libc.so.6: version `GLIBC_2.35' not found", "old-image"),
        ("CUDA driver version is insufficient for CUDA runtime version", "driver-too-old"),
        ("a:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.", "plugin-not-loaded"),
        ("a:1:2 [0] NCCL INFO Using network Socket", "plugin-not-loaded"),
        (
            "a:1:2 [7] init.cc:1 NCCL WARN NET/FasTrak Failed to initialize nccl shim on device:7 "
            "(INTERNAL: Could not find closest netdev for GPU PCI 0000:8b:00.0), aborting...",
            "nic-unused",
        ),
        ("NET/FasTrak buffer manager v1.0.23 speaks a newer protocol than plug-in v1.0.15",
         "versions-do-not-fit"),
        ("NET/FasTrak no such interface: eth8 (NCCL_FASTRAK_IFNAME)", "interface-missing"),
        ("NOT_FOUND: No LLCM device found for address 0000:06:00.0", "apertures-missing"),
        ("NET/FasTrak plugin connect: receive manager at 10.8.3.4:8888 refused the connection",
         "daemon-refused"),
        ("ssh: connect to host nccl-test-1 port 222: Connection refused", "peers-unreachable"),
        ("connect to 192.168.0.5:9000 timed out", "firewall-closed"),
        ("eth3: <BROADCAST,MULTICAST,UP> mtu 1460 qdisc mq", "wrong-mtu"),
        ("/sys/class/net/eth1/mtu:1460", "wrong-mtu"),
        ("NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus", "gpu-fault"),
    ],
)  # fmt: skip
def test_a_line_of_the_workloads_log_names_its_cause(line: str, cause: str) -> None:
    found = first(**with_pod(gpu_pod(test=ended(1)), **log(line)))
    assert found.cause == cause
    assert found.where.endswith("container nccl-test")


@pytest.mark.parametrize(
    "line",
    [
        "NCCL WARN NCCL/NET (shim) mismatch recommended: NCCL_ALGO=Ring (expected unset)",
        "eth3: <BROADCAST,MULTICAST,UP> mtu 8244 qdisc mq",
        "eth0: <BROADCAST,MULTICAST,UP> mtu 1460 qdisc mq",
        "a:1:2 [0] NCCL INFO Using network FasTrak",
    ],
)
def test_a_harmless_line_names_none(line: str) -> None:
    assert failures(**log(line)) == []


def test_retries_before_the_table_are_no_cause_after_it() -> None:
    retry = "ssh: connect to host nccl-test-1 port 222: Connection refused"
    assert failures(**log([retry, HEADER.splitlines()[1]])) == []
    assert first(**log([retry])).cause == "peers-unreachable"


def test_a_run_that_prints_nothing_more_hangs_on_a_closed_firewall() -> None:
    key = ("nccl-test-0", "nccl-test")
    found = first(logs={key: STARTED}, silent_seconds={key: 300.0})
    assert found.cause == "firewall-closed"
    assert "silent for 300 s" in found.evidence


def test_a_run_whose_time_is_up_hangs_even_if_it_spoke_a_moment_ago() -> None:
    key = ("nccl-test-0", "nccl-test")
    parts = {"logs": {key: STARTED}, "silent_seconds": {key: 5.0}}
    assert failures(**parts) == []
    assert first(**parts, timed_out=True).cause == "firewall-closed"


def test_a_run_that_stops_between_two_rows_is_stalled() -> None:
    key = ("nccl-test-0", "nccl-test")
    lines = [*STARTED, row_line(1048576, 3.1, 3.1)]
    assert first(logs={key: lines}, silent_seconds={key: 300.0}).cause == "stalled"


def test_a_daemon_as_an_ordinary_container_never_lets_a_pod_end() -> None:
    pod = gpu_pod(test=ended(0), native_sidecar=False)
    found = first(**with_pod(pod))
    assert found.cause == "sidecar-never-ends"
    assert found.where.endswith("container tcpxo-daemon")


def test_variables_that_differ_from_the_profile_are_named_where_something_is_wrong() -> None:
    env = [{"name": "NCCL_PROTO", "value": "Simple"}, {"name": "NCCL_DEBUG", "value": "INFO"}]
    profile = {"NCCL_PROTO": "Simple,LL128", "NCCL_DEBUG": "WARN", "NCCL_BUFFSIZE": "8388608"}
    parts = with_pod(gpu_pod(env=env), expected_environment=profile)
    assert failures(**parts) == []
    found = failures(**parts, run_verdict="degraded")
    assert [d.cause for d in found] == ["wrong-profile"]
    assert found[0].evidence == "NCCL_PROTO=Simple (profile: Simple,LL128)"
    crashed = with_pod(gpu_pod(env=env, test=ended(1)), expected_environment=profile)
    assert first(**crashed).cause == "wrong-profile"


def test_the_host_that_used_the_fewest_nics_is_named() -> None:
    nics = {"a": tuple(range(8)), "b": (0, 1, 2, 3, 4, 5, 7)}
    run = NcclRun(status="complete", transport="fastrak", nics_per_host=nics)
    parts = {"run": run, "expected_networks": NETWORKS}
    (found,) = failures(**parts, run_verdict="failed")
    assert found.cause == "nic-unused"
    assert found.evidence == "channels on 7 of 8 GPU NICs on b: 0, 1, 2, 3, 4, 5, 7"
    assert failures(**parts, run_verdict="passed") == []


def test_pods_of_one_job_in_two_zones_are_found() -> None:
    nodes = [gpu_node(), gpu_node("gk3-demo-node-2", zone="us-central1-a")]
    assert first(nodes=nodes).cause == "zones-differ"


def test_a_preempted_pod_lost_its_node() -> None:
    pod = gpu_pod(test=ended(137), daemon=ended(137), phase="Failed")
    pod["status"] |= {"reason": "Terminated", "message": "Pod was terminated: node shutdown"}
    assert first(**with_pod(pod)).cause == "node-lost"


def test_a_container_killed_for_memory_is_told_from_one_that_failed() -> None:
    state = ended(137)
    state["terminated"]["reason"] = "OOMKilled"
    found = failures(**with_pod(gpu_pod(test=state)))
    assert [d.cause for d in found] == ["out-of-memory"]


def test_an_unknown_failure_shows_the_last_line() -> None:
    found = first(**with_pod(gpu_pod(test=ended(3)), **log(["first", "Traceback: boom", ""])))
    assert found.cause == "container-failed"
    assert "Traceback: boom" in found.evidence


def test_a_crash_loop_is_explained_by_the_log_of_the_run_before() -> None:
    pod = gpu_pod(daemon={**waiting("CrashLoopBackOff", "back-off 10s")})
    pod["status"]["initContainerStatuses"][0]["lastState"] = ended(1)
    line = "E01] Number of GPUs detected in the PCI tree 0"
    found = failures(**with_pod(pod, **log(line, "tcpxo-daemon")))
    assert found[0].cause == "gpu-count"


def test_a_slow_run_without_any_other_cause_says_what_to_compare() -> None:
    slow = read_results(table(scaled(A3_MEGA, lambda _s, o, i: (o / 2, i / 2))).splitlines())
    assert first(run=slow, run_verdict="failed").cause == "low-bandwidth"
    assert failures(run=slow, run_verdict="passed") == []
    mtu = log("eth3: mtu 1460")
    assert [d.cause for d in failures(run=slow, run_verdict="failed", **mtu)] == ["wrong-mtu"]


def test_the_socket_transport_of_a_run_is_a_cause() -> None:
    run = read_results(["a:1:2 [0] NCCL INFO Using network Socket"])
    assert first(run=run).cause == "plugin-not-loaded"


def test_what_cannot_be_read_is_said_and_is_no_failure() -> None:
    found = diagnose(Evidence(**healthy(unreadable=["nodes: 403 Forbidden"])))
    assert any("nodes: 403 Forbidden" in d.evidence for d in found)
    assert not any(d.is_failure for d in found)


def test_evidence_repeats_neither_addresses_nor_secrets() -> None:
    line = "Traceback for someone@example.com: HF_TOKEN=hf_abcdefghijk"
    found = first(**with_pod(gpu_pod(test=ended(1)), **log(line)))
    text = json.dumps(found.to_json())
    assert "example.com" not in text
    assert "hf_" not in text


def test_every_rule_names_a_known_cause() -> None:
    assert {rule.cause for rule in TEXT_RULES} <= set(CAUSES)


def test_every_cause_says_what_to_do() -> None:
    for cause in CAUSES.values():
        assert cause.summary.endswith((".", "?")), cause.name
        assert cause.remedy.endswith("."), cause.name


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "reservation " * 10_000,
        "mtu " * 30_000,
        "eth1 " * 20_000,
        "GPUs PCI " * 9_000,
    ],
)
def test_hostile_text_costs_linear_time(text: str) -> None:
    pod = gpu_pod(test=ended(1, message=text))
    diagnose(Evidence(**healthy(**with_pod(pod, **log([text] * 20)))))
    assert list(causes_in("", "log")) == []


def test_a_parameter_set_that_was_deleted_is_named() -> None:
    networks = [network("vpc1", ready="False", reason="ParamsNotReady")]
    networks += [network(name) for name in NETWORKS[1:]]
    found = first(networks=networks, parameter_sets=[parameter_set(n) for n in NETWORKS[1:]])
    assert found.cause == "network-not-ready"
    assert "parameter set vpc1-params does not exist" in found.evidence


def test_a_node_that_is_not_ready_is_lost() -> None:
    node = gpu_node()
    node["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}
    ]
    found = first(nodes=[node, gpu_node("gk3-demo-node-2")])
    assert (found.cause, found.where) == ("node-lost", f"Node {NODE}")


def test_a_job_that_says_why_it_failed_is_heard() -> None:
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota: team, requested: nvidia.com/gpu=8",
    }
    job = {"metadata": {"name": "train"}, "status": {"conditions": [condition]}}
    found = first(jobs=[job])
    assert (found.cause, found.where) == ("quota-of-namespace", "Job train")


def test_a_diagnosis_reads_as_one_sentence_after_another() -> None:
    found = first(networks=None)
    assert str(found).startswith("Cluster: The cluster does not know the kinds Network")
    assert "To do: " in str(found)
    harmless = next(d for d in diagnose(Evidence(**healthy())) if not d.is_failure)
    assert "no evidence of failure" in str(harmless)


def test_what_kept_a_container_from_starting_is_past_once_it_runs() -> None:
    text = "Error: failed to stat device /dev/nvidia0: no such file or directory"
    stuck = gpu_pod(daemon=waiting("CreateContainerError", text), test=waiting("PodInitializing"))
    events = [event(stuck, "Failed", text)]
    assert first(**with_pod(stuck, events=events)).cause == "devices-missing"
    assert failures(**with_pod(gpu_pod(), events=events)) == []


def test_peers_that_were_late_are_no_cause_once_the_ranks_have_met() -> None:
    late = "ssh: connect to host nccl-test-1.nccl-test port 222: Connection refused"
    assert first(**log(late)).cause == "peers-unreachable"
    hang = first(**log([late, *STARTED]), timed_out=True)
    assert hang.cause == "firewall-closed"


def test_a_scale_up_that_names_its_reason_is_told_once() -> None:
    pod = pending_pod()
    text = "Node scale up in zones us-east4-a associated with this pod failed: GCE quota exceeded."
    found = failures(**with_pod(pod, events=[event(pod, "FailedScaleUp", text)]))
    assert [diagnosis.cause for diagnosis in found] == ["quota-exceeded"]
