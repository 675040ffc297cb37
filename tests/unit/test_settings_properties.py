"""Valid configs, mutated: each mutant is right as a whole or refused by name, never a traceback."""

from __future__ import annotations

import json
import re
from ipaddress import IPv4Network
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudirect.config_keys import CONFIG_KEYS, ConfigKey
from gpudirect.config_text import root_of
from gpudirect.naming import is_compute_name
from gpudirect.settings import Settings, SettingsReading, read_settings
from gpudirect.stack_check import check_file
from gpudirect.versions import GkeVersion, floor_below
from tests.unit.stack_settings import DECLARED, ENVIRON, REGION, config_values, engine_text

_MUTANTS = 600

BASES: list[dict[str, Any]] = [
    {},
    {"gpuStack": "a3-high", "fabricCidr": "172.16.0.0/16"},
    {"clusterNetwork": "create", "podCidr": "10.64.0.0/14", "serviceCidr": "10.80.0.0/20"},
    {
        "gpuStack": "a3-high",
        "fabricSubnets": [f"192.168.{n}.0/24" for n in range(4)],
        "fabricSourceRanges": ["192.168.0.0/16"],
        "networkNames": [f"gpu{n}" for n in range(4)],
        "privateNodes": True,
        "controlPlaneCidr": "172.30.0.0/28",
        "authorizedNetworks": {"office": "203.0.113.0/24"},
        "labels": {"team": "ml"},
    },
    {
        "capacity": "flex-start",
        "maxRunDuration": "6h",
        "zone": "us-east4-b",
        "clusterVersion": "1.35.8-gke.1036000",
        "smokeTestNodes": "4",
        "reservedCidrs": ["10.200.0.0/16"],
    },
    {"capacity": "reservation", "reservationName": "r1", "smokeTest": "report"},
    {"capacity": "compute-class", "computeClass": "h100", "smokeTest": "off", "prefix": "ml"},
]

words = st.sampled_from(
    [
        *(
            "",
            " ",
            "true",
            "false",
            "off",
            "yes",
            "010",
            "1e3",
            "1.30",
            "null",
            "~",
            "-1",
            "0",
            "2",
        ),
        *("96", "97", "10000", "a3-mega", "a3-high", "default", "create", "kube-system", "r1"),
        *("10.0.0.0/8", "10.128.0.0/9", "192.168.0.0/16", "192.168.4.5/24", "169.254.0.0/16"),
        *("0.0.0.0/0", "8.8.8.0/24", "fd00::/8", "10.0.0.0/28", "172.16.0.0/12", "10.0.0.0"),
        *("1.31", "latest", "v1.31.1-gke.1621000", "1.31.1-gke.1620999", "1.36.0-gke.1"),
        *("1.34.0-gke.5", "us-east4-b", "us-central1-a", "10m", "8d", "7d", "0.5", "2.0", "nan"),
        *("fabric,cluster", "x" * 41, "x" * 64, "X", "a_b", "a-", "-a", "\x1b[31m", "é", "[]"),
        *("{}", '["a"]', '{"a": 1}', "pod-network", "10.0.0.0/33", "1" * 400),
    ]
)
names = st.text("abcxyz019-", min_size=1, max_size=42)
ranges = st.builds(
    lambda address, prefix: str(IPv4Network((address, prefix), strict=False)),
    st.one_of(
        st.integers(0x0A000000, 0x0AFFFFFF),
        st.integers(0xAC100000, 0xAC1FFFFF),
        st.integers(0xC0A80000, 0xC0A8FFFF),
        st.integers(0, 2**32 - 1),
    ),
    st.integers(0, 32),
)
texts = st.one_of(words, names, ranges, st.text(max_size=12))
scalars = st.one_of(texts, st.integers(-(10**12), 10**12), st.booleans(), st.none(), st.floats())
arrays = st.lists(st.one_of(ranges, names, scalars), max_size=10)
objects = st.dictionaries(st.one_of(names, st.text(max_size=6)), scalars, max_size=4)
nested = st.sampled_from([[[1]], {"a": {"b": "c"}}, [{"a": 1}], {"a": ["b"]}, [[]], {"": {}}])


def _value(key: ConfigKey) -> st.SearchStrategy[Any]:
    right_form = {"array": arrays, "object": objects}.get(key.type, texts)
    choices = st.sampled_from(key.choices) if key.choices else st.nothing()
    return st.one_of(right_form, choices, scalars, nested)


changes = st.sampled_from(sorted(CONFIG_KEYS)).flatmap(
    lambda name: st.tuples(st.just(name), _value(CONFIG_KEYS[name]))
)
unknown = st.tuples(st.text("abcdefgABCDEFG", min_size=1, max_size=20), texts)
mutations = st.lists(st.one_of(changes, changes, changes, unknown), min_size=1, max_size=3)


def _read(base: dict[str, Any], mutation: list[tuple[str, Any]]) -> SettingsReading:
    values: dict[str, object] = dict(config_values(**base))
    # Some as the engine writes them, some as what that means.
    values |= {
        name: engine_text(value) if number % 2 else value
        for number, (name, value) in enumerate(mutation)
    }
    return read_settings(stack_name="dev", values=values, gcp=REGION, environ=ENVIRON)


@settings(max_examples=_MUTANTS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(BASES), mutations)
def test_a_mutant_is_right_as_a_whole_or_refused_by_name(
    base: dict[str, Any], mutation: list[tuple[str, Any]]
) -> None:
    reading = _read(base, mutation)
    if reading.settings is None:
        refused = [finding for finding in reading.findings if finding.severity == "error"]
        assert refused
        assert any(_is_named(dict(mutation), str(finding), finding.key) for finding in refused)
    else:
        _assert_right(reading.settings)


