"""Puts everything that clients start into one sandbox's folder.

Owns: `bin/` (first on PATH) and Pulumi's plug-in folder. Plug-ins are not put on PATH: the engine
warns about each that it finds there, and takes those in its own folder as installed. Does not own
building (`sandbox.build`) or what the stand-ins do (`sandbox.plugins`).
"""

from __future__ import annotations

import importlib.metadata
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.home import MARKER, PROJECT_FOLDER, Home

_PLUGINS = Path(__file__).resolve().parent / "plugins"
_PROVIDERS = ("kubernetes", "gcp")
_GCP_STAND_IN = "sandbox.plugins.pulumi_resource_gcp"
_AUTH_PLUGIN = "gke-gcloud-auth-plugin"
_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


def provider_versions() -> dict[str, str]:
    """Return the version that the engine asks of each plug-in: its SDK's."""
    return {name: importlib.metadata.version(f"pulumi-{name}") for name in _PROVIDERS}


def install(home: Home, programs: Mapping[str, Path]) -> None:
    """Write launchers and links; what is right already is left alone.

    Args:
        home: The sandbox.
        programs: The parts of the toolchain and what the machine has, by name.
    """
    links = {name: programs[name] for name in _CONTROL_PLANE}
    links[_AUTH_PLUGIN] = _PLUGINS / _AUTH_PLUGIN
    for path in home.programs.iterdir():
        known = path.name in (*links, "pulumi", MARKER)
        if not known and (path.is_symlink() or not path.is_dir()):
            path.unlink()
    (home.programs / MARKER).touch()
    for name, target in links.items():
        _link(home.programs / name, target)
    cli = _becoming(
        sys.executable, "-I", _PLUGINS / "pulumi_cli.py", programs["pulumi"], home.stack_files
    )
    _write_program(home.programs / "pulumi", cli)
    _install_plugins(home, programs)


def _install_plugins(home: Home, programs: Mapping[str, Path]) -> None:
    pulumi = importlib.metadata.version("pulumi")
    host = [sys.executable, "-P", _PLUGINS / "pulumi_language_python" / "host.py"]
    dynamic = [sys.executable, "-u", "-P", _PLUGINS / "pulumi_python_dynamic.py"]
    # A complete CLI has both beside it and must find no others.
    bundled = "pulumi-language-python" in programs
    _plugin(home, "language-python", pulumi, None if bundled else _becoming(*host))
    _plugin(home, "resource-pulumi-python", pulumi, None if bundled else _becoming(*dynamic))
    stand_ins = {
        "gcp": _becoming(
            "env", f"PYTHONPATH={PROJECT_FOLDER}", sys.executable, "-P", "-m", _GCP_STAND_IN
        )
    }
    for name, version in provider_versions().items():
        program = programs.get(f"pulumi-resource-{name}")
        script = _watching(program) if program else stand_ins.get(name)
        _plugin(home, f"resource-{name}", version, script)


def _plugin(home: Home, name: str, version: str, script: str | None) -> None:
    """Make Pulumi see one installed plug-in of a name, or none."""
    plugins = home.pulumi_home / "plugins"
    folder = plugins / f"{name}-v{version}"
    for other in plugins.glob(f"{name}-v*"):
        if other.is_dir() and (other != folder or script is None):
            shutil.rmtree(other)
    if script is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
        _write_program(folder / f"pulumi-{name}", script)


def _becoming(*command: object) -> str:
    """Return a script that becomes a command.

    Modules are compiled once and kept, also where the environment forbids it for the caller's own
    programs: compiling the stand-ins anew would cost a second per command.
    """
    return f'unset PYTHONDONTWRITEBYTECODE\nexec {_quoted(*command)} "$@"\n'


def _watching(program: Path) -> str:
    """Return a script that becomes a plug-in which ends when the engine is gone.

    The engine holds the other end of a plug-in's standard input. A killed engine ends no plug-in,
    and a released plug-in notices that only after minutes; the stand-ins look for it themselves.
    """
    return (
        "exec 3<&0\n"
        "{ cat; kill $$; } <&3 3<&- >/dev/null 2>&1 &\n"
        f'exec {_quoted(program)} "$@" 3<&-\n'
    )


def _quoted(*command: object) -> str:
    return " ".join(shlex.quote(str(word)) for word in command)


def _link(path: Path, target: Path) -> None:
    if path.is_symlink() and path.readlink() == target:
        return
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    unfinished.replace(path)


def _write_program(path: Path, script: str) -> None:
    text = f"#!/bin/sh\n# Written by `python -m sandbox up`.\n{script}"
    if path.is_file() and not path.is_symlink() and path.read_bytes() == text.encode():
        return
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text(text)
    unfinished.chmod(0o755)
    unfinished.replace(path)
