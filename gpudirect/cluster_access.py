"""A client of a cluster's API server, from a stack's output or from a kubeconfig file.

Owns the way in and the sentence that says why there is none. Does not own what is read there
(`cluster_evidence`).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudirect.installed_programs import NoAnswerError, ask
from gpudirect.kubeconfig import AUTH_PLUGIN
from gpudirect.redaction import redact

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_ANSWER_TIMEOUT_SECONDS = (5, 20)


class ClusterAccessError(ValueError):
    """There is no way into the cluster; the text says why and what to do."""


class LoginHelperMissingError(ClusterAccessError):
    """The program that the kubeconfig names for the login is not on PATH."""


def read_stack_kubeconfig(stack: str, *, program: Path | None = None) -> dict[str, Any]:
    """Return the kubeconfig of a Pulumi stack, a secret output; it is kept in memory only.

    Raises:
        ClusterAccessError: no Pulumi, no such stack, or no kubeconfig in it.
    """
    command = ("pulumi", "stack", "output", "kubeconfig", "--show-secrets", "--non-interactive")
    try:
        text = ask(*command, "--stack", stack, folder=program)
    except NoAnswerError as error:
        raise ClusterAccessError(
            f"the kubeconfig of stack {stack!r} cannot be read: {redact(str(error))}. "
            "`pulumi stack ls` lists the stacks; --kubeconfig names a file instead."
        ) from error
    return _kubeconfig(text, f"output kubeconfig of stack {stack!r}")


def read_kubeconfig_file(path: Path) -> dict[str, Any]:
    """Return the content of a kubeconfig file.

    Raises:
        ClusterAccessError: the file cannot be read or is no kubeconfig.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterAccessError(f"the kubeconfig {path} cannot be read: {error}") from error
    return _kubeconfig(text, str(path))


def connect(kubeconfig: Mapping[str, Any], *, context: str | None = None) -> ApiClient:
    """Return a client that the API server answers.

    Args:
        kubeconfig: Content of a kubeconfig.
        context: Context to use in place of the current one.

    Raises:
        LoginHelperMissingError: the login helper is not on PATH.
        ClusterAccessError: the API server cannot be reached or refuses the login.
    """
    _check_login_helper(kubeconfig, context)
    import kubernetes
    import urllib3

    try:
        client = kubernetes.config.new_client_from_config_dict(dict(kubeconfig), context=context)
    except (kubernetes.config.ConfigException, TypeError, KeyError) as error:
        raise ClusterAccessError(f"the kubeconfig cannot be used: {error}") from error
    server = client.configuration.host
    client.configuration.retries = False
    try:
        kubernetes.client.VersionApi(client).get_code(
            _preload_content=False, _request_timeout=_ANSWER_TIMEOUT_SECONDS
        )
    except kubernetes.client.exceptions.ApiException as error:
        hint = " Log in with `gcloud auth login`." if error.status in (401, 403) else ""
        raise ClusterAccessError(
            f"the API server {server} answered {error.status} {error.reason}.{hint}"
        ) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ClusterAccessError(
            f"the API server {server} cannot be reached: {error}. Is the cluster still there, and "
            "is this machine in its authorized networks?"
        ) from error
    return client


def _kubeconfig(text: str, source: str) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ClusterAccessError(f"{source} is no YAML") from error
    if not isinstance(content, dict) or not content.get("clusters"):
        raise ClusterAccessError(f"{source} is no kubeconfig: it has no clusters")
    return content


def _check_login_helper(kubeconfig: Mapping[str, Any], context: str | None) -> None:
    """Say in one sentence what is missing, before a client library says it in twenty [R35]."""
    wanted = context or kubeconfig.get("current-context")
    contexts = {
        entry.get("name"): entry.get("context") for entry in _entries(kubeconfig, "contexts")
    }
    if wanted not in contexts:
        known = ", ".join(str(name) for name in contexts) or "none"
        raise ClusterAccessError(f"the kubeconfig has no context {wanted!r}; it has: {known}")
    user = (contexts[wanted] or {}).get("user")
    users = {entry.get("name"): entry.get("user") for entry in _entries(kubeconfig, "users")}
    helper = ((users.get(user) or {}).get("exec") or {}).get("command")
    missing = missing_login_helper(str(helper)) if helper else None
    if missing is not None:
        raise LoginHelperMissingError(missing)


def missing_login_helper(helper: str = AUTH_PLUGIN, path: str | None = None) -> str | None:
    """Return one sentence that says that a login helper is missing, None where it is there.

    Args:
        helper: Name of the program.
        path: Folders to look in, as in `PATH`; by default those of this process.
    """
    if shutil.which(helper, path=path) is not None:
        return None
    hint = (
        f"Install it with `gcloud components install {AUTH_PLUGIN}` and put it on PATH."
        if helper == AUTH_PLUGIN
        else "Install it or put it on PATH."
    )
    return f"{helper}, the login helper of the kubeconfig, is not on PATH. {hint}"


def _entries(kubeconfig: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [entry for entry in kubeconfig.get(key) or () if isinstance(entry, dict)]
