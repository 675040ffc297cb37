"""A tree back into YAML text, as it was written where it was not changed.

Owns the choice of a scalar's form where the writer is free, shared nodes after an edit, and the
indentation. The text itself is ruamel.yaml's work. What comes out is read alike by readers of YAML
1.1 and 1.2 and by Kubernetes.
"""

from __future__ import annotations

import io
from functools import cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase
from ruamel.yaml.representer import RoundTripRepresenter

from gpudirect.yaml_nodes import (
    RoundTripMap,
    RoundTripSeq,
    Tree,
    WrittenFloat,
    WrittenInt,
)
from gpudirect.yaml_scalars import float_text, is_safe_text

_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_STR = "tag:yaml.org,2002:str"
# Lines are never folded: a folded plain scalar is the same data, but a diff nobody asked for.
_NO_WIDTH = 1 << 30


def write_tree(tree: Tree, data: Any) -> str:
    """Return the text of a document.

    Args:
        tree: The document as it was read: comments around it and its indentation.
        data: Its content, edited or not.
    """
    if tree.has_aliases:
        data = _share_again(data)
    out = io.StringIO()
    layout = tree.layout
    _writer(layout.mapping, layout.dash, layout.item).dump(data, out)
    return f"{tree.head}{out.getvalue()}{tree.tail}"


class _Representer(RoundTripRepresenter):
    def represent_text(self, data: str) -> Any:
        style = None
        if "\n" in data:
            style = "|"
        elif not is_safe_text(data):
            style = '"'
        return self.represent_scalar(_STR, data, style=style)

    def represent_whole(self, data: int) -> Any:
        return self.represent_scalar(_INT, getattr(data, "text", None) or str(int(data)))

    def represent_number(self, data: float) -> Any:
        return self.represent_scalar(_FLOAT, getattr(data, "text", None) or float_text(data))


_Representer.add_representer(str, _Representer.represent_text)
_Representer.add_representer(int, _Representer.represent_whole)
_Representer.add_representer(float, _Representer.represent_number)
_Representer.add_representer(WrittenInt, _Representer.represent_whole)
_Representer.add_representer(WrittenFloat, _Representer.represent_number)
_Representer.add_representer(RoundTripMap, _Representer.represent_dict)
_Representer.add_representer(RoundTripSeq, _Representer.represent_list)


@cache
def _writer(mapping: int, dash: int, item: int) -> YAML:
    writer = YAML()
    writer.Representer = _Representer
    writer.width = _NO_WIDTH
    writer.brace_single_entry_mapping_in_flow_sequence = True
    writer.indent(mapping=mapping, sequence=dash + item, offset=dash)
    return writer


def _share_again(data: Any) -> Any:
    """Let copies of one shared node be one again where the edit came to the same for all.

    Where the node that bore the anchor is no longer in the tree, its copy bears it.
    """
    first_copies: dict[int, list[Any]] = {}
    present: set[int] = set()

    def walk(node: Any) -> Any:
        if not isinstance(node, dict | list):
            return node
        origin = getattr(node, "origin", None)
        if origin is not None:
            known = first_copies.setdefault(id(origin), [])
            for copy in known:
                if copy == node:
                    return copy
            known.append(node)
        elif id(node) in present:
            return node
        present.add(id(node))
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            item = node[key]
            shared = walk(item)
            if shared is not item:
                node[key] = shared
        return node

    data = walk(data)
    for copies in first_copies.values():
        origin = copies[0].origin
        if id(origin) not in present and isinstance(origin, CommentedBase):
            anchor = origin.yaml_anchor()
            if anchor is not None and anchor.value is not None:
                copies[0].yaml_set_anchor(anchor.value, always_dump=True)
    return data
