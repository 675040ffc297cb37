"""The tree of a YAML document: data that remembers how it was written.

Owns the types that reading makes and writing takes: ruamel.yaml's round-trip mapping and list with
a copy that may be changed, numbers with their text, and the document around them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.comments import Comment, CommentedMap, CommentedSeq


class RoundTripMap(CommentedMap):
    """A mapping whose copy may be changed without touching the original.

    A copy is written out in blocks, because what is put in would make long lines; keys that came
    from a merge (`<<`) become its own; the anchor stays with the original.
    """

    origin: RoundTripMap | None = None
    is_flow: bool = False

    # Reading goes past ruamel.yaml's own look-ups: what a merge brings in is in the mapping.
    __getitem__ = dict.__getitem__
    __contains__ = dict.__contains__
    __iter__ = OrderedDict.__iter__
    __len__ = dict.__len__
    get = dict.get  # type: ignore[assignment]
    keys = OrderedDict.keys
    values = OrderedDict.values
    items = OrderedDict.items

    def __copy__(self) -> RoundTripMap:
        duplicate = RoundTripMap()
        for key, value in self.items():
            duplicate[key] = value
        _copy_comments(self, duplicate)
        duplicate.origin = self.origin or self
        return duplicate


class RoundTripSeq(CommentedSeq):
    """A list whose copy may be changed without touching the original, as `RoundTripMap`'s.

    Attributes:
        column: Where its dashes stand.
    """

    origin: RoundTripSeq | None = None
    is_flow: bool = False
    column: int = 0

    __getitem__ = list.__getitem__
    __iter__ = list.__iter__
    __len__ = list.__len__

    def __copy__(self) -> RoundTripSeq:
        duplicate = RoundTripSeq()
        list.extend(duplicate, self)
        duplicate.column = self.column
        _copy_comments(self, duplicate)
        duplicate.origin = self.origin or self
        return duplicate


class WrittenInt(int):
    """A whole number that was not written in plain digits, such as 0x1F."""

    text: str


class WrittenFloat(float):
    """A number with the text that it was written as, such as 1.50."""

    text: str


@dataclass(slots=True)
class Layout:
    """How a document is indented.

    Attributes:
        mapping: Columns from a key to the keys below it.
        dash: Columns from a key to the dashes of a list below it.
        item: Columns from a dash to its item.
    """

    mapping: int = 2
    dash: int = 0
    item: int = 2


@dataclass(slots=True)
class Tree:
    """One document.

    Attributes:
        data: Its content; None for an empty document.
        head: Comment lines in front of the content.
        tail: Comment lines behind it.
        layout: How it is indented.
        has_anchors: Whether a node has a name that others may stand for it by.
    """

    data: Any
    head: str = ""
    tail: str = ""
    layout: Layout = field(default_factory=Layout)
    has_anchors: bool = False


def _copy_comments(source: Any, target: Any) -> None:
    comments = getattr(source, Comment.attrib, None)
    if comments is not None:
        target.ca.comment = comments.comment
        target.ca.items.update(comments.items)
