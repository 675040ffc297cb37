"""Settings for tests: the defaults of `Pulumi.yaml`, a stack, and what a test changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpudirect.findings import Finding
from gpudirect.settings import Settings, SettingsReading, load_settings, read_settings
from gpudirect.stack_files import declared_keys
from tests.stack_config import PROJECT_FOLDER

ENVIRON = {"GOOGLE_PROJECT": "example-project"}
REGION = {"region": "us-east4"}
DECLARED = declared_keys(PROJECT_FOLDER / "Pulumi.yaml")


def engine_text(value: Any) -> str:
    """Return a config value as the engine hands it to the program."""
    return value if isinstance(value, str) else json.dumps(value)


def config_values(**overrides: Any) -> dict[str, str]:
    """Return every key of an A3 Mega stack, as the engine hands them over."""
    values = {name: engine_text(key.default) for name, key in DECLARED.items()}
    values["gpuStack"] = "a3-mega"
    return values | {name: engine_text(value) for name, value in overrides.items()}


def reading(
    *, stack_name: str = "dev", gcp: Mapping[str, str] = REGION, **overrides: Any
) -> SettingsReading:
    return read_settings(
        stack_name=stack_name, values=config_values(**overrides), gcp=gcp, environ=ENVIRON
    )


def settings(
    *, stack_name: str = "dev", gcp: Mapping[str, str] = REGION, **overrides: Any
) -> Settings:
    return load_settings(
        stack_name=stack_name, values=config_values(**overrides), gcp=gcp, environ=ENVIRON
    )


def findings(**arguments: Any) -> list[Finding]:
    return list(reading(**arguments).findings)


def errors(**arguments: Any) -> list[Finding]:
    return [finding for finding in findings(**arguments) if finding.severity == "error"]


def the_error(**arguments: Any) -> Finding:
    """Return the only error, and fail when there are others beside it."""
    found = errors(**arguments)
    assert len(found) == 1, found
    return found[0]
