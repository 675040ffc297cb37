"""Making a container: the kubelet's and containerd's part before its first process.

Owns environment, mounts, devices and rights of a new container, and what can go wrong with them.
Does not own pulling images or what runs then. Sources: [facts gpudirect.md §3] for the injector.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import yaml

from sandbox.gke.pods.container import Container
from sandbox.gke.pods.environment import ConfigError, Fetch, environment_of
from sandbox.gke.pods.files import FileView
from sandbox.gke.pods.image_files import root_of
from sandbox.gke.pods.images import Image
from sandbox.gke.pods.node_hardware import gpu_devices
from sandbox.gke.pods.pod_spec import annotations_of, gpu_limit, is_sidecar, restart_policy
from sandbox.gke.pods.programs.registry import find_program
from sandbox.gke.pods.volumes import mounts_of
from sandbox.gke.pods.world import PodRecord, World

KubeObject = dict[str, Any]
DEVICES_ANNOTATION = "devices.gke.io/container."
_PLUGIN = "10-device_injector_nri"
_DEFAULT_MTU_BYTES = 1460
"""MTU of a VPC where nothing else was said, the cluster's own in most projects."""
_CAPABILITY_NAMES = (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID"
    " SETPCAP SETUID SYS_CHROOT"
)
_DEFAULT_CAPABILITIES = frozenset(_CAPABILITY_NAMES.split())
"""What containerd gives to every container."""


class CreationError(Exception):
    """A container cannot be made."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Created:
    """A new container and its id."""

    container: Container
    container_id: str


async def create_container(
    spec: KubeObject,
    image: Image,
    pod: PodRecord,
    world: World,
    fetch: Fetch,
    *,
    init: bool,
) -> Created:
    """Make a container.

    Args:
        spec: The container in the Pod's spec.
        image: Its image.
        pod: The Pod, with its volumes prepared.
        world: The cluster.
        fetch: Fetches ConfigMaps and Secrets.
        init: Whether it is an init container.

    Raises:
        CreationError: a reference is missing, or containerd refuses.
    """
    try:
        environment = await environment_of(spec, pod, "10.0.0.1", fetch)
    except ConfigError as error:
        raise CreationError("CreateContainerConfigError", str(error)) from error
    devices = injected_devices(spec["name"], pod)
    gpus = min(gpu_limit(spec), pod.node.machine.gpus)
    if gpus:
        devices |= set(gpu_devices(gpus))
    security = spec.get("securityContext") or {}
    capabilities = security.get("capabilities") or {}
    dropped = {str(name) for name in capabilities.get("drop") or []}
    kept = frozenset() if "ALL" in dropped else _DEFAULT_CAPABILITIES - dropped
    added = {str(name).removeprefix("CAP_") for name in capabilities.get("add") or []}
    root = root_of(image)
    root.write("/etc/hosts", f"127.0.0.1 localhost\n{pod.address} {pod.hostname}\n")
    root.write("/etc/hostname", f"{pod.hostname}\n")
    for interface, mtu_bytes in _interfaces(pod).items():
        root.write(f"/sys/class/net/{interface}/address", "")
        root.write(f"/sys/class/net/{interface}/mtu", f"{mtu_bytes}\n")
    container = Container(
        name=spec["name"],
        image=image,
        pod=pod,
        world=world,
        files=FileView(root, mounts_of(spec, pod, environment, gpus=gpus)),
        environment=environment,
        find_program=find_program,
        devices=frozenset(devices),
        capabilities=frozenset(kept | added),
        privileged=bool(security.get("privileged")),
        host_pid=bool(pod.object["spec"].get("hostPID")),
        runs_to_completion=(init or restart_policy(pod.object) != "Always")
        and not is_sidecar(spec),
        gpus=gpus,
    )
    return Created(container, f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}")


def _interfaces(pod: PodRecord) -> dict[str, int]:
    """Return the Pod's interfaces with their MTU in bytes."""
    additional = {name: nic.mtu_bytes for name, nic in sorted(pod.nics.items())}
    return {"eth0": _DEFAULT_MTU_BYTES, **additional}


def injected_devices(container: str, pod: PodRecord) -> set[str]:
    """Return the device files that the NRI injector puts into a container.

    Without an injector on the node the annotation has no effect. With two of them both claim the
    same paths, which containerd refuses [facts gpudirect.md §11.13].

    Raises:
        CreationError: the annotation is no list of paths, or a path does not exist on the node.
    """
    text = annotations_of(pod.object).get(DEVICES_ANNOTATION + container)
    if text is None or not pod.node.injectors:
        return set()
    try:
        entries = yaml.safe_load(text)
        paths = [str(entry["path"]) for entry in entries]
    except (yaml.YAMLError, TypeError, KeyError) as error:
        raise _refused(f"invalid device annotation: {_first_line(error)}") from error
    for path in paths:
        if pod.node.files.read(path) is None:
            raise _refused(f"failed to stat device {path}: no such file or directory")
    if pod.node.injectors > 1:
        raise _refused(
            f'device "{paths[0]}" is claimed by plugin "{_PLUGIN}" and plugin "{_PLUGIN}"'
        )
    return set(paths)


def _refused(why: str) -> CreationError:
    return CreationError(
        "CreateContainerError",
        f'failed to create containerd container: NRI plugin "{_PLUGIN}" failed: {why}',
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
