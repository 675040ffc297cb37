from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudirect.go_scalars import as_text, resolve
from gpudirect.stack_check import CheckedFile, check_between, check_file
from gpudirect.stack_files import StackFileError, declared_keys, parse_stack_file
from tests.stack_config import PROJECT_FOLDER
from tests.unit.stack_settings import DECLARED

# What `pulumi preview` of Pulumi 3.274 handed to a program for these scalars.
SEEN_BY_A_PROGRAM = {
    "1.30": "1.3",
    "off": "off",
    "yes": "yes",
    "1234567.5": "1234567.5",
    "1e21": "1e+21",
    "10000000000000000000000": "1e+22",
    "010": "8",
    "08": "8",
    "0o17": "15",
    "0x10": "16",
    "0b11": "3",
    "12:30": "12:30",
    "1:30:00": "1:30:00",
    "1_000": "1000",
    "1e3": "1000",
    "2020_1": "20201",
    "+5": "5",
    ".5": "0.5",
    "1.": "1",
    "~": "",
    "null": "",
    "TRUE": "true",
    "True": "true",
    "2024-01-02": "2024-01-02 00:00:00 +0000 UTC",
    "192.168.0.0/16": "192.168.0.0/16",
    "1.31.1-gke.1621000": "1.31.1-gke.1621000",
    "-": "-",
    ".": ".",
    "-x": "-x",
}


@pytest.mark.parametrize(("written", "seen"), SEEN_BY_A_PROGRAM.items())
def test_a_scalar_is_read_as_pulumi_reads_it(written: str, seen: str) -> None:
    assert as_text(resolve(written)) == seen


@given(st.text(max_size=20))
def test_every_scalar_has_a_value(text: str) -> None:
    assert isinstance(as_text(resolve(text)), str)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_plain_number_stays_as_it_is(number: int) -> None:
    assert as_text(resolve(str(number))) == str(number)


FILE = """\
# a comment
config:
  gpudirect:gpuStack: a3-mega
  gpudirect:labels:
    team: ml
    cost: 08
  bare: x
  gpudirect:reservedCidrs:
    - 10.0.0.0/8
    - "172.16.0.0/12"
  gpudirect:release:
    secure: v1:abc
  gcp:region: us-east4
  other:key: 1.30
encryptionsalt: v1:xyz
"""


def test_a_stack_file_comes_out_with_values_and_lines() -> None:
    file = parse_stack_file(FILE, path="p", stack_name="s")
    assert file.values == {
        "gpuStack": "a3-mega",
        "labels": {"team": "ml", "cost": 8.0},
        "bare": "x",
        "reservedCidrs": ["10.0.0.0/8", "172.16.0.0/12"],
        "release": "[secret]",
    }
    assert file.secret_keys == {"release"}
    assert file.gcp == {"region": "us-east4"}
    assert file.others["other:key"] == "1.3"
    assert file.written["labels.cost"] == "08"
    assert "reservedCidrs[1]" not in file.written  # quoted
    assert file.line_of("gpudirect:gpuStack") == 3
    assert file.line_of("gpudirect:labels.cost") == 6
    assert file.line_of("gpudirect:labels.nope") == 4
    assert file.line_of("gpudirect:reservedCidrs[1]") == 10
    assert file.line_of("gpudirect:zone") == 2


@pytest.mark.parametrize("text", ["", "# nothing\n", "config:\n", "config: {}\n", "config: ~\n"])
def test_a_file_may_hold_no_config(text: str) -> None:
    assert parse_stack_file(text, path="p", stack_name="s").values == {}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("config:\n  a: [\n", 3, "no YAML"),
        ("config:\n\tgpudirect:zone: x\n", 2, "no YAML"),
        ("- a\n", 1, "the file holds a list"),
        ("x\n", 1, "the file holds a single value"),
        ("config: [a]\n", 1, "config holds a list"),
        ("config:\n  ? [a]\n  : b\n", 2, "no single word"),
        ("config: *nope\n", 1, "no YAML"),
        ("config:\n  gpudirect:labels: &a {x: *a}\n", 1, "holds itself"),
        ("config: \x00\n", 1, "no YAML"),
    ],
)
def test_what_is_no_stack_file_is_told_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(StackFileError, match=said) as raised:
        parse_stack_file(text, path="p", stack_name="s")
    assert raised.value.line == line


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["  gpudirect:a: &a [x,x,x,x,x,x,x,x,x,x]"]
    for before, after in ("ab", "bc", "cd", "de", "ef", "fg"):
        lines.append(f"  gpudirect:{after}: &{after} [{','.join([f'*{before}'] * 10)}]")
    text = "config:\n" + "\n".join(lines) + "\n"
    with pytest.raises(StackFileError, match="multiply"):
        parse_stack_file(text, path="p", stack_name="s")


