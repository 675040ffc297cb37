"""Inputs from a state: what Read returns beside the outputs [facts google-cloud.md §12.3].

On refresh the inputs keep the shape that the program gave them and take over what changed; on
import everything that is set and could be written in a program becomes an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .checking import DEFAULTS
from .diffing import diff_field
from .schema import NESTED, Field, Fields, Type, inputs_of
from .values import Properties, is_empty


def inputs_from_state(
    fields: Fields, state: Mapping[str, Any], old_inputs: Mapping[str, Any]
) -> Properties:
    """Return the inputs that lead to a state."""
    if not old_inputs:
        return _imported(fields, state)
    return _refreshed(fields, state, old_inputs)


def _refreshed(fields: Fields, state: Mapping[str, Any], old: Mapping[str, Any]) -> Properties:
    inputs: Properties = {}
    for name, value in old.items():
        spec = fields.get(name)
        if name == DEFAULTS or spec is None or spec.unsupported:
            inputs[name] = value
            continue
        found = state.get(name)
        if not any(diff_field(spec, found, value, name)):
            # The same thing in another form (a short name, other order) stays as it was typed.
            inputs[name] = value
        elif spec.type is Type.BLOCK and isinstance(found, Mapping) and isinstance(value, Mapping):
            inputs[name] = _refreshed(spec.fields, found, value)
        elif spec.type in NESTED and isinstance(found, list):
            inputs[name] = [_imported(spec.fields, item) for item in found]
        elif found is not None:
            inputs[name] = found
    return inputs


def _imported(fields: Fields, state: Mapping[str, Any]) -> Properties:
    inputs: Properties = {DEFAULTS: []}
    for name, spec in inputs_of(fields):
        value = state.get(name)
        if is_empty(value) or spec.unsupported:
            continue
        nested = _imported_value(spec, value)
        if nested is not None:
            inputs[name] = nested
    return inputs


def _imported_value(spec: Field, value: Any) -> Any:
    if spec.type is Type.BLOCK:
        inner = _imported(spec.fields, value)
        return inner if len(inner) > 1 else None
    if spec.type in NESTED:
        return [_imported(spec.fields, item) for item in value]
    return value
