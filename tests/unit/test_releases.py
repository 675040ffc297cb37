from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gpudirect.release_rules import environment_problems
from gpudirect.releases import (
    RELEASES_FILE,
    ReleaseLockError,
    load_releases,
    with_registry,
)
from gpudirect.stacks import STACKS

LOCK = load_releases()
Edit = Callable[[dict[str, Any]], None]


def _refused(edit: Edit) -> str:
    data = yaml.safe_load(RELEASES_FILE.read_text())
    changed = copy.deepcopy(data)
    edit(changed)
    assert changed != data
    with pytest.raises(ReleaseLockError) as raised:
        load_releases(yaml.safe_dump(changed))
    return str(raised.value)


def _release(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in data["releases"] if entry["name"] == name)


@pytest.mark.parametrize(
    ("name", "plugin", "daemon"),
    [
        ("tcpxo-v1.0.11", "v1.0.11", "v1.0.17"),
        ("tcpxo-v1.0.12", "v1.0.12", "v1.0.18"),
        ("tcpxo-v1.0.14", "v1.0.14", "v1.0.20"),
        ("tcpxo-v1.0.15", "v1.0.15", "v1.0.21"),
        ("tcpxo-v1.0.16", "v1.0.16", "v1.0.22"),
        ("tcpxo-v1.0.17", "v1.0.17", "v1.0.23"),
        ("tcpx-v3.1.9", "v3.1.9", "v2.0.12"),
        ("tcpx-v3.1.12", "v3.1.12", "v2.0.15"),
    ],
)
def test_plug_in_and_daemon_are_the_published_pairs(name: str, plugin: str, daemon: str) -> None:
    stack = "a3-mega" if name.startswith("tcpxo") else "a3-high"
    release = LOCK.get(name, stack)
    assert (release.plugin_version, release.daemon_version) == (plugin, daemon)
    repository = "gpudirect-tcpxo" if stack == "a3-mega" else "gpudirect-tcpx"
    for image in (release.plugin_image, release.daemon_image):
        assert image.startswith(f"us-docker.pkg.dev/gce-ai-infra/{repository}/")


def test_the_lock_holds_these_pairs_and_no_others() -> None:
    assert len(LOCK.releases) == 8
    assert LOCK.default("a3-mega").name == "tcpxo-v1.0.15"
    assert LOCK.default("a3-high").name == "tcpx-v3.1.12"
    assert LOCK.get("", "a3-high") is LOCK.default("a3-high")


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("tcpxo-v1.0.11", {"--num_hops=2", "--num_nics=8", "--uid=", "--alsologtostderr"}),
        ("tcpxo-v1.0.12", {"--num_hops=2", "--num_nics=8"}),
        ("tcpxo-v1.0.14", {"--num_hops=2"}),
        ("tcpxo-v1.0.15", {"--num_hops=2"}),
        ("tcpxo-v1.0.17", {"--num_hops=2"}),
    ],
)
def test_the_daemon_gets_the_flags_of_its_version(name: str, flags: set[str]) -> None:  # [R06]
    release = LOCK.get(name, "a3-mega")
    assert set(re.findall(r"--\S+", " ".join(release.daemon_args))) == flags


@pytest.mark.parametrize("name", ["tcpx-v3.1.9", "tcpx-v3.1.12"])
def test_the_tcpx_daemon_gets_its_last_word_with_backslashes(name: str) -> None:
    command = LOCK.get(name, "a3-high").daemon_command
    assert len(command) == 9
    assert command[-1] == '\\"--verbose 128 2 0 \\"'
    assert len(command[-1]) == 22


def test_a_checker_that_insists_on_a_variable_finds_it_in_the_default_profile() -> None:
    for release in LOCK.for_stack("a3-mega"):
        newer = release.name != "tcpxo-v1.0.11"
        assert ("NCCL_NVLSTREE_MAX_CHUNKSIZE" in release.required_environment) is newer
        assert release.profiles["default"].get("NCCL_NVLSTREE_MAX_CHUNKSIZE") == (
            "131072" if newer else None
        )


def test_only_the_page_s_own_release_has_the_page_s_settings() -> None:
    with_page = [release.name for release in LOCK.releases if "page" in release.profiles]
    assert with_page == ["tcpxo-v1.0.11"]
    page = LOCK.get("tcpxo-v1.0.11", "a3-mega").profiles["page"]
    assert len(page) == 24
    assert page["NCCL_ALGO"] == "Ring,Tree"


def test_tcpx_uses_the_settings_that_were_published_for_gke_1_34() -> None:  # [R16]
    for release in LOCK.for_stack("a3-high"):
        assert release.profiles["default"]["NCCL_ALGO"] == "Ring,Tree"
        assert len(release.profiles["default"]) == 18


def test_the_simple_profile_checks_against_its_own_guest_config() -> None:
    simple = LOCK.default("a3-mega").profiles["simple"]
    name = "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE"
    assert simple[name].endswith("/a3plus_guest_config_simple.textproto")
    assert LOCK.default("a3-mega").profile_files["simple"] == "nccl-env-profile-simple.sh"


