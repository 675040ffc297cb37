"""What the tests of failures share: answers that are refusals, and the forms of error texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from .engine import Resource, RpcFailedError
from .google_stub import Answer, GoogleStub, Request

Json = dict[str, Any]


def answer_with(google: GoogleStub, method: str, part: str, *answers: Answer) -> Callable[[], int]:
    """Answer matching requests with these, one each; return how many were given."""
    waiting = list(answers)

    def rule(request: Request) -> Answer | None:
        if waiting and request.method == method and part in request.path:
            return waiting.pop(0)
        return None

    google.rules.append(rule)
    return lambda: len(answers) - len(waiting)


def always(google: GoogleStub, method: str, part: str, answer: Answer) -> None:
    google.rules.append(
        lambda request: answer if request.method == method and part in request.path else None
    )


def fails(call: Callable[[], Any]) -> RpcFailedError:
    with pytest.raises(RpcFailedError) as caught:
        call()
    assert caught.value.code is grpc.StatusCode.UNKNOWN
    return caught.value


def bullet(text: str) -> str:
    return f"1 error occurred:\n\t* {text}\n\n"


def urn(kind: str, name: str = "x") -> str:
    return Resource(kind, name).urn
