"""The nested objects of a cluster, as field tables [facts google-cloud.md §6.1]."""

from __future__ import annotations

from typing import Any

from ..links import same_link
from ..schema import Field, Fields, Type, cidr_with_prefix, not_carried, one_of

AUTOPILOT = "enable_autopilot"
"""Terraform's name of the switch that many fields conflict with."""


def text(api: str, **more: Any) -> Field:
    """A text that the server fills when it is not given."""
    return Field(api=api, computed=True, **more)


def flag(api: str, **more: Any) -> Field:
    """A switch."""
    return Field(type=Type.BOOL, api=api, **more)


def block(api: str, fields: Fields, **more: Any) -> Field:
    """One nested object, which the server fills when it is not given."""
    return Field(type=Type.BLOCK, api=api, computed=True, fields=fields, **more)


def switch(api: str, **more: Any) -> Field:
    """A nested object that holds `enabled` alone."""
    return block(api, {"enabled": flag("enabled", required=True)}, **more)


def disabled(api: str, **more: Any) -> Field:
    """A nested object that holds `disabled` alone."""
    return block(api, {"disabled": flag("disabled", required=True)}, **more)


ADDONS: Fields = {
    "httpLoadBalancing": disabled("httpLoadBalancing"),
    "horizontalPodAutoscaling": disabled("horizontalPodAutoscaling"),
    "networkPolicyConfig": disabled("networkPolicyConfig", conflicts=(AUTOPILOT,)),
    "dnsCacheConfig": switch("dnsCacheConfig", conflicts=(AUTOPILOT,)),
    "statefulHaConfig": switch("statefulHaConfig", conflicts=(AUTOPILOT,)),
    "gcePersistentDiskCsiDriverConfig": switch("gcePersistentDiskCsiDriverConfig"),
    "gcpFilestoreCsiDriverConfig": switch("gcpFilestoreCsiDriverConfig"),
    "gcsFuseCsiDriverConfig": switch("gcsFuseCsiDriverConfig"),
    "gkeBackupAgentConfig": switch("gkeBackupAgentConfig"),
    "configConnectorConfig": switch("configConnectorConfig"),
    "parallelstoreCsiDriverConfig": switch("parallelstoreCsiDriverConfig"),
    "highScaleCheckpointingConfig": switch("highScaleCheckpointingConfig"),
    **not_carried(
        """
        agentSandboxConfig cloudrunConfig istioConfig kalmConfig
        lustreCsiDriverConfig nodeReadinessConfig podSnapshotConfig
        rayOperatorConfigs sliceControllerConfig slurmOperatorConfig
        """
    ),
}

PROVISIONING_DEFAULTS: Fields = {
    "serviceAccount": Field(api="serviceAccount", default="default"),
    "oauthScopes": Field(type=Type.LIST, api="oauthScopes", computed=True),
    "bootDiskKmsKey": Field(api="bootDiskKmsKey", force_new=True),
    "diskSize": Field(type=Type.INT, api="diskSizeGb", default=100),
    "diskType": Field(
        api="diskType",
        default="pd-standard",
        validators=(one_of("pd-standard", "pd-ssd", "pd-balanced"),),
    ),
    "imageType": Field(
        api="imageType",
        default="COS_CONTAINERD",
        validators=(one_of("COS_CONTAINERD", "COS", "UBUNTU_CONTAINERD", "UBUNTU"),),
    ),
    "minCpuPlatform": text("minCpuPlatform"),
    **not_carried("management shieldedInstanceConfig upgradeSettings"),
}

_RANGE_NAMES = (
    "ip_allocation_policy.0.cluster_secondary_range_name",
    "ip_allocation_policy.0.services_secondary_range_name",
)
_CIDR_BLOCKS = (
    "ip_allocation_policy.0.cluster_ipv4_cidr_block",
    "ip_allocation_policy.0.services_ipv4_cidr_block",
)


def _same_cidr_or_size(old: Any, new: Any) -> bool:
    """A wanted size such as `/14` is met by any range of that size."""
    return bool(old == new or (str(new).startswith("/") and str(old).endswith(str(new))))


