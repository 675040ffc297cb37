"""Stack files as they are in the working tree, with the line of each key.

Owns reading `Pulumi.yaml` and `Pulumi.STACK.yaml` without the engine, so that each value comes out
as the program would see it and as it is written. Does not own the rules about values (`settings`)
nor what is said about files that cannot be read as config (`stack_check`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from gpudirect.config_text import SECRET, place_in
from gpudirect.findings import PROJECT
from gpudirect.go_scalars import as_text, resolve
from gpudirect.yaml_errors import tab_in_front

PROJECT_FILE = "Pulumi.yaml"
_MOST_PLACES = 100_000
_TEXT_TAG = re.compile(r"(&\S+\s+)?!!str\s")
_STACK_FILE = re.compile(r"Pulumi\.(.+)\.ya?ml")


class StackFileError(ValueError):
    """A file that is no stack file.

    Attributes:
        line: Where, from 1.
    """

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


# What Pulumi itself keeps in a stack file beside the config.
_TOP_LEVEL = ("config", "secretsprovider", "encryptionsalt", "encryptedkey", "environment")


@dataclass(frozen=True, kw_only=True, slots=True)
class DeclaredKey:
    """A key as `Pulumi.yaml` declares it."""

    type: str
    default: Any
    description: str


@dataclass(slots=True)
class StackFile:
    """One stack file.

    Attributes:
        path: As it was named.
        stack_name: From its name.
        text: Its content.
        values: Keys of the project without namespace, as the program would see them; arrays and
            objects as data.
        others: Keys of other namespaces, in full.
        secret_keys: Keys of the project that are or hold secrets, without namespace.
        written: Unquoted scalars as they are written, by key or place inside one.
        lines: Line of each key and place, in the form that findings name them.
        duplicates: Keys and places that are there twice, in full, with the second line.
        strangers: Keys beside `config` that Pulumi does not know, with their lines.
    """

    path: str
    stack_name: str
    text: str = field(default="", repr=False)
    values: dict[str, Any] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    secret_keys: set[str] = field(default_factory=set)
    written: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    duplicates: list[tuple[str, int]] = field(default_factory=list)
    strangers: list[tuple[str, int]] = field(default_factory=list)

    @property
    def gcp(self) -> dict[str, str]:
        """Keys of the `gcp` namespace without it."""
        return {
            key.removeprefix("gcp:"): value
            for key, value in self.others.items()
            if key.startswith("gcp:")
        }

    def line_of(self, key: str) -> int:
        """Return the line of a key or place, of the nearest thing around it, or the first line."""
        while key not in self.lines:
            shorter = re.sub(r"(\.[^.\[]+|\[(\d+|\".*\")\])$", "", key)
            if shorter == key:
                return self.lines.get("config", 1)
            key = shorter
        return self.lines[key]


def is_stack_file(path: Path) -> bool:
    """Return whether a file is named as Pulumi names stack files."""
    return _STACK_FILE.fullmatch(path.name) is not None


def stack_name_of(path: Path) -> str:
    """Return the stack that a file is for, by its name."""
    found = _STACK_FILE.fullmatch(path.name)
    return found[1] if found else path.stem


def declared_keys(project_file: Path) -> dict[str, DeclaredKey]:
    """Return the project's keys as `Pulumi.yaml` declares them, without namespace.

    Raises:
        StackFileError: the file is not there or declares nothing.
    """
    try:
        text = project_file.read_text(encoding="utf-8")
        data = yaml.load(text, Loader=_loader())  # noqa: S506 - both are safe loaders
        entries = dict(data["config"])
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StackFileError(f"{project_file}: no project file: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise StackFileError(f"{project_file}: no project file: it has no config") from error
    keys = {
        key.removeprefix(f"{PROJECT}:"): DeclaredKey(
            type=entry["type"],
            default=entry.get("default"),
            description=entry.get("description", ""),
        )
        for key, entry in entries.items()
        if isinstance(entry, dict) and "type" in entry
    }
    if not keys:
        raise StackFileError(f"{project_file}: no project file: it declares no key")
    return keys


def parse_stack_file(text: str, *, path: str, stack_name: str) -> StackFile:
    """Read the text of a stack file.

    Raises:
        StackFileError: it is no YAML, or holds no mapping where one belongs.
    """
    file = StackFile(path=path, stack_name=stack_name, text=text)
    try:
        root = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise StackFileError(
            f"no YAML: {error.problem}{tab_in_front(text.splitlines(), line)}", line
        ) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StackFileError(f"no YAML: {error.reason}", line) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise StackFileError(f"no YAML: {error}") from error
    if root is None:
        return file
    try:
        for key, node in _pairs(root, "the file"):
            line = key.start_mark.line + 1
            if key.value not in _TOP_LEVEL:
                file.strangers.append((key.value, line))
            if key.value != "config":
                continue
            if "config" in file.lines:
                file.duplicates.append(("config", line))
            file.lines["config"] = line
            if not _is_empty(node):
                for name, value in _pairs(node, "config"):
                    _add(file, name, value)
    except RecursionError as error:
        raise StackFileError("nested without end, as by an anchor that holds itself") from error
    return file


def merged_values(file: StackFile, declared: Mapping[str, DeclaredKey]) -> dict[str, Any]:
    """Return the values that the program would see: the file's over the defaults."""
    defaults = {
        name: as_text(key.default) if not isinstance(key.default, list | dict) else key.default
        for name, key in declared.items()
        if key.default is not None
    }
    return {**defaults, **file.values}


