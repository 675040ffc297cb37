"""Starts the real Pulumi CLI so that no salt gets into the stack files of the project.

Pulumi's passphrase provider writes an `encryptionsalt` into `Pulumi.<stack>.yaml` whenever it finds
none: at `stack init`, and in every operation after that. Those files are tracked and serve other
backends as well; a salt of this machine's state has no place in them. Owns the two ways around it:

- Operations (`up`, `preview`, `refresh`, `destroy`, `import`) read a copy of the stack file that
  holds the salt. This process becomes the CLI: signals, exit code and pid are the CLI's own.
- Commands that write stack files (`stack`, `config`, `new`) run as a child; a salt that they added
  is moved into the copy afterwards. Values that were encrypted keep theirs: they need it.

It also looks after the sandbox's own state, as Pulumi Cloud looks after its states (3.274.1 with
gocloud.dev, `blob.go`, `fileblob.go`, `attrs.go`):

- A command that is killed cannot take its lock away: locks of the dead are removed.
- One that is killed while it writes leaves unfinished files, each as large as the state, and can
  leave an empty file of attributes, over which every later command stumbles with `failed to load
  checkpoint: EOF`. Nothing in them is needed.
- On a full disk half of a state takes the place of the whole one, and no command can read it: a
  copy is kept.

Everything else goes to the CLI as it is. See docs/adr/0003-salt-outside-the-stack-files.md.

Usage: pulumi_cli.py REAL_PULUMI FOLDER_FOR_COPIES ARGUMENT…
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import signal
import socket
import sys
from pathlib import Path

_OPERATIONS = ("up", "update", "preview", "pre", "refresh", "destroy", "down", "dn", "import")
_WRITERS = ("stack", "config", "new", "logs")
_PROJECT_FILE = "Pulumi.yaml"
_SALT = re.compile(rb"^encryptionsalt:[^\n]*\n?", re.MULTILINE)
_OWN_PROVIDER = re.compile(rb"^(encryptionsalt|secretsprovider|encryptedkey):", re.MULTILINE)
_ENCRYPTED_VALUE = re.compile(rb"\bsecure:")


def main(arguments: list[str]) -> None:
    """Run the CLI; returns only if it could not be started."""
    real, copies, *words = arguments
    command = next((word for word in words if word in _OPERATIONS + _WRITERS), "")
    project = _project_folder(Path(_option(words, "-C", "--cwd"))) if command else None
    if command:
        _look_after_backend(Path(copies).parent / "pulumi", Path(copies, "states"))
    if project is not None:
        digest = hashlib.sha256(bytes(project)).hexdigest()[:16]
        project_copies = Path(copies, digest)
        if command in _WRITERS:
            sys.exit(_run_writer(real, words, project, project_copies))
        copy = _salted_copy(words, project, project_copies)
        if copy is not None:
            words.insert(words.index(command) + 1, f"--config-file={copy}")
    os.execv(real, ["pulumi", *words])  # noqa: S606 - the point of this program


def _option(words: list[str], short: str, long: str) -> str:
    """Return the value of an option in any of its spellings, empty if it was not given."""
    for position, word in enumerate(words):
        if word in (short, long):
            return "".join(words[position + 1 : position + 2])
        if word.startswith(f"{long}="):
            return word.removeprefix(f"{long}=")
        if word.startswith(short) and not word.startswith("--"):
            return word.removeprefix(short).removeprefix("=")
    return ""


def _project_folder(start: Path) -> Path | None:
    """Return the closest folder upwards with a project file."""
    folder = Path.cwd() / start
    folders = [folder, *folder.parents]
    return next((found for found in folders if (found / _PROJECT_FILE).is_file()), None)


def _write(path: Path, content: bytes) -> None:
    """Write in one step: whoever reads meanwhile sees the old or the new content."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _look_after_backend(state: Path, copies: Path) -> None:
    """Mend what commands that died left in the sandbox's own backend; any other is left alone."""
    if os.environ.get("PULUMI_BACKEND_URL") == f"file://{state}":
        _end_dead_locks(state)
        _remove_empty_attributes(state)
        _look_after_states(state, copies)


def _end_dead_locks(state: Path) -> None:
    """Remove the locks of commands on this machine that no longer run.

    A lock stays if anything about it is in doubt: another machine, no pid, or a process with that
    pid that ran already when the lock was written.
    """
    for file in (state / ".pulumi" / "locks").rglob("*.json"):
        try:
            lock = json.loads(file.read_bytes())
            written = file.stat().st_mtime
        except (OSError, ValueError):
            continue  # Its command has just ended, or writes it at this moment.
        ours = isinstance(lock, dict) and lock.get("hostname") == socket.gethostname()
        if ours and isinstance(lock.get("pid"), int) and not _ran_at(lock["pid"], written):
            file.unlink(missing_ok=True)
            sys.stderr.write(
                f"Removed the lock of a command that no longer runs (pid {lock['pid']}).\n"
            )


def _ran_at(pid: int, moment: float) -> bool:
    """Return whether a process runs that was there at a moment, and not one that has its pid."""
    import psutil

    try:
        process = psutil.Process(pid)
        dead = process.status() == psutil.STATUS_ZOMBIE
        # A second of tolerance: the start is derived from the boot time, which moves a little.
        return not dead and process.create_time() < moment + 1
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def _remove_empty_attributes(state: Path) -> None:
    for file in (state / ".pulumi").rglob("*.attrs"):
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_size == 0:
                file.unlink()


