"""Subnetworks [facts google-cloud.md §3]."""

from __future__ import annotations

import pytest

from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Client, compute, error_of

SUBNETWORKS = compute(f"regions/{REGION}/subnetworks")
ONE = f"regions/{REGION}/subnetworks/s"


def body(cidr: str, network: str = "n", **fields: object) -> dict[str, object]:
    return {"name": "s", "network": f"global/networks/{network}", "ipCidrRange": cidr, **fields}


@pytest.fixture(autouse=True)
def _network(client: Client) -> None:
    client.network("n")


@proves("subnetworks.cidr")
@pytest.mark.parametrize(
    "cidr", ["10.0.0.1/24", "10.0.0.0", "x", "10.0.0.0/255.255.0.0", "10.0.0.0/33", "fd00::/20"]
)
def test_a_range_that_is_no_cidr_or_has_host_bits_is_refused(client: Client, cidr: str) -> None:
    status, reason, message = client.refused("POST", SUBNETWORKS, body(cidr))
    assert (status, reason) == (400, "invalid")
    assert message.startswith(f"Invalid value for field 'resource.ipCidrRange': '{cidr}'.")


@proves("subnetworks.prefix")
def test_a_primary_range_is_from_8_to_29(client: Client) -> None:
    assert client.refused("POST", SUBNETWORKS, body("10.0.0.0/30"))[0] == 400
    assert client.refused("POST", SUBNETWORKS, body("0.0.0.0/7"))[0] == 400
    client.subnetwork("least", "n", "192.168.0.0/29")
    client.subnetwork("most", "n", "10.0.0.0/8")


@proves("subnetworks.overlap")
@pytest.mark.parametrize("region", [REGION, "us-east4"])
def test_overlap_within_a_vpc_is_refused_in_any_region(client: Client, region: str) -> None:
    client.subnetwork("first", "n", "192.168.0.0/24")
    status, reason, message = client.refused(
        "POST", compute(f"regions/{region}/subnetworks"), body("192.168.0.0/28")
    )
    assert (status, reason) == (400, "invalid")
    assert message == (
        "Invalid value for field 'resource.ipCidrRange': '192.168.0.0/28'. Invalid IPCidrRange: "
        "192.168.0.0/28 conflicts with existing subnetwork 'first' in region 'us-central1'."
    )


@proves("subnetworks.overlap")
def test_secondary_ranges_overlap_too(client: Client) -> None:
    secondary = [{"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"}]
    client.subnetwork("first", "n", "192.168.0.0/24", secondaryIpRanges=secondary)
    assert client.refused("POST", SUBNETWORKS, body("10.9.0.0/24"))[0] == 400
    own = body(
        "10.64.0.0/24", secondaryIpRanges=[{"rangeName": "a", "ipCidrRange": "10.64.0.0/20"}]
    )
    assert client.refused("POST", SUBNETWORKS, own)[0] == 400
    other = body("10.64.0.0/24", secondaryIpRanges=secondary)
    assert (
        "resource.secondaryIpRanges[0].ipCidrRange" in client.refused("POST", SUBNETWORKS, other)[2]
    )


@proves("subnetworks.other-vpc")
def test_the_same_range_in_another_vpc_is_fine(client: Client) -> None:
    client.network("m")
    client.subnetwork("a", "n", "192.168.0.0/24")
    assert "error" not in client.subnetwork("b", "m", "192.168.0.0/24")


@proves("subnetworks.auto-range")
def test_an_auto_mode_network_keeps_its_range(client: Client) -> None:
    assert client.refused("POST", SUBNETWORKS, body("10.200.0.0/24", "default")) == (
        400,
        "invalid",
        "Invalid value for field 'resource.ipCidrRange': '10.200.0.0/24'. Extended subnetworks in "
        "auto subnet mode networks cannot overlap with 10.128.0.0/9.",
    )
    assert "error" not in client.subnetwork("s", "default", "192.168.0.0/24")


@proves("subnetworks.no-network")
def test_an_unknown_network_answers_404(client: Client) -> None:
    assert client.refused("POST", SUBNETWORKS, body("10.0.0.0/24", "nope")) == (
        404,
        "notFound",
        f"The resource 'projects/{PROJECT}/global/networks/nope' was not found",
    )


@proves("subnetworks.region")
def test_an_unknown_region_answers_400(client: Client) -> None:
    assert client.refused("POST", compute("regions/mars/subnetworks"), body("10.0.0.0/24")) == (
        400,
        "invalid",
        "Invalid value for field 'region': 'mars'. Unknown region.",
    )


