"""What a machine has already is used, and what a sandbox made is no part of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.build.existing import find
from sandbox.home import MARKER
from tests.sandbox_runtime.conftest import write_program

VERSIONS = {"gcp": "10.2.0", "kubernetes": "4.34.2"}


def test_nothing_is_found_on_an_empty_machine(tmp_path: Path) -> None:
    found = find({"PATH": str(tmp_path), "HOME": str(tmp_path)}, VERSIONS)
    assert found.programs == {}
    assert found.remarks == ()


def test_a_pulumi_cli_with_its_language_host_beside_it_is_used(tmp_path: Path) -> None:
    real = write_program(tmp_path / "installed" / "pulumi")
    host = write_program(tmp_path / "installed" / "pulumi-language-python")
    link = tmp_path / "bin" / "pulumi"
    link.parent.mkdir()
    link.symlink_to(real)
    found = find({"PATH": str(link.parent)}, {})
    assert found.programs == {"pulumi": link, "pulumi-language-python": host}


def test_a_language_host_may_also_be_elsewhere_on_path(tmp_path: Path) -> None:
    pulumi = write_program(tmp_path / "a" / "pulumi")
    host = write_program(tmp_path / "b" / "pulumi-language-python")
    found = find({"PATH": f"{pulumi.parent}:{host.parent}"}, {})
    assert found.programs == {"pulumi": pulumi, "pulumi-language-python": host}


def test_a_pulumi_cli_that_runs_no_python_is_not_used_and_that_is_said(tmp_path: Path) -> None:
    pulumi = write_program(tmp_path / "pulumi")
    found = find({"PATH": str(tmp_path)}, {})
    assert found.programs == {}
    assert str(pulumi) in found.remarks[0]
    assert "pulumi-language-python" in found.remarks[0]


def test_programs_of_another_sandbox_are_passed_over(tmp_path: Path) -> None:
    for name in ("pulumi", "pulumi-language-python", "pulumi-resource-gcp"):
        write_program(tmp_path / "sandbox" / name)
    (tmp_path / "sandbox" / MARKER).touch()
    real = write_program(tmp_path / "real" / "pulumi-resource-gcp")
    found = find({"PATH": f"{tmp_path}/sandbox:{tmp_path}/real"}, VERSIONS)
    assert found.programs == {"pulumi-resource-gcp": real}


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        (["10.1.0", "10.2.0", "10.3.0"], "10.2.0"),
        (["10.1.0", "10.11.0", "10.9.0"], "10.11.0"),
        (["9.35.0", "11.0.0"], None),
    ],
)
def test_an_installed_plugin_of_the_sdks_major_version_is_used(
    tmp_path: Path, versions: list[str], chosen: str | None
) -> None:
    plugins = tmp_path / ".pulumi" / "plugins"
    for version in versions:
        write_program(plugins / f"resource-gcp-v{version}" / "pulumi-resource-gcp")
    found = find({"PATH": "", "HOME": str(tmp_path)}, VERSIONS)
    expected = plugins / f"resource-gcp-v{chosen}" / "pulumi-resource-gcp"
    assert found.programs == ({"pulumi-resource-gcp": expected} if chosen else {})


def test_the_users_plugins_are_found_in_a_shell_with_the_sandboxs_environment(
    tmp_path: Path,
) -> None:
    folder = "plugins/resource-gcp-v10.2.0"
    own = write_program(tmp_path / "sandbox" / folder / "pulumi-resource-gcp")
    (own.parent / MARKER).touch()
    real = write_program(tmp_path / ".pulumi" / folder / "pulumi-resource-gcp")
    environ = {"PATH": "", "HOME": str(tmp_path), "PULUMI_HOME": str(tmp_path / "sandbox")}
    assert find(environ, VERSIONS).programs == {"pulumi-resource-gcp": real}


def test_kubernetes_test_assets_are_used_as_far_as_they_go(tmp_path: Path) -> None:
    etcd, server = (write_program(tmp_path / name) for name in ("etcd", "kube-apiserver"))
    found = find({"KUBEBUILDER_ASSETS": str(tmp_path)}, {})
    assert found.programs == {"etcd": etcd, "kube-apiserver": server}


@pytest.mark.parametrize(("version", "remarks"), [("v1.31.2", 1), ("v1.36.0", 0), ("v1.37.1", 0)])
def test_an_api_server_older_than_the_other_parts_is_used_and_that_is_said(
    tmp_path: Path, version: str, remarks: int
) -> None:
    write_program(tmp_path / "etcd")
    server = write_program(tmp_path / "kube-apiserver", f"#!/bin/sh\necho Kubernetes {version}\n")
    environ = {"KUBEBUILDER_ASSETS": str(tmp_path)}
    found = find(environ, {})
    assert found.programs["kube-apiserver"] == server
    assert [version in remark for remark in found.remarks] == [True] * remarks
    write_program(tmp_path / "kube-controller-manager")
    assert find(environ, {}).remarks == ()


def test_incomplete_test_assets_are_not_used_and_that_is_said(tmp_path: Path) -> None:
    write_program(tmp_path / "etcd")
    (tmp_path / "kube-apiserver").write_text("not executable")
    found = find({"KUBEBUILDER_ASSETS": str(tmp_path)}, {})
    assert found.programs == {}
    assert f"KUBEBUILDER_ASSETS={tmp_path}" in found.remarks[0]
    assert "kube-apiserver" in found.remarks[0]
