"""Finds parts that this machine already has, so that nothing is built in their place.

Owns: what counts as a complete Pulumi CLI, a real plug-in and a folder of Kubernetes test assets.
Everything that a sandbox made itself is passed over, also that of another sandbox.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.build.parts import MODULES
from sandbox.home import MARKER

_KUBERNETES_ASSETS = ("etcd", "kube-apiserver")
_VERSION_SECONDS = 10
_KUBERNETES_EXTRAS = ("kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True, kw_only=True, slots=True)
class Existing:
    """Programs that are there, and remarks for the user on what was looked at in vain."""

    programs: Mapping[str, Path]
    """Name as in the toolchain (`pulumi`, `pulumi-resource-kubernetes`, `etcd` …) -> path."""
    remarks: tuple[str, ...]


def find(environ: Mapping[str, str], plugin_versions: Mapping[str, str]) -> Existing:
    """Look for a Pulumi CLI, plug-ins and Kubernetes programs.

    Args:
        environ: The environment; PATH, PULUMI_HOME, HOME and KUBEBUILDER_ASSETS count.
        plugin_versions: Provider -> version of its SDK, e.g. `gcp` -> `10.2.0`.
    """
    programs: dict[str, Path] = {}
    remarks: list[str] = []
    _find_pulumi(environ, programs, remarks)
    for provider, version in plugin_versions.items():
        plugin = _find_plugin(environ, provider, version)
        if plugin is not None:
            programs[f"pulumi-resource-{provider}"] = plugin
    _find_assets(environ, programs, remarks)
    return Existing(programs=programs, remarks=tuple(remarks))


def on_path(name: str, environ: Mapping[str, str]) -> Path | None:
    """Return the first executable of a name on PATH that no sandbox made."""
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / name
        if folder and _is_program(path) and not (path.parent / MARKER).exists():
            return path
    return None


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        return False


def _find_pulumi(environ: Mapping[str, str], programs: dict[str, Path], remarks: list[str]) -> None:
    pulumi = on_path("pulumi", environ)
    if pulumi is None:
        return
    beside = pulumi.resolve().parent / "pulumi-language-python"
    host = beside if _is_program(beside) else on_path("pulumi-language-python", environ)
    if host is None:
        remarks.append(
            f"{pulumi} has no pulumi-language-python beside it or on PATH: not used, because it "
            "could not run a Python program"
        )
        return
    programs["pulumi"] = pulumi
    programs["pulumi-language-python"] = host


def _find_plugin(environ: Mapping[str, str], provider: str, version: str) -> Path | None:
    """Return a real plug-in of the SDK's major version; the SDK's own version if there is one."""
    name = f"pulumi-resource-{provider}"
    found = on_path(name, environ)
    if found is not None:
        return found
    # In a shell with the sandbox's environment PULUMI_HOME is the sandbox's, not the user's.
    homes = {Path(environ.get("HOME", "/"), ".pulumi"), Path(environ.get("PULUMI_HOME") or "/")}
    wanted = _numbers(version)
    candidates = [
        (_numbers(folder.name.rpartition("-v")[2]), folder / name)
        for home in homes
        for folder in _folders(home / "plugins", f"resource-{provider}-v*")
        if _is_program(folder / name) and not (folder / MARKER).exists()
    ]
    same_major = [entry for entry in candidates if entry[0][:1] == wanted[:1]]
    exact = [entry for entry in same_major if entry[0] == wanted]
    return max(exact or same_major)[1] if same_major else None


def _folders(parent: Path, pattern: str) -> Iterator[Path]:
    try:
        yield from parent.glob(pattern)
    except OSError:
        return


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("-")[0]))


def _find_assets(environ: Mapping[str, str], programs: dict[str, Path], remarks: list[str]) -> None:
    value = environ.get("KUBEBUILDER_ASSETS", "")
    if not value:
        return
    folder = Path(value)
    missing = [name for name in _KUBERNETES_ASSETS if not _is_program(folder / name)]
    if missing:
        remarks.append(
            f"KUBEBUILDER_ASSETS={value} holds no program {' and no '.join(missing)}: not used"
        )
        return
    for name in _KUBERNETES_ASSETS + _KUBERNETES_EXTRAS:
        if _is_program(folder / name):
            programs[name] = folder / name
    remarks.extend(_skew(folder))


def _skew(folder: Path) -> Iterator[str]:
    """Say if an API server does not fit the controller manager that goes with it here."""
    if _is_program(folder / "kube-controller-manager"):
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [str(folder / "kube-apiserver"), "--version"]
        printed = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_VERSION_SECONDS
        ).stdout
        server = re.search(r"v1\.(\d+)\.\S+", printed)
        own = next(module for module in MODULES if module.name == "kubernetes")
        version = own.version("k8s.io/kubernetes")
        if server and int(server[1]) < int(version.split(".")[1]):
            yield (
                f"KUBEBUILDER_ASSETS={folder} has kube-apiserver {server[0]}, which is used; the "
                f"other parts of the control plane are {version}, and Kubernetes promises nothing "
                "for parts that are newer than their API server"
            )
