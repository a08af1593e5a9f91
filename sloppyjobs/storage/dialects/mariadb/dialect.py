"""What is different in MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Select,
    Subquery,
    Table,
    Update,
    bindparam,
    exists,
    func,
    select,
    text,
)
from sqlalchemy.dialects.mysql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.storage.checks import Check
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.mariadb import connections, error_codes, rights, server
from sloppyjobs.storage.dialects.mariadb.error_codes import code_of
from sloppyjobs.storage.dialects.mariadb.json_rows import json_table
from sloppyjobs.storage.dialects.mariadb.prepared import JsonRows, UpdateFromGiven, WithLists
from sloppyjobs.storage.dialects.mariadb.schema import STYLE
from sloppyjobs.storage.driver import Prepared
from sloppyjobs.storage.schema.tables import Tables

if TYPE_CHECKING:
    from sloppyjobs.storage.database import Database
    from sloppyjobs.storage.operations import Operations


class MariaDbDialect(Dialect):
    """MariaDB and MySQL."""

    name = "mysql"
    now_sql = "utc_timestamp(6)"
    takes_blocks = False
    """Whether the server takes blocks of statements; known once it was asked what it is."""

    def __init__(self, tables: Tables, *, answer_timeout: float | None = None) -> None:
        super().__init__(tables)
        self._answer_timeout = answer_timeout

    # Connections and transactions

    def attach(self, engine: Engine, *, ours: bool) -> None:
        """Connections of our own making are at READ COMMITTED, and give up a silent server."""
        if ours:
            patience = self._answer_timeout
            connections.watched(engine, patience, LOCK_WAIT if patience is None else min(LOCK_WAIT, patience / 2))

    def refuse_server(self, connection: Connection) -> None:
        """An old version, tables without transactions, or a mode in which values are cut."""
        found = server.ask(connection, self.tables)
        server.refuse(found)
        self.takes_blocks = found.takes_blocks

    @contextmanager
    def writing(self, engine: Engine, *, ours: bool) -> Iterator[Connection]:  # noqa: ARG002
        """At READ COMMITTED, whatever the server's or the engine's own level is."""
        with connections.read_committed(engine) as connection:
            yield connection

    def prepared(self, statement: Executable, engine: Engine) -> Prepared:
        """Lists as values, and rows as JSON."""
        return JsonRows(statement, engine) if isinstance(statement, Select) else WithLists(statement, engine)

    def refuse_caller(self, connection: Connection) -> None:
        """In autocommit mode there is no transaction."""
        if connections.autocommits(connection):
            raise errors.InvalidOption(
                "connection=…: it is in autocommit mode, there is no transaction to enqueue in; begin one, or pass none"
            )

    transactional_ddl = False

    def refuse_rights(self, connection: Connection) -> None:
        """What is missing is named before the first table is made."""
        rights.refuse_to_create(connection, self.tables)

    def lock_migrations(self, connection: Connection) -> None:
        """The lease of migrations does it: DDL would end every lock of the transaction."""

    def identity(self, connection: Connection) -> tuple[Any, ...]:
        """The name of the database, and its cluster or the place of its server."""
        name, *place = connection.exec_driver_sql("SELECT database(), @@hostname, @@port, @@datadir").one()
        cluster = connection.exec_driver_sql("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'").one_or_none()
        return (name, cluster[1]) if cluster is not None and cluster[1] else (name, *place)

    # Errors

    def is_transient(self, error: DBAPIError) -> bool:
        """Deadlocks, conflicts with another node, lock time-outs, and a server that is restarting."""
        return error.connection_invalidated or code_of(error) in error_codes.TRANSIENT

    def is_unavailable(self, error: DBAPIError) -> bool:
        """A fault that lasts, no connection, or a server that refuses to work."""
        code = code_of(error)
        return error.connection_invalidated or code in error_codes.UNAVAILABLE or error_codes.is_of_client(code)

    def is_lost(self, error: DBAPIError) -> bool:
        """The connection broke, or that of a node to its cluster; but who is shutting down has not committed."""
        code = code_of(error)
        broken = error.connection_invalidated and code not in error_codes.TRANSIENT
        return broken or code == error_codes.COMMIT_IN_DOUBT

    def is_read_only(self, error: DBAPIError) -> bool:
        """A replica, or a primary that has become one."""
        return code_of(error) in error_codes.READ_ONLY

    def is_wrong_address(self, error: DBAPIError) -> bool:
        """There is no such database, or not for this user."""
        return code_of(error) in error_codes.WRONG_ADDRESS

    def is_denied(self, error: DBAPIError) -> bool:
        """No right to a table or to a column of it."""
        return code_of(error) in error_codes.DENIED

    def is_timeout(self, error: DBAPIError) -> bool:
        """``max_statement_time`` or ``max_execution_time``."""
        return code_of(error) in error_codes.TIMEOUT

    def is_duplicate(self, error: DBAPIError) -> bool:
        """Duplicate entry."""
        return code_of(error) == error_codes.DUPLICATE

    # Values

    def to_driver(self, instant: datetime) -> datetime:
        """In UTC, without a zone."""
        return instant.astimezone(UTC).replace(tzinfo=None)

    def from_driver(self, value: Any) -> datetime | None:
        """The instant, which is in UTC; ``ValueError`` for a day that does not exist."""
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return None if moment is None else moment.replace(tzinfo=UTC)

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """``IN`` with the values themselves: a subquery would be executed for each row of an update."""
        return column.in_(bindparam(name, expanding=True))

    def given_rows(self, name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
        """``JSON_TABLE``."""
        rows = text(f"SELECT * FROM {json_table(f':{name}', columns, 'given_json')}")
        return rows.columns(**columns).subquery("given")

    # Statements

    def from_given(self, statement: Update) -> Update:
        """``STRAIGHT_JOIN``, and by primary key."""
        return UpdateFromGiven.of(statement)

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """``INSERT IGNORE``, after a look that locks nothing: a duplicate would be locked until the end."""
        keys = [column for column in table.primary_key if column.name in names]
        there = exists().select_from(table).where(*(column == bindparam(column.name) for column in keys))
        values = select(*(bindparam(name, type_=table.c[name].type).label(name) for name in names))
        absent = values.select_from(text("DUAL")).where(~there.correlate(None))
        return insert(table).from_select(list(names), absent).prefix_with("IGNORE")

    def count_up(self) -> Any:
        """``ON DUPLICATE KEY UPDATE``, adding."""
        stats, keys = self.tables.stats, ("minute", "queue", "name", "shard")
        counters = ("succeeded", "failed", "dead", "cancelled", "run_seconds")
        counted = insert(stats).values({name: bindparam(name) for name in (*keys, *counters)})
        return counted.on_duplicate_key_update({name: stats.c[name] + counted.inserted[name] for name in counters})

    def add_deaths(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """``ON DUPLICATE KEY UPDATE``, adding."""
        died = insert(self.tables.deaths).values(rows)
        c, given = self.tables.deaths.c, died.inserted
        added = died.on_duplicate_key_update(
            deaths=c.deaths + given.deaths,
            first_at=func.least(c.first_at, given.first_at),
            last_at=func.greatest(c.last_at, given.last_at),
        )
        connection.execute(added)

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """What waits for jobs reaches them by primary key: a scan would wait for rows that it does not want."""
        jobs = self.tables.jobs
        if not skip and query.get_final_froms() == [jobs]:
            query = query.with_hint(jobs, "FORCE INDEX (PRIMARY)")
        return super().locked(query, skip=skip)

    def operations(self, database: Database) -> Operations:  # noqa: ARG002
        """Few statements, each by primary key or along the claim index."""
        from sloppyjobs.storage.dialects.mariadb.operations import OPERATIONS  # noqa: PLC0415 - knows the dialect

        return OPERATIONS

    def checks(self) -> Mapping[str, Check]:
        """The server, its settings, its locks and the plan of the claim."""
        from sloppyjobs.storage.dialects.mariadb import doctor  # noqa: PLC0415 - needed by `doctor` alone

        return doctor.CHECKS

    # Tables and common forms of SQL

    style = STYLE
    # A text that equals a constant is not seen to be fixed, but is passed over in the index: the orders do not match.
    orders_by_fixed = False

    # URLs

    default_port = 3306

    def place(self, url: URL) -> tuple[Any, ...] | None:
        """A socket, a file of settings or a service says nothing."""
        if {"unix_socket", "read_default_file", "read_default_group"} & url.query.keys():
            return None
        return super().place(url)


LOCK_WAIT = 5.0
"""Seconds that a statement of ours waits for a row lock before the transaction is tried again."""
