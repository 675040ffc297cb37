"""The vocabulary in which resource kinds are described: fields, their types and how they compare.

Owns the declarative part only. `checking` and `diffing` interpret it towards Pulumi, `mapping`
towards Google's JSON.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Type(Enum):
    """What a field holds."""

    STRING = "string"
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    LIST = "list"
    """An ordered list of strings."""
    SET = "set"
    """Strings whose order does not count."""
    MAP = "map"
    BLOCK = "block"
    """One nested object."""
    BLOCKS = "blocks"
    """An ordered list of nested objects."""
    BLOCK_SET = "block set"
    """Nested objects whose order does not count."""


NESTED = frozenset({Type.BLOCK, Type.BLOCKS, Type.BLOCK_SET})
COLLECTIONS = frozenset({Type.LIST, Type.SET, Type.BLOCKS, Type.BLOCK_SET})

Validator = Callable[[str, Any], list[str]]
"""Takes the Terraform name and a known value; returns one text per problem."""
Same = Callable[[Any, Any], bool]
"""Says whether an old and a new value mean the same thing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One property of a resource or of a nested object."""

    type: Type = Type.STRING
    api: str = ""
    """Dotted path in Google's JSON; empty = not carried by the generic mapping."""
    tf: str = ""
    """Terraform's name where it is not the snake_case of Pulumi's (lists are singular there)."""
    required: bool = False
    computed: bool = False
    """Optional and filled by the server: leaving it out is never a difference."""
    output: bool = False
    """Computed only; no input of this name exists."""
    force_new: bool = False
    default: Any = None
    """Terraform's default; Check writes it into the inputs if it is truthy [§1.3]."""
    send_empty: bool = False
    """Compute requests leave out empty values; this one goes out whatever it is."""
    client: bool = False
    """Known to the provider alone: in inputs and state, never in a request or an answer."""
    sticky: bool = False
    """An answer without the object that holds it leaves the saved value, as in the provider."""
    conflicts: tuple[str, ...] = ()
    """Terraform paths of fields that must not be given beside this one."""
    validators: tuple[Validator, ...] = ()
    same: Same | None = None
    key: Callable[[Any], Any] | None = None
    """For sets: what identifies an item."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    exactly_one: tuple[tuple[str, ...], ...] = ()
    """For blocks: groups of nested fields of which exactly one must be given."""
    unsupported: bool = False
    """Exists at the real provider and is refused here: dropping it in silence would be a lie."""


Fields = Mapping[str, Field]


def terraform_name(name: str, spec: Field) -> str:
    """Return Terraform's name of a field."""
    return spec.tf or snake_case(name)


def snake_case(name: str) -> str:
    """Turn `enableK8sBetaApis` into `enable_k8s_beta_apis`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def inputs_of(fields: Fields) -> Iterator[tuple[str, Field]]:
    """List the fields that a program may set."""
    return ((name, spec) for name, spec in fields.items() if not spec.output)


def not_carried(names: str) -> dict[str, Field]:
    """Return fields, named in one text, that the real provider has and this stand-in refuses."""
    return {name: Field(unsupported=True) for name in names.split()}


# --- validators -----------------------------------------------------------------------------


def matches(pattern: str) -> Validator:
    """Require a regular expression, in the words of Terraform's compute resources [§1.1]."""
    compiled = re.compile(pattern)

    def check(name: str, value: Any) -> list[str]:
        if compiled.search(value):
            return []
        return [f'"{name}" ("{value}") doesn\'t match regexp "{pattern}"']

    return check


def one_of(*allowed: str) -> Validator:
    """Require one of some words [§1.6]."""
    listed = " ".join(f'"{word}"' for word in allowed)

    def check(name: str, value: Any) -> list[str]:
        return [] if value in allowed else [f"expected {name} to be one of [{listed}], got {value}"]

    return check


def cidr_with_prefix(low: int, high: int) -> Validator:
    """Require a range in CIDR notation whose prefix length lies in a closed range."""

    def check(name: str, value: Any) -> list[str]:
        try:
            network = ipaddress.ip_network(str(value), strict=False)
        except ValueError as error:
            return [f'expected "{name}" to contain a valid Value, got: {value} with err: {error}']
        if str(network) != value:
            return [
                f'expected "{name}" to contain a valid network Value, expected {network}, '
                f"got {value}"
            ]
        if low <= network.prefixlen <= high:
            return []
        return [
            f'expected "{name}" to contain a network Value with between {low} and {high} '
            f"significant bits, got: {network.prefixlen}"
        ]

    return check


def between(low: int, high: int) -> Validator:
    """Require an integer in a closed range [§1.6]."""

    def check(name: str, value: Any) -> list[str]:
        if low <= value <= high:
            return []
        return [f"expected {name} to be in the range ({low} - {high}), got {value}"]

    return check