def _is_named(mutation: dict[str, Any], text: str, key: str) -> bool:
    if root_of(key.removeprefix("gpudirect:")) in mutation:
        return True
    # A rule between two keys names one as the place and the other in its words.
    return any(name in text or engine_text(value) in text for name, value in mutation.items())


def _assert_right(found: Settings) -> None:
    stack, fabric, cluster = found.gpu_stack, found.fabric, found.cluster
    assert len(fabric.nics) == stack.nic_count == len(set(found.network_names))
    names = [n for nic in fabric.nics for n in (nic.vpc_name, nic.subnet_name, nic.firewall_name)]
    names += filter(None, (cluster.network_name, cluster.subnetwork_name))
    assert len(set(names)) == len(names)
    assert all(is_compute_name(name) for name in names)
    assert is_compute_name(cluster.name, longest=40)
    assert fabric.mtu_bytes == 8244
    subnets = [IPv4Network(nic.cidr) for nic in fabric.nics]
    nodes = found.smoke_test.nodes if found.smoke_test.mode != "off" else 1
    for number, subnet in enumerate(subnets):
        assert not any(subnet.overlaps(other) for other in subnets[number + 1 :])
        assert subnet.num_addresses - 4 >= nodes
        assert 8 <= subnet.prefixlen <= 29
    taken = [IPv4Network(c) for c in (cluster.pod_cidr, cluster.service_cidr) if c]
    taken += [IPv4Network(c) for c in (cluster.control_plane_cidr, cluster.subnetwork_cidr) if c]
    for number, network in enumerate(taken):
        assert not any(network.overlaps(other) for other in (*subnets, *taken[number + 1 :]))
    if cluster.version:
        binding = tuple(floor for floor in found.release.gke_floors if not floor.advised)
        assert floor_below(GkeVersion.parse(cluster.version), binding) is None
    assert found.release.stack == stack.name
    assert found.profile in found.release.profiles
    selector = found.capacity.node_selector()
    assert all(isinstance(v, str) and v for v in selector.values())
    assert not {"cloud.google.com/gke-spot", "cloud.google.com/gke-flex-start"} <= set(selector)
    assert found.capacity.zone is None or re.fullmatch(r"us-east4-[a-z]", found.capacity.zone)
    assert found.smoke_test.nodes >= 2
    assert 0 < found.smoke_test.min_fraction <= 1
    assert all(isinstance(value, str) for value in found.labels.values())
    assert found.allow_replace <= {"fabric", "cluster"}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(BASES), mutations)
def test_the_file_check_says_what_preview_says(
    base: dict[str, Any], mutation: list[tuple[str, Any]]
) -> None:
    """Values written as JSON, which is YAML: quoted texts, so that nothing changes on the way."""
    values = {"gpuStack": "a3-mega", **base, **dict(mutation)}
    lines = "".join(
        f"  gpudirect:{name}: {json.dumps(value)}\n"
        for name, value in values.items()
        if json.dumps(value) not in ("NaN", "Infinity", "-Infinity")
    )
    checked = check_file(
        f"config:\n  gcp:region: us-east4\n{lines}",
        path="Pulumi.dev.yaml",
        stack_name="dev",
        declared=DECLARED,
    )
    assert all(finding.line >= 1 for finding in checked.findings)
    if checked.settings is None:
        assert [finding for finding in checked.findings if finding.severity == "error"]
    else:
        _assert_right(checked.settings)


@given(st.text(max_size=300))
def test_no_text_at_all_makes_the_file_check_fall_over(text: str) -> None:
    for file in (text, f"config:\n  {text}", f"config:\n  gpudirect:prefix: {text}\n"):
        checked = check_file(file, path="x", stack_name="x", declared=DECLARED)
        assert checked.settings is None or checked.findings == []


# What hands type and YAML twists, for any key.
_WORDS = """\
~ null true False yes off 0 -1 1.30 1e3 010 0x1F 1_0 2024-01-02 12:30:00 .5 .inf '' ' ' A - --
[] [~] [1] [[a]] {} {secure:x} 10.0.0.1/8 fd00::/8 0.0.0.0/0 1.2.3.4 10.0.0.0/33 *x '<<' @a %a
99999999999999999999 1.35.8-gke.1036000 a3-high spot 30m kube-system a,b é"""
_WRITTEN = _WORDS.split()
_WRITTEN += ["", "{secure: x}", "[{secure: x}]", "{a: [b]}", "{'': x}", "{a.b: c}", "{a: }"]
_WRITTEN += ["|\n    a\n    b", "&a [*a]", "!!str 1", "!!binary aGk=", '"\\u2028"', '"\\0"', "a: b"]
_WRITTEN += ["[10.0.0.0/8, 10.0.0.0/9]", "x" * 300]
_NAMES = [f"gpudirect:{name}" for name in CONFIG_KEYS]
_NAMES += ["gcp:region", "gcp:project", "gcp:universeDomain", "gcp:zone", "gpudirect:mtu", "bare"]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(_WRITTEN), min_size=1, max_size=5))
def test_whatever_is_written_is_told_whole_and_on_one_line(entries: dict[str, str]) -> None:
    right = {"gpudirect:gpuStack": "a3-mega", "gcp:region": "us-east4"}
    lines = "".join(f"  {key}: {text}\n" for key, text in {**right, **entries}.items())
    checked = check_file(f"config:\n{lines}", path="x", stack_name="x", declared=DECLARED)
    assert checked.settings is not None or checked.findings
    for finding in checked.findings:
        parts = (finding.key, finding.message, finding.expected, finding.why, finding.fix)
        assert all(parts), finding
        assert "\n" not in "".join((finding.value, *parts[:4])), finding
        assert len(finding.value) <= 121
