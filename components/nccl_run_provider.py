"""The dynamic provider that owns one NCCL run and its result in Pulumi's state.

Owns when a run happens, what is stored of it and the lines shown meanwhile. Does not own the run in
the cluster (`nccl_run`) nor what is run (`nccl_smoke_test`). This is the project's only dynamic
provider: neither `pulumi-gcp` nor `pulumi-kubernetes` can wait for a Job and read its log.

The engine starts this in a process of its own, so nothing heavy is imported before a run.
"""

import gc
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider, UpdateResult

Properties = dict[str, Any]

LAUNCHER_CONTAINER = "nccl-test"
"""The container of the run whose log holds the table; Pod 0 of the Job launches."""

# What of the inputs is kept in state, to be compared by the next update.
_REMEMBERED = ("triggers", "policy", "reference")


class NcclRunProvider(ResourceProvider):
    """Runs the test when what it proves has changed, and judges again when only the bar has."""

    # The pickled provider is a reference to this class and holds no secret; as a secret it would
    # show up as a change of every preview.
    serialize_as_secret_always = False

    def create(self, props: Properties) -> CreateResult:
        """Run for the first time."""
        return CreateResult(id_=f"nccl-{int(time.time())}", outs=_run(props, history=[]))

    def update(self, _id: str, olds: Properties, news: Properties) -> UpdateResult:
        """Run again, or judge the stored rows again where the run itself still stands."""
        if _needs_run(olds, news):
            return UpdateResult(outs=_run(news, history=olds.get("history") or []))
        return UpdateResult(outs=_judge_again(olds, news))

    def diff(self, _id: str, olds: Properties, news: Properties) -> DiffResult:
        """Say whether an update is due; a run never replaces the resource, it keeps the history."""
        changed = any(olds.get(key) != news.get(key) for key in _REMEMBERED)
        return DiffResult(changes=changed or _needs_run(olds, news))

    def delete(self, _id: str, _props: Properties) -> None:
        """Do nothing: a run leaves nothing behind in the cluster."""


def _needs_run(olds: Properties, news: Properties) -> bool:
    if olds.get("triggers") != news.get("triggers"):
        return True
    verdict = (olds.get("result") or {}).get("verdict")
    # No number yet, or a gate that is still shut: the next update tries again.
    return verdict == "incomplete" or (news["policy"]["mode"] == "gate" and verdict != "passed")


def _run(props: Properties, *, history: list[Any]) -> Properties:
    # Imported here: previews and no-change updates start this process too and need none of it.
    from components.nccl_run import ClusterUnreachableError, RunInCluster
    from gpudirect.nccl_history import append_history
    from gpudirect.run_result import result_of_run, result_without_run

    policy, reference = props["policy"], props["reference"]
    started = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        outcome = RunInCluster(
            kubeconfig=json.loads(props["kubeconfig"]),
            documents=json.loads(props["documents"]),
            networks=[nic["network_object"] for nic in props["triggers"]["fabric"]["nics"]],
            deadlines=props["deadlines"],
            report=_reporter(props["statusUrn"]),
            cancelled=_cancellation(),
        ).execute()
    except ClusterUnreachableError as error:
        result = result_without_run(str(error))
    else:
        result = result_of_run(
            outcome.run,
            policy=policy,
            reference=reference,
            problem=outcome.problem,
            phase=outcome.phase.value,
            evidence=outcome.evidence,
            seconds=outcome.seconds,
        )
    result |= {
        "nodes": policy["nodes"],
        "release": props["triggers"]["release"],
        "startedAt": started,
    }
    remembered = {key: props[key] for key in _REMEMBERED}
    return {**remembered, "result": result, "history": append_history(history, result)}


def _judge_again(olds: Properties, news: Properties) -> Properties:
    from gpudirect.run_result import judge_result_again

    remembered = {key: news[key] for key in _REMEMBERED}
    result = judge_result_again(olds["result"], policy=news["policy"], reference=news["reference"])
    return {**remembered, "result": result, "history": olds.get("history") or []}


def _reporter(urn: str) -> Callable[[str, bool], None]:
    """Return a function that shows a line beside the resource in the CLI."""
    address = next((a for a in reversed(sys.argv[1:]) if re.fullmatch(r"[\w.\-]+:\d+", a)), None)
    if address is None:
        return lambda _text, _new_phase: None
    import grpc
    from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

    engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address))

    def report(text: str, new_phase: bool) -> None:
        request = engine_pb2.LogRequest(
            severity=engine_pb2.INFO, message=text, urn=urn, ephemeral=not new_phase
        )
        try:
            engine.Log(request, timeout=5)
        except grpc.RpcError:
            # The engine has gone; `_cancellation` notices it too and ends the run.
            return

    return report


def _cancellation() -> Callable[[], bool]:
    """Return a function that says whether nobody waits for the result any more.

    Ctrl-C in the CLI arrives here as the provider protocol's Cancel call; a killed engine leaves
    this process behind with another parent.
    """
    cancelled = threading.Event()
    _on_cancel_call(cancelled.set)
    parent = os.getppid()
    return lambda: cancelled.is_set() or os.getppid() != parent


def _on_cancel_call(callback: Callable[[], None]) -> None:
    """Have the Cancel call of the engine call back.

    `pulumi.dynamic` answers Cancel itself and tells its providers nothing, so that without this the
    run would go on to its deadline with 16 GPUs. Its server offers no hook either: the handler is
    found among the living objects and wrapped. Tried with pulumi 3.272.0; where the server looks
    otherwise, nothing is wrapped and a cancelled run ends with its own deadline.
    """
    method = "/pulumirpc.ResourceProvider/Cancel"
    for candidate in gc.get_objects():
        # By its type's name alone: asking any object for an attribute may run any code.
        if type(candidate).__name__ != "DictionaryGenericHandler":
            continue
        handlers = getattr(candidate, "_method_handlers", None)
        if not isinstance(handlers, dict) or method not in handlers:
            continue
        original = handlers[method]

        def cancel(request: Any, context: Any, answer: Any = original.unary_unary) -> Any:
            callback()
            return answer(request, context)

        handlers[method] = original._replace(unary_unary=cancel)
