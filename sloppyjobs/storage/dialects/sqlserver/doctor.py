"""What can be wrong with a SQL Server and the connections to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, text

from sloppyjobs.storage.checks import RIGHTS, Check, rights, row_locks
from sloppyjobs.storage.dialects.sqlserver.schema import COLLATION
from sloppyjobs.storage.ports.findings import FAIL, OK, WARN, Finding

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

LEAST_VERSION = 15
"""SQL Server 2019."""
LEAST_LEVEL, LEVEL = 130, 150
"""Of the database's compatibility: the least that has what statements use, and that of SQL Server 2019."""
_LEVELS = {1: "read uncommitted", 2: "read committed", 3: "repeatable read", 4: "serializable", 5: "snapshot"}


def _server(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    said, version, level, babelfish = connection.exec_driver_sql(
        "SELECT @@VERSION, CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(64)), compatibility_level, "
        "CAST(SERVERPROPERTY('BabelfishVersion') AS nvarchar(64)) FROM sys.databases WHERE name = DB_NAME()"
    ).one()
    detail = said.splitlines()[0].strip()
    if babelfish is not None:
        hint = "it speaks the language of SQL Server and ignores lock hints; jobs are safe, claims wait for each other"
        yield Finding("server", WARN, f"Babelfish for PostgreSQL {babelfish}", hint)
    elif level < LEAST_LEVEL:
        hint = f"ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {LEVEL}: below {LEAST_LEVEL} there is no OPENJSON"
        yield Finding("server", FAIL, f"{detail}; the database is at compatibility level {level}", hint)
    elif int(str(version).split(".", maxsplit=1)[0]) >= LEAST_VERSION:
        yield Finding("server", OK, detail)
    else:
        yield Finding("server", WARN, detail, "SQL Server 2019 or newer is what the statements are written for")


def _driver(storage: SqlStore, _connection: Connection) -> Iterator[Finding]:
    yield Finding("driver", OK, storage.engine.dialect.driver)


def _isolation(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    with_rows = connection.exec_driver_sql(
        "SELECT is_read_committed_snapshot_on FROM sys.databases WHERE name = DB_NAME()"
    ).scalar_one()
    how = "by row versions" if with_rows else "by locks"
    if storage.database.owns_engine:
        yield Finding("isolation", OK, f"read committed, pinned; this database reads {how}")
        return
    level = connection.exec_driver_sql(
        "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    ).scalar_one()
    name = _LEVELS.get(level, str(level))
    detail = f"your engine reads at {name}, writes of jobs are at read committed; this database reads {how}"
    if name in ("read committed", "snapshot"):
        yield Finding("isolation", OK, detail)
    else:
        yield Finding("isolation", WARN, detail, "use read committed for your engine: pages would wait, or see less")


def _collation(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    query = text(
        "SELECT t.name, c.name FROM sys.columns c JOIN sys.tables t ON t.object_id = c.object_id "
        "WHERE SCHEMA_NAME(t.schema_id) = COALESCE(:schema, SCHEMA_NAME()) AND t.name IN :tables "
        "AND c.name IN ('id', 'name', 'queue', 'job_id', 'idempotency_key') "
        "AND c.collation_name IS NOT NULL AND c.collation_name NOT LIKE '%BIN2'"
    ).bindparams(bindparam("tables", expanding=True))
    tables = [table.name for table in storage.tables.metadata.sorted_tables]
    found = connection.execute(query, {"schema": storage.tables.schema, "tables": tables}).all()
    if found:
        wrong = ", ".join(sorted(f"{table}.{column}" for table, column in found))
        hint = f"make these columns COLLATE {COLLATION}: names that differ in case would be taken for one"
        yield Finding("collation", FAIL, f"not compared byte by byte: {wrong}", hint)
    else:
        yield Finding("collation", OK, "ids, names and keys are compared byte by byte")


def _rights(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    preparer = connection.dialect.identifier_preparer
    query = text("SELECT HAS_PERMS_BY_NAME(:name, 'OBJECT', :right)")
    missing = [
        f"{right} on {table.name}"
        for table in storage.tables.metadata.sorted_tables
        for right in RIGHTS
        if _asked(connection, query, preparer.format_table(table), right) == 0
    ]
    yield rights(missing, "this login's user")


def _asked(connection: Connection, query: Any, name: str, right: str) -> int | None:
    answer: int | None = connection.execute(query, {"name": name, "right": right}).scalar_one()
    return answer


CHECKS: dict[str, Check] = {
    "driver": _driver,
    "server": _server,
    "isolation": _isolation,
    "collation": _collation,
    "rights": _rights,
    "row locks": row_locks,
}
