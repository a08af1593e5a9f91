"""What can be wrong with a PostgreSQL server and the connections to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, text

from sloppyjobs.storage.checks import RIGHTS, Check, claim_plan, rights
from sloppyjobs.storage.dialects.postgres import connections
from sloppyjobs.storage.dialects.postgres.arrays import taking_arrays
from sloppyjobs.storage.dialects.postgres.drivers import FAST
from sloppyjobs.storage.dialects.postgres.statements import PLAN_BY_INDEX
from sloppyjobs.storage.dialects.postgres.turns import PostgresClaims
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.storage.ports.findings import FAIL, OK, WARN, Finding

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

LEAST_POSTGRES = 13


def _setting(connection: Connection, name: str) -> str:
    found: str = connection.execute(text("SELECT current_setting(:name)"), {"name": name}).scalar_one()
    return found


def _server(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    version = int(_setting(connection, "server_version_num")) // 10_000
    detail = f"PostgreSQL {_setting(connection, 'server_version')}"
    if version >= LEAST_POSTGRES:
        yield Finding("server", OK, detail)
    else:
        yield Finding("server", WARN, detail, f"version {LEAST_POSTGRES} or newer is tested")


def _connections(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    driver = connection.connection.driver_connection
    given = connections.parameters_of(driver)
    silent = {"tcp_user_timeout", "keepalives_idle"} - given.keys()
    if storage.database.owns_engine:
        yield Finding("connections", OK, "given up when the server does not answer")
    elif connections.is_local(driver):
        yield Finding("connections", OK, "through a socket of this machine, which no network can swallow")
    elif silent or "connect_timeout" not in given:
        missing = ", ".join(sorted(silent | ({"connect_timeout"} - given.keys())))
        hint = f"pass connect_args={connections.CONNECT_ARGS} to your engine"
        yield Finding(
            "connections", WARN, f"your engine waits very long for a server that is gone: without {missing}", hint
        )
    else:
        yield Finding("connections", OK, "your engine has keepalives and timeouts")


def _driver(storage: SqlStore, _connection: Connection) -> Iterator[Finding]:
    name = storage.engine.dialect.driver
    if name == FAST:
        yield Finding("driver", OK, "psycopg 3")
    else:
        hint = "psycopg 3 is faster: pip install 'sloppyjobs[postgres]', and a postgresql+psycopg:// URL"
        yield Finding("driver", OK, f"{name}, by the plain path", hint)


def _isolation(_storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    level = _setting(connection, "transaction_isolation")
    if level == "read committed":
        yield Finding("isolation", OK, level)
    else:
        hint = "use read committed for the engine of the jobs: stricter levels make workers retry"
        yield Finding("isolation", WARN, level, hint)


def _autovacuum(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
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


def _rights(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    preparer = connection.dialect.identifier_preparer
    query = text("SELECT has_table_privilege(:name, :wanted)")
    tables = [(table.name, preparer.format_table(table)) for table in storage.tables.metadata.sorted_tables]
    missing = [
        f"{right} on {name}"
        for name, written in tables
        for right in RIGHTS
        if not connection.execute(query, {"name": written, "wanted": right}).scalar_one()
    ]
    yield rights(missing, "this role")


def _claim_statement(storage: SqlStore, connection: Connection) -> tuple[str, Any]:
    if isinstance(storage.claims, PostgresClaims):
        call = storage.claims.claim_call(ClaimRequest("doctor", ("default",), ("any",)))
        return call.statement, call.values
    claim = storage.claims.lanes.heads_statement()
    return claim.sql, claim.bind(
        {"of_queue": "default", "of_name": "any", "now": storage.database.now(connection), "most": 1}
    )


def _claim_plan(storage: SqlStore, connection: Connection) -> Iterator[Finding]:
    statement, values = _claim_statement(storage, connection)
    # A cursor of its own: one that was used before may know more than that of a fresh process.
    cursor = cursor_of(connection)
    if isinstance(storage.claims, PostgresClaims):
        cursor = taking_arrays(cursor)
    cursor.execute(PLAN_BY_INDEX)
    cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", values)
    plan = cursor.fetchone()[0]
    plan = json.loads(plan) if isinstance(plan, str) else plan
    nodes = list(_nodes(plan[0]["Plan"]))
    jobs = storage.tables.jobs.name
    scans = [node for node in nodes if node.get("Relation Name") == jobs and node["Node Type"] == "Seq Scan"]
    used = sorted({node["Index Name"] for node in nodes if "Index Name" in node})
    yield claim_plan(not scans, f"by {', '.join(used)}" if not scans else f"reads all of {jobs}")


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


CHECKS: dict[str, Check] = {
    "driver": _driver,
    "server": _server,
    "connections": _connections,
    "isolation": _isolation,
    "autovacuum": _autovacuum,
    "rights": _rights,
    "claim plan": _claim_plan,
}
