"""One GPU environment: reads the stack's config, composes the four components, exports outputs."""

import os

import pulumi

from components.autopilot_cluster import AutopilotCluster, AutopilotClusterArgs
from components.gpudirect_addons import GpuDirectAddons, GpuDirectAddonsArgs
from components.nccl_smoke_test import NcclSmokeTest, NcclSmokeTestArgs
from components.network_fabric import GpuNetworkFabric, GpuNetworkFabricArgs
from components.stack_config import read_settings
from components.stack_outputs import export_outputs
from gpudirect.workloads import Environment

settings = read_settings(os.environ)
release, stack = settings.release, settings.gpu_stack

fabric = GpuNetworkFabric(
    "fabric",
    GpuNetworkFabricArgs(
        nics=settings.fabric.nics,
        mtu_bytes=settings.fabric.mtu_bytes,
        source_ranges=settings.fabric.source_ranges,
        region=settings.region,
    ),
)
cluster = AutopilotCluster(
    "cluster",
    AutopilotClusterArgs(
        settings=settings.cluster,
        region=settings.region,
        labels=settings.labels,
        gpu_subnets=fabric.subnets,
    ),
)
addons = GpuDirectAddons(
    "addons",
    GpuDirectAddonsArgs(
        nics=settings.fabric.nics,
        stack=stack.name,
        images=settings.images,
        device_injector=settings.device_injector,
        cluster=cluster.cluster,
        kubernetes_provider=cluster.kubernetes_provider,
    ),
)
environment = Environment(
    stack=stack,
    release=release,
    networks=settings.network_names,
    profile=settings.profile,
    image_registry=settings.image_registry,
    node_selector=settings.capacity.node_selector(),
)
smoke_test = NcclSmokeTest(
    "smoke-test",
    NcclSmokeTestArgs(
        settings=settings.smoke_test,
        environment=environment,
        kubeconfig=cluster.kubeconfig,
        cluster_version=cluster.cluster.master_version,
        fabric=settings.fabric,
        cluster=cluster.cluster,
    ),
    # No property comes from either: without the firewall rules the ranks would wait for one
    # another, without the addons the daemons would find no device.
    pulumi.ResourceOptions(depends_on=[fabric, addons]),
)
export_outputs(settings, environment, cluster, smoke_test)
