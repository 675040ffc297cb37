"""Request bodies: types, names, enums, CIDR ranges.

Owns the checks that follow from Google's API descriptions (`schemas/`), so that no handler meets
a value of a type that it does not expect. What a value means is checked where its kind lives.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import re
from importlib import resources
from typing import Any

from sandbox.cloud.errors import ApiError, invalid_field
from sandbox.cloud.registry import rule

NAME = re.compile(r"(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)")
"""Names of Compute resources [facts google-cloud.md §1.1]."""
rule(
    "payload.unknown-field",
    "GKE and Service Usage refuse an unknown field with its place; Compute drops it",
    citation="Google's API descriptions; that Compute drops is K",
)
rule(
    "payload.types",
    "a value of another type or enum is refused with its place; output-only fields are dropped",
    citation="Google's API descriptions (`sandbox/cloud/schemas`)",
    judges="gcloud",
)
_LIMITS = {"i": 2**31, "l": 2**63}


@functools.cache
def _messages(api: str) -> dict[str, dict[str, Any]]:
    text = resources.files("sandbox.cloud.schemas").joinpath(f"{api}.json").read_text("utf-8")
    messages: dict[str, dict[str, Any]] = json.loads(text)["messages"]
    return messages


def parse(api: str, message: str, body: object) -> dict[str, Any]:
    """Check a JSON body against a message and return what of it counts.

    Nulls count as absent and fields that only answers carry are dropped, as Google does. An
    unknown field is refused by GKE and Service Usage; Compute drops it in silence [K].

    Raises:
        ApiError: 400 that names the place.
    """
    if not isinstance(body, dict):
        raise _malformed("Root element must be a message.")
    return _message(api, _messages(api)[message], body, "")


def _message(api: str, fields: dict[str, Any], body: dict[str, Any], at: str) -> dict[str, Any]:
    checked = {}
    for key, value in body.items():
        if key in fields:
            if value is not None:
                checked[key] = _value(api, fields[key], value, f"{at}.{key}" if at else key)
        elif f"-{key}" not in fields and api != "compute":
            place = f" at '{at}'" if at else ""
            raise _malformed(f'Unknown name "{key}"{place}: Cannot find field.', at)
    return checked


def _value(api: str, kind: Any, value: Any, at: str) -> Any:
    if isinstance(kind, list):
        if not isinstance(value, list):
            value = [value]
        return [_value(api, kind[0], item, f"{at}[{number}]") for number, item in enumerate(value)]
    if isinstance(kind, dict) and "enum" in kind:
        return _enum(api, kind["enum"], value, at)
    if isinstance(kind, dict) or kind == "any" or kind.startswith("@"):
        return _object(api, kind, value, at)
    return _scalar(api, kind, value, at)


def _object(api: str, kind: Any, value: Any, at: str) -> Any:
    if kind == "any":
        return value
    if not isinstance(value, dict):
        raise _wrong_type(api, at, value)
    if isinstance(kind, str):
        return _message(api, _messages(api)[kind[1:]], value, at)
    if "fields" in kind:
        return _message(api, kind["fields"], value, at)
    return {key: _value(api, kind["*"], item, f"{at}.{key}") for key, item in value.items()}


def _enum(api: str, allowed: list[str], value: Any, at: str) -> str:
    if isinstance(value, str) and (value in allowed or value == ""):
        return value
    if api == "compute":
        raise invalid_field(f"resource.{at}", value, f"Must be one of [{', '.join(allowed)}].")
    raise _malformed(f"Invalid value at '{at}', {json.dumps(value)}", at)


def _scalar(api: str, kind: str, value: Any, at: str) -> Any:
    if kind == "s" and isinstance(value, str):
        return value
    if kind == "b":
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
    if kind == "n" and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if kind in _LIMITS and not isinstance(value, bool):
        number = _integer(value)
        if number is not None and -_LIMITS[kind] <= number < _LIMITS[kind]:
            return number if kind == "i" else str(number)
    raise _wrong_type(api, at, value)


def _integer(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        return int(value)
    return None


def _wrong_type(api: str, at: str, value: Any) -> ApiError:
    if api == "compute":
        return invalid_field(f"resource.{at}", json.dumps(value), "Wrong type of value.")
    return _malformed(f"Invalid value at '{at}', {json.dumps(value)}", at)


def _malformed(text: str, at: str = "") -> ApiError:
    message = f"Invalid JSON payload received. {text}"
    violation = {"field": at, "description": message}
    return ApiError(
        400,
        message,
        "badRequest",
        details=[
            {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}
        ],
    )


def merged(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    """Return a message with what a change says of it; fields that it does not name stay."""
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        result[key] = merged(result.get(key), value) if isinstance(value, dict) else value
    return result


def not_json(text: str) -> ApiError:
    """Refusal of a body that is no JSON."""
    return _malformed(text)


def compute_name(body: dict[str, Any]) -> str:
    """Return the checked `name` of a Compute resource [facts google-cloud.md §1.1]."""
    name = body.get("name", "")
    if not NAME.fullmatch(name):
        raise invalid_field(
            "resource.name",
            name,
            f"Must be a match of regex '{NAME.pattern}'",
        )
    return str(name)


def ipv4_range(value: str, field: str) -> ipaddress.IPv4Network:
    """Return a CIDR range without host bits.

    [facts google-cloud.md §3: host bits pass the provider and are refused by the API; the words
    for that are not known, these are those of an address that does not parse.]
    """
    found = parse_range(value)
    if found is None:
        raise invalid_field(field, value, "Must be a valid CIDR address range.")
    return found


def parse_range(value: str) -> ipaddress.IPv4Network | None:
    """Return an IPv4 CIDR range, or None for what is not one or has host bits."""
    if not re.fullmatch(r"[0-9.]+/[0-9]{1,2}", value):
        return None
    try:
        return ipaddress.IPv4Network(value, strict=True)
    except ValueError:
        return None
