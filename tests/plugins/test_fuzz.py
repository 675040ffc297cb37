"""Whatever a program says, the plug-in answers; it never falls over."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.plugins.pulumi_resource_gcp.protocol import provider
from sandbox.plugins.pulumi_resource_gcp.resources import KINDS
from sandbox.plugins.pulumi_resource_gcp.schema import NESTED, Field, Fields, Type
from sandbox.plugins.pulumi_resource_gcp.values import UNKNOWN, encode

from .engine import Engine, RpcFailedError
from .programs import CLUSTER, FIREWALL, NETWORK, RESOURCE_POLICY, SERVICE, SUBNETWORK

ALLOWED_CODES = {grpc.StatusCode.UNKNOWN}
TEXTS = st.one_of(
    st.sampled_from(
        ["", "net-1", "projects/p/global/networks/n", "10.0.0.0/8", "::/0", "INGRESS", "tcp", "/17"]
    ),
    st.text(max_size=12),
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 70000),
    st.floats(),
    TEXTS,
    st.just(UNKNOWN),
    st.lists(TEXTS, max_size=2),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
)


def _fitting(spec: Field) -> st.SearchStrategy[Any]:
    if spec.type is Type.BLOCK:
        return _objects(spec.fields)
    if spec.type in NESTED:
        return st.lists(_objects(spec.fields), max_size=2)
    if spec.type in {Type.LIST, Type.SET}:
        return st.lists(TEXTS, max_size=3)
    if spec.type is Type.MAP:
        return st.dictionaries(TEXTS, TEXTS, max_size=2)
    if spec.type is Type.BOOL:
        return st.booleans()
    if spec.type in {Type.INT, Type.FLOAT}:
        return st.integers(-10, 70000)
    return TEXTS


def _objects(fields: Fields) -> st.SearchStrategy[dict[str, Any]]:
    """Objects whose fields mostly fit, and now and then do not."""
    names = [*sorted(fields), "surprise"]

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        chosen = draw(st.lists(st.sampled_from(names), max_size=6, unique=True))
        return {name: draw(ODD if odd(draw, name) else _fitting(fields[name])) for name in chosen}

    def odd(draw: st.DrawFn, name: str) -> bool:
        return name not in fields or draw(st.integers(0, 4)) == 0

    return build()


@pytest.mark.parametrize("kind", [NETWORK, SUBNETWORK, FIREWALL, RESOURCE_POLICY, SERVICE, CLUSTER])
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_input_gets_an_answer(engine: Engine, kind: str, data: st.DataObject) -> None:
    fields = KINDS[kind].fields
    news, olds = data.draw(_objects(fields)), data.draw(_objects(fields))
    state = data.draw(_objects(fields))
    urn = f"urn:pulumi:dev::proj::{kind}::x"
    checked = _answer(
        engine,
        "Check",
        provider.CheckRequest(urn=urn, news=encode(news), olds=encode(olds), randomSeed=b"s"),
    )
    inputs = checked.inputs if checked is not None else encode(news)
    _answer(engine, "Diff", provider.DiffRequest(urn=urn, id="x", olds=encode(state), news=inputs))
    _answer(engine, "Create", provider.CreateRequest(urn=urn, properties=inputs, preview=True))
    _answer(
        engine,
        "Update",
        provider.UpdateRequest(urn=urn, id="x", olds=encode(state), news=inputs, preview=True),
    )


def _answer(engine: Engine, method: str, request: Any) -> Any:
    """Return the answer, or None if the plug-in refused in a regular way."""
    try:
        return engine.call(method, request)
    except RpcFailedError as error:
        # What gRPC itself says of a handler that fell over must not come.
        if error.code in ALLOWED_CODES and "Exception calling" not in error.text:
            return None
        raise


@pytest.mark.parametrize("odd", [True, False, 5, -1, 2.5, [True], {"a": True}])
@pytest.mark.parametrize(
    ("kind", "field"),
    [(SUBNETWORK, "ipCidrRange"), (FIREWALL, "sourceRanges"), (CLUSTER, "clusterIpv4Cidr")],
)
def test_a_range_that_is_no_text_gets_an_answer(
    engine: Engine, kind: str, field: str, odd: Any
) -> None:
    urn = f"urn:pulumi:dev::proj::{kind}::x"
    for value in (odd, [odd]):
        one, other = {field: value}, {field: "10.0.0.0/8"}
        for old, new in ((one, other), (other, one), (one, one)):
            olds, news = encode(old), encode(new)
            check = provider.CheckRequest(urn=urn, news=news, olds=olds, randomSeed=b"s")
            checked = _answer(engine, "Check", check)
            news = checked.inputs if checked is not None else news
            _answer(engine, "Diff", provider.DiffRequest(urn=urn, id="x", olds=olds, news=news))
