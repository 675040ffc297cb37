"""What the log lines around an nccl-tests table say: transport, NICs, versions, errors.

Owns the wording of NCCL and of Google's network plug-ins. Does not own the table (`nccl_results`)
nor what an error line means (`gpudirect.diagnosis`).

Wordings: `via NET/GPUDirectTCPX_v7/2`, `Using network FasTrak`, `NET/GPUDirectTCPX ver. 3.1.8.`,
`Initializing network FasTrak, version: 1.0.17`, as seen in public logs of both machine types.
"""

from __future__ import annotations

import re

from gpudirect.nccl_data import Transport
from gpudirect.redaction import redact

_MAX_PROBLEMS = 10
_MAX_NICS = 64
_MAX_HOSTS = 4096
_MAX_ENDINGS = 16384

_CHANNEL = re.compile(r"via NET/(\w{1,40})/(\d{1,3})")
_USING = re.compile(
    r"(?:Using|Initializing|Initialized|Assigned) (?:NET plugin|network) (\w{1,40})"
)
_PLUGIN_VERSION = re.compile(
    r"(?:NET/(?:FasTrak|GPUDirectTCPX)\w{0,8},? (?:ver\. ?|version:? ?|v)"
    r"|network (?:FasTrak|GPUDirectTCPX\w{0,8}), version:? ?)v?(\d[\w.+-]{0,40})"
)
_MENTIONED = re.compile(
    r"(?:NET/|NET/Plugin: (?:Using|Loaded net plugin) )(FasTrak|GPUDirectTCPX|Socket|FastSocket)"
)
_NCCL_VERSION = re.compile(r"NCCL version (\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)")
_PROBLEM = re.compile(
    r"NCCL WARN|failure|refused|mpirun (?:detected|noticed)|No such file|not found"
    r"|Segmentation fault|out of memory|Killed|imed out|mismatch|ERROR|rror:|No route to host"
)


class LogFacts:
    """Collects facts from log lines; what it holds is bounded."""

    def __init__(self) -> None:
        self._channels: set[str] = set()
        self._endings: set[tuple[str, str]] = set()
        self._using: set[str] = set()
        self._mentioned: set[str] = set()
        self._nics: dict[str, set[int]] = {}
        self._problems: dict[str, None] = {}
        self.versions: dict[str, str] = {}

    def note(self, line: str) -> None:
        """Read one line of NCCL."""
        if "NET" in line or "network " in line:
            self._note_network(line)
        if "NCCL version " in line and (match := _NCCL_VERSION.search(line)) is not None:
            self.versions.setdefault("nccl", match[1])
        if " NCCL INFO " not in line:
            self.note_problem(line)

    def note_problem(self, line: str) -> None:
        """Keep a line that reports an error."""
        if len(self._problems) < _MAX_PROBLEMS and _PROBLEM.search(line) is not None:
            self._problems.setdefault(redact(line.strip()[:400]))

    def tests_version(self, tests: str, library: str | None) -> None:
        """Keep the versions that nccl-tests prints at its start."""
        self.versions.setdefault("ncclTests", tests)
        if library is not None:
            self.versions["nccl"] = version_of_code(int(library))

    def _note_network(self, line: str) -> None:
        start = line.find("via NET/")
        if start >= 0:
            # Nearly all lines of a large log are channels, and few of them are new.
            host = _host(line)
            ending = (host, line[start : start + 64])
            if ending in self._endings:
                return
            if len(self._endings) < _MAX_ENDINGS:
                self._endings.add(ending)
            if (channel := _CHANNEL.search(line)) is not None:
                self._note_channel(host, channel[1], int(channel[2]))
                return
        if (using := _USING.search(line)) is not None and len(self._using) < _MAX_NICS:
            self._using.add(using[1])
        if (version := _PLUGIN_VERSION.search(line)) is not None:
            self.versions.setdefault("plugin", version[1].rstrip("."))
        if (mentioned := _MENTIONED.search(line)) is not None:
            self._mentioned.add(mentioned[1])

    def _note_channel(self, host: str, network: str, nic: int) -> None:
        if len(self._channels) < _MAX_NICS:
            self._channels.add(network)
        if host in self._nics or len(self._nics) < _MAX_HOSTS:
            nics = self._nics.setdefault(host, set())
            if len(nics) < _MAX_NICS:
                nics.add(nic)

    @property
    def transport(self) -> Transport:
        """What carried the data; one channel over sockets is enough to call it that."""
        for names in (self._channels, self._using):
            transports = {_transport(name) for name in names} - {"unknown"}
            if "socket" in transports:
                return "socket"
            if transports:
                return _first(transports)
        # A plug-in that speaks has been loaded; the socket transport speaks in any case.
        plugins = {_transport(name) for name in self._mentioned} & {"fastrak", "tcpx"}
        return _first(plugins) if plugins else "unknown"

    @property
    def nics(self) -> tuple[int, ...]:
        """Indexes of the network devices that channels went through, on whichever host."""
        return tuple(sorted(set().union(*self._nics.values())))

    @property
    def nics_per_host(self) -> dict[str, tuple[int, ...]]:
        """The same for each host that the log names one for."""
        return {host: tuple(sorted(nics)) for host, nics in self._nics.items() if host}

    @property
    def problems(self) -> tuple[str, ...]:
        """Error lines, redacted, first ones first."""
        return tuple(self._problems)


def version_of_code(code: int) -> str:
    """Return the version that NCCL's number stands for: 22809 is 2.28.9, 2708 is 2.7.8."""
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def _host(line: str) -> str:
    """Return the host that NCCL wrote a line on, which stands first: `host:1301:1377 [1] NCCL`."""
    before = line[: max(line.find(" NCCL "), 0)].rstrip()
    if before.endswith("]"):
        before = before[: before.rfind("[")].rstrip()
    return before[before.rfind(" ") + 1 :].partition(":")[0][:253]


def _transport(name: str) -> Transport:
    lower = name.lower()
    if lower.startswith("fastrak"):
        return "fastrak"
    if lower.startswith("gpudirecttcpx"):
        return "tcpx"
    # Fast Socket is plain TCP too: GPU memory is copied through the host.
    if lower in ("socket", "fastsocket"):
        return "socket"
    return "unknown"


def _first(transports: set[Transport]) -> Transport:
    return min(transports)
