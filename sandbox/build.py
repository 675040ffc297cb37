"""Builds the toolchain: the real parts of the sandbox, from the Go modules in `toolchain/`.

Owns what is built from what, the cache in the user's cache folder and the links in a home's `bin`.
One folder of the cache belongs to the content of one module, so that a fresh clone finds what
another one built, a changed module is built anew alone, and a build that was cut off goes on where
it stopped. Does not own the launchers of the plug-ins (`environment`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TOOLCHAIN = Path(__file__).resolve().parent / "toolchain"
_LEAST_GO = (1, 26)
_LEAST_FREE_BYTES = 6 * 1024**3
_REPORT_SECONDS = 5.0

Say = Callable[[str], None]


class BuildError(RuntimeError):
    """Something cannot be built; the text says what, why and how to go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """One Go module of the toolchain and the programs that come from it.

    Attributes:
        name: Folder in `toolchain/`.
        programs: Name of a program to its package.
        variables: Go variables that hold versions, which a plain build leaves empty.
        embedded: Files of a dependency that must lie beside the main package, by that dependency's
            module and folder.
        data: Folders of a dependency that the sandbox reads while it runs.
    """

    name: str
    programs: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    embedded: tuple[str, str, tuple[str, ...]] | None = None
    data: tuple[str, str] | None = None

    @property
    def folder(self) -> Path:
        """Where the module is."""
        return TOOLCHAIN / self.name


