"""Between Pulumi's properties and Google's JSON, driven by the field tables.

Owns the mechanical part: one property, one dotted path. What a resource computes otherwise
(links, blocks that are folded or split) stands in its own module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .schema import COLLECTIONS, NESTED, Field, Fields, Type
from .values import is_empty

Json = dict[str, Any]


def expand(fields: Fields, inputs: Mapping[str, Any], *, compact: bool = False) -> Json:
    """Build a request body from what the program set.

    Args:
        fields: The table.
        inputs: What the program set.
        compact: Leave out empty values, as the provider does towards the Compute API.
    """
    body: Json = {}
    for name, spec in fields.items():
        value = inputs.get(name)
        if value is None or not spec.api or spec.output or spec.client:
            continue
        value = expand_value(spec, value, compact=compact)
        if not compact or spec.send_empty or not is_empty(value):
            put(body, spec.api, value)
    return body


def expand_value(spec: Field, value: Any, *, compact: bool = False) -> Any:
    """Turn one property value into its JSON form."""
    if spec.type is Type.BLOCK:
        return expand(spec.fields, value, compact=compact)
    if spec.type in NESTED:
        return [expand(spec.fields, item, compact=compact) for item in value]
    return value


def flatten(fields: Fields, body: Mapping[str, Any], previous: Mapping[str, Any]) -> Json:
    """Build the state from an answer.

    Args:
        fields: The resource's table.
        body: Google's JSON.
        previous: The saved state or the inputs; supplies what no answer holds.
    """
    state: Json = {}
    for name, spec in fields.items():
        if spec.unsupported:
            continue
        if spec.client or not spec.api:
            state[name] = previous.get(name, spec.default if spec.client else None)
            if state[name] is None:
                state[name] = zero(spec)
            continue
        if spec.sticky and get(body, spec.api.rpartition(".")[0]) is None:
            value = previous.get(name)
            state[name] = zero(spec) if value is None else value
            continue
        state[name] = flatten_value(spec, get(body, spec.api))
    return state


def flatten_value(spec: Field, value: Any) -> Any:
    """Turn one JSON value into its property form; what is absent becomes the zero value [§1.5]."""
    if value is None:
        return zero(spec)
    if spec.type is Type.BLOCK:
        return flatten(spec.fields, value, {}) if isinstance(value, Mapping) else None
    if spec.type in NESTED:
        return [flatten(spec.fields, item, {}) for item in value]
    if spec.type is Type.INT:
        return int(value)
    if spec.type is Type.FLOAT:
        return float(value)
    if spec.type is Type.STRING:
        return str(value)
    return value


def zero(spec: Field) -> Any:
    """Return what an unset field of this type reads back as [§1.5]."""
    if spec.type is Type.STRING:
        return ""
    if spec.type is Type.BOOL:
        return False
    if spec.type in {Type.INT, Type.FLOAT}:
        return 0
    if spec.type is Type.BLOCK:
        return None
    if spec.type is Type.MAP:
        return {}
    return []


def conforming(fields: Fields, state: Mapping[str, Any]) -> Json:
    """Empty what is not of its field's type in a saved state.

    A state may have been written by another version of the provider.
    """
    return {name: _conforming(fields.get(name), value) for name, value in state.items()}


def _conforming(spec: Field | None, value: Any) -> Any:
    if spec is None or value is None:
        return value
    if spec.type is Type.BLOCK:
        return conforming(spec.fields, value) if isinstance(value, Mapping) else None
    if spec.type in NESTED:
        items = value if isinstance(value, list) else []
        return [conforming(spec.fields, item) for item in items if isinstance(item, Mapping)]
    if spec.type in COLLECTIONS:
        return value if isinstance(value, list) else None
    if spec.type is Type.MAP:
        return value if isinstance(value, Mapping) else None
    return value


def get(body: Mapping[str, Any], path: str) -> Any:
    """Read a dotted path; None if any part is missing."""
    value: Any = body
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def put(body: Json, path: str, value: Any) -> None:
    """Write a dotted path, making the objects on the way."""
    *parents, last = path.split(".")
    for part in parents:
        body = body.setdefault(part, {})
    body[last] = value
