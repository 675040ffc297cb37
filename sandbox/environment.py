"""The environment variables that lead clients into the sandbox, and the launchers on its PATH.

Owns how `pulumi`, `gcloud` and `kubectl` find the stand-ins. The program itself never asks where it
runs: these variables are all that differs [facts real-provider.md, gcloud-requests.md].
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from sandbox.home import PROJECT_FOLDER, Home

SANDBOX_PROJECT = "sandbox-project"
_PASSPHRASE = "sandbox"  # noqa: S105 - guards nothing but the sandbox's own state


def variables(home: Home, port: int) -> dict[str, str]:
    """Return every variable that a client needs, PATH in front of the caller's."""
    base = f"http://127.0.0.1:{port}"
    token = home.token()
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    own = [str(home.bin), str(Path(sys.executable).parent)]
    return {
        "PATH": os.pathsep.join([*own, *[folder for folder in path if folder not in own]]),
        "KUBECONFIG": str(home.root / "kubeconfig"),
        "PULUMI_BACKEND_URL": f"file://{home.root / 'pulumi'}",
        "PULUMI_HOME": str(home.root / "pulumi-home"),
        "PULUMI_CONFIG_PASSPHRASE": _PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_ERROR_OUTPUT_STRING": "1",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "GOOGLE_PROJECT": SANDBOX_PROJECT,
        "GOOGLE_OAUTH_ACCESS_TOKEN": token,
        "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": f"{base}/compute/v1/",
        "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{base}/container/v1beta1/",
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": f"{base}/serviceusage/v1/",
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT": f"{base}/resourcemanager/v1/",
        # Keeps the provider's look for a metadata server on this machine.
        "GCE_METADATA_HOST": f"127.0.0.1:{port}",
        "PULUMI_GCP_SKIP_REGION_VALIDATION": "true",
        "CLOUDSDK_CONFIG": str(home.root / "gcloud"),
        "CLOUDSDK_CORE_PROJECT": SANDBOX_PROJECT,
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_AUTH_ACCESS_TOKEN": token,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{base}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"{base}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{base}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{base}/",
    }


def shell_lines(values: dict[str, str]) -> str:
    """Return the variables as lines that a POSIX shell evaluates."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def write_launchers(home: Home, *, gcp_plugin: Path | None = None) -> None:
    """Put the plug-ins' launchers where the Pulumi engine and kubectl look for them.

    They name this interpreter and this clone, so that they work from any folder and shell. Resource
    plug-ins lie in Pulumi's own plug-in folder under the version that the program asks for: one that
    is found on PATH works as well, but makes the engine warn at each command.

    Args:
        home: Where to.
        gcp_plugin: A real `pulumi-resource-gcp` to use in place of the stand-in.
    """
    if not _has_language_host(home):
        _write(home.bin / "pulumi-language-python", _own_launcher("language_python"))
        _write(
            home.bin / "pulumi-resource-pulumi-python",
            f'exec {shlex.quote(sys.executable)} -u -m pulumi.dynamic "$@"',
        )
    _write(
        _plugin(home, "gcp", version("pulumi-gcp")),
        f'exec {shlex.quote(str(gcp_plugin))} "$@"'
        if gcp_plugin is not None
        else _own_launcher("pulumi_resource_gcp"),
    )
    _write(
        _plugin(home, "kubernetes", version("pulumi-kubernetes")),
        f'exec {shlex.quote(str(home.bin / "pulumi-resource-kubernetes"))} "$@"',
    )
    _write(home.bin / "gke-gcloud-auth-plugin", _AUTH_PLUGIN)


def _plugin(home: Home, name: str, plugin_version: str) -> Path:
    folder = home.root / "pulumi-home" / "plugins" / f"resource-{name}-v{plugin_version}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"pulumi-resource-{name}"


def _has_language_host(home: Home) -> bool:
    """Say whether a complete Pulumi, whose language host comes with it, is used."""
    pulumi = home.bin / "pulumi"
    return (
        pulumi.is_symlink() and (pulumi.resolve().parent / "pulumi-language-python-exec").exists()
    )


def _own_launcher(module: str) -> str:
    # -P keeps the folder that it is started in, the user's project, out of the stand-in's way.
    return (
        f"PYTHONPATH={shlex.quote(str(PROJECT_FOLDER))} exec {shlex.quote(sys.executable)} "
        f'-P -u -m sandbox.plugins.{module} "$@"'
    )


# What `gke-gcloud-auth-plugin` prints: a token for the API server, from the variable that the real
# one looks at first.
_AUTH_PLUGIN = """\
case "${1:-}" in
  --version) echo "Kubernetes sandbox"; exit 0 ;;
esac
if [ -z "${CLOUDSDK_AUTH_ACCESS_TOKEN:-}" ]; then
  echo "gke-gcloud-auth-plugin: no CLOUDSDK_AUTH_ACCESS_TOKEN; eval the output of" \\
    "'python -m sandbox env' in this shell" >&2
  exit 1
fi
printf '%s%s%s\\n' \\
  '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1",' \\
  '"spec":{"interactive":false},"status":{"token":"' "$CLOUDSDK_AUTH_ACCESS_TOKEN\\"}}\""""


def _write(path: Path, body: str) -> None:
    text = f"#!/bin/sh\n{body}\n"
    if path.is_symlink() or not path.exists() or path.read_text() != text:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(path)
