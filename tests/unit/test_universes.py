from __future__ import annotations

import pytest

from tests.unit.stack_settings import errors, settings, the_error

S3NS = {"region": "u-france-east1", "universeDomain": "s3nsapis.fr", "project": "s3ns:demo"}
S3NS_CLASS = {"capacity": "compute-class", "computeClass": "h100", "clusterNetwork": "create"}


def test_s3ns_has_no_a3_mega() -> None:
    found = errors(gcp=S3NS, clusterNetwork="create")
    (finding,) = found
    assert finding.key == "gpudirect:gpuStack"
    assert "has no a3-megagpu-8g" in finding.message


def test_s3ns_gives_a3_high_through_a_compute_class_and_warns() -> None:
    found = settings(gcp=S3NS, gpuStack="a3-high", **S3NS_CLASS)
    assert found.universe.domain == "s3nsapis.fr"
    assert {warning.key for warning in found.warnings} == {
        "gpudirect:gpuStack",
        "gpudirect:imageRegistry",
    }
    assert "u-france-east1-docker.s3nsregistry.fr" in found.warnings[1].expected
    finding = the_error(gcp=S3NS, gpuStack="a3-high", clusterNetwork="create")
    assert finding.key == "gpudirect:capacity"


@pytest.mark.parametrize(
    ("gcp", "overrides", "key"),
    [
        ({"region": "us-east4"}, {}, "gcp:region"),
        ({"project": "demo-1"}, {}, "gcp:project"),
        ({}, {"clusterNetwork": "default"}, "gpudirect:clusterNetwork"),
        ({}, {"placementGroup": "g"}, "gpudirect:placementGroup"),
    ],
)
def test_what_s3ns_does_not_have_is_refused(
    gcp: dict[str, str], overrides: dict[str, str], key: str
) -> None:
    finding = the_error(gcp={**S3NS, **gcp}, gpuStack="a3-high", **{**S3NS_CLASS, **overrides})
    assert finding.key == key


def test_a_universe_s_names_come_from_its_profile() -> None:
    universe = settings(gcp=S3NS, gpuStack="a3-high", **S3NS_CLASS).universe
    assert universe.registry("u-france-east1") == "u-france-east1-docker.s3nsregistry.fr"
    assert universe.service_account("nodes", "s3ns:demo") == (
        "nodes@demo.s3ns.iam.gserviceaccount.com"
    )
    assert universe.workload_pool("s3ns:demo") == "demo.s3ns.svc.id.goog"
    google = settings().universe
    assert google.service_account("nodes", "demo") == "nodes@demo.iam.gserviceaccount.com"
    assert google.registry("us-east4") == "us-east4-docker.pkg.dev"
