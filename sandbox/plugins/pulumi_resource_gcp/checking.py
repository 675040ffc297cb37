"""Check: names, defaults and everything that can be refused without asking Google.

Owns `__defaults`, autonaming and the texts of refused values [facts google-cloud.md §1.1-1.3,
§1.6]. What is refused later, by Diff or Create, stands with the resource.
"""

from __future__ import annotations

import hashlib
import re
import secrets as random_source
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ProviderError
from .schema import COLLECTIONS, NESTED, Field, Fields, Type, inputs_of, snake_case, terraform_name
from .values import UNKNOWN, Properties, contains_unknown

DEFAULTS = "__defaults"
_SUFFIX_DIGITS = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class AutoName:
    """How a name is made when the program gives none [§1.2]."""

    longest: int = 255
    lower_case: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """What the engine says about the names of one resource."""

    urn_name: str
    seed: bytes = b""
    mode: str = ""
    """`propose`, `enforce`, `disable`, or empty when the user configured nothing."""
    proposed: str = ""


@dataclass(slots=True)
class Checked:
    """The outcome of Check."""

    inputs: Properties
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check_inputs(
    fields: Fields,
    news: Mapping[str, Any],
    olds: Mapping[str, Any],
    *,
    naming: Naming,
    autoname: AutoName | None,
    exactly_one: tuple[tuple[str, ...], ...] = (),
) -> Checked:
    """Complete and judge the inputs of one resource.

    Args:
        fields: The resource's table.
        news: What the program says.
        olds: The checked inputs of the last deployment.
        naming: For names that must be made.
        autoname: How `name` is made, or None if it has no name of its own.
        exactly_one: Groups of properties of which exactly one must be given.

    Raises:
        ProviderError: no name can be made.
    """
    checked = Checked({})
    checked.inputs = _complete(fields, news, (), checked)
    if autoname is not None and checked.inputs.get("name") is None:
        name = _make_name(naming, autoname, olds)
        if name:
            checked.inputs["name"] = name
            checked.inputs[DEFAULTS] = sorted([*checked.inputs[DEFAULTS], "name"])
    problems = [
        *_required(fields, checked.inputs, "", ""),
        *_conflicts(fields, checked.inputs, checked.inputs, fields, "", ""),
        *_exactly_one(fields, checked.inputs, exactly_one, "", ""),
        *_values(fields, checked.inputs, "", ""),
    ]
    checked.failures += [
        f"{text}. Examine values at '{naming.urn_name}.{path}'." for path, text in problems
    ]
    return checked


# --- completing ------------------------------------------------------------------------------


def _complete(
    fields: Fields, news: Mapping[str, Any], path: tuple[str, ...], checked: Checked
) -> Properties:
    inputs: Properties = {}
    for name, value in news.items():
        if name == DEFAULTS or value is None:
            continue
        spec = fields.get(name)
        if spec is None or spec.output:
            where = ".".join((*path, name))
            checked.warnings.append(
                f"Type checking failed:\nUnexpected property at field {where!r}: it is not "
                "known to the gcp provider and is left out"
            )
            continue
        if spec.unsupported:
            inputs[name] = value
            continue
        inputs[name] = _complete_value(spec, value, (*path, name), checked)
    filled = []
    for name, spec in inputs_of(fields):
        # Terraform's falsy defaults are not written into the inputs (bridge issue 2618).
        if spec.default and inputs.get(name) is None and not _present(spec.conflicts, inputs):
            inputs[name] = spec.default
            filled.append(name)
    inputs[DEFAULTS] = sorted(filled)
    return inputs


def _complete_value(spec: Field, value: Any, path: tuple[str, ...], checked: Checked) -> Any:
    if value is UNKNOWN:
        return value
    if spec.type is Type.BLOCK:
        if isinstance(value, Mapping):
            return _complete(spec.fields, value, path, checked)
    elif spec.type in NESTED:
        if isinstance(value, list):
            return [_complete_item(spec, item, path, checked) for item in value]
    else:
        coerced = _coerce(spec, value)
        if coerced is not None:
            return coerced
    return _unfit(spec.type.value, value, path, checked)


def _complete_item(spec: Field, item: Any, path: tuple[str, ...], checked: Checked) -> Any:
    if item is UNKNOWN:
        return item
    if isinstance(item, Mapping):
        return _complete(spec.fields, item, path, checked)
    _unfit("object", item, path, checked)
    return {DEFAULTS: []}


def _coerce(spec: Field, value: Any) -> Any:
    """Bring a value into the type of its field, as the bridge does; None if it does not fit."""
    if spec.type in COLLECTIONS:
        items = [_text(item) for item in value] if isinstance(value, list) else [None]
        return None if None in items else items
    if spec.type is Type.MAP:
        if not isinstance(value, Mapping):
            return None
        items_by_key = {key: _text(item) for key, item in value.items() if item is not None}
        return None if None in items_by_key.values() else items_by_key
    if spec.type is Type.BOOL:
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value))
    if isinstance(value, bool) and spec.type is not Type.STRING:
        return None
    if spec.type is Type.INT:
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            return int(value)
        return value if isinstance(value, int) else None
    if spec.type is Type.FLOAT:
        return value if isinstance(value, int | float) else None
    return _text(value)


_BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def _text(value: Any) -> Any:
    """Return a scalar as text; None for what is not one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value if isinstance(value, str) or value is UNKNOWN else None


def _unfit(expected: str, value: Any, path: tuple[str, ...], checked: Checked) -> None:
    where = ".".join(path)
    checked.failures.append(
        f"Type checking failed: Unexpected type at field {where!r}: expected {expected}, "
        f"got {_kind(value)}"
    )


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return f"the boolean {value}"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else repr(value)


def _make_name(naming: Naming, autoname: AutoName, olds: Mapping[str, Any]) -> str:
    if "name" in (olds.get(DEFAULTS) or ()) and isinstance(olds.get("name"), str):
        return str(olds["name"])
    if naming.mode == "disable":
        return ""
    if naming.mode == "enforce":
        return naming.proposed
    if naming.mode == "propose":
        return naming.proposed.lower() if autoname.lower_case else naming.proposed
    prefix = (naming.urn_name.lower() if autoname.lower_case else naming.urn_name) + "-"
    if len(prefix) + _SUFFIX_DIGITS > autoname.longest:
        raise ProviderError(
            f"name '{prefix}' plus {_SUFFIX_DIGITS} random chars is longer than maximum "
            f"length {autoname.longest}"
        )
    seed = naming.seed or random_source.token_bytes()
    return prefix + hashlib.sha256(seed).hexdigest()[:_SUFFIX_DIGITS]


# --- judging ---------------------------------------------------------------------------------

Problem = tuple[str, str]
"""Pulumi path and text."""


def _walk(
    fields: Fields, values: Mapping[str, Any], path: str, tf_path: str
) -> Iterator[tuple[Field, Any, str, str]]:
    """Visit every field of one level: its spec, value, Pulumi path and Terraform path."""
    for name, spec in inputs_of(fields):
        yield spec, values.get(name), path + name, tf_path + terraform_name(name, spec)


def _children(
    spec: Field, value: Any, path: str, tf_path: str
) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """Visit the nested objects of a value."""
    if spec.type is Type.BLOCK and isinstance(value, Mapping):
        yield value, f"{path}.", f"{tf_path}.0."
    elif spec.type in NESTED and isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                yield item, f"{path}[{index}].", f"{tf_path}.{index}."


def _required(
    fields: Fields, values: Mapping[str, Any], path: str, tf_path: str
) -> Iterator[Problem]:
    for spec, value, where, tf_where in _walk(fields, values, path, tf_path):
        if spec.required and value is None:
            name = tf_where.rsplit(".", 1)[-1]
            yield (
                where,
                f'Missing required argument. The argument "{name}" is required, but no '
                "definition was found.",
            )
        for child, child_path, child_tf in _children(spec, value, where, tf_where):
            yield from _required(spec.fields, child, child_path, child_tf)
            yield from _exactly_one(spec.fields, child, spec.exactly_one, child_path, child_tf)


def _conflicts(
    fields: Fields,
    values: Mapping[str, Any],
    root: Mapping[str, Any],
    root_fields: Fields,
    path: str,
    tf_path: str,
) -> Iterator[Problem]:
    for spec, value, where, tf_where in _walk(fields, values, path, tf_path):
        if value is None:
            continue
        for other in spec.conflicts:
            # Presence counts, not the value: even `False` conflicts [§0.3].
            found = find_at(root_fields, root, other)
            if found is not None and found is not UNKNOWN:
                yield (
                    where,
                    f'Conflicting configuration arguments. "{tf_where}": conflicts with {other}',
                )
        for child, child_path, child_tf in _children(spec, value, where, tf_where):
            yield from _conflicts(spec.fields, child, root, root_fields, child_path, child_tf)


def find_at(fields: Fields, values: Mapping[str, Any], tf_path: str) -> Any:
    """Return the value at a Terraform path such as `cluster_autoscaling.0.enabled`."""
    first, _, rest = tf_path.partition(".")
    for name, spec in inputs_of(fields):
        if terraform_name(name, spec) != first:
            continue
        value = values.get(name)
        if not rest:
            return value
        rest = rest.partition(".")[2]
        if spec.type is Type.BLOCK and isinstance(value, Mapping):
            return find_at(spec.fields, value, rest)
    return None


def _present(conflicts: tuple[str, ...], inputs: Mapping[str, Any]) -> bool:
    given = {snake_case(name) for name, value in inputs.items() if value is not None}
    return any(other in given for other in conflicts)


def _exactly_one(
    fields: Fields,
    values: Mapping[str, Any],
    groups: tuple[tuple[str, ...], ...],
    path: str,
    tf_path: str,
) -> Iterator[Problem]:
    for group in groups:
        tf_names = {name: tf_path + terraform_name(name, fields[name]) for name in group}
        listed = ",".join(tf_names.values())
        given = [name for name in group if values.get(name) is not None]
        if not given:
            for name in group:
                yield (
                    path + name,
                    "Invalid combination of arguments. "
                    f'"{tf_names[name]}": one of `{listed}` must be specified',
                )
        elif len(given) > 1:
            found = ",".join(tf_names[name] for name in given)
            for name in given:
                yield (
                    path + name,
                    f'Invalid combination of arguments. "{tf_names[name]}": only one of '
                    f"`{listed}` can be specified, but `{found}` were specified.",
                )


def _values(
    fields: Fields, values: Mapping[str, Any], path: str, tf_path: str
) -> Iterator[Problem]:
    for spec, value, where, tf_where in _walk(fields, values, path, tf_path):
        if value is None:
            continue
        if spec.unsupported:
            if not _present(spec.conflicts, values):
                yield (
                    where,
                    f'"{tf_where}": this stand-in for the gcp provider does not carry the '
                    "argument; leave it out, or use the real provider",
                )
            continue
        if value is UNKNOWN:
            continue
        if not contains_unknown(value):
            for validator in spec.validators:
                for text in validator(tf_where, value):
                    yield where, text
        for child, child_path, child_tf in _children(spec, value, where, tf_where):
            yield from _values(spec.fields, child, child_path, child_tf)
