"""The server process: the cloud's HTTP API and the clusters behind it, joined.

Owns: the process from its start to its end. It listens on loopback only; on SIGTERM it stops the
clusters' processes and keeps their data. Does not own being started or found (`lifecycle.py`).

Usage: python -m sandbox.server --home FOLDER --listener FD --pace FACTOR
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from sandbox.cloud.app import create_app
from sandbox.cloud.store import Store, StoreVersionError
from sandbox.cloud.view import StoreCloudView
from sandbox.gke.runtime import LocalClusterRuntime
from sandbox.gke.simulation import kwok_arguments, make_simulation
from sandbox.home import Home

_GRACE_SECONDS = 3
_KEEP_ALIVE_SECONDS = 60


async def serve(home: Home, listener: socket.socket, *, pace: float) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        home: The sandbox.
        listener: A bound socket.
        pace: 0 = operations end at once, 1 = Google's usual times.
    """
    host, port = listener.getsockname()[:2]
    store = Store(home.database)
    runtime = LocalClusterRuntime(
        home.root,
        token=home.token(),
        cloud=StoreCloudView(store),
        pace=pace,
        binaries=home.programs,
        kwok_arguments=kwok_arguments,
        simulation=make_simulation,
    )
    app = create_app(store, runtime, pace=pace, base_url=f"http://{host}:{port}")
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        # A client that keeps its connection open must not keep the server from ending.
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = uvicorn.Server(config)
    # uvicorn ends on these too, and then raises them anew: without handlers below its own, that
    # would end the process before the clusters have ended.
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
    try:
        await server.serve(sockets=[listener])
    finally:
        await runtime.aclose()
        store.close()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="The sandbox's server. Use python -m sandbox up.")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--listener", type=int, required=True, help="a socket that listens")
    parser.add_argument("--pace", type=float, default=0.0)
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # httpx writes a line per request of the controllers.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    listener = socket.socket(fileno=arguments.listener)
    try:
        # What was imported stays: the collector need not look at it again and again.
        gc.freeze()
        asyncio.run(serve(Home(arguments.home), listener, pace=arguments.pace))
    except (OSError, StoreVersionError) as error:
        sys.exit(f"{error}")
    finally:
        listener.close()


if __name__ == "__main__":
    main()
