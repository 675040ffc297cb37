"""The stack's outputs. Their names are a contract: scripts and other stacks read them."""

from typing import Any

import pulumi

from components.autopilot_cluster import AutopilotCluster
from components.nccl_smoke_test import NcclSmokeTest
from gpudirect.run_result import describe_result
from gpudirect.settings import Settings
from gpudirect.workloads import Environment, pod_annotations


def export_outputs(
    settings: Settings,
    environment: Environment,
    cluster: AutopilotCluster,
    smoke_test: NcclSmokeTest,
) -> None:
    """Export every output of an environment; docs/outputs.md says what each one holds."""
    release = settings.release
    networks = [
        {
            "interface": nic.interface,
            "network": nic.network_object,
            "vpc": nic.vpc_name,
            "subnet": nic.subnet_name,
            "cidr": nic.cidr,
        }
        for nic in settings.fabric.nics
    ]
    outputs: dict[str, Any] = {
        "gpuStack": settings.gpu_stack.name,
        "location": settings.region,
        "clusterName": cluster.cluster.name,
        "clusterEndpoint": cluster.cluster.endpoint,
        "clusterVersion": cluster.cluster.master_version,
        "kubeconfig": cluster.kubeconfig,
        "networks": networks,
        "podAnnotations": pod_annotations(environment),
        "podNodeSelector": dict(environment.node_selector),
        "release": {
            "name": release.name,
            "plugin": release.plugin_image,
            "daemon": release.daemon_image,
            "profile": settings.profile,
            "imageRegistry": settings.image_registry,
            "source": release.source,
        },
        "smokeTest": smoke_test.result,
        "readme": pulumi.Output.all(cluster.cluster.name, smoke_test.result).apply(
            lambda parts: _readme(settings, parts[0], parts[1])
        ),
    }
    for name, value in outputs.items():
        pulumi.export(name, value)


def _readme(settings: Settings, cluster_name: str, result: dict[str, Any]) -> str:
    stack = settings.gpu_stack
    nics = "\n".join(
        f"| {nic.interface} | {nic.network_object} | {nic.vpc_name} | {nic.subnet_name} "
        f"| {nic.cidr} |"
        for nic in settings.fabric.nics
    )
    return f"""# {settings.stack_name}: {stack.technology} on {stack.machine_type}

Cluster `{cluster_name}` in `{settings.region}`, release `{settings.release.name}`,
profile `{settings.profile}`.

## Bandwidth

```
{describe_result(result)}
```

## GPU network

| interface | network | VPC | subnet | range |
|---|---|---|---|---|
{nics}

A Pod that uses it needs the annotations in the output `podAnnotations`, the receive daemon beside
it and the NCCL settings of the release: `python -m gpudirect inject` puts all of it into manifests.
"""
