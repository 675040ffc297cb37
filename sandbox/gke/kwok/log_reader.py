"""Reading container logs as a kubelet serves them.

Owns the options of the log endpoint and the conversion from log files to text.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class LogOptions:
    """What a client asks for."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: str = ""
    """Entries before this time are left out; empty for none."""


def read_options(query: Mapping[str, str]) -> LogOptions:
    """Read the options of a request; what cannot be read counts as not given."""
    since = query.get("sinceTime", "").removesuffix("Z")
    seconds = query.get("sinceSeconds", "")
    if seconds.isdigit():
        moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=int(seconds))
        since = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")
    return LogOptions(
        follow=query.get("follow") == "true",
        previous=query.get("previous") == "true",
        timestamps=query.get("timestamps") == "true",
        tail_lines=_number(query.get("tailLines")),
        limit_bytes=_number(query.get("limitBytes")),
        since=since,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def newest_log(folder: Path, *, previous: bool) -> Path | None:
    """Return the log of the newest run of a container, or of the one before."""
    runs = sorted(
        (path for path in folder.glob("*.log") if path.stem.isdigit()),
        key=lambda path: int(path.stem),
    )
    wanted = 2 if previous else 1
    return runs[-wanted] if len(runs) >= wanted else None


async def read_log(
    path: Path, options: LogOptions, is_running: Callable[[], bool]
) -> AsyncIterator[str]:
    """Yield the lines of a log, and those to come if they are followed.

    Args:
        path: The log file.
        options: What to show.
        is_running: Says whether more may be written.
    """
    budget = options.limit_bytes
    with path.open(encoding="utf-8") as file:
        entries = [entry for entry in file if entry.endswith("\n")]
        if options.tail_lines is not None:
            entries = entries[len(entries) - options.tail_lines :] if options.tail_lines else []
        for entry in entries:
            text = _shown(entry, options)
            if budget is not None:
                text = text[: max(budget, 0)]
                budget -= len(text)
            if text:
                yield text
        rest = ""
        while options.follow:
            running = is_running()
            found = file.read()
            if found:
                *lines, rest = (rest + found).split("\n")
                for line in lines:
                    if text := _shown(line + "\n", options):
                        yield text
            elif not running:
                return
            else:
                await asyncio.sleep(_POLL_SECONDS)


def _shown(entry: str, options: LogOptions) -> str:
    time, _, _, text = (*entry.split(" ", 3), "", "", "")[:4]
    if options.since and time < options.since:
        return ""
    return f"{time} {text}" if options.timestamps else text
