"""Every mistake in a set of stack files, each on its own and all beside one another.

Owns the checks that need the file rather than its values (syntax, keys twice, foreign namespaces)
and those between environments. Does not own the rules about values (`settings`) nor how findings
are printed (`cli/check`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network

from gpudirect.addressing import NamedRange, free_range
from gpudirect.cluster_settings import CREATE_NETWORK
from gpudirect.config_keys import CONFIG_KEYS
from gpudirect.config_text import SECRET, shown
from gpudirect.findings import PROJECT, Finding, full_key, remove_command, set_command
from gpudirect.settings import Settings, SettingsReading, read_settings
from gpudirect.stack_files import (
    DeclaredKey,
    StackFile,
    StackFileError,
    merged_values,
    parse_stack_file,
)
from gpudirect.versions import ServerConfig

# Keys of providers that are called as keys of this project are.
_NAMES_OF_OTHERS = {"gcp": ("zone",)}
_READ_OF_GCP = ("project", "region", "universeDomain")


@dataclass(slots=True)
class CheckedFile:
    """What came of one stack file.

    Attributes:
        path: As it was named.
        stack_name: From its name.
        findings: What is wrong with it, in the order of its lines.
        settings: What it means, or None where it is refused.
        reading: What could be read of it, even where it is refused.
        file: The file as it was read, or None where it is no stack file.
        is_elsewhere: Whether it is beside no program, and so of none of its environments.
    """

    path: str
    stack_name: str
    findings: list[Finding] = field(default_factory=list)
    settings: Settings | None = None
    reading: SettingsReading | None = None
    file: StackFile | None = None
    is_elsewhere: bool = False

    @property
    def ranges(self) -> tuple[NamedRange, ...]:
        """The ranges that could be read."""
        return self.reading.ranges if self.reading else ()

    def add(self, finding: Finding) -> None:
        """Add a finding, with its place in the file."""
        line = self.file.line_of(finding.key) if self.file else 1
        self.findings.append(replace(finding, file=self.path, line=finding.line or line))


def check_file(
    content: str | bytes,
    *,
    path: str,
    stack_name: str,
    declared: Mapping[str, DeclaredKey],
    server_config: ServerConfig | None = None,
) -> CheckedFile:
    """Check one stack file.

    Args:
        content: The file's content; bytes are to be UTF-8.
        path: How the file is named in findings.
        stack_name: The stack that it is for.
        declared: The keys of `Pulumi.yaml`, for the defaults.
        server_config: Google's list of versions, where it is at hand.
    """
    checked = CheckedFile(path=path, stack_name=stack_name)
    text = content if isinstance(content, str) else content.decode(errors="replace")
    try:
        if isinstance(content, bytes):
            _check_encoding(content)
        file = parse_stack_file(text, path=path, stack_name=stack_name)
    except StackFileError as error:
        checked.add(
            Finding(
                key="config",
                value=_line(text, error.line),
                message=str(error),
                expected="a YAML mapping with the key config, as `pulumi config set` writes it",
                why="Pulumi cannot read it either",
                fix="mend the file by hand",
                line=error.line,
            )
        )
        return checked
    checked.file = file
    for key, line in file.duplicates:
        checked.add(_twice(key, _line(text, line), line))
    for key, line in file.strangers:
        finding = _stranger(key, _line(text, line), line, stack_name)
        if finding:
            checked.add(finding)
    for finding in (*_foreign_keys(file), *_misspelt_keys(file), *_idle_keys(file)):
        checked.add(finding)
    reading = read_settings(
        stack_name=stack_name,
        values=merged_values(file, declared),
        gcp=file.gcp,
        secret_keys=file.secret_keys,
        server_config=server_config,
        written=file.written,
    )
    for finding in reading.findings:
        checked.add(finding)
    checked.settings, checked.reading = reading.settings, reading
    checked.findings.sort(key=lambda finding: finding.line)
    return checked


def check_between(files: Sequence[CheckedFile], others: Sequence[CheckedFile] = ()) -> None:
    """Add findings about environments that are in one another's way.

    Args:
        files: Those that findings go to; of a pair, the later one gets it.
        others: The program's further environments, to compare its own ones with.
    """
    everybody = [item.network for file in (*others, *files) for item in _stated(file)]
    for number, checked in enumerate(files):
        rest = (*(() if checked.is_elsewhere else others), *files[:number])
        ranges = _shared_ranges(checked, rest, everybody)
        for finding in (*ranges, *_shared_names(checked, rest)):
            checked.add(finding)
        checked.findings.sort(key=lambda finding: finding.line)


def _stated(checked: CheckedFile) -> list[NamedRange]:
    return [item for item in checked.ranges if item.stated]


def _shared_ranges(
    checked: CheckedFile, others: Sequence[CheckedFile], everybody: Sequence[IPv4Network]
) -> Iterator[Finding]:
    foreign = [(item, other) for other in others for item in _stated(other)]
    for mine in _stated(checked):
        shared = [pair for pair in foreign if mine.network.overlaps(pair[0].network)]
        if not shared:
            continue
        owners = ", ".join(
            f"{full_key(item.key)} {item.network} of stack {other.stack_name} ({other.path})"
            for item, other in shared
        )
        implied = [item.network for item in checked.ranges if not item.stated]
        free = free_range(mine.network.prefixlen, [*everybody, *implied])
        yield Finding(
            key=full_key(mine.key),
            value=mine.seen,
            message=f"it shares addresses with {owners}",
            expected="ranges that no other environment has",
            why="environments that are joined one day, by peering or a shared network, could not "
            "reach one another",
            fix=set_command(mine.key, free, stack_name=checked.stack_name)
            if free
            else remove_command(mine.key, stack_name=checked.stack_name),
        )


def _shared_names(checked: CheckedFile, others: Sequence[CheckedFile]) -> Iterator[Finding]:
    mine = checked.reading
    for other in others:
        theirs = other.reading
        if not (mine and theirs and mine.names and theirs.names):
            continue
        here, there = mine.location, theirs.location
        if here.universe is None or (here.universe, here.project) != (
            there.universe,
            there.project,
        ):
            continue
        if mine.names.prefix == theirs.names.prefix:
            key, value, what = "prefix", mine.names.prefix, "its resources have the names of those"
        elif here.region == there.region and mine.names.cluster == theirs.names.cluster:
            key, value, what = "clusterName", mine.names.cluster, "its cluster has the name of that"
        else:
            continue
        own = checked.stack_name if key == "prefix" else f"{checked.stack_name}-cluster"
        yield Finding(
            key=full_key(key),
            value=value,
            message=f"{what} of stack {other.stack_name} ({other.path})",
            expected="names that no other environment of the project has",
            why="Google makes nothing twice under one name",
            fix=set_command(key, own, stack_name=checked.stack_name),
        )


def _check_encoding(content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StackFileError("no text in UTF-8", line) from error


def _line(text: str, number: int) -> str:
    """Return a line of a file for a message; of one that may hold a secret, nothing."""
    lines = text.splitlines()
    line = lines[number - 1].strip() if number <= len(lines) else ""
    return SECRET if "secure" in line else shown(line)


def _stranger(key: str, seen: str, line: int, stack_name: str) -> Finding | None:
    """Return a finding about a key beside `config`, where it was meant for the config."""
    namespace, colon, name = key.partition(":")
    own = name if colon else namespace
    is_config = difflib.get_close_matches(key.lower(), ["config"], n=1, cutoff=0.8)
    if not (colon or is_config or own in CONFIG_KEYS):
        return None
    target = name if namespace == PROJECT else key
    return Finding(
        key=key,
        value=seen,
        message="a key beside config that Pulumi does not read",
        expected="config, in small letters" if is_config else "the key below config",
        why="what it holds would change nothing, in silence",
        fix=f"call it config in line {line}"
        if is_config
        else f"delete line {line}, then {set_command(target, 'VALUE', stack_name=stack_name)}",
        line=line,
    )


def _twice(key: str, seen: str, line: int) -> Finding:
    return Finding(
        key=key,
        value=seen,
        message="the key is there twice",
        expected="it once",
        why="Pulumi refuses the file, and other readers take the last one in silence",
        fix=f"delete line {line}, or the line that says it first",
        line=line,
    )


def _idle_keys(file: StackFile) -> Iterator[Finding]:
    """Warn of ranges that are written down and that another key leaves without effect."""
    network = file.values.get("clusterNetwork")
    for key, is_idle, expected, why in (
        (
            "fabricCidr",
            bool(file.values.get("fabricSubnets")),
            "fabricSubnets alone",
            "fabricSubnets takes its place",
        ),
        (
            "clusterNetworkCidr",
            network != CREATE_NETWORK,
            f"none, or clusterNetwork {CREATE_NETWORK}",
            "no other choice of clusterNetwork makes a subnet",
        ),
    ):
        if is_idle and file.values.get(key) and key not in file.secret_keys:
            yield Finding(
                key=full_key(key),
                value=shown(file.values[key]),
                message="it has no effect",
                expected=expected,
                why=why,
                fix=remove_command(key, stack_name=file.stack_name),
                severity="warning",
            )


def _misspelt_keys(file: StackFile) -> Iterator[Finding]:
    """Warn of a provider's key that nearly is one that the program reads."""
    for key, value in file.others.items():
        namespace, _, name = key.partition(":")
        near = difflib.get_close_matches(name, _READ_OF_GCP, n=1, cutoff=0.8)
        if namespace == "gcp" and near and name not in _READ_OF_GCP:
            remove = remove_command(key, stack_name=file.stack_name)
            add = set_command(f"gcp:{near[0]}", value or "VALUE", stack_name=file.stack_name)
            yield Finding(
                key=key,
                value=value,
                message="a key that neither the program nor the provider reads",
                expected=f"gcp:{near[0]}, the nearest known key",
                why="it would change nothing, in silence",
                fix=f"{remove} && {add}",
                severity="warning",
            )


def _foreign_keys(file: StackFile) -> list[Finding]:
    found = []
    for key, value in file.others.items():
        namespace, _, name = key.partition(":")
        if name not in CONFIG_KEYS or name in _NAMES_OF_OTHERS.get(namespace, ()):
            continue
        remove = remove_command(key, stack_name=file.stack_name)
        add = set_command(name, value or "VALUE", stack_name=file.stack_name)
        found.append(
            Finding(
                key=key,
                value=value,
                message="a key of this project in another namespace",
                expected=full_key(name),
                why="the program does not see it",
                fix=f"{remove} && {add}",
            )
        )
    return found
