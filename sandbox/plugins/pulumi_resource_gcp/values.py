"""Pulumi property values: protobuf structs to plain Python and back.

Owns the two special values of the wire format, unknowns and secrets [facts google-cloud.md
§12.3]. A decoded map is plain data with `UNKNOWN` where a value is not known yet; where secrets
were is kept beside it, so that the code between decoding and encoding never sees a wrapper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.struct_pb2 import ListValue, Struct, Value

UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a marker, not a secret

Path = tuple[str | int, ...]
Properties = dict[str, Any]


class _Unknown:
    """The type of `UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""Stands for a value that is known only after other resources exist."""

# Further encodings of "unknown", one per type of value; the engine may send any of them.
_UNKNOWN_TEXTS = frozenset(
    {
        UNKNOWN_TEXT,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


@dataclass(slots=True)
class Decoded:
    """A property map and the places in it that held secrets."""

    values: Properties
    secrets: set[Path] = field(default_factory=set)


def decode(struct: Struct) -> Decoded:
    """Turn a protobuf struct into plain data; whole numbers become `int`."""
    secrets: set[Path] = set()
    values = {name: _decode(value, (name,), secrets) for name, value in struct.fields.items()}
    return Decoded(values, secrets)


def _decode(value: Value, path: Path, secrets: set[Path]) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if text in _UNKNOWN_TEXTS else text
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        items = value.list_value.values
        return [_decode(item, (*path, index), secrets) for index, item in enumerate(items)]
    if kind == "struct_value":
        fields = value.struct_value.fields
        if SIGNATURE_KEY in fields and fields[SIGNATURE_KEY].string_value == SECRET_SIGNATURE:
            secrets.add(path)
            return _decode(fields["value"], path, secrets)
        return {name: _decode(item, (*path, name), secrets) for name, item in fields.items()}
    return None


def encode(values: Mapping[str, Any], secrets: set[Path] | None = None) -> Struct:
    """Turn plain data into a protobuf struct; places named in `secrets` become secret values."""
    struct = Struct()
    _encode_fields(struct, values, (), secrets or set())
    return struct


def _encode_fields(
    struct: Struct, values: Mapping[str, Any], path: Path, secrets: set[Path]
) -> None:
    for name, value in values.items():
        _encode(struct.fields[name], value, (*path, name), secrets)


def _encode(target: Value, value: Any, path: Path, secrets: set[Path]) -> None:
    if path in secrets:
        wrapper = target.struct_value.fields
        wrapper[SIGNATURE_KEY].string_value = SECRET_SIGNATURE
        _encode(wrapper["value"], value, path, secrets - {path})
    elif value is UNKNOWN:
        target.string_value = UNKNOWN_TEXT
    elif value is None:
        target.null_value = 0
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, Mapping):
        target.struct_value.CopyFrom(Struct())
        _encode_fields(target.struct_value, value, path, secrets)
    elif isinstance(value, Sequence):
        target.list_value.CopyFrom(ListValue())
        for index, item in enumerate(value):
            _encode(target.list_value.values.add(), item, (*path, index), secrets)
    else:
        message = f"no property value for {type(value).__name__} at {path}"
        raise TypeError(message)


def output_secrets(input_secrets: set[Path]) -> set[Path]:
    """Say which outputs are secret because the input of the same place was.

    Lists may come back in another order or length, so a secret inside a list makes the whole
    list secret.
    """
    found: set[Path] = set()
    for path in input_secrets:
        cut = next((index for index, part in enumerate(path) if isinstance(part, int)), len(path))
        found.add(path[:cut])
    return found


def contains_unknown(value: Any) -> bool:
    """Say whether a value, or anything inside it, is not known yet."""
    if value is UNKNOWN:
        return True
    if isinstance(value, Mapping):
        return any(contains_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(contains_unknown(item) for item in value)
    return False


def is_empty(value: Any) -> bool:
    """Say whether Terraform's SDK would treat a value as not set: null, zero or without items."""
    return value is None or value == "" or value == 0 or value == [] or value == {}