def test_names_are_unique_per_region_not_per_network(client: Client) -> None:
    client.network("m")
    client.subnetwork("s", "n", "10.0.0.0/24")
    status, reason, _ = client.refused("POST", SUBNETWORKS, body("10.1.0.0/24", "m"))
    assert (status, reason) == (409, "alreadyExists")
    assert "error" not in client.subnetwork("s", "m", "10.1.0.0/24", region="us-east4")


@proves("subnetworks.outputs")
def test_a_subnetwork_reads_back_as_recorded(client: Client) -> None:
    client.subnetwork("s", "n", "10.2.0.0/16")
    read = client.compute("GET", ONE)
    base = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"
    assert read["network"] == f"{base}/global/networks/n"
    assert read["region"] == f"{base}/regions/{REGION}"
    assert read["selfLink"] == f"{base}/regions/{REGION}/subnetworks/s"
    assert read["gatewayAddress"] == "10.2.0.1"
    assert read["purpose"] == "PRIVATE"
    assert read["stackType"] == "IPV4_ONLY"
    assert read["privateIpGoogleAccess"] is False
    assert read["privateIpv6GoogleAccess"] == "DISABLE_GOOGLE_ACCESS"
    assert "secondaryIpRanges" not in read
    assert read["id"].isdecimal()


@proves("subnetworks.in-use")
def test_a_subnetwork_in_use_is_refused_in_the_call(client: Client) -> None:
    client.subnetwork("s", "n", "10.0.0.0/24")
    cluster = client.cluster(network="n", subnetwork="s")
    status, reason, message = client.refused("DELETE", compute(ONE))
    assert (status, reason) == (400, "resourceInUseByAnotherResource")
    assert message == (
        f"The subnetwork resource 'projects/{PROJECT}/{ONE}' is already being used by "
        f"'projects/{PROJECT}/regions/{REGION}/forwardingRules/gk3-demo-{cluster['id'][:8]}-pe'"
    )
    assert client.compute("GET", ONE)["state"] == "READY"


@proves("subnetworks.expand")
def test_a_range_grows_around_the_old_one_only(client: Client) -> None:
    client.subnetwork("s", "n", "10.2.4.0/24")
    client.subnetwork("neighbour", "n", "10.2.16.0/24")
    expand = compute(f"{ONE}/expandIpCidrRange")
    own = {"rangeName": "pods", "ipCidrRange": "10.2.32.0/20"}
    fingerprint = client.compute("GET", ONE)["fingerprint"]
    client.compute("PATCH", ONE, {"fingerprint": fingerprint, "secondaryIpRanges": [own]})
    assert client.refused("POST", expand, {"ipCidrRange": "10.2.0.0/18"})[0] == 400
    client.compute("DELETE", f"regions/{REGION}/subnetworks/neighbour")
    assert "secondary" in client.refused("POST", expand, {"ipCidrRange": "10.2.0.0/18"})[2]
    client.subnetwork("neighbour", "n", "10.2.16.0/24")
    for cidr in ("10.2.5.0/24", "10.2.4.0/24", "10.2.4.0/25", "10.2.0.0/16"):
        assert client.refused("POST", expand, {"ipCidrRange": cidr})[0] == 400
    client.ok("POST", expand, {"ipCidrRange": "10.2.0.0/20"})
    read = client.compute("GET", ONE)
    assert read["ipCidrRange"] == "10.2.0.0/20"
    assert read["gatewayAddress"] == "10.2.0.1"


@proves("subnetworks.fingerprint")
def test_a_patch_needs_the_present_fingerprint(client: Client) -> None:
    client.subnetwork("s", "n", "10.0.0.0/24")
    first = client.compute("GET", ONE)["fingerprint"]
    secondary = [{"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"}]
    client.compute("PATCH", ONE, {"fingerprint": first, "secondaryIpRanges": secondary})
    read = client.compute("GET", ONE)
    assert read["secondaryIpRanges"] == secondary
    assert read["fingerprint"] != first
    stale = {"fingerprint": first, "privateIpGoogleAccess": True}
    assert client.refused("PATCH", compute(ONE), stale)[:2] == (412, "conditionNotMet")


