from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gpudirect.settings import SettingsError, load_settings
from gpudirect.versions import ServerConfig
from tests.unit.stack_settings import ENVIRON, REGION, config_values, errors, findings, the_error


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("fabricCIDR", "fabricCidr"),
        ("gpustack", "gpuStack"),
        ("gpu-stack", "gpuStack"),
        ("fabric_cidr", "fabricCidr"),
        ("deletionProtectoin", "deletionProtection"),
        ("smoketest", "smokeTest"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    finding = the_error(**{name: "x"})
    assert finding.key == f"gpudirect:{name}"
    assert finding.message == "unknown key"
    assert f"gpudirect:{nearest}" in finding.expected
    assert finding.fix.endswith(f"pulumi config set {nearest} x --stack dev")


@pytest.mark.parametrize("name", ["mtu", "fabricMtu"])
def test_the_mtu_is_8244_and_no_other(name: str) -> None:
    assert "8244 and no other" in the_error(**{name: "8896"}).why


@pytest.mark.parametrize("name", ["daemonVersion", "pluginImage", "daemonImage"])
def test_half_a_pair_cannot_be_overridden(name: str) -> None:  # [R06]
    assert "are a pair" in the_error(**{name: "v1.0.17"}).why


def test_a_key_like_no_other_points_at_the_reference() -> None:
    assert "config reference" in the_error(zzzz="1").expected


def test_a_secret_is_refused_and_shown_nowhere() -> None:  # [R43]
    with pytest.raises(SettingsError) as raised:
        load_settings(
            stack_name="dev",
            values=config_values(
                imageRegistry="hunter2", labels={"token": "hunter2"}, extra={"token": "hunter2"}
            ),
            gcp=REGION,
            environ=ENVIRON,
            secret_keys={"imageRegistry", "labels", "extra"},
        )
    text = str(raised.value)
    assert "hunter2" not in text
    keys = {finding.key for finding in raised.value.findings}
    assert keys == {"gpudirect:imageRegistry", "gpudirect:labels", "gpudirect:extra"}
    assert "a secret where none belongs" in text


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(
            stack_name="dev",
            values=config_values(
                gpuStack="a3-mega",
                prefix="Dev",
                fabricCidr="192.168.0.0/28",
                clusterVersion="1.31",
                capacity="reservation",
                labels={"Team": "x"},
                smokeTestNodes="1",
                unknown="x",
            ),
            gcp={},
            environ={},
        )
    keys = [finding.key for finding in raised.value.findings]
    assert len(keys) == 9
    text = str(raised.value)
    assert text.startswith("9 problems in the config of stack dev:\n\n")
    for key in keys:
        assert f"\n{key}: " in text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"fabricCidr": "8.8.8.8/16"}, ["bits are set", "not a private range"]),
        ({"fabricCidr": " 169.254.0.0/16"}, ["blanks", "link-local"]),
        ({"fabricCidr": "192.168.0.1/28"}, ["bits are set", "no room for 8 subnets"]),
        ({"podCidr": "192.168.0.1/20"}, ["bits are set", "it shares addresses with the fabric"]),
        ({"podCidr": "8.8.8.0/30"}, ["not a private range", "a /30"]),
        ({"clusterVersion": "v1.30.9-gke.1"}, ["a leading v", "older than GPUDirect needs"]),
        ({"clusterVersion": "1.30.9-GKE.1"}, ["cannot be compared|can be compared", "older than"]),
    ],
)
def test_a_slip_of_the_pen_hides_no_other_problem(values: dict[str, str], said: list[str]) -> None:
    found = errors(**values)
    assert len(found) == len(said), found
    for finding, words in zip(found, said, strict=True):
        assert re.search(words, finding.message)
        assert finding.value.strip('"') in values.values()


def test_the_remedy_of_a_version_is_no_version_that_is_too_old() -> None:
    for finding in errors(clusterVersion="v1.30.9-gke.1"):
        assert "1.30.9" not in finding.fix


@pytest.mark.parametrize("stack", ["", "a3mega", "h200"])
def test_a_stack_that_nobody_knows_hides_no_other_problem(stack: str) -> None:
    found = errors(
        gpuStack=stack,
        prefix="Dev",
        fabricSubnets=["192.168.1.0/24", "192.168.1.0/24"],
        networkNames=["default"],
        release="tcpxo-v9",
        ncclProfile="fast",
        clusterVersion="1.30.1-gke.1",
        zone="us-west1-a",
    )
    assert {finding.key.removeprefix("gpudirect:") for finding in found} == {
        *("gpuStack", "prefix", "fabricSubnets", "fabricSubnets[1]", "networkNames"),
        *("networkNames[0]", "release", "ncclProfile", "clusterVersion", "zone"),
    }
    (count,) = (finding for finding in found if finding.key == "gpudirect:fabricSubnets")
    assert "8 ranges" in count.expected
    assert "4 ranges" in count.expected


