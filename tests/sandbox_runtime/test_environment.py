"""The variables that lead clients to the sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sandbox.environment import folder_of_plugin, variables
from sandbox.errors import SandboxError
from sandbox.home import Home
from tests.sandbox_runtime.conftest import write_program


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


def test_the_sandbox_comes_first_on_path_and_only_once(home: Home) -> None:
    inherited = {"PATH": f"/usr/bin:{home.programs}::/bin:/usr/bin"}
    path = variables(home, 4711, inherited)["PATH"].split(os.pathsep)
    assert path == [str(home.programs), str(Path(sys.executable).parent), "/usr/bin", "/bin"]


def test_a_real_plugin_comes_before_the_sandbox(home: Home, tmp_path: Path) -> None:
    path = variables(home, 4711, {"PATH": "/bin"}, tmp_path)["PATH"].split(os.pathsep)
    assert path[:2] == [str(tmp_path), str(home.programs)]


def test_every_endpoint_is_on_this_machine(home: Home) -> None:
    values = variables(home, 4711, {})
    endpoints = {
        name: value
        for name, value in values.items()
        if name.endswith("_CUSTOM_ENDPOINT") or "_API_ENDPOINT_OVERRIDES_" in name
    }
    assert len(endpoints) == 8
    for name, value in endpoints.items():
        assert value.startswith("http://127.0.0.1:4711/"), name
        assert value.endswith("/"), name
    assert values["GCE_METADATA_HOST"] == "127.0.0.1:4711"
    assert values["PULUMI_BACKEND_URL"] == f"file://{home.pulumi_state}"


def test_a_proxy_is_not_asked_for_this_machine(home: Home) -> None:
    values = variables(home, 4711, {"no_proxy": "example.com, 127.0.0.1"})
    assert values["NO_PROXY"] == values["no_proxy"] == "example.com,127.0.0.1,localhost"


def test_two_homes_share_no_secret(tmp_path: Path) -> None:
    secrets = []
    for name in ("one", "two"):
        home = Home(tmp_path / name)
        home.prepare()
        values = variables(home, 4711, {})
        assert values == variables(home, 4711, {})
        secrets += [values["GOOGLE_OAUTH_ACCESS_TOKEN"], values["PULUMI_CONFIG_PASSPHRASE"]]
        for file in ("token", "passphrase"):
            assert (home.root / file).stat().st_mode & 0o777 == 0o600
    assert len(set(secrets)) == 4


def test_a_plugin_is_named_by_file_or_by_folder(tmp_path: Path) -> None:
    program = write_program(tmp_path / "pulumi-resource-gcp")
    assert folder_of_plugin(program) == folder_of_plugin(tmp_path) == tmp_path


@pytest.mark.parametrize("name", ["other-name", "pulumi-resource-gcp"])
def test_what_the_engine_would_not_find_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("no program")
    with pytest.raises(SandboxError, match="a program called pulumi-resource-gcp"):
        folder_of_plugin(path)
