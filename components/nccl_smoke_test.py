"""The NCCL run that proves the GPU network, and the gate that it forms.

Owns what is run (manifests, images, environment), what makes it run again, and how a failed gate
fails the update. Does not own how it is run (`nccl_run_provider`, `nccl_run`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pulumi
import pulumi.dynamic

from components.nccl_run_provider import LAUNCHER_CONTAINER, NcclRunProvider
from gpudirect.manifests import Document, load_manifest, with_images
from gpudirect.run_result import describe_result
from gpudirect.settings import FabricSettings, SmokeTestSettings
from gpudirect.workloads import Environment, render_pod_template

_BENCHMARKS = {
    "all-gather": "all_gather_perf",
    "all-reduce": "all_reduce_perf",
    "reduce-scatter": "reduce_scatter_perf",
    "all-to-all": "alltoall_perf",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclSmokeTestArgs:
    """What is proven, and where.

    Attributes:
        settings: The checked smoke-test part of the stack's config.
        environment: What the stack offers to workloads; the test is rendered like one of them.
        kubeconfig: The way into the cluster, a secret.
        cluster_version: The control plane's version; another one is proven anew.
        fabric: What the GPU network is made of; another one is proven anew.
        cluster: The cluster that the run disappears with.
        after: What must be there first although no property comes from it. The SDK does not hand a
            component's `depends_on` to its children, so it is an argument.
    """

    settings: SmokeTestSettings
    environment: Environment
    kubeconfig: pulumi.Input[str]
    cluster_version: pulumi.Input[str]
    fabric: FabricSettings
    cluster: pulumi.Resource
    after: Sequence[pulumi.Resource]


class _NcclRun(pulumi.dynamic.Resource, module="gpudirect", name="NcclRun"):
    result: pulumi.Output[dict[str, Any]]
    history: pulumi.Output[list[Any]]


class NcclSmokeTest(pulumi.ComponentResource):
    """A collective over all GPUs of N nodes through the GPU network.

    Attributes:
        result: Verdict, figures and rows of the last run; a shut gate fails the update instead.
    """

    def __init__(
        self,
        name: str,
        args: NcclSmokeTestArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("gpudirect:index:NcclSmokeTest", name, None, opts)
        self.result: pulumi.Output[dict[str, Any]]
        if args.settings.mode == "off":
            self.result = pulumi.Output.from_input({"verdict": "off"})
        else:
            self.result = self._run(name, args)
        self.register_outputs({"verdict": self.result.apply(lambda result: result["verdict"])})

    def _run(self, name: str, args: NcclSmokeTestArgs) -> pulumi.Output[dict[str, Any]]:
        settings, environment = args.settings, args.environment
        run = _NcclRun(
            NcclRunProvider(),
            f"{name}-run",
            {
                "kubeconfig": args.kubeconfig,
                # As text: in the engine's own form every number would come back as a float.
                "documents": json.dumps(smoke_test_documents(settings, environment)),
                "triggers": {
                    "release": environment.release.name,
                    "profile": environment.profile,
                    "imageRegistry": environment.image_registry,
                    "nodeSelector": dict(environment.node_selector),
                    "nodes": settings.nodes,
                    "collective": settings.collective,
                    "rerun": settings.rerun,
                    "fabric": {
                        "mtuBytes": args.fabric.mtu_bytes,
                        "nics": [asdict(nic) for nic in args.fabric.nics],
                        "sourceRanges": list(args.fabric.source_ranges),
                    },
                    "clusterVersion": args.cluster_version,
                },
                "policy": {
                    "mode": settings.mode,
                    "minFraction": settings.min_fraction,
                    "nodes": settings.nodes,
                    "gpusPerNode": environment.stack.gpus_per_node,
                    "nicsPerNode": environment.stack.nic_count,
                    "collective": settings.collective,
                },
                "reference": {
                    "nodes": environment.release.reference.nodes,
                    "curve": [list(point) for point in environment.release.reference_bandwidth],
                },
                "deadlines": {
                    "capacity": settings.capacity_deadline_seconds,
                    "pull": settings.pull_deadline_seconds,
                    "start": settings.start_deadline_seconds,
                    "run": settings.run_deadline_seconds,
                },
                "statusUrn": _run_urn(f"{name}-run"),
                "result": None,
                "history": None,
            },
            # Destroy deletes the cluster; a run leaves nothing in it that would need deleting.
            pulumi.ResourceOptions(
                parent=self, deleted_with=args.cluster, depends_on=list(args.after)
            ),
        )
        mode = settings.mode
        return pulumi.Output.all(run.result, run.history).apply(
            lambda parts: _pass_gate(parts[0], parts[1], mode)
        )


def smoke_test_documents(settings: SmokeTestSettings, environment: Environment) -> list[Document]:
    """Return the objects of a run: Service, NetworkPolicy and Job, ready to create."""
    job = load_manifest(f"{environment.stack.name}/nccl-test.yaml")
    spec = job["spec"]
    spec |= {
        "completions": settings.nodes,
        "parallelism": settings.nodes,
        "activeDeadlineSeconds": _whole_run_seconds(settings),
    }
    values = {"NHOSTS": str(settings.nodes), "BENCHMARK": _BENCHMARKS[settings.collective]}
    script = environment.release.profile_files.get(environment.profile)
    if script is not None:
        values["PROFILE_SCRIPT"] = script
    _set_environment(spec["template"]["spec"]["containers"], values)
    job = with_images(job, [environment.release.plugin_image])
    job["spec"]["template"] = render_pod_template(
        job["spec"]["template"], environment, can_end=True
    )
    return [
        load_manifest("nccl-test/service.yaml"),
        load_manifest("nccl-test/network-policy.yaml"),
        job,
    ]


def _whole_run_seconds(settings: SmokeTestSettings) -> int:
    return (
        settings.capacity_deadline_seconds
        + settings.pull_deadline_seconds
        + settings.start_deadline_seconds
        + settings.run_deadline_seconds
    )


def _set_environment(containers: Sequence[Document], values: Mapping[str, str]) -> None:
    for container in containers:
        if container["name"] == LAUNCHER_CONTAINER:
            for entry in container["env"]:
                if entry["name"] in values:
                    entry["value"] = values[entry["name"]]


def _run_urn(name: str) -> str:
    """Return the URN that the engine gives the run, so that its progress shows beside it.

    It is put together here because a resource's own URN, or its parent's, cannot be among its
    inputs: the SDK sees a circle in that.
    """
    types = "gpudirect:index:NcclSmokeTest$pulumi-python:dynamic/gpudirect:NcclRun"
    return f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::{types}::{name}"


def _pass_gate(result: dict[str, Any], history: list[Any], mode: str) -> dict[str, Any]:
    if mode == "gate" and result["verdict"] != "passed":
        raise pulumi.RunError(
            f"smokeTest: the GPU network did not pass the gate\n{describe_result(result)}"
        )
    return {**result, "history": history}
