"""Provider configuration: what the stack and the environment say, and the base URLs that follow.

Owns the names of config keys and environment variables and their order [facts google-cloud.md
§9, real-provider.md "Pointing it at a local server"]. Needs nothing from the network: the real
provider's look-up of the region list only warns, and is left out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ProviderError

_PROJECT = ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
_REGION = ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION")
_ZONE = ("GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE")

PLAIN_KEYS = frozenset(
    {
        "accessToken", "addPulumiAttributionLabel", "batching", "billingProject", "credentials",
        "defaultLabels", "deletionPolicy", "disableGooglePartnerName", "externalCredentials",
        "googlePartnerName", "impersonateServiceAccount", "impersonateServiceAccountDelegates",
        "pollInterval", "preferGlobalEndpoints", "preferRegionalEndpoints", "project",
        "pulumiAttributionLabelAdditionStrategy", "region", "requestReason", "requestTimeout",
        "scopes", "universeDomain", "userProjectOverride", "zone",
    }
)  # fmt: skip
"""The keys of pulumi_gcp 10.2.0's provider, the endpoints left out."""
_ENDPOINT_KEY = re.compile(r"^[a-z][A-Za-z0-9]*CustomEndpoint$")
_ENDPOINT_URL = re.compile(r".*/[^/]+/$")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Api:
    """One of Google's APIs: its default base and the names under which another one is given."""

    config_key: str
    environment: str
    default: str
    version: str
    """Version segment that the client adds itself; empty = the base is used as given."""


COMPUTE = Api(
    config_key="computeCustomEndpoint",
    environment="GOOGLE_COMPUTE_CUSTOM_ENDPOINT",
    default="https://compute.googleapis.com/compute/beta/",
    version="",
)
CONTAINER = Api(
    config_key="containerCustomEndpoint",
    environment="GOOGLE_CONTAINER_CUSTOM_ENDPOINT",
    default="https://container.googleapis.com/v1beta1/",
    version="v1beta1/",
)
SERVICE_USAGE = Api(
    config_key="serviceUsageCustomEndpoint",
    environment="GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT",
    default="https://serviceusage.googleapis.com/v1/",
    version="v1/",
)
RESOURCE_MANAGER = Api(
    config_key="resourceManagerCustomEndpoint",
    environment="GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT",
    default="https://cloudresourcemanager.googleapis.com/v1/",
    version="v1/",
)
IAM = Api(
    config_key="iamCustomEndpoint",
    environment="GOOGLE_IAM_CUSTOM_ENDPOINT",
    default="https://iam.googleapis.com/v1/",
    version="v1/",
)
APIS = (COMPUTE, CONTAINER, SERVICE_USAGE, RESOURCE_MANAGER, IAM)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderConfig:
    """What every call needs to know."""

    project: str = ""
    region: str = ""
    zone: str = ""
    access_token: str = ""
    default_labels: Mapping[str, str] = field(default_factory=dict)
    attribution_label: bool = True
    deletion_policy: str = ""
    poll_interval_seconds: float | None = None
    """Fixed interval between two looks at an operation; None = see `operations`."""
    request_timeout_seconds: float = 120.0
    endpoints: Mapping[str, str] = field(default_factory=dict)

    def url(self, api: Api, path: str) -> str:
        """Return the full address of a path below an API's base.

        A version segment in the base is replaced by the client's own, as Google's generated
        clients do [real-provider.md].
        """
        base = self.endpoints[api.config_key]
        if api.version:
            base = base[: base.rstrip("/").rfind("/") + 1] + api.version
        return base + path

    def require_project(self, given: str | None = None) -> str:
        """Return the project of a resource: its own or the provider's."""
        project = given or self.project
        if not project:
            raise ProviderError("project: required field is not set")
        return project

    def require_region(self, given: str | None = None) -> str:
        """Return the region of a resource: its own, the provider's, or that of the zone."""
        region = given or self.region or self.zone.rpartition("-")[0]
        if not region:
            raise ProviderError(
                "Cannot determine region: set in this resource, or set provider-level "
                "'region' or 'zone'."
            )
        return region.rsplit("/", 1)[-1]

    def require_location(self, given: str | None = None) -> str:
        """Return where a cluster lives: its own location, the provider's region, then its zone."""
        location = given or self.region or self.zone
        if not location:
            raise ProviderError(
                "Unable to determine location: region/zone not configured in resource/provider "
                "config"
            )
        return location


