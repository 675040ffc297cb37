"""Provider configuration: keys, variables, endpoints [facts google-cloud.md §9]."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.plugins.pulumi_resource_gcp import configuration
from sandbox.plugins.pulumi_resource_gcp.configuration import configure
from sandbox.plugins.pulumi_resource_gcp.errors import ProviderError
from sandbox.plugins.pulumi_resource_gcp.protocol import provider
from sandbox.plugins.pulumi_resource_gcp.values import encode

from .engine import Engine, RpcFailedError
from .google_stub import GoogleStub
from .programs import NETWORK, network

TOKEN = {"GOOGLE_OAUTH_ACCESS_TOKEN": "t"}


@pytest.mark.parametrize(
    ("variable", "attribute"),
    [
        ("GOOGLE_PROJECT", "project"),
        ("GOOGLE_CLOUD_PROJECT", "project"),
        ("GCLOUD_PROJECT", "project"),
        ("CLOUDSDK_CORE_PROJECT", "project"),
        ("GOOGLE_REGION", "region"),
        ("GCLOUD_REGION", "region"),
        ("CLOUDSDK_COMPUTE_REGION", "region"),
        ("GOOGLE_ZONE", "zone"),
        ("GCLOUD_ZONE", "zone"),
        ("CLOUDSDK_COMPUTE_ZONE", "zone"),
    ],
)
def test_a_variable_stands_in_for_a_key(variable: str, attribute: str) -> None:
    assert getattr(configure({}, {**TOKEN, variable: "v"}), attribute) == "v"
    assert getattr(configure({attribute: "k"}, {**TOKEN, variable: "v"}), attribute) == "k"


def test_google_s_own_variable_comes_before_the_others() -> None:
    environ = {**TOKEN, "CLOUDSDK_CORE_PROJECT": "last", "GOOGLE_PROJECT": "first"}
    assert configure({}, environ).project == "first"


@pytest.mark.parametrize(
    ("api", "variable", "base", "url"),
    [
        (
            configuration.COMPUTE,
            "GOOGLE_COMPUTE_CUSTOM_ENDPOINT",
            "http://127.0.0.1:1/compute/v1/",
            "http://127.0.0.1:1/compute/v1/x",
        ),
        (
            configuration.CONTAINER,
            "GOOGLE_CONTAINER_CUSTOM_ENDPOINT",
            "http://127.0.0.1:1/container/v1beta1/",
            "http://127.0.0.1:1/container/v1beta1/x",
        ),
        (
            configuration.CONTAINER,
            "GOOGLE_CONTAINER_CUSTOM_ENDPOINT",
            "http://127.0.0.1:1/container/anything/",
            "http://127.0.0.1:1/container/v1beta1/x",
        ),
        (
            configuration.SERVICE_USAGE,
            "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT",
            "http://127.0.0.1:1/serviceusage/v1/",
            "http://127.0.0.1:1/serviceusage/v1/x",
        ),
        (
            configuration.RESOURCE_MANAGER,
            "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT",
            "http://127.0.0.1:1/resourcemanager/v1/",
            "http://127.0.0.1:1/resourcemanager/v1/x",
        ),
    ],
)
def test_an_endpoint_is_taken_from_the_environment_or_the_config(
    api: configuration.Api, variable: str, base: str, url: str
) -> None:
    assert configure({}, {**TOKEN, variable: base}).url(api, "x") == url
    assert configure({api.config_key: base}, TOKEN).url(api, "x") == url


def test_without_an_endpoint_the_address_is_google_s() -> None:
    config = configure({}, TOKEN)
    assert config.url(configuration.COMPUTE, "x") == "https://compute.googleapis.com/compute/beta/x"
    assert config.url(configuration.CONTAINER, "x") == "https://container.googleapis.com/v1beta1/x"


def test_a_universe_rewrites_google_s_domain_and_leaves_custom_endpoints() -> None:
    own = "http://127.0.0.1:1/container/v1beta1/"
    config = configure({"universeDomain": "s3nsapis.fr", "containerCustomEndpoint": own}, TOKEN)
    assert config.url(configuration.COMPUTE, "x") == "https://compute.s3nsapis.fr/compute/beta/x"
    assert config.url(configuration.CONTAINER, "x") == own + "x"


@pytest.mark.parametrize("base", ["http://127.0.0.1:1", "http://h/compute", "http://h/compute/v1"])
def test_an_endpoint_without_a_version_is_refused(base: str) -> None:
    with pytest.raises(ProviderError) as caught:
        configure({}, {**TOKEN, "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": base})
    assert f'"GOOGLE_COMPUTE_CUSTOM_ENDPOINT" ("{base}")' in str(caught.value)


def test_without_a_token_nothing_is_sent_and_the_variable_is_named(
    bare_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN")
    with pytest.raises(RpcFailedError) as caught:
        bare_engine.configure()
    assert "GOOGLE_OAUTH_ACCESS_TOKEN" in caught.value.text


def test_a_token_of_the_config_comes_before_that_of_the_environment(
    bare_engine: Engine, google: GoogleStub
) -> None:
    bare_engine.configure(accessToken="mine")
    bare_engine.create(NETWORK, "x", network())
    assert {request.headers["Authorization"] for request in google.requests} == {"Bearer mine"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("10s", 10.0), ("1m30s", 90.0), ("500ms", 0.5), ("1.5s", 1.5)]
)
def test_a_poll_interval_is_a_duration(text: str, seconds: float) -> None:
    assert configure({"pollInterval": text}, TOKEN).poll_interval_seconds == seconds


@pytest.mark.parametrize("text", ["10", "soon", "10 s", "s"])
def test_a_poll_interval_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ProviderError) as caught:
        configure({"pollInterval": text}, TOKEN)
    assert f'gcp:pollInterval is "{text}"' in str(caught.value)


@pytest.mark.parametrize("value", ['{"a": "b"}', {"a": "b"}])
def test_labels_arrive_as_json_or_as_an_object(value: Any) -> None:
    assert configure({"defaultLabels": value}, TOKEN).default_labels == {"a": "b"}


def test_config_arrives_in_either_of_the_engine_s_two_forms(
    bare_engine: Engine, google: GoogleStub
) -> None:
    request = provider.ConfigureRequest(variables={"gcp:config:project": "other"})
    bare_engine.call("Configure", request)
    bare_engine.create(NETWORK, "x", network())
    assert google.lines[0] == "POST /compute/v1/projects/other/global/networks"


def check_config(engine: Engine, **news: Any) -> list[str]:
    answer = engine.call("CheckConfig", provider.CheckRequest(news=encode(news)))
    assert dict(answer.inputs) == dict(encode(news))
    return [failure.reason for failure in answer.failures]


def test_known_keys_pass(bare_engine: Engine) -> None:
    found = check_config(
        bare_engine,
        project="p",
        defaultLabels="{}",
        version="10.2.0",
        computeCustomEndpoint="http://127.0.0.1:1/compute/v1/",
        dataprocMetastoreCustomEndpoint="http://127.0.0.1:1/x/v1/",
    )
    assert found == []


def test_a_key_that_does_not_exist_is_refused(bare_engine: Engine) -> None:
    found = check_config(bare_engine, projet="p")
    assert len(found) == 1
    assert "gcp:projet" in found[0]


def test_an_endpoint_of_the_wrong_form_is_refused(bare_engine: Engine) -> None:
    found = check_config(bare_engine, computeCustomEndpoint="http://127.0.0.1:1/compute")
    assert len(found) == 1
    assert '"gcp:computeCustomEndpoint" ("http://127.0.0.1:1/compute")' in found[0]


def test_calls_before_configure_are_refused(bare_engine: Engine) -> None:
    with pytest.raises(RpcFailedError) as caught:
        bare_engine.preview_create(NETWORK, "x", network())
    assert caught.value.text == "the provider was not configured"


def test_the_handshake_names_what_the_plug_in_can_do(bare_engine: Engine) -> None:
    answer = bare_engine.call("Handshake", provider.ProviderHandshakeRequest())
    assert answer.accept_secrets
    assert not answer.accept_resources
    assert not answer.accept_outputs
    assert answer.supports_autonaming_configuration


def test_the_schema_is_not_served(bare_engine: Engine) -> None:
    import grpc

    with pytest.raises(RpcFailedError) as caught:
        bare_engine.call("GetSchema", provider.GetSchemaRequest())
    assert caught.value.code is grpc.StatusCode.UNIMPLEMENTED
