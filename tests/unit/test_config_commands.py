"""`check`, `diff` and `releases` as a user calls them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gpudirect.__main__ import COMMANDS, main
from tests.stack_config import PROJECT_FOLDER

WRONG = """\
config:
  gpudirect:gpuStack: a3-mega
  gpudirect:fabricCidr: 172.16.0.0/27
  gpudirect:prefix: 50%,a
  gcp:region: us-east4
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: Any) -> Path:
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml", "Pulumi.staging.yaml"):
        shutil.copy(PROJECT_FOLDER / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


# ---- check


def test_the_tracked_stack_files_are_right(program: Path) -> None:
    done = _run("check")
    assert (done.exit_code, done.output) == (0, "2 stack files, no problem (dev, staging).\n")
    assert _run("check", "dev", "--json").output == '{\n  "findings": [],\n  "warnings": []\n}\n'


def test_findings_end_the_command_with_one(program: Path) -> None:
    (program / "Pulumi.prod.yaml").write_text(WRONG)
    for words in ((), ("prod",), ("Pulumi.prod.yaml",), (str(program / "Pulumi.prod.yaml"),)):
        done = _run("check", *words)
        assert done.exit_code == 1
        assert "Pulumi.prod.yaml:3: gpudirect:fabricCidr: got 172.16.0.0/27" in done.output
        assert "pulumi config set fabricCidr 172.16.0.0/26 --stack prod" in done.output
        assert "Pulumi.prod.yaml:4: gpudirect:prefix" in done.output
    assert "2 problems in 1 of 3 stack files (dev, prod, staging).\n" in _run("check").output
    assert _run("check", "dev").exit_code == 0


def test_findings_as_json_have_the_promised_form(program: Path) -> None:
    (program / "Pulumi.prod.yaml").write_text(WRONG)
    done = _run("check", "prod", "--json")
    assert done.exit_code == 1
    data = json.loads(done.output)
    assert [set(finding) for finding in data["findings"]] == [
        {"file", "line", "key", "value", "message", "fix"}
    ] * 2
    first = data["findings"][0]
    assert (first["file"], first["line"]) == ("Pulumi.prod.yaml", 3)
    assert first["key"] == "gpudirect:fabricCidr"
    assert first["value"] == "172.16.0.0/27"
    assert "no room for 8 subnets; expected /26 or larger, because" in first["message"]


def test_findings_as_github_annotations_are_escaped(program: Path) -> None:
    (program / "Pulumi.prod.yaml").write_text(WRONG)
    done = _run("check", "prod", "--github")
    assert done.exit_code == 1
    first, second = done.output.splitlines()
    assert first.startswith(
        "::error file=Pulumi.prod.yaml,line=3,title=gpudirect%3AfabricCidr::got 172.16.0.0/27: "
    )
    assert "%0Apulumi config set fabricCidr" in first
    assert "::got 50%25,a: " in second


def test_warnings_do_not_end_the_command_with_one(program: Path) -> None:
    with (program / "Pulumi.dev.yaml").open("a") as file:
        file.write("  gpudirect:release: tcpxo-v1.0.17\n")
    done = _run("check")
    assert done.exit_code == 0
    assert "warning: gpudirect:release: got tcpxo-v1.0.17" in done.output
    data = json.loads(_run("check", "--json").output)
    assert (len(data["findings"]), len(data["warnings"])) == (0, 1)
    assert _run("check", "--github").output.startswith("::warning file=Pulumi.dev.yaml,line=")


def test_a_named_stack_is_compared_with_those_beside_it(program: Path) -> None:
    text = (program / "Pulumi.dev.yaml").read_text()
    (program / "Pulumi.prod.yaml").write_text(text)
    done = _run("check", "prod")
    assert done.exit_code == 1
    assert "of stack dev (Pulumi.dev.yaml)" in done.output
    assert "1 problem in 1 of 1 stack file (prod)." in done.output


def test_a_copy_of_a_stack_file_is_not_its_own_neighbour(program: Path) -> None:
    folder = program / "proposed"
    folder.mkdir()
    shutil.copy(program / "Pulumi.dev.yaml", folder)
    done = _run("check", "proposed/Pulumi.dev.yaml")
    assert (done.exit_code, done.output) == (0, "1 stack file, no problem (dev).\n")


def test_a_file_beside_no_program_is_compared_with_those_named_alone(
    program: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("elsewhere")
    text = (program / "Pulumi.dev.yaml").read_text()
    for name in ("one", "two"):
        (folder / f"Pulumi.{name}.yaml").write_text(text)
    one, two = str(folder / "Pulumi.one.yaml"), str(folder / "Pulumi.two.yaml")
    assert _run("check", one).exit_code == 0
    done = _run("check", one, two)
    assert done.exit_code == 1
    assert "of stack one" in done.output
    assert "of stack dev" not in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((".",), "a folder"),
        (("nope",), "Pulumi.nope.yaml is not there. Stacks here: dev, staging."),
        (("nope/Pulumi.dev.yaml",), "no such file"),
        (("--server-config", "Pulumi.dev.yaml"), "get-server-config"),
    ],
)
def test_a_call_that_cannot_be_carried_out_ends_with_two(
    program: Path, words: tuple[str, ...], said: str
) -> None:
    done = _run("check", *words)
    assert done.exit_code == 2
    assert said in done.output


