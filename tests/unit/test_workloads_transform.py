"""The Pulumi transform gives declared workloads what manifests get."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pulumi
import pytest
from pulumi.output import UNKNOWN
from pulumi.runtime.rpc import wrap_rpc_secret

from components.workload_transform import GpuDirectWorkloads
from gpudirect.stacks import A3_HIGH
from gpudirect.workloads import NcclDebug
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    Document,
    assert_complete,
    container_named,
    environment_of,
    gpu_container,
    job,
    pod,
    render,
    variables,
)


def transformed(
    props: Document,
    workloads: GpuDirectWorkloads,
    type_: str = "kubernetes:batch/v1:Job",
) -> Any:
    """Return what a resource's properties become, or None where they stay."""
    options = pulumi.ResourceOptions(protect=True)
    args = pulumi.ResourceTransformArgs(True, type_, "lark", props, options)

    async def call() -> Any:
        result = await workloads.transform(args)
        if result is None:
            return None
        assert result.opts is options
        return result.props

    return asyncio.run(call())


def test_a_job_comes_out_as_its_manifest_would() -> None:
    for environment in (MEGA, HIGH):
        props = transformed(job(), GpuDirectWorkloads(environment))
        assert props == render(job(), environment)
        assert_complete(props["spec"]["template"], environment)


def test_numbers_are_taken_as_pulumi_hands_them_over() -> None:
    props = job(pod(gpu_container(resources={"limits": {"nvidia.com/gpu": 8.0}})), parallelism=64.0)
    result = transformed(props, GpuDirectWorkloads(MEGA, debug=NcclDebug()))
    own = variables(container_named(result["spec"]["template"]["spec"], "train"))
    assert own["NCCL_DEBUG"] == "WARN"


def test_resources_without_gpus_stay() -> None:
    workloads = GpuDirectWorkloads(MEGA)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    assert transformed(service, workloads, "kubernetes:core/v1:Service") is None
    assert transformed(pod({"name": "web"}), workloads, "kubernetes:core/v1:Pod") is None
    assert transformed(job(), workloads, "gcp:compute/network:Network") is None
    assert transformed({"kubeconfig": "x"}, workloads, "kubernetes:provider") is None


def test_a_workload_that_cannot_work_fails_the_program() -> None:
    half = job(pod(gpu_container(resources={"limits": {"nvidia.com/gpu": 4}}), hostPID=True))
    # A RunError that leaves the event loop: the host prints its text alone.
    with pytest.raises(pulumi.RunError) as raised:
        transformed(half, GpuDirectWorkloads(MEGA))
    first, *reasons = str(raised.value).splitlines()
    assert first == "lark cannot be given GPUDirect:"
    assert [reason.split(": ")[1] for reason in reasons] == [
        "spec.template.spec.containers[0].resources.limits",
        "spec.template.spec.hostPID",
    ]


def test_values_that_are_not_known_yet_stay_what_they_are() -> None:
    document = job(pod(gpu_container(image=UNKNOWN, env=[{"name": "A", "value": UNKNOWN}])))
    props = transformed(document, GpuDirectWorkloads(MEGA))
    container = container_named(props["spec"]["template"]["spec"], "train")
    assert container["image"] is UNKNOWN
    assert container["env"][0]["value"] is UNKNOWN
    assert "NCCL_PROTO" in {entry["name"] for entry in container["env"]}


def test_a_secret_stays_secret() -> None:
    document = job(pod(gpu_container(env=[{"name": "TOKEN", "value": "hush"}])))
    document["spec"] = wrap_rpc_secret(document["spec"])
    args = pulumi.ResourceTransformArgs(
        True, "kubernetes:batch/v1:Job", "lark", document, pulumi.ResourceOptions()
    )

    async def look() -> tuple[bool, Any]:
        result = await GpuDirectWorkloads(MEGA).transform(args)
        assert result is not None
        output = result.props["spec"]
        assert isinstance(output, pulumi.Output)
        return await output.is_secret(), await output.future()

    is_secret, spec = asyncio.run(look())
    assert is_secret
    assert_complete(spec["template"], MEGA)
    assert variables(container_named(spec["template"]["spec"], "train"))["TOKEN"] == "hush"


def test_everything_comes_from_the_outputs_of_a_deployed_stack() -> None:
    environment = environment_of(A3_HIGH, networks=("net1", "net2", "net3", "net4"))
    outputs = {
        "gpuStack": "a3-high",
        "networks": [{"network": name} for name in environment.networks],
        "release": {"name": environment.release.name, "profile": "default"},
    }
    args = pulumi.ResourceTransformArgs(
        True, "kubernetes:batch/v1:Job", "lark", job(), pulumi.ResourceOptions()
    )

    async def look(outputs: Any) -> Any:
        reference = SimpleNamespace(outputs=pulumi.Output.from_input(outputs))
        workloads = GpuDirectWorkloads.from_stack(cast(pulumi.StackReference, reference))
        result = await workloads.transform(args)
        return result.props if result is not None else None

    assert asyncio.run(look(outputs)) == render(job(), environment)
    with pytest.raises(pulumi.RunError, match="no output gpuStack"):
        asyncio.run(look({}))


def test_other_kinds_are_reached_by_a_path() -> None:
    rollout = {"apiVersion": "a/v1", "kind": "Rollout", "spec": {"template": pod()}}
    workloads = GpuDirectWorkloads(MEGA, template_paths=["Rollout=spec.template"])
    props = transformed(rollout, workloads, "kubernetes:a/v1:Rollout")
    assert_complete(props["spec"]["template"], MEGA)
    with pytest.raises(ValueError, match="template path"):
        GpuDirectWorkloads(MEGA, template_paths=["a b"])
