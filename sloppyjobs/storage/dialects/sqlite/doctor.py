"""What can be wrong with a SQLite file."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from sloppyjobs.storage.checks import Check, claim_plan
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.findings import FAIL, OK, WARN, Finding

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

LEAST_BUSY_MS = 1_000


def _pragma(connection: Connection, name: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()


def _journal(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    mode = _pragma(connection, "journal_mode")
    if mode in ("wal", "memory"):
        yield Finding("journal", OK, f"journal_mode={mode}")
    else:
        hint = "run `sloppyjobs init`, which turns the write-ahead log on; network file systems cannot have it"
        yield Finding("journal", FAIL, f"journal_mode={mode}: readers and the writer wait for each other", hint)


def _durability(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    level = _pragma(connection, "synchronous")
    names = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
    detail = f"synchronous={names.get(level, level)}"
    if level >= 2:
        yield Finding("durability", OK, f"{detail} on this connection")
    else:
        hint = "FULL, the default of this library, keeps every acknowledged enqueue"
        yield Finding("durability", WARN, f"{detail}: the last commits may be lost with the power", hint)


def _busy(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    wait = _pragma(connection, "busy_timeout")
    if wait >= LEAST_BUSY_MS:
        yield Finding("busy time-out", OK, f"{wait / 1000:g} s")
    else:
        hint = "pass connect_args={'timeout': 30} to your engine"
        yield Finding("busy time-out", WARN, f"{wait} ms: a second writer gives up at once", hint)


def _file(storage: SqlStore, _connection: Connection) -> Iterator[Finding]:
    name = storage.engine.url.database
    if not name or name == ":memory:" or name.startswith("file:"):
        return
    path = Path(name)
    mode = path.stat().st_mode
    if mode & stat.S_IROTH:
        hint = f"payloads may hold secrets: chmod o-r {path}"
        yield Finding("file", WARN, f"every user of this host can read it ({stat.filemode(mode)})", hint)
    else:
        yield Finding("file", OK, stat.filemode(mode))


def _claim_plan(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    claim = storage.claims.lanes.heads_statement()
    values = claim.bind({"of_queue": "default", "of_name": "any", "now": "", "most": 1})
    cursor = cursor_of(connection)
    cursor.execute(f"EXPLAIN QUERY PLAN {claim.sql}", values)
    steps = [row[3] for row in cursor.fetchall()]
    by_index = all("INDEX" in step for step in steps if storage.tables.jobs.name in step)
    yield claim_plan(by_index and "TEMP B-TREE" not in " ".join(steps), "; ".join(steps))


CHECKS: dict[str, Check] = {
    "journal": _journal,
    "durability": _durability,
    "busy time-out": _busy,
    "file": _file,
    "claim plan": _claim_plan,
}
