"""The field table of `gcp:container/cluster:Cluster` [facts google-cloud.md §6.1].

Owns which properties exist, what changes in place and what conflicts. The nested objects stand
in `cluster_blocks`; those that the API splits or folds (endpoints, private cluster, labels) are
carried by `cluster_body` and `cluster_state`.
"""

from __future__ import annotations

import re
from typing import Any

from ..links import same_link
from ..schema import Field, Fields, Type, not_carried, one_of
from .base import DELETION_POLICY
from .cluster_blocks import (
    ADDONS,
    AUTHORIZED_NETWORKS,
    AUTOPILOT,
    ENDPOINTS,
    IP_ALLOCATION,
    MAINTENANCE,
    NODE_CONFIG,
    PRIVATE_CLUSTER,
    PROVISIONING_DEFAULTS,
    block,
    disabled,
    flag,
    switch,
    text,
)


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


FIELDS: Fields = {
    "name": Field(api="name", required=True, force_new=True, validators=(_name_checks,)),
    "location": Field(api="location", computed=True, force_new=True),
    "project": Field(computed=True, force_new=True),
    "description": Field(api="description", force_new=True),
    "enableAutopilot": flag("autopilot.enabled", force_new=True, sticky=True),
    "allowNetAdmin": flag("autopilot.workloadPolicyConfig.allowNetAdmin", sticky=True),
    "enableMultiNetworking": flag("networkConfig.enableMultiNetworking"),
    "network": Field(
        api="networkConfig.network", default="default", force_new=True, same=same_link
    ),
    "subnetwork": text("networkConfig.subnetwork", force_new=True, same=same_link),
    "networkingMode": Field(
        computed=True, force_new=True, validators=(one_of("VPC_NATIVE", "ROUTES"),)
    ),
    "ipAllocationPolicy": block(
        "ipAllocationPolicy", IP_ALLOCATION, force_new=True, conflicts=("cluster_ipv4_cidr",)
    ),
    "clusterIpv4Cidr": text("clusterIpv4Cidr", force_new=True, conflicts=("ip_allocation_policy",)),
    "datapathProvider": text(
        "networkConfig.datapathProvider",
        force_new=True,
        validators=(
            one_of("DATAPATH_PROVIDER_UNSPECIFIED", "LEGACY_DATAPATH", "ADVANCED_DATAPATH"),
        ),
    ),
    "enableIntranodeVisibility": flag(
        "networkConfig.enableIntraNodeVisibility", computed=True, conflicts=(AUTOPILOT,)
    ),
    "defaultSnatStatus": disabled("networkConfig.defaultSnatStatus"),
    "dnsConfig": block(
        "networkConfig.dnsConfig",
        {
            "clusterDns": text("clusterDns"),
            "clusterDnsScope": text("clusterDnsScope"),
            "clusterDnsDomain": text("clusterDnsDomain"),
            "additiveVpcScopeDnsDomain": text("additiveVpcScopeDnsDomain"),
        },
    ),
    "gatewayApiConfig": block(
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
    "serviceExternalIpsConfig": switch("networkConfig.serviceExternalIpsConfig"),
    "enableL4IlbSubsetting": flag(
        "networkConfig.enableL4ilbSubsetting", tf="enable_l4_ilb_subsetting", computed=True
    ),
    "disableL4LbFirewallReconciliation": flag(
        "networkConfig.disableL4LbFirewallReconciliation",
        tf="disable_l4_lb_firewall_reconciliation",
    ),
    "enableFqdnNetworkPolicy": flag("networkConfig.enableFqdnNetworkPolicy"),
    "enableCiliumClusterwideNetworkPolicy": flag(
        "networkConfig.enableCiliumClusterwideNetworkPolicy"
    ),
    "privateIpv6GoogleAccess": text("networkConfig.privateIpv6GoogleAccess"),
    "minMasterVersion": Field(api="initialClusterVersion", client=True),
    "releaseChannel": block(
        "releaseChannel",
        {
            "channel": Field(
                api="channel",
                required=True,
                validators=(one_of("UNSPECIFIED", "RAPID", "REGULAR", "STABLE", "EXTENDED"),),
            )
        },
    ),
    "gkeAutoUpgradeConfig": block(
        "gkeAutoUpgradeConfig", {"patchMode": Field(api="patchMode", required=True)}
    ),
    "resourceLabels": Field(type=Type.MAP),
    "addonsConfig": block("addonsConfig", ADDONS),
    "binaryAuthorization": block(
        "binaryAuthorization",
        {
            "enabled": flag(
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
    "clusterAutoscaling": block(
        "autoscaling",
        {
            "enabled": flag("enableNodeAutoprovisioning", computed=True, conflicts=(AUTOPILOT,)),
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
            "autoscalingProfile": Field(
                api="autoscalingProfile",
                default="BALANCED",
                validators=(one_of("BALANCED", "OPTIMIZE_UTILIZATION"),),
            ),
            "autoProvisioningLocations": Field(
                type=Type.LIST, api="autoprovisioningLocations", computed=True
            ),
            "defaultComputeClassEnabled": flag("defaultComputeClassConfig.enabled"),
            "autoProvisioningDefaults": block(
                "autoprovisioningNodePoolDefaults", PROVISIONING_DEFAULTS
            ),
        },
    ),
    "nodePoolAutoConfig": block(
        "nodePoolAutoConfig",
        {
            "networkTags": block(
                "networkTags", {"tags": Field(type=Type.LIST, api="tags", computed=True)}
            ),
            "resourceManagerTags": Field(
                type=Type.MAP, api="resourceManagerTags.tags", computed=True
            ),
            **not_carried("linuxNodeConfig nodeKubeletConfig"),
        },
    ),
    "maintenancePolicy": Field(
        type=Type.BLOCK,
        fields=MAINTENANCE,
        exactly_one=(("dailyMaintenanceWindow", "recurringWindow"),),
    ),
    "privateClusterConfig": Field(type=Type.BLOCK, computed=True, fields=PRIVATE_CLUSTER),
    "masterAuthorizedNetworksConfig": Field(
        type=Type.BLOCK, computed=True, fields=AUTHORIZED_NETWORKS
    ),
    "controlPlaneEndpointsConfig": Field(type=Type.BLOCK, computed=True, fields=ENDPOINTS),
    "loggingConfig": block(
        "loggingConfig.componentConfig",
        {"enableComponents": Field(type=Type.LIST, api="enableComponents", required=True)},
    ),
    "monitoringConfig": block(
        "monitoringConfig",
        {
            "enableComponents": Field(
                type=Type.LIST, api="componentConfig.enableComponents", computed=True
            ),
            "managedPrometheus": block(
                "managedPrometheusConfig",
                {
                    "enabled": flag("enabled", required=True),
                    "autoMonitoringConfig": block(
                        "autoMonitoringConfig",
                        {
                            "scope": Field(
                                api="scope", required=True, validators=(one_of("ALL", "NONE"),)
                            )
                        },
                    ),
                },
            ),
            **not_carried("advancedDatapathObservabilityConfig"),
        },
    ),
    "loggingService": text("loggingService"),
    "monitoringService": text("monitoringService"),
    "costManagementConfig": switch("costManagementConfig"),
    "securityPostureConfig": block(
        "securityPostureConfig",
        {"mode": text("mode"), "vulnerabilityMode": text("vulnerabilityMode")},
    ),
    "verticalPodAutoscaling": switch("verticalPodAutoscaling"),
    "workloadIdentityConfig": block(
        "workloadIdentityConfig", {"workloadPool": Field(api="workloadPool")}
    ),
    "meshCertificates": block(
        "meshCertificates",
        {"enableCertificates": flag("enableCertificates", required=True)},
    ),
    "databaseEncryption": block(
        "databaseEncryption",
        {"state": Field(api="state", required=True), "keyName": Field(api="keyName")},
    ),
    "secretManagerConfig": block(
        "secretManagerConfig",
        {
            "enabled": flag("enabled", required=True),
            "rotationConfig": block(
                "rotationConfig",
                {
                    "enabled": flag("enabled", required=True),
                    "rotationInterval": text("rotationInterval"),
                },
            ),
        },
    ),
    "notificationConfig": block(
        "notificationConfig",
        {
            "pubsub": block(
                "pubsub",
                {
                    "enabled": flag("enabled", required=True),
                    "topic": Field(api="topic"),
                    "filter": block(
                        "filter",
                        {"eventTypes": Field(type=Type.LIST, api="eventType", required=True)},
                    ),
                },
            )
        },
    ),
    "fleet": block(
        "fleet",
        {
            "project": Field(api="project"),
            "membership": Field(api="membership", output=True),
            "membershipId": Field(output=True),
            "membershipLocation": Field(output=True),
            "membershipType": text("membershipType"),
            "preRegistered": flag("preRegistered", output=True),
        },
    ),
    "nodeLocations": Field(type=Type.SET, computed=True),
    "enableShieldedNodes": flag(
        "shieldedNodes.enabled", default=True, sticky=True, conflicts=(AUTOPILOT,)
    ),
    "enableLegacyAbac": flag("legacyAbac.enabled"),
    "enableKubernetesAlpha": flag("enableKubernetesAlpha", force_new=True),
    "enableTpu": flag("enableTpu", force_new=True, computed=True),
    "networkPolicy": Field(
        type=Type.BLOCK,
        computed=True,
        conflicts=(AUTOPILOT,),
        fields={
            "enabled": flag("enabled", required=True),
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
                    "issueClientCertificate": flag(
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
    # Inputs of pulumi_gcp 10.2.0 that are refused here rather than dropped in silence.
    **not_carried(
        """
        anonymousAuthenticationConfig authenticatorGroupsConfig
        autopilotClusterPolicyConfig autopilotPrivilegedAdmissions clusterTelemetry
        confidentialNodes dataplaneOptimizationMode desiredEmulatedVersion
        enableK8sBetaApis enterpriseConfig identityServiceConfig ignoreNodeCountChanges
        inTransitEncryptionConfig managedMachineLearningDiagnosticsConfig
        managedOpentelemetryConfig networkPerformanceConfig nodeCreationConfig
        nodePoolDefaults podAutoscaling podSecurityPolicyConfig protectConfig
        rbacBindingConfig resourceUsageExportConfig rollbackSafeUpgrade secretSyncConfig
        skipNodePoolRefresh tpuConfig userManagedKeysConfig workloadAltsConfig
        """
    ),
}
