"""Builds the real parts of the sandbox from public Go modules, once per content and machine."""
