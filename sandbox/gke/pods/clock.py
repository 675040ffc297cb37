"""Simulated time and the news that something changed.

Owns how long things take at a given pace, and the one signal by which waiting processes learn
that it is worth looking again. Nothing in the simulation polls faster than this allows.
"""

from __future__ import annotations

import asyncio
import time

FOR_EVER_SECONDS = 1800.0
"""A single sleep of this length or more is meant to never end."""
_LEAST_LOOP_SECONDS = 0.1
_LOOP_SHARE = 0.05


class Signal:
    """Tells any number of tasks that something changed."""

    def __init__(self) -> None:
        self._version = 0
        self._event = asyncio.Event()

    @property
    def version(self) -> int:
        """Grows with each change; remember it before looking."""
        return self._version

    def changed(self) -> None:
        """Say that something changed."""
        self._version += 1
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, since: int, timeout_seconds: float | None = None) -> bool:
        """Wait for a change after a version.

        Returns:
            Whether there was one before the time was over.
        """
        if self._version != since:
            return True
        try:
            # Not wait_for: that of Python 3.11 loses a cancellation which comes with the event.
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Clock:
    """Simulated time: pace 1 is Google's, pace 0 takes none."""

    def __init__(self, pace: float, news: Signal) -> None:
        self.pace = pace
        self.news = news

    async def pass_seconds(self, seconds: float) -> None:
        """Let something take its usual time."""
        await asyncio.sleep(seconds * self.pace)

    async def sleep(self, seconds: float, *, in_loop: bool) -> None:
        """What a script's `sleep` does.

        Alone it takes its time at the pace. In a loop it waits for the next change, but neither
        longer than written nor shorter than a small share of it: a script that tries 60 times,
        5 seconds apart, must not use up its tries on 60 quick changes.
        """
        if seconds >= FOR_EVER_SECONDS and not in_loop:
            await self.sleep_for_ever()
        if not in_loop:
            await asyncio.sleep(seconds * self.pace)
            return
        least = min(seconds, max(seconds * self.pace, _LEAST_LOOP_SECONDS + seconds * _LOOP_SHARE))
        since = self.news.version
        started = time.monotonic()
        await asyncio.sleep(least)
        passed = time.monotonic() - started
        if seconds > passed:
            await self.news.wait(since, seconds - passed)

    async def sleep_for_ever(self) -> None:
        """Wait until cancelled."""
        await asyncio.get_running_loop().create_future()
