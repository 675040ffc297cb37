"""A tree back into YAML text, as it was written where it was not changed.

Owns the layout of mappings and lists, the place of comments, and nodes that are shared after an
edit. Does not own the text of one scalar (`yaml_text`). What comes out is read alike by readers of
YAML 1.1 and 1.2 and by Kubernetes.

The tree is ruamel.yaml's, its emitter is not used: it joins lines behind a comment beside an item
in brackets, moves comments between nodes that share an anchor, and takes three times as long as
everything else together. The tests have ruamel.yaml and PyYAML read what comes out here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ruamel.yaml.anchor import Anchor
from ruamel.yaml.mergevalue import MergeValue

from gpudirect.yaml_nodes import Layout, RoundTripMap, RoundTripSeq, Tree
from gpudirect.yaml_text import block_text, flow_text

_COLLECTIONS = (dict, list)
# Slots of a comment in ruamel.yaml's tree: in front of a key or item, beside its value.
_IN_FRONT, _BESIDE_VALUE, _BESIDE_ITEM = 1, 2, 0


def write_tree(tree: Tree, data: Any) -> str:
    """Return the text of a document.

    Args:
        tree: The document as it was read: comments around it and its indentation.
        data: Its content, edited or not: a mapping or a list.
    """
    if tree.has_anchors:
        data = _share_again(data)
    writer = _Writer(tree.layout)
    writer.write(data)
    return f"{tree.head}{''.join(writer.pieces)}{tree.tail}"


class _Writer:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._written: dict[int, str] = {}
        self.pieces: list[str] = []

    def write(self, data: Any) -> None:
        """Write a document's content."""
        if not _is_block(data):
            self.pieces.append(f"{self._inline(data)}\n")
        elif isinstance(data, dict):
            self._mapping(data, 0)
        else:
            self._sequence(data, 0)

    def _mapping(self, node: dict[Any, Any], indent: int, lead: str | None = None) -> None:
        """Write the lines of a mapping.

        Args:
            node: The mapping; not empty.
            indent: Column of its keys.
            lead: What stands in front of the first key, if that is not just space.
        """
        space = " " * indent
        slots = node.ca.items if isinstance(node, RoundTripMap) else {}
        for key, value in _pairs(node):
            own = slots.get(key) if slots else None
            if own is not None and lead is None:
                self._in_front(own)
            name = key.text if isinstance(key, _MergeKey) else flow_text(key)
            line = f"{space if lead is None else lead}{name}:"
            lead = None
            if own is None and type(value) is str and "\n" not in value:
                self.pieces.append(f"{line} {flow_text(value)}\n")
                continue
            beside = own[_BESIDE_VALUE] if own is not None else None
            if not self._goes_below(value):
                text = self._beside(value, indent, self._layout.mapping)
                self._line(f"{line} {text}" if text else line, beside)
                continue
            self._line(line + self._anchor(value), beside)
            if isinstance(value, dict):
                self._mapping(value, indent + self._layout.mapping)
            else:
                self._sequence(value, indent + self._layout.dash)

    def _sequence(self, node: list[Any], indent: int, lead: str | None = None) -> None:
        """Write the lines of a list; `lead` is what stands in front of the first dash."""
        layout = self._layout
        gap = " " * (layout.item - 1)
        slots = node.ca.items if isinstance(node, RoundTripSeq) else {}
        for index, item in enumerate(node):
            own = slots.get(index) if slots else None
            goes_below = self._goes_below(item)
            beside = own[_BESIDE_ITEM] if own is not None else None
            if lead is None:
                if own is not None:
                    self._in_front(own)
                if goes_below:
                    if beside is not None:
                        # An item that has become a block has no end of line for it.
                        self.pieces.append(f"{' ' * indent}{beside.value}")
                    self._in_front_of_first_key(item)
            line = f"{' ' * indent if lead is None else lead}-"
            lead = None
            if not goes_below:
                text = self._beside(item, indent, layout.item)
                self._line(f"{line}{gap}{text}" if text else line, beside)
                continue
            anchor = self._anchor(item)
            inner = None
            if anchor:
                # On the same line it would be the first key's.
                self._line(line + anchor, None)
            else:
                inner = line + gap
            if isinstance(item, dict):
                self._mapping(item, indent + layout.item, inner)
            else:
                self._sequence(item, indent + layout.item, inner)

    def _goes_below(self, node: Any) -> bool:
        """Whether a node takes lines of its own."""
        return _is_block(node) and id(node) not in self._written

    def _in_front_of_first_key(self, item: Any) -> None:
        """Write a comment that stood in front of what is now an item's first key."""
        if isinstance(item, RoundTripMap):
            own = item.ca.items.get(next(iter(item)))
            if own is not None:
                self._in_front(own)

    def _in_front(self, slots: list[Any]) -> None:
        for token in slots[_IN_FRONT] or ():
            text = token.value
            self.pieces.append(text if text == "\n" else f"{' ' * token.start_mark.column}{text}")

    def _line(self, text: str, beside: Any) -> None:
        """Write a line with the comment at its end."""
        if beside is None:
            self.pieces.append(f"{text}\n")
            return
        # In a block scalar the comment can only stand beside the header.
        line, line_end, rest = text.partition("\n")
        gap = max(beside.start_mark.column - len(line), 1)
        self.pieces.append(f"{line}{' ' * gap}{beside.value.rstrip()}{line_end}{rest}\n")

    def _beside(self, value: Any, indent: int, step: int) -> str:
        """Return a node that goes on the line of its key or dash."""
        if isinstance(value, _COLLECTIONS):
            return self._inline(value)
        name = _anchor_of(value)
        if name is not None and id(value) in self._written:
            return f"*{name}"
        # Nothing is cut off here: blanks at the end of a block are the text's own.
        parts = (self._anchor(value).lstrip(), block_text(value, indent + step, step))
        return " ".join(part for part in parts if part)

    def _inline(self, node: Any) -> str:
        """Return a node on one line, or its alias."""
        name = self._written.get(id(node)) if _anchor_of(node) else None
        if name is not None:
            return f"*{name}"
        anchor = self._anchor(node)
        if isinstance(node, dict):
            pairs = []
            for key, value in _pairs(node):
                name = key.text if isinstance(key, _MergeKey) else flow_text(key, in_flow=True)
                pairs.append(f"{name}: {'' if value is None else self._inline(value)}")
            text = f"{{{', '.join(pairs)}}}"
        elif isinstance(node, list):
            text = f"[{', '.join(self._inline(item) for item in node)}]"
        else:
            text = flow_text(node, in_flow=True)
        return f"{anchor} {text}".lstrip(" ")

    def _anchor(self, node: Any) -> str:
        """Return a node's anchor with a space in front, and remember that the node is written."""
        name = _anchor_of(node)
        if not name:
            return ""
        self._written[id(node)] = name
        return f" &{name}"


