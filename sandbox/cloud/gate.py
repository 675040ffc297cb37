"""The outermost layer: fault plans about requests, and the request log.

Owns what happens to a request before and after the application, its loss included.
"""

from __future__ import annotations

import time

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.cloud.core import Cloud
from sandbox.cloud.faults import error_of


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, cloud: Cloud) -> None:
        self._app = app
        self._cloud = cloud

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection; the sandbox's own namespace passes untouched."""
        if scope["type"] != "http" or scope["path"].startswith(("/sandbox/", "/healthz")):
            await self._app(scope, receive, send)
            return
        began, entry = time.time(), {"method": scope["method"], "path": scope["path"]}
        status: list[int] = []

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(int(str(message["status"])))
            await send(message)

        try:
            await self._with_faults(scope, receive, noting, send)
        finally:
            self._cloud.requests.append(
                {
                    **entry,
                    "endpoint": scope.get("state", {}).get("endpoint"),
                    "status": status[0] if status else None,
                    "began": began,
                    "seconds": time.time() - began,
                }
            )

    async def _with_faults(self, scope: Scope, receive: Receive, noting: Send, send: Send) -> None:
        rule = self._cloud.faults.on_request(scope["method"], scope["path"])
        if rule is None:
            await self._app(scope, receive, noting)
        elif "drop" not in rule:
            error = error_of(rule)
            await JSONResponse(error.body("other"), status_code=error.code)(scope, receive, noting)
        else:
            if rule["drop"] == "after":
                await self._app(scope, receive, _swallow)
            await _drop(receive, send)


async def _swallow(_: Message) -> None:
    """Take an answer that nobody shall get."""


async def _drop(receive: Receive, send: Send) -> None:
    """Close the connection without an answer.

    ASGI has no word for that: uvicorn's `send` belongs to an object that knows the transport.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        raise ConnectionResetError("dropped by a fault plan")
    transport.abort()
    while (await receive())["type"] != "http.disconnect":
        continue
