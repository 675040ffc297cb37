"""Warnings to the user, by way of the engine: what a plug-in prints itself is hidden."""

from __future__ import annotations

import threading
from typing import Any

import grpc

from .protocol import engine_modules

_TIMEOUT_SECONDS = 5.0


class EngineLog:
    """Sends warnings to the engine; the connection is made with the first one.

    Args:
        address: `host:port` of the engine; empty = there is nobody to tell.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel: Any = None
        self._stub: Any = None
        self._lock = threading.Lock()

    def __call__(self, urn: str, text: str) -> None:
        """Print a warning for a resource; a failure to do so changes nothing."""
        if not self._address:
            return
        messages, services = engine_modules()
        with self._lock:
            if self._stub is None:
                self._channel = grpc.insecure_channel(self._address)
                self._stub = services.EngineStub(self._channel)
        request = messages.LogRequest(severity=messages.WARNING, message=text, urn=urn)
        try:
            self._stub.Log(request, timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError:
            # The engine is going away; the warning has no reader any more.
            return

    def close(self) -> None:
        """Close the connection, if one was made."""
        if self._channel is not None:
            self._channel.close()
