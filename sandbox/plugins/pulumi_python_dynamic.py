"""`pulumi-resource-pulumi-python`: serves the dynamic providers of a Python program.

Owns: what `python -u -m pulumi.dynamic` lacks as a plug-in of its own, which is to end without a
traceback when it is interrupted while it still imports. Run by path with `-P`: providers are
unpickled by module name, so the project's folder has to come first on `sys.path`, not this one.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    try:
        runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)
    except KeyboardInterrupt:
        sys.exit(0)
