"""Asking a program that people have installed (`pulumi`, `gcloud`) one question.

Owns the call and the sentence that says why there is no answer. Does not own what is asked.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent
_TIMEOUT_SECONDS = 120
_WORDS_SHOWN = 500


class NoAnswerError(ValueError):
    """The program is missing, silent or refused; the text says which, without a full stop."""


def ask(*command: str, folder: Path | None = None) -> str:
    """Return what a program prints.

    Args:
        command: The program's name and its arguments.
        folder: Where it runs; this checkout where not given.

    Raises:
        NoAnswerError: it is not on PATH, takes longer than two minutes, or fails. What it printed
            on its standard output is never repeated: that may hold a secret.
    """
    line = shlex.join(command)
    try:
        answer = subprocess.run(
            command,
            cwd=folder or _CHECKOUT,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise NoAnswerError(f"{command[0]} is not on PATH; install it") from error
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(f"`{line}` gave no answer within {_TIMEOUT_SECONDS} s") from error
    if answer.returncode != 0:
        words = answer.stderr.strip().removeprefix("error: ")[:_WORDS_SHOWN]
        raise NoAnswerError(f"`{line}` failed: {words or f'exit code {answer.returncode}'}")
    return answer.stdout
