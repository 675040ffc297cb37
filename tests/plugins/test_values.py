"""Property values on the wire [facts google-cloud.md §12.3]."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from sandbox.plugins.pulumi_resource_gcp.values import (
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN,
    UNKNOWN_TEXT,
    contains_unknown,
    decode,
    encode,
    output_secrets,
)

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.text(),
    st.just(UNKNOWN),
)
values = st.recursive(
    _scalars,
    lambda children: st.one_of(
        st.lists(children, max_size=4),
        st.dictionaries(st.text(min_size=1), children, max_size=4),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(min_size=1), values, max_size=5))
def test_what_is_encoded_decodes_to_itself(properties: dict[str, Any]) -> None:
    assert decode(encode(properties)).values == properties


@given(st.dictionaries(st.text(min_size=1), values, min_size=1, max_size=5), st.data())
def test_a_secret_stays_where_it_was(properties: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(properties)))
    found = decode(encode(properties, {(name,)}))
    assert found.values == properties
    assert found.secrets == {(name,)}


def test_the_wire_forms_are_those_of_pulumi() -> None:
    encoded = MessageToDict(encode({"a": UNKNOWN, "b": "s"}, {("b",)}))
    assert encoded == {
        "a": UNKNOWN_TEXT,
        "b": {SIGNATURE_KEY: SECRET_SIGNATURE, "value": "s"},
    }


def test_a_secret_inside_a_list_is_found_by_its_place() -> None:
    found = decode(encode({"a": [{"b": "s"}]}, {("a", 0, "b")}))
    assert found.values == {"a": [{"b": "s"}]}
    assert found.secrets == {("a", 0, "b")}


def test_whole_numbers_are_integers_and_others_are_not() -> None:
    struct = Struct()
    struct["whole"] = 8244
    struct["part"] = 0.5
    found = decode(struct).values
    assert found == {"whole": 8244, "part": 0.5}
    assert isinstance(found["whole"], int)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_pass_through(number: float) -> None:
    struct = Struct()
    struct.fields["n"].number_value = number
    assert repr(decode(struct).values["n"]) == repr(number)


def test_the_unknown_of_every_type_is_the_one_unknown() -> None:
    assert decode(encode({"n": "3eeb2bf0-c639-47a8-9e75-3b44932eb421"})).values["n"] is UNKNOWN


def test_an_unknown_is_found_at_any_depth() -> None:
    assert contains_unknown({"a": [{"b": UNKNOWN}]})
    assert not contains_unknown({"a": [{"b": 1}]})


def test_a_secret_in_a_list_makes_the_whole_list_secret() -> None:
    assert output_secrets({("a", 1, "b"), ("c", "d")}) == {("a",), ("c", "d")}


def test_something_that_is_no_property_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        encode({"a": object()})
