"""Google's resource links: the forms they come in and when two mean the same thing [§0.1, §1.4]."""

from __future__ import annotations

import re
from typing import Any

_API_VERSION = re.compile(r"/compute/[a-zA-Z0-9]+/projects/")


def short_name(link: str) -> str:
    """Return the last part of a link."""
    return link.rsplit("/", 1)[-1]


def relative(link: str) -> str:
    """Return a link from `projects/` on; a text without that part is returned as it is."""
    start = link.find("projects/")
    return link[start:] if start >= 0 else link


def self_link_v1(link: str) -> str:
    """Return a compute link with `v1` as its version, whatever version the call used [§2]."""
    return _API_VERSION.sub("/compute/v1/projects/", link, count=1)


def same_link(old: Any, new: Any) -> bool:
    """Compare by short name if one of the two is a bare name, else by relative path."""
    old_text, new_text = str(old or ""), str(new or "")
    if not old_text or not new_text:
        return old_text == new_text
    if "/" not in old_text or "/" not in new_text:
        return short_name(old_text) == short_name(new_text)
    return relative(old_text) == relative(new_text)


def global_link(project: str, collection: str, value: str) -> str:
    """Turn a name, id or link of a global resource into its relative path."""
    return relative(value) if "/" in value else f"projects/{project}/global/{collection}/{value}"


def regional_link(project: str, region: str, collection: str, value: str) -> str:
    """Turn a name, id or link of a regional resource into its relative path."""
    if "/" in value:
        return relative(value)
    return f"projects/{project}/regions/{region}/{collection}/{value}"
