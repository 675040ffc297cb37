"""YAML comes back as it was written, and is read as Kubernetes reads it."""

from __future__ import annotations

import copy
import io
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given, settings
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import (
    DoubleQuotedScalarString,
    FoldedScalarString,
    LiteralScalarString,
    PlainScalarString,
    SingleQuotedScalarString,
)

from gpudirect.yaml_nodes import Layout, Tree
from gpudirect.yaml_reading import YamlSyntaxError, read_tree
from gpudirect.yaml_scalars import float_text, is_read_alike, is_safe_text, read_plain
from gpudirect.yaml_writing import write_tree


def there_and_back(text: str) -> str:
    tree = read_tree(text)
    return write_tree(tree, tree.data)


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def by_yaml_1_2(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def by_yaml_1_1(text: str) -> Any:
    return yaml.safe_load(text)


# Scalars

# What go.yaml.in/yaml v2.4.3 makes of a plain scalar (its resolve.go), which kubectl uses.
GO = [
    ("0777", 511),
    ("-0777", -511),
    ("0o17", 15),
    ("0b11", 3),
    ("0x1F", 31),
    ("1_000", 1000),
    ("08", 8),
    ("00", 0),
    ("0012", 10),
    ("+5", 5),
    ("12:30:00", "12:30:00"),
    ("190:20:30.15", "190:20:30.15"),
    ("2024-01-02", "2024-01-02"),
    ("2024-01-02T10:00:00Z", "2024-01-02T10:00:00Z"),
    ("2024-13", "2024-13"),
    ("1e3", 1000.0),
    ("1.5e3", 1500.0),
    (".5", 0.5),
    ("1.", 1.0),
    ("1.2.3", "1.2.3"),
    ("10.0.0.0/8", "10.0.0.0/8"),
    ("99999999999999999999", 1e20),
    (".inf", float("inf")),
    ("-.Inf", float("-inf")),
    ("yes", True),
    ("y", True),
    ("On", True),
    ("off", False),
    ("N", False),
    ("true", True),
    ("~", None),
    ("Null", None),
    ("nULL", "nULL"),
    ("16Gi", "16Gi"),
    ("0b2", "0b2"),
    ("_1", "_1"),
    ("=", "="),
]


@pytest.mark.parametrize(("text", "value"), GO, ids=[text for text, _value in GO])
def test_a_plain_scalar_is_what_kubernetes_takes_it_for(text: str, value: Any) -> None:
    found = read_plain(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [text for text, _value in GO])
def test_a_plain_scalar_is_written_so_that_all_readers_agree(text: str) -> None:
    wanted = read_plain(text)
    written = there_and_back(f"a: {text}\n")
    for reader in (by_yaml_1_1, by_yaml_1_2):
        found = reader(written)["a"]
        assert found == wanted, written
        assert isinstance(found, str) == isinstance(wanted, str), written
    assert there_and_back(written) == written


@pytest.mark.parametrize("text", ["true", "0x1F", "+5", "1.50", "3", "-7", "word", "1.2.3", ".inf"])
def test_a_scalar_that_all_readers_agree_on_keeps_its_text(text: str) -> None:
    assert there_and_back(f"a: {text}\n") == f"a: {text}\n"


PLAIN = st.one_of(
    st.text(alphabet="0123456789_.:eE+-xob", min_size=1, max_size=8),
    st.sampled_from(["yes", "No", "ON", "off", "y", "n", "True", "null", "~", "<<", "=", ".inf"]),
)


@given(PLAIN)
@settings(max_examples=150, deadline=None)
def test_whatever_looks_like_a_number_is_written_so_that_all_readers_agree(text: str) -> None:
    if text.strip("-.") == "" or text.endswith(":") or text.startswith("- ") or ": " in text:
        # Not a plain scalar at all.
        return
    wanted = read_plain(text)
    if wanted != wanted:
        return
    written = there_and_back(f"a: {text}\n")
    for reader in (by_yaml_1_1, by_yaml_1_2):
        found = reader(written)["a"]
        assert found == wanted, written
        assert isinstance(found, str) == isinstance(wanted, str), written


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_text_put_in_is_written_so_that_all_readers_agree(text: str) -> None:
    try:
        by_yaml_1_1(repr(text))
    except yaml.YAMLError:
        # A character that no YAML file can hold.
        return
    data = {"a": text, "b": [text]}
    written = write_tree(Tree(data=data), data)
    assert by_yaml_1_1(written) == data
    assert by_yaml_1_2(written) == data


def test_words_that_one_reader_takes_for_something_else_are_not_safe() -> None:
    unsafe = ["yes", "on", "y", "true", "null", "~", "0777", "0o17", "12:30:00", "1e3", "1_000"]
    unsafe += ["2024-01-02", "=", "<<", ".5", ""]
    assert [text for text in unsafe if is_safe_text(text)] == []
    assert is_safe_text("eth1:8-21,112-125;eth2:8-21,112-125")
    assert is_read_alike("true", True)
    assert not is_read_alike("yes", True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9" * 5000, "9" * 5000),
        ("-" + "9" * 5000, "-" + "9" * 5000),
        ("0x" + "f" * 5000, "0x" + "f" * 5000),
        ("0x10000000000000000", "0x10000000000000000"),
        ("0b" + "0" * 5000 + "1", 1),
        ("0" * 5000 + "17", 15),
        ("1e400", "1e400"),
        (".5e999", ".5e999"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("0999999999999999999", 1e18),
    ],
)
def test_numbers_beyond_64_bits_are_what_go_takes_them_for(text: str, value: object) -> None:
    assert read_plain(text) == value
    assert isinstance(read_plain(text), type(value))
    written = there_and_back(f"a: {text}\n")
    for reader in (by_yaml_1_1, by_yaml_1_2):
        assert reader(written)["a"] == value


def test_a_question_mark_in_brackets_is_read_by_every_reader() -> None:
    text = "a: {b? c: 'd? e', url: http://x?y}\n"
    written = there_and_back(text)
    assert by_yaml_1_1(written) == by_yaml_1_2(written) == read_tree(text).data


@pytest.mark.parametrize("value", [1.0, 1e22, 1.5e-9, 0.1, float("inf"), float("-inf"), -2.5e100])
def test_a_float_is_written_so_that_all_readers_agree(value: float) -> None:
    assert by_yaml_1_1(float_text(value)) == value
    assert by_yaml_1_2(float_text(value)) == value


# Layout

KEPT = {
    "comments": """
        # head

        apiVersion: v1 # beside a value
        spec:   # beside a key
          # in front of the first key below
          a: 1
          # between two keys

          b:
          # in front of an item
          - x # beside an item
          # between two items
          - z
          - name: q  # beside the first key of an item
            # inside an item
            w: {a: 1, b: [1, 2]} # beside a flow mapping
          # at the end of a list
          c: 3
        # in front of a key at the top
        kind: Pod # last
        # tail
        """,
    "quotes": """
        a: "double"
        b: 'single'
        c: plain words
        d: ""
        e: 'it''s'
        f: "tab\\there"
        """,
    "block scalars": """
        a: |
          # no comment
          text

          more
        # a comment
        b: |-
          no end
        c: |+
          kept

        d: >-
          folded into
          one line
        e: last
        """,
    "empty values": """
        a:
        b: {}
        c: []
        d: ""
        """,
    "lists below their keys": """
        spec:
          containers:
            - name: a
              args:
                - x
                - "y"
            - name: b
        """,
    "wide indentation": """
        spec:
            containers:
            -   name: a
                args:
                -   x
        """,
    "anchors": """
        base: &base
          a: 1
        word: &word text
        again: *word
        list: &list
        - 1
        other: *list
        merged:
          <<: *base
          b: 2
        """,
    "numbers as keys": """
        data:
          8080: http
          "0777": text
        """,
    "long lines": f"""
        a: {"word " * 60}end
        b: "{"word " * 60}end"
        """,
    "flow with text": """
        a: [bash, -c, "torchrun --nnodes=2 train.py"]
        b: [{containerPort: 8000}]
        c: {a: {b: {}}, d: []}
        """,
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_changed_comes_back_to_the_byte(name: str) -> None:
    text = dedent(KEPT[name])
    assert there_and_back(text) == text


@pytest.mark.parametrize("name", KEPT)
def test_what_comes_back_means_the_same(name: str) -> None:
    text = dedent(KEPT[name])
    assert by_yaml_1_1(there_and_back(text)) == by_yaml_1_1(text)


STYLES = (
    str,
    LiteralScalarString,
    FoldedScalarString,
    SingleQuotedScalarString,
    DoubleQuotedScalarString,
    PlainScalarString,
)
ODD_TEXTS = [
    "\n ",
    " \n",
    "\n",
    "\n\n  x",
    "x \n",
    "x\n ",
    "x\n \n",
    "x\n \ny",
    "x ",
    " x",
    "\tx\ny",
    "\n\tx",
    " \tx\ny",
    "x\t",
    "x\r\ny",
    "x\x85y",
    "x\u2028y\u2029",
    "\ufeffx",
    "\xa0",
    "---",
    "---\nx",
    "x\n...\n",
    "# x\ny",
    "%YAML 1.1\n",
    "\0\a",
]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
def test_line_ends_and_blanks_survive_in_every_style_and_place(
    text: str, style: Callable[[str], str]
) -> None:
    value = style(text)
    for layout in (Layout(), Layout(mapping=12, dash=2, item=4)):
        data = {"a": value, "b": [value, [value, {"c": value}]], text: {"d": value}, "e": 1}
        written = write_tree(Tree(data=data, layout=layout), data)
        for reader in (by_yaml_1_1, by_yaml_1_2):
            assert reader(written) == data, written
        assert there_and_back(written) == written


LEAVES = st.one_of(
    st.text(alphabet="ab 0.:-#&*!|>%@'\"{}[],?=~\n\té", max_size=12),
    st.sampled_from(
        ["on", "0777", "12:30:00", "1e3", "null", "<<", "", " x", "x ", "\n", "\n\n x"]
    ),
    # What JSON can carry to Kubernetes: Go reads any other integer as a float.
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
)
DATA = st.dictionaries(
    st.text(alphabet="ab:# 0'", max_size=4),
    st.recursive(
        LEAVES,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(alphabet="ab-", max_size=3), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    min_size=1,
    max_size=4,
)


@given(DATA, st.sampled_from([None, True, False]), st.integers(2, 6), st.integers(20, 200))
@settings(max_examples=100, deadline=None)
def test_what_another_writer_wrote_means_the_same_afterwards(
    data: dict[str, Any], flow: bool | None, indent: int, width: int
) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, indent=indent, width=width)
    # Now and then PyYAML does not read back what it wrote: what it reads is what counts.
    meant = by_yaml_1_1(text)
    written = there_and_back(text)
    if all(is_safe_text(word) or f"'{word}'" in text for word in words_in(meant)):
        # Kubernetes takes everything for what PyYAML meant, which knows fewer numbers.
        assert by_yaml_1_1(written) == meant
    assert by_yaml_1_1(written) == by_yaml_1_2(written)
    assert there_and_back(written) == written


@given(DATA, st.integers(0, 2))
@settings(max_examples=50, deadline=None)
def test_what_ruamel_wrote_means_the_same_afterwards(data: dict[str, Any], dash: int) -> None:
    writer = YAML()
    writer.indent(mapping=2, sequence=dash + 2, offset=dash)
    out = io.StringIO()
    writer.dump(data, out)
    try:
        meant = by_yaml_1_2(out.getvalue())
        written = there_and_back(out.getvalue())
    except (YamlSyntaxError, YAMLError):
        # Not every text of its own can ruamel.yaml read back.
        return
    if all(map(is_safe_text, words_in(meant))):
        assert by_yaml_1_2(written) == meant


def words_in(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from words_in(key)
            yield from words_in(value)
    elif isinstance(data, list):
        for item in data:
            yield from words_in(item)
    elif isinstance(data, str):
        yield data


def edited(text: str, change: Any) -> str:
    """Write a document after a change to a copy of its root mapping, as the renderer makes it."""
    tree = read_tree(text)
    data = copy.copy(tree.data)
    change(data)
    return write_tree(tree, data)


def test_what_is_appended_stands_in_front_of_the_next_blocks_comment() -> None:
    text = dedent(
        """
        a:
          b: 1
        # about c
        c: 2
        """
    )

    def change(data: Any) -> None:
        inner = copy.copy(data["a"])
        inner["new"] = "x"
        data["a"] = inner

    assert edited(text, change) == text.replace("  b: 1\n", "  b: 1\n  new: x\n")


def test_a_flow_mapping_that_is_changed_is_written_out() -> None:
    def change(data: Any) -> None:
        inner = copy.copy(data["a"])
        inner["new"] = "x"
        data["a"] = inner

    assert edited("a: {b: {c: 1}}\nd: {e: 1}\n", change) == (
        "a:\n  b: {c: 1}\n  new: x\nd: {e: 1}\n"
    )


def test_a_change_to_one_of_two_that_share_a_node_parts_them() -> None:
    text = "a: &x\n  k: 1\nb: *x\n"

    def change(data: Any) -> None:
        inner = copy.copy(data["b"])
        inner["k"] = 2
        data["b"] = inner

    written = edited(text, change)
    assert by_yaml_1_1(written) == {"a": {"k": 1}, "b": {"k": 2}}
    tree = read_tree(text)
    assert tree.data["a"] == {"k": 1}


def test_the_same_change_to_both_that_share_a_node_lets_them_share() -> None:
    def change(data: Any) -> None:
        for key in ("a", "b"):
            inner = copy.copy(data[key])
            inner["k"] = 2
            data[key] = inner

    assert edited("a: &x\n  k: 1\nb: *x\nc: 3\n", change) == "a: &x\n  k: 2\nb: *x\nc: 3\n"


def test_a_later_alias_still_means_the_node_it_meant() -> None:
    text = "a: &x\n  k: 1\nb: *x\nc: *x\n"

    def change(data: Any) -> None:
        inner = copy.copy(data["a"])
        inner["k"] = 2
        data["a"] = inner

    written = edited(text, change)
    assert by_yaml_1_1(written) == {"a": {"k": 2}, "b": {"k": 1}, "c": {"k": 1}}
    assert written.count("*x") == 1


def test_merged_keys_become_own_keys_of_a_mapping_that_is_changed() -> None:
    text = "base: &base\n  a: 1\n  b: 2\nm:\n  <<: *base\n  b: 3\n"

    def change(data: Any) -> None:
        inner = copy.copy(data["m"])
        inner["c"] = 4
        data["m"] = inner

    written = edited(text, change)
    assert by_yaml_1_1(written)["m"] == {"a": 1, "b": 3, "c": 4}
    assert by_yaml_1_1(written)["base"] == {"a": 1, "b": 2}


# What is refused

WRONG = [
    ("a: [1\n", 2, "flow sequence"),
    ("a: 1\na: 2\n", 2, "'a' stands there twice"),
    ("a: *nowhere\n", 1, "*nowhere"),
    ("a: !secret x\n", 1, "!secret"),
    ("a: !map {}\n", 1, "!map"),
    ("? [a]\n: 1\n", 1, "collection"),
    ("a: b: c\n", 1, "not allowed"),
    ("a:\n\t- b\n", 2, "token"),
    ("a: \x07\n", 1, ""),
    ("<<: 1\na: 2\n", 1, "merges"),
    ("a: &a\n  b: *a\n", 2, "*a names no anchor in front of it"),
]


@pytest.mark.parametrize(("text", "line", "words"), WRONG, ids=[text for text, *_rest in WRONG])
def test_text_that_is_no_manifest_is_refused_with_its_line(
    text: str, line: int, words: str
) -> None:
    with pytest.raises(YamlSyntaxError) as raised:
        read_tree(text)
    assert words in str(raised.value)
    assert raised.value.line == line


def test_aliases_that_stand_for_too_much_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(YamlSyntaxError, match="stand for more than 1000000 values"):
        read_tree("\n".join(lines))


def test_a_comment_inside_brackets_is_kept_below_them() -> None:
    text = dedent(
        """
        a: [1, # one
          # two
          2]
        b: {c: d}
        """
    )
    assert there_and_back(text) == "a: [1, 2]\n# one\n  # two\nb: {c: d}\n".replace(
        "# one\n", "       # one\n"
    )


def test_tags_that_say_what_kubernetes_knows_are_read() -> None:
    data = read_tree('a: !!str 12\nb: !!int "3"\nc: !!float 2\nd: !!bool yes\ne: ! 7\n').data
    assert data == {"a": "12", "b": 3, "c": 2.0, "d": True, "e": "7"}
    assert by_yaml_1_1(there_and_back("a: !!str 12\n")) == {"a": "12"}
