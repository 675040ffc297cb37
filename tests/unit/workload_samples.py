"""What the tests of the renderer share: environments, Pods, and looking into what came out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from gpudirect.manifest_stream import RenderRequest, StreamSummary, render_stream
from gpudirect.releases import load_releases
from gpudirect.stacks import A3_HIGH, A3_MEGA, GpuStack
from gpudirect.workload_environment import NcclDebug
from gpudirect.workloads import Environment, ManifestFinding, render_document
from gpudirect.yaml_documents import StreamWriter

Document = dict[str, Any]
LIBRARIES = "/home/kubernetes/bin/nvidia/lib64"


def environment_of(stack: GpuStack, **changes: Any) -> Environment:
    values: dict[str, Any] = {
        "stack": stack,
        "release": load_releases().default(stack.name),
        "networks": stack.default_network_names,
    }
    return Environment(**values | changes)


MEGA = environment_of(A3_MEGA)
HIGH = environment_of(A3_HIGH)


def gpu_container(name: str = "train", **fields: Any) -> Document:
    return {
        "name": name,
        "image": "registry.example/train:1",
        "resources": {"limits": {"nvidia.com/gpu": 8}},
        **fields,
    }


def pod(*containers: Document, metadata: Document | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "wren", **(metadata or {})},
        "spec": {"containers": list(containers or [gpu_container()]), **spec},
    }


def job(template: Document | None = None, **spec: Any) -> Document:
    inner = template or pod()
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "lark"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", **inner["spec"]}}, **spec},
    }


def render(
    document: Document,
    environment: Environment = MEGA,
    *,
    debug: NcclDebug | None = None,
    nodes: int | None = None,
) -> Document:
    """Render what must be right."""
    result, findings = render_document(document, environment, debug=debug, nodes=nodes)
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    assert not errors, "\n".join(errors)
    return result


def findings_of(document: Document, environment: Environment = MEGA) -> list[ManifestFinding]:
    """Render what has something to say; with an error nothing may have changed."""
    result, findings = render_document(document, environment)
    if any(finding.severity == "error" for finding in findings):
        assert result is document
    return findings


def errors_of(document: Document, environment: Environment = MEGA) -> list[ManifestFinding]:
    return [f for f in findings_of(document, environment) if f.severity == "error"]


def render_text(text: str, environment: Environment = MEGA) -> tuple[str, StreamSummary]:
    pieces: list[str] = []
    summary = render_stream(
        text.splitlines(keepends=True),
        RenderRequest(environment=environment),
        writer=StreamWriter(pieces.append),
    )
    return "".join(pieces), summary


def load_all(text: str) -> list[Document]:
    return list(yaml.safe_load_all(text))


def all_containers(spec: Document) -> Iterator[Document]:
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def container_named(spec: Document, name: str) -> Document:
    return next(c for c in all_containers(spec) if c["name"] == name)


def variables(container: Document) -> dict[str, Any]:
    entries = container.get("env") or []
    names = [entry["name"] for entry in entries]
    assert len(names) == len(set(names)), f"a name twice: {sorted(names)}"
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def mounts(container: Document) -> dict[str, str]:
    """Return a container's mount paths with their volumes."""
    found = container.get("volumeMounts") or []
    paths = [mount["mountPath"].rstrip("/") for mount in found]
    assert len(paths) == len(set(paths)), f"a path twice: {sorted(paths)}"
    return {path: mount["name"] for path, mount in zip(paths, found, strict=True)}


def volumes(spec: Document) -> dict[str, Document]:
    found = spec.get("volumes") or []
    names = [volume["name"] for volume in found]
    assert len(names) == len(set(names)), f"a volume twice: {sorted(names)}"
    return {volume["name"]: volume for volume in found}


def gpus(container: Document) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(limits.get("nvidia.com/gpu", 0))


def assert_complete(template: Document, environment: Environment) -> None:
    """Check everything that a Pod on the GPU network must have, whatever it was made from."""
    stack, release = environment.stack, environment.release
    spec = template["spec"]
    by_name = volumes(spec)
    annotations = template["metadata"]["annotations"]

    devices = yaml.safe_load(annotations[f"devices.gke.io/container.{stack.daemon_container}"])
    assert [device["path"] for device in devices] == list(stack.devices)
    interfaces = yaml.safe_load(annotations["networking.gke.io/interfaces"])
    assert [(i["interfaceName"], i["network"]) for i in interfaces] == [
        ("eth0", "default"),
        *((f"eth{n}", network) for n, network in enumerate(environment.networks, start=1)),
    ]
    assert annotations["networking.gke.io/default-interface"] == "eth0"
    assert spec["nodeSelector"]["cloud.google.com/gke-accelerator"] == stack.accelerator
    assert spec["nodeSelector"]["cloud.google.com/gke-gpu-driver-version"] == "latest"

    daemons = [c for c in all_containers(spec) if c["name"] == stack.daemon_container]
    assert len(daemons) == 1
    daemon = daemons[0]
    assert daemon["image"].rpartition("/")[2] == release.daemon_image.rpartition("/")[2]
    added = daemon["securityContext"]["capabilities"]["add"]
    assert set(stack.daemon_capabilities) <= set(added)
    assert {"/hostsysfs", "/hostprocsysfs"} <= mounts(daemon).keys()

    for container in all_containers(spec):
        for path, name in mounts(container).items():
            assert name in by_name, f"{container['name']} mounts {name}, which is no volume"
            host_path = by_name[name].get("hostPath", {}).get("path", "")
            if host_path.startswith("/home/kubernetes/bin/nvidia"):
                assert (host_path, path) in {
                    ("/home/kubernetes/bin/nvidia", "/usr/local/nvidia"),
                    (LIBRARIES, "/usr/local/nvidia/lib64"),
                }
        for entry in container.get("env") or []:
            assert '"' not in str(entry.get("value"))
            assert not ("value" in entry and "valueFrom" in entry)
        assert not (container.get("securityContext") or {}).get("privileged")

    workers = [c for c in all_containers(spec) if gpus(c)]
    assert workers
    for worker in workers:
        own = variables(worker)
        assert set(release.profiles[environment.profile]) <= own.keys()
        if isinstance(own["LD_LIBRARY_PATH"], str):
            assert "/usr/local/nvidia/lib64" in own["LD_LIBRARY_PATH"].split(":")
        paths = mounts(worker)
        assert "/dev/shm" in paths
        if stack is A3_MEGA:
            aperture = by_name[paths["/dev/aperture_devices"]]
            assert aperture["hostPath"]["path"] == "/dev/aperture_devices"
            assert own["NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY"] == "/dev/aperture_devices"
            assert own["NCCL_LIB_DIR"] == "/usr/local/nvidia/lib64"
        else:
            assert paths["/tmp"] == mounts(daemon)["/run/tcpx"]
            assert "emptyDir" in by_name[paths["/tmp"]]
    terms = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert any(term["topologyKey"] == "kubernetes.io/hostname" for term in terms)
