"""Container images: which exist, and what is known about their content.

Owns the reading of image references, the tags of the GPUDirect images, and whether a pull works.
Does not own the files and programs in them (`image_files`, `programs`).
Sources: [facts gpudirect.md §0 and §10].
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

_OFFICIAL_HOST = "us-docker.pkg.dev"
_INJECTOR_DIGESTS = frozenset(
    {
        "sha256:6e79483d52abdc28454bf186320b10a56b0f117a10e8d65d5c74dbb821a76970",
        "sha256:7704e2bd74b8edbb76b6913c7904cc2362f1fa887c4d4aba7b19778ea353537c",
    }
)
_PAUSE_DIGEST = "sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830"
_UNRESOLVABLE = (".invalid", ".nonexistent")
_SHELL_ONLY = frozenset({"ubuntu", "debian", "busybox", "alpine", "bash", "centos", "rockylinux"})


class ImageKind(Enum):
    """Images whose content the simulation knows."""

    TCPXO_PLUGIN = auto()
    TCPXO_DAEMON = auto()
    TCPX_PLUGIN = auto()
    TCPX_DAEMON = auto()
    INJECTOR = auto()
    PAUSE = auto()
    SHELL = auto()
    """A distribution's base image: its own command ends at once without a terminal."""
    OTHER = auto()


_REPOSITORIES = {
    "gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev": ImageKind.TCPXO_PLUGIN,
    "gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev": ImageKind.TCPXO_DAEMON,
    "gce-ai-infra/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev": ImageKind.TCPX_PLUGIN,
    "gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev": ImageKind.TCPX_DAEMON,
    "gke-release/nri-device-injector": ImageKind.INJECTOR,
    "pause": ImageKind.PAUSE,
}


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAGS = {
    ImageKind.TCPXO_PLUGIN: _tags(
        "v1.0.0 v1.0.1 v1.0.2 v1.0.3 v1.0.4 v1.0.5 v1.0.6 v1.0.7 v1.0.8 v1.0.8-1 v1.0.9-1 v1.0.11"
        " v1.0.12 v1.0.14 v1.0.15 v1.0.16 v1.0.17"
    ),
    ImageKind.TCPXO_DAEMON: _tags(
        "v1.0.3 v1.0.4 v1.0.6-sctp v1.0.8 v1.0.9 v1.0.10 v1.0.11 v1.0.12 v1.0.13_1 v1.0.14 v1.0.15"
        " v1.0.17 v1.0.18 v1.0.20 v1.0.21 v1.0.22 v1.0.23"
    ),
    ImageKind.TCPX_PLUGIN: _tags(
        "v3.1.5-v3-ns v3.1.6_2023_10_06 v3.1.7 v3.1.8 v3.1.9 v3.1.12 latest"
    ),
    ImageKind.TCPX_DAEMON: _tags("v2.0.7 v2.0.9 v2.0.11 v2.0.12 v2.0.15"),
}
_PULL_SECONDS = {
    # Estimates: the plug-in images hold CUDA, NCCL and MPI.
    ImageKind.TCPXO_PLUGIN: 75.0,
    ImageKind.TCPX_PLUGIN: 75.0,
    ImageKind.TCPXO_DAEMON: 20.0,
    ImageKind.TCPX_DAEMON: 20.0,
    ImageKind.PAUSE: 1.0,
}
_OTHER_PULL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image reference, taken apart."""

    reference: str
    """As the Pod writes it."""
    host: str
    repository: str
    tag: str
    digest: str

    @property
    def full_name(self) -> str:
        """The reference with host and tag filled in, as container statuses show it."""
        name = f"{self.host}/{self.repository}"
        if self.digest:
            return f"{name}@{self.digest}"
        return f"{name}:{self.tag}"

    @property
    def kind(self) -> ImageKind:
        """Which of the known images it is; a mirror keeps the repository's path."""
        for repository, kind in _REPOSITORIES.items():
            if self.repository == repository or self.repository.endswith("/" + repository):
                return kind
        if self.repository.rpartition("/")[2] in _SHELL_ONLY:
            return ImageKind.SHELL
        return ImageKind.OTHER

    @property
    def version(self) -> str:
        """The tag: the version of what is in it."""
        return self.tag

    @property
    def always_pulled(self) -> bool:
        """Whether the kubelet pulls it each time when nothing else is said."""
        return self.tag == "latest" and not self.digest

    @property
    def pull_seconds(self) -> float:
        """How long a first pull takes at Google."""
        return _PULL_SECONDS.get(self.kind, _OTHER_PULL_SECONDS)


def parse_image(reference: str) -> Image | None:
    """Take an image reference apart; None if it is none."""
    name, _, digest = reference.partition("@")
    if not re.fullmatch(r"[a-zA-Z0-9._:/-]+", name) or (digest and ":" not in digest):
        return None
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, ""
    first, slash, rest = path.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, repository = first, rest
    else:
        host, repository = "docker.io", path if slash else f"library/{path}"
    if not repository or repository != repository.lower():
        return None
    return Image(
        reference=reference,
        host=host,
        repository=repository,
        tag=tag or ("" if digest else "latest"),
        digest=digest,
    )


def pull_problem(image: Image) -> str | None:
    """Say why an image cannot be pulled, as containerd does; None if it can.

    GPUDirect images exist with their published tags, at their own host and at any mirror;
    everything else is assumed to exist unless its host cannot be.
    """
    failed = (
        "rpc error: code = NotFound desc = failed to pull and unpack image"
        f' "{image.full_name}": failed to resolve reference "{image.full_name}":'
        f" {image.full_name}: not found"
    )
    if image.host.endswith(_UNRESOLVABLE):
        return (
            f'failed to pull and unpack image "{image.full_name}": failed to resolve reference'
            f' "{image.full_name}": failed to do request: Head "https://{image.host}/v2/":'
            f" dial tcp: lookup {image.host}: no such host"
        )
    official = image.host == _OFFICIAL_HOST and image.repository.startswith("gce-ai-infra/")
    if official and image.kind is ImageKind.OTHER:
        return failed
    tags = _TAGS.get(image.kind)
    if tags is not None and not image.digest and image.tag not in tags:
        return failed
    if image.kind is ImageKind.INJECTOR and image.digest and image.digest not in _INJECTOR_DIGESTS:
        return failed
    if image.kind is ImageKind.PAUSE and image.digest and image.digest != _PAUSE_DIGEST:
        return failed
    return None
