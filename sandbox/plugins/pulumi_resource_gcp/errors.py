"""Failures and the texts they have at the real provider [facts google-cloud.md §1.7]."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class ProviderError(Exception):
    """A failure whose text is shown to the user as it is."""


class PartialFailureError(Exception):
    """A resource exists but is not what was asked for; its state must be kept.

    Args:
        resource_id: The id that was made.
        outputs: What is known of it.
        reason: The provider's text.
    """

    def __init__(self, resource_id: str, outputs: Mapping[str, Any], reason: str) -> None:
        super().__init__(reason)
        self.resource_id = resource_id
        self.outputs = dict(outputs)
        self.reason = reason


class GoogleApiError(ProviderError):
    """An HTTP answer that is an error, in the words of Google's Go client.

    Args:
        status: HTTP status code.
        body: The answer's text.
    """

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self.message = ""
        self.details: Sequence[Any] = ()
        self.items: list[Mapping[str, Any]] = []
        self._read(body)
        super().__init__(self._text(body))

    @property
    def reason(self) -> str:
        """The first reason given, for example `alreadyExists`."""
        return str(self.items[0].get("reason", "")) if self.items else ""

    def _read(self, body: str) -> None:
        try:
            error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            return
        if isinstance(error, Mapping):
            self.message = str(error.get("message", ""))
            self.details = error.get("details") or ()
            self.items = [item for item in error.get("errors") or () if isinstance(item, Mapping)]

    def _text(self, body: str) -> str:
        if not self.items and not self.message:
            return f"googleapi: got HTTP response code {self.status} with body: {body}"
        text = f"googleapi: Error {self.status}: {self.message}"
        if self.details:
            text += "\nDetails:\n" + json.dumps(self.details, indent=2, sort_keys=True) + "\n"
        if not self.items:
            return text.strip()
        if len(self.items) == 1 and self.items[0].get("message") == self.message:
            return f"{text}, {self.reason}"
        text += "\nMore details:\n"
        for item in self.items:
            text += f"Reason: {item.get('reason', '')}, Message: {item.get('message', '')}\n"
        return text


class OperationError(ProviderError):
    """A long-running operation that ended in failure, or did not end in time.

    Args:
        text: What the operation says.
        activity: For example `Creating Network`.
        at_once: The operation was already over in its first answer; the provider then leaves
            out its `Error waiting for ...` part.
    """

    def __init__(self, text: str, activity: str, *, at_once: bool) -> None:
        super().__init__(text if at_once else f"Error waiting for {activity}: {text}")


class CancelledWaitError(ProviderError):
    """The engine asked to stop while an operation was still running."""


def one_error(text: str) -> str:
    """Return a failure in the form that Terraform's error lists have."""
    return f"1 error occurred:\n\t* {text}\n\n"
