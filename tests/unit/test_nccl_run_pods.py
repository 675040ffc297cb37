"""How far the Pods of a run have come, and what is hopeless about them."""

from __future__ import annotations

from typing import Any

import kubernetes
import pytest

from components.nccl_run_pods import Phase, end_problem, hopeless_problem, phase_of, summary

STATE = kubernetes.client.V1ContainerState
RUNNING = STATE(running=kubernetes.client.V1ContainerStateRunning())


def _waiting(reason: str, message: str = "") -> Any:
    return STATE(waiting=kubernetes.client.V1ContainerStateWaiting(reason=reason, message=message))


def _ended(code: int) -> Any:
    return STATE(terminated=kubernetes.client.V1ContainerStateTerminated(exit_code=code))


def _status(name: str, state: Any, *, started: bool | None = True, last: Any = None) -> Any:
    return kubernetes.client.V1ContainerStatus(
        name=name,
        image="",
        image_id="",
        ready=False,
        restart_count=0,
        state=state,
        started=started,
        last_state=last,
    )


def _pod(
    index: int,
    daemon: Any = RUNNING,
    test: Any = RUNNING,
    *,
    node: str | None = "node",
    healthy: bool | None = True,
    last: Any = None,
    **status: Any,
) -> Any:
    return kubernetes.client.V1Pod(
        metadata=kubernetes.client.V1ObjectMeta(
            name=f"nccl-test-{index}",
            labels={"batch.kubernetes.io/job-completion-index": str(index)},
        ),
        spec=kubernetes.client.V1PodSpec(containers=[], node_name=node),
        status=kubernetes.client.V1PodStatus(
            init_container_statuses=[_status("tcpxo-daemon", daemon, started=healthy, last=last)],
            container_statuses=[_status("nccl-test", test)],
            **status,
        ),
    )


CREATING = _waiting("ContainerCreating")
INITIALIZING = _waiting("PodInitializing")
REFUSED = _waiting("CreateContainerError", "failed to stat device")


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([], Phase.CAPACITY),
        ([_pod(0)], Phase.CAPACITY),
        ([_pod(0), _pod(1, node=None)], Phase.CAPACITY),
        ([_pod(0), _pod(1, CREATING, INITIALIZING)], Phase.PULL),
        ([_pod(0), _pod(1, _waiting("ImagePullBackOff"), INITIALIZING)], Phase.PULL),
        ([_pod(0), _pod(1, REFUSED, INITIALIZING)], Phase.START),
        ([_pod(0), _pod(1, RUNNING, INITIALIZING, healthy=False)], Phase.START),
        ([_pod(0), _pod(1, RUNNING, CREATING)], Phase.PULL),
        ([_pod(0), _pod(1)], Phase.RUN),
        ([_pod(0, test=_ended(0)), _pod(1)], Phase.DONE),
        ([_pod(0), _pod(1, test=_ended(0))], Phase.RUN),
    ],
)
def test_the_slowest_pod_decides_the_phase(pods: list[Any], phase: Phase) -> None:
    assert phase_of(pods, 2) is phase


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        (_pod(1, _ended(0)), "container tcpxo-daemon stopped with exit code 0"),
        (_pod(1, _waiting("CrashLoopBackOff"), last=_ended(3)), "stopped with exit code 3"),
        (_pod(1, test=_ended(137)), "container nccl-test ended with exit code 137"),
        (_pod(1, _waiting("InvalidImageName", "no tag")), "InvalidImageName: no tag"),
        (
            _pod(1, _waiting("ErrImagePull", "rpc error: code = NotFound desc = x")),
            "ErrImagePull: rpc error: code = NotFound",
        ),
        (_pod(1, phase="Failed", reason="Evicted", message="disk"), "failed: Evicted: disk"),
    ],
)
def test_what_does_not_mend_itself_ends_the_wait(pod: Any, problem: str) -> None:
    found = hopeless_problem([_pod(0), pod])
    assert found is not None
    assert problem in found
    assert "nccl-test-1" in found


@pytest.mark.parametrize(
    "pod",
    [
        _pod(1),
        # Kubernetes stops the daemon of a Pod whose work is done.
        _pod(1, _ended(143), _ended(0)),
        _pod(1, _waiting("ErrImagePull", "unexpected status 503")),
        _pod(1, REFUSED),
    ],
)
def test_what_can_mend_itself_is_waited_for(pod: Any) -> None:
    assert hopeless_problem([_pod(0), pod]) is None


def test_how_the_launcher_ended_is_told_only_where_it_failed() -> None:
    assert end_problem([_pod(0, test=_ended(0))]) is None
    assert end_problem([_pod(0, test=_ended(134))]) == "the launcher ended with exit code 134"


def test_the_summary_stays_short_for_any_number_of_pods() -> None:
    pods = [_pod(0), *(_pod(n, CREATING, INITIALIZING) for n in range(1, 90))]
    pods.append(_pod(90, node=None))
    assert (
        summary(pods) == "running (1), tcpxo-daemon ContainerCreating (89), waiting for a node (1)"
    )
    assert summary([]) == "no Pod"
