"""YAML text into a tree that remembers how it was written.

Owns the reading of one document: values as Kubernetes reads them (`yaml_scalars`), quotes, flow
style, anchors, merge keys, indentation. The events come from libyaml through PyYAML: it is the
grammar that `kubectl` uses, and ten times as fast as a scanner in Python. The tree is made of
ruamel.yaml's round-trip types.

Every comment is kept in front of the key or item that follows it, or at the end of its line. (By
itself ruamel.yaml keeps it behind the leaf before it, so that what is appended to a block lands
behind the comments of the next one.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml
from ruamel.yaml.mergevalue import MergeValue
from ruamel.yaml.scalarint import ScalarInt
from ruamel.yaml.scalarstring import (
    DoubleQuotedScalarString,
    FoldedScalarString,
    LiteralScalarString,
    PlainScalarString,
    ScalarString,
    SingleQuotedScalarString,
)
from yaml.reader import ReaderError

from gpudirect.yaml_errors import likely_cause
from gpudirect.yaml_nodes import (
    Layout,
    RoundTripMap,
    RoundTripSeq,
    Tree,
    WrittenFloat,
    WrittenInt,
)
from gpudirect.yaml_notes import Notes
from gpudirect.yaml_scalars import is_read_alike, is_safe_text, read_plain

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
# What the parser counts as the end of a line, which the places of comments go by.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_CORE_TAG = "tag:yaml.org,2002:"
_QUOTED: dict[str | None, type[ScalarString]] = {
    "'": SingleQuotedScalarString,
    '"': DoubleQuotedScalarString,
    "|": LiteralScalarString,
}
# A few lines can stand for billions of nodes; Kubernetes' own reader refuses them as well.
_MOST_NODES = 1_000_000
# Where ruamel.yaml keeps the comments of a key or item: in front, and beside its value.
_IN_FRONT, _BESIDE_VALUE, _BESIDE_ITEM = 1, 2, 0


class YamlSyntaxError(ValueError):
    """Text that is no manifest in YAML.

    Attributes:
        line: Line of the document, the first being 1.
    """

    def __init__(self, message: str, line: int) -> None:
        self.line = line
        super().__init__(message)


def read_tree(text: str) -> Tree:
    """Read one document.

    Args:
        text: The document without markers (`---`, `...`).

    Raises:
        YamlSyntaxError: the text is no YAML, uses a key twice, or uses what JSON cannot hold.
    """
    with _explaining(text):
        return _TreeReader(text).read()


def check_syntax(text: str) -> None:
    """Read a document and forget it.

    Raises:
        YamlSyntaxError: the text is no YAML, or refers to what it does not hold.
    """
    anchors = set()
    with _explaining(text):
        for event in yaml.parse(text, Loader=_LOADER):
            anchor = getattr(event, "anchor", None)
            if isinstance(event, yaml.AliasEvent) and anchor not in anchors:
                raise _no_anchor(event)
            anchors.add(anchor)


@contextmanager
def _explaining(text: str) -> Iterator[None]:
    try:
        yield
    except YamlSyntaxError as error:
        raise YamlSyntaxError(
            f"{error}{likely_cause(_LINE_END.split(text), error.line)}", error.line
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(part for part in (error.context, error.problem) if part)
        line = (mark.line if mark else 0) + 1
        raise YamlSyntaxError(
            f"{words}{likely_cause(_LINE_END.split(text), line)}", line
        ) from error
    except ReaderError as error:
        line = len(_LINE_END.findall(text[: error.position])) + 1
        raise YamlSyntaxError(str(error.reason), line) from error
    except yaml.YAMLError as error:
        raise YamlSyntaxError(str(error), 1) from error


class _TreeReader:
    def __init__(self, text: str) -> None:
        self._lines = _LINE_END.split(text)
        self._events: list[Any] = list(yaml.parse(text, Loader=_LOADER))
        self._next = 0
        self._anchors: dict[str, Any] = {}
        # Nodes so far, and below each anchor, as if every alias were written out.
        self._nodes = 0
        self._sizes: dict[str, int] = {}
        self._mapping_steps: Counter[int] = Counter()
        self._dash_steps: Counter[int] = Counter()
        self._item_steps: Counter[int] = Counter()
        self._notes = Notes(self._lines, self._events)

    def read(self) -> Tree:
        self._take()
        if isinstance(self._peek(), yaml.StreamEndEvent):
            return Tree(data=None, head="\n".join(self._lines))
        self._take()
        head = self._notes.take_text(self._peek().start_mark.line)
        data = self._value(self._take(), column=None)
        self._take()
        if not isinstance(self._peek(), yaml.StreamEndEvent):
            raise _error("expected one document", self._peek())
        return Tree(
            data=data,
            head=head,
            tail=self._notes.take_text(len(self._lines)),
            layout=Layout(
                mapping=_most_common(self._mapping_steps, 2),
                dash=_most_common(self._dash_steps, 0),
                item=_most_common(self._item_steps, 2),
            ),
            has_anchors=bool(self._anchors),
        )

    def _peek(self) -> Any:
        return self._events[self._next]

    def _take(self) -> Any:
        event = self._events[self._next]
        self._next += 1
        return event

    def _value(self, event: Any, *, column: int | None, in_flow: bool = False) -> Any:
        """Return the node that begins with an event.

        Args:
            event: The event.
            column: Column of the key that holds it; None for an item or the document itself.
            in_flow: Whether it stands in brackets.
        """
        self._nodes += 1
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None and not event.tag.startswith(_CORE_TAG):
            raise _error(f"tag {event.tag} means nothing here", event)
        before = self._nodes
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        node: Any = RoundTripMap() if is_mapping else RoundTripSeq()
        if event.flow_style:
            node.is_flow = in_flow = True
        if is_mapping:
            self._fill_mapping(node, column, in_flow=in_flow)
        else:
            self._fill_sequence(node, event, column, in_flow=in_flow)
        if event.anchor is not None:
            # Only now: what names itself has no end.
            self._anchors[event.anchor] = node
            self._sizes[event.anchor] = self._nodes - before
            node.yaml_set_anchor(event.anchor, always_dump=True)
        return node

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _no_anchor(event)
        self._nodes += self._sizes.get(event.anchor, 0)
        if self._nodes > _MOST_NODES:
            raise _error(f"aliases stand for more than {_MOST_NODES} values", event)
        return self._anchors[event.anchor]

    def _fill_mapping(self, node: RoundTripMap, column: int | None, *, in_flow: bool) -> None:
        merged: MergeValue | None = None
        if column is not None and not in_flow:
            step = self._peek().start_mark.column - column
            # Below a key in the long form (`? key`) nothing is deeper.
            if step > 0:
                self._mapping_steps[step] += 1
        while True:
            event = self._take()
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._key(event)
            if key in node:
                raise _error(f"key {key!r} stands there twice", event)
            value_event = self._take()
            if not in_flow:
                self._attach_to_key(node, key, event, value_event)
            value = self._value(value_event, column=event.start_mark.column, in_flow=in_flow)
            if key == "<<" and not event.style:
                merged = _merge_value(value, len(node), event)
                continue
            node[key] = value
            if not in_flow:
                self._attach_to_end(node, key, value_event, _BESIDE_VALUE)
        if merged is not None:
            node.add_yaml_merge(merged)

    def _fill_sequence(
        self, node: RoundTripSeq, start: Any, column: int | None, *, in_flow: bool
    ) -> None:
        # With an anchor the list begins there and not at its first dash.
        if not in_flow and start.anchor is None:
            begin, first = start.start_mark, self._peek().start_mark
            node.column = begin.column
            if column is not None and begin.column >= column:
                self._dash_steps[begin.column - column] += 1
            # An empty item ends right behind its dash.
            if first.line == begin.line and first.column > begin.column + 1:
                self._item_steps[first.column - begin.column] += 1
        while True:
            event = self._take()
            if isinstance(event, yaml.SequenceEndEvent):
                return
            index = len(node)
            if not in_flow and (before := self._notes.take_before(event.start_mark.line)):
                _slots(node, index)[_IN_FRONT] = before
            list.append(node, self._value(event, column=None, in_flow=in_flow))
            if not in_flow:
                self._attach_to_end(node, index, event, _BESIDE_ITEM)

    def _key(self, event: Any) -> Any:
        if not isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
            raise _error("a key is a collection, which JSON cannot hold", event)
        return self._value(event, column=None)

    def _attach_to_key(self, node: RoundTripMap, key: Any, event: Any, value_event: Any) -> None:
        """Attach what stands in front of a key, and beside a key whose value is a block below."""
        mark = event.start_mark
        before = self._notes.take_before(mark.line)
        if before:
            _slots(node, key)[_IN_FRONT] = before
        if isinstance(value_event, yaml.CollectionStartEvent) and not value_event.flow_style:
            beside = self._notes.take_beside(mark.line, event.end_mark.column)
            if beside is not None:
                _slots(node, key)[_BESIDE_VALUE] = beside

    def _attach_to_end(self, node: Any, key: Any, event: Any, slot: int) -> None:
        """Attach the comment at the end of the line on which a value ends."""
        if isinstance(event, yaml.ScalarEvent):
            if event.style in ("|", ">"):
                return
        elif isinstance(event, yaml.CollectionStartEvent) and not event.flow_style:
            return
        end = self._events[self._next - 1].end_mark
        beside = self._notes.take_beside(end.line, end.column)
        if beside is not None:
            _slots(node, key)[slot] = beside

    def _scalar(self, event: Any) -> Any:
        text, style = event.value, event.style
        value: Any
        if event.tag is not None:
            value = _tagged(event)
        elif style in _QUOTED:
            value = _QUOTED[style](text, anchor=event.anchor)
        elif style == ">":
            value = FoldedScalarString(text, anchor=event.anchor)
            value.fold_pos = self._folds(event)
        else:
            value = _plain(text)
        if event.anchor is not None:
            value = _anchored(value, event.anchor)
            self._anchors[event.anchor] = value
        return value

    def _folds(self, event: Any) -> list[int]:
        """Return the places where a folded text was broken; none where it is not simple."""
        lines = [
            line.strip() for line in self._lines[event.start_mark.line + 1 : event.end_mark.line]
        ]
        if " ".join(lines) != event.value.rstrip("\n"):
            return []
        places, position = [], -1
        for line in lines[:-1]:
            position += len(line) + 1
            places.append(position)
        return places


def _error(message: str, event: Any) -> YamlSyntaxError:
    return YamlSyntaxError(message, event.start_mark.line + 1)


def _no_anchor(event: Any) -> YamlSyntaxError:
    return _error(f"alias *{event.anchor} names no anchor in front of it", event)


def _slots(node: Any, key: Any) -> list[Any]:
    slots: list[Any] = node.ca.items.setdefault(key, [None, None, None, None])
    return slots


def _merge_value(value: Any, position: int, event: Any) -> MergeValue:
    merged = MergeValue()
    merged.merge_pos = position
    if isinstance(value, RoundTripSeq):
        merged.set_sequence(value)
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, RoundTripMap):
            raise _error("<< merges something that is no mapping", event)
        merged.append(item)
    return merged


def _tagged(event: Any) -> Any:
    kind = event.tag.removeprefix(_CORE_TAG)
    if kind in ("str", "!"):
        return str(event.value)
    value = read_plain(event.value)
    if kind == "float" and isinstance(value, int):
        return float(value)
    if kind not in ("int", "float", "bool", "null"):
        raise _error(f"tag {event.tag} means nothing here", event)
    return value


def _plain(text: str) -> Any:
    value = read_plain(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if not is_read_alike(text, value) or str(value) == text:
        return value
    written = WrittenInt(value) if isinstance(value, int) else WrittenFloat(value)
    written.text = text
    return written


def _anchored(value: Any, anchor: str) -> Any:
    """Return a scalar that remembers its anchor, where there is a type that can."""
    if isinstance(value, ScalarString):
        return value
    if isinstance(value, str):
        kind = PlainScalarString if is_safe_text(value) else DoubleQuotedScalarString
        return kind(value, anchor=anchor)
    if isinstance(value, int) and not isinstance(value, bool):
        return ScalarInt(value, anchor=anchor)
    return value


def _most_common(counter: Counter[int], default: int) -> int:
    return next((value for value, _count in counter.most_common(1)), default)