def test_no_profile_holds_a_quote_mark() -> None:  # [R10]
    for release in LOCK.releases:
        for environment in release.profiles.values():
            assert not [value for value in environment.values() if '"' in value or "'" in value]


def test_cpus_that_transmit_do_not_receive_on_the_same_nic() -> None:  # [R17]
    prefix = "NCCL_GPUDIRECTTCPX_"
    shipped = dict(LOCK.default("a3-high").profiles["default"])
    assert not list(environment_problems(shipped))
    for nic in ("eth1", "eth2", "eth3", "eth4"):
        assert f"{nic}:" in shipped[f"{prefix}TX_BINDINGS"]
        assert f"{nic}:" in shipped[f"{prefix}RX_BINDINGS"]
    old = shipped | {
        f"{prefix}RX_BINDINGS": shipped[f"{prefix}RX_BINDINGS"].replace("126-139", "124-139")
    }
    assert list(environment_problems(old)) == [
        "eth1 transmits and receives on the CPUs [124, 125]",
        "eth2 transmits and receives on the CPUs [124, 125]",
    ]


def test_a_nic_without_cpus_is_a_problem() -> None:
    shipped = dict(LOCK.default("a3-high").profiles["default"])
    shipped["NCCL_GPUDIRECTTCPX_TX_BINDINGS"] = "eth1:8-21;eth2:8-21;eth3:60-73"
    assert list(environment_problems(shipped)) == [
        "TX bindings name ['eth1', 'eth2', 'eth3'], the NICs are ['eth1', 'eth2', 'eth3', 'eth4']"
    ]


@pytest.mark.parametrize(
    ("stack", "rows", "first", "last"),
    [
        ("a3-mega", 26, (256, 0.0, 0.0), (8589934592, 189.03, 188.73)),
        ("a3-high", 10, (1048576, 1.41, 1.35), (536870912, 70.87, 71.28)),
    ],
)
def test_the_reference_is_the_page_s_table(
    stack: str, rows: int, first: tuple[int, float, float], last: tuple[int, float, float]
) -> None:
    reference = LOCK.default(stack).reference
    assert len(reference.rows) == rows
    assert (reference.rows[0], reference.rows[-1]) == (first, last)
    assert (reference.nodes, reference.collective) == (2, "all-gather")
    # The average of both ways over all rows is what the page prints below its table; the five rows
    # of size zero count as well.
    zero_rows = 5 if stack == "a3-mega" else 0
    total = sum(out + inside for _, out, inside in reference.rows)
    average = total / (2 * (rows + zero_rows))
    assert average == pytest.approx(45.7587 if stack == "a3-mega" else 29.8293, abs=0.01)


def test_the_curve_is_the_lower_of_both_ways() -> None:
    assert LOCK.default("a3-mega").reference_bandwidth[-1] == (8589934592, 188.73)
    assert "not stated" in LOCK.default("a3-mega").reference.measured_with


def test_every_source_is_spelled_out() -> None:
    for release in LOCK.releases:
        texts = [release.source, release.reference.source, *(f.source for f in release.gke_floors)]
        assert not [text for text in texts if re.search(r"\[[A-Z]\]", text) or not text]


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(ReleaseLockError, match=r"did you mean tcpxo-v1\.0\.15\?"):
        LOCK.get("tcpxo-1.0.15", "a3-mega")
    with pytest.raises(ReleaseLockError, match="for a3-high"):
        LOCK.get("tcpxo-v1.0.15", "a3-high")


@pytest.mark.parametrize(
    ("image", "registry", "wanted"),
    [
        ("us-docker.pkg.dev/a/b:v1", "", "us-docker.pkg.dev/a/b:v1"),
        ("us-docker.pkg.dev/a/b:v1", "mirror.example/p/", "mirror.example/p/a/b:v1"),
        ("gke.gcr.io/pause:3.8@sha256:00", "mirror.example", "mirror.example/pause:3.8@sha256:00"),
        ("localhost:5000/a", "mirror.example", "mirror.example/a"),
        ("ubuntu", "mirror.example", "mirror.example/library/ubuntu"),
        ("grafana/loki:1", "mirror.example", "mirror.example/grafana/loki:1"),
    ],
)
def test_a_registry_takes_the_place_of_the_host(image: str, registry: str, wanted: str) -> None:
    assert with_registry(image, registry) == wanted


def _mixed_pair(data: dict[str, Any]) -> None:
    old = _release(data, "tcpxo-v1.0.11")["daemon"]
    _release(data, "tcpxo-v1.0.15")["daemon"] = old


def _old_flag(data: dict[str, Any]) -> None:
    arguments = _release(data, "tcpxo-v1.0.15")["daemonArgs"]
    arguments[0] = arguments[0].replace("--num_hops=2", "--num_hops=2 --uid=")


def _flag_of_none(data: dict[str, Any]) -> None:
    arguments = _release(data, "tcpxo-v1.0.11")["daemonArgs"]
    arguments[0] += " --enforce_kernel_ipv6_support=false"


def _half_a_pair(data: dict[str, Any]) -> None:
    del _release(data, "tcpx-v3.1.9")["daemon"]


