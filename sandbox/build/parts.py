"""Which programs the toolchain has and how each is built.

Owns the list and what a build depends on. The versions are in the `go.mod` files below
`sandbox/toolchain/`, one module for what must be resolved together
[facts toolchain.md]; nothing here repeats them.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TOOLCHAIN = Path(__file__).parents[1] / "toolchain"
_EMBEDDED = "-embed.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Binary:
    """One program."""

    name: str
    package: str
    """Import path, or `.` for the module's own main package."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Go variable -> value that the linker sets, in which `{path/of/a/module}` stands for the
    version of a required module. Programs that were built without say they have no version, and
    the Automation API and kubectl refuse to work with them [facts toolchain.md]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """One Go module of the toolchain: the unit that is built anew when its files change."""

    name: str
    """Name of its folder."""
    binaries: tuple[Binary, ...]
    embedded: Mapping[str, str] = field(default_factory=dict)
    """File that the compiler embeds -> where it is, as `module path:file in it`."""

    @property
    def folder(self) -> Path:
        """Its Go files."""
        return TOOLCHAIN / self.name

    def version(self, path: str) -> str:
        """Return the version of a module that this one requires."""
        text = (self.folder / "go.mod").read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(path)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise LookupError(f"{self.folder / 'go.mod'} does not require {path}")
        return found[1]

    def linker_flags(self, binary: Binary) -> str:
        """Return the value of `-ldflags`: no symbol tables, and the versions."""
        flags = ["-s", "-w"]
        for name, value in binary.variables.items():
            resolved = re.sub(r"{([^}]*)}", lambda match: self.version(match[1]), value)
            flags.append(f"-X {name}={resolved}")
        return " ".join(flags)

    def content_hash(self) -> str:
        """Return a name for everything that decides what the binaries are, but Go itself."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.iterdir()):
            if path.is_file() and not path.name.endswith(_EMBEDDED):
                digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
        for binary in self.binaries:
            digest.update(f"{binary.package}\0{self.linker_flags(binary)}\0".encode())
        digest.update(f"{platform.system()}\0{platform.machine()}".encode())
        return digest.hexdigest()[:16]


_COMPONENT_VERSION = {
    "k8s.io/component-base/version.gitVersion": "{k8s.io/kubernetes}",
    "k8s.io/component-base/version.gitTreeState": "clean",
}
_KUBERNETES_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"
PROVIDER_VERSION = "4.34.2"
"""What the Kubernetes plug-in says it is: the SDK's version, which the engine compares with. Its
code is of about 4.25, the last one that the module proxy serves [facts toolchain.md]; everything
that the program uses has been the same since, and the build suffix says what it is."""

MODULES = (
    Module(
        name="pulumi",
        binaries=(
            Binary(
                name="pulumi",
                package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
                variables={
                    "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": (
                        "{github.com/pulumi/pulumi/pkg/v3}"
                    )
                },
            ),
        ),
    ),
    Module(name="etcd", binaries=(Binary(name="etcd", package="."),)),
    Module(name="kwok", binaries=(Binary(name="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),)),
    Module(
        name="kubernetes",
        binaries=tuple(
            Binary(name=name, package=f"k8s.io/kubernetes/cmd/{name}", variables=_COMPONENT_VERSION)
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        ),
    ),
    Module(
        name="pulumi-resource-kubernetes",
        binaries=(
            Binary(
                name="pulumi-resource-kubernetes",
                package=".",
                variables={
                    f"{_KUBERNETES_PROVIDER}/pkg/version.Version": (
                        f"{PROVIDER_VERSION}+code.of.4.25"
                    )
                },
            ),
        ),
        embedded={
            "schema-embed.json": (
                f"{_KUBERNETES_PROVIDER}:cmd/pulumi-resource-kubernetes/schema.json"
            ),
            "terraform-mapping-embed.json": (
                f"{_KUBERNETES_PROVIDER}:cmd/pulumi-resource-kubernetes/terraform-mapping.json"
            ),
        },
    ),
)
