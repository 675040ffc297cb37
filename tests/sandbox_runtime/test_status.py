"""What `python -m sandbox status` shows to people."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from sandbox.home import Home
from sandbox.status import Status, show


def test_a_cluster_that_does_not_work_is_shown_with_what_is_wrong(tmp_path: Path) -> None:
    cluster = {"context": "gke_p_r_c", "status": "RUNNING", "version": "1.35", "endpoint": "x:1"}
    status = Status(
        running=True,
        port=1,
        pace=0,
        resources=[],
        clusters=[{**cluster, "problems": ["etcd ended with 1"]}],
        processes=[],
    )
    printed = io.StringIO()
    show(status, Home(tmp_path), Console(file=printed, width=200))
    assert "gke_p_r_c: etcd ended with 1" in printed.getvalue()
