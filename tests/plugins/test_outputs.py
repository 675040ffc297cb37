"""What is saved, what a preview promises, what an import makes [facts google-cloud.md §1.5, §6.3].

Also real-provider.md "State outputs".
"""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.plugins.pulumi_resource_gcp.protocol import provider
from sandbox.plugins.pulumi_resource_gcp.values import (
    UNKNOWN,
    contains_unknown,
    decode,
    encode,
)

from .engine import Engine, Resource, detailed, unchanged
from .google_stub import GoogleStub
from .programs import (
    CLUSTER,
    FIREWALL,
    NETWORK,
    SERVICE,
    SUBNETWORK,
    cluster,
    firewall,
    network,
    service,
    subnetwork,
)

Json = dict[str, Any]


def test_the_state_of_a_network(engine: Engine) -> None:
    made = engine.create(NETWORK, "x", network())
    assert made.id == "projects/p/global/networks/net-1"
    wanted = {
        "id": made.id,
        "mtu": 8244,
        "networkId": "123456789012345678",
        "routingMode": "REGIONAL",
        "gatewayIpv4": "",
        "deletionPolicy": "DELETE",
        "project": "p",
        "selfLink": f"https://www.googleapis.com/compute/v1/{made.id}",
        "autoCreateSubnetworks": False,
        "description": "",
        "enableUlaInternalIpv6": False,
    }
    assert {name: made.outputs[name] for name in wanted} == wanted
    assert "__defaults" not in made.outputs


def test_an_unset_mtu_reads_back_as_zero(engine: Engine) -> None:
    assert engine.create(NETWORK, "x", network(mtu=None)).outputs["mtu"] == 0


