"""The errors that the sandbox's commands print to a person."""

from __future__ import annotations


class SandboxError(Exception):
    """Says what is wrong, what was seen and how to go on; never shown with a traceback."""
