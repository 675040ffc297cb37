"""Serving logs and exec: log files, exit codes, standard input, kwok behind it."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path

import pytest

from sandbox.gke.kwok.configuration import kwok_arguments, read_ports
from sandbox.gke.kwok.exec_streams import ExitCodeStream, InputEndStream
from sandbox.gke.kwok.log_reader import LogOptions, newest_log, read_log, read_options
from tests.gke.pod_world import PodWorld

# --- Logs, exec streams, kwok


def _collect(path: Path, options: LogOptions) -> list[str]:
    async def story() -> list[str]:
        return [text async for text in read_log(path, options, lambda: False)]

    return asyncio.run(story())


def test_logs_are_shown_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_text(
        "2026-01-01T00:00:00Z stdout F one\n"
        "2026-01-02T00:00:00Z stderr F two words\n"
        "2026-01-03T00:00:00Z stdout F \n"
    )
    assert _collect(path, LogOptions()) == ["one\n", "two words\n", "\n"]
    assert _collect(path, LogOptions(tail_lines=2)) == ["two words\n", "\n"]
    assert _collect(path, LogOptions(tail_lines=0)) == []
    assert _collect(path, LogOptions(limit_bytes=6)) == ["one\n", "tw"]
    assert _collect(path, LogOptions(timestamps=True))[0] == "2026-01-01T00:00:00Z one\n"
    assert _collect(path, LogOptions(since="2026-01-02", follow=True)) == ["two words\n", "\n"]
    assert newest_log(tmp_path, previous=False) == path
    assert newest_log(tmp_path, previous=True) is None
    (tmp_path / "10.log").write_text("")
    assert newest_log(tmp_path, previous=True) == path


def test_log_options_are_read_from_the_query() -> None:
    options = read_options({"follow": "true", "tailLines": "5", "previous": "x", "limitBytes": "-"})
    assert (options.follow, options.tail_lines, options.previous) == (True, 5, False)
    assert options.limit_bytes is None
    assert read_options({"sinceSeconds": "10"}).since.startswith("20")


HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n"


def data_frame(stream: int, payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(payload)) + payload


def test_exit_codes_get_the_kubelets_form_and_all_else_passes() -> None:
    failed = json.dumps(
        {"status": "Failure", "message": "error executing: exit status 7", "code": 500}
    ).encode()
    control = struct.pack(">II", 0x80030002, 2) + b"ab"
    plain = data_frame(5, b"output exit status 7")
    sent = HEAD + control + plain + data_frame(1, failed, flags=1)
    whole = ExitCodeStream().pass_on(sent)
    stream = ExitCodeStream()
    piecewise = b"".join(stream.pass_on(sent[i : i + 1]) for i in range(len(sent)))
    assert whole == piecewise
    assert whole.startswith(HEAD + control + plain)
    last = whole[len(HEAD + control + plain) :]
    number, second = struct.unpack_from(">II", last)
    assert (number, second >> 24) == (1, 1)
    changed = json.loads(last[8:])
    assert changed["reason"] == "NonZeroExitCode"
    assert changed["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


@pytest.mark.parametrize(
    "payload", [b'{"status":"Success"}', b'{"status":"Failure","message":"x"}', b'{"Failure"']
)
def test_other_statuses_are_left_alone(payload: bytes) -> None:
    frame = data_frame(1, payload)
    assert ExitCodeStream().pass_on(HEAD + frame) == HEAD + frame


def test_an_answer_without_upgrade_passes_as_it_is() -> None:
    stream = ExitCodeStream()
    answer = b"HTTP/1.1 404 Not Found\r\n\r\n" + data_frame(1, b"x")
    assert stream.pass_on(answer[:9]) + stream.pass_on(answer[9:]) + stream.pass_on(b"y") == (
        answer + b"y"
    )


def test_the_end_of_standard_input_is_noticed() -> None:
    ends: list[int] = []
    stream = InputEndStream(lambda: ends.append(1))
    assert stream.pass_on(data_frame(3, b"text")) == data_frame(3, b"text")
    stream.pass_on(data_frame(5, b"", flags=1))
    assert ends == []
    stream.pass_on(data_frame(3, b"", flags=1))
    assert ends == [1]


def test_kwok_is_given_a_port_behind_the_endpoint(tmp_path: Path) -> None:
    class Given:
        kubelet = 4711

    context = PodWorld(tmp_path).context
    with pytest.raises(RuntimeError, match="kwok was not started"):
        read_ports(context)
    arguments = kwok_arguments(context, Given())
    ports = read_ports(context)
    assert ports.endpoint == 4711
    assert f"--server-address=127.0.0.1:{ports.kwok}" in arguments
    assert ports.kwok != 4711
