"""The process that the engine starts as `pulumi-language-python`.

Owns: answering at once. The engine starts a host before each command only to ask what it is, and
another one to run the program; the SDK, whose import takes longer than both questions, is loaded
when the first real call comes (`program.py` beside this file).

Run by path, never as a module: the user's program must not find the sandbox on `sys.path`.
"""

from __future__ import annotations

import os
import platform
import signal
import sys

if __name__ == "__main__":
    # The engine, and a Ctrl-C of the user, end plug-ins like this: also while modules are imported.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))

import gc
import importlib.util
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

_SERVICE = "/pulumirpc.LanguageRuntime/"
_NO_MESSAGE_LIMIT = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


# grpc has no types.
class LazyLanguageHost(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers what needs no SDK, and loads the SDK's service for everything else."""

    def __init__(self) -> None:
        self._service: Any = None
        self._answers = {
            # An empty message: the host has no version of its own.
            "GetPluginInfo": b"",
            "About": _about(sys.executable, platform.python_version()),
            "Cancel": b"",
        }

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a call."""
        method = handler_call_details.method.removeprefix(_SERVICE)
        if method in self._answers:
            return grpc.unary_unary_rpc_method_handler(lambda *_: self._answers[method])
        if self._service is None:
            self._service = _load_service()
        return self._service.service(handler_call_details)


def _about(executable: str, version: str) -> bytes:
    """Return an `AboutResponse`: its fields 1 and 2, text, in protobuf's wire format."""
    encoded = bytearray()
    for field, text in ((1, executable), (2, version)):
        value = text.encode()
        encoded.append(field << 3 | 2)
        length = len(value)
        while length > 0x7F:
            encoded.append(length & 0x7F | 0x80)
            length >>= 7
        encoded.append(length)
        encoded += value
    return bytes(encoded)


def _load_service() -> Any:
    """Load the SDK and return its handlers for all calls."""
    # One program runs, and the process ends with it. Looking for garbage again and again while the
    # providers' SDKs make their thousands of classes takes a quarter of the time of their import.
    gc.disable()
    spec = importlib.util.spec_from_file_location(
        "pulumi_language_python_program", Path(__file__).with_name("program.py")
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{__file__}: program.py is not beside it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.handlers()


def _end_with_engine() -> None:
    """End when the engine is gone: a killed one tells nobody, but its end of the pipe closes."""
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        return

    def wait() -> None:
        while os.read(0, 4096):
            pass
        if os.getpgrp() == os.getpid():
            # With the plug-ins that it has started.
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Serve until the engine ends this process; the first line printed is the port."""
    _end_with_engine()
    server = grpc.server(ThreadPoolExecutor(max_workers=8), options=_NO_MESSAGE_LIMIT)
    server.add_generic_rpc_handlers((LazyLanguageHost(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
