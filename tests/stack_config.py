"""The config that the engine would hand to the program for a tracked stack file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

PROJECT_FOLDER = Path(__file__).resolve().parents[1]
PROJECT = "gpudirect"


def _text(value: Any) -> str:
    """Return a config value as the engine writes it: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def defaults() -> dict[str, str]:
    """Return the defaults of `Pulumi.yaml`, with full keys."""
    schema = yaml.safe_load((PROJECT_FOLDER / "Pulumi.yaml").read_text())["config"]
    found = {}
    for key, entry in schema.items():
        full = key if ":" in key else f"{PROJECT}:{key}"
        if isinstance(entry, dict) and "default" in entry:
            found[full] = _text(entry["default"])
        elif isinstance(entry, dict) and "value" in entry:
            found[full] = _text(entry["value"])
    return found


def full_config(stack: str, **overrides: Any) -> dict[str, str]:
    """Return defaults, the stack file and the overrides (project keys) laid over one another."""
    file = yaml.safe_load((PROJECT_FOLDER / f"Pulumi.{stack}.yaml").read_text())
    own = {key: _text(value) for key, value in file["config"].items()}
    changed = {f"{PROJECT}:{key}": _text(value) for key, value in overrides.items()}
    return {**defaults(), **own, **changed}
