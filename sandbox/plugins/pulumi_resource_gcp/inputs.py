"""Inputs from a state: what Read returns beside the outputs [facts google-cloud.md §12.3].

On refresh the inputs keep the shape that the program gave them and take over what changed; on
import everything that is set and could be written in a program becomes an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .checking import DEFAULTS, find_at
from .diffing import diff_field
from .schema import NESTED, Field, Fields, Type, inputs_of
from .values import Properties, is_empty


def inputs_from_state(
    fields: Fields, state: Mapping[str, Any], old_inputs: Mapping[str, Any]
) -> Properties:
    """Return the inputs that lead to a state."""
    if old_inputs:
        return _refreshed(fields, state, old_inputs)
    inputs = _imported(fields, state)
    _drop_conflicts(fields, inputs, fields, inputs)
    return inputs


def _drop_conflicts(
    fields: Fields, inputs: Properties, root_fields: Fields, root: Properties
) -> None:
    """Leave out what the server filled and a program may not write beside the rest."""
    for name, spec in inputs_of(fields):
        value = inputs.get(name)
        if value is None:
            continue
        if any(find_at(root_fields, root, other) is not None for other in spec.conflicts):
            del inputs[name]
        elif spec.type is Type.BLOCK:
            _drop_conflicts(spec.fields, value, root_fields, root)


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
        if spec.unsupported or value is None or (is_empty(value) and not spec.required):
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
