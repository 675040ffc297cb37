"""Diff: what an update or a replacement would change [facts google-cloud.md §1.4].

Compares the saved state (outputs) with checked inputs, field by field, in the way that
Terraform's plan does: what the program leaves out differs only if the field is neither filled by
the server nor already empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .checking import DEFAULTS
from .schema import NESTED, Field, Fields, Type, inputs_of
from .values import UNKNOWN, contains_unknown, is_empty

ADD, DELETE, UPDATE = "ADD", "DELETE", "UPDATE"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, at a Pulumi property path such as `allows[0].ports[1]`."""

    path: str
    kind: str
    replaces: bool


@dataclass(slots=True)
class Difference:
    """All differences of one resource."""

    changes: list[Change] = field(default_factory=list)

    @property
    def properties(self) -> list[str]:
        """The top-level properties that differ."""
        return list(dict.fromkeys(_top(change.path) for change in self.changes))

    @property
    def replaces(self) -> list[str]:
        """The top-level properties that force a replacement."""
        return list(dict.fromkeys(_top(change.path) for change in self.changes if change.replaces))


def diff(fields: Fields, state: Mapping[str, Any], news: Mapping[str, Any]) -> Difference:
    """Compare a saved state with the inputs that are wanted now."""
    return Difference(list(_fields(fields, state, news, "", forced=False)))


def stable_properties(fields: Fields, difference: Difference) -> list[str]:
    """Return the properties that would force a replacement and do not change."""
    changed = set(difference.properties)
    return sorted(
        name for name, spec in inputs_of(fields) if spec.force_new and name not in changed
    )


def _top(path: str) -> str:
    return path.split(".", 1)[0].split("[", 1)[0]


def _fields(
    fields: Fields, state: Mapping[str, Any], news: Mapping[str, Any], path: str, *, forced: bool
) -> Iterator[Change]:
    for name, spec in inputs_of(fields):
        if spec.unsupported:
            continue
        yield from diff_field(spec, state.get(name), news.get(name), path + name, forced=forced)


def diff_field(
    spec: Field, old: Any, new: Any, path: str, *, forced: bool = False
) -> Iterator[Change]:
    """Compare one field: the saved value with the one that is wanted."""
    forced = forced or spec.force_new
    if new is None:
        if spec.computed:
            return
        new = spec.default
    if new is UNKNOWN:
        yield Change(path, ADD if is_empty(old) else UPDATE, forced)
    elif is_empty(new) and is_empty(old):
        return
    elif new is None:
        yield Change(path, DELETE, forced)
    elif spec.type is Type.BLOCK:
        yield from _block(spec, old, new, path, forced=forced)
    elif spec.type in {Type.SET, Type.BLOCK_SET}:
        yield from _set(spec, old or [], new, path, forced=forced)
    elif spec.type in {Type.LIST, Type.BLOCKS}:
        yield from _list(spec, old or [], new, path, forced=forced)
    elif spec.type is Type.MAP:
        yield from _map(old or {}, new, path, forced=forced)
    elif not (spec.same(old, new) if spec.same else old == new):
        yield Change(path, ADD if is_empty(old) else UPDATE, forced)


def _block(spec: Field, old: Any, new: Any, path: str, *, forced: bool) -> Iterator[Change]:
    if isinstance(old, Mapping):
        yield from _fields(spec.fields, old, new, f"{path}.", forced=forced)
        return
    # A block that is only now written is a difference if the program set anything in it.
    filled = {DEFAULTS, *(new.get(DEFAULTS) or ())}
    if not spec.computed or any(name not in filled for name in new):
        yield Change(path, ADD, forced)


def _list(
    spec: Field, old: list[Any], new: list[Any], path: str, *, forced: bool
) -> Iterator[Change]:
    for index in range(max(len(old), len(new))):
        where = f"{path}[{index}]"
        if index >= len(old):
            yield Change(where, ADD, forced)
        elif index >= len(new):
            yield Change(where, DELETE, forced)
        elif spec.type in NESTED and isinstance(old[index], Mapping):
            if new[index] is UNKNOWN:
                yield Change(where, UPDATE, forced)
            else:
                yield from _fields(spec.fields, old[index], new[index], f"{where}.", forced=forced)
        elif not (spec.same(old[index], new[index]) if spec.same else old[index] == new[index]):
            yield Change(where, UPDATE, forced)


def _set(
    spec: Field, old: list[Any], new: list[Any], path: str, *, forced: bool
) -> Iterator[Change]:
    old_keys = [_key(spec, item) for item in old]
    new_keys = [_key(spec, item) for item in new]
    gone = {index for index, key in enumerate(old_keys) if key not in set(new_keys)}
    come = {index for index, key in enumerate(new_keys) if key not in set(old_keys)}
    for index in sorted(gone | come):
        kind = UPDATE if index in gone and index in come else ADD if index in come else DELETE
        yield Change(f"{path}[{index}]", kind, forced)


def _map(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, *, forced: bool
) -> Iterator[Change]:
    for key in sorted({*old, *new} - {DEFAULTS}):
        where = f"{path}.{key}" if key.isidentifier() else f'{path}["{key}"]'
        if key not in new:
            yield Change(where, DELETE, forced)
        elif key not in old:
            yield Change(where, ADD, forced)
        elif old[key] != new[key]:
            yield Change(where, UPDATE, forced)


def _key(spec: Field, item: Any) -> str:
    """Return what identifies an item of a set."""
    if contains_unknown(item):
        return f"unknown {id(item)}"
    if spec.key is not None:
        item = spec.key(item)
    elif isinstance(item, Mapping):
        item = {
            name: value for name, value in item.items() if name != DEFAULTS and not is_empty(value)
        }
    return json.dumps(item, sort_keys=True, default=str)
