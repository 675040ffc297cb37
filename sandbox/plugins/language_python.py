"""Pulumi's language host for Python, for machines where the released CLI does not bring one.

Owns: running a project's `__main__.py` for the engine, and starting plug-ins written in Python
(policy packs) for it. The protocol itself is the SDK's, `LanguageServer` in
`pulumi.automation._server`: a private module, so `pulumi` is pinned and a test holds this file to
it. Does not own dependencies: the interpreter that runs this file has them.

Run by path, never as a module: the program of the user must not find the sandbox on `sys.path`.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # The engine and a Ctrl-C of the user end plug-ins in this way, also while modules are imported.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))

import grpc
from pulumi import RunError
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, plugin_pb2

_RUNNERS = {
    # Kind of plug-in -> module that serves it.
    "analyzer": "pulumi.policy",
    "resource": "pulumi.run.plugin",
}
_ENVIRONMENT_OF_PROGRAMS = ("PULUMI_PROJECT", "PULUMI_STACK")


class PythonLanguageHost(LanguageServer):
    """Runs one project in this process, and plug-ins in processes of their own."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def Run(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Run the program and say how it ended; its resources go to the engine on the way."""
        folder = Path(request.info.program_directory or request.pwd) / request.info.entry_point
        self.program = lambda: _run_program(folder)
        os.environ.update(zip(_ENVIRONMENT_OF_PROGRAMS, (request.project, request.stack)))
        return super().Run(request, context)

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """Start a plug-in and pass on what it prints until it has ended or is not wanted any more."""
        runner = _RUNNERS.get(request.kind)
        if runner is None:
            known = ", ".join(sorted(_RUNNERS))
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED,
                f"plug-ins of kind {request.kind!r} cannot be started here, only {known}",
            )
        address, *arguments = request.args
        process = subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-m",
                runner,
                address,
                request.info.program_directory,
                *arguments,
            ],
            cwd=request.pwd,
            env=dict(entry.split("=", 1) for entry in request.env) or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        context.add_callback(process.terminate)
        yield from _output(process)
        yield language_pb2.RunPluginResponse(exitcode=process.wait())

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Say which SDK this is: the host has no version of its own."""
        import importlib.metadata

        return plugin_pb2.PluginInfo(version=importlib.metadata.version("pulumi"))


def _run_program(folder: Path) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.argv[:] = [str(folder)]
    try:
        runpy.run_path(str(folder / "__main__.py"), run_name="__main__")
    except RunError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename not in (__file__, runpy.__file__)]
        raise RunError(
            "Program failed with an unhandled exception:\n"
            + "".join(traceback.format_list(own))
            + "".join(traceback.format_exception_only(error))
        ) from error
