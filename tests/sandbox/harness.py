"""A sandbox and a clone of the project of its own, driven as a user would: by commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT_FOLDER = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Done:
    """A finished command."""

    command: str
    code: int
    text: str
    seconds: float

    def ok(self) -> Done:
        """Return itself, or fail with all that the command printed."""
        if self.code != 0:
            raise AssertionError(f"{self.command} ended with {self.code}:\n{self.text}")
        return self


@dataclass
class Sandbox:
    """One sandbox home and one clone beside it.

    Args:
        folder: An empty folder for both.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "clone"

    def start(self) -> None:
        """Clone the working tree, start the sandbox and read its environment."""
        clone_project(self.project)
        self.sandbox("up").ok()
        self.environment = json.loads(self.sandbox("env", "--json").ok().text)

    def stop(self) -> None:
        self.sandbox("down").ok()

    def sandbox(self, *words: str) -> Done:
        return self.run(
            sys.executable, "-m", "sandbox", words[0], "--home", str(self.home), *words[1:]
        )

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.sandbox("status", "--json").ok().text)
        return status

    def pulumi(self, *words: str, timeout: float = 300) -> Done:
        return self.run("pulumi", *words, "--non-interactive", timeout=timeout)

    def up(self, stack: str, *words: str) -> Done:
        return self.pulumi("up", "--yes", "--stack", stack, *words)

    def destroy(self, stack: str) -> Done:
        return self.pulumi("destroy", "--yes", "--stack", stack)

    def outputs(self, stack: str) -> dict[str, Any]:
        done = self.pulumi("stack", "output", "--json", "--stack", stack).ok()
        outputs: dict[str, Any] = json.loads(done.text)
        return outputs

    def state(self, stack: str) -> dict[str, Any]:
        text = self.pulumi("stack", "export", "--stack", stack).ok().text
        # Notes of the CLI may stand before it.
        state: dict[str, Any] = json.loads(text[text.index("{") :])
        return state

    def run(self, *command: str, timeout: float = 300) -> Done:
        """Run a command in the clone with the sandbox's environment; stdout and stderr as one."""
        started = time.monotonic()
        with self.popen(*command) as process:
            try:
                text, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                text, _ = process.communicate()
                text += f"\n(killed after {timeout} s)"
        return Done(
            command=" ".join(Path(word).name if "/" in word else word for word in command),
            code=process.returncode,
            text=text,
            seconds=time.monotonic() - started,
        )

    def popen(self, *command: str) -> subprocess.Popen[str]:
        environment = {**os.environ, **self.environment}
        return subprocess.Popen(
            [shutil.which(command[0], path=environment["PATH"]) or command[0], *command[1:]],
            cwd=self.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def set_config(self, stack: str, **values: Any) -> None:
        for key, value in values.items():
            text = value if isinstance(value, str) else json.dumps(value)
            self.pulumi("config", "set", key, text, "--stack", stack).ok()


def clone_project(folder: Path) -> Path:
    """Copy the working tree, without what git ignores, into a repository of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=PROJECT_FOLDER,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, target = PROJECT_FOLDER / name, folder / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "clone"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)
    return folder
