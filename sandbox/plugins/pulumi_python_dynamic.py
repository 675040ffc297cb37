"""`pulumi-resource-pulumi-python`: serves the dynamic providers of a Python program.

Owns: what `python -u -m pulumi.dynamic` lacks as a plug-in of its own, which is to end quietly when
it is interrupted while it still imports, and when the engine is killed. Run by path with `-P`:
providers are unpickled by module name, so the project's folder has to come first on `sys.path`, and
not this one.
"""

from __future__ import annotations

import os
import runpy
import stat
import sys
import threading
from pathlib import Path


def _end_with_engine() -> None:
    """End when the engine is gone: a killed one tells nobody, but its end of the pipe closes."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    if stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    _end_with_engine()
    try:
        runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:
        sys.exit(0)
