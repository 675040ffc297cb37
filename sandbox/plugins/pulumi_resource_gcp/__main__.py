"""`python -m sandbox.plugins.pulumi_resource_gcp ENGINE_ADDRESS`: serve until told to stop.

Prints the port as its first line, which the engine waits for [facts google-cloud.md §12.2].
Ends quietly on SIGINT and SIGTERM, and when the process that started it goes away: a killed
`pulumi up` must leave nothing behind.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from .engine_log import EngineLog
from .protocol import GRPC_OPTIONS, provider_grpc
from .servicer import Servicer

# More than the engine ever runs side by side by default, so that a cluster that takes minutes
# never keeps a quick call waiting. Threads are made when they are needed.
_WORKERS = 256
_PARENT_CHECK_SECONDS = 1.0
_GRACE_SECONDS = 1.0


def main(arguments: list[str]) -> int:
    """Serve one engine."""
    engine = next((text for text in arguments if not text.startswith("-")), "")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    parent = os.getppid()
    server = grpc.server(ThreadPoolExecutor(max_workers=_WORKERS), options=GRPC_OPTIONS)
    provider_grpc.add_ResourceProviderServicer_to_server(Servicer(EngineLog(engine)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while not stop.wait(_PARENT_CHECK_SECONDS):
        if os.getppid() != parent:
            break
    server.stop(_GRACE_SECONDS).wait(_GRACE_SECONDS)
    # Threads that still wait for an answer of Google must not hold the process.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
