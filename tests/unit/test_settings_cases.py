"""The cases of other people's mistakes in `tests/cases/config`, in this project's keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpudirect.settings import SettingsReading
from gpudirect.stack_check import check_file
from tests.stack_config import PROJECT_FOLDER
from tests.unit.stack_settings import DECLARED, errors, reading

CASES = PROJECT_FOLDER / "tests/cases/config"
STACKS = {"tcpxo": "a3-mega", "tcpx": "a3-high"}


def _cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CASES / name).read_text())
    assert found
    return found


def _addresses(case: Mapping[str, Any]) -> SettingsReading:
    return reading(
        gpuStack=STACKS[case["stack"]],
        fabricSubnets=case["subnets"],
        fabricSourceRanges=[case["source"]],
        clusterNetwork="create",
        clusterNetworkCidr=case["cluster"],
        podCidr=case["pods"],
        serviceCidr=case["services"],
    )


@pytest.mark.parametrize("case", _cases("addressing.json"), ids=lambda case: case["name"])
def test_addresses_come_out_as_the_case_says(case: dict[str, Any]) -> None:  # [R24]
    found = _addresses(case)
    if case["expect"] == "ok":
        assert found.findings == ()
        assert found.settings is not None
        assert [nic.cidr for nic in found.settings.fabric.nics] == case["subnets"]
    else:
        assert found.settings is None
        assert all("fabric" in finding.key for finding in found.findings)


@pytest.mark.parametrize(
    ("name", "key", "said"),
    [
        ("one too few", "gpudirect:fabricSubnets", "7 ranges"),
        ("one too many: a ninth NIC would take a GPU's PCI slot", "gpudirect:fabricSubnets", "9"),
        ("same range twice", "gpudirect:fabricSubnets[3]", "192.168.3.0/24"),
        ("one inside the other", "gpudirect:fabricSubnets[1]", "192.168.0.0/23"),
        ("host bits", "gpudirect:fabricSubnets[3]", "bits are set below the /24"),
        ("firewall source leaves one out", "gpudirect:fabricSourceRanges", "172.20.4.0/24"),
    ],
)
def test_a_wrong_address_plan_names_its_place(name: str, key: str, said: str) -> None:
    case = next(case for case in _cases("addressing.json") if case["name"] == name)
    (finding,) = _addresses(case).findings
    assert finding.key == key
    assert said in finding.message


def test_a_wrong_number_of_networks_names_the_number_found_and_wanted() -> None:  # [R01]
    case = next(case for case in _cases("addressing.json") if case["name"] == "one too few")
    (finding,) = _addresses(case).findings
    assert "7 ranges" in finding.message
    assert "8 ranges" in finding.expected


@pytest.mark.parametrize("stack", ["a3-mega", "a3-high"])
@pytest.mark.parametrize("case", _cases("gke_versions.json"), ids=lambda case: case["version"])
def test_versions_come_out_as_the_case_says(case: dict[str, str], stack: str) -> None:  # [R16]
    found = errors(gpuStack=stack, clusterVersion=case["version"])
    if case["expect"].startswith("ok"):
        assert found == []
    else:
        (finding,) = found
        assert finding.key == "gpudirect:clusterVersion"
        assert finding.value == case["version"]


def test_a_leading_v_is_named_and_taken_off_by_the_remedy() -> None:
    (finding,) = errors(clusterVersion="v1.31.1-gke.1621000")
    assert finding.message == "a leading v"
    assert finding.fix == "pulumi config set clusterVersion 1.31.1-gke.1621000 --stack dev"


def test_the_version_check_fires_at_all() -> None:  # [R16]: a gate of others never did
    assert errors(clusterVersion="1.29.5-gke.1091000")


# In the case file the keys are examples; here are those of this project with the same mistake.
SCALARS = {
    "gpu:clusterVersion: 1.31": ("gpudirect:clusterVersion: 1.31", ["1.31", "all four parts"]),
    "gpu:clusterVersion: 1.30": (
        "gpudirect:clusterVersion: 1.30",
        ["got 1.3:", "says 1.30 without quotes", "1.31.1-gke.1621000", "in quotes"],
    ),
    'gpu:clusterVersion: "1.31.1-gke.1621000"': (
        'gpudirect:clusterVersion: "1.31.1-gke.1621000"',
        [],
    ),
    'gpu:machine: {mtu: "8244", nics: 08}': (
        'gpudirect:labels: {mtu: "8244", nics: 08}',
        ["gpudirect:labels.nics", "says 08 without quotes"],
    ),
    "gpu:deletionProtection: yes": (
        "gpudirect:deletionProtection: yes",
        ["gpudirect:deletionProtection", "true or false"],
    ),
    "gpu:deletionProtection: True": ("gpudirect:deletionProtection: True", []),
    "gpu:prefix:": ("gpudirect:prefix:", []),
    "gpu:ranges: [192.168.1.0/24, 192.168.2.0/24]": (
        "gpudirect:fabricSubnets: [192.168.1.0/24, 192.168.2.0/24]",
        ["2 ranges", "4 ranges"],
    ),
}


@pytest.mark.parametrize("case", _cases("scalars.json"), ids=lambda case: case["yaml"])
def test_scalars_come_out_as_the_case_says(case: dict[str, str]) -> None:  # [R37]
    line, said = SCALARS[case["yaml"]]
    stack = "a3-high" if "Subnets" in line else "a3-mega"
    text = f"config:\n  gpudirect:gpuStack: {stack}\n  gcp:region: us-east4\n  {line}\n"
    checked = check_file(text, path="Pulumi.x.yaml", stack_name="x", declared=DECLARED)
    errors = [finding for finding in checked.findings if finding.severity == "error"]
    assert [finding.line for finding in errors] == ([4] if said else [])
    printed = "\n".join(map(str, errors))
    for words in said:
        assert words in printed
    if not said:
        assert checked.settings is not None
        assert checked.settings.fabric.nics[0].vpc_name == "x-net-1"


def test_an_unquoted_version_is_explained_even_where_the_file_is_not_at_hand() -> None:
    """The engine hands over `1.3` for `1.30`; nobody can know, but everybody can guess."""
    (finding,) = errors(clusterVersion="1.3")
    assert "1.30 as the number 1.3: put quotes" in finding.message


def test_the_case_files_hold_what_these_tests_know() -> None:
    assert [case["yaml"] for case in _cases("scalars.json")] == list(SCALARS)