def test_a_beta_link_is_saved_as_v1(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(NETWORK, "x", network())
    google.resources[made.id]["selfLink"] = f"https://www.googleapis.com/compute/beta/{made.id}"
    again = engine.refresh(made)
    assert again is not None
    assert again.outputs["selfLink"] == f"https://www.googleapis.com/compute/v1/{made.id}"


def test_the_state_of_a_subnetwork(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(SUBNETWORK, "x", subnetwork())
    assert made.id == "projects/p/regions/us-central1/subnetworks/sub-1"
    wanted = {
        "gatewayAddress": "192.168.0.1",
        "region": "us-central1",
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "secondaryIpRanges": [],
        "subnetworkId": 123456789012345680,
    }
    found = {name: made.outputs[name] for name in wanted}
    # An integer beyond 2^53 loses digits on the wire [§1.5].
    assert abs(found.pop("subnetworkId") - wanted.pop("subnetworkId")) < 1000
    assert found == wanted
    assert "fingerprint" not in made.outputs
    full = "https://www.googleapis.com/compute/v1/projects/p/global/networks/net-1"
    google.resources[made.id]["network"] = full
    again = engine.refresh(made)
    assert again is not None
    assert again.outputs["network"] == full


def test_the_region_comes_from_the_provider_when_none_is_given(engine: Engine) -> None:
    made = engine.create(SUBNETWORK, "x", subnetwork(region=None))
    assert made.outputs["region"] == "us-central1"
    assert made.id == "projects/p/regions/us-central1/subnetworks/sub-1"


def test_the_state_of_a_firewall_rule(engine: Engine) -> None:
    made = engine.create(FIREWALL, "x", firewall())
    wanted = {
        "direction": "INGRESS",
        "priority": 1000,
        "allows": [
            {"protocol": "tcp", "ports": ["0-65535"]},
            {"protocol": "udp", "ports": ["0-65535"]},
            {"protocol": "icmp", "ports": []},
        ],
        "denies": [],
        "destinationRanges": [],
        "enableLogging": False,
        "logConfig": None,
    }
    assert {name: made.outputs[name] for name in wanted} == wanted


def test_the_state_of_a_service(engine: Engine) -> None:
    made = engine.create(SERVICE, "x", service())
    assert made.id == "p/container.googleapis.com"
    assert made.outputs == {
        "id": "p/container.googleapis.com",
        "project": "p",
        "service": "container.googleapis.com",
        "disableOnDestroy": False,
        "disableDependentServices": False,
        "checkIfServiceHasUsageOnDestroy": False,
        "deletionPolicy": "DELETE",
    }


def test_the_state_of_a_cluster(engine: Engine) -> None:
    made = engine.create(CLUSTER, "x", cluster())
    assert made.id == "projects/p/locations/us-central1/clusters/c"
    labels = {"goog-pulumi-provisioned": "true"}
    wanted = {
        "endpoint": "10.1.2.3",
        "masterVersion": "1.33.5-gke.1308000",
        "network": "projects/p/global/networks/net-1",
        "subnetwork": "projects/p/regions/us-central1/subnetworks/sub-1",
        "enableAutopilot": True,
        "enableMultiNetworking": True,
        "allowNetAdmin": True,
        "networkingMode": "VPC_NATIVE",
        "initialNodeCount": 0,
        "pulumiLabels": labels,
        "effectiveLabels": labels,
        "resourceLabels": {},
        "labelFingerprint": "a9dc16a7",
        "networkPolicy": {"enabled": False, "provider": "PROVIDER_UNSPECIFIED"},
        "releaseChannel": {"channel": "REGULAR"},
        "deletionProtection": False,
        "deletionPolicy": "DELETE",
        "operation": "",
        "minMasterVersion": "",
        "masterAuth": {
            "clientCertificate": "",
            "clientCertificateConfig": {"issueClientCertificate": False},
            "clientKey": "",
            "clusterCaCertificate": "LS0tLS1CRUdJTi",
        },
    }
    assert {name: made.outputs[name] for name in wanted} == wanted


def test_the_typed_version_stays_beside_the_real_one(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(CLUSTER, "x", cluster(minMasterVersion="1.33"))
    google.resources[made.id]["currentMasterVersion"] = "1.33.5-gke.2072000"
    again = engine.refresh(made)
    assert again is not None
    assert again.outputs["minMasterVersion"] == "1.33"
    assert again.outputs["masterVersion"] == "1.33.5-gke.2072000"
    assert unchanged(engine.diff(again, cluster(minMasterVersion="1.33")))


def test_keys_and_labels_of_a_cluster_are_secret(engine: Engine) -> None:
    checked, _ = engine.check(CLUSTER, "x", cluster())
    answer = engine.call(
        "Create",
        provider.CreateRequest(urn=Resource(CLUSTER, "x").urn, properties=encode(checked)),
    )
    assert decode(answer.properties).secrets == {
        ("masterAuth", "clientKey"),
        ("pulumiLabels",),
        ("effectiveLabels",),
    }


def test_an_output_is_secret_where_the_input_was(engine: Engine) -> None:
    checked, _ = engine.check(FIREWALL, "x", firewall(description="hush"))
    secrets: set[tuple[str | int, ...]] = {("description",), ("allows", 0, "ports")}
    request = provider.CreateRequest(
        urn=Resource(FIREWALL, "x").urn, properties=encode(checked, secrets)
    )
    answer = engine.call("Create", request)
    assert decode(answer.properties).secrets == {("description",), ("allows",)}


# --- labels ---


def test_provider_labels_are_added_and_kept_apart(bare_engine: Engine, google: GoogleStub) -> None:
    bare_engine.configure(defaultLabels='{"owner": "me", "team": "b"}')
    program = cluster(resourceLabels={"team": "a"})
    made = bare_engine.create(CLUSTER, "x", program)
    everything = {"goog-pulumi-provisioned": "true", "owner": "me", "team": "a"}
    assert google.bodies[0]["cluster"]["resourceLabels"] == everything
    assert made.outputs["resourceLabels"] == {"team": "a"}
    assert made.outputs["pulumiLabels"] == everything
    bare_engine.configure(defaultLabels='{"owner": "you"}')
    assert set(detailed(bare_engine.diff(made, program))) == {"effectiveLabels", "pulumiLabels"}


def test_the_attribution_label_can_be_left_out(bare_engine: Engine, google: GoogleStub) -> None:
    bare_engine.configure(addPulumiAttributionLabel="false")
    made = bare_engine.create(CLUSTER, "x", cluster())
    assert "resourceLabels" not in google.bodies[0]["cluster"]
    assert made.outputs["effectiveLabels"] == {}


def test_the_attribution_label_is_given_at_creation_only(bare_engine: Engine) -> None:
    bare_engine.configure(addPulumiAttributionLabel="false")
    made = bare_engine.create(CLUSTER, "x", cluster())
    bare_engine.configure()
    assert unchanged(bare_engine.diff(made, cluster()))


# --- previews ---


def test_a_preview_promises_inputs_and_known_outputs_and_nothing_else(
    engine: Engine, google: GoogleStub
) -> None:
    outputs = engine.preview_create(CLUSTER, "x", cluster())
    wanted = {
        "name": "c",
        "project": "p",
        "deletionPolicy": "DELETE",
        "networkingMode": "VPC_NATIVE",
        "enableIntranodeVisibility": True,
        "pulumiLabels": {"goog-pulumi-provisioned": "true"},
    }
    assert {name: outputs[name] for name in wanted} == wanted
    for name in ("id", "endpoint", "masterAuth", "masterVersion", "selfLink", "dnsConfig"):
        assert outputs[name] is UNKNOWN, name
    assert google.lines == []


@pytest.mark.parametrize(
    ("kind", "inputs", "unknown"),
    [
        (NETWORK, network(), {"id", "selfLink", "networkId", "numericId", "gatewayIpv4"}),
        (SUBNETWORK, subnetwork(), {"id", "selfLink", "gatewayAddress", "creationTimestamp"}),
        (FIREWALL, firewall(), {"id", "selfLink", "creationTimestamp", "direction"}),
        (SERVICE, service(), {"id"}),
    ],
)
def test_a_preview_of_each_kind(engine: Engine, kind: str, inputs: Json, unknown: set[str]) -> None:
    outputs = engine.preview_create(kind, "x", inputs)
    assert unknown <= {name for name, value in outputs.items() if value is UNKNOWN}
    given = {name: value for name, value in inputs.items() if not isinstance(value, list)}
    assert {name: outputs[name] for name in given} == given
    assert "__defaults" not in outputs


def test_an_update_s_preview_keeps_what_is_known(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(NETWORK, "x", network())
    google.requests.clear()
    planned = engine.update(made, network(mtu=1460), preview=True).outputs
    assert planned == {**made.outputs, "mtu": 1460}
    assert not contains_unknown(planned)
    assert google.lines == []


def test_an_update_s_preview_empties_what_is_taken_away(engine: Engine) -> None:
    made = engine.create(FIREWALL, "x", firewall(description="d", priority=900))
    planned = engine.update(made, firewall(), preview=True).outputs
    assert planned["description"] == ""
    assert planned["priority"] == 1000


def test_an_update_s_preview_keeps_the_server_s_part_of_an_object(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(CLUSTER, "x", cluster(ipAllocationPolicy={}))
    google.resources[made.id]["ipAllocationPolicy"]["clusterIpv4CidrBlock"] = "10.4.0.0/17"
    again = engine.refresh(made)
    assert again is not None
    program = cluster(ipAllocationPolicy={}, allowNetAdmin=False)
    planned = engine.update(again, program, preview=True).outputs
    assert planned["ipAllocationPolicy"]["clusterIpv4CidrBlock"] == "10.4.0.0/17"


# --- refresh and import ---


def test_a_refresh_keeps_the_form_in_which_a_value_was_typed(
    engine: Engine, google: GoogleStub
) -> None:
    made = engine.create(SUBNETWORK, "x", subnetwork(network="net-1"))
    google.resources[made.id]["network"] = "https://x/compute/v1/projects/p/global/networks/net-1"
    again = engine.refresh(made)
    assert again is not None
    assert again.inputs == made.inputs


def test_a_refresh_takes_over_what_changed(engine: Engine, google: GoogleStub) -> None:
    made = engine.create(FIREWALL, "x", firewall())
    google.resources[made.id]["priority"] = 5
    google.resources[made.id]["allowed"] = [{"IPProtocol": "icmp"}]
    again = engine.refresh(made)
    assert again is not None
    assert again.inputs["priority"] == 5
    assert again.inputs["allows"] == [{"__defaults": [], "protocol": "icmp"}]
    assert set(again.inputs) == set(made.inputs)


@pytest.mark.parametrize("kind", [NETWORK, SUBNETWORK, FIREWALL, SERVICE, CLUSTER])
def test_a_resource_that_is_gone_reads_as_gone(
    engine: Engine, google: GoogleStub, kind: str
) -> None:
    programs = {
        NETWORK: network, SUBNETWORK: subnetwork, FIREWALL: firewall, SERVICE: service,
        CLUSTER: cluster,
    }  # fmt: skip
    made = engine.create(kind, "x", programs[kind]())
    google.resources.clear()
    google.services.clear()
    assert engine.refresh(made) is None


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (NETWORK, "projects/p/global/networks/net-1"),
        (NETWORK, "p/net-1"),
        (NETWORK, "net-1"),
        (SUBNETWORK, "projects/p/regions/us-central1/subnetworks/sub-1"),
        (SUBNETWORK, "p/us-central1/sub-1"),
        (SUBNETWORK, "us-central1/sub-1"),
        (SUBNETWORK, "sub-1"),
        (FIREWALL, "p/internal-1"),
        (SERVICE, "p/container.googleapis.com"),
        (CLUSTER, "projects/p/locations/us-central1/clusters/c"),
        (CLUSTER, "p/us-central1/c"),
        (CLUSTER, "us-central1/c"),
    ],
)
def test_an_import_takes_every_form_of_the_id_and_fits_the_program(
    engine: Engine, kind: str, form: str
) -> None:
    programs = {
        NETWORK: network, SUBNETWORK: subnetwork, FIREWALL: firewall, SERVICE: service,
        CLUSTER: cluster,
    }  # fmt: skip
    program = programs[kind]()
    made = engine.create(kind, "x", program)
    imported = engine.refresh(Resource(kind, "x", id=form))
    assert imported is not None
    assert imported.id == made.id
    diff = engine.diff(imported, program)
    allowed = {"deletionProtection", "disableOnDestroy"}
    assert set(detailed(diff)) <= allowed
    _, found = engine.check(kind, "x", imported.inputs)
    assert found == []


def test_an_imported_cluster_is_protected(engine: Engine) -> None:
    engine.create(CLUSTER, "x", cluster())
    imported = engine.refresh(Resource(CLUSTER, "x", id="us-central1/c"))
    assert imported is not None
    assert imported.outputs["deletionProtection"] is True


def test_what_is_not_the_id_of_a_cluster_is_refused(engine: Engine) -> None:
    from .engine import RpcFailedError

    with pytest.raises(RpcFailedError) as caught:
        engine.refresh(Resource(CLUSTER, "x", id="c"))
    assert '"c" is not the id of a cluster' in caught.value.text
