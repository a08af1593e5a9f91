"""What can be wrong with a MariaDB or MySQL server and the connections to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, text

from sloppyjobs.storage.checks import RIGHTS, Check, claim_plan, rights
from sloppyjobs.storage.dialects.mariadb import server
from sloppyjobs.storage.dialects.mariadb.rights import denied
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.findings import FAIL, OK, WARN, Finding

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

LEAST_PACKET = 16 * 2**20
_BINARY = {"utf8mb4_nopad_bin", "utf8mb4_0900_bin"}
_KEYS = ("id", "name", "queue", "idempotency_key")
"""Columns of jobs whose values must be told apart to the last byte."""


def _variable(connection: Connection, name: str) -> Any:
    return connection.exec_driver_sql(f"SELECT @@{name}").scalar_one()


def _server(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    found = server.ask(connection, storage.tables)
    detail = f"{found.product} {found.version}, by {storage.engine.dialect.driver}"
    if found.is_old:
        yield Finding("server", FAIL, detail, "MariaDB 10.6 or MySQL 8.0 or newer is needed")
    else:
        yield Finding("server", OK, detail)
    if found.foreign:
        hint = "convert them with ALTER TABLE … ENGINE=InnoDB"
        yield Finding("engine", FAIL, f"not in InnoDB: {', '.join(found.foreign)}", hint)
    else:
        yield Finding("engine", OK, "every table is in InnoDB")
    if found.is_strict:
        yield Finding("sql_mode", OK, "strict")
    else:
        hint = "add STRICT_TRANS_TABLES to sql_mode"
        yield Finding("sql_mode", FAIL, "not strict: values that are too long are cut without a word", hint)


def _isolation(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    name = "transaction_isolation" if not storage.engine.dialect.is_mariadb else "tx_isolation"  # type: ignore[attr-defined]
    level = str(_variable(connection, name)).replace("-", " ").lower()
    if level == "read committed":
        yield Finding("isolation", OK, level)
    else:
        detail = f"{level} on this connection; every transaction of the jobs begins at read committed all the same"
        yield Finding("isolation", OK, detail)


def _collation(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    query = text(
        "SELECT column_name, collation_name FROM information_schema.columns "
        "WHERE table_schema = database() AND table_name = :jobs AND column_name IN :keys"
    ).bindparams(bindparam("keys", expanding=True))
    rows = connection.execute(query, {"jobs": storage.tables.jobs.name, "keys": list(_KEYS)})
    wrong = sorted(f"{column} ({collation})" for column, collation in rows if collation not in _BINARY)
    if wrong:
        hint = "give them the collation that `sloppyjobs sql` prints"
        yield Finding("collation", FAIL, f"keys that differ may be taken for one: {', '.join(wrong)}", hint)
    else:
        yield Finding("collation", OK, "keys are told apart to the last byte")


def _row_locks(storage: SqlStore, _connection: Connection) -> Iterator[Finding]:
    """Lock the row of the version, and see that another connection passes over it."""
    name = storage.engine.dialect.identifier_preparer.quote(storage.tables.schema_name)
    query = text(f"SELECT version_num FROM {name} FOR UPDATE SKIP LOCKED")
    with storage.engine.connect() as one, storage.engine.connect() as other:
        mine, theirs = one.execute(query).all(), other.execute(query).all()
        other.rollback()
        one.rollback()
        free = one.execute(query).all()
    if mine and not theirs:
        yield Finding("row locks", OK, "what one connection has locked, another one passes over")
    elif not mine and not free:
        yield Finding("row locks", WARN, "somebody else has locked the row of the version", "repeat this later")
    else:
        hint = "two connections got the same row: a proxy or an engine between them has no row locks"
        yield Finding("row locks", FAIL, "row locks are not kept", hint)


def _writable(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    if _variable(connection, "GLOBAL.read_only"):
        hint = "name the primary in the URL; a replica can only be read"
        yield Finding("read only", FAIL, "this server can only be read", hint)
    else:
        yield Finding("read only", OK, "this server can be written to")


def _rights(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    """Which rights to which tables are missing."""
    quote = storage.engine.dialect.identifier_preparer.quote
    missing = []
    for table in storage.tables.metadata.sorted_tables:
        name, column = quote(table.name), quote(next(iter(table.primary_key.columns)).name)
        tried = (
            f"SELECT 1 FROM {name} WHERE 1 = 0",
            f"INSERT INTO {name} ({column}) SELECT NULL FROM DUAL WHERE 1 = 0",
            f"UPDATE {name} SET {column} = {column} WHERE 1 = 0",
            f"DELETE FROM {name} WHERE 1 = 0",
        )
        for right, statement in zip(RIGHTS, tried, strict=True):
            # Of a row that is not complete the server speaks after it has seen to the rights.
            missing += [f"{right} on {table.name}"] if denied(connection, statement) else []
    connection.rollback()
    yield rights(missing, "this user")


def _packet(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    size = int(_variable(connection, "max_allowed_packet"))
    detail = f"max_allowed_packet is {size / 2**20:g} MiB"
    if size >= LEAST_PACKET:
        yield Finding("packets", OK, detail)
    else:
        yield Finding("packets", WARN, detail, "long payloads and bulk calls need 16 MiB: set max_allowed_packet=16M")


def _claim_plan(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    claim = storage.claims.lanes.heads_statement()
    now = storage.database.to_driver(storage.database.now(connection))
    cursor = cursor_of(connection)
    cursor.execute(f"EXPLAIN {claim.sql}", claim.bind({"of_queue": "default", "of_name": "any", "now": now, "most": 1}))
    names = [column[0] for column in cursor.description]
    steps = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    used = [step["key"] or f"{step['type']} of {step['table']}" for step in steps]
    good = all(step["key"] and "filesort" not in (step["Extra"] or "") for step in steps)
    yield claim_plan(good, f"by {', '.join(used)}" if good else f"{', '.join(used)}, and sorts")


CHECKS: dict[str, Check] = {
    "server": _server,
    "isolation": _isolation,
    "collation": _collation,
    "row locks": _row_locks,
    "read only": _writable,
    "rights": _rights,
    "packets": _packet,
    "claim plan": _claim_plan,
}
