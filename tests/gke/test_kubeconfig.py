"""The users' kubeconfig: contexts come and go, what the user wrote stays."""

from __future__ import annotations

import base64
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.contracts import ClusterEndpoint, ClusterKey
from sandbox.gke import kubeconfig

DEV = ClusterKey(project="p", location="us-central1", name="dev-cluster")
STAGING = ClusterKey(project="p", location="us-central1", name="staging-cluster")


def endpoint(port: int = 1) -> ClusterEndpoint:
    return ClusterEndpoint(endpoint=f"127.0.0.1:{port}", ca_certificate_pem="PEM")


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def names(path: Path, section: str) -> list[str]:
    return [entry["name"] for entry in read(path)[section]]


def test_a_cluster_is_added_as_gcloud_adds_it(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    kubeconfig.add_cluster(path, DEV, endpoint(6443))
    config = read(path)
    assert config["current-context"] == "gke_p_us-central1_dev-cluster"
    assert config["clusters"][0] == {
        "name": "gke_p_us-central1_dev-cluster",
        "cluster": {
            "server": "https://127.0.0.1:6443",
            "certificate-authority-data": base64.b64encode(b"PEM").decode(),
        },
    }
    plugin = config["users"][0]["user"]["exec"]
    assert plugin["command"] == "gke-gcloud-auth-plugin"
    assert plugin["provideClusterInfo"] is True
    assert "token" not in path.read_text()


def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    kubeconfig.add_cluster(path, DEV, endpoint())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_adding_again_brings_the_entry_up_to_date_and_keeps_choices(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    kubeconfig.add_cluster(path, DEV, endpoint(1))
    kubeconfig.add_cluster(path, STAGING, endpoint(2))
    config = read(path)
    config["contexts"][0]["context"]["namespace"] = "birds"
    config["current-context"] = STAGING.context
    path.write_text(yaml.safe_dump(config))
    kubeconfig.add_cluster(path, DEV, endpoint(3))
    changed = read(path)
    assert names(path, "clusters") == [DEV.context, STAGING.context]
    assert changed["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:3"
    assert changed["contexts"][0]["context"]["namespace"] == "birds"
    assert changed["current-context"] == STAGING.context


def test_removing_takes_one_cluster_and_moves_the_current_context(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "users": [{"name": "mine", "user": {}}],
                "preferences": {"colors": True},
                "current-context": "",
            }
        )
    )
    kubeconfig.add_cluster(path, DEV, endpoint(1))
    kubeconfig.add_cluster(path, STAGING, endpoint(2))
    kubeconfig.remove_cluster(path, DEV)
    assert names(path, "clusters") == [STAGING.context]
    assert names(path, "users") == ["mine", STAGING.context]
    assert read(path)["current-context"] == STAGING.context
    assert read(path)["preferences"] == {"colors": True}
    kubeconfig.remove_cluster(path, STAGING)
    assert read(path)["current-context"] == ""


def test_removing_from_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    kubeconfig.remove_cluster(tmp_path / "kubeconfig", DEV)
    assert list(tmp_path.iterdir()) == []


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    keys = [ClusterKey(project="p", location="r", name=f"c{n}") for n in range(12)]
    threads = [
        threading.Thread(target=kubeconfig.add_cluster, args=(path, key, endpoint()))
        for key in keys
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names(path, "contexts")) == sorted(key.context for key in keys)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kubeconfig"]


def test_a_lock_that_a_killed_program_left_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "_LOCK_SECONDS", 0.1)
    path = tmp_path / "kubeconfig"
    os.close(os.open(tmp_path / "kubeconfig.lock", os.O_CREAT))
    kubeconfig.add_cluster(path, DEV, endpoint())
    assert names(path, "contexts") == [DEV.context]
