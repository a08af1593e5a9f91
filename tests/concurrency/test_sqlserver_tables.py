"""The tables in SQL Server: migrations make what the code expects."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlserver_databases import SqlServer

from sloppyjobs import Jobs, storage
from sloppyjobs.storage.schema import migrate
from sloppyjobs.storage.schema.version import VERSION

COLUMNS = """
SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, collation_name
FROM information_schema.columns WHERE table_name LIKE 'sloppy%' AND table_name <> 'sloppy_job_schema'
ORDER BY table_name, column_name
"""
INDEXES = """
SELECT t.name, i.name, i.is_unique, i.is_primary_key FROM sys.indexes i JOIN sys.tables t ON t.object_id = i.object_id
WHERE t.name LIKE 'sloppy%' AND t.name <> 'sloppy_job_schema' AND i.name LIKE '%x_sloppy%' ORDER BY t.name, i.name
"""

FIRST_JOB = """
INSERT INTO sloppy_jobs
    (id, name, queue, status, priority, run_at, created_at, updated_at, attempt_count, max_attempts, payload)
VALUES (:id, 'greet', 'default', 'queued', 0, :now, :now, :now, 0, 3, '1')
"""
"""A row of the columns that the first version has."""


def read(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def test_migrations_and_a_clean_install_give_the_same_tables(sqlserver: SqlServer, sqlserver_url: str) -> None:
    migrated = storage.from_url(sqlserver_url)
    created = storage.from_url(sqlserver.url_of(sqlserver.create()))
    created.tables.metadata.create_all(created.engine)
    columns = read(migrated.engine, COLUMNS)
    assert len(columns) > 150
    assert columns == read(created.engine, COLUMNS)
    assert read(migrated.engine, INDEXES) == read(created.engine, INDEXES)


def test_rows_of_every_version_are_there_after_the_upgrades(
    sqlserver: SqlServer, empty_sqlserver_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = storage.from_url(empty_sqlserver_url)
    for version in range(1, VERSION):
        monkeypatch.setattr(migrate, "VERSION", version)
        monkeypatch.setattr(migrate, "HEAD", f"{version:04}")
        assert store.init() == store.schema_version() == version
        with store.engine.begin() as connection:
            connection.execute(text(FIRST_JOB), {"id": f"job_{version}", "now": "2030-01-01 12:00:00.000000"})
    monkeypatch.undo()
    assert store.init() == store.schema_version() == VERSION
    jobs = Jobs(store)
    assert [jobs.get(f"job_{version}").status for version in range(1, VERSION)] == ["queued"] * (VERSION - 1)
    created = storage.from_url(sqlserver.url_of(sqlserver.create()))
    created.tables.metadata.create_all(created.engine)
    for query in (COLUMNS, INDEXES):
        assert read(store.engine, query) == read(created.engine, query)
