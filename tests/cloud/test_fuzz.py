"""Requests that are almost right: never a 500, and no change when they are refused.

Starts from bodies that the API accepts and damages them: a value of another type or out of range, a
field that is missing, one that nobody knows, at any depth; and from paths with odd parts.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.cloud.registry import ENDPOINTS, PREFIXES
from tests.cloud.stand_in import AUTOPILOT, REGION, Client, clusters, compute
from tests.cloud.test_provider_traffic import CLUSTER_BODY, firewall_body

DEMO, SUBNETWORK = clusters("demo"), compute(f"regions/{REGION}/subnetworks/s")
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "POST",
        compute("global/networks"),
        {
            "name": "new",
            "autoCreateSubnetworks": False,
            "mtu": 8244,
            "routingConfig": {"routingMode": "GLOBAL"},
        },
    ),
    (
        "PATCH",
        compute("global/networks/n"),
        {"mtu": 8244, "routingConfig": {"routingMode": "GLOBAL"}},
    ),
    (
        "POST",
        compute(f"regions/{REGION}/subnetworks"),
        {
            "name": "new",
            "network": "global/networks/n",
            "ipCidrRange": "10.9.0.0/24",
            "logConfig": {"enable": False, "flowSampling": 0.5},
            "secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.64.0.0/14"}],
        },
    ),
    (
        "PATCH",
        SUBNETWORK,
        {"secondaryIpRanges": [{"rangeName": "p", "ipCidrRange": "10.64.0.0/14"}]},
    ),
    ("POST", f"{SUBNETWORK}/expandIpCidrRange", {"ipCidrRange": "10.0.0.0/16"}),
    ("POST", compute("global/firewalls"), {**firewall_body(1), "network": "global/networks/n"}),
    (
        "PATCH",
        compute("global/firewalls/f"),
        {"allowed": [{"IPProtocol": "tcp", "ports": ["1-2"]}]},
    ),
    (
        "POST",
        compute("global/routes"),
        {"name": "r", "network": "n", "destRange": "172.16.0.0/12", "nextHopIp": "10.0.0.2"},
    ),
    (
        "POST",
        compute(f"regions/{REGION}/resourcePolicies"),
        {"name": "p", "groupPlacementPolicy": {"collocation": "COLLOCATED", "vmCount": 2}},
    ),
    ("POST", clusters(), {"cluster": {**CLUSTER_BODY["cluster"], "name": "new"}}),
    (
        "POST",
        clusters(),
        {
            "cluster": {
                **AUTOPILOT,
                "name": "new",
                "initialClusterVersion": "1.35",
                "locations": ["us-central1-a"],
                "releaseChannel": {"channel": "REGULAR"},
                "resourceLabels": {"a": "b"},
                "ipAllocationPolicy": {
                    "clusterIpv4CidrBlock": "/20",
                    "servicesIpv4CidrBlock": "172.20.0.0/20",
                },
                "masterAuthorizedNetworksConfig": {
                    "enabled": True,
                    "cidrBlocks": [{"cidrBlock": "10.0.0.0/8"}],
                },
                "privateClusterConfig": {"enablePrivateNodes": True},
            }
        },
    ),
    ("PUT", DEMO, {"update": {"desiredMasterVersion": "latest"}}),
    ("PUT", DEMO, {"update": {"desiredAutopilotWorkloadPolicyConfig": {"allowNetAdmin": False}}}),
    ("PUT", DEMO, {"update": {"desiredReleaseChannel": {"channel": "RAPID"}}}),
    (
        "PUT",
        DEMO,
        {"update": {"desiredMasterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": "x"}]}}},
    ),
    ("POST", f"{DEMO}:setResourceLabels", {"resourceLabels": {"a": "b"}, "labelFingerprint": "x"}),
    ("POST", f"{DEMO}:setMaintenancePolicy", {"maintenancePolicy": {"window": {}}}),
    ("POST", "/v1/projects/other/services:batchEnable", {"serviceIds": ["iam.googleapis.com"]}),
]
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, 0, -1, 2**31, 2**63, 10**40, 1.5, 1e308, "", "x", "a" * 5000, "\x00", "é",
        "\ud800", float("inf"), "null",
        [], [[]], [None], {}, {"": ""}, {"x": {"y": []}}, "0.0.0.0/0", "10.0.0.0/33", "::/0", "/0",
        "/32", "/99", "-", "1", "1.35.", "global/networks/", "projects/p", "a/b/c/d/e/f",
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    with Client(folder / "cloud.db") as client:
        client.network("n")
        client.subnetwork("s", "n", "10.0.0.0/24")
        client.firewall("f", "n")
        client.cluster()
        yield client


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a body."""
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from places(inner, (*path, key))