def test_the_project_file_declares_types_and_defaults() -> None:
    assert DECLARED["smokeTestNodes"].type == "integer"
    assert DECLARED["smokeTestNodes"].default == 2
    with pytest.raises(StackFileError, match="no project file"):
        declared_keys(PROJECT_FOLDER / "Pulumi.dev.yaml")
    with pytest.raises(StackFileError, match="no project file"):
        declared_keys(PROJECT_FOLDER / "nope.yaml")


def _check(name: str, *lines: str) -> CheckedFile:
    body = "".join(f"  {line}\n" for line in lines)
    text = f"config:\n  gpudirect:gpuStack: a3-high\n  gcp:region: us-east4\n{body}"
    return check_file(text, path=f"Pulumi.{name}.yaml", stack_name=name, declared=DECLARED)


def _keys(checked: CheckedFile) -> list[tuple[str, int]]:
    return [(finding.key, finding.line) for finding in checked.findings]


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [
        ("gpudirect:smokeTestNodes: 010", "gpudirect:smokeTestNodes", "says 010 without quotes"),
        ("gpudirect:smokeTestRerun: 1e3", "gpudirect:smokeTestRerun", "reads as 1000"),
        ("gpudirect:smokeTestRerun: 2024-01-02", "gpudirect:smokeTestRerun", "00:00:00"),
        ("gpudirect:labels: {a: 1_0}", "gpudirect:labels.a", "says 1_0 without quotes"),
        ("gpu:zone: us-east4-a", "gpu:zone", "in another namespace"),
        ("bare: x", "gpudirect:bare", "unknown key"),
        ("gpudirect:prefix: {secure: abc}", "gpudirect:prefix", "a secret where none belongs"),
        ("gpudirect:labels: {a: {secure: abc}}", "gpudirect:labels", "a secret"),
        ("gpudirect:reservedCidrs: '[\"10.0.0.0/8\"]'", "gpudirect:reservedCidrs", "not a list"),
        ("gpudirect:reservedCidrs:", "gpudirect:reservedCidrs", "nothing after it"),
        ("gpudirect:deletionProtection:", "gpudirect:deletionProtection", "nothing after it"),
        ("gpudirect:prefix: {a: b}", "gpudirect:prefix", "a list or mapping"),
        ("gpudirect:prefix: [a]", "gpudirect:prefix", "a list or mapping"),
        ("gcp:project: {secure: abc}", "gcp:project", "no project id"),
        ("gpudirect:machine: {mtu: '8244', nics: 08}", "gpudirect:machine", "unknown key"),
        ("gpudirect:labels.team: x", "gpudirect:labels.team", "unknown key"),
        ("gpudirect:labels: {a.b: 1_0}", 'gpudirect:labels["a.b"]', "says 1_0 without quotes"),
        ("gpudirect:labels: {a: x, a: y}", "gpudirect:labels.a", "there twice"),
        ("gcp:fabricCidr: 10.0.0.0/16", "gcp:fabricCidr", "in another namespace"),
    ],
)
def test_a_mistake_of_the_file_is_found_in_its_line(line: str, key: str, said: str) -> None:
    checked = _check("x", line)
    assert _keys(checked) == [(key, 4)]
    assert said in checked.findings[0].message
    assert "abc" not in str(checked.findings[0])


@pytest.mark.parametrize(
    "line",
    [
        "gpudirect:smokeTestRerun: off",
        "gpudirect:smokeTestRerun: '010'",
        "gpudirect:smokeTestRerun: !!str 010",
        "gpudirect:labels: {a: &x !!str 010}",
        "gpudirect:smokeTestNodes: '3'",
        "gpudirect:maxRunDuration:",
        "gpudirect:clusterVersion: ~",
        "gcp:userProjectOverride: true",
        "gcp:zone: us-east4-a",
        "kubernetes:namespace: x",
        "other:key: 1.30",
    ],
)
def test_what_reads_oddly_but_means_itself_is_left_alone(line: str) -> None:
    assert _keys(_check("x", line)) == []


def test_a_key_that_is_there_twice_is_found() -> None:
    checked = _check("x", "gpudirect:zone: us-east4-a", "gpudirect:zone: us-east4-b")
    assert _keys(checked) == [("gpudirect:zone", 5)]
    assert "there twice" in checked.findings[0].message
    assert checked.findings[0].value == "gpudirect:zone: us-east4-b"


