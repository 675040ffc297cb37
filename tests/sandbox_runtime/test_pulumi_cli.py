"""The launcher in front of the Pulumi CLI keeps salts out of stack files, and nothing else.

A script stands in for the CLI: it writes down how it was called, and salts stack files as Pulumi
3.274.1 does. The real CLI is driven through the launcher by the tier `tests/sandbox`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.home import PROJECT_FOLDER
from tests.sandbox_runtime.conftest import write_program

LAUNCHER = PROJECT_FOLDER / "sandbox" / "plugins" / "pulumi_cli.py"
SALT = "encryptionsalt: v1:NEW=:v1:abc:def==\n"
TRACKED = """\
# The comment   stays.
config:
  gpudirect:deletionProtection: false   # so does the white space

  gcp:region:   us-east4
"""
REWRITTEN = """\
# The comment   stays.
config:
  gpudirect:deletionProtection: "false" # so does the white space
  gcp:region: us-east4
"""
"""The same as Pulumi writes it."""

FAKE_CLI = r"""#!/bin/sh
{ printf '%s\n' "$$" "$PWD" "$@"; } >"$FAKE/called"
case "$*" in
*stack*init*|*config*set*)
    file="$FAKE/project/Pulumi.dev.yaml"
    if [ -n "$FAKE_CONTENT" ]; then printf '%s' "$FAKE_CONTENT" >"$file"; fi
    ;;
