"""Rows of jobs and attempts: what they keep free, and how those of earlier versions get it."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from sloppyjobs import Jobs, storage
from sloppyjobs.storage.schema.version import VERSION

VERSION_21 = (
    "ALTER TABLE sloppy_jobs ADD COLUMN is_running SMALLINT AS (CASE WHEN status = 'processing' THEN 1 END) STORED",
    "ALTER TABLE sloppy_job_attempts DROP COLUMN room",
    "ALTER TABLE sloppy_jobs DROP COLUMN room",
    "CREATE INDEX ix_sloppy_jobs_lease ON sloppy_jobs (is_running, locked_until)",
    "DROP INDEX ix_sloppy_jobs_list ON sloppy_jobs",
    "CREATE INDEX ix_sloppy_jobs_list ON sloppy_jobs (status, created_at)",
)
"""From the tables of today to those of version 21. What an upgrade does last is undone first."""


def _value(connection: Connection, sql: str) -> Any:
    return connection.execute(text(sql)).scalar_one()


def test_a_row_has_room_for_what_a_claim_writes(jobs: Jobs) -> None:
    """A row that grows makes InnoDB reorganize its page, which took more time than everything else in a claim."""
    jobs.enqueue("greet")
    engine = jobs.storage.engine
    room, status = "SELECT length(room) FROM sloppy_jobs", "SELECT length(status) FROM sloppy_jobs"
    with engine.connect() as connection:
        before = _value(connection, room) + _value(connection, status)
    worker = jobs.create_worker()
    [claim] = jobs.claim(worker.id)
    with engine.connect() as connection:
        # A lease takes 8 bytes, as every instant does.
        assert _value(connection, f"{status} WHERE room IS NULL") + len(worker.id) + 8 <= before
        of_attempt = _value(connection, "SELECT length(room) + length(status) FROM sloppy_job_attempts")
    jobs.complete(claim)
    with engine.connect() as connection:
        ended = "SELECT length(status) + 16 FROM sloppy_job_attempts WHERE room IS NULL AND finished_at IS NOT NULL"
        assert _value(connection, ended) <= of_attempt
        assert _value(connection, "SELECT count(*) FROM sloppy_jobs WHERE room IS NULL") == 1


@pytest.mark.parametrize("undone", range(1, len(VERSION_21) + 1))
def test_tables_of_version_21_are_upgraded_from_wherever_an_upgrade_was_killed(mariadb_url: str, undone: int) -> None:
    made = storage.from_url(mariadb_url)
    jobs = Jobs(made)
    jobs.define("greet", lambda _ctx, _payload: "hello")
    jobs.enqueue_many([("greet", n) for n in range(3)])
    done, held = jobs.claim("w1", limit=2)
    jobs.complete(done)
    with made.database.writing() as connection:
        for statement in (*VERSION_21[:undone], "UPDATE sloppy_job_schema SET version_num = '0021'"):
            connection.exec_driver_sql(statement)
    upgraded = storage.from_url(mariadb_url)
    assert upgraded.init() == VERSION
    with upgraded.engine.connect() as connection:
        options = {
            "include_name": lambda name, kind, _parents: kind != "schema" or name == upgraded.tables.schema,
            "version_table": upgraded.tables.schema_name,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, upgraded.tables.metadata) == []
    jobs.complete(held)
    assert jobs.create_worker().run_once() == 1
    assert len(jobs.admin.list_jobs("succeeded")) == 3
    upgraded.close()
    made.close()