class _MergeKey:
    """The key of a merge; a plain `<<` would be text."""

    text = "<<"


def _pairs(node: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Return a mapping's keys and values, without those that only a merge brings in."""
    merge = getattr(node, MergeValue.attrib, None)
    if not merge:
        return node.items()
    pairs: list[tuple[Any, Any]] = list(node.non_merged_items())  # type: ignore[attr-defined]
    value = merge.sequence if merge.sequence is not None else merge[0]
    pairs.insert(merge.merge_pos or 0, (_MergeKey(), value))
    return pairs


def _is_block(node: Any) -> bool:
    return isinstance(node, _COLLECTIONS) and bool(node) and not getattr(node, "is_flow", False)


def _anchor_of(node: Any) -> str | None:
    anchor = getattr(node, Anchor.attrib, None)
    return anchor.value if anchor is not None else None


def _share_again(data: Any) -> Any:
    """Let copies of one shared node be one again where the edit came to the same for all.

    Where the node that bore the anchor is no longer in the tree, its first copy bears it.
    """
    copies: dict[int, list[Any]] = {}
    present: set[int] = set()

    def walk(node: Any) -> Any:
        if not isinstance(node, dict | list):
            return node
        origin = getattr(node, "origin", None)
        if origin is not None and _anchor_of(origin):
            known = copies.setdefault(id(origin), [])
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
    for first, *_others in copies.values():
        if id(first.origin) not in present:
            first.yaml_set_anchor(_anchor_of(first.origin), always_dump=True)
    return data
