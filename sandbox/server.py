"""The sandbox's one process: the stand-in cloud over HTTP, and the clusters that it starts.

Owns putting the parts together and the port. Started by `python -m sandbox up`, which waits on a
pipe for the word that it answers, or for the reason why it does not.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path

import psutil
import uvicorn

from sandbox.cloud.app import create_app
from sandbox.cloud.store import Store, StoreVersionError
from sandbox.cloud.view import StoreCloudView
from sandbox.gke.runtime import LocalClusterRuntime
from sandbox.gke.simulation import kwok_arguments, make_simulation
from sandbox.home import Home, HomeError, ServerRecord

READY = "ready"


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.server")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--ready-fd", type=int, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    home = Home(arguments.home)
    with os.fdopen(arguments.ready_fd, "w") as ready:
        try:
            listener = _listen(arguments.port)
            store = Store(home.database)
        except (HomeError, StoreVersionError) as error:
            ready.write(str(error))
            return 1
        try:
            asyncio.run(_serve(home, store, listener, arguments.pace, ready.fileno()))
        finally:
            store.close()
    return 0


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise HomeError(
            f"port {port}: {error.strerror}; end what listens there or choose another one with "
            "`python -m sandbox up --port N` (0 takes any free one)"
        ) from error
    return listener


async def _serve(
    home: Home, store: Store, listener: socket.socket, pace: float, ready: int
) -> None:
    port = listener.getsockname()[1]
    runtime = LocalClusterRuntime(
        home.root,
        token=home.token(),
        cloud=StoreCloudView(store),
        pace=pace,
        kwok_arguments=kwok_arguments,
        simulation=make_simulation,
    )
    app = create_app(store, runtime, pace=pace, base_url=f"http://127.0.0.1:{port}")
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_keep_alive=60)
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        # uvicorn offers no event for this; the wait is some milliseconds.
        await asyncio.sleep(0.005)
    if server.started:
        created = psutil.Process().create_time()
        home.write_record(ServerRecord(pid=os.getpid(), created=created, port=port, pace=pace))
        os.write(ready, READY.encode())
    else:
        os.write(ready, f"the server ended while it started; see {home.log}".encode())
    # The one who waits reads to the end; from here on nobody does.
    os.dup2(os.open(os.devnull, os.O_WRONLY), ready)
    await serving
    await runtime.aclose()


if __name__ == "__main__":
    sys.exit(main())
