"""Rendering what was rendered before, with the same settings and with others."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpudirect.releases import load_releases
from gpudirect.stacks import A3_MEGA
from gpudirect.workload_environment import NcclDebug
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    Document,
    all_containers,
    assert_complete,
    container_named,
    environment_of,
    errors_of,
    findings_of,
    gpu_container,
    job,
    pod,
    render,
    variables,
)

LIBRARY = "/usr/local/nvidia/lib64"
SPOT = {"cloud.google.com/gke-spot": "true"}
FLEX = {"cloud.google.com/gke-flex-start": "true"}


def env_of(document: Document) -> dict[str, Any]:
    return variables(container_named(document["spec"], "train"))


@pytest.mark.parametrize("environment", [MEGA, HIGH], ids=["a3-mega", "a3-high"])
def test_rendering_twice_is_rendering_once(environment: Any) -> None:
    for document in (pod(), job(), pod(restartPolicy="Never")):
        once = render(document, environment)
        assert render(once, environment) == once


def test_an_older_render_is_brought_up_to_date_in_place() -> None:
    old = environment_of(A3_MEGA, release=load_releases().get("tcpxo-v1.0.11", "a3-mega"))
    for document in (pod(gpu_container(env=[{"name": "MINE", "value": "1"}])), job()):
        upgraded = render(render(document, old))
        fresh = render(document)
        assert findings_of(render(document, old)) == []
        assert upgraded == fresh or _sorted(upgraded) == _sorted(fresh)


def test_another_profile_takes_the_first_ones_variables_out() -> None:
    simple = environment_of(A3_MEGA, profile="simple")
    there = render(render(pod()), simple)
    assert _sorted(there) == _sorted(render(pod(), simple))
    assert _sorted(render(there)) == _sorted(render(pod()))


def test_what_the_user_changed_since_the_first_render_is_kept() -> None:
    document = render(pod())
    for entry in container_named(document["spec"], "train")["env"]:
        if entry["name"] == "NCCL_BUFFSIZE":
            entry["value"] = "16777216"
    simple = environment_of(A3_MEGA, profile="simple")
    [warning] = findings_of(document, simple)
    assert "16777216" in warning.message
    assert env_of(render(document, simple))["NCCL_BUFFSIZE"] == "16777216"


def test_other_networks_capacity_and_registry_replace_the_first_ones() -> None:
    first = environment_of(A3_MEGA, node_selector=SPOT, image_registry="old.example")
    second = environment_of(
        A3_MEGA,
        node_selector=FLEX,
        image_registry="new.example",
        networks=tuple(f"gpu{n}" for n in range(8)),
    )
    assert findings_of(render(pod(), first), second) == []
    assert _sorted(render(render(pod(), first), second)) == _sorted(render(pod(), second))
    assert _sorted(render(render(pod(), first))) == _sorted(render(pod()))


def test_the_log_is_turned_off_again() -> None:
    loud = render(pod(), debug=NcclDebug(file="/logs/n.%h.%p"))
    assert _sorted(render(loud)) == _sorted(render(pod()))


def test_selectors_of_the_users_own_survive_another_capacity_choice() -> None:
    document = pod(nodeSelector={"topology.kubernetes.io/zone": "us-central1-c", **SPOT})
    spot = environment_of(A3_MEGA, node_selector=SPOT)
    selectors = render(render(document, spot))["spec"]["nodeSelector"]
    assert selectors["cloud.google.com/gke-spot"] == "true"


def test_a_render_for_the_other_stack_is_refused() -> None:
    [error] = errors_of(render(pod()), HIGH)
    assert "another stack" in error.message


def test_a_record_that_is_none_does_no_harm() -> None:
    for text in ("", "x", "[]", '{"release": 1}', '{"release":"gone-v1","profile":"default"}'):
        document = pod(metadata={"annotations": {"gpudirect/rendered": text}})
        rendered = render(document)
        assert_complete(rendered, MEGA)
        assert "tcpxo" in rendered["metadata"]["annotations"]["gpudirect/rendered"]


def _sorted(document: Document) -> Document:
    """Return a copy in which order does not count where Kubernetes gives it no meaning."""
    result = copy.deepcopy(document)
    spec = result["spec"].get("template", result)["spec"]
    for container in all_containers(spec):
        for key in ("env", "volumeMounts"):
            if key in container:
                container[key].sort(key=lambda entry: entry.get("mountPath", entry["name"]))
    if "volumes" in spec:
        spec["volumes"].sort(key=lambda volume: volume["name"])
    return result