def _no_tag(data: dict[str, Any]) -> None:
    release = _release(data, "tcpx-v3.1.9")
    release["daemon"] = release["daemon"].partition(":")[0]


def _latest(data: dict[str, Any]) -> None:
    release = _release(data, "tcpx-v3.1.9")
    release["plugin"] = release["plugin"].replace("v3.1.9", "latest")


def _other_name(data: dict[str, Any]) -> None:
    _release(data, "tcpx-v3.1.9")["name"] = "tcpx-v3.1.8"


def _two_defaults(data: dict[str, Any]) -> None:
    _release(data, "tcpx-v3.1.9")["default"] = True


def _no_checker_variable(data: dict[str, Any]) -> None:
    del data["environments"]["tcpxo-ll128-nvlstree"]["NCCL_NVLSTREE_MAX_CHUNKSIZE"]


def _number(data: dict[str, Any]) -> None:
    data["environments"]["tcpx"]["NCCL_BUFFSIZE"] = 4194304


def _quoted(data: dict[str, Any]) -> None:
    data["environments"]["tcpx"]["NCCL_SOCKET_IFNAME"] = '"eth0"'


def _missing_environment(data: dict[str, Any]) -> None:
    _release(data, "tcpx-v3.1.9")["profiles"] = {"default": "tcpy"}


def _no_default_profile(data: dict[str, Any]) -> None:
    _release(data, "tcpx-v3.1.9")["profiles"] = {"plain": "tcpx"}


def _file_without_profile(data: dict[str, Any]) -> None:
    _release(data, "tcpx-v3.1.9")["profileFiles"] = {"simple": "x.sh"}


def _falling_curve(data: dict[str, Any]) -> None:
    data["references"]["a3-high"]["curve"].reverse()


def _curve_of_two(data: dict[str, Any]) -> None:
    data["references"]["a3-high"]["curve"][0].pop()


def _no_curve(data: dict[str, Any]) -> None:
    data["references"]["a3-high"]["curve"] = []


def _no_reference(data: dict[str, Any]) -> None:
    del data["references"]["a3-high"]


def _short_floor(data: dict[str, Any]) -> None:
    data["floors"]["all"][0]["version"] = "1.31"


def _floor_of_another_minor(data: dict[str, Any]) -> None:
    data["floors"]["a3-high"][0]["minor"] = "1.33"


def _unknown_letter(data: dict[str, Any]) -> None:
    del data["sources"]["P"]


def _no_image(data: dict[str, Any]) -> None:
    del data["images"]["pause"]


def _no_section(data: dict[str, Any]) -> None:
    del data["environments"]


def _unknown_stack(data: dict[str, Any]) -> None:
    _release(data, "tcpx-v3.1.9")["stack"] = "a3-ultra"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_mixed_pair, "is in tcpxo-v1.0.11, tcpxo-v1.0.15: it belongs to one release"),
        (_old_flag, "--uid is gone since v1.0.18, the daemon is v1.0.21"),
        (_flag_of_none, "no daemon takes --enforce_kernel_ipv6_support"),
        (_half_a_pair, "releases.tcpx-v3.1.9: lacks daemon"),
        (_no_tag, "has no version, half a pair is none"),
        (_latest, "has no version, half a pair is none"),
        (_other_name, "the name does not end with the plug-in's version v3.1.9"),
        (_two_defaults, "a3-high has 2 defaults, expected one"),
        (_no_checker_variable, "lacks NCCL_NVLSTREE_MAX_CHUNKSIZE=131072"),
        (_number, "NCCL_BUFFSIZE: 4194304 is no text, put it in quotes"),
        (_quoted, "holds a quote mark"),
        (_missing_environment, "there is no environment tcpy"),
        (_no_default_profile, "there is no profile `default`"),
        (_file_without_profile, "profileFiles.simple: there is no such profile"),
        (_falling_curve, "sizes must grow"),
        (_curve_of_two, "is not [bytes, out of place, in place]"),
        (_no_curve, "references.a3-high: lacks curve"),
        (_no_reference, "there is no reference for a3-high"),
        (_short_floor, "1.31 is no full GKE version"),
        (_floor_of_another_minor, "1.33 is not that of 1.34.5-gke.1153000"),
        (_unknown_letter, "nothing stands for [P]"),
        (_no_image, "images: lacks pause"),
        (_no_section, "lacks environments"),
        (_unknown_stack, f"expected one of {', '.join(STACKS)}"),
    ],
)
def test_a_lock_whose_parts_do_not_fit_is_refused(edit: Edit, said: str) -> None:
    assert said in _refused(edit)


def test_all_problems_of_a_lock_are_told_at_once() -> None:
    def edit(data: dict[str, Any]) -> None:
        _mixed_pair(data)
        _number(data)
        _short_floor(data)

    assert len(_refused(edit).splitlines()) == 3


@pytest.mark.parametrize("text", ["", "[]", "a: [", "releases: 1"])
def test_a_text_that_is_no_lock_is_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(ReleaseLockError, match=r"releases\.yaml"):
        load_releases(text)
