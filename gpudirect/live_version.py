"""The version that a live cluster runs, which no config names where GKE chose it.

Owns the comparison of the stack's last state with the floors. Does not own reading the state
(`components.deployed_state`) nor the version that a config names (`version_settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpudirect.findings import Finding, full_key, set_command
from gpudirect.replacement import clusters_in
from gpudirect.settings import Settings
from gpudirect.version_settings import floor_of, floor_words
from gpudirect.versions import GkeVersion


def version_below_floor(
    previous: Mapping[str, Mapping[str, Any]], current: Settings
) -> tuple[Finding, ...]:
    """Return a warning where the live cluster is older than GPUDirect needs and is to stay so.

    Args:
        previous: Outputs of every resource in the stack's last state, by URN.
        current: What the config asks for now.
    """
    if current.cluster.version is not None:
        return ()  # It has been compared, and the update upgrades the cluster to it.
    for outputs in clusters_in(previous):
        try:
            running = GkeVersion.parse(str(outputs.get("masterVersion")))
        except ValueError:
            continue
        floor = floor_of(running, current.release)
        if floor is not None:
            expected, why = floor_words(floor)
            return (
                Finding(
                    key=full_key("clusterVersion"),
                    value="",
                    message=f"the cluster runs {running}, older than GPUDirect needs",
                    expected=expected,
                    why=why,
                    fix=set_command("clusterVersion", floor.version, stack_name=current.stack_name),
                    severity="warning",
                ),
            )
    return ()