@pytest.mark.parametrize(
    ("text", "line", "value", "said"),
    [
        ("config:\n  prefix: a: b\n", 2, "prefix: a: b", "mapping values are not allowed"),
        ("config:\n  prefix: \x07\n", 2, '"prefix: \\u0007"', "control characters"),
        ("config:\n  prefix: {secure: a: b}\n", 2, "[secret]", "no YAML"),
    ],
)
def test_what_cannot_be_read_is_shown_with_its_line(
    text: str, line: int, value: str, said: str
) -> None:
    checked = check_file(text, path="p", stack_name="s", declared=DECLARED)
    (finding,) = checked.findings
    assert (finding.key, finding.line, finding.value) == ("config", line, value)
    assert said in finding.message
    assert "\n" not in finding.message


@pytest.mark.parametrize(
    ("top", "key", "expected"),
    [
        ("config:\n  prefix: a", "config", "it once"),
        ("Config:\n  prefix: a", "Config", "config, in small letters"),
        ("gpudirect:prefix: a", "gpudirect:prefix", "the key below config"),
        ("gcp:project: a", "gcp:project", "the key below config"),
        ("prefix: a", "prefix", "the key below config"),
    ],
)
def test_what_stands_beside_the_config_and_is_meant_for_it_is_found(
    top: str, key: str, expected: str
) -> None:
    text = f"config:\n  gpudirect:gpuStack: a3-high\n  gcp:region: us-east4\n{top}\n"
    checked = check_file(text, path="p", stack_name="s", declared=DECLARED)
    assert _keys(checked) == [(key, 4)]
    assert checked.findings[0].expected == expected


@pytest.mark.parametrize("top", ["encryptionsalt: v1:a", "environment: [a]", "later: thing"])
def test_what_pulumi_keeps_beside_the_config_is_left_alone(top: str) -> None:
    text = f"{top}\nconfig:\n  gpudirect:gpuStack: a3-high\n  gcp:region: us-east4\n"
    assert _keys(check_file(text, path="p", stack_name="s", declared=DECLARED)) == []


# ---- environments side by side


def _between(*files: CheckedFile, others: Any = ()) -> list[tuple[str, str]]:
    check_between(files, others)
    return [(finding.file, finding.key) for file in files for finding in file.findings]


def test_environments_must_not_share_addresses() -> None:
    first = _check("a", "gpudirect:fabricCidr: 192.168.0.0/17")
    second = _check("b", "gpudirect:fabricCidr: 192.168.64.0/18")
    third = _check("c", "gpudirect:fabricCidr: 192.168.128.0/17")
    assert _between(first, second, third) == [("Pulumi.b.yaml", "gpudirect:fabricCidr")]
    (finding,) = second.findings
    assert "of stack a (Pulumi.a.yaml)" in finding.message
    assert finding.line == 4
    assert finding.fix == "pulumi config set fabricCidr 172.16.0.0/18 --stack b"


def test_a_range_in_the_way_of_several_is_one_finding_with_a_remedy_for_all() -> None:
    first = _check("a", "gpudirect:fabricCidr: 192.168.0.0/17")
    second = _check(
        "b", "gpudirect:fabricCidr: 192.168.128.0/17", "gpudirect:podCidr: 172.16.0.0/16"
    )
    third = _check("c")
    assert _between(first, second, third) == [("Pulumi.c.yaml", "gpudirect:fabricCidr")]
    assert third.findings[0].fix == "pulumi config set fabricCidr 172.17.0.0/16 --stack c"
    assert third.findings[0].line == 1


def test_ranges_of_every_kind_are_compared() -> None:
    first = _check("a", "gpudirect:fabricCidr: 172.16.0.0/16")
    second = _check("b", "gpudirect:podCidr: 172.16.0.0/17")
    assert _between(first, second) == [("Pulumi.b.yaml", "gpudirect:podCidr")]


def test_the_default_network_is_no_range_of_an_environment() -> None:
    assert (
        _between(
            _check("a", "gpudirect:fabricCidr: 172.16.0.0/16"),
            _check("b", "gpudirect:fabricCidr: 172.17.0.0/16"),
        )
        == []
    )


def test_names_that_google_would_refuse_twice_are_found() -> None:
    first = _check("a", "gpudirect:prefix: ml", "gpudirect:fabricCidr: 172.16.0.0/16")
    second = _check("b", "gpudirect:prefix: ml", "gpudirect:fabricCidr: 172.17.0.0/16")
    assert _between(first, second) == [("Pulumi.b.yaml", "gpudirect:prefix")]
    third = _check("c", "gpudirect:clusterName: ml-cluster", "gpudirect:fabricCidr: 172.18.0.0/16")
    assert _between(first, third) == [("Pulumi.c.yaml", "gpudirect:clusterName")]
    other = _check(
        "d",
        "gpudirect:prefix: ml",
        "gpudirect:fabricCidr: 172.19.0.0/16",
        "gcp:project: another-one",
    )
    assert _between(first, other) == []


