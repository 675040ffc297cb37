"""Explains why Autopilot refused an object.

Owns the constraints of GKE Warden that a GPU workload meets, and what each asks for. The requester
named in a refusal is a person: the address is not repeated [R12].
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from gpudirect.redaction import redact

MAX_REFUSAL_CHARACTERS: Final = 20_000

_CONSTRAINT = re.compile(r"\[?denied by ([a-z0-9][a-z0-9-]{2,80})\]?")
_CONTAINER = re.compile(
    r"container \\?['\"]([\w.-]{1,63})\\?['\"]|container ([\w.-]{1,63}) (?:is|uses|specifies|has)\b"
)
_POLICY = re.compile(r"ValidatingAdmissionPolicy '([\w.-]{1,120})'")
_POD_SECURITY = re.compile(r"violates (PodSecurity) \W")
_DETAILS = re.compile(r"Violations details: {0,4}(?=\{)")


@dataclass(frozen=True, slots=True)
class _Hint:
    constraint: str
    words: re.Pattern[str] | None
    text: str
    remedy: str


def _hint(constraint: str, text: str, remedy: str, words: str | None = None) -> _Hint:
    return _Hint(constraint, re.compile(words) if words else None, text, remedy)


# In the order in which the hints are given: first what is to be removed.
_HINTS: Final = (
    _hint(
        "autogke-default-linux-capabilities",
        "the cluster lacks allow-net-admin",
        "Turn NET_ADMIN on for the cluster; this program always asks for it, so `pulumi refresh` "
        "and `pulumi up` turn it on again.",
        r"capability \W{0,2}NET_ADMIN\b",
    ),
    _hint(
        "autogke-default-linux-capabilities",
        "remove the capability",
        "Autopilot allows only the capabilities that the refusal lists.",
        r"capability \W{0,2}(?!NET_ADMIN\b)[A-Z]",
    ),
    _hint(
        "autogke-default-linux-capabilities",
        "remove the capability",
        "Autopilot allows only the capabilities that the refusal lists.",
    ),
    _hint(
        "autogke-node-affinity-selector-limitation",
        "remove the node pool selector",
        "Autopilot has no node pools to choose from: remove `cloud.google.com/gke-nodepool`.",
        "gke-nodepool",
    ),
    _hint(
        "autogke-node-affinity-selector-limitation",
        "remove the node selector",
        "Autopilot does not allow the selector that the refusal names.",
        r"Key \W{0,2}(?!cloud\.google\.com/gke-nodepool\b)\w",
    ),
    _hint(
        "autogke-node-affinity-selector-limitation",
        "remove the node selector",
        "Autopilot does not allow the selector that the refusal names.",
    ),
    _hint(
        "autogke-gpu-limitation",
        "set the accelerator",
        "Add the node selector `cloud.google.com/gke-accelerator` with the machine's accelerator.",
    ),
    _hint(
        "autopilot-machine-family-selection-limitation",
        "remove the machine family selector",
        "GPU Pods are placed by their accelerator.",
    ),
    _hint(
        "autogke-disallow-hostnamespaces",
        "remove hostNetwork, hostPID and hostIPC",
        "GPUDirect does not need the node's namespaces on Autopilot.",
    ),
    _hint(
        "autogke-disallow-privilege",
        "remove privileged: true",
        "The receive daemon needs NET_ADMIN alone (and NET_BIND_SERVICE on A3 Mega).",
    ),
    _hint(
        "autogke-no-write-mode-hostpath",
        "remove the hostPath volume",
        "Autopilot admits the folders that GPUDirect needs and /var/log read-only; nothing else.",
    ),
    _hint(
        "autogke-no-host-port",
        "remove the hostPort",
        "Use the Pod's own address.",
    ),
    _hint(
        "autogke-pod-limit-constraints",
        "request less",
        "Keep the requests below what the machine has left beside the system's Pods.",
    ),
    _hint(
        "PodSecurity",
        "use a namespace that admits GPU Pods",
        "The receive daemon needs NET_ADMIN and folders of the node, which the namespace's label "
        "`pod-security.kubernetes.io/enforce` forbids: take it off, or use another namespace.",
    ),
    _hint(
        "managed-namespaces-limitation",
        "use a namespace of your own",
        "Autopilot keeps kube-system and its other namespaces for itself.",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Denial:
    """A refusal, explained.

    Attributes:
        constraints: Rules that were violated, in the order of the text.
        containers: Containers that the text names.
        violations: (constraint, what it says), where the text holds them as data.
        hint: What to change, in a few words.
        remedy: The same in sentences.
        text: The refusal without addresses and secrets.
    """

    constraints: tuple[str, ...]
    containers: tuple[str, ...]
    violations: tuple[tuple[str, str], ...]
    hint: str
    remedy: str
    text: str


def explain_denial(text: str) -> Denial:
    """Explain a refusal of the API server; any text is taken."""
    text = text[:MAX_REFUSAL_CHARACTERS]
    violations = _violations(text)
    constraints = tuple(dict.fromkeys(_CONSTRAINT.findall(text)))
    if not constraints:
        named = (_POLICY.findall(text), _POD_SECURITY.findall(text))
        constraints = tuple(dict.fromkeys(name for names in named for name in names))
    hints = _hints(constraints, text)
    return Denial(
        constraints=constraints,
        containers=tuple(dict.fromkeys(a or b for a, b in _CONTAINER.findall(text))),
        violations=tuple((name, redact(message)) for name, message in violations),
        hint="; ".join(hint.text for hint in hints) or "see what the refusal names",
        remedy=" ".join(hint.remedy for hint in hints),
        text=redact(text),
    )


def _hints(constraints: tuple[str, ...], text: str) -> list[_Hint]:
    hints: list[_Hint] = []
    for hint in _HINTS:
        if not any(hint.constraint in constraint for constraint in constraints):
            continue
        # What has no words is for a refusal that none of the others fits.
        is_known = any(other.constraint == hint.constraint for other in hints)
        if hint.words.search(text) if hint.words else not is_known:
            hints.append(hint)
    return hints


def _violations(text: str) -> list[tuple[str, str]]:
    start = _DETAILS.search(text)
    if start is None:
        return []
    try:
        details, _ = json.JSONDecoder().raw_decode(text, start.end())
    except (ValueError, RecursionError):
        return []
    if not isinstance(details, dict):
        return []
    found = []
    for key, messages in details.items():
        constraint = _CONSTRAINT.search(key)
        name = constraint[1] if constraint else key
        texts = messages if isinstance(messages, list) else [messages]
        found += [(name, str(text)) for text in texts]
    return found
