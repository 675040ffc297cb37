"""`python -m gpudirect inject`: what is read and written, what is printed where, exit codes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from gpudirect.cli.inject import command
from gpudirect.stacks import A3_HIGH
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    assert_complete,
    container_named,
    environment_of,
    gpu_container,
    load_all,
    pod,
    render,
    variables,
)

ROOT = Path(__file__).resolve().parents[2]
GOOD = "# a comment\n" + yaml.safe_dump(pod(), sort_keys=False)
HALF = yaml.safe_dump(pod(gpu_container(resources={"limits": {"nvidia.com/gpu": 4}})))
WARNED = yaml.safe_dump(pod(gpu_container(env=[{"name": "NCCL_BUFFSIZE", "value": "1"}])))
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"


def inject(*arguments: str | Path, text: str | None = None, **env: str) -> Result:
    return CliRunner(env=env).invoke(
        command, [str(argument) for argument in arguments], input=text, catch_exceptions=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "service.yml").write_text(SERVICE)
    (tmp_path / "notes.txt").write_text("no manifest: [")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "pod.json").write_text(json.dumps(pod()))
    return tmp_path


# Reading and writing


def test_a_file_is_rendered_to_standard_output(folder: Path) -> None:
    result = inject("--gpu-stack", "a3-mega", folder / "good.yaml")
    assert result.exit_code == 0
    [document] = load_all(result.stdout)
    assert_complete(document, MEGA)
    assert result.stdout.startswith("# a comment\n")
    assert "1 of 1 documents use the GPU network" in result.stderr
    assert (folder / "good.yaml").read_text() == GOOD


def test_a_stream_is_rendered_from_standard_input() -> None:
    for arguments in (["-"], ["-f", "-"], []):
        result = inject("--gpu-stack", "a3-high", *arguments, text=f"{SERVICE}---\n{GOOD}")
        assert result.exit_code == 0
        service, document = load_all(result.stdout)
        assert service["kind"] == "Service"
        assert_complete(document, HIGH)


def test_a_folder_is_opened_as_kubectl_does(folder: Path) -> None:
    flat = inject("--gpu-stack", "a3-mega", folder)
    assert [d["kind"] for d in load_all(flat.stdout)] == ["Pod", "Service"]
    deep = inject("--gpu-stack", "a3-mega", "-R", folder)
    assert [d["kind"] for d in load_all(deep.stdout)] == ["Pod", "Pod", "Service"]


def test_files_are_written_in_place_and_only_those_that_change(folder: Path) -> None:
    (folder / "link.yaml").symlink_to(folder / "good.yaml")
    (folder / "good.yaml").chmod(0o640)
    untouched = (folder / "service.yml").stat().st_mtime_ns
    result = inject("--gpu-stack", "a3-mega", "--in-place", folder / "link.yaml", folder)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert_complete(load_all((folder / "good.yaml").read_text())[0], MEGA)
    assert stat.S_IMODE((folder / "good.yaml").stat().st_mode) == 0o640
    assert (folder / "link.yaml").is_symlink()
    assert (folder / "service.yml").stat().st_mtime_ns == untouched
    assert sorted(path.name for path in folder.iterdir()) == [
        "deeper",
        "good.yaml",
        "link.yaml",
        "notes.txt",
        "service.yml",
    ]
    again = inject("--gpu-stack", "a3-mega", "--in-place", folder / "good.yaml")
    assert "0 changed" in again.stderr


def test_a_finding_in_one_file_leaves_all_files_as_they_are(folder: Path) -> None:
    (folder / "half.yaml").write_text(HALF)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = inject("--gpu-stack", "a3-mega", "--in-place", "-R", folder)
    assert result.exit_code == 1
    assert "nothing was written" in result.stderr
    assert f"{folder / 'half.yaml'}: document 1, Pod/wren" in result.stderr
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before


def test_a_finding_in_one_document_prints_none() -> None:
    result = inject("--gpu-stack", "a3-mega", text=f"{GOOD}---\n{HALF}")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "document 2" in result.stderr


def test_windows_line_ends_are_written_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert inject("--gpu-stack", "a3-mega", "--in-place", path).exit_code == 0
    data = path.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") > 50


# Checking and comparing


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        (GOOD, [], 0),
        (SERVICE, [], 0),
        (HALF, [], 1),
        (WARNED, [], 1),
        (WARNED, ["--errors-only"], 0),
        (HALF, ["--errors-only"], 1),
    ],
)
def test_check_writes_nothing_and_fails_with_findings(
    text: str, arguments: list[str], code: int
) -> None:
    result = inject("--gpu-stack", "a3-mega", "--check", *arguments, text=text)
    assert result.exit_code == code
    assert result.stdout == ""


def test_warnings_do_not_keep_a_manifest_from_being_rendered() -> None:
    result = inject("--gpu-stack", "a3-mega", text=WARNED)
    assert result.exit_code == 0
    assert "warning: document 1, Pod/wren" in result.stderr
    assert_complete(load_all(result.stdout)[0], MEGA)


def test_check_can_answer_in_json() -> None:
    result = inject("--gpu-stack", "a3-mega", "--check", "--json", text=f"{WARNED}---\n{SERVICE}")
    answer = json.loads(result.stdout)
    assert answer["documents"] == 2
    assert answer["rendered"] == 1
    assert answer["gpuStack"] == "a3-mega"
    assert answer["release"] == MEGA.release.name
    [finding] = answer["findings"]
    assert finding["severity"] == "warning"
    assert finding["path"] == "spec.containers[0].env[NCCL_BUFFSIZE]"
    assert (finding["kind"], finding["name"], finding["document"]) == ("Pod", "wren", 1)


def test_diff_shows_what_changes_and_applies_with_patch(folder: Path) -> None:
    result = inject("--gpu-stack", "a3-mega", "--diff", folder)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"--- a/{folder}/good.yaml\n+++ b/{folder}/good.yaml\n@@ ")
    assert "service.yml" not in result.stdout
    assert (folder / "good.yaml").read_text() == GOOD
    subprocess.run(["patch", str(folder / "good.yaml")], input=result.stdout, text=True, check=True)
    assert load_all((folder / "good.yaml").read_text()) == [render(pod())]


def test_diff_of_what_is_done_is_empty() -> None:
    done = inject("--gpu-stack", "a3-mega", text=GOOD).stdout
    result = inject("--gpu-stack", "a3-mega", "--diff", text=done)
    assert result.stdout == ""
    assert "0 changed" in result.stderr


# What is put in


def test_every_part_of_the_environment_can_be_said() -> None:
    names = ",".join(f"gpu-{n}" for n in range(8))
    result = inject(
        *("--gpu-stack", "a3-mega", "--networks", names, "--profile", "simple"),
        *("--release", "tcpxo-v1.0.17", "--image-registry", "mirror.example"),
        *("--node-selector", "cloud.google.com/gke-spot=true"),
        *("--debug-file", "/logs/nccl"),
        text=GOOD,
    )
    assert result.exit_code == 0
    [document] = load_all(result.stdout)
    spec, annotations = document["spec"], document["metadata"]["annotations"]
    assert '"network":"gpu-7"' in annotations["networking.gke.io/interfaces"]
    own = variables(container_named(spec, "train"))
    assert own["NCCL_PROTO"] == "Simple"
    assert own["NCCL_DEBUG_FILE"] == "/logs/nccl.%h.%p"
    daemon = container_named(spec, "tcpxo-daemon")
    assert daemon["image"] == (
        "mirror.example/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.23"
    )
    assert spec["nodeSelector"]["cloud.google.com/gke-spot"] == "true"


def test_the_log_follows_the_number_of_nodes() -> None:
    for nodes, level in (("63", "INFO"), ("64", "WARN")):
        result = inject("--gpu-stack", "a3-mega", "--debug", "--nodes", nodes, text=GOOD)
        [document] = load_all(result.stdout)
        assert variables(container_named(document["spec"], "train"))["NCCL_DEBUG"] == level


def test_other_kinds_are_reached_by_a_path() -> None:
    rollout = yaml.safe_dump(
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Rollout",
            "metadata": {"name": "r"},
            "spec": {"groups": [{"template": {"spec": pod()["spec"]}}]},
        }
    )
    refused = inject("--gpu-stack", "a3-mega", text=rollout)
    assert refused.exit_code == 1
    path = "Rollout=spec.groups.*.template"
    assert f"--template-path {path}" in refused.stderr
    for text in (path, path.removeprefix("Rollout="), "spec.groups[].template"):
        result = inject("--gpu-stack", "a3-mega", "--template-path", text, text=rollout)
        [document] = load_all(result.stdout)
        assert_complete(document["spec"]["groups"][0]["template"], MEGA)


# The outputs of a Pulumi stack

OUTPUTS = {
    "gpuStack": "a3-high",
    "networks": [{"interface": f"eth{n}", "network": f"net{n}"} for n in range(1, 5)],
    "release": {"name": "tcpx-v3.1.9", "profile": "default", "imageRegistry": "mirror.example"},
    "podNodeSelector": {"cloud.google.com/gke-spot": "true"},
}


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a `pulumi` on PATH that answers what a test wants and notes how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def answer(stdout: str = "", stderr: str = "", code: int = 0) -> Path:
        (folder / "stdout").write_text(stdout)
        (folder / "stderr").write_text(stderr)
        program = folder / "pulumi"
        program.write_text(
            f'#!/bin/sh\nfolder=$(dirname "$0")\necho "$PWD" "$@" > "$folder/call"\n'
            f'cat "$folder/stdout"\ncat "$folder/stderr" >&2\nexit {code}\n'
        )
        program.chmod(0o755)
        return folder / "call"

    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return answer


def test_everything_comes_from_the_outputs_of_a_stack(pulumi: Any) -> None:
    call = pulumi(json.dumps(OUTPUTS))
    result = inject("--stack", "dev", text=GOOD)
    assert result.exit_code == 0, result.stderr
    assert call.read_text().split() == [
        str(ROOT),
        *("stack", "output", "--json", "--non-interactive", "--stack", "dev"),
    ]
    [document] = load_all(result.stdout)
    environment = environment_of(
        A3_HIGH,
        networks=("net1", "net2", "net3", "net4"),
        release=environment_of(A3_HIGH).release,
    )
    daemon = container_named(document["spec"], "tcpx-daemon")
    assert daemon["image"] == "mirror.example/gce-ai-infra/gpudirect-tcpx/tcpgpudmarxd-dev:v2.0.12"
    assert document["spec"]["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
    interfaces = json.loads(document["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert [entry["network"] for entry in interfaces[1:]] == list(environment.networks)
    assert "net1, net2, net3, net4" in result.stderr


def test_what_is_said_beside_a_stack_wins(pulumi: Any) -> None:
    pulumi(json.dumps(OUTPUTS))
    result = inject(
        "--stack", "dev", "--networks", "a,b,c,d", "--release", "tcpx-v3.1.12", text=GOOD
    )
    assert "tcpx-v3.1.12" in result.stderr
    assert "a, b, c, d" in result.stderr


def test_the_stack_can_come_from_the_environment(pulumi: Any, tmp_path: Path) -> None:
    call = pulumi(json.dumps(OUTPUTS))
    result = inject("--program", tmp_path, text=GOOD, GPUDIRECT_STACK="mine")
    assert result.exit_code == 0
    assert call.read_text().split()[0] == str(tmp_path)
    assert call.read_text().split()[-1] == "mine"


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "words"),
    [
        ("", "error: no stack named 'dev' found", 255, "no stack named 'dev' found"),
        ("{}", "", 0, "no output gpuStack and networks and release"),
        ("[]", "", 0, "no outputs"),
        ("oops", "", 0, "no JSON"),
        (json.dumps(OUTPUTS | {"gpuStack": "a4"}), "", 0, "'a4'"),
        (json.dumps(OUTPUTS | {"networks": [{}]}), "", 0, "what this version writes"),
        (json.dumps(OUTPUTS | {"networks": []}), "", 0, "0 given"),
        (json.dumps(OUTPUTS | {"release": {"name": "tcpx-v0"}}), "", 0, "tcpx-v0"),
    ],
)
def test_a_stack_that_does_not_answer_is_said_in_a_sentence(
    pulumi: Any, stdout: str, stderr: str, code: int, words: str
) -> None:
    pulumi(stdout, stderr, code)
    result = inject("--stack", "dev", text=GOOD)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_machine_without_pulumi_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = inject("--stack", "dev", text=GOOD)
    assert result.exit_code == 2
    assert "pulumi is not on PATH" in result.stderr


def test_a_stack_of_other_gpus_than_said_is_refused(pulumi: Any) -> None:
    pulumi(json.dumps(OUTPUTS))
    result = inject("--stack", "dev", "--gpu-stack", "a3-mega", text=GOOD)
    assert result.exit_code == 2
    assert "is a3-high, not a3-mega" in result.stderr


# Mistakes in the call


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--stack NAME for a deployed Pulumi stack, or --gpu-stack a3-mega or a3-high"),
        (["--gpu-stack", "a4"], "a3-mega"),
        (["--gpu-stack", "a3-mega", "--networks", "a,b"], "2 given"),
        (["--gpu-stack", "a3-high", "--networks", "a,b,c,c"], "twice"),
        (["--gpu-stack", "a3-high", "--networks", "default,b,c,d"], "'default'"),
        (["--gpu-stack", "a3-high", "--networks", "a,b,c,"], "''"),
        (["--gpu-stack", "a3-high", "--profile", "simple"], "'simple'"),
        (["--gpu-stack", "a3-high", "--release", "tcpxo-v1.0.15"], "tcpxo-v1.0.15"),
        (["--gpu-stack", "a3-high", "--node-selector", "spot"], "KEY=VALUE"),
        (["--gpu-stack", "a3-high", "--image-registry", "https://x.example/"], "expected a host"),
        (["--gpu-stack", "a3-high", "--debug-file", "nccl"], "absolute"),
        (["--gpu-stack", "a3-high", "--nodes", "0"], "0"),
        (["--gpu-stack", "a3-high", "--template-path", "a b"], "keys joined by dots"),
        (["--gpu-stack", "a3-high", "--in-place", "--diff", "x"], "choose one"),
        (["--gpu-stack", "a3-high", "--in-place", "-"], "standard input"),
        (["--gpu-stack", "a3-high", "/nowhere.yaml"], "/nowhere.yaml: no such file or folder"),
    ],
)
def test_a_mistake_in_the_call_is_said_in_a_sentence(arguments: list[str], words: str) -> None:
    result = inject(*arguments, text=GOOD)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr


def test_a_folder_without_manifests_is_said(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    result = inject("--gpu-stack", "a3-mega", tmp_path)
    assert result.exit_code == 2
    assert "-R" in result.stderr


def test_text_that_is_not_utf8_is_said(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: \xe9\n")
    for arguments, text in (([path], None), (["-"], path.read_bytes())):
        result = CliRunner().invoke(
            command, ["--gpu-stack", "a3-mega", *map(str, arguments)], input=text
        )
        assert result.exit_code == 2
        assert "0xe9" in result.stderr


def test_a_folder_that_cannot_be_written_is_said_before_any_file_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "last").mkdir()
    (folder / "last" / "pod.yaml").write_text(GOOD)
    make = tempfile.mkstemp

    def refuse(**where: Any) -> tuple[int, str]:
        if Path(where["dir"]).name == "last":
            raise PermissionError(13, "Permission denied")
        return make(**where)

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    result = inject("--gpu-stack", "a3-mega", "--in-place", "-R", folder)
    assert result.exit_code == 2
    assert "last/pod.yaml: cannot be written: Permission denied" in result.stderr
    assert (folder / "good.yaml").read_text() == GOOD
    assert not list(folder.glob(".*"))


# As a program


def run(*words: str, text: str = "", folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, input=text, text=True, capture_output=True, check=False, cwd=folder
    )


def test_it_is_a_subcommand_of_the_project() -> None:
    result = run(sys.executable, "-m", "gpudirect", "inject", "--gpu-stack", "a3-mega", text=GOOD)
    assert result.returncode == 0, result.stderr
    assert_complete(load_all(result.stdout)[0], MEGA)


def test_it_is_a_kubectl_plugin_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(GOOD)
    result = run(
        *(str(ROOT / "bin" / "kubectl-gpudirect"), "inject", "--gpu-stack", "a3-high"),
        *("-f", "pod.yaml"),
        folder=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert_complete(load_all(result.stdout)[0], HIGH)
