"""The commands of `python -m gpudirect`, one module each; every module has a `command`."""