@pytest.mark.parametrize("secret", ["networkNames", "fabricSubnets", "clusterName", "gpuStack"])
def test_a_secret_beside_a_stack_that_nobody_knows_is_told(secret: str) -> None:
    values = config_values(gpuStack="?") | {secret: "[secret]"}
    with pytest.raises(SettingsError) as raised:
        load_settings(stack_name="dev", values=values, gcp=REGION, secret_keys={secret})
    keys = [finding.key for finding in raised.value.findings]
    assert sorted(set(keys)) == sorted({"gpudirect:gpuStack", f"gpudirect:{secret}"})
    assert len(keys) == len(set(keys))


def test_what_is_right_for_one_stack_is_no_problem_of_a_stack_that_nobody_knows() -> None:
    for overrides in (
        {"fabricCidr": "192.168.0.0/27"},
        {"release": "tcpx-v3.1.12"},
        {"ncclProfile": "simple"},
        {"networkNames": ["a", "b", "c", "d"]},
        {"clusterVersion": "1.34.0-gke.1"},
    ):
        assert the_error(gpuStack="?", **overrides).key == "gpudirect:gpuStack"


def test_a_release_that_nobody_knows_hides_neither_floor_nor_profile() -> None:
    found = errors(release="nope", ncclProfile="fast", clusterVersion="1.30.1-gke.1")
    assert {finding.key.removeprefix("gpudirect:") for finding in found} == {
        "release",
        "ncclProfile",
        "clusterVersion",
    }


def test_a_region_that_is_none_hides_no_zone_that_is_none() -> None:
    found = errors(gcp={"region": "nowhere"}, zone="us-central1")
    assert {finding.key for finding in found} == {"gcp:region", "gpudirect:zone"}


def test_the_stack_s_name_is_named_when_it_is_the_prefix() -> None:
    finding = the_error(stack_name="My.Stack")
    assert finding.key == "gpudirect:prefix"
    assert "the stack's name My.Stack is taken" in finding.message
    assert finding.fix == "pulumi config set prefix my-stack --stack My.Stack"


@pytest.mark.parametrize(
    ("gcp", "key", "said"),
    [
        ({}, "gcp:region", "not set"),
        ({"region": "us-east4-b"}, "gcp:region", "a zone"),
        ({"region": "US East"}, "gcp:region", "no region"),
        ({**REGION, "project": "My Project"}, "gcp:project", "no project id"),
        ({**REGION, "universeDomain": "example.com"}, "gcp:universeDomain", "nobody has described"),
    ],
)
def test_where_an_environment_is_must_be_right(gcp: dict[str, str], key: str, said: str) -> None:
    finding = the_error(gcp=gcp)
    assert finding.key == key
    assert said in finding.message


def test_a_project_that_is_nowhere_is_told_with_both_remedies() -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(stack_name="dev", values=config_values(), gcp=REGION, environ={})
    (finding,) = raised.value.findings
    assert "GOOGLE_PROJECT" in finding.message
    assert finding.fix == (
        "export GOOGLE_PROJECT=PROJECT, or pulumi config set gcp:project PROJECT --stack dev"
    )


OFFERED = ServerConfig(
    valid_versions={"REGULAR": ("1.35.8-gke.1036000", "1.35.6-gke.1710000")},
    default_versions={"REGULAR": "1.35.6-gke.1710000", "STABLE": "1.30.5-gke.1"},
)


def _with_list(**overrides: Any) -> list[str]:
    try:
        load_settings(
            stack_name="dev",
            values=config_values(**overrides),
            gcp=REGION,
            environ=ENVIRON,
            server_config=OFFERED,
        )
    except SettingsError as error:
        return [f"{finding.message}; {finding.expected}" for finding in error.findings]
    return []


def test_a_version_must_be_in_google_s_list_where_it_is_at_hand() -> None:
    assert _with_list(clusterVersion="1.35.8-gke.1036000") == []
    (said,) = _with_list(clusterVersion="1.35.7-gke.1")
    assert said.startswith("not offered in channel REGULAR; one of 1.35.8-gke.1036000")
    assert not errors(clusterVersion="1.35.7-gke.1")


def test_a_channel_s_default_is_held_against_the_floors_as_well() -> None:
    assert _with_list() == []
    (said,) = _with_list(releaseChannel="STABLE")
    assert "the channel's default 1.30.5-gke.1 is older" in said


def test_a_finding_as_json_has_the_six_fields() -> None:
    data = the_error(prefix="Dev").to_json()
    assert list(data) == ["file", "line", "key", "value", "message", "fix"]
    assert json.dumps(data)


def test_a_long_or_odd_value_is_shown_in_short_and_plain() -> None:
    long = the_error(zone="x" * 5000).value
    assert len(long) < 200
    assert "\x1b" not in the_error(zone="\x1b[31mred\nzone").value


def test_findings_of_a_right_config_are_none() -> None:
    assert findings() == []
