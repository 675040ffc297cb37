"""Long-running operations: accepted now, done later, finished after a restart.

Owns the life of an operation (PENDING, RUNNING, DONE), its pacing, its log of times, and the seam
for fault plans. What an operation does is registered by the module of the resource kind. Owns no
JSON shape: `compute_operations`, `container_operations` and `services` render rows for clients.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.cloud.errors import OperationError
from sandbox.cloud.pacing import duration
from sandbox.cloud.store import OperationRecord

if TYPE_CHECKING:
    from sandbox.cloud.core import Cloud

_log = logging.getLogger(__name__)
_PENDING_SHARE = 0.05
"""Share of an operation's time before it leaves PENDING."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """What an operation does.

    Attributes:
        apply: Changes the store, inside one transaction, when the time is up. Checks before it
            writes: after an `OperationError` its writes stay. Gets what `work` returned.
        work: Slow part before that (a control plane starts); may be run again after a restart.
        undo: Takes back what the call had written when the operation fails.
    """

    apply: Callable[[Cloud, OperationRecord, Any], None]
    work: Callable[[Cloud, OperationRecord], Awaitable[Any]] | None = None
    undo: Callable[[Cloud, OperationRecord, OperationError], None] | None = None


EFFECTS: dict[str, Effect] = {}
"""Action (`networks.insert`) -> what it does."""


class Operations:
    """Runs the operations of one cloud."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: dict[str, asyncio.Event] = {}

    def begin(
        self,
        *,
        api: str,
        project: str,
        location: str,
        action: str,
        operation_type: str,
        target: str,
        params: dict[str, Any] | None = None,
        requires: Sequence[str] = (),
    ) -> OperationRecord:
        """Accept an operation, within the transaction of the call.

        Args:
            api: Whose operation it is: compute, container or serviceusage.
            project: Project id.
            location: `global`, region or zone of the operation.
            action: Key of `EFFECTS`.
            operation_type: What clients see: `insert`, `CREATE_CLUSTER`.
            target: Path of the resource.
            params: Handed to the effect.
            requires: Paths of resources without which this one cannot be; for the log.

        Returns:
            The operation, DONE already if it takes no time and is to be answered so.
        """
        now = time.time()
        seconds = duration(action, target, self._cloud.pace, self._cloud.seed)
        operation = OperationRecord(
            name=_name(api),
            api=api,
            project=project,
            location=location,
            action=action,
            target=target,
            body={
                "type": operation_type,
                "params": params or {},
                "requires": list(requires),
                "requested": now,
                "starts": now + seconds * _PENDING_SHARE,
                "due": now + seconds,
            },
        )
        store = self._cloud.store
        at_once = (
            seconds == 0
            and EFFECTS[action].work is None
            and not self._cloud.answers_pending
            and not self._cloud.faults.has_operation_rules()
        )
        store.put_operation(operation)
        if at_once:
            operation.body["started"] = now
            self._finish(operation, None)
        else:
            self._spawn(operation.name)
        return operation

    def resume(self) -> None:
        """Go on with every operation that was open when the last process ended."""
        for operation in self._cloud.store.operations(open_only=True):
            self._spawn(operation.name)

    async def wait(self, name: str, seconds: float) -> None:
        """Return when an operation is done, or after `seconds`."""
        event = self._done.get(name)
        if event is not None:
            try:
                async with asyncio.timeout(seconds):
                    await event.wait()
            except TimeoutError:
                return

    async def drain(self) -> None:
        """Return when no operation is open."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Stop working; open operations stay open in the store."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, name: str) -> None:
        if name in self._tasks:
            return
        self._done[name] = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._run(name), name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._forget(name))

    def _forget(self, name: str) -> None:
        self._tasks.pop(name, None)
        self._done.pop(name).set()

    async def _run(self, name: str) -> None:
        operation = self._cloud.store.get_operation(name)
        if operation is None or operation.status == "DONE":
            return
        await _until(operation.body["starts"])
        operation.status = "RUNNING"
        operation.body.setdefault("started", time.time())
        self._cloud.store.put_operation(operation)
        effect, result = EFFECTS[operation.action], None
        try:
            await self._cloud.faults.before_operation(operation)
            if effect.work is not None:
                result = await effect.work(self._cloud, operation)
            await _until(operation.body["due"])
        except OperationError as error:
            self._fail(operation, error)
        except Exception:  # noqa: BLE001 - a defect here must end the operation, not the server
            _log.exception("operation %s (%s) broke", name, operation.action)
            self._fail(operation, OperationError("INTERNAL", "Internal error.", http_status=500))
        else:
            self._finish(operation, result)

    def _finish(self, operation: OperationRecord, result: Any) -> None:
        try:
            with self._cloud.store.transaction():
                EFFECTS[operation.action].apply(self._cloud, operation, result)
                self._close(operation)
        except OperationError as error:
            self._fail(operation, error)

    def _fail(self, operation: OperationRecord, error: OperationError) -> None:
        undo = EFFECTS[operation.action].undo
        with self._cloud.store.transaction():
            if undo is not None:
                undo(self._cloud, operation, error)
            operation.body["error"] = {
                "code": error.code,
                "message": error.message,
                "httpStatus": error.http_status,
            }
            self._close(operation)

    def _close(self, operation: OperationRecord) -> None:
        operation.status = "DONE"
        operation.body["ended"] = time.time()
        self._cloud.store.put_operation(operation)


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.time()))


def _name(api: str) -> str:
    """Return a new operation name in the form that the API gives."""
    milliseconds = int(time.time() * 1000)
    if api == "compute":
        parts = (secrets.token_hex(7)[:13], secrets.token_hex(4), secrets.token_hex(4))
        return f"operation-{milliseconds}-{'-'.join(parts)}"
    if api == "container":
        return f"operation-{milliseconds}-{uuid.uuid4()}"
    return f"acat.p2-{milliseconds}-{uuid.uuid4()}"