IP_ALLOCATION: Fields = {
    "clusterIpv4CidrBlock": text(
        "clusterIpv4CidrBlock",
        force_new=True,
        conflicts=_RANGE_NAMES,
        same=_same_cidr_or_size,
    ),
    "servicesIpv4CidrBlock": text(
        "servicesIpv4CidrBlock",
        force_new=True,
        conflicts=_RANGE_NAMES,
        same=_same_cidr_or_size,
    ),
    "clusterSecondaryRangeName": text(
        "clusterSecondaryRangeName",
        force_new=True,
        conflicts=_CIDR_BLOCKS,
    ),
    "servicesSecondaryRangeName": text(
        "servicesSecondaryRangeName",
        force_new=True,
        conflicts=_CIDR_BLOCKS,
    ),
    "stackType": Field(api="stackType", default="IPV4", validators=(one_of("IPV4", "IPV4_IPV6"),)),
    "autoIpamConfig": switch("autoIpamConfig"),
    "networkTierConfig": block(
        "networkTierConfig", {"networkTier": Field(api="networkTier", required=True)}
    ),
    "podCidrOverprovisionConfig": block(
        "podCidrOverprovisionConfig",
        {"disabled": flag("disable", required=True)},
        force_new=True,
    ),
    **not_carried("additionalIpRangesConfigs additionalPodRangesConfig"),
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
            "duration": text("duration"),
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
    **not_carried("disruptionBudget recurringMaintenanceWindow"),
}

PRIVATE_CLUSTER: Fields = {
    "enablePrivateEndpoint": flag(""),
    "enablePrivateNodes": flag("", computed=True),
    "masterIpv4CidrBlock": Field(
        computed=True, force_new=True, validators=(cidr_with_prefix(28, 28),)
    ),
    "masterGlobalAccessConfig": Field(
        type=Type.BLOCK, computed=True, fields={"enabled": flag("", required=True)}
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
            "cidrBlock": Field(
                api="cidrBlock", required=True, validators=(cidr_with_prefix(0, 32),)
            ),
            "displayName": Field(api="displayName"),
        },
    ),
    "gcpPublicCidrsAccessEnabled": flag("gcpPublicCidrsAccessEnabled", computed=True),
    "privateEndpointEnforcementEnabled": flag("privateEndpointEnforcementEnabled", computed=True),
}

ENDPOINTS: Fields = {
    "dnsEndpointConfig": Field(
        type=Type.BLOCK,
        computed=True,
        fields={
            "endpoint": Field(output=True),
            "allowExternalTraffic": flag("", computed=True),
            "enableK8sCertsViaDns": flag("", computed=True),
            "enableK8sTokensViaDns": flag("", computed=True),
        },
    ),
    "ipEndpointsConfig": Field(
        type=Type.BLOCK, computed=True, fields={"enabled": flag("", computed=True)}
    ),
}

NODE_CONFIG: Fields = {
    "machineType": text("machineType", force_new=True),
    "diskSizeGb": Field(type=Type.INT, api="diskSizeGb", computed=True, force_new=True),
    "diskType": text("diskType", force_new=True),
    "imageType": text("imageType"),
    "oauthScopes": Field(type=Type.SET, api="oauthScopes", computed=True, force_new=True),
    "serviceAccount": text("serviceAccount", force_new=True),
    "labels": Field(type=Type.MAP, api="labels", computed=True, force_new=True),
    "metadata": Field(type=Type.MAP, api="metadata", computed=True, force_new=True),
    "tags": Field(type=Type.LIST, api="tags", force_new=True),
    "spot": flag("spot", force_new=True),
    "preemptible": flag("preemptible", force_new=True),
    "gvnic": switch("gvnic", force_new=True),
    "gcfsConfig": switch("gcfsConfig", force_new=True),
    "secondaryBootDisks": Field(
        type=Type.BLOCKS,
        api="secondaryBootDisks",
        force_new=True,
        fields={
            "diskImage": Field(api="diskImage", required=True, force_new=True),
            "mode": Field(api="mode", force_new=True),
        },
    ),
    **not_carried(
        """
        advancedMachineFeatures bootDisk bootDiskKmsKey confidentialNodes
        containerdConfig effectiveTaints enableConfidentialStorage
        ephemeralStorageConfig ephemeralStorageLocalSsdConfig fastSocket flexStart
        gpudirectStrategy guestAccelerators hostMaintenancePolicy kubeletConfig
        linuxNodeConfig localNvmeSsdBlockConfig localSsdCount localSsdEncryptionMode
        loggingVariant maxRunDuration minCpuPlatform nodeGroup nodeImageConfigs
        reservationAffinity resourceLabels resourceManagerTags sandboxConfig
        shieldedInstanceConfig soleTenantConfig storagePools taintConfig taints
        windowsNodeConfig workloadMetadataConfig
        """
    ),
}
