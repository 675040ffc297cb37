"""Projects as Resource Manager shows them.

Owns `cloudresourcemanager.projects.get`. Any project id that is asked for exists; its number
follows from the id.
"""

from __future__ import annotations

from typing import Any

from sandbox.cloud.core import Call, project_number
from sandbox.cloud.registry import endpoint, rule

rule(
    "projects.any",
    "every well-formed project id exists, with a number that is always the same",
    citation="decision of this sandbox; shape: facts google-cloud.md §9 (getProject)",
)


@endpoint(
    "resourcemanager",
    "GET",
    "projects/{project}",
    citation="facts real-provider.md (projects.Service); google-cloud.md §9",
    judges="gcloud provider",
)
def get(call: Call) -> dict[str, Any]:
    """Read a project."""
    return {
        "projectNumber": project_number(call.project),
        "projectId": call.project,
        "lifecycleState": "ACTIVE",
        "name": call.project,
        "createTime": "2026-01-01T00:00:00.000Z",
        "labels": {},
    }
