"""What holds for whatever Pod template comes along."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import yaml
from hypothesis import HealthCheck, given, settings
from ruamel.yaml import YAML

from gpudirect.workloads import Environment, errors_in, render_document
from gpudirect.yaml_nodes import Tree
from gpudirect.yaml_reading import read_tree
from gpudirect.yaml_writing import write_tree
from tests.unit.test_workloads_cases import EXPECTED, as_kubernetes_reads
from tests.unit.workload_samples import (
    HIGH,
    MEGA,
    Document,
    all_containers,
    assert_complete,
    gpus,
    mounts,
    variables,
    volumes,
)

# Scalars that readers of YAML disagree about, beside ordinary words.
_WORDS = """a b on off yes no y n null ~ 0777 0o17 1_000 12:30:00 1e3 .5 0x1F 2024-01-02 = << 0
1.10"""
WORDS = st.sampled_from(_WORDS.split())
# Line ends and blanks of every kind, and what means something to YAML.
_PIECES = [*"ab:/-_ ,.#&*!|>{}[]%@'`\\?=~\n\t\r\x85\u2028\u2029\ufeff\xa0é", "---", "...", "\n "]
VALUES = st.one_of(WORDS, st.lists(st.sampled_from(_PIECES), max_size=8).map("".join))
NAMES = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
VARIABLES = st.sampled_from(
    ["A", "B", "LD_LIBRARY_PATH", "NCCL_DEBUG", "NCCL_BUFFSIZE", "NCCL_PROTO", "PATH", "NCCL_ALGO"]
)
PATHS = st.sampled_from(
    ["/data", "/dev/shm", "/dev/shm/", "/scratch", "/tmp/x", "/usr/local/lib", "/models", "/run"]
)
BY_STACK = {"a3-mega": MEGA, "a3-high": HIGH}
STACKS = st.sampled_from(list(BY_STACK))
RULES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


ENTRIES = st.one_of(
    st.fixed_dictionaries({"name": VARIABLES, "value": VALUES}),
    st.fixed_dictionaries({"name": VARIABLES}),
    st.fixed_dictionaries(
        {"name": VARIABLES, "valueFrom": st.just({"fieldRef": {"fieldPath": "metadata.name"}})}
    ),
)
VOLUMES = st.builds(
    lambda name, source: {"name": name, **source},
    st.sampled_from(["v1", "v2", "libraries", "shared-memory", "tcpx-socket", "sys"]),
    st.sampled_from(
        [
            {"emptyDir": {}},
            {"emptyDir": {"medium": "Memory"}},
            {"configMap": {"name": "c", "defaultMode": 0o755}},
            {"hostPath": {"path": "/home/kubernetes/bin/nvidia/lib64"}},
            {"hostPath": {"path": "/sys"}},
        ]
    ),
)


@st.composite
def pod_templates(draw: st.DrawFn) -> Document:
    own_volumes = draw(st.lists(VOLUMES, max_size=4, unique_by=lambda v: v["name"]))
    free = [v["name"] for v in own_volumes if "hostPath" not in v]

    def container(name: str, *, with_gpus: bool) -> Document:
        result: Document = {"name": name, "image": draw(WORDS)}
        env = draw(maybe(st.lists(ENTRIES, max_size=4)))
        if env is not None or draw(st.booleans()):
            result["env"] = env
        if free:
            paths = draw(st.lists(PATHS, max_size=3, unique_by=lambda p: p.rstrip("/")))
            result["volumeMounts"] = [
                {"name": draw(st.sampled_from(free)), "mountPath": path} for path in paths
            ]
        elif draw(st.booleans()):
            result["volumeMounts"] = None
        if with_gpus:
            result["resources"] = {"limits": {"nvidia.com/gpu": draw(st.sampled_from([8, "8"]))}}
        return result

    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    chosen = draw(st.integers(min_value=0, max_value=len(names) - 1))
    spec: Document = {
        "containers": [container(name, with_gpus=i == chosen) for i, name in enumerate(names)]
    }
    if draw(st.booleans()):
        extra = draw(st.lists(NAMES.map(lambda n: f"init-{n}"), max_size=2, unique=True))
        with_gpus = draw(st.lists(st.booleans(), min_size=len(extra), max_size=len(extra)))
        spec["initContainers"] = [
            container(name, with_gpus=flag) for name, flag in zip(extra, with_gpus, strict=True)
        ] or None
    if draw(st.booleans()) or own_volumes:
        spec["volumes"] = own_volumes or None
    policy = draw(maybe(st.sampled_from(["Always", "Never", "OnFailure"])))
    if policy:
        spec["restartPolicy"] = policy
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(maybe(st.just({"topology.kubernetes.io/zone": "z"})))
    template: Document = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    if draw(st.booleans()):
        template["metadata"] = draw(
            maybe(
                st.fixed_dictionaries(
                    {"name": NAMES, "labels": maybe(st.dictionaries(NAMES, WORDS, max_size=2))}
                )
            )
        )
    return template


def render(document: Document, environment: Environment) -> Document | None:
    result, findings = render_document(document, environment)
    if errors_in(findings):
        assert result is document
        return None
    return result


@given(pod_templates(), STACKS)
@RULES
def test_a_rendered_pod_is_complete_and_consistent(document: Document, stack: str) -> None:
    rendered = render(document, BY_STACK[stack])
    if rendered is None:
        return
    assert_complete(rendered, BY_STACK[stack])
    by_name = volumes(rendered["spec"])
    for container in all_containers(rendered["spec"]):
        assert set(mounts(container).values()) <= by_name.keys()
        if gpus(container):
            for value in variables(container).values():
                assert not (isinstance(value, str) and '"' in value)


@given(pod_templates(), STACKS)
@RULES
def test_rendering_twice_is_rendering_once(document: Document, stack: str) -> None:
    once = render(document, BY_STACK[stack])
    if once is not None:
        assert render(once, BY_STACK[stack]) == once


@given(pod_templates(), STACKS)
@RULES
def test_what_is_given_and_containers_without_gpus_stay_as_they_are(
    document: Document, stack: str
) -> None:
    before = copy.deepcopy(document)
    rendered = render(document, BY_STACK[stack])
    assert document == before
    if rendered is None:
        return
    after = {c["name"]: c for c in all_containers(rendered["spec"])}
    order = [name for name in after if not name.endswith("-daemon")]
    assert order == [c["name"] for c in all_containers(before["spec"])]
    for container in all_containers(before["spec"]):
        if not gpus(container):
            assert json.dumps(after[container["name"]]) == json.dumps(container)


@given(pod_templates(), STACKS)
@RULES
def test_a_rendered_pod_reads_alike_under_yaml_1_1_and_1_2(document: Document, stack: str) -> None:
    rendered = render(document, BY_STACK[stack])
    if rendered is None:
        return
    text = write_tree(Tree(data=rendered), rendered)
    assert yaml.load(text, yaml.CSafeLoader) == rendered
    assert YAML(typ="safe", pure=True).load(text) == rendered
    assert read_tree(text).data == rendered


# What a hand that slips leaves behind: nothing, another type, a word that means something.
SLIPS: list[Any] = [None, 0, 8, -1, 1.5, True, "", "x", "8", "/tmp", "nvidia.com/gpu"]
SLIPS += [[], [None], ["x"], [[]], [{}], {}, {"x": 1}, {"name": "x"}]
WHOLE = [document for name in EXPECTED for document in as_kubernetes_reads(name)]
WHOLE += [done for whole in WHOLE for e in (MEGA, HIGH) if (done := render(whole, e)) is not None]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything inside plain data."""
    if isinstance(node, dict | list):
        for step in node if isinstance(node, dict) else range(len(node)):
            yield (*path, step)
            yield from places(node[step], (*path, step))


@st.composite
def spoilt_documents(draw: st.DrawFn) -> Document:
    document: Document = copy.deepcopy(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(list(places(document)) or [("kind",)]))
        node: Any = document
        for step in way:
            node = node[step]
        node[last] = copy.deepcopy(draw(st.sampled_from(SLIPS)))
    return document


@given(spoilt_documents(), STACKS)
@settings(RULES, max_examples=300)
def test_whatever_is_wrong_with_a_manifest_is_told_and_never_a_traceback(
    document: Document, stack: str
) -> None:
    before = copy.deepcopy(document)
    rendered, findings = render_document(document, BY_STACK[stack])
    assert document == before
    assert all(finding.message and finding.fix for finding in findings)
    if not errors_in(findings):
        assert render(rendered, BY_STACK[stack]) == rendered
