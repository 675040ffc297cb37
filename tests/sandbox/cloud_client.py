"""The sandbox's cloud as a test sees it: Google's API, and the sandbox's own namespace.

Owns the calls; the waiting is for a condition, never for a time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import httpx

_LONGEST_WAIT_SECONDS = 120.0
_LOOK_EVERY_SECONDS = 0.05


class CloudClient:
    """One sandbox's cloud.

    Args:
        environment: What `python -m sandbox env` says.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.project = environment["GOOGLE_PROJECT"]
        self._http = httpx.Client(
            base_url=environment["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"].removesuffix("compute/v1/"),
            headers={
                "Authorization": f"Bearer {environment['GOOGLE_OAUTH_ACCESS_TOKEN']}",
                # Nothing stays open, so nothing has to be closed.
                "Connection": "close",
            },
            trust_env=False,
            timeout=60,
        )

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        response = self._http.request(method, path, json=body)
        assert response.is_success, f"{method} {path}: {response.text}"
        return response.json()

    def compute(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the Compute API and wait for the operation that it starts."""
        base = f"compute/v1/projects/{self.project}/"
        answer = self.call(method, base + path, body)
        while answer.get("kind") == "compute#operation" and answer["status"] != "DONE":
            answer = self.call("GET", answer["selfLink"])
        assert "error" not in answer, answer
        return answer

    def container(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the GKE API; an operation that it starts ends later."""
        return self.call(method, f"v1beta1/projects/{self.project}/locations/{path}", body)

    # The sandbox's own namespace.

    def resources(self) -> list[dict[str, Any]]:
        """What users and their clusters have."""
        found: list[dict[str, Any]] = self.call("GET", "sandbox/v1/resources")["resources"]
        return found

    def names(self, kind: str) -> list[str]:
        return sorted(r["name"] for r in self.resources() if r["kind"] == kind)

    def clusters(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", "sandbox/v1/clusters")["clusters"]
        return found

    def operations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", "sandbox/v1/operations")["operations"]
        return found

    def made(self, action: str) -> Counter[str]:
        """Return how often each target was made (or else) by operations that ended well."""
        return Counter(
            operation["target"]
            for operation in self.operations()
            if operation["action"] == action
            and operation["status"] == "DONE"
            and not operation["error"]
        )

    def plan(self, name: str, **rule: Any) -> None:
        """Set a fault plan."""
        self.call("PUT", f"sandbox/v1/faults/{name}", rule)

    def fired(self, name: str) -> int:
        return int(self.call("GET", "sandbox/v1/faults")["faults"][name]["fired"])

    def end_plan(self, name: str) -> int:
        """Remove a fault plan; return how often it fired."""
        fired = self.fired(name)
        self.call("DELETE", f"sandbox/v1/faults/{name}")
        return fired

    def set_quota(self, **limits: int) -> None:
        self.call("PUT", f"sandbox/v1/projects/{self.project}", {"quotas": limits})

    def reset(self) -> None:
        """Delete every cluster and all state."""
        self.call("POST", "sandbox/v1/reset")

    def at_rest(self) -> bool:
        return all(operation["status"] == "DONE" for operation in self.operations())


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return when a condition holds; fail when it does not for long."""
    deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {_LONGEST_WAIT_SECONDS:.0f} s: {what}")
        time.sleep(_LOOK_EVERY_SECONDS)
