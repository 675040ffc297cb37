"""Shortens Google's API descriptions to the field names, types and enums that the sandbox checks.

Owns the format of the `.json` files beside it. Does not run when the sandbox runs: a maintainer
calls it when Google adds fields, on the discovery documents that the `google-api-python-client`
package carries:

    python -m sandbox.cloud.schemas.extract FOLDER_OF_DISCOVERY_DOCUMENTS
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "compute": (
        "compute.beta.json",
        (
            "Network",
            "Subnetwork",
            "SubnetworksExpandIpCidrRangeRequest",
            "SubnetworksSetPrivateIpGoogleAccessRequest",
            "Firewall",
            "Route",
            "ResourcePolicy",
        ),
    ),
    "container": (
        "container.v1beta1.json",
        (
            "CreateClusterRequest",
            "UpdateClusterRequest",
            "SetLabelsRequest",
            "SetMaintenancePolicyRequest",
            "CancelOperationRequest",
        ),
    ),
    "serviceusage": (
        "serviceusage.v1.json",
        ("EnableServiceRequest", "BatchEnableServicesRequest", "DisableServiceRequest"),
    ),
}
_SCALARS = {
    ("string", "int64"): "l",
    ("string", "uint64"): "l",
    ("integer", None): "i",
    ("boolean", None): "b",
    ("number", None): "n",
}
_OUTPUT_ONLY = re.compile(r"^\s*(?:\[Output[ -]Only\]|Output[ -]only)", re.IGNORECASE)


def shorten(document: dict[str, Any], roots: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the messages reachable from `roots`.

    A message is field -> type; a type is `s`, `i`, `l` (64 bits, text or number), `n`, `b`, `any`,
    `@Message`, `[type]` for lists, `{"*": type}` for maps, `{"enum": [...]}`, `{"fields": ...}` for
    a message without a name. A field that only answers carry starts with `-`.
    """
    schemas, found, waiting = document["schemas"], {}, list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _fields(schemas[name], waiting)
    return dict(sorted(found.items()))


def _fields(schema: dict[str, Any], waiting: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field, spec in schema.get("properties", {}).items():
        output_only = spec.get("readOnly") or _OUTPUT_ONLY.match(spec.get("description", ""))
        fields[("-" if output_only else "") + field] = _type(spec, waiting)
    return fields


def _type(spec: dict[str, Any], waiting: list[str]) -> Any:
    if "$ref" in spec:
        waiting.append(spec["$ref"])
        return "@" + spec["$ref"]
    kind = spec.get("type")
    if kind == "array":
        return [_type(spec["items"], waiting)]
    if kind == "object":
        if "additionalProperties" in spec:
            return {"*": _type(spec["additionalProperties"], waiting)}
        return {"fields": _fields(spec, waiting)} if "properties" in spec else "any"
    if "enum" in spec:
        return {"enum": spec["enum"]}
    plain = str(kind)
    return _SCALARS.get((plain, spec.get("format"))) or _SCALARS.get((plain, None), "s")


def _one_message_a_line(short: dict[str, Any]) -> str:
    """Return JSON text whose changes are readable line by line."""
    lines = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'), sort_keys=True)}"
        for name, fields in short["messages"].items()
    )
    return f'{{"revision":"{short["revision"]}","messages":{{\n{lines}\n}}}}\n'


def main(folder: str) -> None:
    """Write one `.json` file per API beside this module."""
    for api, (source, roots) in ROOTS.items():
        document = json.loads((Path(folder) / source).read_text(encoding="utf-8"))
        short = {"revision": document["revision"], "messages": shorten(document, roots)}
        target = Path(__file__).with_name(f"{api}.json")
        target.write_text(_one_message_a_line(short), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
