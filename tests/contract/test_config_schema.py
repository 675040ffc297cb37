"""One set of config keys: Pulumi.yaml, the key data, the settings, the README, the stack files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from gpudirect.config_keys import CONFIG_KEYS, OTHER_NAMES, Effect
from gpudirect.config_table import BEGIN, END, config_table, with_table
from gpudirect.findings import PROJECT
from gpudirect.settings import read_settings
from gpudirect.stack_files import declared_keys
from tests.stack_config import PROJECT_FOLDER

PROJECT_FILE = PROJECT_FOLDER / "Pulumi.yaml"
DECLARED = declared_keys(PROJECT_FILE)
STACK_FILES = sorted(PROJECT_FOLDER.glob("Pulumi.*.yaml"))

_FORMS = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def test_the_project_has_the_namespace_of_the_keys() -> None:
    data = yaml.safe_load(PROJECT_FILE.read_text())
    assert data["name"] == PROJECT
    assert all(key.startswith((f"{PROJECT}:", "pulumi:")) for key in data["config"])


def test_the_project_declares_the_known_keys_with_their_types() -> None:
    assert {name: key.type for name, key in DECLARED.items()} == {
        name: key.type for name, key in CONFIG_KEYS.items()
    }


@pytest.mark.parametrize("name", sorted(CONFIG_KEYS))
def test_a_key_has_a_default_of_its_type_and_a_meaning(name: str) -> None:
    declared, known = DECLARED[name], CONFIG_KEYS[name]
    # Without a default Pulumi takes a key for required, and tells one missing key at a time.
    assert type(declared.default) is _FORMS[known.type]
    assert declared.description.endswith((".", ". 0 for not said."))
    assert "\n" not in declared.description
    # The empty text is a default exactly where it means something; gpuStack alone has none.
    empty = declared.default == ""
    assert empty == (known.optional or name == "gpuStack")
    for choice in known.choices:
        assert f"`{choice}`" in declared.description
        assert known.optional or name == "gpuStack" or declared.default in known.choices


def test_arrays_say_what_they_hold() -> None:
    config = yaml.safe_load(PROJECT_FILE.read_text())["config"]
    for name, key in CONFIG_KEYS.items():
        if key.type == "array":
            assert config[f"{PROJECT}:{name}"]["items"] == {"type": "string"}


class _Watched(Mapping[str, object]):
    """A config that remembers which keys were asked for."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values_ = values
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self.asked.add(name)
        return self.values_[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


def test_the_settings_read_every_key_and_no_other() -> None:
    base: dict[str, object] = {name: key.default for name, key in DECLARED.items()}
    asked: set[str] = set()
    for change in (
        {"gpuStack": "a3-mega"},
        {"gpuStack": "a3-mega", "clusterNetwork": "create", "smokeTest": "off"},
    ):
        watched = _Watched({**base, **change})
        reading = read_settings(stack_name="dev", values=watched, gcp={"region": "us-east4"})
        assert reading.findings == ()
        asked |= watched.asked
    assert asked == set(CONFIG_KEYS)


def test_a_name_that_does_not_exist_is_not_a_key() -> None:
    assert not set(OTHER_NAMES) & set(CONFIG_KEYS)


def test_every_class_of_change_has_a_key() -> None:
    assert {key.effect for key in CONFIG_KEYS.values()} == set(Effect)


@pytest.mark.parametrize("file", STACK_FILES, ids=lambda file: file.name)
def test_a_tracked_stack_file_holds_known_keys_and_no_project(file: Path) -> None:
    config = yaml.safe_load(file.read_text())["config"]
    own = {key.removeprefix(f"{PROJECT}:") for key in config if key.startswith(f"{PROJECT}:")}
    assert own <= set(CONFIG_KEYS)
    assert set(config) - {f"{PROJECT}:{name}" for name in own} == {"gcp:region"}


def test_both_stacks_are_tracked() -> None:
    assert [file.name for file in STACK_FILES] == ["Pulumi.dev.yaml", "Pulumi.staging.yaml"]


def test_the_reference_in_the_readme_is_that_of_the_keys() -> None:
    """Run `python -m gpudirect.config_table` when this fails."""
    readme = (PROJECT_FOLDER / "README.md").read_text()
    table = config_table(DECLARED)
    assert with_table(readme, table) == readme
    rows = re.findall(r"^\| `(\w+)` \|", readme[readme.index(BEGIN) : readme.index(END)], re.M)
    assert rows == list(CONFIG_KEYS)


def test_a_readme_without_a_place_for_the_reference_is_told() -> None:
    with pytest.raises(ValueError, match="expected the marks"):
        with_table("# nothing\n", "table")
