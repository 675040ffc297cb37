"""What other stacks, state files and people rely on: type tokens, URNs, import rules, manifests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpudirect.manifests import MANIFESTS, image_name
from gpudirect.pod_reading import containers_of
from gpudirect.releases import load_releases
from tests.components.recording import PROJECT_FOLDER, run_program
from tests.stack_config import full_config

GOLDEN = Path(__file__).parent / "urns"


@pytest.mark.parametrize("stack", ["dev", "staging"])
def test_urns_are_those_of_the_stored_list(stack: str) -> None:  # [R42]
    """A changed parent, type or name is a replaced resource: alias it, then renew the list."""
    urns = sorted(r.urn for r in run_program(full_config(stack), stack=stack).resources)
    assert len(urns) == len(set(urns))
    assert urns == json.loads((GOLDEN / f"{stack}.json").read_text())


def test_components_keep_their_type_tokens() -> None:
    tokens = {r.type for r in run_program(full_config("dev")).resources}
    assert {token for token in tokens if token.startswith("gpudirect:")} == {
        "gpudirect:index:GpuNetworkFabric",
        "gpudirect:index:AutopilotCluster",
        "gpudirect:index:GpuDirectAddons",
        "gpudirect:index:NcclSmokeTest",
    }


def test_the_parts_import_only_what_they_may() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=PROJECT_FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_manifest_is_one_complete_object() -> None:
    files = sorted(MANIFESTS.rglob("*.yaml"))
    assert files
    for file in files:
        documents = [d for d in yaml.safe_load_all(file.read_text()) if d]
        assert len(documents) == 1, file
        assert {"apiVersion", "kind", "metadata"} <= set(documents[0]), file


def test_every_image_of_a_manifest_gets_its_version_from_the_lock() -> None:
    """But `ubuntu`: the published installer names it without a version, and GKE may look at it."""
    lock = load_releases()
    known = {image_name(image) for image in (lock.pause_image, lock.injector_image)}
    for release in lock.releases:
        known |= {image_name(release.plugin_image), image_name(release.daemon_image)}
    for file in MANIFESTS.rglob("*.yaml"):
        document = yaml.safe_load(file.read_text())
        if "template" not in document.get("spec", {}):
            continue
        for view in containers_of(document["spec"]["template"]["spec"]):
            image = view.container["image"]
            assert image == "ubuntu" or image in known, file


def test_the_composition_root_is_short_and_does_not_ask_for_the_machine() -> None:
    source = (PROJECT_FOLDER / "__main__.py").read_text()
    assert len(source.splitlines()) <= 80
    assert "if " not in source
