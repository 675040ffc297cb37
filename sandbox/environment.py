"""The environment variables that lead clients to the sandbox, and nothing else does.

Owns their names and values. The same programs without them work with Google Cloud.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.home import Home

PROJECT = "sandbox-project"
_PARALLEL = "64"
_GCP_PLUGIN = "pulumi-resource-gcp"


def variables(
    home: Home, port: int, environ: Mapping[str, str], real_gcp_plugin: Path | None = None
) -> dict[str, str]:
    """Return what a client's environment must hold.

    Args:
        home: The sandbox.
        port: Where its cloud answers on 127.0.0.1.
        environ: The environment that these variables go into: PATH and NO_PROXY are extended.
        real_gcp_plugin: Folder with a real `pulumi-resource-gcp` to use instead of what the
            sandbox would choose.
    """
    base = f"http://127.0.0.1:{port}"
    token = home.token()
    no_proxy = _no_proxy(environ)
    return {
        "PATH": _path(home, environ, real_gcp_plugin),
        # Pulumi.
        "PULUMI_HOME": str(home.pulumi_home),
        "PULUMI_BACKEND_URL": f"file://{home.pulumi_state}",
        "PULUMI_CONFIG_PASSPHRASE": home.passphrase(),
        # The salt is in the state, so that no stack file has to hold it.
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
        # By default four operations per core: on two cores the networks would wait for one another,
        # although all that an operation does is wait for Google.
        "PULUMI_PARALLEL": _PARALLEL,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_ERROR_OUTPUT_STRING": "1",
        # Where the released language host looks for an interpreter that has the packages.
        "PULUMI_PYTHON_CMD": sys.executable,
        # The gcp provider [facts real-provider.md].
        "GOOGLE_PROJECT": PROJECT,
        "GOOGLE_OAUTH_ACCESS_TOKEN": token,
        "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": f"{base}/compute/v1/",
        "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{base}/container/v1beta1/",
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": f"{base}/serviceusage/v1/",
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT": f"{base}/resourcemanager/v1/",
        "GCE_METADATA_HOST": f"127.0.0.1:{port}",
        "PULUMI_GCP_SKIP_REGION_VALIDATION": "true",
        # gcloud [facts gcloud-requests.md].
        "CLOUDSDK_CONFIG": str(home.gcloud_config),
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_AUTH_ACCESS_TOKEN": token,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{base}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": f"{base}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{base}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{base}/",
        # kubectl.
        "KUBECONFIG": str(home.kubeconfig),
        # A proxy of the user's cannot reach this machine's loopback.
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
    }


def as_shell(values: Mapping[str, str]) -> str:
    """Return the variables as lines that a POSIX shell can `eval`."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def _path(home: Home, environ: Mapping[str, str], real_gcp_plugin: Path | None) -> str:
    first = [str(home.programs), str(Path(sys.executable).parent)]
    if real_gcp_plugin is not None:
        first.insert(0, str(real_gcp_plugin))
    inherited = environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*first, *(entry for entry in inherited if entry)]))


def _no_proxy(environ: Mapping[str, str]) -> str:
    present = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    entries = [entry.strip() for entry in present.split(",") if entry.strip()]
    return ",".join(dict.fromkeys([*entries, "127.0.0.1", "localhost"]))


def folder_of_plugin(path: Path) -> Path:
    """Return the folder of a real gcp plug-in that a user has named.

    Raises:
        SandboxError: there is no such program.
    """
    folder = path if path.is_dir() else path.parent
    program = folder.absolute() / _GCP_PLUGIN
    if (path.is_file() and path.name != _GCP_PLUGIN) or not os.access(program, os.X_OK):
        raise SandboxError(
            f"--real-gcp-plugin is {path}, expected a program called {_GCP_PLUGIN} or the folder "
            "that holds it: the engine finds it by this name."
        )
    return folder.absolute()
