"""Finding what an interrupted update left: exact names, the state, the cloud, the lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from gpudirect import orphans
from gpudirect.cli.orphans import command
from gpudirect.orphans import Cloud, OrphanSearchError, OwnedResource, find_orphans, owned_resources
from gpudirect.settings import Settings, load_settings
from tests.components.recording import run_program
from tests.stack_config import PROJECT as CONFIG_PROJECT
from tests.stack_config import full_config

PROJECT = "example-project"


def _settings(stack: str, **overrides: Any) -> Settings:
    config = full_config(stack, **overrides)
    prefix = f"{CONFIG_PROJECT}:"
    return load_settings(
        stack_name=stack,
        values={k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)},
        gcp={"region": config["gcp:region"], "project": PROJECT},
    )


class _Cloud(Cloud):
    """A cloud that holds what it is given, by id."""

    def __init__(self, held: Mapping[str, Mapping[str, Any]]) -> None:
        self.held = held
        self.asked: list[str] = []

    def get(self, resource: OwnedResource) -> Mapping[str, Any] | None:
        self.asked.append(resource.id)
        return self.held.get(resource.id)


def _state(*resources: Mapping[str, str]) -> dict[str, Any]:
    return {"deployment": {"resources": list(resources)}}


FABRIC = {"urn": "urn:pulumi:dev::gpudirect::gpudirect:index:GpuNetworkFabric::fabric"}


@pytest.mark.parametrize("stack", ["dev", "staging"])
@pytest.mark.parametrize("network", ["default", "create"])
def test_the_names_are_those_that_the_program_registers(stack: str, network: str) -> None:
    config = full_config(stack, clusterNetwork=network)
    recorded = run_program({**config, "gcp:project": PROJECT}, stack=stack)
    kinds = ("gcp:compute/", "gcp:container/")
    registered = {
        (r.type, r.name, r.inputs["name"]) for r in recorded.resources if r.type.startswith(kinds)
    }
    owned = list(owned_resources(_settings(stack, clusterNetwork=network), PROJECT))
    assert {(o.type, o.logical_name, o.name) for o in owned} == registered
    assert len(owned) == len(registered)
    components = {(r.type, r.name) for r in recorded.resources}
    assert {o.component for o in owned} <= components


def test_what_the_state_knows_is_not_even_asked_for() -> None:
    settings = _settings("dev")
    known = f"projects/{PROJECT}/global/networks/dev-net-1"
    cloud = _Cloud({known: {}})
    assert find_orphans(settings, PROJECT, _state({"urn": "u", "id": known}), cloud) == []
    assert known not in cloud.asked
    assert f"projects/{PROJECT}/global/networks/dev-net-2" in cloud.asked


def test_an_orphan_comes_with_the_line_that_keeps_it_and_the_line_that_deletes_it() -> None:
    path = f"projects/{PROJECT}/regions/us-east4/subnetworks/dev-sub-3"
    cloud = _Cloud({path: {"creationTimestamp": "2026-11-30T10:00:00Z"}})
    (found,) = find_orphans(_settings("dev"), PROJECT, _state(FABRIC), cloud)
    assert found.import_line == (
        "pulumi import --stack dev --protect=false --generate-code=false "
        f"--parent fabric={FABRIC['urn']} "
        f"gcp:compute/subnetwork:Subnetwork fabric-sub-3 {path}"
    )
    assert found.delete_line == (
        f"gcloud compute networks subnets delete dev-sub-3 --region=us-east4 --project={PROJECT}"
    )
    assert found.owner is None
    assert not found.needs_component


@pytest.mark.parametrize(("label", "owner"), [("dev", True), ("staging", False), (None, False)])
def test_a_cluster_is_this_stacks_only_with_its_label(label: str | None, owner: bool) -> None:
    path = f"projects/{PROJECT}/locations/us-east4/clusters/dev-cluster"
    labels = {"gpudirect-stack": label} if label else {}
    cloud = _Cloud({path: {"resourceLabels": labels}})
    (found,) = find_orphans(_settings("dev"), PROJECT, {"deployment": None}, cloud)
    assert found.owner is owner
    assert found.needs_component


def test_orphans_are_listed_in_the_order_in_which_they_can_be_deleted() -> None:
    settings = _settings("staging")
    everything: dict[str, dict[str, Any]] = {o.id: {} for o in owned_resources(settings, PROJECT)}
    found = find_orphans(settings, PROJECT, _state(), _Cloud(everything))
    kinds = [f.resource.id.split("/")[-2] for f in found]
    assert kinds == ["clusters", *["firewalls"] * 4, *["subnetworks"] * 4, *["networks"] * 4]


@pytest.fixture
def found_network(monkeypatch: pytest.MonkeyPatch) -> str:
    """The command with a cloud that holds one network of stack staging."""
    path = f"projects/{PROJECT}/global/networks/staging-net-1"
    monkeypatch.setattr(orphans, "Cloud", lambda *_: _Cloud({path: {}}))
    monkeypatch.setattr(orphans, "read_state", lambda *_, **__: _state())
    monkeypatch.setenv("GOOGLE_PROJECT", PROJECT)
    return path


def test_the_command_ends_with_1_where_it_found_something(found_network: str) -> None:
    done = CliRunner().invoke(command, ["--stack", "staging"])
    assert done.exit_code == 1
    assert found_network in done.output
    assert "look at it before" in done.output
    assert "run `pulumi up --stack staging` once more" in done.output


def test_the_command_prints_json(found_network: str) -> None:
    done = CliRunner().invoke(command, ["--stack", "staging", "--json"])
    (entry,) = json.loads(done.output)
    assert entry["id"] == found_network
    assert entry["labelledAsThisStack"] is None


def test_a_stack_without_a_file_is_one_sentence() -> None:
    done = CliRunner().invoke(command, ["--stack", "nowhere"])
    assert done.exit_code == 2
    assert "Pulumi.nowhere.yaml" in done.output
    assert "Traceback" not in done.output


def test_a_missing_project_is_one_sentence(
    found_network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "GOOGLE_PROJECT",
        "GOOGLE_CLOUD_PROJECT",
        "GCLOUD_PROJECT",
        "CLOUDSDK_CORE_PROJECT",
    ):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(command, ["--stack", "staging"])
    assert done.exit_code == 2
    assert "gcp:project" in done.output


def test_without_a_login_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OrphanSearchError, match="there is no login"):
        Cloud("googleapis.com", {})