@proves("compute.merge-patch")
def test_a_patch_of_one_value_of_logging_keeps_the_others(client: Client) -> None:
    client.subnetwork("s", "n", "10.0.0.0/24")
    for change in ({"enable": True}, {"flowSampling": 0.7}):
        fingerprint = client.compute("GET", ONE)["fingerprint"]
        client.compute("PATCH", ONE, {"fingerprint": fingerprint, "logConfig": change})
    read = client.compute("GET", ONE)
    assert read["logConfig"] == {"enable": True, "flowSampling": 0.7}
    client.compute("PATCH", ONE, {"fingerprint": read["fingerprint"], "logConfig": None})
    assert client.compute("GET", ONE)["logConfig"] == {"enable": False}


def test_a_fingerprint_may_come_in_either_alphabet_of_base64(client: Client) -> None:
    client.subnetwork("s", "n", "10.0.0.0/24")
    for number in range(256):
        present = client.compute("GET", ONE)["fingerprint"]
        if {"+", "/"} & set(present):
            break
        secondary = [{"rangeName": "pods", "ipCidrRange": f"10.8.{number}.0/24"}]
        client.compute("PATCH", ONE, {"fingerprint": present, "secondaryIpRanges": secondary})
    other = present.replace("+", "-").replace("/", "_")
    assert other != present
    client.compute("PATCH", ONE, {"fingerprint": other, "secondaryIpRanges": []})
    assert not client.compute("GET", ONE).get("secondaryIpRanges")


def test_access_to_google_is_switched_by_a_call_of_its_own(client: Client) -> None:
    client.subnetwork("s", "n", "10.0.0.0/24")
    client.compute("POST", f"{ONE}/setPrivateIpGoogleAccess", {"privateIpGoogleAccess": True})
    assert client.compute("GET", ONE)["privateIpGoogleAccess"] is True


def test_the_subnetworks_quota_fails_in_the_operation(client: Client) -> None:
    client.admin("PUT", f"projects/{PROJECT}", {"quotas": {"SUBNETWORKS": 12}})
    assert "error" not in client.subnetwork("a", "n", "10.0.0.0/24")
    error = error_of(client.subnetwork("b", "n", "10.1.0.0/24"))
    assert error["message"].startswith("Quota 'SUBNETWORKS' exceeded.  Limit: 12.0 globally.")


def test_the_subnetworks_of_an_auto_mode_network_cannot_be_deleted(client: Client) -> None:
    path = compute(f"regions/{REGION}/subnetworks/default")
    assert client.refused("DELETE", path)[0] == 400
    assert client.ok("GET", path)["name"] == "default"


def test_missing_fields_are_named(client: Client) -> None:
    for field in ("network", "ipCidrRange"):
        wanted = {key: value for key, value in body("10.0.0.0/24").items() if key != field}
        status, reason, message = client.refused("POST", SUBNETWORKS, wanted)
        assert (status, reason) == (400, "required")
        assert f"'resource.{field}'" in message


@pytest.mark.parametrize(
    "network",
    [
        "n",
        "global/networks/n",
        f"projects/{PROJECT}/global/networks/n",
        f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/global/networks/n",
        f"https://compute.googleapis.com/compute/beta/projects/{PROJECT}/global/networks/n",
        f"http://127.0.0.1:1234/compute/v1/projects/{PROJECT}/global/networks/n",
    ],
)
def test_a_network_is_understood_in_every_form(client: Client, network: str) -> None:
    wanted = {"name": "s", "network": network, "ipCidrRange": "10.0.0.0/24"}
    client.ok("POST", SUBNETWORKS, wanted)
    assert client.compute("GET", ONE)["network"].endswith(f"/projects/{PROJECT}/global/networks/n")


@pytest.mark.parametrize("network", ["global/subnets/n", "https://x/y", "projects/p/networks/n"])
def test_a_link_to_something_else_is_malformed(client: Client, network: str) -> None:
    wanted = {"name": "s", "network": network, "ipCidrRange": "10.0.0.0/24"}
    assert "malformed" in client.refused("POST", SUBNETWORKS, wanted)[2]


def test_an_aggregated_list_groups_by_region(client: Client) -> None:
    client.subnetwork("a", "n", "10.0.0.0/24")
    client.subnetwork("b", "n", "10.1.0.0/24", region="us-east4")
    answer = client.compute("GET", 'aggregated/subnetworks?filter=name eq "a|b"')
    names = {
        scope: [item["name"] for item in part["subnetworks"]]
        for scope, part in answer["items"].items()
    }
    assert names == {"regions/us-central1": ["a"], "regions/us-east4": ["b"]}
    empty = client.compute("GET", "aggregated/subnetworks?filter=name=nothing")
    assert empty["items"]["global"]["warning"]["code"] == "NO_RESULTS_ON_PAGE"
