"""The field table of `gcp:container/cluster:Cluster` [facts google-cloud.md §6.1].

Owns which properties exist, what changes in place and what conflicts. The blocks that the API
splits or folds (endpoints, private cluster, labels) are listed here and carried by
`cluster_body`.
"""

from __future__ import annotations

import re
from typing import Any

from ..links import same_link
from ..schema import Field, Fields, Type, one_of
from .base import DELETION_POLICY

AUTOPILOT = "enable_autopilot"


def _name_checks(name: str, value: Any) -> list[str]:
    """Four separate checks, which may fire together [§1.1]."""
    found = []
    if len(value) > 40:
        found.append(f'"{name}" cannot be longer than 40 characters')
    if not re.fullmatch(r"[a-z0-9-]+", value):
        found.append(f'"{name}" can only contain lowercase letters, numbers and hyphens')
    if not re.match(r"[a-z]", value):
        found.append(f'"{name}" must start with a letter')
    if not re.search(r"[a-z0-9]$", value):
        found.append(f'"{name}" must end with a number or a letter')
    return found


def _text(api: str, **more: Any) -> Field:
    return Field(api=api, computed=True, **more)


def _flag(api: str, **more: Any) -> Field:
    return Field(type=Type.BOOL, api=api, **more)


def _block(api: str, fields: Fields, **more: Any) -> Field:
    return Field(type=Type.BLOCK, api=api, computed=True, fields=fields, **more)


def _switch(api: str, **more: Any) -> Field:
    """A block that holds `enabled` alone."""
    return _block(api, {"enabled": _flag("enabled", required=True)}, **more)


def _disabled(api: str, **more: Any) -> Field:
    """A block that holds `disabled` alone."""
    return _block(api, {"disabled": _flag("disabled", required=True)}, **more)


_ADDONS: Fields = {
    "httpLoadBalancing": _disabled("httpLoadBalancing"),
    "horizontalPodAutoscaling": _disabled("horizontalPodAutoscaling"),
    "networkPolicyConfig": _disabled("networkPolicyConfig", conflicts=(AUTOPILOT,)),
    "dnsCacheConfig": _switch("dnsCacheConfig", conflicts=(AUTOPILOT,)),
    "statefulHaConfig": _switch("statefulHaConfig", conflicts=(AUTOPILOT,)),
    "gcePersistentDiskCsiDriverConfig": _switch("gcePersistentDiskCsiDriverConfig"),
    "gcpFilestoreCsiDriverConfig": _switch("gcpFilestoreCsiDriverConfig"),
    "gcsFuseCsiDriverConfig": _switch("gcsFuseCsiDriverConfig"),
    "gkeBackupAgentConfig": _switch("gkeBackupAgentConfig"),
    "configConnectorConfig": _switch("configConnectorConfig"),
    "parallelstoreCsiDriverConfig": _switch("parallelstoreCsiDriverConfig"),
    "highScaleCheckpointingConfig": _switch("highScaleCheckpointingConfig"),
}

_PROVISIONING_DEFAULTS: Fields = {
    "serviceAccount": Field(api="serviceAccount", default="default"),
    "oauthScopes": Field(type=Type.LIST, api="oauthScopes", computed=True),
    "bootDiskKmsKey": Field(api="bootDiskKmsKey", force_new=True),
    "diskSize": Field(type=Type.INT, api="diskSizeGb", computed=True),
    "diskType": _text("diskType"),
    "imageType": _text("imageType"),
    "minCpuPlatform": _text("minCpuPlatform"),
}

_IP_ALLOCATION: Fields = {
    "clusterIpv4CidrBlock": _text(
        "clusterIpv4CidrBlock",
        force_new=True,
        conflicts=("ip_allocation_policy.0.cluster_secondary_range_name",),
    ),
    "servicesIpv4CidrBlock": _text(
        "servicesIpv4CidrBlock",
        force_new=True,
        conflicts=("ip_allocation_policy.0.services_secondary_range_name",),
    ),
    "clusterSecondaryRangeName": _text(
        "clusterSecondaryRangeName",
        force_new=True,
        conflicts=("ip_allocation_policy.0.cluster_ipv4_cidr_block",),
    ),
    "servicesSecondaryRangeName": _text(
        "servicesSecondaryRangeName",
        force_new=True,
        conflicts=("ip_allocation_policy.0.services_ipv4_cidr_block",),
    ),
    "stackType": Field(api="stackType", default="IPV4", validators=(one_of("IPV4", "IPV4_IPV6"),)),
}

