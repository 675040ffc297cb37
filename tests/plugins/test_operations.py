"""How often an operation is looked at."""

from __future__ import annotations

import threading
import time

import pytest

from sandbox.plugins.pulumi_resource_gcp.configuration import configure
from sandbox.plugins.pulumi_resource_gcp.errors import CancelledWaitError
from sandbox.plugins.pulumi_resource_gcp.operations import Poller, go_duration, pause_after
from sandbox.plugins.pulumi_resource_gcp.transport import Client, Deadline

TOKEN = {"GOOGLE_OAUTH_ACCESS_TOKEN": "t"}


@pytest.mark.parametrize(
    ("elapsed", "pause"), [(0, 0.1), (1, 0.1), (5, 0.2), (100, 4.0), (250, 10.0), (5000, 10.0)]
)
def test_the_pause_is_a_share_of_what_has_passed_within_bounds(
    elapsed: float, pause: float
) -> None:
    assert pause_after(elapsed) == pytest.approx(pause)


@pytest.mark.parametrize("seconds", [2.0, 20.0, 300.0, 3600.0])
def test_an_end_is_noticed_within_five_percent(seconds: float) -> None:
    now = 0.0
    while now < seconds:
        now += pause_after(now)
    assert now - seconds <= max(0.05 * seconds, 0.1)


def test_a_poll_interval_of_the_config_is_kept() -> None:
    assert pause_after(100, fixed=2.0) == 2.0


def test_a_pause_ends_with_the_time_limit() -> None:
    client = Client(configure({"pollInterval": "1h"}, TOKEN))
    poller = Poller(client, Deadline(0.05, threading.Event()))
    started = time.monotonic()
    assert poller.wait()
    assert not poller.wait()
    assert time.monotonic() - started < 60


def test_a_pause_ends_when_the_engine_asks_to_stop() -> None:
    cancelled = threading.Event()
    client = Client(configure({"pollInterval": "1h"}, TOKEN))
    poller = Poller(client, Deadline(3600, cancelled))
    threading.Timer(0.05, cancelled.set).start()
    with pytest.raises(CancelledWaitError):
        poller.wait()


@pytest.mark.parametrize(
    ("seconds", "text"), [(5400, "1h30m0s"), (1200, "20m0s"), (61.4, "1m1s"), (45, "45s")]
)
def test_a_duration_is_written_as_go_does(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
