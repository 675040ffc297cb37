from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gpudirect.cli.doctor import command as doctor
from gpudirect.cli.results import command as results
from gpudirect.nccl_exports import to_json
from gpudirect.nccl_history import append_history
from gpudirect.nccl_judgement import judge
from gpudirect.nccl_results import read_results
from tests.unit.cluster_objects import NETWORKS, gpu_pod
from tests.unit.nccl_tables import A3_MEGA, curve, scaled, table
from tests.unit.test_cluster_evidence import CORE, NETWORKING, FakeCluster, serving

CASES = Path(__file__).parents[1] / "cases" / "nccl"


def run_results(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(results, [str(a) for a in arguments], input=stdin)


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Outputs of a stack, behind a `pulumi` that prints them."""
    outputs: dict[str, Any] = {
        "gpuStack": "a3-mega",
        "release": {"name": ""},
        "networks": [{"network": name} for name in NETWORKS],
    }
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    pulumi = bin_folder / "pulumi"
    answer = tmp_path / "outputs.json"
    kubeconfig = tmp_path / "kubeconfig.json"
    pulumi.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"  *kubeconfig*) cat {kubeconfig} ;;\n"
        f"  *) cat {answer} ;;\n"
        "esac\n"
    )
    pulumi.chmod(pulumi.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")

    class Outputs(dict[str, Any]):
        def save(self, kubeconfig_content: object = None) -> None:
            answer.write_text(json.dumps(self))
            kubeconfig.write_text(json.dumps(kubeconfig_content))

    return Outputs(outputs)


def smoke_test(text: str) -> dict[str, Any]:
    run = read_results(text.splitlines())
    result = to_json(run, judge(run, reference=curve(A3_MEGA), nodes=2))
    result |= {"startedAt": "2026-12-01T10:00:00+00:00", "nodes": 2}
    older = result | {"startedAt": "2026-11-30T10:00:00+00:00"}
    return result | {"history": append_history(append_history([], older), result)}


@pytest.mark.parametrize(
    ("name", "code", "verdict"),
    [
        ("e01_a3high_unchecked.txt", 0, "passed"),
        ("e06_aborted.txt", 1, "incomplete"),
        ("e07_every_rank_alone.txt", 1, "failed"),
        ("e16_no_table.txt", 1, "incomplete"),
    ],
)
def test_the_exit_code_tells_whether_the_run_has_a_good_result(
    name: str, code: int, verdict: str
) -> None:
    answer = run_results(CASES / name, "--gpu-stack", "a3-high")
    assert answer.exit_code == code
    assert answer.stdout.startswith(f"verdict: {verdict}")


def test_the_last_lines_of_an_output_without_a_table_are_shown() -> None:  # [R48]
    answer = run_results(CASES / "e16_no_table.txt")
    assert "| bash: /configs/allgather.sh: No such file or directory" in answer.stdout


def test_how_many_nics_the_hosts_used_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    channels = [("a", 0), ("a", 1), ("b", 1)]
    lines = [f"{host}: NCCL INFO via NET/FasTrak/{nic}" for host, nic in channels]
    log.write_text("\n".join([table(A3_MEGA), *lines]))
    answer = run_results(log)
    assert "NICs used: 1 to 2 on each host" in answer.stdout
    assert answer.exit_code == 1
    log.write_text("\n".join([table(A3_MEGA), lines[0]]))
    assert "NICs used: 1 on each host" in run_results(log).stdout


def test_json_is_the_contract_and_nothing_else() -> None:
    answer = run_results(CASES / "e14_report.json", "--json", "--gpu-stack", "a3-mega")
    document = json.loads(answer.stdout)
    assert (document["run"], document["verdict"]) == ("complete", "passed")
    assert "HF_TOKEN" not in answer.output


def test_a_log_comes_from_standard_input_too() -> None:
    answer = run_results("-", "--gpu-stack", "a3-mega", stdin=table(A3_MEGA))
    assert answer.exit_code == 0


def test_what_json_wrote_can_be_read_again(tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    log = tmp_path / "run.log"
    log.write_text(table(A3_MEGA))
    saved.write_text(run_results(log, "--json", "--gpu-stack", "a3-mega").stdout)
    again = json.loads(run_results(saved, "--json", "--gpu-stack", "a3-mega").stdout)
    assert again["rows"] == json.loads(saved.read_text())["rows"]


def test_runs_are_compared_by_size(tmp_path: Path) -> None:
    new, old = tmp_path / "new.log", tmp_path / "old.log"
    new.write_text(table(A3_MEGA))
    old.write_text(table(scaled(A3_MEGA, lambda _s, o, i: (o / 2, i / 2))))
    answer = run_results(new, "--compare", old, "--gpu-stack", "a3-mega")
    assert "new.log" in answer.stdout
    assert "(-50.0%)" in answer.stdout


def test_pictures_are_written_and_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    target = tmp_path / "a.svg"
    log = CASES / "e02_a3mega_zero_size_rows.txt"
    answer = run_results(log, "--gpu-stack", "a3-mega", "--svg", target, "--plot")
    assert answer.exit_code == 0
    assert target.exists()
    assert "message size" in answer.stdout
    refused = run_results(log, "--png", tmp_path / "missing" / "a.png")
    assert refused.exit_code == 2
    assert "cannot be written" in refused.stderr


def test_the_least_fraction_decides() -> None:
    log = CASES / "e01_a3high_unchecked.txt"
    strict = run_results(log, "--gpu-stack", "a3-high", "--min-fraction", "1.2")
    assert strict.exit_code == 1
    report = ("--min-fraction", "1.2", "--mode", "report")
    lenient = run_results(log, "--gpu-stack", "a3-high", *report)
    assert lenient.exit_code == 0
    assert lenient.stdout.startswith("verdict: degraded")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a FILE"),
        (("no-such-file",), "cannot be read: No such file"),
        (("x", "--stack", "dev"), "choose one"),
        ((str(CASES / "e01_a3high_unchecked.txt"), "--release", "v9"), "v9"),
        ((str(CASES / "e01_a3high_unchecked.txt"), "--history"), "no history"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], message: str
) -> None:
    answer = run_results(*arguments)
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.output


def test_a_stack_shows_the_verdict_that_its_gate_gave(stack: Any) -> None:
    stack["smokeTest"] = smoke_test(table(A3_MEGA)) | {"verdict": "failed", "reasons": ["so it is"]}
    stack.save()
    answer = run_results("--stack", "dev", "--json")
    document = json.loads(answer.stdout)
    assert (document["verdict"], document["reasons"]) == ("failed", ["so it is"])
    assert answer.exit_code == 1
    again = run_results("--stack", "dev", "--json", "--min-fraction", "0.8")
    assert json.loads(again.stdout)["verdict"] == "passed"


def test_the_history_of_a_stack_is_listed_newest_first(stack: Any, tmp_path: Path) -> None:
    stack["smokeTest"] = smoke_test(table(A3_MEGA))
    stack.save()
    answer = run_results("--stack", "dev", "--history", "--svg", tmp_path / "h.svg")
    assert answer.exit_code == 0
    dates = [line.split()[0][:10] for line in answer.stdout.splitlines() if "2026-1" in line]
    assert dates == ["2026-12-01", "2026-11-30"]
    assert "2026-11-30" in (tmp_path / "h.svg").read_text()


@pytest.mark.parametrize("output", [None, {"verdict": "off"}, {"verdict": "passed"}])
def test_a_stack_without_a_result_says_how_to_get_one(stack: Any, output: object) -> None:
    if output is not None:
        stack["smokeTest"] = output
    stack.save()
    answer = run_results("--stack", "dev")
    assert answer.exit_code == 2
    assert "pulumi config set smokeTest" in answer.stderr


def kubeconfig_of(host: str, user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": host}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user or {}}],
    }


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster()
    fake.items = {f"{CORE}/pods": [gpu_pod()], f"{NETWORKING}/networks": []}
    return fake


def test_doctor_names_the_cause_and_exits_with_1(cluster: FakeCluster, tmp_path: Path) -> None:
    with serving(cluster) as client:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(kubeconfig_of(client.configuration.host)))
        answer = CliRunner().invoke(doctor, ["--kubeconfig", str(path)])
    assert answer.exit_code == 1
    assert "Evidence of failure" in answer.stdout
    assert "Network vpc1" in answer.stdout
    assert "no evidence of failure" in answer.stdout


def test_doctor_of_a_stack_expects_the_networks_of_the_stack(
    cluster: FakeCluster, stack: Any
) -> None:
    cluster.items = {}
    stack["smokeTest"] = smoke_test("") | {"reasons": ["no table"]}
    with serving(cluster) as client:
        stack.save(kubeconfig_of(client.configuration.host))
        answer = CliRunner().invoke(doctor, ["--stack", "dev", "--json"])
    document = json.loads(answer.stdout)
    missing = [d["where"] for d in document["failures"] if d["cause"] == "network-missing"]
    assert missing == [f"Network {name}" for name in NETWORKS]
    assert document["lastRun"]["verdict"] == "incomplete"


@pytest.mark.parametrize("command", ["gke-gcloud-auth-plugin", "other-helper"])
def test_a_missing_login_helper_is_one_sentence_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:  # [R35]
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig_of("https://10.0.0.1", {"exec": {"command": command}})))
    answer = CliRunner().invoke(doctor, ["--kubeconfig", str(path)])
    assert answer.exit_code == 1
    assert f"{command}, the login helper of the kubeconfig, is not on PATH" in answer.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("a: [", "is no YAML"),
        ("a: 1", "it has no clusters"),
        (json.dumps(kubeconfig_of("http://127.0.0.1:1")), "cannot be reached"),
        (
            json.dumps(kubeconfig_of("http://127.0.0.1:1") | {"current-context": "x"}),
            "no context 'x'",
        ),
    ],
)
def test_a_cluster_that_cannot_be_entered_is_one_sentence(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    answer = CliRunner().invoke(doctor, ["--kubeconfig", str(path)])
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.output


def test_an_api_server_that_refuses_the_login_says_how_to_log_in(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.status["/version/"] = 401
    with serving(cluster) as client:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(kubeconfig_of(client.configuration.host)))
        answer = CliRunner().invoke(doctor, ["--kubeconfig", str(path)])
    assert answer.exit_code == 2
    assert "gcloud auth login" in answer.stderr


def test_doctor_repeats_what_the_last_smoke_test_found(cluster: FakeCluster, stack: Any) -> None:
    found = {"cause": "no-capacity", "where": "Pod a/b", "evidence": "GCE out of resources"}
    stack["smokeTest"] = smoke_test("") | {"reasons": ["no table"], "diagnosis": [found]}
    with serving(cluster) as client:
        stack.save(kubeconfig_of(client.configuration.host))
        answer = CliRunner().invoke(doctor, ["--stack", "dev"])
    assert "Last smoke test (2026-12-01T10:00:00+00:00): incomplete" in answer.stdout
    assert "- cause: no-capacity (Pod a/b): GCE out of resources" in answer.stdout


def test_without_pulumi_a_stack_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in (results, doctor):
        answer = CliRunner().invoke(command, ["--stack", "dev"])
        assert answer.exit_code == 2
        assert "pulumi is not on PATH" in answer.stderr


def test_the_kubeconfig_of_a_stack_is_in_no_message(stack: Any, tmp_path: Path) -> None:
    stack.save({"users": "very-secret"})
    answer = CliRunner().invoke(doctor, ["--stack", "dev"])
    assert answer.exit_code == 2
    assert "is no kubeconfig" in answer.stderr
    assert "very-secret" not in answer.output
