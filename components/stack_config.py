"""Hands the stack's config to `gpudirect.settings`, as Pulumi gives it.

Owns nothing but the translations: of what Pulumi knows into settings, and of settings into what the
renderer of workloads wants. Every rule and every message about a value lives in
`gpudirect.settings`, the rules about what is live in `gpudirect.replacement`.
"""

import re
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.runtime import config as runtime_config

from gpudirect.cluster_access import missing_login_helper
from gpudirect.live_version import version_below_floor
from gpudirect.replacement import replacement_guard, spare_leave
from gpudirect.settings import Settings, SettingsError, load_settings
from gpudirect.workloads import Environment

_GCP_KEYS = ("project", "region", "zone", "universeDomain")


def read_settings(
    environ: Mapping[str, str], deployed: Mapping[str, Mapping[str, Any]]
) -> Settings:
    """Return the checked settings of the selected stack.

    Args:
        environ: The process's environment.
        deployed: The outputs of the last state's resources, by URN.

    Raises:
        pulumi.RunError: one message with every problem, or with everything live that the update
            would take away without leave, or with the login helper that an update will need. No
            resource has been registered by then, so that none of it leaves half an environment.
    """
    # A language host hands the config over by a call or by the environment.
    config = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
    project = pulumi.get_project()
    values: dict[str, Any] = {
        key.removeprefix(f"{project}:"): value
        for key, value in config.items()
        if key.startswith(f"{project}:")
    }
    try:
        settings = load_settings(
            stack_name=pulumi.get_stack(),
            values=values,
            gcp={key: config[f"gcp:{key}"] for key in _GCP_KEYS if f"gcp:{key}" in config},
            environ=environ,
            secret_keys=frozenset(
                key.removeprefix(f"{project}:")
                for key in config
                if runtime_config.is_config_secret(key)
                or key in runtime_config.get_config_secret_keys_env()
            ),
        )
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None
    refusals = replacement_guard(deployed, settings)
    if refusals:
        raise pulumi.RunError(str(SettingsError(refusals, stack_name=settings.stack_name)))
    # A preview enters no cluster; an update would notice only after 20 minutes [R35].
    missing = missing_login_helper(path=environ.get("PATH", ""))
    if missing is not None and not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(missing)
    of_state = (*spare_leave(deployed, settings), *version_below_floor(deployed, settings))
    for warning in (*settings.warnings, *of_state):
        pulumi.log.warn(str(warning))
    return settings


def workload_environment(settings: Settings) -> Environment:
    """Return what the stack offers to workloads, its own smoke test among them."""
    return Environment(
        stack=settings.gpu_stack,
        release=settings.release,
        networks=settings.network_names,
        profile=settings.profile,
        image_registry=settings.image_registry,
        node_selector=settings.capacity.node_selector(),
    )


def stack_label(settings: Settings) -> str:
    """Return the stack's name as a label value (lower case, digits, dash, underscore; 63)."""
    return re.sub(r"[^a-z0-9_-]", "-", settings.stack_name.lower())[:63]