def configure(args: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> ProviderConfig:
    """Build the configuration from the provider's inputs and the environment.

    Raises:
        ProviderError: a value cannot be used; the text names the key and what is expected.
    """
    env = os.environ if environ is None else environ
    token = _text(args, "accessToken") or env.get("GOOGLE_OAUTH_ACCESS_TOKEN", "")
    if not token:
        raise ProviderError(
            "no credentials: this stand-in for the gcp provider takes an access token only; set "
            "the variable GOOGLE_OAUTH_ACCESS_TOKEN or the config key gcp:accessToken"
        )
    return ProviderConfig(
        project=_text(args, "project") or _first(env, _PROJECT),
        region=_text(args, "region") or _first(env, _REGION),
        zone=_text(args, "zone") or _first(env, _ZONE),
        access_token=token,
        default_labels=_labels(args),
        attribution_label=_boolean(args, "addPulumiAttributionLabel", default=True),
        deletion_policy=_text(args, "deletionPolicy"),
        poll_interval_seconds=_duration(args, "pollInterval"),
        request_timeout_seconds=_duration(args, "requestTimeout") or 120.0,
        endpoints=_endpoints(args, env),
    )


def config_problems(args: Mapping[str, Any]) -> list[str]:
    """List what is wrong with the provider's inputs, for CheckConfig."""
    problems = []
    for key, value in args.items():
        if key in {"version", "pluginDownloadURL", "__internal"}:
            continue
        if key not in PLAIN_KEYS and not _ENDPOINT_KEY.match(key):
            problems.append(
                f"could not validate provider configuration: Invalid or unknown key. "
                f"Check `pulumi config get gcp:{key}`."
            )
        elif _ENDPOINT_KEY.match(key) and isinstance(value, str) and not _is_endpoint(value):
            problems.append(_endpoint_problem(f"gcp:{key}", value))
    return problems


def _endpoints(args: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    universe = _text(args, "universeDomain") or env.get("GOOGLE_UNIVERSE_DOMAIN", "")
    found = {}
    for api in APIS:
        given, source = _text(args, api.config_key), f"gcp:{api.config_key}"
        if not given:
            given, source = env.get(api.environment, ""), api.environment
        if given and not _is_endpoint(given):
            raise ProviderError(_endpoint_problem(source, given))
        default = api.default
        if universe:
            default = default.replace("googleapis.com", universe)
        found[api.config_key] = given or default
    return found


def _is_endpoint(value: str) -> bool:
    return not value or _ENDPOINT_URL.match(value) is not None


def _endpoint_problem(source: str, value: str) -> str:
    return (
        f'"{source}" ("{value}") doesn\'t match regexp "{_ENDPOINT_URL.pattern}": an endpoint '
        "is a whole base address and ends with a version, as in http://host:port/compute/v1/"
    )


def _text(args: Mapping[str, Any], key: str) -> str:
    value = args.get(key)
    return value if isinstance(value, str) else ""


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((env[name] for name in names if env.get(name)), "")


def _parsed(args: Mapping[str, Any], key: str) -> Any:
    """Return a value that is not text; the engine hands those over as JSON [§12.3]."""
    value = args.get(key)
    if not isinstance(value, str) or not value:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _boolean(args: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = _parsed(args, key)
    return value if isinstance(value, bool) else default


def _labels(args: Mapping[str, Any]) -> dict[str, str]:
    value = _parsed(args, "defaultLabels")
    if not isinstance(value, Mapping):
        return {}
    return {str(key): str(item) for key, item in value.items()}


def _duration(args: Mapping[str, Any], key: str) -> float | None:
    text = _text(args, key)
    if not text:
        return None
    parts = _DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        raise ProviderError(f'gcp:{key} is "{text}"; expected a duration such as "10s" or "1m30s"')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
