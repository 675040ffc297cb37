"""Several calls in one request: `multipart/mixed`, as gcloud sends them for more than one resource.

Owns taking such a request apart and putting the answers together; each part goes through the whole
application, fault plans included. Recorded from gcloud 528 (`networks delete A B`).
"""

from __future__ import annotations

import json
from email import policy
from email.message import Message as MimePart
from email.parser import BytesParser
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Scope

from sandbox.cloud.errors import ApiError

_BOUNDARY = "batch_sandbox"
_MOST_PARTS = 1000


async def serve(app: ASGIApp, request: Request) -> Response:
    """Answer a batch request."""
    header = f"Content-Type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
    whole = BytesParser(policy=policy.HTTP).parsebytes(header + await request.body())
    parts = whole.get_payload()
    if not whole.is_multipart() or not isinstance(parts, list) or len(parts) > _MOST_PARTS:
        return _refusal("The batch request is malformed.")
    answers = []
    for part in parts:
        if not isinstance(part, MimePart):
            return _refusal("The batch request is malformed.")
        answers.append(await _one(app, request, part))
    body = "".join(f"--{_BOUNDARY}\r\n{answer}\r\n" for answer in answers) + f"--{_BOUNDARY}--\r\n"
    return Response(body, media_type=f"multipart/mixed; boundary={_BOUNDARY}")


def _refusal(text: str) -> JSONResponse:
    return JSONResponse(ApiError(400, text, "badRequest").body("compute"), status_code=400)


async def _one(app: ASGIApp, request: Request, part: MimePart) -> str:
    content_id = str(part.get("Content-ID", "<0>")).strip("<>")
    head = f"Content-Type: application/http\r\nContent-ID: <response-{content_id}>\r\n\r\n"
    raw = part.get_payload(decode=True)
    text = raw.replace(b"\r\n", b"\n") if isinstance(raw, bytes) else b""
    lines, _, body = text.partition(b"\n\n")
    method, _, target = lines.partition(b"\n")[0].decode("latin-1").partition(" ")
    path = target.partition(" ")[0]
    if path.startswith("/"):
        status, answer = await _call(app, request, method, path, body)
    else:
        error = ApiError(400, "A part of the batch request is malformed.", "badRequest")
        status, answer = 400, json.dumps(error.body("compute"))
    return (
        f"{head}HTTP/1.1 {status} {'OK' if status == 200 else 'ERROR'}\r\n"
        f"Content-Type: application/json; charset=UTF-8\r\n"
        f"Content-Length: {len(answer.encode())}\r\n\r\n{answer}\r\n"
    )


async def _call(
    app: ASGIApp, request: Request, method: str, target: str, body: bytes
) -> tuple[int, str]:
    """Send one call through the application and return status and body."""
    split = urlsplit(target)
    scope: Scope = {
        **request.scope,
        "method": method,
        "path": unquote(split.path),
        "raw_path": split.path.encode(),
        "query_string": split.query.encode(),
        "state": dict(request.scope.get("state", {})),
    }
    for left_over in ("endpoint", "path_params", "app", "router", "route"):
        scope.pop(left_over, None)
    status, chunks = 500, []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = int(message["status"])
        else:
            chunks.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(chunks).decode()
