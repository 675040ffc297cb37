"""Volumes of a Pod and their mounts in a container.

Owns which files a volume shows. Does not own what a node's files are.
"""

from __future__ import annotations

import posixpath
from typing import Any

from sandbox.gke.pods.environment import Fetch, expand, field_value, texts_of
from sandbox.gke.pods.files import FileTree, Mount
from sandbox.gke.pods.node_hardware import DRIVER_FOLDER
from sandbox.gke.pods.world import PodRecord

KubeObject = dict[str, Any]
DRIVER_MOUNT = "/usr/local/nvidia"
"""Where GKE's device plug-in mounts the driver in GPU containers [facts gpudirect.md §5]."""


class VolumeError(Exception):
    """A volume cannot be set up (`FailedMount`)."""


async def prepare_volumes(pod: PodRecord, fetch: Fetch) -> None:
    """Make the files of a Pod's volumes, but those of the node.

    Raises:
        VolumeError: a ConfigMap or Secret is missing.
    """
    for volume in pod.object["spec"].get("volumes") or []:
        name = volume["name"]
        if name in pod.volumes or "hostPath" in volume:
            continue
        tree = FileTree()
        if "configMap" in volume:
            source = volume["configMap"]
            await _fill(tree, name, "ConfigMap", source.get("name", ""), source, fetch)
        elif "secret" in volume:
            source = volume["secret"]
            await _fill(tree, name, "Secret", source.get("secretName", ""), source, fetch)
        elif "downwardAPI" in volume:
            _fill_from_fields(tree, volume["downwardAPI"], pod)
        pod.volumes[name] = tree


async def _fill(
    tree: FileTree, volume: str, kind: str, name: str, source: KubeObject, fetch: Fetch
) -> None:
    item = await fetch(kind, name)
    if item is None:
        if source.get("optional"):
            return
        raise VolumeError(
            f'MountVolume.SetUp failed for volume "{volume}" : {kind.lower()} "{name}" not found'
        )
    entries = texts_of(item)
    chosen = source.get("items")
    paths = (
        {entry["path"]: entry["key"] for entry in chosen}
        if chosen
        else {key: key for key in entries}
    )
    for path, key in paths.items():
        if key in entries:
            tree.write(posixpath.join("/", path), entries[key])
        elif not source.get("optional"):
            raise VolumeError(
                f'MountVolume.SetUp failed for volume "{volume}" : references non-existent'
                f" {kind.lower()} key: {key}"
            )


def _fill_from_fields(tree: FileTree, source: KubeObject, pod: PodRecord) -> None:
    for entry in source.get("items") or []:
        reference = entry.get("fieldRef")
        text = field_value(reference["fieldPath"], pod) if reference else ""
        tree.write(posixpath.join("/", entry["path"]), text)


def mounts_of(
    container: KubeObject, pod: PodRecord, environment: dict[str, str], *, gpus: int
) -> tuple[Mount, ...]:
    """Return the mounts of a container that starts now."""
    volumes = {volume["name"]: volume for volume in pod.object["spec"].get("volumes") or []}
    mounts = []
    for entry in container.get("volumeMounts") or []:
        volume = volumes[entry["name"]]
        sub_path = entry.get("subPath") or expand(entry.get("subPathExpr") or "", environment)
        mounts.append(_mount(entry, volume, sub_path, pod))
    if gpus:
        mounts.append(Mount(DRIVER_MOUNT, pod.node.files, DRIVER_FOLDER, read_only=True))
    return tuple(mounts)


def _mount(entry: KubeObject, volume: KubeObject, sub_path: str, pod: PodRecord) -> Mount:
    path = posixpath.normpath(entry["mountPath"])
    read_only = bool(entry.get("readOnly"))
    if "hostPath" in volume:
        source = posixpath.normpath(posixpath.join(volume["hostPath"]["path"], sub_path))
        tree = pod.node.files
        if tree.read(source) is None:
            tree.make_folder(source)
        # What is mounted on the node below the folder later does not reach the container.
        shares_mounts = entry.get("mountPropagation") in {"HostToContainer", "Bidirectional"}
        newest_bind = None if shares_mounts else tree.bind_count
        return Mount(path, tree, source, read_only, newest_bind)
    tree = pod.volumes.setdefault(volume["name"], FileTree())
    fixed = any(kind in volume for kind in ("configMap", "secret", "downwardAPI", "projected"))
    return Mount(path, tree, posixpath.join("/", sub_path), read_only or fixed)
