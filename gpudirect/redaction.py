"""Takes out of a text what must not be repeated: addresses, secrets, environment values.

Owns the rules for text that comes from logs, events and error messages and that is shown, stored
or exported. Does not own which texts those are.
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"

# Bounded on both sides of the `@`, so that a hostile line costs linear time.
_EMAIL = re.compile(
    r"(?<![\w.%+-])[\w.%+-]{1,64}@[^\W_](?:[^\W_]|-){0,62}(?:\.(?:[^\W_]|-){1,63}){1,8}"
)
_BEARER = re.compile(r"\b(bearer|basic)[ \t]{1,8}[A-Za-z0-9._~+/=-]{8,4096}", re.IGNORECASE)
# Prefixes of credentials that their makers documented as such.
_KNOWN_TOKEN = re.compile(
    r"\b(?:ya29\.|hf_|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|sk-|AKIA|AIza|eyJ)"
    r"[A-Za-z0-9._=-]{8,4096}"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*", re.DOTALL)
_ASSIGNMENT = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,63})([ \t]{0,4}[=:][ \t]{0,4})"
    r"(\"[^\"]{0,4096}\"|'[^']{0,4096}'|[^\s,;'\"]{1,4096})"
)
_SECRET_NAME = re.compile(
    r"token|secret|passw|credential|api_?key|access_?key|private_?key|authorization|cookie",
    re.IGNORECASE,
)
# What NCCL, CUDA and MPI are told is what a reader of a log looks for; any other variable is
# somebody's environment.
_HARMLESS_VARIABLE = re.compile(
    r"^(?:NCCL|CUDA|OMPI|PMIX|PRTE|UCX|LD|NVIDIA)_|^(?:NHOSTS|BENCHMARK|DATA_MIN|DATA_MAX)$"
)
_ENVIRONMENT_NAME = re.compile(r"^[A-Z_][A-Z0-9_]{2,}$")


def redact(text: str) -> str:
    """Return a text without e-mail addresses, credentials and foreign environment values."""
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(REDACTED, text)
    text = _BEARER.sub(lambda match: f"{match[1]} {REDACTED}", text)
    if "=" in text or ":" in text:
        text = _ASSIGNMENT.sub(_redact_assignment, text)
    text = _KNOWN_TOKEN.sub(REDACTED, text)
    if "@" in text:
        text = _EMAIL.sub("[address]", text)
    return text


def _redact_assignment(match: re.Match[str]) -> str:
    name, sign, value = match.groups()
    is_environment = sign.strip() == "=" and _ENVIRONMENT_NAME.match(name) is not None
    if _SECRET_NAME.search(name) or (is_environment and not _HARMLESS_VARIABLE.match(name)):
        return f"{name}{sign}{REDACTED}"
    return f"{name}{sign}{value}"
