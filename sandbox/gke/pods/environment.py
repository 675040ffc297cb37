"""The environment variables and the command of a container, as the kubelet works them out.

Owns `env`, `envFrom`, `valueFrom` and `$(NAME)` in commands and arguments.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sandbox.gke.pods.container import DEFAULT_PATH
from sandbox.gke.pods.world import PodRecord

KubeObject = dict[str, Any]
Fetch = Callable[[str, str], Awaitable[KubeObject | None]]
"""Fetches a `ConfigMap` or `Secret` of the Pod's namespace, given kind and name."""

_REFERENCE = re.compile(r"\$(\$)?\(([^)\s]*)\)")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class ConfigError(Exception):
    """The container cannot be configured (`CreateContainerConfigError`)."""


async def environment_of(
    container: KubeObject, pod: PodRecord, service_host: str, fetch: Fetch
) -> dict[str, str]:
    """Work out a container's environment.

    Raises:
        ConfigError: a referenced object or key is missing.
    """
    found = {
        "PATH": DEFAULT_PATH,
        "HOSTNAME": pod.hostname,
        "HOME": "/root",
        "KUBERNETES_SERVICE_HOST": service_host,
        "KUBERNETES_SERVICE_PORT": "443",
    }
    for source in container.get("envFrom") or []:
        found |= await _all_of(source, fetch)
    for entry in container.get("env") or []:
        value = entry.get("value")
        if value is None and entry.get("valueFrom"):
            value = await _value_from(entry["valueFrom"], container, pod, fetch)
            if value is None:
                continue
        found[entry["name"]] = expand(str(value or ""), found)
    return found


def command_of(container: KubeObject, environment: Mapping[str, str]) -> list[str]:
    """Return `command` and `args` with their references filled in; empty if neither is given."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return [expand(str(word), environment) for word in words]


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `$(NAME)` where NAME is known; `$$(NAME)` stands for `$(NAME)`."""

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return f"$({match[2]})"
        return values.get(match[2], match[0])

    return _REFERENCE.sub(replace, text)


async def _all_of(source: KubeObject, fetch: Fetch) -> dict[str, str]:
    for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        reference = source.get(field)
        if not reference:
            continue
        item = await fetch(kind, reference["name"])
        if item is None:
            if reference.get("optional"):
                return {}
            raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        prefix = source.get("prefix") or ""
        return {prefix + key: value for key, value in texts_of(item).items()}
    return {}


async def _value_from(
    source: KubeObject, container: KubeObject, pod: PodRecord, fetch: Fetch
) -> str | None:
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        return _resource_value(source["resourceFieldRef"], container)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        reference = source.get(field)
        if not reference:
            continue
        item = await fetch(kind, reference["name"])
        value = texts_of(item).get(reference["key"]) if item is not None else None
        if value is None and not reference.get("optional"):
            if item is None:
                raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
            raise ConfigError(
                f"couldn't find key {reference['key']} in {kind}"
                f" {pod.namespace}/{reference['name']}"
            )
        return value
    return None


def field_value(path: str, pod: PodRecord) -> str:
    """Return the value of a Pod field, as the downward API gives it."""
    metadata, spec = pod.object["metadata"], pod.object["spec"]
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    values = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName"),
        "status.podIP": pod.address,
        "status.podIPs": pod.address,
        "status.hostIP": pod.node.address,
        "status.hostIPs": pod.node.address,
    }
    return str(values.get(path) or "")


def _resource_value(reference: KubeObject, container: KubeObject) -> str:
    kind, _, name = str(reference.get("resource", "")).partition(".")
    resources = container.get("resources") or {}
    return str((resources.get(kind) or {}).get(name, "0"))


def texts_of(item: KubeObject) -> dict[str, str]:
    """Return the entries of a ConfigMap or Secret as text."""
    found = {key: str(value) for key, value in (item.get("data") or {}).items()}
    if item.get("kind") == "Secret":
        return dict.fromkeys(found, "(secret)")
    return found | dict.fromkeys(item.get("binaryData") or {}, "(binary)")
