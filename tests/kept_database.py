"""PostgreSQL databases that are emptied after a test instead of made for each, and their URLs by other drivers."""

from __future__ import annotations

import itertools
import os
from typing import Any, Self

import psycopg
from sqlalchemy import make_url

from sloppyjobs.storage.schema.tables import Tables

_VERSION_TABLE = Tables().schema_name
_OURS = sorted({table.name for table in Tables().metadata.tables.values()} | {_VERSION_TABLE})

# Only what was written to is emptied: each truncated table costs new files for it and for its indexes. And truncated,
# not deleted from, because the planner looks at the size of the files.
_EMPTY = f"""
DO $$ DECLARE strangers text; used text; BEGIN
  SELECT string_agg(format('%I', relname), ', ') INTO strangers FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> ALL ('{{{",".join(_OURS)}}}');
  IF strangers IS NOT NULL THEN EXECUTE 'DROP TABLE ' || strangers; END IF;
  SELECT string_agg(format('%I', relname), ', ') INTO used FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> '{_VERSION_TABLE}'
      AND pg_relation_size(oid) > 0;
  IF used IS NOT NULL THEN EXECUTE 'TRUNCATE ' || used || ' RESTART IDENTITY CASCADE'; END IF;
END $$
"""

# What a test may have altered and emptying does not put back: the version, columns, indexes, options of tables,
# constraints, functions, triggers, schemas, settings of the database, statistics of the planner.
_STATE = f"""
WITH ours AS (SELECT * FROM pg_class
  WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_' OR nspname = 'information_schema'))
SELECT
  (SELECT string_agg(v::text, ';') FROM {_VERSION_TABLE} v),
  (SELECT md5(string_agg(concat_ws(':', relname, relkind, reloptions, relacl), ';' ORDER BY relname)) FROM ours),
  (SELECT md5(string_agg(concat_ws(':', relname, attname, atttypid, attnotnull, atthasdef, attstattarget), ';'
    ORDER BY relname, attnum)) FROM pg_attribute JOIN ours ON ours.oid = attrelid WHERE attnum > 0),
  (SELECT md5(string_agg(pg_get_indexdef(indexrelid) || indisvalid, ';' ORDER BY indexrelid::regclass::text))
    FROM pg_index JOIN ours ON ours.oid = indexrelid),
  (SELECT md5(string_agg(conname || pg_get_constraintdef(pg_constraint.oid), ';' ORDER BY conname))
    FROM pg_constraint JOIN ours ON ours.oid = conrelid),
  (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace),
  (SELECT count(*) FROM pg_trigger JOIN ours ON ours.oid = tgrelid),
  (SELECT count(*) FROM pg_namespace),
  (SELECT count(*) FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase
    WHERE datname = current_database()),
  (SELECT count(*) FROM pg_statistic JOIN ours ON ours.oid = starelid)
"""


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

    def rename(self, name: str, new_name: str) -> None:
        """Give a database another name; who is connected to it is disconnected."""
        while True:
            self.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'")
            try:
                self.execute(f'ALTER DATABASE "{name}" RENAME TO "{new_name}"')
            except psycopg.errors.ObjectInUse:
                continue  # somebody connected in between
            return

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class KeptDatabases:
    """Databases with the schema in place: emptied when a test gives one back, and made anew only if it altered it."""

    def __init__(self, server: Server, template: str) -> None:
        self._server = server
        self._template = template
        self._spare: list[str] = []
        self._expected = self._emptied(template)
        assert self._expected is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        while self._spare:
            self._server.drop(self._spare.pop())

    def take(self) -> str:
        """The name of an empty database of one's own."""
        if self._spare:
            return self._spare.pop()
        name = self._server.new_name()
        self._server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{self._template}" STRATEGY FILE_COPY')
        return name

    def give_back(self, name: str) -> None:
        """Empty it for the next test.

        It gets another name, so that a thread or a process which the test has left behind cannot find it.
        """
        renamed = self._server.new_name()
        self._server.rename(name, renamed)
        if self._emptied(renamed) == self._expected:
            self._spare.append(renamed)
        else:
            self._server.drop(renamed)

    def _emptied(self, name: str) -> tuple[Any, ...] | None:
        try:
            with psycopg.connect(self._server.url_of(name), autocommit=True) as connection:
                connection.execute(_EMPTY)
                return connection.execute(_STATE).fetchone()
        except psycopg.Error:
            return None  # what a test has done to it is not worth mending
