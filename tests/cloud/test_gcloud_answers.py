"""What gcloud shows of things that exist, and the codes and reasons with which it is refused.

The words of most refusals are in `test_gcloud.py`; here it is what the HTTP answer holds, as gcloud
itself received it (`--log-http`) [facts google-cloud.md §2, §3, §4, §6.4].
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.stand_in import PROJECT, REGION, Served
from tests.cloud.test_gcloud import GCLOUD, Gcloud

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.gcloud,
    pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed"),
]
NETWORK = f"projects/{PROJECT}/global/networks/net"
SUBNET = f"projects/{PROJECT}/regions/{REGION}/subnetworks/sub"
RULE = f"projects/{PROJECT}/global/firewalls/rule"
CLUSTER = f"projects/{PROJECT}/locations/{REGION}/clusters/c"
_ANSWER = re.compile(r"^status: (\d+)$.*?^-- body start --\n(.*?)\n-- body end --$", re.M | re.S)

CREATE_CLUSTER = f"container clusters create-auto c --location={REGION}"
CREATE_SUBNET = "compute networks subnets create other --network=net"
REFUSALS = {
    "compute networks create net --subnet-mode=custom": (
        409,
        "alreadyExists",
        f"The resource '{NETWORK}' already exists",
    ),
    f"compute networks subnets create sub --network=net --region={REGION} --range=10.1.0.0/24": (
        409,
        "alreadyExists",
        f"The resource '{SUBNET}' already exists",
    ),
    "compute firewall-rules create rule --network=net --allow=icmp": (
        409,
        "alreadyExists",
        f"The resource '{RULE}' already exists",
    ),
    CREATE_CLUSTER: (409, "alreadyExists", f"Already exists: {CLUSTER}."),
    f"{CREATE_SUBNET} --region=mars --range=10.1.0.0/24": (
        400,
        "invalid",
        "Invalid value for field 'region': 'mars'. Unknown region.",
    ),
    "container clusters create-auto d --location=mars": (
        400,
        "badRequest",
        'Location "mars" does not exist.',
    ),
    f"{CREATE_SUBNET} --region={REGION} --range=10.0.0.0/16": (
        400,
        "invalid",
        "Invalid value for field 'resource.ipCidrRange': '10.0.0.0/16'. Invalid IPCidrRange: "
        f"10.0.0.0/16 conflicts with existing subnetwork 'sub' in region '{REGION}'.",
    ),
    "compute networks describe nope": (
        404,
        "notFound",
        f"The resource 'projects/{PROJECT}/global/networks/nope' was not found",
    ),
    f"container clusters delete nope --location={REGION}": (
        404,
        "notFound",
        f"Not found: {CLUSTER.removesuffix('/c')}/nope.",
    ),
}


@pytest.fixture(scope="module")
def gcloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcloud]:
    folder = tmp_path_factory.mktemp("gcloud")
    with Served(folder / "served.db") as served:
        tool = Gcloud(served, Path(folder), folder / "config")
        services = {"enabledServices": ["container.googleapis.com"]}
        tool.http("PUT", f"projects/{PROJECT}", services)
        tool.ok("compute networks create net --subnet-mode=custom --mtu=8244")
        tool.together(
            f"compute networks subnets create sub --network=net --region={REGION} "
            "--range=10.0.0.0/24",
            "compute firewall-rules create rule --network=net --allow=tcp:0-65535,icmp "
            "--source-ranges=10.0.0.0/16",
            CREATE_CLUSTER,
        )
        yield tool


def _refusals(text: str) -> list[dict[str, Any]]:
    """Return the bodies of the answers that were no success."""
    return [json.loads(body) for status, body in _ANSWER.findall(text) if int(status) >= 400]


@pytest.fixture(scope="module")
def refused(gcloud: Gcloud) -> dict[str, str]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        texts = pool.map(gcloud.failed, (f"{command} --log-http" for command in REFUSALS))
        return dict(zip(REFUSALS, texts, strict=True))


@pytest.mark.parametrize("command", REFUSALS)
def test_a_wrong_use_is_answered_with_googles_code_and_reason(
    refused: dict[str, str], command: str
) -> None:
    error = _refusals(refused[command])[0]["error"]
    found = (error["code"], error["errors"][0]["reason"], error["message"])
    assert found == REFUSALS[command]
    # What a person reads is what the API said.
    assert error["message"].rstrip(".") in refused[command].rpartition("ERROR: ")[2]


def test_what_was_made_is_described_as_it_was_asked_for(gcloud: Gcloud) -> None:
    texts = gcloud.together(
        "compute networks describe net --format=json",
        f"compute networks subnets describe sub --region={REGION} --format=json",
        "compute firewall-rules describe rule --format=json",
        f"container clusters describe c --location={REGION} --format=json",
    )
    network, subnet, rule, cluster = map(json.loads, texts)
    base = "https://www.googleapis.com/compute/v1/"
    assert (network["selfLink"], network["mtu"]) == (base + NETWORK, 8244)
    assert network["subnetworks"] == [base + SUBNET]
    assert (subnet["network"], subnet["ipCidrRange"]) == (base + NETWORK, "10.0.0.0/24")
    assert subnet["gatewayAddress"] == "10.0.0.1"
    assert rule["network"] == base + NETWORK
    assert rule["sourceRanges"] == ["10.0.0.0/16"]
    assert (cluster["name"], cluster["status"]) == ("c", "RUNNING")
    assert cluster["autopilot"]["enabled"] is True


def test_nothing_is_deleted_that_is_in_use(gcloud: Gcloud) -> None:
    stderr = gcloud.failed("compute networks delete net --log-http")
    operations = [json.loads(body) for _, body in _ANSWER.findall(stderr)]
    (failed,) = [answer for answer in operations if answer.get("error")][-1:]
    assert failed["httpErrorStatusCode"] == 400
    (error,) = failed["error"]["errors"]
    assert error["code"] == "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    users = (SUBNET, RULE)
    assert error["message"] in [
        f"The network resource '{NETWORK}' is already being used by '{user}'" for user in users
    ]
    assert "net" in gcloud.ok("compute networks list --format=value(name)").split()
