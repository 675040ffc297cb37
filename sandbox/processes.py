"""Other processes: is it still the one we started, who holds a port, ending one.

Owns the rule that a pid alone names no process: its start time must be the recorded one.
"""

from __future__ import annotations

import contextlib
import socket

import psutil

from sandbox.home import ServerRecord

_SAME_START_SECONDS = 1.0


def find(record: ServerRecord | None) -> psutil.Process | None:
    """Return the recorded process if it still runs, and no other one that has its pid now."""
    if record is None:
        return None
    try:
        process = psutil.Process(record.pid)
        # psutil derives the time from the boot time, which moves a little with the clock.
        same = abs(process.create_time() - record.create_time) < _SAME_START_SECONDS
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.Error:
        return None
    return None


def wait(process: psutil.Process, seconds: float) -> bool:
    """Wait until a process has ended by itself; return whether it has."""
    try:
        process.wait(seconds)
    except psutil.TimeoutExpired:
        return False
    return True


def end(process: psutil.Process, grace_seconds: float) -> bool:
    """End a process: SIGTERM, then SIGKILL.

    Returns:
        Whether it ended by itself after SIGTERM.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        process.terminate()
        if not wait(process, grace_seconds):
            process.kill()
            process.wait(grace_seconds)
            return False
    return True


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a loopback port; 0 = any free one.

    Raises:
        OSError: somebody else listens there, or this user may not.
    """
    listener = socket.socket()
    try:
        # As servers do: connections of an earlier run in TIME_WAIT are no obstacle.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def holder(port: int) -> str:
    """Return who listens on a port, as far as this user may see it."""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.pid:
                name = psutil.Process(connection.pid).name()
                return f"process {connection.pid} ({name})"
    return "another process"
