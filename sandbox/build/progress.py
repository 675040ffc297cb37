"""Shows how a build goes: a live line on a terminal, plain lines every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_SECONDS_BETWEEN_LINES = 5.0


class Progress(AbstractContextManager["Progress"]):
    """Tells what is being built, how many of how many, and for how long.

    Lines come from a thread of their own, so that a compiler that says nothing for a minute does
    not look like a program that hangs.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """Prepare to print to a stream, standard error if none is given."""
        self._stream = stream or sys.stderr
        self._started = time.monotonic()
        self._position = ""
        self._detail = ""
        self._console: Console | None = None
        if self._stream.isatty():
            from rich.console import Console

            self._console = Console(file=self._stream, highlight=False, markup=False)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begin to print."""
        target = self._show_lines if self._console is None else self._show_live
        self._thread = threading.Thread(target=target, name="build progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop printing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def begin(self, name: str, number: int, total: int) -> None:
        """Say that a part is being built now."""
        self._position = f"[{number} of {total}] {name}"
        self._detail = ""
        if self._console is None:
            self.note(self._state())

    def detail(self, text: str) -> None:
        """Say what is being done for the part."""
        self._detail = text

    def done(self, name: str, number: int, total: int, seconds: float) -> None:
        """Say that a part is finished; this line stays."""
        self.note(f"[{number} of {total}] {name}: built in {_minutes(seconds)}")

    def note(self, text: str) -> None:
        """Print a remark that stays."""
        if self._console is not None:
            self._console.print(text)
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def _state(self) -> str:
        detail = f": {self._detail}" if self._detail else ""
        return f"{self._position}{detail} ({_minutes(time.monotonic() - self._started)})"

    def _show_lines(self) -> None:
        while not self._stop.wait(_SECONDS_BETWEEN_LINES):
            self.note(self._state())

    def _show_live(self) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        spinner = Spinner("dots")
        with Live(spinner, console=self._console, transient=True, refresh_per_second=8):
            while not self._stop.wait(0.12):
                spinner.update(text=self._state())


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