def _look_after_states(state: Path, copies: Path) -> None:
    """Keep a copy of each state, and put it back where a full disk has left half of one.

    A state that a command holds a lock on is left alone: it may be written at this moment.
    """
    states, locks = state / ".pulumi" / "stacks", state / ".pulumi" / "locks" / "organization"
    names = {file.relative_to(folder) for folder in (states, copies) for file in _json_in(folder)}
    for name in sorted(names):
        if not any(_json_in(locks / name.with_suffix(""))):
            try:
                _look_after_state(states / name, copies / name)
            except OSError as error:
                sys.exit(f"A copy of the state {states / name} cannot be written: {error}")


def _look_after_state(file: Path, copy: Path) -> None:
    for unfinished in file.parent.glob(f"{glob.escape(file.name)}.*.tmp"):
        unfinished.unlink(missing_ok=True)
    if not file.is_file():
        copy.unlink(missing_ok=True)
        return
    content, kept = file.read_bytes(), copy.read_bytes() if copy.is_file() else b""
    try:
        json.loads(content)
    except ValueError:
        if kept:
            _write(file, kept)
            sys.stderr.write(
                f"The state of {file.stem} was cut off, as by a disk that is full. It is again "
                "what it was before that command; what the command did is not in it.\n"
            )
        return
    if content != kept:
        _write(copy, content)


def _json_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*.json"))


def _salted_copy(words: list[str], project: Path, copies: Path) -> Path | None:
    """Return the path of a copy that an operation can read, or None if it needs none.

    None is needed if the stack file brings its own secrets provider, if there is no stack file, or
    if the user names a file. With `--config` the operation shall write the stack file itself.
    """
    if any(re.match(r"--(config|config-file|help)\b|-[ch]", word) for word in words):
        return None
    stack = _option(words, "-s", "--stack") or _selected_stack(project)
    name = f"Pulumi.{stack.rpartition('/')[2]}.yaml"
    if not stack or not (project / name).is_file():
        return None
    content = (project / name).read_bytes()
    if _OWN_PROVIDER.search(content):
        return None
    copy = copies / name
    present = copy.read_bytes() if copy.is_file() else b""
    salt = _SALT.search(present)
    wanted = _with_salt(content, salt[0] if salt else b"")
    if wanted != present:
        _write(copy, wanted)
    return copy


def _with_salt(content: bytes, salt: bytes) -> bytes:
    return content.rstrip(b"\n") + b"\n" + salt


def _selected_stack(project: Path) -> str:
    """Return the stack that `pulumi stack select` chose for the project, empty if none."""
    if stack := os.environ.get("PULUMI_STACK"):
        return stack
    path = bytes(project.resolve() / _PROJECT_FILE)
    digest = hashlib.sha1(path, usedforsecurity=False).hexdigest()
    folder = Path(os.environ.get("PULUMI_HOME", "/nonexistent"), "workspaces")
    for file in folder.glob(f"*-{digest}-workspace.json"):
        settings = json.loads(file.read_bytes())
        backend = os.environ.get("PULUMI_BACKEND_URL", "")
        return str(settings.get("stacks", {}).get(backend) or settings.get("stack") or "")
    return ""


def _run_writer(real: str, words: list[str], project: Path, copies: Path) -> int:
    """Run a command that may write stack files, and take out the salts that it added."""
    before = {
        path: content
        for path, content in _stack_files(project).items()
        if not _OWN_PROVIDER.search(content)
    }
    # The terminal interrupts both processes. This one waits for what the CLI makes of it.
    signal.signal(signal.SIGINT, lambda *_: None)
    child = os.posix_spawn(real, ["pulumi", *words], os.environ)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    for path, content in _stack_files(project).items():
        salt = _SALT.search(content)
        if path in before and salt is not None and not _ENCRYPTED_VALUE.search(content):
            without = _SALT.sub(b"", content)
            _write(copies / path.name, _with_salt(without, salt[0]))
            # Pulumi has written the whole file anew, with other white space.
            same = _values(without) == _values(before[path])
            _put_back(path, before[path] if same else without)
    code = os.waitstatus_to_exitcode(status)
    # As a shell reports it; the CLI itself ends by a signal only if it is killed.
    return code if code >= 0 else 128 - code


def _stack_files(project: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(project.glob("Pulumi.*.yaml"))}


def _put_back(path: Path, content: bytes) -> None:
    """Write into the file that is there, which keeps its mode, owner and links."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def _values(content: bytes) -> object:
    """Return what a stack file says, scalars as text: Pulumi turns `false` into `"false"`."""
    # Only after a salt was added: no other command pays for the import.
    import yaml

    def plain(node: yaml.Node | None) -> object:
        if isinstance(node, yaml.MappingNode):
            return {str(plain(key)): plain(value) for key, value in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [plain(item) for item in node.value]
        return node.value if node is not None else None

    return plain(yaml.compose(content))


if __name__ == "__main__":
    main(sys.argv[1:])
