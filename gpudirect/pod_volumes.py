"""Volumes and mounts that GPUDirect needs in a Pod.

Owns reuse of what the user already has, free names for what is added, and the clashes of mount
paths. Does not own which container needs what (`pod_template`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from gpudirect.pod_reading import (
    ContainerView,
    Report,
    fields,
    host_path_of,
    items,
    mounts_by_path,
)
from gpudirect.stacks import HostMount
from gpudirect.tree_edit import TreeEditor

SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - the path inside a container
_SHARED_MEMORY_VOLUME = "shared-memory"
SOCKET_VOLUME = "tcpx-socket"


class PodVolumes:
    """The volumes of one Pod under edit.

    Args:
        editor: Edits the template.
        spec: The Pod spec, for change.
        claims: Names of volumes that the Pod gets from elsewhere.
        report: Takes the findings.
    """

    def __init__(
        self, editor: TreeEditor, spec: dict[str, Any], claims: frozenset[str], report: Report
    ) -> None:
        self._editor = editor
        self._spec = spec
        self._claims = claims
        self._report = report

    def mount_host_path(
        self, container: dict[str, Any], view: ContainerView, wanted: HostMount
    ) -> None:
        """Show a folder of the node in a container, unless it is shown there already.

        Args:
            container: The container, for change.
            view: The container as the user wrote it.
            wanted: The folder, where the container sees it, and the name for a new volume.
        """
        mounts = mounts_by_path(container)
        mount = mounts.get(wanted.mount_path)
        if mount is not None:
            if self._host_path(mount) != wanted.host_path:
                needed = f"{wanted.host_path} of the node ({wanted.volume})"
                self._clash(view, wanted.mount_path, mount, needed)
            return
        parent = mounts.get(posixpath.dirname(wanted.mount_path))
        if parent is not None and self._host_path(parent) == posixpath.dirname(wanted.host_path):
            # The folder above shows it as well [R08].
            return
        name = self._find(lambda volume: host_path_of(volume) == wanted.host_path)
        if name is None:
            name = self._add(wanted.volume, {"hostPath": {"path": wanted.host_path}})
        new: dict[str, Any] = {"name": name, "mountPath": wanted.mount_path}
        if wanted.read_only:
            new["readOnly"] = True
        self._editor.sequence(container, "volumeMounts").append(new)

    def mount_socket(
        self, container: dict[str, Any], view: ContainerView, *, mount_path: str, volume: str
    ) -> None:
        """Mount the folder of the daemon's sockets, the same one in each container [R09].

        Args:
            container: The container, for change.
            view: The container as the user wrote it.
            mount_path: Where the container sees it.
            volume: Name of the volume, from `socket_volume`.
        """
        mount = mounts_by_path(container).get(mount_path)
        if mount is None:
            self._editor.sequence(container, "volumeMounts").append(
                {"name": volume, "mountPath": mount_path}
            )
        elif mount.get("name") != volume:
            self._clash(view, mount_path, mount, f"the daemon's sockets ({volume})")

    def socket_volume(self, daemon: Mapping[str, Any], daemon_path: str) -> str:
        """Return the name of the sockets' volume; it comes into being where there is none.

        Args:
            daemon: The daemon's container.
            daemon_path: Where the daemon sees its sockets.
        """
        mounted = mounts_by_path(daemon).get(daemon_path)
        if mounted is not None and self._has(str(mounted.get("name"))):
            return str(mounted["name"])
        name = self._find(
            lambda item: item["name"] == SOCKET_VOLUME and item.get("emptyDir") is not None
        )
        return name or self._add(SOCKET_VOLUME, {"emptyDir": {}})

    def mount_shared_memory(self, container: dict[str, Any], *, size: str) -> None:
        """Give a container shared memory, unless it has some [R63].

        Args:
            container: The container, for change.
            size: Limit of a volume that is added.
        """
        if SHARED_MEMORY_PATH in mounts_by_path(container):
            return
        name = self._find(
            lambda item: (
                item["name"] == _SHARED_MEMORY_VOLUME
                and fields(item, "emptyDir").get("medium") == "Memory"
            )
        )
        if name is None:
            name = self._add(
                _SHARED_MEMORY_VOLUME, {"emptyDir": {"medium": "Memory", "sizeLimit": size}}
            )
        self._editor.sequence(container, "volumeMounts").append(
            {"name": name, "mountPath": SHARED_MEMORY_PATH}
        )

    def _find(self, wanted: Callable[[Mapping[str, Any]], bool]) -> str | None:
        return next((str(v["name"]) for v in items(self._spec, "volumes") if wanted(v)), None)

    def _has(self, name: str) -> bool:
        return self._find(lambda item: item["name"] == name) is not None

    def _host_path(self, mount: Mapping[str, Any]) -> str | None:
        volumes = items(self._spec, "volumes")
        shown = (host_path_of(volume) for volume in volumes if volume["name"] == mount.get("name"))
        return next(shown, None)

    def _add(self, name: str, source: dict[str, Any]) -> str:
        free = name
        number = 1
        while self._has(free) or free in self._claims:
            free = f"{name}-gpudirect" if number == 1 else f"{name}-gpudirect-{number}"
            number += 1
        self._editor.sequence(self._spec, "volumes").append({"name": free, **source})
        return free

    def _clash(self, view: ContainerView, path: str, mount: Mapping[str, Any], needed: str) -> None:
        self._report.error(
            f"{view.path}.volumeMounts[{mount.get('name')}]",
            f"{mount.get('name')} at {path}",
            f"container {view.name!r} has a mount of its own at {path}, where GPUDirect needs "
            f"{needed}; one path holds one mount",
            f"Mount {mount.get('name')} elsewhere, for example below {path}.",
        )
