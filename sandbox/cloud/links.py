"""Links between resources: reading the forms that come in, writing the forms that go out.

Link formats differ per resource [facts google-cloud.md §0.1]: Compute writes full v1 links,
clusters relative ones. What comes in may be a bare name, a relative path or a link on any host,
since gcloud builds links on the address that it talks to [facts gcloud-requests.md].
"""

from __future__ import annotations

import re

COMPUTE_BASE = "https://www.googleapis.com/compute/v1/"
CONTAINER_BASE = "https://container.googleapis.com/"
_PROJECT = re.compile(r"(?:^|/)projects/(?P<project>[^/]+)/(?P<rest>.+)$")


def scope(location: str) -> str:
    """Return `global`, `region` or `zone`: a zone is a region, a dash and a letter."""
    if location == "global":
        return "global"
    return "zone" if re.fullmatch(r".+-[a-z]", location) else "region"


def path(project: str, location: str, kind: str, name: str) -> str:
    """Return the relative path of a Compute resource."""
    if location == "global":
        return f"projects/{project}/global/{kind}/{name}"
    return f"projects/{project}/{scope(location)}s/{location}/{kind}/{name}"


def link(project: str, location: str, kind: str, name: str) -> str:
    """Return the full link of a Compute resource."""
    return COMPUTE_BASE + path(project, location, kind, name)


def scope_link(project: str, location: str) -> str:
    """Return the full link of a region or zone."""
    return f"{COMPUTE_BASE}projects/{project}/{scope(location)}s/{location}"


def cluster_path(project: str, location: str, name: str) -> str:
    """Return the relative path of a cluster."""
    return f"projects/{project}/locations/{location}/clusters/{name}"


def parse_network(value: str, project: str) -> tuple[str, str] | None:
    """Return (project, name) of a network given as name, path or link; None if it is neither."""
    if "/" not in value:
        return (project, value)
    match = _PROJECT.search(value)
    if match is None:
        rest, owner = value, project
    else:
        rest, owner = match["rest"], match["project"]
    parts = rest.split("/")
    return (owner, parts[2]) if len(parts) == 3 and parts[:2] == ["global", "networks"] else None


def parse_subnetwork(value: str, project: str, region: str) -> tuple[str, str, str] | None:
    """Return (project, region, name) of a subnetwork given as name, path or link, or None."""
    if "/" not in value:
        return (project, region, value)
    match = _PROJECT.search(value)
    rest, owner = (match["rest"], match["project"]) if match else (value, project)
    parts = rest.split("/")
    if len(parts) == 4 and parts[0] == "regions" and parts[2] == "subnetworks":
        return (owner, parts[1], parts[3])
    return None