def _add(file: StackFile, key_node: Any, node: Any) -> None:
    name = str(key_node.value)
    namespace, colon, short = name.partition(":")
    full = name if colon else f"{PROJECT}:{name}"
    line = key_node.start_mark.line + 1
    if full in file.lines:
        file.duplicates.append((full, line))
    file.lines[full] = line
    if colon and namespace != PROJECT:
        file.others[name] = SECRET if _holds_secret(node) else _shown(node)
        return
    own = short if colon else name
    if _holds_secret(node):
        file.secret_keys.add(own)
        file.values[own] = SECRET
        return
    value = _value(file, own, node)
    # At the top Pulumi hands texts over; inside arrays and objects the types stay.
    file.values[own] = value if isinstance(value, list | dict) else as_text(value)


def _value(file: StackFile, place: str, node: Any) -> Any:
    if len(file.lines) > _MOST_PLACES:
        raise StackFileError("aliases that multiply without end", node.start_mark.line + 1)
    file.lines.setdefault(f"{PROJECT}:{place}", node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(file, f"{place}[{n}]", item) for n, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, item in node.value:
            name = str(key.value)
            inner = place_in(place, name)
            if name in found:
                file.duplicates.append((f"{PROJECT}:{inner}", key.start_mark.line + 1))
            found[name] = _value(file, inner, item)
        return found
    if node.style or _is_tagged_text(file, node):  # quoted, a block, or said to be text
        return node.value
    file.written[place] = node.value
    return resolve(node.value)


def _is_tagged_text(file: StackFile, node: Any) -> bool:
    written = file.text[node.start_mark.index : node.end_mark.index]
    return _TEXT_TAG.match(written) is not None


def _shown(node: Any) -> str:
    return as_text(node.value if node.style else resolve(node.value)) if _is_scalar(node) else "{}"


def _holds_secret(node: Any) -> bool:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        return keys == ["secure"] or any(_holds_secret(value) for _, value in node.value)
    return isinstance(node, yaml.SequenceNode) and any(map(_holds_secret, node.value))


def _pairs(node: Any, what: str) -> Iterator[tuple[Any, Any]]:
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise StackFileError(f"{what} holds {kind}, expected a mapping", node.start_mark.line + 1)
    for key, value in node.value:
        if not _is_scalar(key):
            raise StackFileError("a key that is no single word", key.start_mark.line + 1)
        yield key, value


def _is_scalar(node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode)


def _is_empty(node: Any) -> bool:
    return _is_scalar(node) and not node.style and resolve(node.value) is None


def _loader() -> Any:
    # The C loader, where PyYAML has it, takes a tenth of the time.
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