def test_a_file_that_is_no_text_hides_no_finding_in_another(program: Path) -> None:
    (program / "Pulumi.bin.yaml").write_bytes(b"config:\n\xff\xfe\x00")
    (program / "Pulumi.other.yaml").write_text("config:\n  prefix: X\n")
    done = _run("check")
    assert done.exit_code == 1
    assert "Pulumi.bin.yaml:2: config: got" in done.output
    assert "no text in UTF-8" in done.output
    assert "Pulumi.other.yaml:2: gpudirect:prefix: got X" in done.output


def test_without_a_stack_file_the_command_says_how_to_make_one(program: Path) -> None:
    for file in program.glob("Pulumi.*.yaml"):
        file.unlink()
    done = _run("check")
    assert done.exit_code == 2
    assert "pulumi stack init" in done.output


def test_a_list_of_versions_at_hand_is_held_against_the_files(program: Path) -> None:
    with (program / "Pulumi.dev.yaml").open("a") as file:
        file.write("  gpudirect:clusterVersion: 1.35.7-gke.1\n")
    answer = {"channels": [{"channel": "REGULAR", "validVersions": ["1.35.8-gke.1036000"]}]}
    (program / "versions.json").write_text(json.dumps(answer))
    assert _run("check").exit_code == 0
    done = _run("check", "--server-config", "versions.json")
    assert done.exit_code == 1
    assert "not offered in channel REGULAR" in done.output


def test_twenty_stacks_are_checked_in_one_process_start(program: Path) -> None:
    for number in range(18):
        (program / f"Pulumi.s{number}.yaml").write_text(
            "config:\n  gpudirect:gpuStack: a3-mega\n  gcp:region: us-east4\n"
            f"  gpudirect:fabricCidr: 172.{16 + number % 16}.{number // 16 * 128}.0/17\n"
        )
    done = _run("check")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("20 stack files, no problem")


# ---- diff


def test_an_edit_is_told_with_its_effect(program: Path) -> None:
    text = (program / "Pulumi.dev.yaml").read_text()
    edited = text.replace("192.168.0.0/17", "172.16.0.0/17")
    (program / "new.yaml").write_text(edited + "  gpudirect:labels: {team: ml}\n")
    done = _run("diff", "dev", "new.yaml")
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "dev: 2 changes",
        '  gpudirect:labels: (empty) -> {"team": "ml"}',
        "      in place",
        "  gpudirect:fabricCidr: 192.168.0.0/17 -> 172.16.0.0/17",
        "      replaces the fabric",
        "      lost: Network dev-net-1, Network dev-net-2, Network dev-net-3 and 5 more",
        "At most: replaces the fabric.",
        "",
        "pulumi refuses it until the config says so: "
        "pulumi config set allowReplace fabric --stack dev",
    ]


def test_an_edit_that_says_what_it_means_passes(program: Path) -> None:
    text = (program / "Pulumi.dev.yaml").read_text()
    edited = text.replace("192.168.0.0/17", "172.16.0.0/17")
    (program / "new.yaml").write_text(edited + "  gpudirect:allowReplace: fabric\n")
    assert _run("diff", "dev", "new.yaml").exit_code == 0
    data = json.loads(_run("diff", "dev", "new.yaml", "--json").output)
    assert data["effect"] == "replaces the fabric"
    assert data["refused"] is False
    assert {change["key"] for change in data["changes"]} == {
        "gpudirect:fabricCidr",
        "gpudirect:allowReplace",
    }


def test_no_edit_is_told_as_such(program: Path) -> None:
    assert _run("diff", "dev", "dev").output == "dev: no change.\n"


def test_a_new_side_that_is_wrong_is_told_with_its_findings(program: Path) -> None:
    text = (program / "Pulumi.dev.yaml").read_text()
    (program / "new.yaml").write_text(text + "  gpudirect:smokeTestNodes: 1\n")
    done = _run("diff", "dev", "new.yaml")
    assert done.exit_code == 1
    assert "new.yaml:" in done.output
    assert "gpudirect:smokeTestNodes: got 1: out of bounds" in done.output


