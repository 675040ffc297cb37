"""The KRM function: what kustomize and kpt send, and what they get back."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudirect.environment_options import EnvironmentOptions
from gpudirect.krm_function import FunctionConfigError, run_function
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    assert_complete,
    container_named,
    gpu_container,
    job,
    pod,
    variables,
)

FUNCTION = Path(__file__).resolve().parents[2] / "bin" / "gpudirect-krm"
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
NOTHING_SAID = EnvironmentOptions()


def resource_list(*items: Any, kind: str = "GpuDirect", **config: Any) -> dict[str, Any]:
    section = "data" if kind == "ConfigMap" else "spec"
    return {
        "apiVersion": "config.kubernetes.io/v1",
        "kind": "ResourceList",
        "items": list(items),
        "functionConfig": {"apiVersion": "v1", "kind": kind, section: config},
    }


def test_items_are_rendered_and_the_rest_goes_back_as_it_came() -> None:
    asked = resource_list(SERVICE, job(), gpuStack="a3-mega")
    answer, findings = run_function(asked, NOTHING_SAID)
    assert findings == []
    assert answer["items"][0] == SERVICE
    assert_complete(answer["items"][1]["spec"]["template"], MEGA)
    assert answer["functionConfig"] == asked["functionConfig"]
    assert "results" not in answer


def test_a_config_map_says_the_same_in_text() -> None:
    asked = resource_list(
        pod(),
        kind="ConfigMap",
        gpuStack="a3-high",
        networks="a,b,c,d",
        nodeSelector="cloud.google.com/gke-spot=true",
        debug="true",
        nodes="64",
    )
    [item] = run_function(asked, NOTHING_SAID)[0]["items"]
    assert '"network":"d"' in item["metadata"]["annotations"]["networking.gke.io/interfaces"]
    assert item["spec"]["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
    assert variables(container_named(item["spec"], "train"))["NCCL_DEBUG"] == "WARN"


def test_a_config_of_its_own_says_it_in_lists_and_mappings() -> None:
    rollout = {"apiVersion": "a/v1", "kind": "Rollout", "spec": {"template": pod()}}
    asked = resource_list(
        rollout,
        gpuStack="a3-mega",
        profile="simple",
        networks=[f"n{n}" for n in range(8)],
        nodeSelector={"cloud.google.com/gke-spot": "true"},
        templatePaths=["Rollout=spec.template"],
        debugFile="/logs/nccl",
    )
    [item] = run_function(asked, NOTHING_SAID)[0]["items"]
    spec = item["spec"]["template"]["spec"]
    assert spec["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
    own = variables(container_named(spec, "train"))
    assert own["NCCL_PROTO"] == "Simple"
    assert own["NCCL_DEBUG_FILE"] == "/logs/nccl.%h.%p"


def test_what_the_command_line_says_holds_where_the_config_says_nothing() -> None:
    answer, _ = run_function(resource_list(pod()), EnvironmentOptions(gpu_stack="a3-high"))
    assert_complete(answer["items"][0], HIGH)


def test_a_finding_leaves_every_item_and_is_among_the_results() -> None:
    half = pod(
        gpu_container(resources={"limits": {"nvidia.com/gpu": 4}}),
        metadata={"namespace": "birds"},
    )
    asked = resource_list(pod(), half, gpuStack="a3-mega")
    answer, findings = run_function(asked, NOTHING_SAID)
    assert answer["items"] == asked["items"]
    assert [finding.document for finding in findings] == [2]
    [result] = answer["results"]
    assert result["severity"] == "error"
    assert result["field"]["path"] == "spec.containers[0].resources.limits"
    assert result["resourceRef"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "wren",
        "namespace": "birds",
    }


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "ResourceList"),
        ({"kind": "Pod"}, "ResourceList"),
        (resource_list() | {"apiVersion": "v9"}, "'v9'"),
        (resource_list() | {"functionConfig": []}, "an object"),
        (resource_list() | {"functionConfig": {"spec": []}}, "functionConfig.spec"),
        (resource_list(gpuStack="a3-mega", network="x"), "network means nothing"),
        (resource_list(), "gpuStack: a3-mega or a3-high, under spec"),
        (resource_list(gpuStack="a3-mega") | {"items": {"kind": "Pod"}}, "a list of objects"),
        (resource_list(gpuStack="a3-mega", nodes=0), "nodes: '0'"),
        (resource_list(gpuStack="a4"), "'a4'"),
        (resource_list(gpuStack="a3-mega", networks="x"), "1 given"),
        (resource_list(gpuStack="a3-mega", nodes="many"), "many"),
    ],
)
def test_a_list_or_config_that_says_nothing_usable_is_refused(asked: Any, words: str) -> None:
    with pytest.raises(FunctionConfigError, match=words):
        run_function(asked, NOTHING_SAID)


def test_a_config_without_a_kind_says_it_under_data_or_spec() -> None:
    for section in ("data", "spec"):
        config = {section: {"gpuStack": "a3-high", "networks": None, "nodeSelector": {"x": True}}}
        answer, findings = run_function(
            resource_list(pod()) | {"functionConfig": config}, NOTHING_SAID
        )
        assert findings == []
        assert answer["items"][0]["spec"]["nodeSelector"]["x"] == "true"


def test_the_function_keeps_comments_and_answers_on_standard_output() -> None:
    text = yaml.safe_dump(resource_list(pod(), gpuStack="a3-mega"), sort_keys=False).replace(
        "  kind: Pod", "  # a wren\n  kind: Pod"
    )
    result = subprocess.run(
        [FUNCTION], input=text, text=True, capture_output=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    answer = yaml.safe_load(result.stdout)
    assert_complete(answer["items"][0], MEGA)
    assert "# a wren\n" in result.stdout


def test_the_function_fails_with_the_results_for_its_caller() -> None:
    text = yaml.safe_dump(resource_list(pod(hostNetwork=True), gpuStack="a3-mega"))
    result = subprocess.run(
        [FUNCTION], input=text, text=True, capture_output=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert "hostNetwork" in result.stderr
    answer = yaml.safe_load(result.stdout)
    assert answer["items"] == [pod(hostNetwork=True)]
    assert answer["results"][0]["severity"] == "error"
    broken = subprocess.run(
        [FUNCTION], input="a: [", text=True, capture_output=True, check=False, timeout=60
    )
    assert broken.returncode == 2
    assert "Traceback" not in broken.stderr
