"""The kubeconfig of a cluster, built from what never changes while the cluster lives.

Owns the one document that the stack exports and that its Kubernetes provider uses. Holds no
token: `gke-gcloud-auth-plugin` supplies one at each call, so the bytes are the same at each run.
"""

from __future__ import annotations

import json

AUTH_PLUGIN = "gke-gcloud-auth-plugin"


def build_kubeconfig(*, context: str, endpoint: str, ca_certificate: str) -> str:
    """Return a kubeconfig as JSON text, which is YAML as well.

    Args:
        context: Name of context, cluster and user, in gcloud's form `gke_PROJECT_LOCATION_NAME`,
            so that `kubectl config` shows what people know.
        endpoint: The control plane's address as GKE gives it, without scheme.
        ca_certificate: The cluster's CA certificate, base64 of PEM, as GKE gives it.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [
            {
                "name": context,
                "cluster": {
                    "server": f"https://{endpoint}",
                    "certificate-authority-data": ca_certificate,
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "users": [
            {
                "name": context,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": AUTH_PLUGIN,
                        "installHint": (
                            "Install it with `gcloud components install "
                            f"{AUTH_PLUGIN}` and put it on PATH."
                        ),
                        "interactiveMode": "Never",
                        "provideClusterInfo": True,
                    }
                },
            }
        ],
    }
    return json.dumps(document, indent=2, sort_keys=True)
