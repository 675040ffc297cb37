"""Variables of a GPU container: the release's beside the user's, and NCCL's log."""

from __future__ import annotations

from typing import Any

import pytest

from gpudirect.stacks import A3_MEGA
from gpudirect.workload_environment import NcclDebug, debug_file_pattern
from tests.unit.workload_samples import (
    Document,
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


def with_env(*entries: Document) -> Document:
    return pod(gpu_container(env=list(entries)))


def env_of(document: Document) -> dict[str, Any]:
    return variables(container_named(document["spec"], "train"))


# Environment


def test_the_library_path_is_put_in_front_of_the_users() -> None:
    document = with_env({"name": "LD_LIBRARY_PATH", "value": "/opt/lib:/usr/lib"})
    assert env_of(render(document))["LD_LIBRARY_PATH"] == f"{LIBRARY}:/opt/lib:/usr/lib"


@pytest.mark.parametrize("value", [f"/opt/lib:{LIBRARY}", LIBRARY])
def test_a_library_path_that_holds_the_folder_stays(value: str) -> None:
    document = with_env({"name": "LD_LIBRARY_PATH", "value": value})
    assert env_of(render(document))["LD_LIBRARY_PATH"] == value


def test_an_empty_library_path_does_not_become_one_with_an_empty_folder() -> None:
    document = with_env({"name": "LD_LIBRARY_PATH", "value": ""})
    assert env_of(render(document))["LD_LIBRARY_PATH"] == LIBRARY


def test_a_library_path_from_elsewhere_is_left_with_a_word() -> None:
    source = {"configMapKeyRef": {"name": "c", "key": "k"}}
    document = with_env({"name": "LD_LIBRARY_PATH", "valueFrom": source})
    [warning] = findings_of(document)
    assert LIBRARY in warning.message
    assert env_of(render(document))["LD_LIBRARY_PATH"] == source


def test_the_users_entries_keep_their_place_and_order() -> None:
    document = with_env({"name": "B", "value": "1"}, {"name": "A", "value": "$(B)"})
    env = container_named(render(document)["spec"], "train")["env"]
    assert env[:2] == [{"name": "B", "value": "1"}, {"name": "A", "value": "$(B)"}]


def test_of_a_name_set_twice_the_last_one_stays() -> None:
    document = with_env(
        {"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}
    )
    [warning] = findings_of(document)
    assert warning.value == "A"
    env = container_named(render(document)["spec"], "train")["env"]
    assert env[:2] == [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]


def test_a_value_that_is_the_same_needs_no_word() -> None:
    assert findings_of(with_env({"name": "NCCL_CROSS_NIC", "value": "0"})) == []


def test_a_network_of_the_users_own_choice_is_told() -> None:
    [warning] = findings_of(with_env({"name": "NCCL_NET", "value": "Socket"}))
    assert "NCCL_NET" in warning.message


def test_the_simple_profile_has_neither_ll128_nor_nvlstree() -> None:
    own = env_of(render(pod(), environment_of(A3_MEGA, profile="simple")))
    assert own["NCCL_PROTO"] == "Simple"
    assert "NCCL_NVLSTREE_MAX_CHUNKSIZE" not in own
    assert own["NCCL_TUNER_CONFIG_PATH"].endswith("a3plus_tuner_config_simple.textproto")


def test_in_the_simple_profile_nobody_enforces_the_chunk_size() -> None:
    document = with_env({"name": "NCCL_NVLSTREE_MAX_CHUNKSIZE", "value": "65536"})
    assert errors_of(document, environment_of(A3_MEGA, profile="simple")) == []


# NCCL's log


def test_debug_turns_the_log_on() -> None:
    own = env_of(render(pod(), debug=NcclDebug()))
    assert own["NCCL_DEBUG"] == "INFO"
    assert own["NCCL_DEBUG_SUBSYS"] == "INIT,NET,ENV,COLL,GRAPH"
    assert "NCCL_DEBUG_FILE" not in own


@pytest.mark.parametrize(("nodes", "file", "level"), [(63, "", "INFO"), (64, "", "WARN")])
def test_from_64_nodes_on_only_errors_are_logged(nodes: int, file: str, level: str) -> None:
    own = env_of(render(pod(), debug=NcclDebug(file=file), nodes=nodes))
    assert own["NCCL_DEBUG"] == level


def test_64_nodes_log_everything_into_files() -> None:
    debug = NcclDebug(file=debug_file_pattern("/logs/nccl"))
    own = env_of(render(pod(), debug=debug, nodes=64))
    assert own["NCCL_DEBUG"] == "INFO"
    assert own["NCCL_DEBUG_FILE"] == "/logs/nccl.%h.%p"


def test_the_size_of_a_job_is_read_from_it() -> None:
    def level(**spec: Any) -> str:
        template = render(job(**spec), debug=NcclDebug())["spec"]["template"]
        return str(variables(container_named(template["spec"], "train"))["NCCL_DEBUG"])

    assert level(parallelism=63) == "INFO"
    assert level(parallelism=64) == "WARN"


def test_a_loud_log_of_the_users_own_is_told_from_64_nodes_on() -> None:
    loud = {"name": "NCCL_DEBUG", "value": "INFO"}
    file = {"name": "NCCL_DEBUG_FILE", "value": "/logs/n.%h.%p"}
    for count, entries, told in ((63, [loud], 0), (64, [loud], 1), (64, [loud, file], 0)):
        document = job(pod(gpu_container(env=entries)), parallelism=count)
        assert len(findings_of(document)) == told


def test_a_debug_file_needs_an_absolute_path() -> None:
    assert debug_file_pattern("/logs/n.%h.%p") == "/logs/n.%h.%p"
    with pytest.raises(ValueError, match="absolute"):
        debug_file_pattern("logs/nccl")


def test_a_debug_level_of_the_users_own_stays_and_is_told_only_when_another_was_asked_for() -> None:
    document = with_env({"name": "NCCL_DEBUG", "value": "VERSION"})
    assert findings_of(document) == []
    rendered = render(document, debug=NcclDebug())
    assert env_of(rendered)["NCCL_DEBUG"] == "VERSION"
