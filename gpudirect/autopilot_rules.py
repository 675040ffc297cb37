"""What Autopilot's admission refuses in any Pod, and mounts that no API server takes.

Owns the rules of facts autopilot.md 3.1 as far as a manifest shows them. Does not own node
selectors (`workload_rules`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from gpudirect.pod_reading import (
    ContainerView,
    Report,
    containers_of,
    fields,
    host_path_of,
    items,
    normal_path,
)
from gpudirect.stacks import GpuStack

# NET_ADMIN needs the cluster's workload policy, which every stack sets.
_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_ADMIN",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
        "SYS_PTRACE",
    )
)
_VOLUME_TYPES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "gcePersistentDisk",
        "hostPath",
        "image",
        "nfs",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_LOGS = "/var/log/"
_MANAGED_NAMESPACES = frozenset(
    ("kube-system", "kube-public", "kube-node-lease", "gke-gmp-system", "gmp-public", "gmp-system")
)
_MANAGED_PREFIX = "gke-managed-"


def check_autopilot(spec: Mapping[str, Any], stack: GpuStack, report: Report) -> None:
    """Report everything in a Pod spec that Autopilot will not admit."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            report.error(f"spec.{key}", spec[key], f"{key} is refused by Autopilot", "Remove it.")
    for index, volume in enumerate(items(spec, "volumes")):
        kinds = {key for key in volume if key != "name"}
        if kinds and not kinds & _VOLUME_TYPES:
            report.error(
                f"spec.volumes[{index}]",
                ", ".join(sorted(kinds)),
                f"volume {volume['name']!r} is of a type that Autopilot does not allow",
                "Use an emptyDir, a PersistentVolumeClaim or a bucket.",
            )
    for view in containers_of(spec):
        _check_container(view, report)
        _check_host_paths(view, spec, stack, report)


def check_mounts(spec: Mapping[str, Any], claims: frozenset[str], report: Report) -> None:
    """Report mounts without a volume [R09] and paths that one container uses twice.

    Args:
        spec: The Pod spec.
        claims: Names of the volume claims that the object's kind adds to each Pod.
        report: Takes the findings.
    """
    names = {volume["name"] for volume in items(spec, "volumes")} | claims
    for view in containers_of(spec):
        seen: set[str] = set()
        for index, mount in enumerate(items(view.container, "volumeMounts")):
            path = normal_path(mount["mountPath"])
            where = f"{view.path}.volumeMounts[{index}]"
            if mount["name"] not in names:
                report.error(
                    where,
                    mount["name"],
                    f"container {view.name!r} mounts a volume that the Pod does not have",
                    "Add it under volumes, or remove the mount.",
                )
            if path in seen:
                report.error(
                    where,
                    path,
                    f"container {view.name!r} mounts two things at one path",
                    "Leave one of them.",
                )
            seen.add(path)


def check_names(spec: Mapping[str, Any], report: Report) -> None:
    """Report names that stand for two things, which no API server takes."""
    named = [
        *((view.name, view.path, "container") for view in containers_of(spec)),
        *(
            (volume["name"], f"spec.volumes[{index}]", "volume")
            for index, volume in enumerate(items(spec, "volumes"))
        ),
    ]
    seen: set[tuple[str, str]] = set()
    for name, path, what in named:
        if (name, what) in seen:
            report.error(
                f"{path}.name", name, f"the Pod has two {what}s of this name", "Rename one of them."
            )
        seen.add((name, what))
    for view in containers_of(spec):
        for index, entry in enumerate(items(view.container, "env")):
            if entry.get("value") and entry.get("valueFrom"):
                report.error(
                    f"{view.path}.env[{index}]",
                    "value, valueFrom",
                    f"container {view.name!r} gives {entry['name']} a value and a source of one",
                    "Leave value or valueFrom.",
                )


def check_namespace(namespace: object, report: Report) -> None:
    """Report a namespace that belongs to GKE."""
    if isinstance(namespace, str) and (
        namespace in _MANAGED_NAMESPACES or namespace.startswith(_MANAGED_PREFIX)
    ):
        report.error(
            "metadata.namespace",
            namespace,
            "Autopilot takes no workloads in a namespace that GKE manages",
            "Use a namespace of your own.",
        )


def _check_container(view: ContainerView, report: Report) -> None:
    security = fields(view.container, "securityContext")
    path = f"{view.path}.securityContext"
    if security.get("privileged"):
        report.error(
            f"{path}.privileged",
            security["privileged"],
            f"container {view.name!r} is privileged, which Autopilot refuses",
            "Remove it; the mounts that are put in make it unnecessary.",
        )
    if security.get("procMount") == "Unmasked":
        report.error(
            f"{path}.procMount",
            "Unmasked",
            f"container {view.name!r} sees all of /proc, which Autopilot refuses",
            "Remove it.",
        )
    for capability in items(fields(security, "capabilities"), "add"):
        if capability not in _CAPABILITIES:
            report.error(
                f"{path}.capabilities.add",
                capability,
                f"container {view.name!r} adds a capability that Autopilot refuses",
                "Remove it.",
            )
    for index, port in enumerate(items(view.container, "ports")):
        if port.get("hostPort"):
            report.error(
                f"{view.path}.ports[{index}].hostPort",
                port["hostPort"],
                f"container {view.name!r} takes a port of the node, which Autopilot refuses",
                "Remove hostPort; Pods reach one another by their own addresses.",
            )


def _check_host_paths(
    view: ContainerView, spec: Mapping[str, Any], stack: GpuStack, report: Report
) -> None:
    """Report folders of the node that a container may not see, or not there."""
    shown = {volume["name"]: host_path_of(volume) for volume in items(spec, "volumes")}
    pairs = _library_pairs(stack)
    for index, mount in enumerate(items(view.container, "volumeMounts")):
        host_path = shown.get(mount["name"])
        if host_path is None:
            continue
        where = f"{view.path}.volumeMounts[{index}]"
        path = normal_path(mount["mountPath"])
        seen = f"{mount['name']}: {host_path} at {path}"
        if host_path in pairs:
            if path != pairs[host_path]:
                report.error(
                    where,
                    seen,
                    f"container {view.name!r} has the GPU libraries in the wrong place, they "
                    f"belong at {pairs[host_path]}",
                    f"Mount them at {pairs[host_path]}, or leave the mount out.",
                )
        elif host_path.startswith(_LOGS):
            if not mount.get("readOnly"):
                report.error(
                    where,
                    seen,
                    f"container {view.name!r} may write the node's logs, which Autopilot refuses",
                    "Set readOnly: true.",
                )
        elif not _belongs(view, host_path, path, stack):
            report.error(
                where,
                seen,
                f"container {view.name!r} sees a folder of the node that Autopilot does not allow",
                "Use an emptyDir, a PersistentVolumeClaim or a bucket.",
            )


def _belongs(view: ContainerView, host_path: str, path: str, stack: GpuStack) -> bool:
    """Whether a folder of the node is one that GPUDirect has in this container."""
    is_daemon = view.name == stack.daemon_container
    wanted = stack.daemon_mounts if is_daemon else stack.workload_mounts
    return any(mount.host_path == host_path and mount.mount_path == path for mount in wanted)


def _library_pairs(stack: GpuStack) -> dict[str, str]:
    """Return the node's library folder, and the one above it, with their places [R08]."""
    inside = {mount.mount_path: mount.host_path for mount in stack.daemon_mounts}
    folder = inside[stack.library_path]
    return {
        folder: stack.library_path,
        posixpath.dirname(folder): posixpath.dirname(stack.library_path),
    }
