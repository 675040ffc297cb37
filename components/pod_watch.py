"""Follows the Pods of one Job without polling the API server.

Owns the watch, its thread and what of the API server's failures is borne. Does not own what the
Pods' states mean (`nccl_run_pods`).
"""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException

# How long one watch stays open; its end costs one list call and nothing else.
_WATCH_SECONDS = 30
# An Autopilot control plane that is upgraded or repaired answers again within a minute or two; a
# run that holds GPUs is not given up for it.
_OUTAGE_SECONDS = 180.0
_RETRY_SECONDS = 2.0
_GONE = 410


class PodWatch:
    """The Pods that a selector names, as of the last change.

    Args:
        core: The API.
        namespace: Where the Pods are.
        selector: Their label selector.
    """

    def __init__(self, core: Any, namespace: str, selector: str) -> None:
        self._core = core
        self._namespace = namespace
        self._selector = selector
        self._news: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        """Begin to watch."""
        threading.Thread(target=self._follow, name="pod-watch", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Watch no longer."""
        self._stopped.set()

    def news(self, seconds: float) -> list[Any] | None:
        """Return the Pods after the next change, None if there was none in that time.

        Raises:
            ApiException: the API server refuses to show the Pods.
            urllib3.exceptions.HTTPError: it has been away for too long.
        """
        try:
            news = self._news.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None
        if isinstance(news, Exception):
            raise news
        return news

    def _follow(self) -> None:
        failing_since: float | None = None
        while not self._stopped.is_set():
            try:
                self._watch_once()
                failing_since = None
            except (ApiException, urllib3.exceptions.HTTPError) as error:
                now = time.monotonic()
                failing_since = failing_since or now
                if not _may_pass(error) or now - failing_since > _OUTAGE_SECONDS:
                    self._news.put(error)
                    return
                self._stopped.wait(_RETRY_SECONDS)

    def _watch_once(self) -> None:
        listed = self._core.list_namespaced_pod(self._namespace, label_selector=self._selector)
        pods = {pod.metadata.name: pod for pod in listed.items}
        self._news.put(list(pods.values()))
        with _outdated_is_no_error():
            for event in kubernetes.watch.Watch().stream(
                self._core.list_namespaced_pod,
                self._namespace,
                label_selector=self._selector,
                resource_version=listed.metadata.resource_version,
                timeout_seconds=_WATCH_SECONDS,
            ):
                pod = event["object"]
                if event["type"] == "DELETED":
                    pods.pop(pod.metadata.name, None)
                else:
                    pods[pod.metadata.name] = pod
                if self._stopped.is_set():
                    return
                self._news.put(list(pods.values()))


def _may_pass(error: Exception) -> bool:
    """Say whether a failure can be one of a moment: no answer, or one of 429 and 5xx."""
    status: int | None = getattr(error, "status", None)
    return not isinstance(error, ApiException) or not status or status == 429 or status >= 500


@contextlib.contextmanager
def _outdated_is_no_error() -> Iterator[None]:
    """Let a watch end whose version the API server no longer keeps: a list follows."""
    try:
        yield
    except ApiException as error:
        if error.status != _GONE:
            raise
