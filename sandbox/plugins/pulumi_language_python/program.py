"""Runs a project's program, and plug-ins written in Python, for the engine.

Owns: `__main__.py` from start to end, with errors as the released language host words them. The
protocol itself is the SDK's, `LanguageServer` in `pulumi.automation._server`: a private module, so
`pulumi` is pinned and a test holds this file to it. Does not own dependencies: the interpreter that
runs this file has them.
"""

from __future__ import annotations

import os
import queue
import runpy
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import grpc
from pulumi import RunError
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

_PLUGIN_MODULES = {"analyzer": "pulumi.policy", "resource": "pulumi.run.plugin"}
"""Kind of plug-in -> module that serves it."""

_UNHANDLED = "Program failed with an unhandled exception:\n"
# How the SDK's service begins the error of an exception that is no RunError.
_NO_RUN_ERROR = (_UNHANDLED, "python inline source runtime error: ", "RPC error: ")


class PythonLanguageHost(LanguageServer):
    """Runs one program in this process, and plug-ins in processes of their own."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def Run(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Run the program and say how it ended; its resources go to the engine on the way."""
        folder = Path(request.info.program_directory or request.pwd)
        self.program = lambda: _run_program(folder / request.info.entry_point)
        return _without_text(super().Run(request, context))  # type: ignore[no-untyped-call]

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """Start a plug-in and pass on what it prints until it has ended or nobody wants it."""
        module = _PLUGIN_MODULES.get(request.kind)
        if module is None:
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED,
                f"a plug-in of kind {request.kind!r} was asked for, and only these can be started "
                f"here: {', '.join(_PLUGIN_MODULES)}. Install the released Pulumi CLI.",
            )
        address, *arguments = request.args
        folder = request.info.program_directory
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", str(module), address, folder, *arguments],
            cwd=request.pwd,
            env=dict(entry.split("=", 1) for entry in request.env) or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        context.add_callback(process.terminate)
        yield from _output(process)
        yield language_pb2.RunPluginResponse(exitcode=process.wait())


def handlers() -> Any:
    """Return the gRPC handlers of the language host."""
    collector = _Collector()
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(PythonLanguageHost(), collector)
    return collector.handler


class _Collector:
    """Takes the place of a gRPC server while the generated code registers its handlers."""

    handler: Any

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        (self.handler,) = handlers

    def add_registered_method_handlers(self, *_: object) -> None:
        """Not needed: the same methods came as a generic handler."""


def _without_text(response: Any) -> Any:
    """Return how a program ended without the text of its error, which the SDK has logged already.

    The released host has only the exit code of the program's process: 32 after an exception, of
    which the engine then says nothing more, and 1 after a `RunError` (pulumi 3.274.1,
    sdk/python/cmd/pulumi-language-python-exec and pulumi-language-python/main.go).
    """
    if not response.error:
        return response
    if response.error.startswith(_NO_RUN_ERROR):
        return language_pb2.RunResponse(bail=True)
    return language_pb2.RunResponse(error="program exited with non-zero exit code: 1")


def _run_program(entry_point: Path) -> None:
    script = entry_point / "__main__.py" if entry_point.is_dir() else entry_point
    os.chdir(script.parent)
    sys.path.insert(0, str(script.parent))
    sys.argv[:] = [str(script)]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except RunError:
        raise
    except Exception as error:
        # The frames of this file say nothing to whoever wrote the program.
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename not in (__file__, "<frozen runpy>")]
        raise RunError(
            _UNHANDLED
            + "".join(traceback.format_list(own))
            + "".join(traceback.format_exception_only(error))
        ) from error


def _output(process: subprocess.Popen[bytes]) -> Iterator[Any]:
    """Yield what a process prints, line by line from both streams as it comes."""
    responses: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read(stream: IO[bytes] | None, name: str) -> None:
        for line in stream or ():
            if name == "stdout":
                responses.put(language_pb2.RunPluginResponse(stdout=line))
            else:
                responses.put(language_pb2.RunPluginResponse(stderr=line))
        responses.put(None)

    streams = {"stdout": process.stdout, "stderr": process.stderr}
    for name, stream in streams.items():
        threading.Thread(target=read, args=(stream, name), daemon=True).start()
    for _ in streams:
        yield from iter(responses.get, None)
