"""What the renderer has to say about a manifest.

Owns the finding, its wording as text and as data, and the error that carries findings. Does not
own the rules (`workload_rules`) nor how findings are printed (`cli/inject`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning"]
_MOST_SHOWN = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestFinding:
    """One thing in one document that is wrong, or that the user should know.

    Attributes:
        severity: `error` refuses the whole call, `warning` does not.
        path: The field, from the document's root, such as
            `spec.template.spec.containers[train].resources`.
        value: The value seen, as text; empty where the field is missing.
        message: What is wrong with it and what is expected.
        fix: What to do about it.
        document: Place in the stream, the first document being 1; 0 where there is no stream.
        kind: Kind of the object.
        name: Name of the object.
        source: File that the document came from; empty for a stream.
    """

    severity: Severity
    path: str
    value: str
    message: str
    fix: str
    document: int = 0
    kind: str = ""
    name: str = ""
    source: str = ""

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.source, self.where, self.path) if part)
        # One finding is one line, whatever stands in the manifest.
        seen = f" (found {shortened(self.value)})" if self.value else ""
        return f"{self.severity}: {where}: {self.message}{seen}. {self.fix}"

    @property
    def where(self) -> str:
        """The object as `Kind/name`, with its place in the stream."""
        place = f"document {self.document}" if self.document else ""
        named = "/".join(part for part in (self.kind, self.name) if part)
        return ", ".join(part for part in (place, named) if part)

    def to_json(self) -> dict[str, object]:
        """Return the finding as plain data."""
        return asdict(self)


def shortened(text: str) -> str:
    """Return a text on one line, and of a long one the beginning."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"


class WorkloadError(ValueError):
    """A manifest that cannot be given GPUDirect; the text lists every reason."""

    def __init__(self, findings: Iterable[ManifestFinding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


def errors_in(findings: Iterable[ManifestFinding]) -> list[ManifestFinding]:
    """Return the findings that refuse the call."""
    return [finding for finding in findings if finding.severity == "error"]
