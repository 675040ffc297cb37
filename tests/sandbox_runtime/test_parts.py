"""The list of what is built, against the modules and the pinned packages."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.build import parts
from sandbox.build.parts import MODULES, PROVIDER_VERSION, Module
from sandbox.home import PROJECT_FOLDER


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "toolchain"
    shutil.copytree(parts.TOOLCHAIN, copy)
    monkeypatch.setattr(parts, "TOOLCHAIN", copy)
    return copy


def test_seven_programs_are_built() -> None:
    assert sorted(binary.name for module in MODULES for binary in module.binaries) == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "pulumi",
        "pulumi-resource-kubernetes",
    ]


def test_versions_come_from_the_modules() -> None:
    flags = {
        binary.name: module.linker_flags(binary) for module in MODULES for binary in module.binaries
    }
    assert "common/version.Version=v3.274.1" in flags["pulumi"]
    assert "version.gitVersion=v1.36.3" in flags["kube-apiserver"]
    assert not any("{" in text for text in flags.values())


def test_the_kubernetes_plugin_says_the_version_that_the_engine_will_ask_for() -> None:
    pinned = re.search(
        r"^pulumi-kubernetes==(\S+)$", (PROJECT_FOLDER / "requirements.txt").read_text(), re.M
    )
    assert pinned is not None
    assert pinned[1] == PROVIDER_VERSION


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_changed_file_of_a_module_builds_that_module_alone_anew(
    module: Module, toolchain: Path
) -> None:
    before = {other.name: other.content_hash() for other in MODULES}
    with (toolchain / module.name / "go.sum").open("a") as file:
        file.write("\n")
    changed = [other.name for other in MODULES if other.content_hash() != before[other.name]]
    assert changed == [module.name]


def test_files_that_a_build_makes_do_not_count(toolchain: Path) -> None:
    module = next(module for module in MODULES if module.embedded)
    before = module.content_hash()
    for name in module.embedded:
        (toolchain / module.name / name).write_text("{}")
    assert module.content_hash() == before


def test_another_flag_is_another_content() -> None:
    module = MODULES[0]
    (binary,) = module.binaries
    changed = replace(module, binaries=(replace(binary, variables={}),))
    assert changed.content_hash() != module.content_hash()


def test_a_version_that_no_module_requires_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"does not require example\.com/x"):
        MODULES[0].version("example.com/x")
