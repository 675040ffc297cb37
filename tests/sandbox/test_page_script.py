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
    pytest.mark.skipif(not shutil.which("gcloud"), reason="gcloud is not installed"),
]

OBJECTS = "networks.networking.gke.io,gkenetworkparamsets,daemonsets,namespaces"
ASKED = {
    "describe": "container clusters describe page-cluster --location={region} --format=json",
    "rules": "compute firewall-rules list --filter=network:page-net-1 --format=value(name)",
    "held": "compute networks subnets delete page-sub-1 --region={region} --log-http",
}
"""Typed while the script's nodes run."""
# What differs from one creation to the next.
_PER_LIFE = re.compile(
    r"\.(id|uid|selfLinkWithId|creationTimestamp|createTime|fingerprint|labelFingerprint|etag|endpoint"
    r"|publicEndpoint|privateEndpoint|clusterCaCertificate|resourceVersion|generation|managedFields"
    r"|status|networkUrl"
    # The script's test goes on holding its nodes; the program runs without one here.
    r"|currentNodeCount)(\.|\[|$)"
)
_GENERATED = re.compile(r"(gke-page-cluster-(?:pods|services)-)[0-9a-f]{8}")
"""Names that Google makes anew for each cluster."""
CLIENT_DIFFERENCES = {
    "networks": set[str](),
    "subnetworks": set[str](),
    "firewalls": set[str](),
    # Labels of the provider, and of the program: by its own it knows a cluster whose creation was
    # interrupted.
    "clusters": {".resourceLabels.goog-pulumi-provisioned", ".resourceLabels.gpudirect-stack"},
    # What kubectl and the provider note for themselves; and the program's own label, by which it
    # tells its objects from other people's.
    "objects": {
        ".metadata.labels.gpudirect-stack",
        ".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
        ".metadata.annotations.pulumi.com/waitFor",
    },
}
"""Kind of resource -> fields that differ because the clients do."""


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
    """Yield each field that says something.

    A client may send the default of a field (the provider does: `false`, an empty block) or leave
    it out, which means the same.
    """
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    elif not _PER_LIFE.search(path) and (value or (value == 0 and value is not False)):
        yield path, _GENERATED.sub(r"\1*", value) if isinstance(value, str) else value


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
        kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        made.objects[path] = dict(_leaves({"metadata": kept, "spec": item.get("spec", {})}))


def _both(sandbox: Sandbox, gpu_stack: str, stack: str, nics: int) -> Both:
    """Do it the page's way and tear it down, then the program's way under the same names."""
    cloud = CloudClient(sandbox.environment)
    region = {"dev": "us-east4", "staging": "us-central1"}[stack]
    page, program = Made(), Made()
    script = sandbox.project / "benchmarks" / "page_script.sh"

    sandbox.environment |= {"REGION": region, "PREFIX": "page"}
    page.done["up"] = sandbox.run("bash", str(script), "up", gpu_stack, timeout=600).ok()
    _look(sandbox, cloud, page, region)
    for name, words in ASKED.items():
        page.done[name] = sandbox.run("gcloud", *words.format(region=region).split())
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


def test_gcloud_shows_the_running_environment_and_may_not_take_its_subnet(both: Both) -> None:
    cluster = json.loads(both.page.done["describe"].ok().text)
    assert (cluster["status"], cluster["currentNodeCount"]) == ("RUNNING", 2)
    assert both.page.done["rules"].ok().text.split() == ["page-internal-1"]
    held = both.page.done["held"]
    assert held.code != 0
    assert '"reason":"resourceInUseByAnotherResource"' in held.text
    assert re.search(
        r"The subnetwork resource 'projects/[^']*/subnetworks/page-sub-1' is already being used by "
        r"'projects/[^']*/zones/[^']*/instances/[^']*'",
        held.text,
    )


def test_both_ways_make_the_same_resources(both: Both) -> None:
    assert sorted(both.page.cloud) == sorted(both.program.cloud)
    assert len(both.page.cloud) in (13, 25)


def _different(page: dict[str, Any], program: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    fields = sorted(page.keys() | program.keys())
    pairs = {field: (page.get(field), program.get(field)) for field in fields}
    return {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}


def test_networks_subnets_rules_and_clusters_are_the_same_field_by_field(both: Both) -> None:
    for path, page in both.page.cloud.items():
        different = _different(page, both.program.cloud[path])
        assert different.keys() == CLIENT_DIFFERENCES[path.partition("/")[0]], (path, different)


def test_the_fields_that_decide_are_among_those_compared(both: Both) -> None:
    cluster = both.page.cloud["clusters/page-cluster"]
    assert cluster[".autopilot.workloadPolicyConfig.allowNetAdmin"] is True
    assert cluster[".networkConfig.enableMultiNetworking"] is True
    assert cluster[".ipAllocationPolicy.useIpAliases"] is True
    assert cluster[".networkConfig.datapathProvider"] == "ADVANCED_DATAPATH"
    assert cluster[".releaseChannel.channel"] == "REGULAR"
    assert both.page.cloud["networks/page-net-1"][".mtu"] == 8244
    assert both.page.cloud["subnetworks/page-sub-4"][".ipCidrRange"] == "192.168.4.0/24"
    rule = both.page.cloud["firewalls/page-internal-4"]
    assert (rule[".allowed[1].IPProtocol"], rule[".allowed[1].ports[0]"]) == ("udp", "0-65535")


def test_the_objects_in_the_cluster_are_the_same_field_by_field(both: Both) -> None:
    assert sorted(both.page.objects) == sorted(both.program.objects)
    assert "Namespace//gpudirect-system" in both.page.objects
    assert both.page.objects["Network//vpc4"][".spec.parametersRef.name"] == "vpc4"
    for path, page in both.page.objects.items():
        different = _different(page, both.program.objects[path])
        assert different.keys() <= CLIENT_DIFFERENCES["objects"], (path, different)