esac
exit "${FAKE_CODE:-0}"
"""


@dataclass
class Cli:
    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def stack_file(self) -> Path:
        return self.project / "Pulumi.dev.yaml"

    def run(
        self,
        *words: str,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        content: str = "",
        code: int = 0,
    ) -> list[str]:
        """Run the launcher, and return the arguments that the CLI was called with.

        Args:
            words: The command line.
            cwd: Where; the project's folder if not given.
            environ: More variables.
            content: What the CLI makes of the stack file, if it is called to write it.
            code: How the CLI ends.
        """
        fake = {"FAKE_CONTENT": content, "FAKE_CODE": str(code)}
        done = self.start(*words, cwd=cwd, environ={**fake, **(environ or {})})
        assert done.returncode == code, done.stderr
        _pid, _folder, *arguments = (self.folder / "called").read_text().splitlines()
        return arguments

    def start(
        self, *words: str, cwd: Path | None = None, environ: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=cwd or self.project,
            env={"PATH": "/usr/bin:/bin", "FAKE": str(self.folder), **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def command(self, *words: str) -> list[str]:
        real, copies = self.folder / "pulumi-cli", self.folder / "stack-files"
        return [sys.executable, "-I", str(LAUNCHER), str(real), str(copies), *words]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    write_program(tmp_path / "pulumi-cli", FAKE_CLI)
    made.project.mkdir()
    (made.project / "Pulumi.yaml").write_text("name: t\nruntime: python\n")
    made.stack_file.write_text(TRACKED)
    return made


def _config_file(arguments: list[str]) -> Path:
    (option,) = [word for word in arguments if word.startswith("--config-file=")]
    return Path(option.removeprefix("--config-file="))


def test_a_salt_is_taken_out_and_the_file_is_what_it_was(cli: Cli) -> None:
    before = cli.stack_file.stat()
    cli.run("stack", "init", "dev", content=REWRITTEN + SALT)
    assert cli.stack_file.read_text() == TRACKED
    assert cli.stack_file.stat().st_ino == before.st_ino


def test_an_operation_reads_a_copy_with_the_salt(cli: Cli) -> None:
    cli.run("stack", "init", "dev", content=TRACKED + SALT)
    arguments = cli.run("up", "--yes", "--stack", "dev")
    copy = _config_file(arguments)
    assert arguments == ["up", f"--config-file={copy}", "--yes", "--stack", "dev"]
    assert copy.read_text() == TRACKED + SALT
    assert cli.stack_file.read_text() == TRACKED


def test_an_edited_stack_file_is_read_at_the_next_operation(cli: Cli) -> None:
    cli.run("stack", "init", "dev", content=TRACKED + SALT)
    edited = TRACKED + "  gpudirect:labels: {team: a}\n"
    cli.stack_file.write_text(edited)
    assert _config_file(cli.run("preview", "-s", "dev")).read_text() == edited + SALT


@pytest.mark.parametrize(
    "words",
    [
        ["-s", "dev"],
        ["-sdev"],
        ["--stack", "dev"],
        ["--stack=dev"],
        ["--stack=organization/t/dev"],
    ],
)
@pytest.mark.parametrize("command", ["up", "preview", "refresh", "destroy", "import"])
def test_every_operation_and_spelling_of_a_stack_is_known(
    cli: Cli, command: str, words: list[str]
) -> None:
    assert _config_file(cli.run(command, *words)).name == "Pulumi.dev.yaml"


def test_the_selected_stack_is_used_when_none_is_named(cli: Cli, tmp_path: Path) -> None:
    project_file = str((cli.project / "Pulumi.yaml").resolve())
    digest = hashlib.sha1(project_file.encode(), usedforsecurity=False).hexdigest()
    settings = tmp_path / "pulumi-home" / "workspaces" / f"t-{digest}-workspace.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"stacks": {"file:///state": "organization/t/dev"}}))
    environ = {
        "PULUMI_HOME": str(tmp_path / "pulumi-home"),
        "PULUMI_BACKEND_URL": "file:///state",
    }
    assert _config_file(cli.run("preview", environ=environ)).name == "Pulumi.dev.yaml"
    assert cli.run("preview", environ=environ | {"PULUMI_BACKEND_URL": "file:///other"}) == [
        "preview"
    ]


def test_the_project_is_found_from_below_and_from_elsewhere(cli: Cli, tmp_path: Path) -> None:
    below = cli.project / "a" / "b"
    below.mkdir(parents=True)
    from_below = _config_file(cli.run("up", "-s", "dev", cwd=below))
    from_elsewhere = _config_file(cli.run("-C", str(cli.project), "up", "-s", "dev", cwd=tmp_path))
    assert from_below == from_elsewhere


def test_two_projects_do_not_share_a_copy(cli: Cli, tmp_path: Path) -> None:
    copy = _config_file(cli.run("up", "-s", "dev"))
    cli.project.rename(tmp_path / "other")
    assert _config_file(cli.run("up", "-s", "dev", cwd=tmp_path / "other")) != copy


@pytest.mark.parametrize(
    "line", ["encryptionsalt: v1:OWN", "secretsprovider: gcpkms://k", "encryptedkey: abc"]
)
def test_a_stack_file_with_a_secrets_provider_of_its_own_is_used_as_it_is(
    cli: Cli, line: str
) -> None:
    cli.stack_file.write_text(f"{TRACKED}{line}\n")
    assert cli.run("up", "-s", "dev") == ["up", "-s", "dev"]


@pytest.mark.parametrize("option", ["--config-file=x.yaml", "-c", "--config=a=b", "--help"])
def test_an_option_that_names_or_writes_a_stack_file_is_left_to_the_cli(
    cli: Cli, option: str
) -> None:
    assert cli.run("up", "-s", "dev", option) == ["up", "-s", "dev", option]


@pytest.mark.parametrize("words", [["version"], ["whoami"], ["login", "--local"], []])
def test_other_commands_reach_the_cli_as_they_are(cli: Cli, words: list[str]) -> None:
    assert cli.run(*words) == words


def test_a_folder_without_a_project_is_left_to_the_cli(cli: Cli, tmp_path: Path) -> None:
    assert cli.run("up", "-s", "dev", cwd=tmp_path) == ["up", "-s", "dev"]


def test_what_config_set_changes_stays_and_the_salt_does_not(cli: Cli) -> None:
    changed = TRACKED.replace("us-east4", "us-central1")
    cli.run("config", "set", "gcp:region", "us-central1", content=changed + SALT)
    assert cli.stack_file.read_text() == changed


def test_encrypted_values_keep_the_salt_that_they_need(cli: Cli) -> None:
    content = TRACKED + "  t:password:\n    secure: v1:abc\n" + SALT
    cli.run("config", "set", "--secret", "password", "x", content=content)
    assert cli.stack_file.read_text() == content
    assert cli.run("up", "-s", "dev") == ["up", "-s", "dev"]


def test_a_stack_file_that_the_cli_has_made_is_its_own(cli: Cli) -> None:
    cli.stack_file.unlink()
    cli.run("stack", "init", "dev", content=SALT)
    assert cli.stack_file.read_text() == SALT


def test_exit_codes_are_the_clis_own(cli: Cli) -> None:
    assert cli.run("up", "-s", "dev", code=3)
    assert cli.run("stack", "ls", code=7) == ["stack", "ls"]


def test_an_operation_runs_in_the_launchers_own_process(cli: Cli) -> None:
    with subprocess.Popen(
        cli.command("up", "-s", "dev"),
        cwd=cli.project,
        env={"PATH": "/usr/bin:/bin", "FAKE": str(cli.folder)},
    ) as process:
        process.wait(30)
    assert (cli.folder / "called").read_text().splitlines()[0] == str(process.pid)


def test_a_command_that_waits_for_the_cli_passes_an_end_on(cli: Cli) -> None:
    write_program(cli.folder / "pulumi-cli", "#!/bin/sh\necho started; exec sleep 60\n")
    with subprocess.Popen(
        cli.command("stack", "ls"), cwd=cli.project, env=os.environ, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM


@dataclass
class Locks:
    """The locks of the sandbox's own state."""

    cli: Cli

    def write(self, content: str) -> Path:
        path = self.cli.folder / "pulumi" / ".pulumi" / "locks" / "organization" / "lock.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def write_lock(self, pid: int, hostname: str | None = None) -> Path:
        return self.write(json.dumps({"pid": pid, "hostname": hostname or socket.gethostname()}))

    @property
    def backend(self) -> dict[str, str]:
        return {"PULUMI_BACKEND_URL": f"file://{self.cli.folder / 'pulumi'}"}


