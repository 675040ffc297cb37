"""What a person sees while something is built."""

from __future__ import annotations

import io
import threading

import pytest

from sandbox.build import progress
from sandbox.build.progress import Progress


class Lines(io.StringIO):
    """A stream that says when a number of lines has come."""

    def __init__(self, wanted: int) -> None:
        super().__init__()
        self.complete = threading.Event()
        self._wanted = wanted

    def write(self, text: str) -> int:
        count = super().write(text)
        if self.getvalue().count("\n") >= self._wanted:
            self.complete.set()
        return count


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_come_while_a_compiler_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)
    stream = Lines(wanted=4)
    with Progress(stream) as shown:
        shown.begin("kube-apiserver", 4, 7)
        shown.detail("compiling, 3 of at most 1400 packages")
        assert stream.complete.wait(30)
        shown.done("kube-apiserver", 4, 7, 61.4)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "[4 of 7] kube-apiserver (0 s)"
    assert "[4 of 7] kube-apiserver: compiling, 3 of at most 1400 packages (0 s)" in lines
    assert lines[-1] == "[4 of 7] kube-apiserver: built in 1 min 01 s"


def test_a_terminal_shows_the_state_in_place_and_keeps_what_is_finished() -> None:
    stream = Terminal()
    with Progress(stream) as shown:
        shown.begin("etcd", 2, 7)
        shown.done("etcd", 2, 7, 3)
    assert "[2 of 7] etcd: built in 3 s\n" in stream.getvalue()


def test_nothing_is_printed_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)
    stream = Lines(wanted=2)
    with Progress(stream) as shown:
        shown.begin("etcd", 1, 1)
        assert stream.complete.wait(30)
    printed = stream.getvalue()
    assert not [thread for thread in threading.enumerate() if thread.name == "build progress"]
    assert stream.getvalue() == printed
