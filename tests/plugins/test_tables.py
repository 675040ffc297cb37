"""The field tables against the SDK that programs use: pulumi_gcp 10.2.0."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
import pulumi_gcp
import pytest

from sandbox.plugins.pulumi_resource_gcp.resources import KINDS
from sandbox.plugins.pulumi_resource_gcp.schema import NESTED, Field, Fields
from sandbox.plugins.pulumi_resource_gcp.servicer import VERSION

from .programs import CLUSTER, FIREWALL, NETWORK, RESOURCE_POLICY, SERVICE, SUBNETWORK

SDK = {
    NETWORK: pulumi_gcp.compute.NetworkArgs,
    SUBNETWORK: pulumi_gcp.compute.SubnetworkArgs,
    FIREWALL: pulumi_gcp.compute.FirewallArgs,
    RESOURCE_POLICY: pulumi_gcp.compute.ResourcePolicyArgs,
    SERVICE: pulumi_gcp.projects.ServiceArgs,
    CLUSTER: pulumi_gcp.container.ClusterArgs,
}


def _inputs(cls: type) -> set[str]:
    names = pulumi._types.input_type_py_to_pulumi_names(cls)
    return set(names.values())


def test_every_resource_type_is_compared() -> None:
    assert set(SDK) == set(KINDS)


def test_the_version_is_that_of_the_installed_sdk() -> None:
    from importlib.metadata import version

    assert version("pulumi_gcp") == VERSION


@pytest.mark.parametrize("token", sorted(SDK))
def test_a_table_has_exactly_the_inputs_of_the_sdk(token: str) -> None:
    table = {name for name, spec in KINDS[token].fields.items() if not spec.output}
    assert table == _inputs(SDK[token])


@pytest.mark.parametrize("token", sorted(SDK))
def test_a_resource_offers_the_outputs_of_the_sdk(token: str) -> None:
    module, name = token.split(":")[1].split("/")[0], token.rsplit(":", 1)[-1]
    resource = getattr(getattr(pulumi_gcp, module), name)
    outputs = set(pulumi._types.resource_types(resource))
    known = set(KINDS[token].fields)
    # Deprecated, and never set by the provider now [facts google-cloud.md §3].
    never_set = {"fingerprint"}
    translated = {pulumi_name(output) for output in outputs} - never_set
    assert translated - known == set()


def pulumi_name(text: str) -> str:
    first, *rest = text.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _nested(fields: Fields, path: str) -> Iterator[tuple[str, Field]]:
    for name, spec in fields.items():
        if spec.type in NESTED:
            yield f"{path}{name}", spec
            yield from _nested(spec.fields, f"{path}{name}.")


def _carried(fields: Fields) -> Mapping[str, Field]:
    return {name: spec for name, spec in fields.items() if not spec.unsupported}


@pytest.mark.parametrize("token", sorted(SDK))
def test_a_nested_object_has_exactly_the_fields_of_the_sdk(token: str) -> None:
    for path, spec in _nested(_carried(KINDS[token].fields), ""):
        cls = _nested_class(SDK[token], path.split("."))
        assert cls is not None, path
        assert set(spec.fields) == _inputs(cls), path


def _nested_class(cls: type, path: list[str]) -> Any:
    for name in path:
        types = pulumi._types.input_type_types(cls)
        translated = pulumi._types.input_type_py_to_pulumi_names(cls)
        names = {value: key for key, value in translated.items()}
        found = _args_class(types.get(name) or types[names[name]])
        if found is None:
            return None
        cls = found
    return cls


def _args_class(hint: Any) -> Any:
    """Find the `...Args` class inside Optional, Input, Sequence and Union."""
    if isinstance(hint, type) and hint.__name__.endswith("Args"):
        return hint
    for argument in getattr(hint, "__args__", ()):
        found = _args_class(argument)
        if found is not None:
            return found
    return None


def test_tables_are_frozen() -> None:
    spec = KINDS[NETWORK].fields["mtu"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.api = "other"  # type: ignore[misc]
