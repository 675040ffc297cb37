"""Standard input and output of simulated processes.

Owns pipes and plain sinks. Does not own files or logs, which implement the same two protocols.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class ClosedPipeError(Exception):
    """Nobody reads what was written (SIGPIPE)."""


class Writer(Protocol):
    """Takes text."""

    async def write(self, text: str) -> None:
        """Take some text, whole lines or not."""
        ...


class Reader(Protocol):
    """Gives text."""

    async def read(self) -> str | None:
        """Return the next piece of text, or None at the end."""
        ...


class NoInput:
    """The empty standard input."""

    async def read(self) -> str | None:
        """Return the end at once."""
        return None


class NoOutput:
    """`/dev/null`."""

    async def write(self, text: str) -> None:
        """Drop the text."""


class TextInput:
    """Standard input with known content (here-documents, files)."""

    def __init__(self, text: str) -> None:
        self._text: str | None = text or None

    async def read(self) -> str | None:
        """Return everything the first time."""
        text, self._text = self._text, None
        return text


class Capture:
    """Collects what is written."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    async def write(self, text: str) -> None:
        """Keep the text."""
        self._parts.append(text)

    @property
    def text(self) -> str:
        """Everything written so far."""
        return "".join(self._parts)


class Pipe:
    """Joins a writing process with a reading one, as text comes."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._reader_gone = False

    async def write(self, text: str) -> None:
        """Pass text on.

        Raises:
            ClosedPipeError: the reading end was closed.
        """
        if self._reader_gone:
            raise ClosedPipeError
        if text:
            self._queue.put_nowait(text)

    async def read(self) -> str | None:
        """Wait for the next text; None once the writer is done."""
        text = await self._queue.get()
        if text is None:
            self._queue.put_nowait(None)
        return text

    def close_writer(self) -> None:
        """Say that nothing more will come."""
        self._queue.put_nowait(None)

    def close_reader(self) -> None:
        """Say that nobody reads any more."""
        self._reader_gone = True


class LineReader:
    """Reads lines from a `Reader` and keeps what it read too much."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rest = ""
        self._ended = False

    async def read(self) -> str | None:
        """Return what is left over, or the next piece of text."""
        if self._rest:
            rest, self._rest = self._rest, ""
            return rest
        return None if self._ended else await self._reader.read()

    async def line(self) -> str | None:
        """Return the next line with its line end; None at the end."""
        while "\n" not in self._rest and not self._ended:
            text = await self._reader.read()
            if text is None:
                self._ended = True
            else:
                self._rest += text
        if not self._rest:
            return None
        line, separator, self._rest = self._rest.partition("\n")
        return line + separator


async def read_all(reader: Reader) -> str:
    """Read until the end."""
    parts = []
    while (text := await reader.read()) is not None:
        parts.append(text)
    return "".join(parts)
