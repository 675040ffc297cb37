"""The list of endpoints and rules that this cloud has, each with where it comes from.

Owns the registry that the routes are made from and that the fidelity table is generated from, so
that the two cannot differ. A *judge* is a client that nobody here wrote: `gcloud`, or `provider`
for the recorded traffic of the real provider plug-in. A judge is named only where a test shows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox.cloud.core import Call

Answer = dict[str, Any]
Handler = Callable[["Call"], "Answer | Awaitable[Answer]"]

PREFIXES: dict[str, tuple[str, ...]] = {
    "compute": ("/compute/{version:apiversion}",),
    "container": ("/{version:apiversion}", "/container/{version:apiversion}"),
    "serviceusage": ("/{version:apiversion}", "/serviceusage/{version:apiversion}"),
    "resourcemanager": ("/{version:apiversion}", "/resourcemanager/{version:apiversion}"),
}
"""API -> path prefixes. gcloud uses the first, the provider plug-in the last of each
[facts gcloud-requests.md, real-provider.md]."""
GATES = {"compute": "compute.googleapis.com", "container": "container.googleapis.com"}
"""API -> service that must be on in the project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """One method of the HTTP API."""

    api: str
    method: str
    path: str
    handler: Handler
    citation: str
    judges: frozenset[str]

    @property
    def id(self) -> str:
        """Name of the endpoint in the fidelity table."""
        return f"{self.api} {self.method} {self.path}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One thing that this cloud holds clients to."""

    id: str
    text: str
    citation: str
    judges: frozenset[str]


ENDPOINTS: list[Endpoint] = []
RULES: dict[str, Rule] = {}


def endpoint(
    api: str, method: str, path: str, *, citation: str, judges: str = ""
) -> Callable[[Handler], Handler]:
    """Register a handler; `judges` is a list of names separated by spaces."""

    def register(handler: Handler) -> Handler:
        ENDPOINTS.append(
            Endpoint(
                api=api,
                method=method,
                path=path,
                handler=handler,
                citation=citation,
                judges=frozenset(judges.split()),
            )
        )
        return handler

    return register


def rule(rule_id: str, text: str, *, citation: str, judges: str = "") -> None:
    """Register a rule; a test must prove each of them (`tests/cloud/proofs.py`)."""
    if rule_id in RULES:
        raise ValueError(f"rule {rule_id} is registered twice")
    RULES[rule_id] = Rule(
        id=rule_id, text=text, citation=citation, judges=frozenset(judges.split())
    )


def as_table() -> dict[str, list[dict[str, Any]]]:
    """Return the whole registry in JSON form."""
    return {
        "endpoints": [
            {"id": known.id, "citation": known.citation, "judges": sorted(known.judges)}
            for known in sorted(ENDPOINTS, key=lambda known: known.id)
        ],
        "rules": [
            {
                "id": known.id,
                "rule": known.text,
                "citation": known.citation,
                "judges": sorted(known.judges),
            }
            for known in sorted(RULES.values(), key=lambda known: known.id)
        ],
    }
