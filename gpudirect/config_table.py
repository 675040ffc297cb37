"""The config reference of the README, from `Pulumi.yaml` and the classes of change.

Owns the table and its place between two marks. `python -m gpudirect.config_table` writes it anew; a
contract test fails when the README has another one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from gpudirect.config_keys import CONFIG_KEYS, ConfigKey
from gpudirect.stack_files import PROJECT_FILE, DeclaredKey, declared_keys

BEGIN, END = "<!-- config-table -->", "<!-- /config-table -->"

# Keys of the provider have no schema in Pulumi.yaml; these three shape the environment.
_PROVIDER_ROWS = """\
| `gcp:region` | string |  | Region of cluster and subnets. Required. | replaces the cluster |
| `gcp:project` | string |  | Google Cloud project. Empty for GOOGLE_PROJECT and its like in the \
environment. | replaces the cluster |
| `gcp:universeDomain` | string | `googleapis.com` | `s3nsapis.fr` for Cloud de Confiance by S3NS, \
which has A3 High alone, through a ComputeClass. | replaces the cluster |"""

_HEAD = "| key | type | default | meaning | changing it |\n|---|---|---|---|---|"


def config_table(declared: Mapping[str, DeclaredKey]) -> str:
    """Return one table a theme, in Markdown."""
    parts = []
    for theme, keys in groupby(CONFIG_KEYS.values(), key=lambda key: key.theme):
        rows = "\n".join(_row(key, declared[key.name]) for key in keys)
        title = theme[0].upper() + theme[1:]
        parts.append(f"### {title}\n\n{_HEAD}\n{rows}")
    parts.append(f"### Google Cloud\n\n{_HEAD}\n{_PROVIDER_ROWS}")
    return "\n\n".join(parts)


def with_table(readme: str, table: str) -> str:
    """Return a README with the table between its marks.

    Raises:
        ValueError: the README lacks the marks.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md: expected the marks {BEGIN} and {END} around the table")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Write the table into the README of the checkout."""
    root = Path(__file__).resolve().parents[1]
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(
        with_table(text, config_table(declared_keys(root / PROJECT_FILE))), encoding="utf-8"
    )
    sys.stdout.write(f"{readme}: config reference written\n")


def _row(key: ConfigKey, declared: DeclaredKey) -> str:
    meaning = declared.description.replace("|", "\\|")
    default = _default(declared.default)
    return f"| `{key.name}` | {key.type} | {default} | {meaning} | {key.effect.value} |"


def _default(value: Any) -> str:
    if value in ("", [], {}):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    main()
