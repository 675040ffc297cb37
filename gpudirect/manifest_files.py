"""Manifests in files and folders: which there are, and writing them back all or not at all.

Owns the file system's side of an injection. Does not own what is written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

SUFFIXES = (".yaml", ".yml", ".json")


class ManifestFileError(ValueError):
    """Files that are not there or cannot be read or written; the text names them and why."""


def manifest_files(paths: Sequence[str], *, recursive: bool) -> list[Path]:
    """Return the files that paths stand for, folders opened as kubectl does.

    Args:
        paths: Files and folders.
        recursive: Whether folders inside folders are opened as well.

    Raises:
        ManifestFileError: a path does not exist, or a folder holds no manifest.
    """
    files: list[Path] = []
    problems = []
    for text in paths:
        path = Path(text)
        if path.is_dir():
            found = sorted(
                file
                for file in path.glob("**/*" if recursive else "*")
                if file.suffix in SUFFIXES and file.is_file()
            )
            if not found:
                hint = "" if recursive else "; -R opens the folders inside it"
                problems.append(f"{text}: no {', '.join(SUFFIXES)} file in this folder{hint}")
            files += found
        elif path.exists():
            files.append(path)
        else:
            problems.append(f"{text}: no such file or folder")
    if problems:
        raise ManifestFileError("\n".join(problems))
    return list(dict.fromkeys(files))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[IO[str]]:
    """Open a manifest, line ends as they are.

    Raises:
        ManifestFileError: it cannot be read, or holds something other than UTF-8.
    """
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise ManifestFileError(not_utf8(str(path), error)) from error
    except OSError as error:
        raise ManifestFileError(f"{path}: cannot be read: {error.strerror}") from error


def not_utf8(source: str, error: UnicodeDecodeError) -> str:
    """Return what to say about text in another encoding."""
    return (
        f"{source}: byte {error.object[error.start]:#04x} is no UTF-8, which manifests are in. "
        "Save the file as UTF-8."
    )


class FileRewrite:
    """New contents of several files that appear together when `commit` is called.

    Each file is written beside the old one first, so that a full disk or a missing right is
    noticed before any file has changed; what was not committed is removed.
    """

    def __init__(self) -> None:
        self._written: list[tuple[Path, Path]] = []
        self._open: list[IO[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in self._open:
            stream.close()
        for temporary, _target in self._written:
            temporary.unlink(missing_ok=True)

    def open(self, path: Path) -> IO[str]:
        """Return a stream for a file's new content.

        Raises:
            ManifestFileError: nothing can be written there.
        """
        # A link stays a link: its target is what changes.
        target = path.resolve()
        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            self._written.append((Path(name), target))
            stream = os.fdopen(handle, "w", encoding="utf-8", newline="")
            self._open.append(stream)
            shutil.copymode(target, name)
        except OSError as error:
            raise ManifestFileError(f"{path}: cannot be written: {error.strerror}") from error
        return stream

    def drop(self, stream: IO[str]) -> None:
        """Leave a file as it is after all."""
        index = self._open.index(stream)
        stream.close()
        del self._open[index]
        self._written.pop(index)[0].unlink(missing_ok=True)

    def commit(self) -> None:
        """Put the new contents in place."""
        for stream in self._open:
            stream.close()
        while self._written:
            temporary, target = self._written[0]
            temporary.replace(target)
            del self._written[0]
        self._open.clear()
