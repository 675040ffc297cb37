"""What an Autopilot cluster reads back as.

Owns the fields that GKE fills in on top of what was sent. Two needs decide [facts real-provider.md,
"What answers must hold"]: the provider plug-in panics without `legacyAbac`, `networkConfig` and, if
`controlPlaneEndpointsConfig` is there, its `ipEndpointsConfig`; and it plans a replacement when
`initialNodeCount` is there. The Autopilot values are those of facts google-cloud.md §6.3.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sandbox.cloud import catalog, links
from sandbox.cloud.cluster_networking import Placement
from sandbox.cloud.core import container_time, project_number
from sandbox.cloud.registry import rule

_READ_BACK = "facts google-cloud.md §6.3"
_HUGE = "1000000000"
_DROPPED = ("initialNodeCount", "nodePools", "etag", "master", "conditions", "masterAuth")
_NO_LABELS = "a9dc16a7"

rule(
    "clusters.must-hold",
    "answers hold legacyAbac, networkConfig, ipEndpointsConfig and no initialNodeCount",
    citation="facts real-provider.md (what answers must hold)",
    judges="provider",
)
rule(
    "clusters.autopilot-read-back",
    "Autopilot's own values read back",
    citation=_READ_BACK,
    judges="gcloud",
)
rule(
    "clusters.links",
    "network and subnetwork read back relative",
    citation="facts §0.1",
    judges="gcloud",
)
rule(
    "clusters.labels",
    "labelFingerprint is a9dc16a7 without labels",
    citation=f"{_READ_BACK} [R]",
    judges="gcloud",
)


def label_fingerprint(labels: Mapping[str, str]) -> str:
    """Return the fingerprint of the cluster's labels."""
    if not labels:
        return _NO_LABELS
    text = json.dumps(dict(labels), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def new_cluster(
    project: str,
    location: str,
    sent: Mapping[str, Any],
    *,
    cluster_id: str,
    version: str,
    channel: str,
    placement: Placement,
) -> dict[str, Any]:
    """Return the cluster as it reads back while it is being made."""
    cluster = {
        key: value for key, value in copy.deepcopy(dict(sent)).items() if key not in _DROPPED
    }
    name = sent["name"]
    path = links.cluster_path(project, location, name)
    labels = cluster.setdefault("resourceLabels", {})
    cluster.update(
        {
            "id": cluster_id,
            "selfLink": f"{links.CONTAINER_BASE}v1beta1/{path}",
            "location": location,
            "zone": location,
            "createTime": container_time(),
            "status": "PROVISIONING",
            "locations": cluster.get("locations") or catalog.zones(location)[:3],
            "labelFingerprint": label_fingerprint(labels),
            "initialClusterVersion": version,
            "currentMasterVersion": version,
            "currentNodeVersion": version,
            "releaseChannel": {"channel": channel},
            "network": placement.network,
            "subnetwork": placement.subnetwork,
            "clusterIpv4Cidr": placement.pod_range,
            "servicesIpv4Cidr": placement.service_range,
            "nodeIpv4CidrSize": 26,
            "ipAllocationPolicy": _ip_allocation(cluster, placement),
            "masterAuth": {"clientCertificateConfig": {}},
            "loggingService": "logging.googleapis.com/kubernetes",
            "monitoringService": "monitoring.googleapis.com/kubernetes",
        }
    )
    _service_account(sent, cluster)
    _autopilot(project, cluster)
    _network_config(project, location, cluster, placement)
    _control_plane(project, location, cluster)
    return cluster


def _ip_allocation(cluster: Mapping[str, Any], placement: Placement) -> dict[str, Any]:
    given = cluster.get("ipAllocationPolicy", {})
    kept = {key: value for key, value in given.items() if key != "createSubnetwork"}
    return {
        "stackType": "IPV4",
        "podCidrOverprovisionConfig": {},
        **kept,
        "useIpAliases": True,
        "clusterIpv4Cidr": placement.pod_range,
        "clusterIpv4CidrBlock": placement.pod_range,
        "clusterSecondaryRangeName": placement.pod_range_name,
        "servicesIpv4Cidr": placement.service_range,
        "servicesIpv4CidrBlock": placement.service_range,
        **(
            {"servicesSecondaryRangeName": placement.service_range_name}
            if placement.service_range_name
            else {}
        ),
    }


def _service_account(sent: Mapping[str, Any], cluster: dict[str, Any]) -> None:
    """Take over the nodes' service account from where gcloud writes it: its one node pool."""
    for pool in sent.get("nodePools", [])[:1]:
        account = pool.get("config", {}).get("serviceAccount")
        if account:
            cluster.setdefault("nodeConfig", {}).setdefault("serviceAccount", account)


def _autopilot(project: str, cluster: dict[str, Any]) -> None:
    """Fill what Autopilot decides, whatever was sent."""
    autopilot = cluster.setdefault("autopilot", {})
    autopilot["enabled"] = True
    cluster["shieldedNodes"] = {"enabled": True}
    cluster["verticalPodAutoscaling"] = {"enabled": True}
    pool = f"{project.removeprefix('s3ns:')}.{'s3ns.' if ':' in project else ''}svc.id.goog"
    cluster["workloadIdentityConfig"] = {"workloadPool": pool}
    cluster.setdefault("legacyAbac", {}).setdefault("enabled", False)
    cluster.setdefault("networkPolicy", {})
    cluster.setdefault("maintenancePolicy", {"resourceVersion": "e3b0c442"})
    cluster.setdefault("databaseEncryption", {"state": "DECRYPTED"})
    cluster.setdefault("addonsConfig", {}).update(_addons())
    cluster["autoscaling"] = {
        **cluster.get("autoscaling", {}),
        "enableNodeAutoprovisioning": True,
        "autoscalingProfile": "OPTIMIZE_UTILIZATION",
        "resourceLimits": [
            {"resourceType": kind, "maximum": _HUGE}
            for kind in ("cpu", "memory", *sorted(catalog.ACCELERATORS))
        ],
    }
    node = cluster.setdefault("nodeConfig", {})
    # Autopilot's own scopes, not those that were sent [R20].
    node["oauthScopes"] = ["https://www.googleapis.com/auth/cloud-platform"]
    node.setdefault("serviceAccount", "default")
    node["imageType"] = "COS_CONTAINERD"
    node["workloadMetadataConfig"] = {"mode": "GKE_METADATA"}


def _addons() -> dict[str, Any]:
    on, off = {"enabled": True}, {"disabled": True}
    return {
        "httpLoadBalancing": {},
        "horizontalPodAutoscaling": {},
        "kubernetesDashboard": off,
        "networkPolicyConfig": off,
        "dnsCacheConfig": on,
        "gcePersistentDiskCsiDriverConfig": on,
        "gcpFilestoreCsiDriverConfig": on,
    }


def _network_config(
    project: str, location: str, cluster: dict[str, Any], placement: Placement
) -> None:
    config = cluster.setdefault("networkConfig", {})
    config.update(
        {
            "network": links.path(project, "global", "networks", placement.network),
            "subnetwork": links.path(project, location, "subnetworks", placement.subnetwork),
            "enableIntraNodeVisibility": True,
            "datapathProvider": "ADVANCED_DATAPATH",
            # What Autopilot fills in and the provider must not trip over [R20].
            "dnsConfig": {
                "clusterDns": "CLOUD_DNS",
                "clusterDnsDomain": "cluster.local",
                "clusterDnsScope": "CLUSTER_SCOPE",
            },
        }
    )
    config.setdefault("enableMultiNetworking", False)
    config.setdefault("gatewayApiConfig", {"channel": "CHANNEL_STANDARD"})
    config.setdefault("serviceExternalIpsConfig", {})
    config.setdefault("defaultSnatStatus", {})
    if cluster.get("privateClusterConfig", {}).get("enablePrivateNodes"):
        config["defaultEnablePrivateNodes"] = True


def _control_plane(project: str, location: str, cluster: dict[str, Any]) -> None:
    """Fill the endpoints config; old fields that say the same are carried over."""
    config = cluster.setdefault("controlPlaneEndpointsConfig", {})
    dns = config.setdefault("dnsEndpointConfig", {})
    digest = cluster["id"][:32]
    dns["endpoint"] = f"gke-{digest}-{project_number(project)}.{location}.gke.goog"
    addresses = config.setdefault("ipEndpointsConfig", {})
    addresses.setdefault("enabled", True)
    private = cluster.get("privateClusterConfig", {})
    addresses.setdefault("enablePublicEndpoint", not private.get("enablePrivateEndpoint", False))
    addresses.setdefault(
        "authorizedNetworksConfig", cluster.get("masterAuthorizedNetworksConfig", {})
    )
    cluster["masterAuthorizedNetworksConfig"] = addresses["authorizedNetworksConfig"]


def set_endpoint(cluster: dict[str, Any], endpoint: str, ca_certificate_base64: str) -> None:
    """Write where the control plane answers, wherever a cluster says it."""
    cluster["endpoint"] = endpoint
    cluster["masterAuth"]["clusterCaCertificate"] = ca_certificate_base64
    addresses = cluster["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    if addresses.get("enablePublicEndpoint"):
        addresses["publicEndpoint"] = endpoint
    addresses["privateEndpoint"] = endpoint
