"""The provider's functions [facts google-cloud.md §9]."""

from __future__ import annotations

from typing import Any

import pytest

from .engine import Engine, RpcFailedError
from .google_stub import Answer, GoogleStub, Request, error
from .programs import CLUSTER, cluster

VERSIONS = "gcp:container/getEngineVersions:getEngineVersions"
ZONES = "gcp:compute/getZones:getZones"
CONFIG = "gcp:organizations/getClientConfig:getClientConfig"
PROJECT = "gcp:organizations/getProject:getProject"
GET_CLUSTER = "gcp:container/getCluster:getCluster"

SERVER_CONFIG = {
    "defaultClusterVersion": "1.33.5-gke.1308000",
    "validMasterVersions": ["1.34.1-gke.3355002", "1.33.5-gke.1956000", "1.33.5-gke.1308000"],
    "validNodeVersions": ["1.34.1-gke.3355002", "1.33.5-gke.1308000"],
    "channels": [
        {
            "channel": "RAPID",
            "defaultVersion": "1.34.1-gke.3355002",
            "validVersions": ["1.34.1-gke.3355002"],
            "upgradeTargetVersion": "1.34.1-gke.3355002",
        },
        {
            "channel": "REGULAR",
            "defaultVersion": "1.33.5-gke.1308000",
            "validVersions": ["1.33.5-gke.1956000", "1.33.5-gke.1308000"],
        },
        {"channel": "EXTENDED", "defaultVersion": "1.30.14-gke.1794000"},
    ],
}


@pytest.fixture
def versions(google: GoogleStub) -> None:
    def rule(request: Request) -> Answer | None:
        return (200, SERVER_CONFIG) if request.path.endswith("/serverConfig") else None

    google.rules.append(rule)


@pytest.mark.usefixtures("versions")
def test_versions_of_a_location(engine: Engine, google: GoogleStub) -> None:
    found = engine.invoke(VERSIONS, location="us-central1").values
    assert google.lines == ["GET /container/v1beta1/projects/p/locations/us-central1/serverConfig"]
    assert found["id"]
    assert found["validMasterVersions"] == SERVER_CONFIG["validMasterVersions"]
    assert found["latestMasterVersion"] == "1.34.1-gke.3355002"
    assert found["latestNodeVersion"] == "1.34.1-gke.3355002"
    assert found["defaultClusterVersion"] == "1.33.5-gke.1308000"
    assert found["releaseChannelDefaultVersion"] == {
        "RAPID": "1.34.1-gke.3355002",
        "REGULAR": "1.33.5-gke.1308000",
        "EXTENDED": "1.30.14-gke.1794000",
    }
    # A channel without versions is left out; the prefix touches this map alone.
    assert found["releaseChannelLatestVersion"] == {
        "RAPID": "1.34.1-gke.3355002",
        "REGULAR": "1.33.5-gke.1956000",
    }
    assert found["releaseChannelUpgradeTargetVersion"] == {"RAPID": "1.34.1-gke.3355002"}


@pytest.mark.usefixtures("versions")
def test_a_prefix_filters_and_finds_the_newest_of_what_is_left(engine: Engine) -> None:
    found = engine.invoke(VERSIONS, location="us-central1", versionPrefix="1.33.").values
    assert found["latestMasterVersion"] == "1.33.5-gke.1956000"
    assert found["latestNodeVersion"] == "1.33.5-gke.1308000"
    assert found["releaseChannelLatestVersion"] == {"REGULAR": "1.33.5-gke.1956000"}
    assert len(found["releaseChannelDefaultVersion"]) == 3


@pytest.mark.usefixtures("versions")
def test_a_prefix_that_fits_nothing_is_no_error(engine: Engine) -> None:
    found = engine.invoke(VERSIONS, location="us-central1", versionPrefix="2.").values
    assert found["latestMasterVersion"] == ""
    assert found["validMasterVersions"] == []