_WINDOW: Fields = {
    "startTime": Field(api="startTime", required=True),
    "endTime": Field(api="endTime", required=True),
    "recurrence": Field(api="recurrence", required=True),
}
MAINTENANCE: Fields = {
    "dailyMaintenanceWindow": Field(
        type=Type.BLOCK,
        fields={
            "startTime": Field(api="startTime", required=True),
            "duration": _text("duration"),
        },
    ),
    "recurringWindow": Field(type=Type.BLOCK, fields=_WINDOW),
    "maintenanceExclusions": Field(
        type=Type.BLOCK_SET,
        tf="maintenance_exclusion",
        fields={
            "exclusionName": Field(required=True),
            "startTime": Field(required=True),
            "endTime": Field(computed=True),
            "exclusionOptions": Field(
                type=Type.BLOCK,
                fields={
                    "scope": Field(required=True),
                    "endTimeBehavior": Field(computed=True),
                },
            ),
        },
    ),
}

PRIVATE_CLUSTER: Fields = {
    "enablePrivateEndpoint": _flag(""),
    "enablePrivateNodes": _flag("", computed=True),
    "masterIpv4CidrBlock": Field(computed=True, force_new=True),
    "masterGlobalAccessConfig": Field(
        type=Type.BLOCK, computed=True, fields={"enabled": _flag("", required=True)}
    ),
    "privateEndpointSubnetwork": Field(computed=True, force_new=True, same=same_link),
    "peeringName": Field(output=True),
    "privateEndpoint": Field(output=True),
    "publicEndpoint": Field(output=True),
}

AUTHORIZED_NETWORKS: Fields = {
    "cidrBlocks": Field(
        type=Type.BLOCK_SET,
        api="cidrBlocks",
        fields={
            "cidrBlock": Field(api="cidrBlock", required=True),
            "displayName": Field(api="displayName"),
        },
    ),
    "gcpPublicCidrsAccessEnabled": _flag("gcpPublicCidrsAccessEnabled", computed=True),
    "privateEndpointEnforcementEnabled": _flag("privateEndpointEnforcementEnabled", computed=True),
}

ENDPOINTS: Fields = {
    "dnsEndpointConfig": Field(
        type=Type.BLOCK,
        computed=True,
        fields={
            "endpoint": Field(output=True),
            "allowExternalTraffic": _flag("", computed=True),
            "enableK8sCertsViaDns": _flag("", computed=True),
            "enableK8sTokensViaDns": _flag("", computed=True),
        },
    ),
    "ipEndpointsConfig": Field(
        type=Type.BLOCK, computed=True, fields={"enabled": _flag("", computed=True)}
    ),
}

NODE_CONFIG: Fields = {
    "machineType": _text("machineType", force_new=True),
    "diskSizeGb": Field(type=Type.INT, api="diskSizeGb", computed=True, force_new=True),
    "diskType": _text("diskType", force_new=True),
    "imageType": _text("imageType"),
    "oauthScopes": Field(type=Type.SET, api="oauthScopes", computed=True, force_new=True),
    "serviceAccount": _text("serviceAccount", force_new=True),
    "labels": Field(type=Type.MAP, api="labels", computed=True, force_new=True),
    "metadata": Field(type=Type.MAP, api="metadata", computed=True, force_new=True),
    "tags": Field(type=Type.LIST, api="tags", force_new=True),
    "spot": _flag("spot", force_new=True),
    "preemptible": _flag("preemptible", force_new=True),
    "gvnic": _switch("gvnic", force_new=True),
    "gcfsConfig": _switch("gcfsConfig", force_new=True),
    "secondaryBootDisks": Field(
        type=Type.BLOCKS,
        api="secondaryBootDisks",
        force_new=True,
        fields={
            "diskImage": Field(api="diskImage", required=True, force_new=True),
            "mode": Field(api="mode", force_new=True),
        },
    ),
}

