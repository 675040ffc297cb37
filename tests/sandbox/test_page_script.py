"""The page's procedure by gcloud and kubectl is judge: it works, and makes what the program makes.

The program is given the same names and ranges, so that nothing but the clients differs.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.sandbox.cloud_client import CloudClient, wait_until
from tests.sandbox.harness import Done, Sandbox

pytestmark = [
    pytest.mark.gcloud,
    pytest.mark.soak,
    pytest.mark.skipif(not shutil.which("gcloud"), reason="gcloud is not installed"),
]

OBJECTS = "networks.networking.gke.io,gkenetworkparamsets,daemonsets,namespaces"
# What differs from one creation to the next.
_PER_LIFE = re.compile(
    r"\.(id|uid|creationTimestamp|createTime|fingerprint|labelFingerprint|etag|endpoint|publicEndpoint"
    r"|clusterCaCertificate|resourceVersion|generation|managedFields|status|networkUrl)(\.|\[|$)"
)
CLIENT_DIFFERENCES = {
    # The provider sends what it sees as defaults, gcloud leaves it out; and it labels what it made.
    "firewalls": {".logConfig.enable"},
    "subnetworks": {".logConfig.enable"},
    "networks": set[str](),
}


@dataclass
class Made:
    """What one way made: path of a resource or object -> its fields."""

    done: dict[str, Done] = field(default_factory=dict)
    cloud: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Both:
    """The page's way and the program's."""

    page: Made
    program: Made


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    elif not _PER_LIFE.search(path):
        yield path, value


def _look(sandbox: Sandbox, cloud: CloudClient, made: Made, region: str) -> None:
    for kind, path in (
        ("networks", "global/networks"),
        ("firewalls", "global/firewalls"),
        ("subnetworks", f"regions/{region}/subnetworks"),
    ):
        for item in cloud.compute("GET", path)["items"]:
            if item["name"].startswith("page-"):
                made.cloud[f"{kind}/{item['name']}"] = dict(_leaves(item))
    (cluster,) = cloud.container("GET", f"{region}/clusters")["clusters"]
    made.cloud[f"clusters/{cluster['name']}"] = dict(_leaves(cluster))
    context = cloud.clusters()[0]["context"]
    listed = sandbox.run("kubectl", "--context", context, "get", OBJECTS, "-A", "-o", "json").ok()
    for item in json.loads(listed.text)["items"]:
        metadata = item["metadata"]
        path = "/".join((item["kind"], metadata.get("namespace", ""), metadata["name"]))
        made.objects[path] = dict(_leaves({key: item[key] for key in ("spec",) if key in item}))


def _both(sandbox: Sandbox, gpu_stack: str, stack: str, nics: int) -> Both:
    """Do it the page's way and tear it down, then the program's way under the same names."""
    cloud = CloudClient(sandbox.environment)
    region = {"dev": "us-east4", "staging": "us-central1"}[stack]
    page, program = Made(), Made()
    script = sandbox.project / "benchmarks" / "page_script.sh"

    sandbox.environment |= {"REGION": region, "PREFIX": "page"}
    page.done["up"] = sandbox.run("bash", str(script), "up", gpu_stack, timeout=600).ok()
    _look(sandbox, cloud, page, region)
    page.done["down"] = sandbox.run("bash", str(script), "down", gpu_stack, timeout=300).ok()
    wait_until(cloud.at_rest, "the script's operations have ended")
    page.left = cloud.resources()

    sandbox.pulumi("stack", "init", stack).ok()
    sandbox.set_config(
        stack,
        prefix="page",
        smokeTest="off",
    )
    items = {f"fabricSubnets[{n - 1}]": f"192.168.{n}.0/24" for n in range(1, nics + 1)}
    for path, value in {**items, "fabricSourceRanges[0]": "192.168.0.0/16"}.items():
        sandbox.pulumi("config", "set", "--path", path, value, "--stack", stack).ok()
    sandbox.pulumi("config", "rm", "fabricCidr", "--stack", stack).ok()
    program.done["up"] = sandbox.up(stack).ok()
    _look(sandbox, cloud, program, region)
    program.done["destroy"] = sandbox.destroy(stack).ok()
    program.left = cloud.resources()
    return Both(page, program)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("a3-high", "staging", 4), id="a3-high"),
        pytest.param(("a3-mega", "dev", 8), id="a3-mega"),
    ],
)
def both(sandbox: Sandbox, request: pytest.FixtureRequest) -> Both:
    return _both(sandbox, *request.param)


def test_the_script_ends_with_a_table_that_says_simulated_and_with_nothing_left(
    both: Both,
) -> None:
    text = both.page.done["up"].text
    assert "Avg bus bandwidth" in text
    assert "simulated" in text
    assert both.page.left == []
    assert both.program.left == []


def test_both_ways_make_the_same_resources(both: Both) -> None:
    assert sorted(both.page.cloud) == sorted(both.program.cloud)
    assert len(both.page.cloud) in (13, 25)


def test_networks_subnets_and_rules_are_the_same_field_by_field(both: Both) -> None:
    for path, page in both.page.cloud.items():
        kind = path.partition("/")[0]
        if kind == "clusters":
            continue
        program = both.program.cloud[path]
        different = {f for f in page.keys() | program.keys() if page.get(f) != program.get(f)}
        assert different <= CLIENT_DIFFERENCES[kind], {
            f: (page.get(f), program.get(f)) for f in different
        }


def test_the_clusters_are_the_same_where_it_matters(both: Both) -> None:
    page, program = (made.cloud["clusters/page-cluster"] for made in (both.page, both.program))
    decisive = (
        ".autopilot.enabled",
        ".autopilot.workloadPolicyConfig.allowNetAdmin",
        ".networkConfig.enableMultiNetworking",
        ".networkConfig.datapathProvider",
        ".networkConfig.network",
        ".networkConfig.subnetwork",
        ".ipAllocationPolicy.useIpAliases",
        ".releaseChannel.channel",
        ".currentMasterVersion",
        ".location",
        ".name",
    )
    assert {f: page.get(f) for f in decisive} == {f: program.get(f) for f in decisive}
    assert page[".networkConfig.enableMultiNetworking"] is True
    assert page[".autopilot.workloadPolicyConfig.allowNetAdmin"] is True


def test_the_objects_in_the_cluster_are_the_same_field_by_field(both: Both) -> None:
    page = {p: v for p, v in both.page.objects.items() if not p.startswith("Namespace")}
    program = {p: v for p, v in both.program.objects.items() if not p.startswith("Namespace")}
    assert sorted(page) == sorted(program)
    for path, fields in page.items():
        assert fields == program[path], path
    assert "Namespace//gpudirect-system" in both.page.objects
    assert "Namespace//gpudirect-system" in both.program.objects
