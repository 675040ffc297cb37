"""A Pod's additional networks: the annotation `networking.gke.io/interfaces`.

Owns reading it. Source: kubernetes/cloud-provider-gcp, crd/apis/network/v1/annotations.go (plain
JSON decoding); [facts autopilot.md §1.7].
"""

from __future__ import annotations

import json
from dataclasses import dataclass

INTERFACES_ANNOTATION = "networking.gke.io/interfaces"
DEFAULT_NETWORK = "default"


class InterfacesError(ValueError):
    """The annotation cannot be read; the text is what the decoder says."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface that the Pod wants."""

    name: str
    network: str


def read_interfaces(text: str | None) -> list[Interface]:
    """Read the annotation; without it there are none.

    Raises:
        InterfacesError: it is no JSON list of objects with `interfaceName` and `network`.
    """
    if text is None or not text.strip():
        return []
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise InterfacesError(_as_go_says(text, error)) from error
    if not isinstance(entries, list):
        raise InterfacesError("json: cannot unmarshal object into Go value of type []InterfaceRef")
    found = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise InterfacesError("json: cannot unmarshal into Go value of type InterfaceRef")
        name, network = entry.get("interfaceName"), entry.get("network")
        if not isinstance(name, str) or not name or not isinstance(network, str) or not network:
            raise InterfacesError("interfaceName and network must be set for every interface")
        found.append(Interface(name, network))
    return sorted(found, key=lambda item: _order(item.name))


def additional(interfaces: list[Interface]) -> list[Interface]:
    """Leave the Pod's own first interface out."""
    return [item for item in interfaces if item.network != DEFAULT_NETWORK]


def _order(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return stem, int(digits) if digits else -1


def _as_go_says(text: str, error: ValueError) -> str:
    """Put a JSON error into the words of Go's decoder, which the node's component uses."""
    position = getattr(error, "pos", 0)
    rest = text[position:].lstrip(" \t\r\n,")
    if not rest:
        return "unexpected end of JSON input"
    return f"invalid character '{rest[0]}' looking for beginning of value"
