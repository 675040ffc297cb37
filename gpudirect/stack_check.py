"""Every mistake in a set of stack files, each on its own and all beside one another.

Owns the checks that need the file rather than its values (syntax, keys twice, foreign namespaces)
and those between environments. Does not own the rules about values (`settings`) nor how findings
are printed (`cli/check`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network

from gpudirect.addressing import NamedRange, free_range
from gpudirect.config_keys import CONFIG_KEYS
from gpudirect.findings import Finding, full_key, remove_command, set_command
from gpudirect.settings import Settings, read_settings
from gpudirect.stack_files import (
    DeclaredKey,
    StackFile,
    StackFileError,
    merged_values,
    parse_stack_file,
)
from gpudirect.versions import ServerConfig

_KNOWN_NAMESPACES = ("gpudirect", "gcp", "kubernetes", "pulumi")


@dataclass(slots=True)
class CheckedFile:
    """What came of one stack file.

    Attributes:
        path: As it was named.
        stack_name: From its name.
        findings: What is wrong with it, in the order of its lines.
        settings: What it means, or None where it is refused.
        ranges: The ranges that could be read.
        file: The file as it was read, or None where it is no stack file.
    """

    path: str
    stack_name: str
    findings: list[Finding] = field(default_factory=list)
    settings: Settings | None = None
    ranges: tuple[NamedRange, ...] = ()
    file: StackFile | None = None

    def add(self, finding: Finding) -> None:
        """Add a finding, with its place in the file."""
        line = self.file.line_of(finding.key) if self.file else 1
        self.findings.append(replace(finding, file=self.path, line=finding.line or line))


def check_file(
    text: str,
    *,
    path: str,
    stack_name: str,
    declared: Mapping[str, DeclaredKey],
    server_config: ServerConfig | None = None,
) -> CheckedFile:
    """Check the text of one stack file.

    Args:
        text: The file's content.
        path: How the file is named in findings.
        stack_name: The stack that it is for.
        declared: The keys of `Pulumi.yaml`, for the defaults.
        server_config: Google's list of versions, where it is at hand.
    """
    checked = CheckedFile(path=path, stack_name=stack_name)
    try:
        file = parse_stack_file(text, path=path, stack_name=stack_name)
    except StackFileError as error:
        checked.add(
            Finding(
                key="config",
                value="",
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
        checked.add(_twice(key, line))
    for finding in _foreign_keys(file):
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
    checked.settings, checked.ranges = reading.settings, reading.ranges
    checked.findings.sort(key=lambda finding: finding.line)
    return checked


def check_between(files: Sequence[CheckedFile], others: Sequence[CheckedFile] = ()) -> None:
    """Add findings about environments that are in one another's way.

    Args:
        files: Those that findings go to; of a pair, the later one gets it.
        others: More to compare them with.
    """
    everybody = [item.network for file in (*others, *files) for item in _stated(file)]
    for number, checked in enumerate(files):
        rest = (*others, *files[:number])
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
            value=str(mine.network),
            message=f"it shares addresses with {owners}",
            expected="ranges that no other environment has",
            why="environments that are joined one day, by peering or a shared network, could not "
            "reach one another",
            fix=set_command(mine.key, free, stack_name=checked.stack_name)
            if free
            else remove_command(mine.key, stack_name=checked.stack_name),
        )


def _shared_names(checked: CheckedFile, others: Sequence[CheckedFile]) -> Iterator[Finding]:
    for other in others:
        if checked.settings and other.settings:
            yield from _same_names(checked.settings, other.settings, other.path)


def _same_names(mine: Settings, theirs: Settings, path: str) -> list[Finding]:
    if mine.project != theirs.project or mine.universe != theirs.universe:
        return []
    found = []
    if mine.fabric.nics[0].vpc_name == theirs.fabric.nics[0].vpc_name:
        found.append(("prefix", mine.prefix, "its resources have the names of those"))
    elif mine.region == theirs.region and mine.cluster.name == theirs.cluster.name:
        found.append(("clusterName", mine.cluster.name, "its cluster has the name of that"))
    return [
        Finding(
            key=full_key(key),
            value=value,
            message=f"{what} of stack {theirs.stack_name} ({path})",
            expected="names that no other environment of the project has",
            why="Google makes nothing twice under one name",
            fix=set_command(
                key,
                mine.stack_name if key == "prefix" else f"{mine.stack_name}-cluster",
                stack_name=mine.stack_name,
            ),
        )
        for key, value, what in found
    ]


def _twice(key: str, line: int) -> Finding:
    return Finding(
        key=key,
        value="",
        message="the key is there twice",
        expected="it once",
        why="Pulumi refuses the file, and other readers take the last one in silence",
        fix=f"delete line {line}, or the line that says it first",
        line=line,
    )


def _foreign_keys(file: StackFile) -> list[Finding]:
    found = []
    for key, value in file.others.items():
        namespace, _, name = key.partition(":")
        if namespace in _KNOWN_NAMESPACES or name not in CONFIG_KEYS:
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
