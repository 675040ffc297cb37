"""The plug-ins that a released Pulumi CLI would bring, as processes that the engine would start."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi import RunError
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from sandbox.home import PROJECT_FOLDER

PLUGINS = PROJECT_FOLDER / "sandbox" / "plugins"
HOST = PLUGINS / "pulumi_language_python" / "host.py"
DYNAMIC = PLUGINS / "pulumi_python_dynamic.py"
AUTH = PLUGINS / "gke-gcloud-auth-plugin"


@contextmanager
def _started(script: Path, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a plug-in as the engine does, and yield it with the address that it prints."""
    with subprocess.Popen(
        [sys.executable, "-u", "-P", str(script), "127.0.0.1:1"],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Any]:
    """A client of a running language host."""
    with _started(HOST, tmp_path) as (_, address), grpc.insecure_channel(address) as channel:
        yield language_pb2_grpc.LanguageRuntimeStub(channel)


@pytest.fixture
def program() -> ModuleType:
    """The module that runs programs, loaded as the host does."""
    spec = importlib.util.spec_from_file_location("program", HOST.with_name("program.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sdk_still_has_the_private_class_that_the_host_is_made_from() -> None:
    assert callable(LanguageServer.Run)
    assert LanguageServer(lambda: None).program() is None


def test_the_host_says_what_it_is(host: Any) -> None:
    about = host.About(language_pb2.AboutRequest(), timeout=120)
    assert about.executable == sys.executable
    assert about.version == sys.version.split()[0]
    assert host.GetPluginInfo(empty_pb2.Empty(), timeout=120) == plugin_pb2.PluginInfo()


def test_the_host_answers_before_the_sdk_is_loaded(tmp_path: Path) -> None:
    # Of two hosts that the engine starts for a command, the first one is only asked what it is.
    code = (
        "import runpy, sys\n"
        f"host = runpy.run_path({str(HOST)!r})\n"
        "answers = host['LazyLanguageHost']()\n"
        "call = type('Call', (), {'method': '/pulumirpc.LanguageRuntime/About'})\n"
        "assert answers.service(call).unary_unary(None, None)\n"
        "assert not any(name.split('.')[0] == 'pulumi' for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120)


def test_a_host_needs_no_other_plugins(host: Any) -> None:
    answer = host.GetRequiredPackages(language_pb2.GetRequiredPackagesRequest(), timeout=60)
    assert list(answer.packages) == []


def test_a_policy_pack_is_started_and_its_output_and_exit_code_come_back(
    host: Any, tmp_path: Path
) -> None:
    request = language_pb2.RunPluginRequest(
        pwd=str(tmp_path),
        args=["127.0.0.1:1"],
        env=[f"{name}={value}" for name, value in os.environ.items()],
        info=language_pb2.ProgramInfo(
            root_directory=str(tmp_path), program_directory=str(tmp_path), entry_point="."
        ),
        kind="analyzer",
        name="pack",
    )
    (tmp_path / "__main__.py").write_text(
        "import sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)\nsys.exit(3)\n"
    )
    responses = list(host.RunPlugin(request, timeout=60))
    assert b"to stdout\n" in [response.stdout for response in responses]
    assert b"to stderr\n" in [response.stderr for response in responses]
    assert responses[-1].WhichOneof("output") == "exitcode"
    assert responses[-1].exitcode != 0


def test_a_kind_of_plugin_that_cannot_be_started_is_named(host: Any) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        list(host.RunPlugin(language_pb2.RunPluginRequest(kind="converter"), timeout=60))
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "'converter'" in raised.value.details()


def test_a_program_runs_in_its_folder_and_finds_its_own_modules_only(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", [])
    (tmp_path / "own_module.py").write_text("from pathlib import Path\nFOLDER = Path.cwd()\n")
    (tmp_path / "__main__.py").write_text(
        "import own_module\nassert __name__ == '__main__'\n(own_module.FOLDER / 'ran').touch()\n"
    )
    program._run_program(tmp_path)
    assert (tmp_path / "ran").exists()
    assert str(PLUGINS) not in " ".join(sys.path)


def test_an_error_of_the_program_is_shown_with_its_own_frames_alone(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", [])
    script = tmp_path / "__main__.py"
    script.write_text("def f():\n    raise ValueError('what is wrong')\nf()\n")
    with pytest.raises(RunError) as raised:
        program._run_program(tmp_path)
    text = str(raised.value)
    assert text.startswith("Program failed with an unhandled exception:\n")
    assert text.count("  File ") == text.count(f'File "{script}"') == 2
    assert text.endswith("ValueError: what is wrong\n")


@pytest.mark.parametrize("script", [HOST, DYNAMIC], ids=lambda script: str(script.stem))
def test_a_plugin_ends_without_a_word_when_it_is_interrupted(script: Path, tmp_path: Path) -> None:
    with _started(script, tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("script", [HOST, DYNAMIC], ids=lambda script: str(script.stem))
def test_a_plugin_ends_with_the_engine_that_started_it(script: Path, tmp_path: Path) -> None:
    with _started(script, tmp_path) as (process, _):
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def _auth(tmp_path: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    link = tmp_path / "bin" / AUTH.name
    if not link.exists():
        link.parent.mkdir()
        link.symlink_to(AUTH)
    return subprocess.run(
        [str(link), *words], env=environ, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "environ",
    [
        {"CLOUDSDK_AUTH_ACCESS_TOKEN": "t0ken-_", "GOOGLE_OAUTH_ACCESS_TOKEN": "other"},
        {"GOOGLE_OAUTH_ACCESS_TOKEN": "t0ken-_"},
    ],
)
def test_the_token_of_the_environment_goes_to_the_api_server(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    credential = json.loads(_auth(tmp_path, **environ).stdout)
    assert credential["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    assert credential["kind"] == "ExecCredential"
    assert credential["status"] == {"token": "t0ken-_"}


def test_without_an_environment_the_sandboxs_own_token_is_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-the-home")
    assert json.loads(_auth(tmp_path).stdout)["status"]["token"] == "from-the-home"


def test_without_any_token_it_says_where_to_get_one(tmp_path: Path) -> None:
    done = _auth(tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "python -m sandbox env" in done.stderr


def test_it_has_a_version(tmp_path: Path) -> None:
    done = _auth(tmp_path, "--version")
    assert done.returncode == 0
    assert "sandbox" in done.stdout
