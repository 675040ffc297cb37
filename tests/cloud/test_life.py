"""From nothing to a cluster on its own networks, and back to nothing."""

from __future__ import annotations

from tests.cloud.stand_in import Client, clusters, error_of


def test_everything_that_is_made_can_be_removed_again(client: Client) -> None:
    client.network("n1", mtu=8244)
    client.subnetwork("s1", "n1", "192.168.1.0/24")
    client.firewall("f1", "n1")
    cluster = client.cluster()
    assert cluster["status"] == "RUNNING"
    assert client.compute("DELETE", "global/networks/n1")["error"]
    client.ok("DELETE", clusters("demo"))
    client.settle()
    assert client.request("GET", clusters("demo"))[0] == 404
    for path in ("global/firewalls/f1", "regions/us-central1/subnetworks/s1", "global/networks/n1"):
        assert "error" not in client.compute("DELETE", path)
        assert client.request("GET", f"/compute/v1/projects/sandbox-project/{path}")[0] == 404
    assert client.admin("GET", "resources") == {"resources": []}


def test_a_network_in_use_names_what_holds_it(client: Client) -> None:
    client.network("n1")
    client.firewall("f1", "n1")
    assert error_of(client.compute("DELETE", "global/networks/n1")) == {
        "code": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
        "message": "The network resource 'projects/sandbox-project/global/networks/n1' is already "
        "being used by 'projects/sandbox-project/global/firewalls/f1'",
    }
