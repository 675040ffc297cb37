"""Reads the documents in `manifests/` and fills in what a stack decides.

Owns loading and the two kinds of change that a document may undergo: another image version (by
image name, as kustomize's `images` does) and plain fields set by the caller. There is no template
language: every file is a complete object that `kubectl apply --dry-run` takes as it stands.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import yaml

from gpudirect.pod_reading import containers_of

MANIFESTS = Path(__file__).resolve().parent.parent / "manifests"

Document = dict[str, Any]


class ManifestError(ValueError):
    """A document in `manifests/` is not what the program needs; the text names file and reason."""


def load_manifest(relative_path: str, *, folder: Path = MANIFESTS) -> Document:
    """Return the one object that a file holds.

    Raises:
        ManifestError: the file is missing, is no YAML or holds more or less than one object.
    """
    path = folder / relative_path
    try:
        documents = [d for d in yaml.safe_load_all(path.read_text(encoding="utf-8")) if d]
    except FileNotFoundError as error:
        raise ManifestError(f"manifests/{relative_path}: there is no such file") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"manifests/{relative_path}: not YAML: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ManifestError(
            f"manifests/{relative_path}: holds {len(documents)} documents, expected one object"
        )
    return cast(Document, documents[0])


def image_name(image: str) -> str:
    """Return an image reference without tag and digest."""
    bare = image.partition("@")[0]
    head, colon, tail = bare.rpartition(":")
    # A colon before the last slash belongs to the registry's port, not to a tag.
    return head if colon and "/" not in tail else bare


def with_images(document: Document, images: Iterable[str]) -> Document:
    """Return a copy of a workload whose containers run the given versions.

    Args:
        document: A workload with a Pod template at `spec.template`.
        images: Full references. Each replaces the image of the same name, whatever its version.
    """
    by_name = {image_name(image): image for image in images}
    result = copy.deepcopy(document)
    spec = result["spec"]["template"]["spec"]
    for view in containers_of(spec):
        container = spec[view.section][view.index]
        container["image"] = by_name.get(image_name(container["image"]), container["image"])
    return result
