"""One PostgreSQL database for many tests, and its URL by other drivers."""

from __future__ import annotations

import os
from typing import Self

from sqlalchemy import create_engine, make_url

from sloppyjobs.storage.schema_version import VERSION
from sloppyjobs.storage.tables import Tables


def url_by(driver: str, url: str) -> str:
    """The URL of the same database for another driver."""
    found = make_url(url).set(drivername=f"postgresql+{driver}")
    folder = found.query.get("host")
    if driver == "pg8000" and folder:
        # It knows no folder of sockets, only the socket itself.
        found = found.set(query={"unix_sock": f"{folder}/.s.PGSQL.{found.port or 5432}"})
    return found.render_as_string(hide_password=False)


class KeptDatabase:
    """A database that is emptied after each test instead of being made for each."""

    def __init__(self, server: str, template: str) -> None:
        self._name = f"sloppy_kept_{os.getpid()}"
        self._template = template
        self._server = create_engine(url_by("psycopg", server), isolation_level="AUTOCOMMIT")
        self.url = make_url(server).set(database=self._name).render_as_string(hide_password=False)
        self._engine = create_engine(url_by("psycopg", self.url))

    def __enter__(self) -> Self:
        self._administer(f'CREATE DATABASE "{self._name}" TEMPLATE "{self._template}" STRATEGY FILE_COPY')
        return self

    def __exit__(self, *_error: object) -> None:
        self._engine.dispose()
        self._administer(f'DROP DATABASE "{self._name}" WITH (FORCE)')
        self._server.dispose()

    def empty(self) -> None:
        """Remove every row, and the tables that are not ours."""
        ours = Tables(dialect="postgresql")
        known = {table.name for table in ours.metadata.tables.values()} | {ours.schema_name}
        with self._engine.begin() as connection:
            there = connection.exec_driver_sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").scalars()
            statements = [f'DROP TABLE "{name}"' for name in there if name not in known]
            statements += [f"DELETE FROM {table.name}" for table in reversed(ours.metadata.sorted_tables)]
            statements += [f"UPDATE {ours.schema_name} SET version_num = '{VERSION:04}'"]
            connection.exec_driver_sql("; ".join(statements))

    def _administer(self, statement: str) -> None:
        with self._server.connect() as connection:
            connection.exec_driver_sql(statement)
