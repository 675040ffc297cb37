"""HTTP to Google's APIs: authentication, the query every client sends, silent retries.

Owns which failures are retried without a word [facts google-cloud.md §1.7]. The HTTP library is
imported with the first request: a preview without changes sends none.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from .configuration import COMPUTE, Api, ProviderConfig
from .errors import CancelledWaitError, GoogleApiError, ProviderError

if TYPE_CHECKING:
    import urllib3

_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 10.0
_TRANSIENT = frozenset({429, 500, 502, 503, 504})


class Deadline:
    """How long a call may take in all.

    Args:
        seconds: The time limit.
        cancelled: Set when the engine wants every wait to end.
    """

    def __init__(self, seconds: float, cancelled: threading.Event) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self.cancelled = cancelled

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the deadline and not past a cancellation.

        Raises:
            CancelledWaitError: the engine asked to stop.
        """
        if self.cancelled.wait(min(seconds, self.remaining)):
            raise CancelledWaitError("unable to finish polling, context has been cancelled")


class Client:
    """Sends requests for one provider configuration; safe to use from many threads."""

    def __init__(self, config: ProviderConfig) -> None:
        self.config = config
        self._pool: urllib3.PoolManager | None = None
        self._lock = threading.Lock()

    def request(
        self,
        api: Api,
        method: str,
        path: str,
        *,
        deadline: Deadline,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send one request and return the JSON object that comes back.

        Raises:
            GoogleApiError: the answer is an error that is not to be retried, or that lasted.
            ProviderError: no answer came.
        """
        url = self.config.url(api, path) + "?" + _query(api, query or {})
        pause = _FIRST_PAUSE_SECONDS
        while True:
            failure = self._attempt(method, url, body)
            if isinstance(failure, dict):
                return failure
            if not _is_transient(failure) or deadline.remaining <= pause:
                raise failure
            deadline.pause(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _attempt(
        self, method: str, url: str, body: Mapping[str, Any] | None
    ) -> dict[str, Any] | ProviderError:
        import urllib3

        headers = {"Authorization": f"Bearer {self.config.access_token}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        try:
            answer = self._manager().request(method, url, body=data, headers=headers)
        except urllib3.exceptions.NewConnectionError as error:
            # Nobody listens there: waiting would only hide a wrong address.
            return ProviderError(f'{method.capitalize()} "{url}": {_cause(error)}')
        except urllib3.exceptions.HTTPError as error:
            return TransientError(f'{method.capitalize()} "{url}": {_cause(error)}')
        text = answer.data.decode("utf-8", "replace")
        if answer.status >= 400:
            return GoogleApiError(answer.status, text)
        try:
            parsed = json.loads(text) if text.strip() else {}
        except ValueError:
            return ProviderError(f"{method} {url}: the answer is not JSON: {text[:200]}")
        return parsed if isinstance(parsed, dict) else {}

    def _manager(self) -> urllib3.PoolManager:
        import urllib3

        with self._lock:
            if self._pool is None:
                self._pool = urllib3.PoolManager(
                    maxsize=32,
                    retries=False,
                    timeout=urllib3.Timeout(connect=10.0, read=self.config.request_timeout_seconds),
                )
            return self._pool


class TransientError(ProviderError):
    """A connection that broke; the next one may hold."""


def _query(api: Api, query: Mapping[str, str]) -> str:
    pairs = {"alt": "json", **query}
    if api is not COMPUTE:
        pairs["prettyPrint"] = "false"
    return urlencode(pairs)


def _cause(error: BaseException) -> str:
    return str(error.__cause__ or error)


def _is_transient(failure: ProviderError) -> bool:
    if isinstance(failure, TransientError):
        return True
    if not isinstance(failure, GoogleApiError):
        return False
    message = failure.message
    if failure.status in _TRANSIENT:
        return True
    if failure.status == 409:
        return failure.reason == "operationInProgress" or "operationInProgress" in message
    if failure.status == 400:
        return failure.reason == "resourceNotReady" and (
            "networks" in message or "subnetworks" in message
        )
    if failure.status == 403:
        return "per minute" in message or "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED" in message
    return False
