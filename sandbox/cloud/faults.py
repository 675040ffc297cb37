"""Fault plans: which call or operation goes wrong, how, and how often it has.

Owns the rules, their matching and their counts. A rule is either about HTTP requests (`path`,
`method`) or about operations (`operation`, `target`); it lets the first `skip` matches pass, then
fires at most `times` times (no limit without it), each time with `probability` decided by `seed`.

| key | for | meaning |
|---|---|---|
| `path` | requests | regular expression searched in the path |
| `method` | requests | HTTP method, any if absent |
| `status`, `reason`, `message` | requests | answer this instead of doing it |
| `drop` | requests | close the connection: `before` doing anything, `after` it was done |
| `operation`, `target` | operations | regular expressions searched in action and target path |
| `fail` | operations | `{code, message, httpStatus}`: the operation ends with this error |
| `hang` | operations | true: stays RUNNING until the rule is gone |
| `delay` | operations | seconds that it takes longer |
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandbox.cloud.errors import ApiError, OperationError

if TYPE_CHECKING:
    from sandbox.cloud.store import OperationRecord, Store

_REQUEST_KEYS = {"path": str, "method": str, "status": int, "reason": str, "drop": str}
_OPERATION_KEYS = {
    "operation": str,
    "target": str,
    "fail": dict,
    "hang": bool,
    "delay": int | float,
}
_COMMON_KEYS = {
    "message": str,
    "skip": int,
    "times": int,
    "probability": int | float,
    "seed": int,
}
_FAIL_KEYS = frozenset({"code", "message", "httpStatus"})
_REASONS = {429: "rateLimitExceeded", 500: "backendError", 503: "backendError"}


class FaultRuleError(ValueError):
    """A fault plan that cannot be carried out; the text names the key."""


class Faults:
    """The fault plans of one cloud; they outlive a restart."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rules: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        self._changed = asyncio.Event()
        for name, rule, matched, fired in store.faults():
            self._rules[name] = rule
            self._counts[name] = (matched, fired)

    def put(self, name: str, rule: Mapping[str, Any]) -> None:
        """Set a plan, counts at zero.

        Raises:
            FaultRuleError: the rule is none.
        """
        checked = _check(rule)
        self._rules[name] = checked
        self._count(name, 0, 0)

    def remove(self, name: str) -> bool:
        """Remove a plan and let go what it held; return whether there was one."""
        self._store.delete_fault(name)
        self._counts.pop(name, None)
        found = self._rules.pop(name, None) is not None
        self._wake()
        return found

    def clear(self) -> None:
        """Remove all plans."""
        for name in list(self._rules):
            self.remove(name)

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return each plan with its counts."""
        return {
            name: {
                "rule": rule,
                "matched": self._counts[name][0],
                "fired": self._counts[name][1],
            }
            for name, rule in self._rules.items()
        }

    def has_operation_rules(self) -> bool:
        """Return whether some plan is about operations."""
        return any("operation" in rule for rule in self._rules.values())

    def on_request(self, method: str, path: str) -> dict[str, Any] | None:
        """Return the rule that fires on a request, or None."""
        for name, rule in self._rules.items():
            if (
                "path" in rule
                and rule.get("method", method) == method
                and re.search(rule["path"], path)
                and self._fires(name, rule)
            ):
                return rule
        return None

    async def before_operation(self, operation: OperationRecord) -> None:
        """Delay, hold or fail an operation.

        Raises:
            OperationError: the plan says that the operation fails.
        """
        for name, rule in list(self._rules.items()):
            held = operation.body.get("heldBy") == name
            if not held and not (
                "operation" in rule
                and re.search(rule["operation"], operation.action)
                and re.search(rule.get("target", ""), operation.target)
                and self._fires(name, rule)
            ):
                continue
            if rule.get("hang"):
                operation.body["heldBy"] = name
                self._store.put_operation(operation)
            await asyncio.sleep(rule.get("delay", 0))
            while rule.get("hang") and self._rules.get(name) is rule:
                await self._changed.wait()
            if "fail" in rule:
                fail = rule["fail"]
                raise OperationError(
                    fail.get("code", "INTERNAL_ERROR"),
                    fail.get("message", "Internal error."),
                    http_status=fail.get("httpStatus", 503),
                )

    def _fires(self, name: str, rule: Mapping[str, Any]) -> bool:
        matched, fired = self._counts[name]
        chance = random.Random(f"{rule.get('seed', 0)}/{name}/{matched}").random()  # noqa: S311
        fires: bool = (
            matched >= rule.get("skip", 0)
            and fired < rule.get("times", fired + 1)
            and chance < rule.get("probability", 1.0)
        )
        self._count(name, matched + 1, fired + int(fires))
        return fires

    def _count(self, name: str, matched: int, fired: int) -> None:
        self._counts[name] = (matched, fired)
        self._store.put_fault(name, self._rules[name], matched, fired)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def error_of(rule: Mapping[str, Any]) -> ApiError:
    """Return the refusal that a request rule asks for."""
    status = int(rule["status"])
    return ApiError(
        status,
        rule.get("message", "The service is currently unavailable."),
        rule.get("reason", _REASONS.get(status, "backendError")),
    )


def _check(rule: Mapping[str, Any]) -> dict[str, Any]:
    about_operations = "operation" in rule
    known = {**(_OPERATION_KEYS if about_operations else _REQUEST_KEYS), **_COMMON_KEYS}
    for key, value in rule.items():
        if key not in known:
            raise FaultRuleError(f"unknown key {key!r}; known are {', '.join(sorted(known))}")
        if not isinstance(value, known[key]) or isinstance(value, bool) != (known[key] is bool):
            raise FaultRuleError(f"{key} is {value!r}, which has the wrong type")
    unknown = rule.get("fail", {}).keys() - _FAIL_KEYS
    if unknown:
        raise FaultRuleError(f"fail holds {sorted(unknown)}, known are {sorted(_FAIL_KEYS)}")
    for key in ("path", "operation", "target"):
        try:
            re.compile(rule.get(key, ""))
        except re.error as error:
            raise FaultRuleError(f"{key} is no regular expression: {error}") from error
    if about_operations:
        if not rule.keys() & {"fail", "hang", "delay"}:
            raise FaultRuleError("an operation rule needs fail, hang or delay")
    elif "path" not in rule:
        raise FaultRuleError("a rule needs path (requests) or operation (operations)")
    elif not rule.keys() & {"status", "drop"}:
        raise FaultRuleError("a request rule needs status or drop")
    if rule.get("drop", "before") not in ("before", "after"):
        raise FaultRuleError(f"drop is {rule['drop']!r}, expected before or after")
    if not 400 <= rule.get("status", 503) <= 599:
        raise FaultRuleError(f"status is {rule['status']}, expected 400 to 599")
    return dict(rule)
