"""Tables on a database that has no partial indexes, or has other means in their stead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from plain_stores import PlainSqlite, database_by
from sqlalchemy import Column, Computed, String, inspect, make_url

from sloppyjobs import Jobs
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.schema.style import COMMON_STYLE, IndexForm, TableStyle


class GeneratedColumns(TableStyle):
    """A generated column, null where the predicate does not hold, stands for the predicate of the index of claims."""

    table_settings = {"jobs": "CREATE TABLE IF NOT EXISTS settings_of_{table} (one INTEGER)"}  # noqa: RUF012

    def own_columns(self, table: str) -> tuple[Column[Any], ...]:
        """The queue of jobs that are queued."""
        if table != "jobs":
            return ()
        return (Column("queued_in", String(128), Computed("CASE WHEN status = 'queued' THEN queue END")),)

    def partial_index(self, columns: tuple[str, ...], where: str, *, distinct: bool = False) -> IndexForm:
        """By the generated column instead of the queue."""
        of_claims = where == "status = 'queued'"
        return IndexForm(("queued_in", *columns[1:]) if of_claims else columns)


class GeneratedSqlite(PlainSqlite):
    """The plain dialect with generated columns."""

    style = GeneratedColumns()


@pytest.fixture(params=[PlainSqlite, GeneratedSqlite])
def store(request: pytest.FixtureRequest, sqlite_url: str) -> Iterator[SqlStore]:
    """A store whose tables were made in the style of this dialect."""
    made = SqlStore(database_by(request.param, make_url(sqlite_url)))
    made.init()
    yield made
    made.close()


def test_the_migrations_make_the_tables_of_every_style(store: SqlStore) -> None:
    with store.engine.connect() as connection:
        options = {
            "version_table": store.tables.schema_name,
            "include_name": lambda name, kind, _: kind != "table" or not name.startswith("settings_of_"),
        }
        context = MigrationContext.configure(connection, opts=options)
        assert list(compare_metadata(context, store.tables.metadata)) == []


def test_jobs_run_in_tables_of_every_style(store: SqlStore) -> None:
    jobs = Jobs(store)
    jobs.define("greet", lambda ctx, payload: "hello")
    job = jobs.enqueue("greet")
    assert [one.id for one in jobs.admin.list_jobs("queued")] == [job.id]
    jobs.create_worker().run_once()
    assert jobs.get(job.id).result == "hello"
    assert [one.id for one in jobs.admin.list_jobs("succeeded")] == [job.id]


@pytest.mark.parametrize("store", [PlainSqlite], indirect=True)
def test_the_common_style_has_no_predicates(store: SqlStore) -> None:
    assert store.tables.style is COMMON_STYLE
    indexes = inspect(store.engine).get_indexes("sloppy_jobs")
    assert len(indexes) == len(store.tables.jobs.indexes)
    assert [index for index in indexes if index.get("dialect_options")] == []


@pytest.mark.parametrize("store", [GeneratedSqlite], indirect=True)
def test_a_style_has_its_own_columns_and_settings(store: SqlStore) -> None:
    there = inspect(store.engine)
    [claim] = [index for index in there.get_indexes("sloppy_jobs") if index["name"] == "ix_sloppy_jobs_claim"]
    assert claim["column_names"][0] == "queued_in"
    assert there.has_table("settings_of_sloppy_jobs")
