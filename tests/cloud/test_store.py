"""The database: versions, transactions, numbers."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from sandbox.cloud.store import (
    SCHEMA_VERSION,
    Record,
    Store,
    StoreVersionError,
    fingerprint,
    new_numeric_id,
)


def record(name: str, **fields: object) -> Record:
    return Record(kind="things", project="p", location="global", name=name, body=dict(fields))


def test_a_database_of_another_version_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    Store(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    before = path.read_bytes()
    with pytest.raises(StoreVersionError) as caught:
        Store(path)
    text = str(caught.value)
    assert str(path) in text
    assert "version 7" in text
    assert f"version {SCHEMA_VERSION}" in text
    assert "python -m sandbox reset" in text
    assert path.read_bytes() == before


def test_a_database_of_something_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    with pytest.raises(StoreVersionError, match="version 0"):
        Store(path)


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")

    def broken() -> None:
        with store.transaction():
            store.put(record("b"))
            with store.transaction():
                store.put(record("c"))
            raise KeyError

    store.put(record("a"))
    with pytest.raises(KeyError):
        broken()
    assert [found.name for found in store.find()] == ["a"]
    store.close()


def test_what_was_written_is_there_for_the_next_process(tmp_path: Path) -> None:
    first = Store(tmp_path / "s.db")
    first.put(record("a", mtu=8244))
    first.put_setting("seed", 5)
    first.put_fault("f", {"path": "x"}, 2, 1)
    # Not closed: a killed process does not close it either.
    second = Store(tmp_path / "s.db")
    assert second.find()[0].body == {"mtu": 8244}
    assert second.setting("seed") == 5
    assert second.setting("nothing") is None
    assert second.faults() == [("f", {"path": "x"}, 2, 1)]
    second.clear()
    assert first.find() == []
    first.close()
    second.close()


def test_what_was_made_for_an_owner_goes_with_it_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    for name, owner in (("a", "x/n"), ("b", "x/n/s"), ("c", "x/n2"), ("d", "")):
        store.put(Record(kind="k", project="p", location="l", name=name, body={}, owner=owner))
    store.delete_owned("x/n")
    assert [found.name for found in store.find()] == ["c", "d"]
    store.close()


def test_threads_do_not_lose_each_others_writes(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")

    def work(thread: int) -> None:
        for number in range(50):
            with store.transaction():
                count = store.setting("count") or 0
                store.put_setting("count", count + 1)
                store.put(record(f"{thread}-{number}"))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.setting("count") == 200
    assert len(store.find()) == 200
    store.close()


def test_ids_and_fingerprints() -> None:
    ids = {new_numeric_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(one) for one in ids} == {19}
    assert fingerprint({"a": 1, "fingerprint": "x"}) == fingerprint({"a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
