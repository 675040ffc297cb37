"""Files of simulated nodes, Pods and containers.

Owns trees of files in memory and views that put several trees together as mounts do. Content is
text; whatever a node's hardware or an image brings is written there by whoever makes the tree.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field


class ReadOnlyError(OSError):
    """Something was written below a read-only mount."""


@dataclass(slots=True)
class FileTree:
    """One file system."""

    _texts: dict[str, str] = field(default_factory=dict)
    _folders: set[str] = field(default_factory=lambda: {"/"})
    _binds: dict[str, int] = field(default_factory=dict)
    """Bind mounts made later, with their number in order of making."""
    _bind_count: int = 0

    def write(self, path: str, text: str) -> None:
        """Write a file; its folders are made."""
        self.make_folder(posixpath.dirname(path))
        self._texts[path] = text

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        while path not in self._folders:
            self._folders.add(path)
            path = posixpath.dirname(path)

    def read(self, path: str, *, newest_bind: int | None = None) -> str | None:
        """Return a file's text, or None.

        Args:
            path: Absolute path.
            newest_bind: Ignore bind mounts that were made later (see `bind_count`).
        """
        if self._is_hidden(path, newest_bind):
            return None
        return self._texts.get(path)

    def is_folder(self, path: str) -> bool:
        """Whether a folder of that name exists."""
        return path in self._folders

    def remove(self, path: str) -> bool:
        """Remove a file or a folder with all it holds; return whether there was anything."""
        inside = path.rstrip("/") + "/"
        texts = [name for name in self._texts if name == path or name.startswith(inside)]
        folders = [name for name in self._folders if name == path or name.startswith(inside)]
        for name in texts:
            del self._texts[name]
        self._folders.difference_update(folders)
        return bool(texts or folders)

    def names(self, folder: str, *, newest_bind: int | None = None) -> list[str]:
        """List what a folder holds, sorted."""
        inside = folder.rstrip("/") + "/"
        found = {
            name[len(inside) :].partition("/")[0]
            for name in [*self._texts, *self._folders]
            if name.startswith(inside)
            and len(name) > len(inside)
            and not self._is_hidden(name, newest_bind, below_only=True)
        }
        return sorted(found)

    def bind(self, path: str) -> None:
        """Note that something is mounted on a folder from now on."""
        self._bind_count += 1
        self._binds[path] = self._bind_count

    def unbind(self, path: str) -> bool:
        """Take a mount and those below it away; return whether there was any."""
        inside = path.rstrip("/") + "/"
        found = [name for name in self._binds if name == path or name.startswith(inside)]
        for name in found:
            del self._binds[name]
            for text in [text for text in self._texts if text.startswith(name + "/")]:
                del self._texts[text]
        return bool(found)

    @property
    def bind_count(self) -> int:
        """How many bind mounts were made so far: what a container that starts now can see."""
        return self._bind_count

    def _is_hidden(self, path: str, newest_bind: int | None, *, below_only: bool = False) -> bool:
        """Whether a path lies in a mount that a container's mounts were made before.

        A hostPath volume without mount propagation does not show what is mounted below it later.
        """
        if newest_bind is None:
            return False
        for bind, number in self._binds.items():
            below = path.startswith(bind + "/")
            if number > newest_bind and (below or (path == bind and not below_only)):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Mount:
    """A part of a tree, put at a path."""

    path: str
    tree: FileTree
    source: str = "/"
    read_only: bool = False
    newest_bind: int | None = None
    """For folders of a node: the bind mounts that existed when the container started."""


class FileView:
    """Files as one container sees them: its root with everything mounted on it."""

    def __init__(self, root: FileTree, mounts: tuple[Mount, ...] = ()) -> None:
        self._mounts = sorted(
            (Mount("/", root), *mounts), key=lambda mount: len(mount.path), reverse=True
        )

    def mount_of(self, path: str) -> Mount:
        """Return the mount that a path lies in."""
        for mount in self._mounts:
            if path == mount.path or path.startswith(mount.path.rstrip("/") + "/"):
                return mount
        return self._mounts[-1]

    def read(self, path: str) -> str | None:
        """Return a file's text, or None."""
        mount, inner = self._locate(path)
        return mount.tree.read(inner, newest_bind=mount.newest_bind)

    def write(self, path: str, text: str) -> None:
        """Write a file.

        Raises:
            ReadOnlyError: it lies below a read-only mount.
        """
        mount, inner = self._locate(path)
        if mount.read_only:
            raise ReadOnlyError(path)
        mount.tree.write(inner, text)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it.

        Raises:
            ReadOnlyError: it lies below a read-only mount.
        """
        mount, inner = self._locate(path)
        if mount.read_only and not self.is_folder(path):
            raise ReadOnlyError(path)
        mount.tree.make_folder(inner)

    def is_folder(self, path: str) -> bool:
        """Whether a folder of that name exists; mount points do."""
        mount, inner = self._locate(path)
        inside = path.rstrip("/") + "/"
        if any(other.path == path or other.path.startswith(inside) for other in self._mounts):
            return True
        return mount.tree.is_folder(inner)

    def exists(self, path: str) -> bool:
        """Whether a file or folder of that name exists."""
        return self.is_folder(path) or self.read(path) is not None

    def remove(self, path: str) -> bool:
        """Remove a file or folder; return whether there was any.

        Raises:
            ReadOnlyError: it lies below a read-only mount.
        """
        mount, inner = self._locate(path)
        if mount.read_only:
            raise ReadOnlyError(path)
        return mount.tree.remove(inner)

    def names(self, folder: str) -> list[str]:
        """List what a folder holds, mount points included, sorted."""
        mount, inner = self._locate(folder)
        found = set(mount.tree.names(inner, newest_bind=mount.newest_bind))
        inside = folder.rstrip("/") + "/"
        for other in self._mounts:
            if other.path.startswith(inside):
                found.add(other.path[len(inside) :].partition("/")[0])
        return sorted(found)

    def walk(self, folder: str) -> Iterator[str]:
        """Yield the paths of all files below a folder."""
        for name in self.names(folder):
            path = posixpath.join(folder, name)
            if self.is_folder(path):
                yield from self.walk(path)
            else:
                yield path

    def match(self, pattern: str) -> list[str]:
        """List the paths that match a shell pattern, sorted."""
        found = ["/"]
        for part in pattern.strip("/").split("/"):
            found = [
                posixpath.join(folder, name)
                for folder in found
                for name in self.names(folder)
                if fnmatch.fnmatchcase(name, part) and (part[:1] == "." or name[:1] != ".")
            ]
        return sorted(found)

    def _locate(self, path: str) -> tuple[Mount, str]:
        mount = self.mount_of(path)
        rest = path[len(mount.path.rstrip("/")) :].lstrip("/")
        return mount, posixpath.join(mount.source, rest).rstrip("/") or "/"
