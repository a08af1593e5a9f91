"""The common forms of SQL are ones that further databases take: SQLAlchemy can write them, and they can be parsed.

No server is asked. What a database refuses all the same shows in the conformance suite over it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import sqlglot
from plain_stores import PlainSqlite, database_by
from sqlalchemy import CompoundSelect, Delete, Dialect, Insert, Select, Update, event, make_url
from sqlalchemy.dialects import mssql, mysql
from sqlalchemy.dialects.mysql.mariadb import MariaDBDialect
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert

from sloppyjobs import Jobs
from sloppyjobs.storage import FakeClock, SqlStore
from sloppyjobs.storage.schema.style import ColumnTypes

DATABASES: dict[str, tuple[Callable[..., Dialect], str]] = {
    "mariadb": (MariaDBDialect, "mysql"),
    "mysql": (mysql.dialect, "mysql"),
    "sqlserver": (mssql.dialect, "tsql"),
}
NOON = "2026-01-01T12:00:00Z"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The statements by which jobs are written, run, listed, counted, commanded and removed."""
    clock = FakeClock(NOON)
    url = make_url(f"sqlite:///{tmp_path_factory.mktemp('common') / 'jobs.db'}")
    store = SqlStore(database_by(PlainSqlite, url, clock))
    store.init()
    seen: list[Any] = []
    event.listen(store.engine, "before_execute", lambda _connection, statement, *_rest: seen.append(statement))
    jobs = Jobs(store)
    _use(jobs, clock)
    store.close()
    # A dialect says itself how it inserts where a row may exist, and SQLAlchemy how savepoints are set.
    common = Select | CompoundSelect | Insert | Update | Delete
    return [one for one in seen if isinstance(one, common) and not isinstance(one, SqliteInsert)]


def _use(jobs: Jobs, clock: FakeClock) -> None:
    admin = jobs.admin
    jobs.define("works", lambda ctx, payload: 1)
    jobs.define("fails", lambda ctx, payload: 1 / 0)
    jobs.recurring("minutely", "works", every=60)
    failing = [jobs.enqueue("fails", max_attempts=1, priority=place % 2) for place in range(4)]
    jobs.enqueue("works", delay=600)
    clock.advance(120)
    jobs.tick_recurring()
    jobs.create_worker().run_once()
    waiting = [jobs.enqueue("works") for _ in range(3)]
    with jobs.lock("report", ttl=1):
        pass
    page = admin.list_jobs(page_size=2, queue="default")
    admin.list_jobs(page_size=2, cursor=page.next_cursor, queue="default")
    admin.list_jobs("scheduled", order="run_at")
    for read in (admin.overview, admin.dead_groups, admin.list_queues, admin.list_workers, admin.list_locks):
        read()
    for read in (admin.audit, admin.known_names, admin.list_recurring, lambda: admin.stats(60)):
        read()
    for job in (failing[0], waiting[-1]):
        admin.get_job(job.id), admin.explain(job.id), admin.attempts(job.id), admin.events(job.id), admin.logs(job.id)
    admin.retry(failing[0].id, actor="ada")
    admin.pause_queue("default", actor="ada")
    clock.advance(timedelta(days=4_000))
    admin.purge()


@pytest.mark.parametrize("database", DATABASES)
def test_the_common_statements_can_be_written_for_other_databases(
    executed: list[Any], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The one form that has no common one.
    monkeypatch.setattr(ColumnTypes, "later", lambda _types, instant, seconds: f"later({instant}, {seconds})")
    make, parser = DATABASES[database]
    written = {_written(statement, make(paramstyle="named")) for statement in executed}
    assert len(written) > 60
    for statement in written:
        sqlglot.parse_one(statement, read=parser)
        assert not re.search(r"IN \(SELECT[^()]*LIMIT", statement), statement
        if database == "sqlserver":
            # Rows that are given come in a form of the dialect's own, here SQLite's.
            assert "LIMIT" not in statement.replace("LIMIT -1", ""), statement


def _written(statement: Any, dialect: Dialect) -> str:
    return re.sub(r":\w+|__\[POSTCOMPILE_[^\]]+\]", "1", str(statement.compile(dialect=dialect)))


def test_the_statements_are_of_every_kind(executed: list[Any]) -> None:
    kinds = {type(statement).__name__ for statement in executed}
    assert {"Select", "CompoundSelect", "Insert", "Update", "Delete"} <= kinds
