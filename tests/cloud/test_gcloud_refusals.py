"""With which code, reason and words gcloud is refused, each rule by a wrong use of its own.

gcloud sends every request of this table; what it checks itself is not in it. Code and reason are
those of the HTTP answer as gcloud received it (`--log-http`), the words are what a person reads
[facts google-cloud.md §2 to §7].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

import httpx
import pytest

from tests.cloud.gcloud_tool import MARKS, Gcloud, bodies
from tests.cloud.proofs import proves
from tests.cloud.stand_in import PROJECT, REGION, Served, clusters

pytestmark = MARKS
PROJECT_PATH = f"projects/{PROJECT}"
NETWORK = f"{PROJECT_PATH}/global/networks/net"
SUBNETS = f"{PROJECT_PATH}/regions/{REGION}/subnetworks"
CLUSTERS = f"{PROJECT_PATH}/locations/{REGION}/clusters"
VERSION = "1.35.8-gke.1036000"

CREATE_NETWORK = "compute networks create"
SUBNET = "compute networks subnets"
CREATE_SUBNET = f"{SUBNET} create t --region={REGION}"
CREATE_RULE = "compute firewall-rules create"
POLICY = f"compute resource-policies create group-placement --region={REGION}"
CREATE = f"container clusters create-auto --location={REGION}"
UPDATE = f"container clusters update --location={REGION}"


class Refusal(NamedTuple):
    """A wrong use, the rule that it offends, and what the answer holds."""

    rule: str
    command: str
    words: str
    reason: str = "invalid"
    status: int = 400


REFUSALS = (
    Refusal(
        "networks.exists",
        f"{CREATE_NETWORK} net --subnet-mode=custom",
        f"The resource '{NETWORK}' already exists",
        "alreadyExists",
        409,
    ),
    Refusal("networks.name", f"{CREATE_NETWORK} Bad_Name --subnet-mode=custom", "'resource.name'"),
    Refusal(
        "networks.mtu-range",
        f"{CREATE_NETWORK} low --subnet-mode=custom --mtu=1299",
        "'resource.mtu': '1299'. Must be greater than or equal to 1300",
    ),
    Refusal(
        "networks.mtu-range",
        f"{CREATE_NETWORK} high --subnet-mode=custom --mtu=8897",
        "'resource.mtu': '8897'. Must be less than or equal to 8896",
    ),
    Refusal(
        "networks.no-legacy",
        f"{CREATE_NETWORK} old --subnet-mode=legacy --range=10.240.0.0/16",
        "Legacy networks are not supported.",
    ),
    Refusal(
        "payload.types",
        f"{POLICY} p --vm-count=99999999999",
        "'resource.groupPlacementPolicy.vmCount': '99999999999'",
    ),
    Refusal("resource-policies.name", f"{POLICY} Bad_Name", "'resource.name': 'Bad_Name'"),
    Refusal(
        "",
        f"{SUBNET} create sub --network=net --region={REGION} --range=10.1.0.0/24",
        f"The resource '{SUBNETS}/sub' already exists",
        "alreadyExists",
        409,
    ),
    Refusal(
        "subnetworks.region",
        f"{SUBNET} create t --network=net --region=mars --range=10.1.0.0/24",
        "Invalid value for field 'region': 'mars'. Unknown region.",
    ),
    Refusal(
        "subnetworks.overlap",
        f"{CREATE_SUBNET} --network=net --range=10.0.0.0/16",
        "Invalid value for field 'resource.ipCidrRange': '10.0.0.0/16'. Invalid IPCidrRange: "
        f"10.0.0.0/16 conflicts with existing subnetwork 'sub' in region '{REGION}'.",
    ),
    Refusal(
        "subnetworks.auto-range",
        f"{CREATE_SUBNET} --network=default --range=10.200.0.0/24",
        "Extended subnetworks in auto subnet mode networks cannot overlap with 10.128.0.0/9.",
    ),
    Refusal(
        "subnetworks.not-ready",
        f"{CREATE_SUBNET} --network=slow --range=10.1.0.0/24",
        f"The resource '{PROJECT_PATH}/global/networks/slow' is not ready",
        "resourceNotReady",
    ),
    Refusal(
        "clusters.hold-subnetwork",
        f"{SUBNET} delete sub --region={REGION}",
        f"The subnetwork resource '{SUBNETS}/sub' is already being used by "
        f"'{PROJECT_PATH}/regions/{REGION}/forwardingRules/gk3-c-",
        "resourceInUseByAnotherResource",
    ),
    Refusal(
        "instances.hold-subnetworks",
        f"{SUBNET} delete elsewhere --region={REGION}",
        f"The subnetwork resource '{SUBNETS}/elsewhere' is already being used by "
        f"'{PROJECT_PATH}/zones/{REGION}-a/instances/node'",
        "resourceInUseByAnotherResource",
    ),
    Refusal(
        "firewalls.exists",
        f"{CREATE_RULE} rule --network=net --allow=icmp",
        f"The resource '{PROJECT_PATH}/global/firewalls/rule' already exists",
        "alreadyExists",
        409,
    ),
    Refusal(
        "firewalls.protocol",
        f"{CREATE_RULE} f --network=net --allow=icmp,foo",
        "'resource.allowed[1].IPProtocol': 'foo'",
    ),
    Refusal(
        "firewalls.ports",
        f"{CREATE_RULE} f --network=net --allow=icmp:80",
        "'resource.allowed[0].ports[0]': '80'. Ports may not be specified",
    ),
    Refusal(
        "firewalls.ports",
        f"{CREATE_RULE} f --network=net --allow=tcp:1-65536",
        "'resource.allowed[0].ports[0]': '1-65536'",
    ),
    Refusal(
        "firewalls.priority",
        f"{CREATE_RULE} f --network=net --allow=tcp --priority=65536",
        "'resource.priority': '65536'",
    ),
    Refusal(
        "firewalls.sources",
        f"{CREATE_RULE} f --network=net --direction=EGRESS --action=DENY --rules=tcp "
        "--source-ranges=10.0.0.0/8",
        "'resource.sourceRanges'",
    ),
    Refusal(
        "firewalls.allow-or-deny",
        "compute firewall-rules update rule --allow=",
        "Exactly one of allowed and denied must be specified.",
    ),
    Refusal(
        "services.disable-in-use",
        "services disable compute.googleapis.com",
        "is depended on by the following active service(s): container.googleapis.com",
        "failedPrecondition",
    ),
    Refusal(
        "clusters.exists",
        f"{CREATE} c",
        f"Already exists: {CLUSTERS}/c.",
        "alreadyExists",
        409,
    ),
    Refusal(
        "clusters.location",
        "container clusters create-auto d --location=mars",
        'Location "mars" does not exist.',
        "badRequest",
    ),
    Refusal("clusters.name", f"{CREATE} Bad_Name", '"cluster.name": "Bad_Name"', "badRequest"),
    Refusal("clusters.name", f"{CREATE} {'a' * 41}", f'"{"a" * 41}"', "badRequest"),
    Refusal("clusters.label-form", f"{CREATE} d --labels=Team=x", '"Team": "x"', "badRequest"),
    Refusal(
        "clusters.control-plane-range",
        f"{CREATE} d --enable-private-nodes --master-ipv4-cidr=172.16.0.0/27",
        'master_ipv4_cidr_block "172.16.0.0/27": a CIDR range of size /28 is required.',
        "badRequest",
    ),
    Refusal(
        "clusters.control-plane-range",
        f"{CREATE} d --enable-master-authorized-networks --master-authorized-networks=10.0.0.0/33",
        'Authorized network "10.0.0.0/33" is not a valid CIDR block.',
        "badRequest",
    ),
    Refusal(
        "clusters.range-overlap",
        f"{CREATE} d --network=net --subnetwork=sub --cluster-ipv4-cidr=10.0.0.0/17",
        'Pod address range "10.0.0.0/17" conflicts with subnetwork "sub".',
        "badRequest",
    ),
    Refusal(
        "clusters.subnetwork",
        f"{CREATE} d --network=net --subnetwork=elsewhere",
        f'Subnetwork "{SUBNETS}/elsewhere" is not valid for Network "net".',
        "badRequest",
    ),
    Refusal(
        "clusters.version-prefix",
        f"{CREATE} d --cluster-version=1.29",
        'No valid versions with the prefix "1.29" found.',
        "badRequest",
    ),
    Refusal(
        "clusters.version-channel",
        f"{CREATE} d --release-channel=stable --cluster-version={VERSION}",
        'Master version must be one of "STABLE" channel supported versions [1.35.6-gke.1710000, ',
        "badRequest",
    ),
    Refusal(
        "clusters.upgrade",
        f"container clusters upgrade c --location={REGION} --master --cluster-version=1.34",
        f'Master cannot be downgraded from "{VERSION}" to "1.34.9-gke.1322001".',
        "badRequest",
    ),
    Refusal(
        "clusters.channel", f"{UPDATE} c --release-channel=None", "release channel", "badRequest"
    ),
    Refusal(
        "clusters.multi-networking-fixed",
        f"{UPDATE} c --enable-multi-networking",
        "networkConfig.enableMultiNetworking of a cluster is set when the cluster is created",
        "badRequest",
    ),
    Refusal(
        "clusters.busy",
        f"container clusters delete busy --location={REGION}",
        "Cluster is running incompatible operation operation-",
        "failedPrecondition",
    ),
    Refusal(
        "",
        "compute networks describe nope",
        f"The resource '{PROJECT_PATH}/global/networks/nope' was not found",
        "notFound",
        404,
    ),
    Refusal(
        "",
        f"container clusters delete nope --location={REGION}",
        f"Not found: {CLUSTERS}/nope.",
        "notFound",
        404,
    ),
)


@pytest.fixture(scope="module")
def gcloud(tmp_path_factory: pytest.TempPathFactory, gcloud_config: Path) -> Iterator[Gcloud]:
    """Serve a project in which there is something to offend."""
    folder = tmp_path_factory.mktemp("refusals")
    with Served(folder / "served.db") as served:
        tool = Gcloud(served, folder, gcloud_config)
        services = {"enabledServices": ["container.googleapis.com"]}
        tool.http("PUT", f"projects/{PROJECT}", services)
        for network, subnetwork in (("net", "sub"), ("other", "elsewhere")):
            tool.make_network(network)
            tool.make_subnetwork(subnetwork, network, "10.0.0.0/24")
        tool.make_firewall("rule", "net")
        tool.make_cluster("c", network="net", subnetwork="sub", networkConfig={})
        tool.make_cluster("busy")
        nics = [{"network": "other", "subnetwork": "elsewhere"}]
        served.view.insert_instance(
            PROJECT, f"{REGION}-a", {"name": "node", "networkInterfaces": nics}
        )
        _leave_open(tool)
        yield tool


def _leave_open(tool: Gcloud) -> None:
    """Begin what does not end: the cluster `busy` changes, the network `slow` comes up."""
    for action, name in (("clusters.update", "busy"), ("networks.insert", "slow")):
        plan = {"operation": f"^{action}$", "target": f"/{name}$", "hang": True}
        tool.http("PUT", f"faults/{name}", plan)
    update = {"update": {"desiredLocations": [f"{REGION}-a"]}}
    answer = httpx.put(f"{tool.served.url}{clusters('busy')}", json=update)
    assert answer.status_code == 200, answer.text
    tool.make_network("slow")


@pytest.fixture(scope="module")
def done(gcloud: Gcloud) -> dict[str, CompletedProcess[str]]:
    """Return command -> what became of it; all run side by side."""
    commands = [refusal.command for refusal in REFUSALS]
    outcomes = gcloud.all_run(*(f"{command} --log-http" for command in commands))
    return dict(zip(commands, outcomes, strict=True))


@proves(*{refusal.rule for refusal in REFUSALS if refusal.rule})
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.command)
def test_a_wrong_use_is_refused_with_code_reason_and_words(
    done: dict[str, CompletedProcess[str]], refusal: Refusal
) -> None:
    said = done[refusal.command].stderr
    assert done[refusal.command].returncode != 0, said
    error = bodies(said, at_least=400)[0]["error"]
    assert (error["code"], error["errors"][0]["reason"]) == (refusal.status, refusal.reason)
    # What a person reads is what the API said.
    assert refusal.words in error["message"]
    assert error["message"].rstrip(".") in said.rpartition("ERROR: ")[2]


@proves("firewalls.quota")
def test_the_firewalls_quota_fails_in_the_operation(gcloud: Gcloud) -> None:
    gcloud.http("PUT", f"projects/{PROJECT}", {"quotas": {"FIREWALLS": 5}})
    stderr = gcloud.failed(f"{CREATE_RULE} f --network=net --allow=icmp")
    assert "Quota 'FIREWALLS' exceeded.  Limit: 5.0 globally." in stderr


@proves("clusters.error", "container-operations.error")
def test_a_cluster_that_does_not_come_up_says_why(gcloud: Gcloud) -> None:
    fail = {"code": "INTERNAL", "message": "no room left"}
    plan = {"operation": "^clusters.create$", "target": "/broken$", "fail": fail}
    gcloud.http("PUT", "faults/broken", plan)
    stderr = gcloud.failed(f"{CREATE} broken")
    assert "finished with error: no room left" in stderr
    operations, cluster = gcloud.read(
        f"container operations list --location={REGION}",
        f"container clusters describe broken --location={REGION}",
    )
    failed = [entry for entry in operations if entry["targetLink"].endswith("/broken")]
    assert [entry["statusMessage"] for entry in failed] == ["no room left"]
    assert failed[0]["error"]["message"] == "no room left"
    others = [entry for entry in operations if entry not in failed]
    assert others
    assert not [entry for entry in others if "error" in entry or "statusMessage" in entry]
    assert (cluster["status"], cluster["statusMessage"]) == ("ERROR", "no room left")
