"""One GPU environment: reads the stack's config, composes the four components, exports outputs."""

import os

from components.autopilot_cluster import AutopilotCluster, AutopilotClusterArgs
from components.deletion_guard import guard_deletion
from components.deployed_state import deployed_outputs, former_cluster
from components.gpudirect_addons import GpuDirectAddons, GpuDirectAddonsArgs
from components.nccl_smoke_test import NcclSmokeTest, NcclSmokeTestArgs
from components.network_fabric import GpuNetworkFabric, GpuNetworkFabricArgs
from components.stack_config import read_settings, stack_label, workload_environment
from components.stack_outputs import export_outputs

# Asked for once, and before anything is registered: afterwards an answer would wait for plug-ins.
deployed = deployed_outputs()
settings = read_settings(os.environ, deployed)
environment = workload_environment(settings)

fabric = GpuNetworkFabric(
    "fabric", GpuNetworkFabricArgs(settings=settings.fabric, region=settings.region)
)
cluster = AutopilotCluster(
    "cluster",
    AutopilotClusterArgs(
        settings=settings.cluster,
        region=settings.region,
        labels=settings.labels,
        gpu_subnets=fabric.subnets,
        stack_label=stack_label(settings),
        former=former_cluster(
            deployed, settings.cluster.name, settings.region, stack_label(settings)
        ),
    ),
)
addons = GpuDirectAddons(
    "addons",
    GpuDirectAddonsArgs(
        nics=settings.fabric.nics,
        environment=environment,
        device_injector=settings.device_injector,
        cluster=cluster.cluster,
        kubernetes_provider=cluster.kubernetes_provider,
        kubeconfig=cluster.kubeconfig,
        stack_label=stack_label(settings),
    ),
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
        # Without the firewall rules the ranks would wait for one another for ever, without the
        # addons the daemons would find no device.
        after=[fabric, addons],
    ),
)
guard_deletion(cluster.guarded, after=[fabric, cluster, addons, smoke_test])
export_outputs(settings, environment, cluster, smoke_test)
