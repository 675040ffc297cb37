"""The kubeconfig that users of the sandbox have: one context per cluster.

Owns: adding and removing clusters, in the shape that `gcloud container clusters get-credentials`
writes, without touching what users put there themselves. Does not own the internal kubeconfigs of
a cluster's components (`sandbox.gke.cluster_folder`).
"""

from __future__ import annotations

import base64
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from sandbox.contracts import ClusterEndpoint, ClusterKey
from sandbox.gke.certificates import write_private

_LOCK_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.02
_INSTALL_HINT = (
    "Install gke-gcloud-auth-plugin for use with kubectl, or take it from the sandbox: "
    "python -m sandbox env"
)
_SECTIONS = ("clusters", "users", "contexts")


def add_cluster(path: Path, key: ClusterKey, endpoint: ClusterEndpoint) -> None:
    """Add a cluster's context, or bring it up to date.

    It becomes the current context only if there is none: a user's choice stays.
    """
    entries: dict[str, dict[str, Any]] = {
        "clusters": {
            "cluster": {
                "server": f"https://{endpoint.endpoint}",
                "certificate-authority-data": base64.b64encode(
                    endpoint.ca_certificate_pem.encode()
                ).decode(),
            }
        },
        "users": {
            "user": {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1beta1",
                    "command": "gke-gcloud-auth-plugin",
                    "installHint": _INSTALL_HINT,
                    "provideClusterInfo": True,
                }
            }
        },
        "contexts": {"context": {"cluster": key.context, "user": key.context}},
    }

    def change(config: dict[str, Any]) -> None:
        for section, value in entries.items():
            named = {"name": key.context} | value
            for index, entry in enumerate(config[section]):
                if entry.get("name") == key.context:
                    # A namespace that the user chose for the context stays.
                    if section == "contexts":
                        named["context"] = (entry.get("context") or {}) | named["context"]
                    config[section][index] = named
                    break
            else:
                config[section].append(named)
        config["current-context"] = config.get("current-context") or key.context

    _edit(path, change)


def remove_cluster(path: Path, key: ClusterKey) -> None:
    """Remove a cluster's context; a file or context that is not there is no error.

    If it was the current one, another cluster's context takes its place, if there is one.
    """

    def change(config: dict[str, Any]) -> None:
        for section in _SECTIONS:
            config[section] = [
                entry for entry in config[section] if entry.get("name") != key.context
            ]
        if config.get("current-context") == key.context:
            others = [entry["name"] for entry in config["contexts"]]
            config["current-context"] = others[0] if others else ""

    if path.exists():
        _edit(path, change)


def _edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _lock(path):
        try:
            config = yaml.safe_load(path.read_text()) or {}
        except FileNotFoundError:
            config = {}
        config = {"apiVersion": "v1", "kind": "Config"} | config
        for section in _SECTIONS:
            config[section] = config.get(section) or []
        change(config)
        temporary = path.with_name(path.name + ".new")
        write_private(temporary, yaml.safe_dump(config, sort_keys=False).encode())
        temporary.replace(path)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock that kubectl holds while it writes the same file: `<file>.lock` exists.

    Whoever writes holds it for milliseconds; one that stays was left by a killed program.
    """
    lock = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                lock.unlink(missing_ok=True)
            time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
