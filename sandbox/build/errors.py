"""What can go wrong in a build, in words for the person who waits for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sandbox.errors import SandboxError

_KEPT = "What is finished is kept: run the same command again to go on."
_LAST_LINES = 20
_CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"no space left on device",
        "The disk is full. A cold build needs about 12 GB, most of it in Go's own caches "
        "(`go env GOCACHE GOMODCACHE`), which may be emptied afterwards with `go clean -cache`.",
    ),
    (
        r"requires go >=|unknown directive|invalid go version",
        "This Go is too old. Install the version that is named above, or allow Go to fetch it "
        "(`go env -w GOTOOLCHAIN=auto`).",
    ),
    (
        r"missing go\.sum entry|updates to go\.(mod|sum) needed|verifying .*: checksum mismatch",
        "The module's go.mod and go.sum do not fit what the proxy serves. Put both files back as "
        "they are in the repository; if they are, the proxy serves other content than it did.",
    ),
    (
        r"dial tcp|no such host|proxyconnect|connection re(fused|set)|i/o timeout|TLS handshake"
        r"|x509:|: (40[0-9]|410|50[0-9]) |unrecognized import path|disabled by GOPROXY",
        "Modules could not be fetched. Go asks the proxy in `go env GOPROXY`: set GOPROXY (or "
        "HTTPS_PROXY) to one that can be reached from here.",
    ),
    (
        r"signal: killed|cannot allocate memory|out of memory",
        "The compiler was killed, most likely for lack of memory (about 3 GB are needed). Close "
        "other programs, or build with fewer compilers at once: GOFLAGS=-p=1.",
    ),
)


class BuildError(SandboxError):
    """A part of the toolchain could not be built; the text says which, why and what to do."""


def explain(what: str, command: Sequence[str], code: int, lines: Sequence[str]) -> BuildError:
    """Make an error of what Go printed.

    Args:
        what: The part that was being built.
        command: The command line that failed.
        code: Its exit code.
        lines: What it printed to standard error.
    """
    printed = [line for line in lines if not line.startswith("go: downloading ")]
    text = "\n".join(printed[-_LAST_LINES:])
    fix = next((fix for pattern, fix in _CAUSES if re.search(pattern, text)), None)
    return BuildError(
        f"{what} was not built: `{' '.join(command)}` ended with {code}:\n{text}\n"
        f"{fix or 'This is not a fault that this program knows.'}\n{_KEPT}"
    )