def damage(draw: st.DrawFn, body: dict[str, Any]) -> Any:
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 2))):
        found = list(places(body))
        if not found:
            break
        *parents, last = draw(st.sampled_from(found))
        holder: Any = body
        for key in parents:
            holder = holder[key]
        how = draw(st.sampled_from(["replace", "replace", "remove", "unknown"]))
        if how == "replace":
            holder[last] = copy.deepcopy(draw(JUNK))
        elif how == "remove":
            del holder[last]
        elif isinstance(holder, dict):
            holder["unheardOf"] = copy.deepcopy(draw(JUNK))
    return body


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str, Any]:
    method, path, body = draw(st.sampled_from(BODIES))
    return method, path, damage(draw, body)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(request=damaged())
def test_a_damaged_body_is_refused_without_a_change_or_accepted(
    cloud: Client, request: tuple[str, str, Any]
) -> None:
    method, path, body = request
    before = [(record.name, record.state, record.body) for record in cloud.store.find()]
    answer = cloud.send(method, path, json.dumps(body).encode())
    assert answer.status_code in (200, 400, 403, 404, 409, 412), answer.text
    if answer.status_code == 200:
        cloud.settle()
        reset(cloud)
        return
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    assert error["message"]
    assert error["errors"][0]["reason"]
    after = [(record.name, record.state, record.body) for record in cloud.store.find()]
    assert after == before


def reset(client: Client) -> None:
    """Take back what an accepted request has made."""
    for kind, location in (
        ("firewalls", "global"),
        ("subnetworks", f"regions/{REGION}"),
        ("routes", "global"),
        ("resourcePolicies", f"regions/{REGION}"),
    ):
        for record in client.store.find(kind=kind):
            if not record.owner and record.name not in ("f", "s"):
                scope = location if location == "global" else f"regions/{record.location}"
                client.compute("DELETE", f"{scope}/{kind}/{record.name}")
    for record in client.store.find(kind="clusters"):
        if record.name != "demo":
            client.ok("DELETE", clusters(record.name))
    client.settle()
    for record in client.store.find(kind="networks"):
        if record.name not in ("n", "default"):
            client.compute("DELETE", f"global/networks/{record.name}")


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    known=st.sampled_from([known for known in ENDPOINTS if known.method == "GET"]),
    part=st.sampled_from(["x", "default", "-", "%00", "%2F", "a:b", "us-central1", "é", "n", "~"]),
    query=st.sampled_from(
        ["", "filter=(", "filter=a", "filter=name:*", 'filter=name eq "["', "maxResults=x",
         "maxResults=9999999", "pageToken=%FF", "pageToken=LTE=", "orderBy=x", "filter=state:ON"]
    ),
)  # fmt: skip
def test_an_odd_path_or_query_is_refused_or_answered(
    cloud: Client, known: Any, part: str, query: str
) -> None:
    version = "v1beta1" if known.api == "container" else "v1"
    path = PREFIXES[known.api][0].replace("{version:apiversion}", version) + "/" + known.path
    for name in ("region", "zone", "location", "name", "operation", "service"):
        path = path.replace("{" + name + "}", part)
    for project in ("sandbox-project", part):
        answer = cloud.send("GET", f"{path.replace('{project}', project)}?{query}")
        assert answer.status_code in (200, 400, 403, 404), answer.text
        assert isinstance(answer.json(), dict)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b"NaN", b'{"a": 1e999}']
)
def test_a_body_that_is_no_object_is_refused(cloud: Client, content: bytes) -> None:
    for method, path, _ in BODIES:
        assert cloud.send(method, path, content).status_code in (400, 404)
