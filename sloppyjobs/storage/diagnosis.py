"""What can be wrong with a database: its schema, its settings, its indexes, and the plan of the claim.

Every check only reads. None of them stops the others: what raises is itself a finding.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, inspect, text

from sloppyjobs.storage.addresses import without_secrets
from sloppyjobs.storage.claims import ClaimRequest
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.dialects import postgres_connections
from sloppyjobs.storage.dialects.postgres_drivers import FAST
from sloppyjobs.storage.dialects.postgres_sql import PLAN_BY_INDEX
from sloppyjobs.storage.dialects.postgres_turns import PostgresTurning
from sloppyjobs.storage.schema import VERSION
from sloppyjobs.storage.storage import SqlStorage

OK, WARN, FAIL = "ok", "warn", "FAIL"
SKEW_SECONDS = 5.0
LEAST_POSTGRES = 13
LEAST_BUSY_MS = 1_000


class Finding(msgspec.Struct, frozen=True):
    """What a check found, and what to do about it. ``status`` is ``ok``, ``warn`` or ``FAIL``."""

    check: str
    status: str
    detail: str
    hint: str | None = None


Check = Callable[[SqlStorage, Connection], Iterator[Finding]]


def diagnose(storage: SqlStorage) -> list[Finding]:
    """Check the database. Without our tables, or with those of another version, the rest is left out."""
    found = _run(storage, "schema", _schema)
    if any(finding.status == FAIL for finding in found):
        return found
    checks: dict[str, Check] = {"clock": _clock, "indexes": _indexes}
    if storage.dialect == "sqlite":
        checks |= {"journal": _journal, "durability": _durability, "busy time-out": _busy, "file": _file}
        checks |= {"claim plan": _sqlite_claim_plan}
    elif storage.dialect == "postgresql":
        checks |= {"driver": _driver, "server": _server, "connections": _connections}
        checks |= {"isolation": _isolation, "autovacuum": _autovacuum}
        checks |= {"claim plan": _postgres_claim_plan}
    for name, check in checks.items():
        found += _run(storage, name, check)
    return found


def _run(storage: SqlStorage, name: str, check: Check) -> list[Finding]:
    try:
        return storage.read(lambda connection: list(check(storage, connection)))
    except Exception as error:
        said = (str(getattr(error, "orig", None) or error).splitlines() or [""])[0]
        said = without_secrets(said, storage.engine.url)
        return [Finding(name, FAIL, f"{type(error).__name__}: {said}", "see whether the database can be reached")]


def _schema(storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    found = storage.schema_version(connection)
    if found == VERSION:
        yield Finding("schema", OK, f"version {found}")
    elif found is None:
        yield Finding("schema", FAIL, "the tables are not there", "run `sloppyjobs init`")
    elif found < VERSION:
        yield Finding("schema", FAIL, f"version {found}, this needs {VERSION}", "run `sloppyjobs init`")
    else:
        yield Finding("schema", FAIL, f"version {found}, this knows {VERSION}", "upgrade sloppyjobs")


def _clock(storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    before = datetime.now(UTC)
    theirs = storage.now(connection)
    ours = before + (datetime.now(UTC) - before) / 2
    skew = (theirs - ours).total_seconds()
    detail = f"the database is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this host"
    if abs(skew) < 0.1:
        detail = "the database and this host agree"
    if abs(skew) < SKEW_SECONDS:
        yield Finding("clock", OK, detail)
    else:
        yield Finding(
            "clock", WARN, detail, "jobs go by the database's clock and are safe; synchronise both for readable logs"
        )


def _indexes(storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    there = inspect(connection)
    missing = []
    for table in storage.tables.metadata.sorted_tables:
        names = {index["name"] for index in there.get_indexes(table.name, schema=table.schema)}
        missing += sorted(str(index.name) for index in table.indexes if index.name not in names)
    if missing:
        hint = "create them as `sloppyjobs sql` prints them"
        yield Finding("indexes", FAIL, f"missing: {', '.join(missing)}", hint)
    else:
        number = sum(len(table.indexes) for table in storage.tables.metadata.sorted_tables)
        yield Finding("indexes", OK, f"all {number} are there")


# SQLite


def _pragma(connection: Connection, name: str) -> Any:
    return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()


def _journal(_storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    mode = _pragma(connection, "journal_mode")
    if mode in ("wal", "memory"):
        yield Finding("journal", OK, f"journal_mode={mode}")
    else:
        hint = "run `sloppyjobs init`, which turns the write-ahead log on; network file systems cannot have it"
        yield Finding("journal", FAIL, f"journal_mode={mode}: readers and the writer wait for each other", hint)


def _durability(_storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    level = _pragma(connection, "synchronous")
    names = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
    detail = f"synchronous={names.get(level, level)}"
    if level >= 2:
        yield Finding("durability", OK, f"{detail} on this connection")
    else:
        hint = "FULL, the default of this library, keeps every acknowledged enqueue"
        yield Finding("durability", WARN, f"{detail}: the last commits may be lost with the power", hint)


def _busy(_storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    wait = _pragma(connection, "busy_timeout")
    if wait >= LEAST_BUSY_MS:
        yield Finding("busy time-out", OK, f"{wait / 1000:g} s")
    else:
        hint = "pass connect_args={'timeout': 30} to your engine"
        yield Finding("busy time-out", WARN, f"{wait} ms: a second writer gives up at once", hint)


def _file(storage: SqlStorage, _connection: Connection) -> Iterator[Finding]:
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


def _sqlite_claim_plan(storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    claim = storage.prepared("heads of lane", storage._heads_of_lane)
    values = claim.bind({"of_queue": "default", "of_name": "any", "now": "", "most": 1})
    cursor = cursor_of(connection)
    cursor.execute(f"EXPLAIN QUERY PLAN {claim.sql}", values)
    steps = [row[3] for row in cursor.fetchall()]
    by_index = all("INDEX" in step for step in steps if storage.tables.jobs.name in step)
    yield _plan(by_index and "TEMP B-TREE" not in " ".join(steps), "; ".join(steps))


# PostgreSQL


def _setting(connection: Connection, name: str) -> str:
    found: str = connection.execute(text("SELECT current_setting(:name)"), {"name": name}).scalar_one()
    return found


def _server(_storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    version = int(_setting(connection, "server_version_num")) // 10_000
    detail = f"PostgreSQL {_setting(connection, 'server_version')}"
    if version >= LEAST_POSTGRES:
        yield Finding("server", OK, detail)
    else:
        yield Finding("server", WARN, detail, f"version {LEAST_POSTGRES} or newer is tested")


def _connections(storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    driver = connection.connection.driver_connection
    given = postgres_connections.parameters_of(driver)
    silent = {"tcp_user_timeout", "keepalives_idle"} - given.keys()
    if storage.owns_engine:
        yield Finding("connections", OK, "given up when the server does not answer")
    elif postgres_connections.is_local(driver):
        yield Finding("connections", OK, "through a socket of this machine, which no network can swallow")
    elif silent or "connect_timeout" not in given:
        missing = ", ".join(sorted(silent | ({"connect_timeout"} - given.keys())))
        hint = f"pass connect_args={postgres_connections.CONNECT_ARGS} to your engine"
        yield Finding(
            "connections", WARN, f"your engine waits very long for a server that is gone: without {missing}", hint
        )
    else:
        yield Finding("connections", OK, "your engine has keepalives and timeouts")


def _driver(storage: SqlStorage, _connection: Connection) -> Iterator[Finding]:
    name = storage.engine.dialect.driver
    if name == FAST:
        yield Finding("driver", OK, "psycopg 3")
    else:
        hint = "psycopg 3 is faster: pip install 'sloppyjobs[postgres]', and a postgresql+psycopg:// URL"
        yield Finding("driver", OK, f"{name}, by the plain path", hint)


def _isolation(_storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    level = _setting(connection, "transaction_isolation")
    if level == "read committed":
        yield Finding("isolation", OK, level)
    else:
        hint = "use read committed for the engine of the jobs: stricter levels make workers retry"
        yield Finding("isolation", WARN, level, hint)


def _autovacuum(storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    if _setting(connection, "autovacuum") != "on":
        hint = "turn it on: dead rows slow every claim down"
        yield Finding("autovacuum", FAIL, "autovacuum is off on this server", hint)
        return
    jobs = storage.tables.jobs
    name = f'"{jobs.schema}"."{jobs.name}"' if jobs.schema else f'"{jobs.name}"'
    found = connection.execute(
        text("SELECT reloptions FROM pg_class WHERE oid = to_regclass(:name)"), {"name": name}
    ).scalar_one_or_none()
    if any("autovacuum_vacuum_threshold" in option for option in found or ()):
        yield Finding("autovacuum", OK, "on, and tuned for the table of jobs")
    else:
        hint = "apply the ALTER TABLE … SET (…) statements that `sloppyjobs sql` prints"
        yield Finding("autovacuum", WARN, "the table of jobs has the server's defaults", hint)


def _claim_statement(storage: SqlStorage, connection: Connection) -> tuple[str, Any]:
    if isinstance(storage, PostgresTurning):
        return storage.claim_call(ClaimRequest("doctor", ("default",), ("any",)))
    claim = storage.prepared("heads of lane", storage._heads_of_lane)
    return claim.sql, claim.bind({"of_queue": "default", "of_name": "any", "now": storage.now(connection), "most": 1})


def _postgres_claim_plan(storage: SqlStorage, connection: Connection) -> Iterator[Finding]:
    statement, values = _claim_statement(storage, connection)
    cursor = cursor_of(connection)
    cursor.execute(PLAN_BY_INDEX)
    cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
    plan = cursor.fetchone()[0]
    plan = json.loads(plan) if isinstance(plan, str) else plan
    nodes = list(_nodes(plan[0]["Plan"]))
    jobs = storage.tables.jobs.name
    scans = [node for node in nodes if node.get("Relation Name") == jobs and node["Node Type"] == "Seq Scan"]
    used = sorted({node["Index Name"] for node in nodes if "Index Name" in node})
    yield _plan(not scans, f"by {', '.join(used)}" if not scans else f"reads all of {jobs}")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _plan(good: bool, detail: str) -> Finding:
    if good:
        return Finding("claim plan", OK, detail)
    return Finding("claim plan", FAIL, detail, "see that the indexes are there, and run ANALYZE")
