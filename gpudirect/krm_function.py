"""GPUDirect as a KRM function: the form in which kustomize and kpt call a transformer.

Owns the ResourceList and what a function's config may say. Does not own the rendering
(`workloads`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpudirect.environment_options import EnvironmentOptions, selectors_from, split_networks
from gpudirect.manifest_stream import RenderRequest
from gpudirect.pod_reading import type_name
from gpudirect.stacks import STACKS
from gpudirect.workload_environment import NcclDebug, debug_file_pattern
from gpudirect.workload_findings import ManifestFinding, errors_in
from gpudirect.workload_kinds import kind_from_path
from gpudirect.workloads import render_document

API_VERSION = "config.kubernetes.io/v1"
_API_VERSIONS = (API_VERSION, "config.kubernetes.io/v1beta1", "config.kubernetes.io/v1alpha1")
_KEYS = (
    "stack",
    "program",
    "gpuStack",
    "networks",
    "profile",
    "release",
    "imageRegistry",
    "nodeSelector",
    "debug",
    "debugFile",
    "nodes",
    "templatePaths",
)


class FunctionConfigError(ValueError):
    """A ResourceList or function config that says nothing usable; the text lists why."""


def run_function(
    resource_list: Any, defaults: EnvironmentOptions
) -> tuple[dict[str, Any], list[ManifestFinding]]:
    """Render the items of a ResourceList.

    Args:
        resource_list: The list as kustomize sends it; its `functionConfig` says what to put in,
            under `spec` or, in a ConfigMap, under `data`.
        defaults: What holds where the config says nothing.

    Returns:
        The list to send back, and the findings, which stand in its `results` too. With an error
        among them the items are those that came.

    Raises:
        FunctionConfigError: this is no ResourceList, or its config is wrong.
    """
    if not isinstance(resource_list, dict) or resource_list.get("kind") != "ResourceList":
        raise FunctionConfigError(
            f"expected a ResourceList of {API_VERSION} on standard input, as kustomize sends it"
        )
    if resource_list.get("apiVersion") not in _API_VERSIONS:
        raise FunctionConfigError(
            f"apiVersion: {resource_list.get('apiVersion')!r}, expected one of "
            f"{', '.join(_API_VERSIONS)}"
        )
    request = _request(_config(resource_list.get("functionConfig")), defaults)
    items = _items(resource_list)
    rendered, findings = [], []
    for number, item in enumerate(items, start=1):
        result, found = render_document(
            item,
            request.environment,
            extra_kinds=request.extra_kinds,
            debug=request.debug,
            nodes=request.nodes,
        )
        rendered.append(result)
        findings += [replace(finding, document=number) for finding in found]
    answer = dict(resource_list)
    answer["items"] = items if errors_in(findings) else rendered
    if findings:
        answer["results"] = [_result(finding, items[finding.document - 1]) for finding in findings]
    return answer, findings


def _items(resource_list: Mapping[str, Any]) -> list[Any]:
    items = resource_list.get("items")
    if items is None:
        return []
    if not isinstance(items, list):
        raise FunctionConfigError(f"items: {type_name(items)}, expected a list of objects")
    return items


def _config(function_config: Any) -> Mapping[str, Any]:
    if function_config is None:
        return {}
    if not isinstance(function_config, dict):
        raise FunctionConfigError("functionConfig: expected an object")
    is_data = function_config.get("kind") == "ConfigMap" or "spec" not in function_config
    section = "data" if is_data and "data" in function_config else "spec"
    config = function_config.get(section)
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise FunctionConfigError(f"functionConfig.{section}: expected a mapping")
    unknown = sorted(str(key) for key in config if key not in _KEYS)
    if unknown:
        raise FunctionConfigError(
            f"functionConfig.{section}: {', '.join(unknown)} means nothing here, expected "
            f"{', '.join(_KEYS)}"
        )
    return {key: value for key, value in config.items() if value is not None}


def _request(config: Mapping[str, Any], defaults: EnvironmentOptions) -> RenderRequest:
    said: dict[str, Any] = {
        "pulumi_stack": config.get("stack"),
        "gpu_stack": config.get("gpuStack"),
        "profile": config.get("profile"),
        "release": config.get("release"),
        "image_registry": config.get("imageRegistry"),
    }
    try:
        if "program" in config:
            said["program"] = Path(str(config["program"]))
        if "networks" in config:
            said["networks"] = _names(config["networks"])
        if "nodeSelector" in config:
            said["node_selector"] = _selectors(config["nodeSelector"])
        known = {field.name for field in dataclass_fields(EnvironmentOptions)}
        options = replace(
            defaults, **{k: v for k, v in said.items() if v is not None and k in known}
        )
        _check_place(options)
        debug_file = config.get("debugFile")
        debug = None
        if debug_file:
            debug = NcclDebug(file=debug_file_pattern(str(debug_file)))
        elif str(config.get("debug", "")).lower() == "true":
            debug = NcclDebug()
        return RenderRequest(
            environment=options.environment(),
            extra_kinds=[kind_from_path(text) for text in _list(config.get("templatePaths"))],
            debug=debug,
            nodes=_number("nodes", config["nodes"]) if "nodes" in config else None,
        )
    except (ValueError, TypeError) as error:
        raise FunctionConfigError(f"functionConfig: {error}") from error


def _check_place(options: EnvironmentOptions) -> None:
    if not (options.pulumi_stack or options.gpu_stack):
        raise ValueError(
            "where will the Pods run? Say stack: NAME for a deployed Pulumi stack, or gpuStack: "
            f"{' or '.join(STACKS)}, under spec, or under data of a ConfigMap"
        )


def _number(key: str, value: Any) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0):
        raise ValueError(f"{key}: {text!r}, expected a whole number, 1 or more")
    return int(text)


def _names(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, list):
        return tuple(str(name) for name in value)
    return split_networks(str(value))


def _selectors(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key): _as_text(item) for key, item in value.items()}
    return selectors_from(_list(value))


def _as_text(value: Any) -> str:
    """Return a scalar as YAML writes it: a label's `true` is the word."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(value: Any) -> list[str]:
    """Return a list; a ConfigMap can hold one only as text, an entry to a line."""
    if isinstance(value, list):
        return [str(item) for item in value]
    return str(value or "").split()


def _result(finding: ManifestFinding, item: Any) -> dict[str, Any]:
    reference: dict[str, Any] = {"kind": finding.kind, "name": finding.name}
    if isinstance(item, dict):
        reference["apiVersion"] = str(item.get("apiVersion", ""))
        metadata = item.get("metadata")
        if isinstance(metadata, dict) and metadata.get("namespace"):
            reference["namespace"] = str(metadata["namespace"])
    return {
        "message": f"{finding.message}. {finding.fix}",
        "severity": finding.severity,
        "resourceRef": reference,
        "field": {"path": finding.path, "currentValue": finding.value},
    }
