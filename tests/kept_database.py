"""PostgreSQL databases that are emptied after a test instead of made for each, and their URLs by other drivers."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from kept_connections import KeptConnections
from sqlalchemy import make_url

from sloppyjobs.storage.schema.tables import Tables

_VERSION_TABLE = Tables().schema_name
_OURS = sorted({table.name for table in Tables().metadata.tables.values()} | {_VERSION_TABLE})

_FIRST_OF_USERS = 16384
"""Numbers below are those of PostgreSQL's own objects: there is no other that it gives to what users make."""

# What a test may have altered and emptying does not put back: the version, columns, indexes, options of tables,
# constraints, functions, triggers, schemas, settings of the database, statistics of the planner. Rows of the catalogue
# are compared as they are, since a copy of a database keeps its numbers. After that, the tables that were written to,
# the size of the largest, and the tables that are not ours.
_STATE = f"""
SELECT
  (SELECT string_agg(v::text, ';') FROM {_VERSION_TABLE} v),
  (SELECT sum(hashtextextended(concat_ws(':', oid, relname, relkind, reloptions, relacl), 0)) FROM pg_class
    WHERE oid >= {_FIRST_OF_USERS}),
  (SELECT sum(hashtextextended(
      concat_ws(':', attrelid, attname, attnum, atttypid, attnotnull, atthasdef, attstattarget), 0))
    FROM pg_attribute WHERE attrelid >= {_FIRST_OF_USERS} AND attnum > 0),
  (SELECT sum(hashtextextended(i::text, 0)) FROM pg_index i WHERE indexrelid >= {_FIRST_OF_USERS}),
  (SELECT sum(hashtextextended(c::text, 0)) FROM pg_constraint c WHERE conrelid >= {_FIRST_OF_USERS}),
  (SELECT count(*) FROM pg_proc WHERE oid >= {_FIRST_OF_USERS}),
  (SELECT count(*) FROM pg_trigger WHERE tgrelid >= {_FIRST_OF_USERS}),
  (SELECT count(*) FROM pg_namespace),
  (SELECT count(*) FROM pg_db_role_setting
    WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())),
  (SELECT count(*) FROM pg_statistic WHERE starelid >= {_FIRST_OF_USERS}),
  (SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
    WHERE oid >= {_FIRST_OF_USERS} AND relkind = 'r' AND relname <> '{_VERSION_TABLE}' AND pg_relation_size(oid) > 0),
  (SELECT max(pg_relation_size(oid)) FROM pg_class WHERE oid >= {_FIRST_OF_USERS} AND relkind = 'r'),
  (SELECT string_agg(oid::regclass::text, ', ') FROM pg_class
    WHERE oid >= {_FIRST_OF_USERS} AND relnamespace = 'public'::regnamespace AND relkind = 'r'
      AND relname <> ALL ('{{{",".join(_OURS)}}}'))
"""

_LARGE = 10 * 8192
"""The planner takes a table that was never analysed for one of ten pages, as long as it has no more. So up to this size
a table from which all rows are deleted is planned for like a new one."""
_RESTART_IDENTITY = f"SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S' AND oid >= {_FIRST_OF_USERS}"


def url_by(driver: str, url: str) -> str:
    """The URL of the same database for another driver."""
    found = make_url(url).set(drivername=f"postgresql+{driver}")
    folder = found.query.get("host")
    if driver == "pg8000" and folder:
        # It knows no folder of sockets, only the socket itself.
        found = found.set(query={"unix_sock": f"{folder}/.s.PGSQL.{found.port or 5432}"})
    return found.render_as_string(hide_password=False)