def test_a_side_that_is_no_stack_file_ends_with_two(program: Path) -> None:
    (program / "new.yaml").write_text("config: [")
    done = _run("diff", "dev", "new.yaml")
    assert done.exit_code == 2
    assert "no YAML" in done.output


def _git(program: Path, *words: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", *identity, *words], cwd=program, check=True, capture_output=True)


def test_a_stack_is_compared_with_what_git_has(program: Path) -> None:
    _git(program, "init", "-q")
    _git(program, "add", ".")
    _git(program, "commit", "-q", "-m", "first")
    assert _run("diff", "dev").output == "dev: no change.\n"
    with (program / "Pulumi.dev.yaml").open("a") as file:
        file.write("  gpudirect:smokeTestRerun: again\n")
    done = _run("diff", "dev")
    assert done.exit_code == 0
    assert "re-runs the smoke test" in done.output
    assert _run("diff", "HEAD:Pulumi.dev.yaml", "dev").output == done.output
    done = _run("diff", "HEAD:nope.yaml", "dev")
    assert done.exit_code == 2
    assert "git does not have it" in done.output


# ---- releases


def test_the_releases_are_listed_with_their_defaults() -> None:
    lines = _run("releases").output.splitlines()
    assert lines[0].split() == [
        *("release", "GPU", "stack", "plug-in", "daemon", "NCCL", "date", "profiles")
    ]
    assert [line.split()[0] for line in lines[1:9]] == [
        *("tcpxo-v1.0.11", "tcpxo-v1.0.12", "tcpxo-v1.0.14", "tcpxo-v1.0.15"),
        *("tcpxo-v1.0.16", "tcpxo-v1.0.17", "tcpx-v3.1.9", "tcpx-v3.1.12"),
    ]
    assert [line.split()[0] for line in lines if " *  " in line] == [
        "tcpxo-v1.0.15",
        "tcpx-v3.1.12",
    ]


def test_a_release_is_explained_in_full() -> None:
    text = _run("releases", "tcpxo-v1.0.15").output
    for words in (
        "nccl-plugin-gpudirecttcpx-dev:v1.0.15",
        "tcpgpudmarxd-dev:v1.0.21",
        "--num_hops=2",
        "1.31.1-gke.1621000 or newer",
        "qualified with 580.95.05, CUDA 12.8",
        "188.73 GB/s at 8589934592 bytes, 2 nodes, all-gather",
        "profile simple (on the node: nccl-env-profile-simple.sh)",
        "NCCL_NVLSTREE_MAX_CHUNKSIZE=131072  # its checker insists on it",
    ):
        assert words in text
    assert "[M]" not in text


def test_releases_as_json_hold_the_whole_lock() -> None:
    data = json.loads(_run("releases", "--gpu-stack", "a3-high", "--json").output)
    assert [release["name"] for release in data] == ["tcpx-v3.1.9", "tcpx-v3.1.12"]
    one = json.loads(_run("releases", "tcpx-v3.1.12", "--json").output)
    assert one == data[1]
    assert len(one["reference"]["rows"]) == 10


def test_an_unknown_release_is_answered_with_the_nearest() -> None:
    done = _run("releases", "tcpx-3.1.12")
    assert done.exit_code == 2
    assert "did you mean tcpx-v3.1.12?" in done.output


def test_an_unknown_release_is_answered_with_those_that_there_are() -> None:
    for release in _run("releases").output.splitlines()[1:-2]:
        assert release.split()[0] in _run("releases", "nope").output
    done = _run("releases", "tcpx-v3.1.9", "--gpu-stack", "a3-mega")
    assert done.exit_code == 2
    assert "'tcpx-v3.1.9' is for a3-high, expected one of tcpxo-" in done.output


# ---- the group


def test_every_command_is_there_and_explains_itself() -> None:
    help_text = _run("--help").output
    for name in COMMANDS:
        assert f"  {name} " in help_text
        assert _run(name, "--help").exit_code == 0


def test_an_unknown_command_ends_with_two() -> None:
    done = _run("chekc")
    assert done.exit_code == 2
    assert "No such command 'chekc'" in done.output


def test_check_starts_without_what_other_commands_need() -> None:
    code = (
        "import sys; from gpudirect.__main__ import main\n"
        "try: main(['check'])\nexcept SystemExit as end: assert end.code == 0, end.code\n"
        "heavy = {'matplotlib', 'ruamel', 'kubernetes', 'plotext', 'rich', 'pulumi', 'httpx'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT_FOLDER, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
