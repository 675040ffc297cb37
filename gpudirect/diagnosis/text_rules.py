"""Causes by the words of events, refusals, container states and logs.

Owns the patterns, as data. Every pattern is searched in a text of bounded length and has bounded
repetitions, so that hostile text costs linear time. Does not own where the texts come from.

Wordings: GKE's cluster autoscaler (events/failed_scale_up, 2026), containerd's NRI ("both tried to
set"), the receive daemon (container-engine-accelerators#580), the guest config checker ("mismatch
enforced"; "mismatch recommended" is harmless), NCCL and nccl-tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpudirect.diagnosis.causes import weight

Kind = Literal["event", "state", "log", "message"]

MAX_TEXT_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class TextRule:
    """One wording of one cause.

    Attributes:
        cause: Identifier of the cause.
        pattern: The wording.
        kinds: Where this wording means that cause.
        before_table: Whether it means nothing once the test has printed its table.
        before_start: Whether it means nothing once the ranks have spoken to one another: a launcher
            tries several times.
    """

    cause: str
    pattern: re.Pattern[str]
    kinds: frozenset[Kind]
    before_table: bool = False
    before_start: bool = False


def _rule(
    cause: str,
    pattern: str,
    *kinds: Kind,
    before_table: bool = False,
    before_start: bool = False,
) -> TextRule:
    compiled = re.compile(pattern, re.IGNORECASE)
    return TextRule(cause, compiled, frozenset(kinds), before_table, before_start)


_EVENT: Final = ("event", "message")
_STATE: Final = ("event", "state", "message")

TEXT_RULES: Final = (
    _rule(
        "login-helper-missing",
        r"gke-gcloud-auth-plugin.{0,80}(?:not on PATH|not found|no such file)",
        "message",
    ),
    _rule("admission-denied", r"denied the request|\[denied by [a-z0-9-]{1,80}\]", *_STATE),
    _rule("admission-denied", r"ValidatingAdmissionPolicy '.{1,120}denied request", *_STATE),
    _rule("admission-denied", r"violates PodSecurity \W", *_STATE),
    _rule("quota-of-namespace", r"exceeded quota: ", *_EVENT),
    _rule(
        "multi-networking-missing",
        r"no matches for kind \W{0,3}(?:Network|GKENetworkParamSet)\b",
        *_STATE,
        "log",
    ),
    _rule(
        "interfaces-invalid",
        r"networking\.gke\.io/interfaces.{0,300}(?:invalid|unmarshal|parse|malformed|duplicate)"
        r"|(?:invalid|unmarshal|parse|malformed).{0,300}networking\.gke\.io/interfaces",
        *_STATE,
    ),
    _rule(
        "network-missing",
        r"(?<!for )network(?:s\.networking\.gke\.io)? \W{0,3}[\w.-]{1,80}\W{0,3} (?:was )?not found"
        r"|network \W{0,3}[\w.-]{1,80}\W{0,3} does not exist|no such network",
        *_STATE,
    ),
    _rule(
        "network-not-ready",
        r"network \W{0,3}[\w.-]{1,80}\W{0,3} (?:is )?not ready"
        r"|GKENetworkParamSet \W{0,3}[\w.-]{1,80}\W{0,3} .{0,120}not found",
        *_STATE,
    ),
    _rule(
        "quota-exceeded",
        r"GCE quota exceeded|QUOTA_EXCEEDED|QuotaExceeded|quota '[^']{1,80}' exceeded"
        r"|scale\.up\.error\.quota\.exceeded",
        *_EVENT,
    ),
    _rule(
        "reservation-mismatch",
        r"reservation (?:not found|not ready|capacity exceeded|incompatible)|invalid reservation"
        r"|ReservationNotFound|ReservationUnusable"
        r"|reservation .{0,200}(?:not found|does not exist|not usable|does not match|mismatch)"
        r"|specified reservations? .{0,200}(?:not|no) ",
        *_EVENT,
    ),
    _rule("cluster-too-old", r"need version .{0,80} or later", *_EVENT),
    _rule(
        "zone-without-machine",
        r"machine ?type .{0,160}(?:does not exist|not (?:found|available|supported|offered))"
        r"|UnavailableMachineType|MachineTypeNotFound|LocationNotEnabledForAutoprovisioning",
        *_EVENT,
    ),
    _rule(
        "placement-refused",
        r"unsupported compact placement|placement group .{0,200}invalid"
        r"|node group .{0,120}already exists|multiple specified locations",
        *_EVENT,
    ),
    _rule(
        "no-capacity",
        r"GCE out of resources|ZONE_RESOURCE_POOL_EXHAUSTED|ResourcePoolExhausted|GCE_STOCKOUT"
        r"|does not have enough resources|scale\.up\.error\.out\.of\.resources"
        r"|failed to appear in time",
        *_EVENT,
    ),
    _rule(
        "not-schedulable",
        r"misconfigured Flex Start selectors|incompatible with requested ComputeClass"
        r"|Node scale up in zones .{0,200} failed|IP space exhausted",
        *_EVENT,
    ),
    _rule(
        "injector-doubled", r"both tried to set|is claimed by plugin .{0,80} and plugin", *_STATE
    ),
    _rule(
        "devices-missing",
        r"/dev/(?:nvidia|dmabuf|aperture)[\w/-]{0,40}.{0,160}(?:no such file|not exist|not found)"
        r"|(?:stat|device|devices)\b.{0,80}/dev/(?:nvidia|dmabuf)[\w/-]{0,40}.{0,80}no such"
        r"|no CUDA-capable device|no devices found|NVML.{0,80}(?:not found|no device)"
        r"|no CUDA devices?|CUDA initialization failed|Memory importer: failed",
        *_STATE,
        "log",
    ),
    _rule(
        "gpu-count",
        r"number of GPUs detected in the PCI tree|PCI GPUs?\D{0,20}\d{1,2}.{0,60}CUDA GPUs?"
        r"|found \d{1,2} GPUs with a NIC, CUDA reports"
        r"|invalid device ordinal",
        "state",
        "log",
    ),
    _rule(
        "versions-do-not-fit",
        r"newer protocol than plug-?in|does not fit plug-?in|NET/\w{1,30} VERSION MISMATCH"
        r"|rxdm.{0,80}version mismatch|protocol version mismatch",
        "log",
        "state",
    ),
    _rule("daemon-too-old", r"SO_DEVMEM\w{0,20}.{0,20}Protocol not available", "log", "state"),
    _rule(
        "capability-missing",
        r"ethtool.{0,80}not permitted|not permitted.{0,80}ethtool|rp_filter.{0,80}denied",
        "log",
        "state",
    ),
    _rule(
        "library-missing",
        r"error while loading shared libraries: libcuda|libcuda\.so[\w.]{0,8}: cannot open",
        "log",
        "state",
    ),
    _rule(
        "daemon-flags",
        r"unknown command ?line flag|unrecognized (?:option|argument)s?|unknown flag",
        "log",
        "state",
    ),
    _rule(
        "checker-aborted",
        r"mismatch enforced|guest config checker.{0,200}(?:abort|expected|cannot read)"
        r"|NCCL_NVLSTREE_MAX_CHUNKSIZE is .{0,80}expected",
        "log",
    ),
    _rule(
        "wrong-profile",
        r"nccl-env-profile[\w-]{0,20}\.sh.{0,40}No such file|NCCL_LIB_DIR.{0,60}"
        r"(?:must|not set|unset|unbound|required)|a3plus_guest_config\w{0,20}\.textproto.{0,60}"
        r"(?:No such|not found|cannot)",
        "log",
    ),
    _rule(
        "wrong-nccl",
        r"undefined symbol: nccl|libnccl\.so[\w.]{0,12}: (?:cannot|version)"
        r"|NCCL (?:library )?version mismatch|incompatible NCCL|loaded NCCL .{0,60}expected",
        "log",
    ),
    _rule("old-image", r"version [`']?GLIBC(?:XX)?_[\d.]{1,10}'? not found", "log"),
    _rule("driver-too-old", r"CUDA driver version is insufficient", "log"),
    _rule(
        "apertures-missing", r"No LLCM device|aperture_devices.{0,80}(?:empty|no such|not)", "log"
    ),
    _rule(
        "interface-missing",
        r"no such interface|names no interface|has no interface on this node"
        r"|Incorrect number of fabric NICs"
        r"|(?:interface|device) eth[1-9] .{0,40}not (?:found|exist)",
        "log",
        *_STATE,
    ),
    # google/nccl-plugin-gpudirect-tcpxo, fastrak_offload/common.cc: no NIC beside a GPU.
    _rule("nic-unused", r"Could not find closest netdev for GPU", "log"),
    _rule(
        "plugin-not-loaded",
        r"Using network (?:Fast)?Socket|Could not find:? libnccl-net"
        r"|Failed to (?:open|load|find).{0,40}libnccl-net|Failed to find ncclNetPlugin"
        r"|No plugin found \(libnccl-net",
        "log",
    ),
    _rule(
        "daemon-refused",
        r"receive (?:manager|daemon).{0,120}refused|RxDM.{0,60}(?:not ready|refused|unavailable)"
        r"|rx_rule_manager.{0,60}refused|tcpgpudmarxd.{0,60}refused",
        "log",
    ),
    _rule(
        "peers-unreachable",
        r"ssh: connect to host .{0,160}(?:refused|timed out|No route)"
        r"|Could not resolve hostname|ORTE was unable to reliably start",
        "log",
        before_start=True,
    ),
    _rule(
        "firewall-closed",
        r"connect(?:ion)? (?:to .{0,120} )?timed out|accept timed? ?out|No route to host"
        r"|timed out waiting for .{0,60}(?:connect|accept|peer)",
        "log",
        before_table=True,
    ),
    _rule("wrong-mtu", r"Message too long|EMSGSIZE|mtu mismatch|fragmentation needed", "log"),
    _rule("gpu-fault", r"NVRM: Xid|uncorrectable ECC|GPU has fallen off the bus", "log"),
)


def causes_in(
    text: str, kind: Kind, *, table_seen: bool = False, started: bool = False
) -> Iterator[str]:
    """Yield the causes that a text names, each once, in the order of the rules.

    Args:
        text: The text; what is beyond `MAX_TEXT_CHARACTERS` is not read.
        kind: Where it comes from.
        table_seen: Whether the test has printed its table.
        started: Whether the test has listed its ranks.
    """
    text = text[:MAX_TEXT_CHARACTERS]
    seen = set()
    for rule in TEXT_RULES:
        if kind not in rule.kinds or rule.cause in seen:
            continue
        if (rule.before_table and table_seen) or (rule.before_start and (started or table_seen)):
            continue
        if rule.pattern.search(text) is not None:
            seen.add(rule.cause)
            yield rule.cause


def most_telling(lines: Sequence[str]) -> tuple[str, str | None]:
    """Return the line that names the weightiest cause, and that cause.

    Where no line names one, the first line and None.
    """
    named = [(weight(cause), line, cause) for line in lines for cause in causes_in(line, "log")]
    if not named:
        return lines[0], None
    _, line, cause = min(named, key=lambda entry: entry[0])
    return line, cause