@pytest.mark.usefixtures("versions")
def test_the_provider_s_region_is_the_location_when_none_is_given(
    engine: Engine, google: GoogleStub
) -> None:
    engine.invoke(VERSIONS)
    assert "/locations/us-central1/" in google.lines[0]


def test_versions_of_nowhere(engine: Engine, google: GoogleStub) -> None:
    google.rules.append(lambda _: error(400, 'Location "wonderland" does not exist', "badRequest"))
    with pytest.raises(RpcFailedError) as caught:
        engine.invoke(VERSIONS, location="wonderland")
    assert (
        "Error retrieving available container cluster versions: googleapi: Error 400: Location "
        '"wonderland" does not exist, badRequest'
    ) in caught.value.text


@pytest.fixture
def zones(google: GoogleStub) -> None:
    pages: dict[str, dict[str, Any]] = {
        "": {
            "items": [
                {"name": "us-central1-c", "status": "UP"},
                {"name": "us-central1-a", "status": "UP"},
                {"name": "us-central10-a", "status": "UP"},
            ],
            "nextPageToken": "more",
        },
        "more": {"items": [{"name": "us-central1-f", "status": "DOWN"}]},
    }

    def rule(request: Request) -> Answer | None:
        if request.path.endswith("/zones"):
            return 200, pages[request.query.get("pageToken", "")]
        return None

    google.rules.append(rule)


@pytest.mark.usefixtures("zones")
@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({}, ["us-central1-a", "us-central1-c", "us-central1-f"]),
        ({"status": "UP"}, ["us-central1-a", "us-central1-c"]),
        ({"region": "mars-north1"}, []),
    ],
)
def test_zones_are_sorted_and_those_of_the_region(
    engine: Engine, args: dict[str, str], names: list[str]
) -> None:
    found = engine.invoke(ZONES, **args).values
    assert found["names"] == names
    region = args.get("region", "us-central1")
    assert found["id"] == f"projects/p/regions/{region}"


@pytest.mark.usefixtures("zones")
def test_a_status_that_does_not_exist_is_refused(engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        engine.invoke(ZONES, status="SIDEWAYS")
    assert 'expected status to be one of ["UP" "DOWN"], got SIDEWAYS' in caught.value.text


def test_the_client_config_hides_its_token(engine: Engine, google: GoogleStub) -> None:
    found = engine.invoke(CONFIG)
    assert found.values["accessToken"] == "anything"
    assert found.secrets == {("accessToken",)}
    assert found.values["project"] == "p"
    assert found.values["region"] == "us-central1"
    assert found.values["zone"] == ""
    assert found.values["id"] == "projects/p/regions/us-central1/zones/"
    assert google.lines == []


def test_a_project_has_a_number(engine: Engine, google: GoogleStub) -> None:
    found = engine.invoke(PROJECT).values
    assert google.lines == ["GET /resourcemanager/v1/projects/p"]
    assert found["number"] == "123456789012"
    assert found["projectId"] == "p"
    assert found["id"] == "projects/p"


@pytest.mark.parametrize("code", [403, 404])
def test_a_missing_project(engine: Engine, google: GoogleStub, code: int) -> None:
    google.rules.append(lambda _: error(code, "no", "no"))
    with pytest.raises(RpcFailedError) as caught:
        engine.invoke(PROJECT, projectId="q")
    assert "projects/q not found or not in ACTIVE state" in caught.value.text


def test_a_cluster_is_found_by_its_name(engine: Engine) -> None:
    engine.create(CLUSTER, "x", cluster())
    found = engine.invoke(GET_CLUSTER, name="c", location="us-central1").values
    assert found["id"] == "projects/p/locations/us-central1/clusters/c"
    assert found["endpoint"] == "10.1.2.3"


def test_a_missing_cluster_is_an_error(engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        engine.invoke(GET_CLUSTER, name="c", location="us-central1")
    assert "projects/p/locations/us-central1/clusters/c not found" in caught.value.text


def test_an_unknown_function_is_a_clear_error(engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        engine.invoke("gcp:compute/getImage:getImage")
    assert "gcp:compute/getImage:getImage" in caught.value.text
