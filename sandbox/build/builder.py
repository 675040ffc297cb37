"""Builds what is missing of the toolchain, and keeps it for all clones on the machine.

Owns: the cache folder, its layout and its locks. A folder in it is named after a module's content,
so a change of one module builds only that one anew, and an older checkout finds its own programs.
A program appears under its name only when it is complete: an interrupted build goes on where it was
(Go keeps the packages that were compiled), and of two builds at once one waits for the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.build.errors import BuildError
from sandbox.build.go import Go
from sandbox.build.parts import MODULES, Binary, Module
from sandbox.build.progress import Progress
from sandbox.home import MARKER

_LEAST_FREE_BYTES = 1_500_000_000


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that all clones on this machine share (XDG)."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
    return Path(base) / "gpudirect-sandbox" / "toolchain"


def built(cache: Path, skip: Collection[str] = ()) -> dict[str, Path]:
    """Return the programs that are there; nothing is built.

    Args:
        cache: The cache folder.
        skip: Names of programs that are not wanted, because the machine has them already.
    """
    found = {
        binary.name: _module_folder(cache, module) / binary.name for module, binary in _wanted(skip)
    }
    return {name: path for name, path in found.items() if path.is_file()}


def missing(cache: Path, skip: Collection[str] = ()) -> list[str]:
    """Return the names of the programs that would have to be built."""
    have = built(cache, skip)
    return [binary.name for _, binary in _wanted(skip) if binary.name not in have]


def build(cache: Path, environ: Mapping[str, str], skip: Collection[str] = ()) -> dict[str, Path]:
    """Build what is missing, with progress on standard error, and return where everything is.

    Raises:
        BuildError: something could not be built; the text says what to do. What was finished
            before stays.
    """
    if missing(cache, skip):
        go = Go(environ)
        _check_disk(cache)
        wanted = _wanted(skip)
        with Progress() as progress:
            for number, (module, binary) in enumerate(wanted, start=1):
                _build_one(go, cache, module, binary, _Position(progress, number, len(wanted)))
    return built(cache, skip)


@dataclass(frozen=True, slots=True)
class _Position:
    """Where in the whole a part is."""

    progress: Progress
    number: int
    total: int


def _wanted(skip: Collection[str]) -> list[tuple[Module, Binary]]:
    return [
        (module, binary)
        for module in MODULES
        for binary in module.binaries
        if binary.name not in skip
    ]


def _module_folder(cache: Path, module: Module) -> Path:
    return cache / module.name / module.content_hash()


def _build_one(go: Go, cache: Path, module: Module, binary: Binary, position: _Position) -> None:
    target = _module_folder(cache, module) / binary.name
    if target.is_file():
        return
    progress = position.progress
    progress.begin(binary.name, position.number, position.total)
    with _locked(cache, module, progress):
        if target.is_file():
            progress.note(f"{binary.name}: built by another process meanwhile")
            return
        started = time.monotonic()
        watch = _Watch(progress)
        for name, source in module.embedded.items():
            path = _from_module(go, binary.name, module, source, watch)
            shutil.copyfile(path, module.folder / name)
        progress.detail("looking up what it is made of")
        watch.total = go.package_count(binary.name, module.folder, binary.package, watch)
        progress.detail("compiling")
        unfinished = target.with_name(f".{binary.name}.{os.getpid()}")
        try:
            go.build(
                binary.name,
                module.folder,
                binary.package,
                module.linker_flags(binary),
                unfinished,
                watch,
            )
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    progress.done(binary.name, position.number, position.total, time.monotonic() - started)


def _from_module(go: Go, what: str, module: Module, source: str, watch: _Watch) -> Path:
    path, _, inside = source.partition(":")
    found = go.module_folder(what, module.folder, path, watch) / inside
    if not found.exists():
        raise BuildError(
            f"{what} was not built: module {path} {module.version(path)} holds no {inside}. Its "
            f"version in {module.folder / 'go.mod'} was changed: another file name belongs into "
            "sandbox/build/parts.py."
        )
    return found


class _Watch:
    """Turns what Go prints into a line of progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._compiled = 0
        self._fetched = 0
        self.total = 0

    def __call__(self, line: str) -> None:
        """Take one line of Go's standard error."""
        if line.startswith("go: downloading "):
            self._fetched += 1
            self._progress.detail(f"fetching modules ({self._fetched})")
        elif line and " " not in line:
            # With -v Go names each package when its compilation begins.
            self._compiled += 1
            self._progress.detail(f"compiling, {self._compiled} of at most {self.total} packages")


@contextlib.contextmanager
def _locked(cache: Path, module: Module, progress: Progress) -> Iterator[None]:
    """Hold the lock of one module; the kernel releases it when this process ends."""
    folder = _module_folder(cache, module)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise BuildError(
            f"{folder} cannot be written: {error.strerror}. The toolchain is kept there for all "
            "clones; name another place with XDG_CACHE_HOME."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.detail("waiting for another process that builds the same")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_disk(cache: Path) -> None:
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if free < _LEAST_FREE_BYTES:
        raise BuildError(
            f"Only {free / 1e9:.1f} GB are free at {place}, and the toolchain needs "
            f"{_LEAST_FREE_BYTES / 1e9:.1f} GB there (and up to 12 GB in Go's caches for a first "
            "build). Free some space, or name another place with XDG_CACHE_HOME."
        )