_NOT_CARRIED = frozenset(
    {
        "anonymousAuthenticationConfig", "authenticatorGroupsConfig", "autopilotClusterPolicyConfig",
        "autopilotPrivilegedAdmissions", "clusterTelemetry", "confidentialNodes",
        "dataplaneOptimizationMode", "desiredEmulatedVersion", "enableK8sBetaApis",
        "enterpriseConfig", "identityServiceConfig", "ignoreNodeCountChanges",
        "inTransitEncryptionConfig", "managedMachineLearningDiagnosticsConfig",
        "managedOpentelemetryConfig", "networkPerformanceConfig", "nodeCreationConfig",
        "nodePoolDefaults", "podAutoscaling", "podSecurityPolicyConfig",
        "protectConfig", "rbacBindingConfig", "resourceUsageExportConfig", "rollbackSafeUpgrade",
        "secretSyncConfig", "skipNodePoolRefresh", "tpuConfig", "userManagedKeysConfig",
        "workloadAltsConfig",
    }
)  # fmt: skip
"""Inputs of pulumi_gcp 10.2.0 that this stand-in refuses rather than drops in silence."""

FIELDS: Fields = {
    "name": Field(api="name", required=True, force_new=True, validators=(_name_checks,)),
    "location": Field(api="location", computed=True, force_new=True),
    "project": Field(computed=True, force_new=True),
    "description": Field(api="description", force_new=True),
    "enableAutopilot": _flag("autopilot.enabled", force_new=True, sticky=True),
    "allowNetAdmin": _flag("autopilot.workloadPolicyConfig.allowNetAdmin", sticky=True),
    "enableMultiNetworking": _flag("networkConfig.enableMultiNetworking"),
    "network": Field(
        api="networkConfig.network", default="default", force_new=True, same=same_link
    ),
    "subnetwork": _text("networkConfig.subnetwork", force_new=True, same=same_link),
    "networkingMode": Field(
        computed=True, force_new=True, validators=(one_of("VPC_NATIVE", "ROUTES"),)
    ),
    "ipAllocationPolicy": _block(
        "ipAllocationPolicy", _IP_ALLOCATION, force_new=True, conflicts=("cluster_ipv4_cidr",)
    ),
    "clusterIpv4Cidr": _text(
        "clusterIpv4Cidr", force_new=True, conflicts=("ip_allocation_policy",)
    ),
    "datapathProvider": _text(
        "networkConfig.datapathProvider",
        force_new=True,
        validators=(
            one_of("DATAPATH_PROVIDER_UNSPECIFIED", "LEGACY_DATAPATH", "ADVANCED_DATAPATH"),
        ),
    ),
    "enableIntranodeVisibility": _flag(
        "networkConfig.enableIntraNodeVisibility", computed=True, conflicts=(AUTOPILOT,)
    ),
    "defaultSnatStatus": _disabled("networkConfig.defaultSnatStatus"),
    "dnsConfig": _block(
        "networkConfig.dnsConfig",
        {
            "clusterDns": _text("clusterDns"),
            "clusterDnsScope": _text("clusterDnsScope"),
            "clusterDnsDomain": _text("clusterDnsDomain"),
            "additiveVpcScopeDnsDomain": _text("additiveVpcScopeDnsDomain"),
        },
    ),
    "gatewayApiConfig": _block(
        "networkConfig.gatewayApiConfig",
        {
            "channel": Field(
                api="channel",
                required=True,
                validators=(
                    one_of("CHANNEL_DISABLED", "CHANNEL_EXPERIMENTAL", "CHANNEL_STANDARD"),
                ),
            )
        },
    ),
    "serviceExternalIpsConfig": _switch("networkConfig.serviceExternalIpsConfig"),
    "enableL4IlbSubsetting": _flag(
        "networkConfig.enableL4ilbSubsetting", tf="enable_l4_ilb_subsetting", computed=True
    ),
    "disableL4LbFirewallReconciliation": _flag(
        "networkConfig.disableL4LbFirewallReconciliation",
        tf="disable_l4_lb_firewall_reconciliation",
    ),
    "enableFqdnNetworkPolicy": _flag("networkConfig.enableFqdnNetworkPolicy"),
    "enableCiliumClusterwideNetworkPolicy": _flag(
        "networkConfig.enableCiliumClusterwideNetworkPolicy"
    ),
    "privateIpv6GoogleAccess": _text("networkConfig.privateIpv6GoogleAccess"),
    "minMasterVersion": Field(api="initialClusterVersion", client=True),
    "releaseChannel": _block(
        "releaseChannel",
        {
            "channel": Field(
                api="channel",
                required=True,
                validators=(one_of("UNSPECIFIED", "RAPID", "REGULAR", "STABLE", "EXTENDED"),),
            )
        },
    ),
    "gkeAutoUpgradeConfig": _block(
        "gkeAutoUpgradeConfig", {"patchMode": Field(api="patchMode", required=True)}
    ),
    "resourceLabels": Field(type=Type.MAP),
    "addonsConfig": _block("addonsConfig", _ADDONS),
    "binaryAuthorization": _block(
        "binaryAuthorization",
        {
            "enabled": _flag(
                "enabled",
                conflicts=(AUTOPILOT, "binary_authorization.0.evaluation_mode"),
            ),
            "evaluationMode": Field(
                api="evaluationMode",
                computed=True,
                conflicts=("binary_authorization.0.enabled",),
                validators=(one_of("DISABLED", "PROJECT_SINGLETON_POLICY_ENFORCE"),),
            ),
        },
    ),
    "clusterAutoscaling": _block(
        "autoscaling",
        {
            "enabled": _flag("enableNodeAutoprovisioning", computed=True, conflicts=(AUTOPILOT,)),
            "resourceLimits": Field(
                type=Type.BLOCKS,
                api="resourceLimits",
                computed=True,
                conflicts=(AUTOPILOT,),
                fields={
                    "resourceType": Field(api="resourceType", required=True),
                    "minimum": Field(type=Type.INT, api="minimum"),
                    "maximum": Field(type=Type.INT, api="maximum", required=True),
                },
            ),
            "autoscalingProfile": _text("autoscalingProfile"),
            "autoProvisioningLocations": Field(
                type=Type.LIST, api="autoprovisioningLocations", computed=True
            ),
            "autoProvisioningDefaults": _block(
                "autoprovisioningNodePoolDefaults", _PROVISIONING_DEFAULTS
            ),
        },
    ),
    "nodePoolAutoConfig": _block(
        "nodePoolAutoConfig",
        {
            "networkTags": _block(
                "networkTags", {"tags": Field(type=Type.LIST, api="tags", computed=True)}
            ),
            "resourceManagerTags": Field(
                type=Type.MAP, api="resourceManagerTags.tags", computed=True
            ),
        },
    ),
    "maintenancePolicy": Field(type=Type.BLOCK, computed=True, fields=MAINTENANCE),
    "privateClusterConfig": Field(type=Type.BLOCK, computed=True, fields=PRIVATE_CLUSTER),
    "masterAuthorizedNetworksConfig": Field(
        type=Type.BLOCK, computed=True, fields=AUTHORIZED_NETWORKS
    ),
    "controlPlaneEndpointsConfig": Field(type=Type.BLOCK, computed=True, fields=ENDPOINTS),
    "loggingConfig": _block(
        "loggingConfig.componentConfig",
        {"enableComponents": Field(type=Type.SET, api="enableComponents", required=True)},
    ),
    "monitoringConfig": _block(
        "monitoringConfig",
        {
            "enableComponents": Field(
                type=Type.SET, api="componentConfig.enableComponents", computed=True
            ),
            "managedPrometheus": _switch("managedPrometheusConfig"),
        },
    ),
    "loggingService": _text("loggingService"),
    "monitoringService": _text("monitoringService"),
    "costManagementConfig": _switch("costManagementConfig"),
    "securityPostureConfig": _block(
        "securityPostureConfig",
        {"mode": _text("mode"), "vulnerabilityMode": _text("vulnerabilityMode")},
    ),
    "verticalPodAutoscaling": _switch("verticalPodAutoscaling"),
    "workloadIdentityConfig": _block(
        "workloadIdentityConfig", {"workloadPool": Field(api="workloadPool")}
    ),
    "meshCertificates": _block(
        "meshCertificates",
        {"enableCertificates": _flag("enableCertificates", required=True)},
    ),
    "databaseEncryption": _block(
        "databaseEncryption",
        {"state": Field(api="state", required=True), "keyName": Field(api="keyName")},
    ),
    "secretManagerConfig": _switch("secretManagerConfig"),
    "notificationConfig": _block(
        "notificationConfig",
        {
            "pubsub": _block(
                "pubsub",
                {"enabled": _flag("enabled", required=True), "topic": Field(api="topic")},
            )
        },
    ),
    "fleet": _block("fleet", {"project": Field(api="project")}),
    "nodeLocations": Field(type=Type.SET, computed=True),
    "enableShieldedNodes": _flag("shieldedNodes.enabled", default=True, conflicts=(AUTOPILOT,)),
    "enableLegacyAbac": _flag("legacyAbac.enabled"),
    "enableKubernetesAlpha": _flag("enableKubernetesAlpha", force_new=True),
    "enableTpu": _flag("enableTpu", force_new=True, computed=True),
    "networkPolicy": Field(
        type=Type.BLOCK,
        computed=True,
        conflicts=(AUTOPILOT,),
        fields={
            "enabled": _flag("enabled", required=True),
            "provider": Field(api="provider", computed=True),
        },
    ),
    "nodeConfig": Field(type=Type.BLOCK, computed=True, force_new=True, fields=NODE_CONFIG),
    "defaultMaxPodsPerNode": Field(
        type=Type.INT,
        api="defaultMaxPodsConstraint.maxPodsPerNode",
        computed=True,
        force_new=True,
        conflicts=(AUTOPILOT,),
    ),
    "initialNodeCount": Field(type=Type.INT, api="initialNodeCount", force_new=True),
    "removeDefaultNodePool": Field(type=Type.BOOL, client=True, conflicts=(AUTOPILOT,)),
    "masterAuth": Field(
        type=Type.BLOCK,
        api="masterAuth",
        computed=True,
        force_new=True,
        fields={
            "clientCertificateConfig": Field(
                type=Type.BLOCK,
                api="clientCertificateConfig",
                force_new=True,
                fields={
                    "issueClientCertificate": _flag(
                        "issueClientCertificate", required=True, force_new=True
                    )
                },
            ),
            "clientCertificate": Field(api="clientCertificate", output=True),
            "clientKey": Field(api="clientKey", output=True),
            "clusterCaCertificate": Field(api="clusterCaCertificate", output=True),
        },
    ),
    "deletionProtection": Field(type=Type.BOOL, client=True, default=True),
    "deletionPolicy": DELETION_POLICY,
    "endpoint": Field(api="endpoint", output=True),
    "masterVersion": Field(api="currentMasterVersion", output=True),
    "nodeVersion": Field(api="currentNodeVersion", computed=True),
    "emulatedVersion": Field(api="currentEmulatedVersion", output=True),
    "servicesIpv4Cidr": Field(api="servicesIpv4Cidr", output=True),
    "labelFingerprint": Field(api="labelFingerprint", output=True),
    "selfLink": Field(api="selfLink", output=True),
    "operation": Field(output=True),
    "pulumiLabels": Field(type=Type.MAP, output=True),
    "effectiveLabels": Field(type=Type.MAP, output=True),
    "tpuIpv4CidrBlock": Field(api="tpuIpv4CidrBlock", output=True),
    "nodePools": Field(type=Type.BLOCKS, tf="node_pool", conflicts=(AUTOPILOT,), unsupported=True),
    **{name: Field(unsupported=True) for name in sorted(_NOT_CARRIED)},
}
