"""The cloud's state in one SQLite file.

Owns resources, operations, settings and fault plans as rows, so that a restart loses nothing.
Knows no resource kind: what a body means is the business of the modules that own the kinds.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
_TABLES = """
CREATE TABLE resources (
    kind TEXT NOT NULL, project TEXT NOT NULL, location TEXT NOT NULL, name TEXT NOT NULL,
    body TEXT NOT NULL, state TEXT NOT NULL, owner TEXT NOT NULL, created REAL NOT NULL,
    PRIMARY KEY (kind, project, location, name)
) WITHOUT ROWID;
CREATE INDEX resources_by_owner ON resources (owner) WHERE owner != '';
CREATE TABLE operations (
    name TEXT PRIMARY KEY, api TEXT NOT NULL, project TEXT NOT NULL, location TEXT NOT NULL,
    action TEXT NOT NULL, target TEXT NOT NULL, status TEXT NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX operations_open ON operations (status) WHERE status != 'DONE';
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE faults (
    name TEXT PRIMARY KEY, rule TEXT NOT NULL, matched INTEGER NOT NULL, fired INTEGER NOT NULL
) WITHOUT ROWID;
"""


class StoreVersionError(RuntimeError):
    """The database on disk was written by another version of the sandbox."""


@dataclass(kw_only=True, slots=True)
class Record:
    """One resource.

    Attributes:
        kind: Collection name as in the API's paths, e.g. `networks`.
        location: `global`, a region or a zone.
        state: `creating`, `ready` or `deleting`.
        owner: Path of what Google made this resource for, empty for one that a user made.
        created: Unix time.
    """

    kind: str
    project: str
    location: str
    name: str
    body: dict[str, Any]
    state: str = "ready"
    owner: str = ""
    created: float = 0.0


@dataclass(kw_only=True, slots=True)
class OperationRecord:
    """One long-running operation; `body` holds times, parameters, error and what it waited for."""

    name: str
    api: str
    project: str
    location: str
    action: str
    target: str
    status: str = "PENDING"
    body: dict[str, Any] = field(default_factory=dict)


class Store:
    """Rows of one SQLite database; safe to use from several threads."""

    def __init__(self, path: str | Path) -> None:
        """Open or make the database.

        Raises:
            StoreVersionError: the file is of another schema version.
        """
        self._path = str(path)
        self._lock = threading.RLock()
        self._depth = 0
        self._db = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self.transaction():
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in _TABLES.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            elif version != SCHEMA_VERSION:
                raise StoreVersionError(
                    f"{self._path} has schema version {version}, this sandbox writes version "
                    f"{SCHEMA_VERSION}: use the sandbox that made it, or start afresh with "
                    "`python -m sandbox reset` (that removes what the old database holds)"
                )

    def close(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside one change: all of it is kept, or none after an exception."""
        with self._lock:
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._db.execute("COMMIT")

    def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def _run(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        with self._lock:
            self._db.execute(sql, values)

    # Resources

    def get(self, kind: str, project: str, location: str, name: str) -> Record | None:
        """Return one resource in whatever state, or None."""
        rows = self._all(
            f"{_SELECT} WHERE kind = ? AND project = ? AND location = ? AND name = ?",
            (kind, project, location, name),
        )
        return _record(rows[0]) if rows else None

    def find(
        self,
        kind: str | None = None,
        project: str | None = None,
        location: str | None = None,
        owner: str | None = None,
    ) -> list[Record]:
        """Return the resources that match every given value, ordered by path."""
        asked = {"kind": kind, "project": project, "location": location, "owner": owner}
        given = {column: value for column, value in asked.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given)
        sql = (
            f"{_SELECT}{' WHERE ' + where if where else ''} ORDER BY kind, project, location, name"
        )
        return [_record(row) for row in self._all(sql, tuple(given.values()))]

    def put(self, record: Record) -> None:
        """Write a resource, new or changed."""
        self._run(
            "INSERT OR REPLACE INTO resources VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record.kind,
                record.project,
                record.location,
                record.name,
                json.dumps(record.body),
                record.state,
                record.owner,
                record.created,
            ),
        )

    def delete(self, kind: str, project: str, location: str, name: str) -> None:
        """Remove a resource; one that is not there is no error."""
        self._run(
            "DELETE FROM resources WHERE kind = ? AND project = ? AND location = ? AND name = ?",
            (kind, project, location, name),
        )

    def delete_owned(self, owner: str) -> None:
        """Remove everything that Google made for `owner` or for something below it."""
        below = f"{owner}/"
        self._run(
            "DELETE FROM resources WHERE owner = ? OR substr(owner, 1, ?) = ?",
            (owner, len(below), below),
        )

    # Operations

    def get_operation(self, name: str) -> OperationRecord | None:
        """Return one operation, or None."""
        rows = self._all("SELECT * FROM operations WHERE name = ?", (name,))
        return _operation(rows[0]) if rows else None

    def operations(
        self, *, api: str | None = None, project: str | None = None, open_only: bool = False
    ) -> list[OperationRecord]:
        """Return operations, oldest first."""
        asked = {"api": api, "project": project}
        given = {column: value for column, value in asked.items() if value is not None}
        parts = [f"{column} = ?" for column in given] + (["status != 'DONE'"] if open_only else [])
        where = " WHERE " + " AND ".join(parts) if parts else ""
        rows = self._all(f"SELECT * FROM operations{where}", tuple(given.values()))  # noqa: S608
        found = [_operation(row) for row in rows]
        return sorted(found, key=lambda operation: float(operation.body["requested"]))

    def put_operation(self, operation: OperationRecord) -> None:
        """Write an operation, new or changed."""
        self._run(
            "INSERT OR REPLACE INTO operations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                operation.name,
                operation.api,
                operation.project,
                operation.location,
                operation.action,
                operation.target,
                operation.status,
                json.dumps(operation.body),
            ),
        )

    # Settings and fault plans

    def setting(self, key: str) -> Any:
        """Return a setting, or None."""
        rows = self._all("SELECT value FROM settings WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else None

    def put_setting(self, key: str, value: object) -> None:
        """Write a setting."""
        self._run("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value)))

    def faults(self) -> list[tuple[str, dict[str, Any], int, int]]:
        """Return name, rule, matches and firings of each fault plan."""
        rows = self._all("SELECT name, rule, matched, fired FROM faults ORDER BY name")
        return [(name, json.loads(rule), matched, fired) for name, rule, matched, fired in rows]

    def put_fault(self, name: str, rule: Mapping[str, Any], matched: int, fired: int) -> None:
        """Write a fault plan with its counts."""
        self._run(
            "INSERT OR REPLACE INTO faults VALUES (?, ?, ?, ?)",
            (name, json.dumps(rule), matched, fired),
        )

    def delete_fault(self, name: str) -> None:
        """Remove a fault plan."""
        self._run("DELETE FROM faults WHERE name = ?", (name,))

    def clear(self) -> None:
        """Remove every row."""
        with self.transaction():
            for table in ("resources", "operations", "settings", "faults"):
                self._run(f"DELETE FROM {table}")  # noqa: S608 - names from the line above


_SELECT = "SELECT kind, project, location, name, body, state, owner, created FROM resources"


def _record(row: tuple[Any, ...]) -> Record:
    kind, project, location, name, body, state, owner, created = row
    return Record(
        kind=kind,
        project=project,
        location=location,
        name=name,
        body=json.loads(body),
        state=state,
        owner=owner,
        created=created,
    )


def _operation(row: tuple[Any, ...]) -> OperationRecord:
    name, api, project, location, action, target, status, body = row
    return OperationRecord(
        name=name,
        api=api,
        project=project,
        location=location,
        action=action,
        target=target,
        status=status,
        body=json.loads(body),
    )


def new_numeric_id() -> str:
    """Return a 19-digit decimal id as Compute gives them [facts google-cloud.md §1.5]."""
    return str(10**18 + secrets.randbelow(8 * 10**18))


def fingerprint(body: Mapping[str, Any]) -> str:
    """Return the fingerprint of a body: it changes whenever the body does."""
    text = json.dumps(
        {key: value for key, value in body.items() if key != "fingerprint"}, sort_keys=True
    )
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