MODULES = (
    Module(name="etcd", programs={"etcd": "."}),
    Module(
        name="kwok",
        programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        data=("sigs.k8s.io/kwok", "kustomize/stage"),
    ),
    Module(
        name="pulumi",
        programs={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
        # The Automation API refuses a CLI without a version.
        variables={"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": "v3.274.1"},
    ),
    Module(
        name="kubernetes",
        programs={
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        },
        # kubectl cannot read a server's version otherwise.
        variables={"k8s.io/component-base/version.gitVersion": "v1.36.3"},
    ),
    Module(
        name="pulumi-resource-kubernetes",
        programs={"pulumi-resource-kubernetes": "."},
        # The version of the SDK in use: an older one makes the engine warn at each command.
        variables={"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version": "4.34.2"},
        embedded=(
            "github.com/pulumi/pulumi-kubernetes/provider/v4",
            "cmd/pulumi-resource-kubernetes",
            ("schema.json", "terraform-mapping.json"),
        ),
    ),
)


def cache_folder() -> Path:
    """Return where builds are kept, by the XDG rules."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpudirect-sandbox"


def module_key(module: Module) -> str:
    """Return the module's name with a hash of all that decides what is built from it."""
    digest = hashlib.sha256(repr(module.variables).encode())
    for file in sorted(module.folder.iterdir()):
        if file.suffix in (".go", ".mod", ".sum"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"{module.name}-{digest.hexdigest()[:16]}"


def build(bin_folder: Path, say: Say) -> None:
    """Put every program of the toolchain into a folder, building only what is nowhere yet.

    Args:
        bin_folder: Where the links go.
        say: Takes one line of progress.

    Raises:
        BuildError: no Go, too old a one, no room, no module, or code that does not compile.
    """
    bin_folder.mkdir(parents=True, exist_ok=True)
    ready = _installed(bin_folder)
    wanted = [(m, program) for m in MODULES for program in m.programs if program not in ready]
    folders = {m.name: cache_folder() / module_key(m) for m in MODULES}
    missing = [(m, p) for m, p in wanted if not (folders[m.name] / p).exists()]
    if missing:
        _require_go()
        _require_room(cache_folder())
    started = time.monotonic()
    for number, (module, program) in enumerate(missing, start=1):
        with _locked(folders[module.name]):
            # Another build may have been waited for.
            if not (folders[module.name] / program).exists():
                label = f"[{number}/{len(missing)}] {program}"
                _build_program(module, program, folders[module.name], label, say, started)
    for module, program in wanted:
        ready[program] = folders[module.name] / program
    for program, target in ready.items():
        if program == "pulumi" and target.parent == folders["pulumi"]:
            # The engine takes plug-ins beside its own file for its own, and follows links to it.
            _copy(bin_folder / program, target)
        else:
            _link(bin_folder / program, target)
    _keep_data(bin_folder, folders)


def missing_programs(bin_folder: Path) -> list[str]:
    """Return the programs that a home still lacks."""
    return [p for m in MODULES for p in m.programs if not (bin_folder / p).exists()]


def _installed(bin_folder: Path) -> dict[str, Path]:
    """Return the programs that a machine has already, complete ones only."""
    found: dict[str, Path] = {}
    path = os.pathsep.join(
        folder
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)
        if Path(folder).absolute() != bin_folder.absolute()
    )
    pulumi = shutil.which("pulumi", path=path)
    # Without its language host a Pulumi CLI runs no Python program.
    if pulumi and shutil.which("pulumi-language-python-exec", path=path):
        found["pulumi"] = Path(pulumi)
    plugin = shutil.which("pulumi-resource-kubernetes", path=path)
    if plugin:
        found["pulumi-resource-kubernetes"] = Path(plugin)
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for program in ("etcd", "kube-apiserver"):
        if assets and (Path(assets) / program).exists():
            found[program] = Path(assets) / program
    return found


def _go() -> str:
    go = shutil.which("go")
    least = ".".join(map(str, _LEAST_GO))
    if go is None:
        raise BuildError(
            f"go is not on PATH; the toolchain is built with it. Install Go {least} or newer "
            "(https://go.dev/dl) and run the same command again."
        )
    return go


def _require_go() -> None:
    printed = subprocess.run([_go(), "version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"go(\d+)\.(\d+)", printed)
    if version is None or (int(version[1]), int(version[2])) < _LEAST_GO:
        least = ".".join(map(str, _LEAST_GO))
        raise BuildError(f"{printed.strip() or 'go'}: too old, install Go {least} or newer")


def _require_room(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE_BYTES:
        raise BuildError(
            f"{folder}: {free / 1024**3:.1f} GiB are free, a build takes up to "
            f"{_LEAST_FREE_BYTES / 1024**3:.0f} GiB; make room or point XDG_CACHE_HOME elsewhere"
        )


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_program(
    module: Module, program: str, folder: Path, label: str, say: Say, started: float
) -> None:
    say(f"{label}: downloading modules, then compiling")
    _embed(module)
    temporary = folder / f".{program}.{os.getpid()}"
    flags = " ".join(["-s", "-w", *(f"-X {k}={v}" for k, v in module.variables.items())])
    command = [_go(), "build", "-v", "-ldflags", flags, "-o", str(temporary)]
    try:
        with subprocess.Popen(
            [*command, module.programs[program]],
            cwd=module.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            tail = _follow(process, label, say, started)
            code = process.wait()
        if code != 0:
            raise BuildError(f"{program} does not build:\n" + "\n".join(tail))
        temporary.replace(folder / program)
    finally:
        temporary.unlink(missing_ok=True)
    say(f"{label}: done, {_elapsed(started)}")


def _follow(process: subprocess.Popen[str], label: str, say: Say, started: float) -> list[str]:
    """Say every few seconds how far a build has come; return the last lines that it printed."""
    tail: list[str] = []
    packages = 0
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_REPORT_SECONDS):
            say(f"{label}: {packages} packages compiled, {_elapsed(started)}")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        for line in process.stderr or ():
            text = line.rstrip()
            if re.fullmatch(r"[\w.\-/~]+", text):
                packages += 1
            else:
                tail = [*tail[-19:], text]
    finally:
        over.set()
        teller.join()
    return tail


def _elapsed(started: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes} min {seconds:02d} s"


def _embed(module: Module) -> None:
    if module.embedded is None:
        return
    dependency, folder, names = module.embedded
    source = _module_folder(module, dependency) / folder
    for name in names:
        target = module.folder / f"{Path(name).stem}-embed.json"
        shutil.copyfile(source / name, target)
        target.chmod(0o644)


def _keep_data(bin_folder: Path, folders: dict[str, Path]) -> None:
    for module in MODULES:
        if module.data is None:
            continue
        dependency, path = module.data
        kept = folders[module.name] / "data"
        with _locked(folders[module.name]):
            if not kept.exists():
                temporary = kept.with_name(f".data.{os.getpid()}")
                shutil.copytree(_module_folder(module, dependency) / path, temporary)
                for folder, _names, _files in os.walk(temporary):
                    # The module cache is read-only, and so would the copy's folders be.
                    Path(folder).chmod(0o755)
                temporary.rename(kept)
        _link(bin_folder / f"{module.name}-data", kept)


def _module_folder(module: Module, dependency: str) -> Path:
    done = subprocess.run(
        [_go(), "mod", "download", dependency],
        cwd=module.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"{dependency} cannot be downloaded: {done.stderr.strip()}")
    printed = subprocess.run(
        [_go(), "list", "-m", "-f", "{{.Dir}}", dependency],
        cwd=module.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return Path(printed.strip())


def _copy(copy: Path, target: Path) -> None:
    if copy.exists() and not copy.is_symlink() and copy.stat().st_size == target.stat().st_size:
        return
    temporary = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        temporary.hardlink_to(target)
    except OSError:
        # Another file system.
        shutil.copy2(target, temporary)
    temporary.replace(copy)


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.symlink_to(target)
    temporary.replace(link)