def test_a_name_that_is_there_twice_is_found_beside_other_mistakes() -> None:
    first = _check("a", "gpudirect:prefix: same", "gcp:project: p1")
    second = _check(
        "b",
        *("gpudirect:prefix: same", "gcp:project: p1", "gpudirect:zone: nowhere"),
        "gpudirect:fabricCidr: 172.16.0.0/16",
    )
    where = "Pulumi.b.yaml"
    assert _between(first, second) == [(where, "gpudirect:prefix"), (where, "gpudirect:zone")]


def test_others_are_compared_with_but_not_judged() -> None:
    named = _check("b")
    other = _check("a")
    assert _between(named, others=(other,)) == [("Pulumi.b.yaml", "gpudirect:fabricCidr")]
    assert other.findings == []


def _warnings(*lines: str) -> list[tuple[str, str]]:
    text = "config:\n  gpudirect:gpuStack: a3-high\n  gcp:region: us-east4\n"
    text += "".join(f"  {line}\n" for line in lines)
    checked = check_file(text, path="x", stack_name="x", declared=DECLARED)
    assert all(finding.severity == "warning" for finding in checked.findings)
    return [(finding.key, finding.message) for finding in checked.findings]


SUBNETS = "gpudirect:fabricSubnets: [10.0.1.0/24, 10.0.2.0/24, 10.0.3.0/24, 10.0.4.0/24]"


def test_a_range_that_another_key_leaves_without_effect_is_told() -> None:
    assert _warnings(SUBNETS) == []
    assert _warnings(SUBNETS, "gpudirect:fabricCidr: 10.0.0.0/16") == [
        ("gpudirect:fabricCidr", "it has no effect")
    ]
    idle = "gpudirect:clusterNetworkCidr: 10.9.0.0/20"
    assert _warnings(idle) == [("gpudirect:clusterNetworkCidr", "it has no effect")]
    assert _warnings(idle, "gpudirect:clusterNetwork: create") == []


def test_a_misspelt_key_of_the_provider_is_told_and_its_own_keys_are_not() -> None:
    assert _warnings("gcp:zone: us-east4-a", "gcp:credentials: x") == []
    ((key, message),) = _warnings("gcp:universeDomian: s3nsapis.fr")
    assert key == "gcp:universeDomian"
    assert "neither the program nor the provider" in message


def test_a_tab_is_told_as_such() -> None:
    with pytest.raises(StackFileError, match="a tab in front"):
        parse_stack_file("config:\n\tgpudirect:prefix: a\n", path="x", stack_name="x")


@pytest.mark.parametrize(
    "value",
    [
        "9" * 5000,
        "-" + "9" * 5000,
        "0x" + "f" * 5000,
        "1e400",
        "-.inf",
        f"192.168.0.0/{'9' * 5000}",
        f"[{'9' * 5000}]",
        f"{{a: {'9' * 5000}}}",
    ],
)
@pytest.mark.parametrize(
    "key", ["fabricNodes", "fabricCidr", "labels", "networkNames", "smokeTestMinFraction"]
)
def test_a_number_beyond_all_bounds_is_a_finding(key: str, value: str) -> None:
    head = "config:\n  gpudirect:gpuStack: a3-high\n  gcp:region: us-east4\n"
    text = f"{head}  gpudirect:{key}: {value}\n"
    checked = check_file(text, path="x", stack_name="x", declared=DECLARED)
    assert {finding.key.partition("[")[0].partition(".")[0] for finding in checked.findings} == {
        f"gpudirect:{key}"
    }


@pytest.mark.parametrize(
    ("entry", "changes"),
    [
        ("smokeTestMinFraction: 0.80", False),
        ("smokeTestMinFraction: .8", False),
        ("smokeTestMinFraction: 1.0", False),
        ("gpuQuota: 16.0", False),
        ("smokeTestNodes: +2", False),
        ("smokeTestNodes: 1_0", True),
        ("smokeTestNodes: 012", True),
        ("smokeTestNodes: 1e1", True),
        ("smokeTestRerun: 1.0", True),
    ],
)
def test_a_number_of_another_form_is_the_same_number(entry: str, changes: bool) -> None:
    text = f"config:\n  gpudirect:gpuStack: a3-high\n  gcp:region: us-east4\n  gpudirect:{entry}\n"
    checked = check_file(text, path="x", stack_name="x", declared=DECLARED)
    assert any("its text changes" in finding.message for finding in checked.findings) is changes
    assert len(checked.findings) == changes