@pytest.fixture
def locks(cli: Cli) -> Locks:
    return Locks(cli)


@pytest.fixture
def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait(30)
    return process.pid


def test_the_lock_of_a_killed_command_is_removed_and_that_is_said(
    cli: Cli, locks: Locks, dead_pid: int
) -> None:
    lock = locks.write_lock(dead_pid)
    done = cli.start("up", "-s", "dev", environ=locks.backend)
    assert not lock.exists()
    assert done.stderr == f"Removed the lock of a command that no longer runs (pid {dead_pid}).\n"


def test_the_lock_of_a_command_whose_pid_another_process_has_now_is_removed(
    cli: Cli, locks: Locks
) -> None:
    lock = locks.write_lock(os.getpid())
    os.utime(lock, (0, 0))
    cli.run("up", "-s", "dev", environ=locks.backend)
    assert not lock.exists()


def test_locks_that_may_be_alive_stay(cli: Cli, locks: Locks, dead_pid: int) -> None:
    other_backend = {"PULUMI_BACKEND_URL": "file:///elsewhere"}
    cases: tuple[tuple[Callable[[], Path], dict[str, str]], ...] = (
        (lambda: locks.write_lock(os.getpid()), locks.backend),
        (lambda: locks.write_lock(dead_pid, "another-machine"), locks.backend),
        (lambda: locks.write("{"), locks.backend),
        (lambda: locks.write_lock(dead_pid), other_backend),
    )
    for write, backend in cases:
        lock = write()
        cli.run("up", "-s", "dev", environ=backend)
        assert lock.exists()


def _state(cli: Cli) -> Path:
    file = cli.folder / "pulumi" / ".pulumi" / "stacks" / "t" / "dev.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def test_half_a_state_becomes_what_it_was_before_and_that_is_said(cli: Cli, locks: Locks) -> None:
    file = _state(cli)
    for text in ('{"version": 4, "resources": [1]}', '{"version": 4, "resources": [1, 2]}'):
        file.write_text(text)
        assert cli.start("up", "-s", "dev", environ=locks.backend).stderr == ""
    file.write_text('{"version": 4, "resources": [1, 2, 3')
    done = cli.start("stack", "ls", environ=locks.backend)
    assert file.read_text() == '{"version": 4, "resources": [1, 2]}'
    assert done.stderr.startswith("The state of dev was cut off")


def test_what_a_killed_command_left_half_written_is_removed(cli: Cli, locks: Locks) -> None:
    empty, whole = (_state(cli).with_name(f"{name}.json.attrs") for name in ("dev", "staging"))
    empty.touch()
    whole.write_text("{}")
    _state(cli).write_text("{}")
    unfinished = [_state(cli).with_name(f"dev.json{part}.18ed.tmp") for part in ("", ".bak")]
    for file in unfinished:
        file.write_text("{")
    cli.run("up", "-s", "dev", environ=locks.backend)
    assert not empty.exists()
    assert not any(file.exists() for file in unfinished)
    assert whole.exists()


def test_a_state_that_somebody_writes_at_this_moment_is_left_alone(cli: Cli, locks: Locks) -> None:
    file = _state(cli)
    file.write_text("{}")
    cli.run("up", "-s", "dev", environ=locks.backend)
    held = cli.folder / "pulumi" / ".pulumi" / "locks" / "organization" / "t" / "dev" / "id.json"
    held.parent.mkdir(parents=True)
    held.write_text(json.dumps({"pid": os.getpid(), "hostname": socket.gethostname()}))
    file.write_text("{")
    cli.run("up", "-s", "dev", environ=locks.backend)
    assert file.read_text() == "{"


def test_a_state_is_not_made_of_that_of_a_stack_that_was_removed(cli: Cli, locks: Locks) -> None:
    file = _state(cli)
    file.write_text("{}")
    cli.run("up", "-s", "dev", environ=locks.backend)
    file.unlink()
    cli.run("stack", "init", "dev", environ=locks.backend)
    file.write_text("{")
    cli.run("up", "-s", "dev", environ=locks.backend)
    assert file.read_text() == "{"


def test_a_command_is_refused_where_no_copy_of_the_state_can_be_kept(
    cli: Cli, locks: Locks
) -> None:
    file = _state(cli)
    file.write_text("{}")
    (cli.folder / "stack-files").mkdir()
    (cli.folder / "stack-files" / "states").write_text("in the way of the folder")
    done = cli.start("up", "-s", "dev", environ=locks.backend)
    assert done.returncode == 1
    assert done.stderr.startswith(f"A copy of the state {file} cannot be written: ")
    assert not (cli.folder / "called").exists()