class Server:
    """A PostgreSQL server: makes and drops databases over one connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._numbers = itertools.count()

    def new_name(self) -> str:
        """A name that no database has had."""
        return f"sloppy_{os.getpid()}_{next(self._numbers)}"

    def url_of(self, name: str) -> str:
        """The URL of a database."""
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def execute(self, statement: str) -> None:
        """Run a statement outside of any transaction."""
        self._connection.execute(statement)

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    @contextmanager
    def empty_database(self) -> Iterator[str]:
        """The URL of a database without our tables, which is dropped at the end."""
        name = self.new_name()
        self.execute(f'CREATE DATABASE "{name}"')
        try:
            yield self.url_of(name)
        finally:
            self.drop(name)

    def disconnect(self, name: str) -> bool:
        """End whoever is connected to a database, without waiting for it; whether somebody was."""
        ended = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"
        found = self._connection.execute(ended).fetchone()
        return found is not None and found[0] > 0

    def rename(self, name: str, new_name: str) -> None:
        """Give a database another name; who is connected to it is disconnected."""
        while True:
            # The server itself looks only every 100 ms whether they are gone.
            while self.disconnect(name):
                time.sleep(0.001)
            try:
                self.execute(f'ALTER DATABASE "{name}" RENAME TO "{new_name}"')
            except psycopg.errors.ObjectInUse:
                continue  # somebody connected in between
            return

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class KeptDatabases:
    """Databases with the schema in place: emptied after a test instead of made anew, unless it altered them."""

    def __init__(self, server: Server, template: str) -> None:
        self._server = server
        self.template = template
        self._used: deque[str] = deque()
        self._expected = self._emptied(template)
        assert self._expected is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        while self._used:
            self._server.drop(self._used.pop())

    def take(self) -> str:
        """The name of an empty database of one's own."""
        # Not the one that was given back last: its connections are still being closed, which would have to be awaited.
        while len(self._used) > 1:
            cleaned = self._cleaned(self._used.popleft())
            if cleaned:
                return cleaned
        name = self._server.new_name()
        self._server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{self.template}" STRATEGY FILE_COPY')
        return name

    def give_back(self, name: str) -> None:
        """Let another test have it."""
        self._server.disconnect(name)
        self._used.append(name)

    def _cleaned(self, name: str) -> str | None:
        """The name of the database when it is as good as new; otherwise it is dropped.

        It gets another name, so that a thread or a process which a test has left behind cannot find it.
        """
        renamed = self._server.new_name()
        self._server.rename(name, renamed)
        if self._emptied(renamed) == self._expected:
            return renamed
        self._server.drop(renamed)
        return None

    def _emptied(self, name: str) -> tuple[Any, ...] | None:
        """What is left of it besides empty tables of ours."""
        try:
            with psycopg.connect(self._server.url_of(name), autocommit=True) as connection:
                return emptied(connection)
        except psycopg.Error:
            return None  # what a test has done to it is not worth mending


def emptied(connection: psycopg.Connection[Any], *, keep_files: bool = False) -> tuple[Any, ...]:
    """Empty the tables of a database, and drop those that are not ours; what else there is in it."""
    *state, used, largest, strangers = connection.execute(_STATE).fetchone() or ()
    if strangers:
        connection.execute(f"DROP TABLE {strangers}")
        *state, used, largest, _ = connection.execute(_STATE).fetchone() or ()
    if used and keep_files and largest <= _LARGE:
        connection.execute("; ".join(f"DELETE FROM {table}" for table in used.split(", ")))
        connection.execute(_RESTART_IDENTITY)
    elif used:
        # Only what was written to: each truncated table costs new files for it and for its indexes.
        connection.execute(f"TRUNCATE {used} RESTART IDENTITY CASCADE")
    return tuple(state)


class WarmDatabase:
    """One database that tests hand on with the connections to it, for tests that start no processes."""

    def __init__(self, server: Server, template: str) -> None:
        self._server = server
        self._template = template
        self._connections = KeptConnections()
        self._name: str | None = None
        self._watch: psycopg.Connection[Any] | None = None
        self._expected: tuple[Any, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connections.close()
        self._give_up()

    def take(self) -> str:
        """The name of the database, which is empty; a new one, if there is none."""
        if self._name is None:
            name = self._server.new_name()
            self._server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{self._template}" STRATEGY FILE_COPY')
            self._watch = psycopg.connect(self._server.url_of(name), autocommit=True)
            self._expected = emptied(self._watch)
            self._name = name
        self._connections.begin(self._name)
        return self._name

    def give_back(self) -> None:
        """Make it as good as new; where that is not possible, it is dropped."""
        assert self._watch is not None
        try:
            self._disconnect(self._watch)
            good = emptied(self._watch, keep_files=True) == self._expected
        except psycopg.Error:
            good = False
        if not good:
            self._give_up()

    def _disconnect(self, watch: psycopg.Connection[Any]) -> None:
        """End who is connected besides those who are kept: connections that a test, or a thread of it, left open."""
        if _others(watch) == self._connections.count:
            return
        self._connections.drop()
        while _others(watch):
            watch.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            time.sleep(0.001)

    def _give_up(self) -> None:
        self._connections.drop()
        if self._watch is not None and self._name is not None:
            self._watch.close()
            self._server.drop(self._name)
        self._name = self._watch = None


def _others(watch: psycopg.Connection[Any]) -> int:
    """How many connections to the database there are besides this one."""
    counted = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    found = watch.execute(counted).fetchone()
    return int(found[0]) if found else 0
