"""One stack that faults happen to, and the account of what they left.

Owns running commands under fault plans, killing them at a boundary, and the check that cloud and
state agree afterwards. Does not own which faults there are (`test_faults`, `test_fault_matrix`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.sandbox.cloud_client import CloudClient, wait_until
from tests.sandbox.harness import PROJECT_FOLDER, Done, Sandbox

Rule = Mapping[str, Any]

NICS = {"dev": 8, "staging": 4}
INTERNAL = {"code": "INTERNAL_ERROR", "message": "Internal error."}
API = "/(compute|container)/v"
UNSTEADY: Mapping[str, Rule] = {
    "too many requests": {"path": API, "status": 429, "probability": 0.04, "seed": 1},
    "internal error": {"path": API, "status": 500, "probability": 0.04, "seed": 2},
    "unavailable": {"path": API, "status": 503, "probability": 0.04, "seed": 3},
    "dropped connection": {"path": API, "drop": "before", "probability": 0.04, "seed": 4},
}
"""An API that is not well: clients are expected to try again, and nobody notices."""

FAILED: Mapping[str, Mapping[str, Rule]] = {
    "up": {
        "failed network": {"operation": r"^networks\.insert", "skip": 1},
        "failed subnet": {"operation": r"subnetworks\.insert", "skip": 2},
        "failed rule": {"operation": r"firewalls\.insert", "skip": 3},
        "failed cluster": {"operation": r"clusters\.create"},
    },
    "edit": {"failed cluster update": {"operation": r"clusters\.(update|setLabels|setResource)"}},
    "destroy": {
        "failed network deletion": {"operation": r"^networks\.delete", "skip": 1},
        "failed cluster deletion": {"operation": r"clusters\.delete"},
    },
}
"""Operations that begin and end in an error, once: the command fails, the next one does not."""

RESOURCES = {"dev": 49, "staging": 29}
"""What an `up` tells of: the stack, APIs, fabric, cluster and what is in it; no components."""

_LONGEST_END_SECONDS = 120
"""How long the children of a killed command may live on."""

_IN_CLUSTER = "networks.networking.gke.io,gkenetworkparamsets,daemonsets,namespaces"
_MADE = re.compile(r" (created|deleted|updated) \(")


@dataclass
class Environment:
    """A stack in a sandbox."""

    sandbox: Sandbox
    cloud: CloudClient
    stack: str
    fired: int = 0
    """Faults that have happened to it."""

    @property
    def nics(self) -> int:
        return NICS[self.stack]

    def configure(self, **values: Any) -> None:
        """Edit the stack file."""
        file = self._stack_file
        content = yaml.safe_load(file.read_text())
        content["config"] |= {f"gpudirect:{key}": value for key, value in values.items()}
        file.write_text(yaml.safe_dump(content))

    def start_over(self) -> None:
        """Go back to an empty cloud, an empty state and the stack file that the project has."""
        self.cloud.reset()
        self.sandbox.pulumi("stack", "rm", "--force", "--yes", "--stack", self.stack)
        shutil.copy(PROJECT_FOLDER / self._stack_file.name, self._stack_file)
        self.sandbox.pulumi("stack", "init", self.stack).ok()

    @property
    def _stack_file(self) -> Path:
        return self.sandbox.project / f"Pulumi.{self.stack}.yaml"

    def run(self, command: str, *, preview: bool = True) -> Done:
        """Run `up`, `destroy` or an `edit` of the stack file with an `up`.

        The preview is part of it as for a user, save where nothing hangs on it.
        """
        if command == "edit":
            self.configure(labels={"team": "birds"})
        words = ["destroy" if command == "destroy" else "up", "--yes", "--stack", self.stack]
        return self.sandbox.pulumi(*words, *([] if preview else ["--skip-preview"]))

    def bring_up(self) -> None:
        """Make the whole environment."""
        done = self.run("up", preview=False).ok()
        # The matrix has a case for each: none is to be forgotten.
        assert len(_MADE.findall(done.text)) == RESOURCES[self.stack], done.text
        self.check(self.nics)

    def under(self, plans: Mapping[str, Rule], command: str) -> tuple[Done, dict[str, int]]:
        """Run a command under plans; return it and how often each plan fired."""
        for name, rule in plans.items():
            self.cloud.plan(name, **rule)
        try:
            done = self.run(command)
        finally:
            fired = {name: self.cloud.end_plan(name) for name in plans}
        self.count(sum(fired.values()))
        return done, fired

    def stopped_at(self, operation: str, number: int, command: str, by: signal.Signals) -> int:
        """Stop a command while its nth operation of a kind is on its way; return the firings.

        Google finishes what it has begun, after its client is gone.
        """
        self.cloud.plan("held", operation=operation, skip=number, times=1, hang=True)
        try:
            with self._begun(command) as process:
                wait_until(
                    lambda: self.cloud.fired("held") > 0 or process.poll() is not None,
                    f"operation {number} of {operation} has begun",
                )
                os.kill(process.pid, by)
                process.communicate(timeout=_LONGEST_END_SECONDS)
        finally:
            fired = self.cloud.end_plan("held")
            self.count(fired)
        wait_until(self.cloud.at_rest, "what Google had begun has ended")
        return fired

    def killed_after(self, resources: int, command: str) -> int:
        """Kill a command (SIGKILL) once it has told of so many resources; return how many."""
        told = 0
        with self._begun(command) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told += bool(_MADE.search(line))
                if told == resources:
                    os.kill(process.pid, signal.SIGKILL)
                    self.count(1)
                    break
            process.communicate(timeout=_LONGEST_END_SECONDS)
        wait_until(self.cloud.at_rest, "what Google had begun has ended")
        return told

    @contextmanager
    def _begun(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """Begin a command; on the way out of a failure nothing of it runs on."""
        words = ("pulumi", "destroy" if command == "destroy" else "up", "--yes", "--skip-preview")
        with self.sandbox.popen(*words, "--non-interactive", "--stack", self.stack) as process:
            try:
                yield process
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise

    def on_a_full_disk(self, kilobytes: int, command: str) -> Done:
        """Run a command while the state's folder is a file system of so few kilobytes.

        One operation at a time: the CLI tries each write again for half a minute.
        """
        state = self.sandbox.home / "pulumi"
        kept = state.with_name("kept")
        copy = f"cp -a {shlex.quote(str(state))}/. {shlex.quote(str(kept))}/"
        back = f"cp -a {shlex.quote(str(kept))}/. {shlex.quote(str(state))}/"
        words = f"{'destroy' if command == 'destroy' else 'up'} --yes --skip-preview --parallel 1"
        script = (
            f"mkdir {shlex.quote(str(kept))} && {copy} && "
            f"mount -t tmpfs -o size={kilobytes}k none {shlex.quote(str(state))} && {back} && "
            f"{{ pulumi {words} --non-interactive --stack {self.stack}; code=$?; "
            f"rm -rf {shlex.quote(str(kept))}/.pulumi; {copy}; exit $code; }}"
        )
        done = self.sandbox.run("unshare", "--mount", "--map-root-user", "sh", "-c", script)
        shutil.rmtree(state / ".pulumi")
        shutil.move(kept / ".pulumi", state / ".pulumi")
        shutil.rmtree(kept)
        self.count(1)
        return done

    def state_kilobytes(self) -> int:
        """Return what the state's folder takes on a file system of pages of 4 KiB."""
        entries = [*(self.sandbox.home / "pulumi").rglob("*")]
        return sum(4 * -(-max(entry.lstat().st_size, 1) // 4096) for entry in entries)

    @contextmanager
    def api_server_silent(self) -> Iterator[Callable[[], None]]:
        """Stop the API server in its tracks until the given function is called.

        Connections are taken, and nothing is said.
        """
        servers = [
            psutil.Process(entry["pid"])
            for entry in self.sandbox.status()["processes"]
            if entry["cluster"] and "apiserver" in entry["name"]
        ]
        assert servers

        def resume() -> None:
            for server in servers:
                server.resume()

        for server in servers:
            server.suspend()
        try:
            yield resume
        finally:
            resume()
            self.count(len(servers))

    def repair(self) -> int:
        """Take orphans into the state by the printed lines; return how many there were."""
        words = ("-m", "gpudirect", "orphans", "--stack", self.stack, "--json")
        orphans = json.loads(self.sandbox.run(sys.executable, *words).text)
        for orphan in orphans:
            if "clusters" not in orphan["id"]:
                self.sandbox.run(*shlex.split(orphan["import"]), "--yes").ok()
        return len(orphans)

    def converge(self) -> Done:
        """Run `up`, and do what it says: nothing else, and nothing that it does not say."""
        done = self.run("up")
        if done.code != 0:
            assert f"`python -m gpudirect orphans --stack {self.stack}` lists it" in done.text
            assert self.repair() > 0, done.text
            done = self.run("up", preview=False)
        if "takes it over" in done.ok().text:
            assert "run `pulumi up` once more" in done.text
            done = self.run("up", preview=False)
        return done.ok()

    def in_the_cloud(self) -> list[str]:
        """Return the paths of what users have there, each as often as it is there."""
        return sorted(
            f"{r['kind']}/{r['name']}" for r in self.cloud.resources() if r["madeBy"] == "user"
        )

    def in_the_cluster(self) -> list[str]:
        """Return kind and name of what the stack has made in its cluster."""
        clusters = self.cloud.clusters()
        if not clusters or not clusters[0]["endpoint"]:
            return []
        words = ("--context", clusters[0]["context"], "get", _IN_CLUSTER, "-A", "-o", "name")
        label = f"gpudirect-stack={self.stack}"
        listed = self.sandbox.run("kubectl", *words, "--selector", label).ok().text
        found = (line.partition("/") for line in listed.splitlines() if "/" in line)
        return sorted(f"{kind.partition('.')[0]}/{name}" for kind, _, name in found)

    def check(self, nics: int) -> None:
        """Fail unless cloud and state agree on a whole environment, or on none."""
        deployment = self.agree()
        assert len(self.in_the_cloud()) == (3 * nics + 1 if nics else 0)
        if nics == 0 and deployment.get("pending_operations"):
            # The engine remembers interrupted creations for ever, and says in each update how it
            # can be made to forget them.
            words = ("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
            self.sandbox.pulumi(*words, "--stack", self.stack).ok()
            assert not self.agree().get("pending_operations")

    def agree(self) -> dict[str, Any]:
        """Fail unless the state holds what is in the cloud, and no secret in clear; return it."""
        exported = self.sandbox.state(self.stack)
        resources = exported["deployment"].get("resources") or []
        kinds = ("gcp:compute/", "gcp:container/")
        assert self.in_the_cloud() == sorted(
            "/".join(r["id"].split("/")[-2:]) for r in resources if r["type"].startswith(kinds)
        )
        assert self.in_the_cluster() == sorted(
            f"{r['type'].rpartition(':')[2].lower()}/{r['id'].rpartition('/')[2]}"
            for r in resources
            if r["type"].startswith("kubernetes:")
        )
        text = json.dumps(exported)
        assert "PRIVATE KEY" not in text
        assert self.sandbox.environment["GOOGLE_OAUTH_ACCESS_TOKEN"] not in text
        deployment: dict[str, Any] = exported["deployment"]
        return deployment

    def in_the_way(self) -> list[str]:
        """Return the paths of all that is in the cloud, also of what GKE has made there."""
        return sorted(f"{r['kind']}/{r['name']}" for r in self.cloud.resources())

    def count(self, fired: int) -> None:
        """Note that faults have happened."""
        self.fired += fired


def can_mount() -> bool:
    """Return whether this machine lets a test have a file system of its own."""
    try:
        done = subprocess.run(
            ["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0
