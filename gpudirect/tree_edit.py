"""Editing of nested mappings and lists without touching what they were made from.

Owns copy on first write, down the path of each edit: what is not edited is shared with the source,
and a node that two places share (a YAML anchor) is parted before one of them changes. Works on
plain dicts and lists and on any subclass whose `__copy__` keeps what else it holds (comments).
"""

from __future__ import annotations

import copy
from typing import Any

Mapping = dict[Any, Any]
Sequence = list[Any]


class TreeEditor:
    """Gives out nodes that may be changed.

    Only nodes that came from this editor may be changed, by ordinary operations.
    """

    def __init__(self) -> None:
        # The nodes themselves, not only their ids: an id is free again once its node is gone.
        self._owned: dict[int, Any] = {}

    def root(self, node: Mapping) -> Mapping:
        """Return a copy of the tree's root that may be changed."""
        duplicate: Mapping = self._copy(node)
        return duplicate

    def mapping(self, parent: Mapping | Sequence, key: Any) -> Mapping:
        """Return the mapping under a key for change; a missing or null one comes into being."""
        node: Mapping = self._child(parent, key, dict)
        return node

    def sequence(self, parent: Mapping, key: Any) -> Sequence:
        """Return the list under a key for change; a missing or null one comes into being."""
        node: Sequence = self._child(parent, key, list)
        return node

    def _child(self, parent: Any, key: Any, kind: type[Any]) -> Any:
        node = parent[key] if isinstance(parent, list) else parent.get(key)
        if node is None:
            node = kind()
            self._owned[id(node)] = node
            parent[key] = node
        elif id(node) not in self._owned:
            node = self._copy(node)
            parent[key] = node
        return node

    def _copy(self, node: Any) -> Any:
        duplicate = copy.copy(node)
        self._owned[id(duplicate)] = duplicate
        return duplicate


def put_first(mapping: Mapping, key: Any, value: Any) -> None:
    """Set a new key before all others, where readers expect it."""
    insert = getattr(mapping, "insert", None)
    if insert is not None:
        insert(0, key, value)
        return
    rest = dict(mapping)
    mapping.clear()
    mapping[key] = value
    mapping.update(rest)
