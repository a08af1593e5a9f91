"""The tables: what ``init`` makes, what people apply by hand, and installations side by side."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Any

import psycopg
import pymysql
import pytest
import sqlglot
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pymysql.constants import CLIENT
from sqlalchemy import create_engine, inspect, make_url, select, text

from sloppyjobs import DriverMissing, InvalidOption, Jobs, Keyring, SchemaMissing, SchemaVersionMismatch, storage
from sloppyjobs.internals import internals
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.storage.schema import migrate
from sloppyjobs.storage.schema import version as schema_version
from sloppyjobs.storage.schema.version import VERSION

SEEDED = ("job_schema", "jobs", "job_attempts", "recurring_jobs", "job_workers", "job_locks", "job_events")


OF_WORKERS = ("wanted", "memory", "done", "failed", "app_version")
AGEING = (
    *("ageing_seconds", "ageing_most"),
    *("ageing_declared_as", "ageing_application", "ageing_vanished_at"),
)
OF_LATER_VERSIONS = (
    *("business_key", "superseded_by", "supersedes", "expires_at", "tags"),
    *("waiting_for", "workflow_id", "batch_id", "resource", "partition_key", "payload_version"),
    "base_priority",
)

EMPTY = {"sqlite": "sqlite_url", "postgres": "empty_postgres_url", "mariadb": "empty_mariadb_url"}


@pytest.fixture(params=EMPTY)
def empty_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database without our tables; the test runs once on each kind."""
    url: str = request.getfixturevalue(EMPTY[request.param])
    return url


@pytest.fixture
def empty(empty_url: str) -> Iterator[SqlStore]:
    """A storage over it."""
    made = storage.from_url(empty_url)
    yield made
    made.close()


def differences(made: SqlStore) -> list[Any]:
    """What Alembic would still have to change to make the tables like the code's."""
    with made.engine.connect() as connection:
        options = {
            "compare_type": True,
            "compare_server_default": True,
            "include_schemas": made.tables.schema is not None,
            "include_name": lambda name, kind, parents: kind != "schema" or name == made.tables.schema,
            "version_table": made.tables.schema_name,
            "version_table_schema": made.tables.schema,
        }
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), made.tables.metadata))


def apply_by_hand(made: SqlStore) -> None:
    """What somebody does who runs the printed statements in the database's own shell."""
    url = made.engine.url
    if made.dialect.name == "sqlite":
        with sqlite3.connect(str(url.database)) as connection:
            connection.executescript(made.ddl())
        connection.close()
    elif made.dialect.name == "mysql":
        place = {"host": url.host, "port": url.port, "user": url.username, "database": url.database}
        with pymysql.connect(**place, client_flag=CLIENT.MULTI_STATEMENTS) as server, server.cursor() as cursor:
            cursor.execute(made.ddl())
            while cursor.nextset():
                pass
    else:
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True) as server:
            server.execute(made.ddl().encode())


def test_init_makes_the_tables_and_returns_the_version(empty: SqlStore) -> None:
    assert empty.schema_version() is None
    assert empty.init() == VERSION
    assert empty.schema_version() == VERSION
    assert {f"sloppy_{name}" for name in SEEDED} <= set(inspect(empty.engine).get_table_names())


def test_the_version_has_its_time(empty: SqlStore) -> None:
    before = empty.clock.now()
    empty.init()
    with empty.engine.connect() as connection:
        [(version, moment)] = connection.execute(select(schema_version.table(empty.tables))).all()
    assert version == f"{VERSION:04}"
    assert before <= moment <= empty.clock.now()


def test_the_migrations_make_what_the_code_expects(empty: SqlStore) -> None:
    empty.init()
    assert differences(empty) == []


def test_version_4_is_upgraded_with_its_jobs(empty: SqlStore) -> None:
    empty.init()
    jobs = Jobs(empty)
    jobs.declare("greet")
    job = jobs.enqueue("greet", max_attempts=1)
    jobs.fail(jobs.claim("w1")[0], ValueError("no"))
    on_mariadb = empty.dialect.name == "mysql"
    of_jobs, marked = (" ON sloppy_jobs", "is_dead, ") if on_mariadb else ("", "")
    of_archive = " ON sloppy_job_archive" if on_mariadb else ""
    with empty.database.writing() as connection:
        for statement in (
            "DROP TABLE sloppy_job_steps",
            "DROP TABLE sloppy_job_workflows",
            f"DROP INDEX ix_sloppy_jobs_workflow{of_jobs}",
            "DROP TABLE sloppy_job_alerts",
            "DROP TABLE sloppy_job_alert_rules",
            *(
                f"DROP INDEX ix_sloppy_job_archive_{name}{of_archive}"
                for name in ("created", "name", "business_key", "idempotency_key")
            ),
            *(
                f"ALTER TABLE sloppy_job_archive DROP COLUMN {column}"
                for column in ("ended_as", "restored_as", "restored_at")
            ),
            *(f"DROP TABLE sloppy_job_{name}" for name in ("limits", "permits", "parked", "buckets")),
            *(f"ALTER TABLE sloppy_job_queues DROP COLUMN {name}" for name in AGEING),
            *(f"ALTER TABLE sloppy_job_workers DROP COLUMN {name}" for name in OF_WORKERS),
            "DROP TABLE sloppy_job_rekeys",
            "DROP TABLE sloppy_job_deploys",
            "DROP TABLE sloppy_job_batch_counts",
            "DROP TABLE sloppy_job_batch_members",
            "DROP TABLE sloppy_job_batches",
            f"DROP INDEX ix_sloppy_jobs_batch{of_jobs}",
            "DROP TABLE sloppy_job_dependencies",
            "DROP TABLE sloppy_job_tags",
            "DROP TABLE sloppy_job_expiries",
            "DROP TABLE sloppy_job_keys",
            f"DROP INDEX ix_sloppy_jobs_business_key{of_jobs}",
            *(
                f"ALTER TABLE sloppy_{table} DROP COLUMN {column}"
                for table in ("jobs", "job_archive")
                for column in OF_LATER_VERSIONS
            ),
            "DROP TABLE sloppy_job_form_keys",
            "DROP TABLE sloppy_job_retry_members",
            "DROP TABLE sloppy_job_retry_runs",
            "DROP TABLE sloppy_job_deaths",
            "ALTER TABLE sloppy_job_queues DROP COLUMN paused_by",
            "ALTER TABLE sloppy_job_queues DROP COLUMN pause_reason",
            "DROP TABLE sloppy_job_throttles",
            f"DROP INDEX ix_sloppy_jobs_dead{of_jobs}",
            "ALTER TABLE sloppy_jobs DROP COLUMN followups",
            "ALTER TABLE sloppy_job_archive DROP COLUMN followups",
            "ALTER TABLE sloppy_jobs DROP COLUMN progress_fields",
            "ALTER TABLE sloppy_job_archive DROP COLUMN progress_fields",
            f"CREATE INDEX ix_sloppy_jobs_dead ON sloppy_jobs ({marked}error_type, error_frame, created_at, id)"
            + ("" if on_mariadb else " WHERE status = 'dead'"),
            "UPDATE sloppy_job_schema SET version_num = '0004'",
        ):
            connection.exec_driver_sql(statement)
    assert empty.schema_version() == 4
    assert empty.init() == VERSION
    assert differences(empty) == []
    assert jobs.get(job.id).progress_fields == {}
    assert [(one.name, one.count.value) for one in jobs.admin.dead_groups()] == [("greet", 1)]


def test_rows_of_every_version_are_there_after_the_upgrades(empty: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = "id, name, queue, status, priority, run_at, created_at, updated_at, attempt_count, max_attempts, payload"
    for version in range(1, VERSION):
        monkeypatch.setattr(migrate, "VERSION", version)
        monkeypatch.setattr(migrate, "HEAD", f"{version:04}")
        assert empty.init() == empty.schema_version() == version
        values = {"id": f"job_{version}", "now": "2030-01-01 12:00:00.000000"}
        with empty.database.writing() as connection:
            row = ":id, 'greet', 'default', 'queued', 0, :now, :now, :now, 0, 3, '1'"
            connection.execute(text(f"INSERT INTO sloppy_jobs ({columns}) VALUES ({row})"), values)
    monkeypatch.undo()
    assert empty.init() == VERSION
    assert differences(empty) == []
    jobs = Jobs(empty)
    jobs.define("greet", lambda ctx, payload: payload)
    assert [jobs.get(f"job_{version}").status for version in range(1, VERSION)] == ["queued"] * (VERSION - 1)


def test_edges_and_members_of_version_22_are_kept(empty: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        "sloppy_job_dependencies": ("job_2", "job_1", "success", '["/rows", ">", 0]', 1),
        "sloppy_job_batch_members": ("batch_1", 0, "job_1"),
    }
    monkeypatch.setattr(migrate, "VERSION", 22)
    monkeypatch.setattr(migrate, "HEAD", "0022")
    assert empty.init() == 22
    with empty.database.writing() as connection:
        for table, row in rows.items():
            values = {f"v{place}": value for place, value in enumerate(row)}
            places = ", ".join(f":{name}" for name in values)
            connection.execute(text(f"INSERT INTO {table} VALUES ({places})"), values)
    monkeypatch.undo()
    assert empty.init() == VERSION
    assert differences(empty) == []
    with empty.engine.connect() as connection:
        for table, row in rows.items():
            assert [tuple(found) for found in connection.execute(text(f"SELECT * FROM {table}"))] == [row]
            if empty.dialect.name == "sqlite":
                made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": table})
                assert "WITHOUT ROWID" in made.scalar_one()


def test_business_keys_and_tags_of_version_27_are_kept_and_found_by_their_jobs(
    empty: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "VERSION", 27)
    monkeypatch.setattr(migrate, "HEAD", "0027")
    assert empty.init() == 27
    monkeypatch.undo()
    jobs = Jobs(empty)
    jobs.define("greet", lambda ctx, payload: payload)
    empty.database.schema_checked = True
    with empty.database.writing() as connection:
        for table in ("sloppy_job_keys", "sloppy_job_tags"):
            assert [index["column_names"] for index in inspect(connection).get_indexes(table)] == [["job_id"]]
    done, left = jobs.enqueue_many(
        [("greet", n, {"business_key": f"order-{n}", "tags": ("import", f"tenant-{n}")}) for n in range(2)]
    )
    before = _rows_of_keys_and_tags(empty)
    assert [len(rows) for rows in before] == [2, 4]

    assert empty.init() == VERSION
    assert differences(empty) == []
    assert _rows_of_keys_and_tags(empty) == before
    jobs.admin.cancel(done.id)
    jobs.admin.delete(done.id)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert empty.retention.purge(tomorrow, 10, archive=False).count == 1
    keys, tags = _rows_of_keys_and_tags(empty)
    assert ({row.job_id for row in keys}, {row.job_id for row in tags}) == ({left.id}, {left.id})
    assert [job.id for job in jobs.admin.list_jobs(tag="import").items] == [left.id]
    if empty.dialect.name == "sqlite":
        with empty.engine.connect() as connection:
            for name in ("sloppy_job_keys", "sloppy_job_tags"):
                made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": name})
                assert "WITHOUT ROWID" in made.scalar_one()


def _rows_of_keys_and_tags(store: SqlStore) -> list[list[Any]]:
    with store.engine.connect() as connection:
        tables = store.tables.keys, store.tables.tags
        return [sorted(connection.execute(table.select()), key=tuple) for table in tables]


def test_the_members_of_workflows_of_version_23_are_indexed_anew_on_sqlite(
    empty: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def indexed() -> list[str | None]:
        found = {index["name"]: index["column_names"] for index in inspect(empty.engine).get_indexes("sloppy_jobs")}
        return found["ix_sloppy_jobs_workflow"]

    monkeypatch.setattr(migrate, "VERSION", 23)
    monkeypatch.setattr(migrate, "HEAD", "0023")
    assert empty.init() == 23
    before = indexed()
    monkeypatch.undo()
    assert empty.init() == VERSION
    assert differences(empty) == []
    if empty.dialect.name == "sqlite":
        assert (before, indexed()) == (["workflow_id", "status", "id"], ["workflow_id", "id"])
    else:
        assert indexed() == before


def test_what_is_applied_by_hand_is_what_init_makes(empty: SqlStore) -> None:
    apply_by_hand(empty)
    assert differences(empty) == []
    versions = inspect(empty.engine).get_columns(empty.tables.schema_name)
    assert [column["name"] for column in versions] == ["version_num", "updated_at"]
    assert empty.init() == VERSION
    jobs = Jobs(empty)
    jobs.define("greet", lambda ctx, payload: "hello")
    job = jobs.enqueue("greet")
    jobs.create_worker().run_once()
    assert jobs.get(job.id).result == "hello"


def test_the_printed_statements_can_be_parsed(empty: SqlStore) -> None:
    names = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql"}
    statements = sqlglot.parse(empty.ddl(), dialect=names[empty.dialect.name])
    made = [statement for statement in statements if statement is not None and statement.key == "create"]
    assert len(made) >= len(empty.tables.metadata.tables) + 1


def test_printing_the_statements_writes_nothing_and_needs_no_database() -> None:
    nowhere = storage.from_url("postgresql://nobody@localhost:1/nowhere")
    assert "CREATE TABLE sloppy_jobs" in nowhere.ddl()


def test_a_missing_schema_says_which_command_creates_it(empty: SqlStore) -> None:
    jobs = Jobs(empty)
    jobs.declare("greet")
    with pytest.raises(SchemaMissing, match=r"`sloppyjobs --database \S+ init`, `flask jobs init` or jobs\.init\(\)"):
        jobs.enqueue("greet")
    assert inspect(empty.engine).get_table_names() == []


# What a call needs at the least; the others have defaults.
ARGUMENTS: dict[str, Any] = {
    "action": "retry",
    "answer": "a",
    "batch_id": "batch_1",
    "cause": "cause",
    "claimed_by": "ada",
    "client": "here",
    "concurrency": 1,
    "count": 1,
    "every": 60,
    "filter": {"status": "dead"},
    "id": "job_1",
    "items": [("greet",)],
    "job_id": "job_1",
    "job_name": "greet",
    "key": "key",
    "merge_patch": {"a": 1},
    "name": "greet",
    "names": ["api"],
    "payload": {},
    "priority": 1,
    "queues": ["default"],
    "rate": 1,
    "rule": "died",
    "schedules": [],
    "text": "rare",
    "version": "1",
    "worker_id": "worker_1",
}
NO_TABLES = {"actions", "now", "snapshot", "whole_id"}
OF_JOBS = ("claim", "chain", "enqueue", "enqueue_many", "fires", "get", "get_batch", "limit", "open_batch", "replace")
MORE_OF_JOBS = ("recurring", "signal", "tick_recurring", "wait")


def test_every_call_says_that_there_are_no_tables(empty: SqlStore) -> None:
    jobs = Jobs(empty, encryption=Keyring([Keyring.generate()]))
    jobs.define("greet", lambda ctx, payload: None)
    jobs.declare_alert("died", on="dead", deliver=lambda alert: None)
    calls = {f"admin.{name}": getattr(jobs.admin, name) for name in dir(jobs.admin) if name[0] != "_"}
    calls = {name: call for name, call in calls.items() if name.removeprefix("admin.") not in NO_TABLES}
    calls |= {name: getattr(jobs, name) for name in (*OF_JOBS, *MORE_OF_JOBS)}
    answers = {}
    for name, call in calls.items():
        parameters = signature(call).parameters
        needed = {one.name for one in parameters.values() if one.default is one.empty and one.kind < one.VAR_KEYWORD}
        needed |= {"signal": {"name", "id", "job_id"} & parameters.keys()}.get(name.removeprefix("admin."), set())
        if name in ("recurring", "admin.create_recurring", "admin.edit_recurring"):
            needed |= {"every"}
        if name in ("limit", "admin.set_limit"):
            needed |= {"concurrency"}
        try:
            answers[name] = call(**{one: ARGUMENTS[one] for one in needed - {"settings", "changes", "options"}})
        except SchemaMissing:
            pass
        except Exception as error:
            answers[name] = error
    assert answers == {}
    assert inspect(empty.engine).get_table_names() == []


def test_a_schema_that_comes_later_is_found(empty: SqlStore, empty_url: str) -> None:
    jobs = Jobs(empty)
    jobs.declare("greet")
    with pytest.raises(SchemaMissing):
        jobs.enqueue("greet")
    other = storage.from_url(empty_url)
    other.init()
    other.close()
    assert jobs.enqueue("greet").status == "queued"


def test_a_newer_schema_is_left_as_it_is(empty: SqlStore, empty_url: str) -> None:
    empty.init()
    with empty.engine.begin() as connection:
        connection.execute(text("UPDATE sloppy_job_schema SET version_num = '0099'"))
    newer = storage.from_url(empty_url)
    with pytest.raises(SchemaVersionMismatch, match=r"version 99.*newer.*Nothing was written"):
        newer.init()
    assert newer.schema_version() == 99
    newer.close()


def test_a_password_is_never_shown() -> None:
    jobs = Jobs(storage.from_url("postgresql://ada:s3cret@localhost:1/jobs"))
    with pytest.raises(SchemaMissing) as refused:
        schema_version.refuse(jobs.storage.engine.url, None)
    assert "s3cret" not in str(refused.value)
    assert "ada" in str(refused.value)


@pytest.fixture
def install() -> Iterator[Callable[..., Jobs]]:
    """Makes installations, and closes them in the end."""
    made: list[Jobs] = []

    def make(url: str, **options: Any) -> Jobs:
        jobs = Jobs(storage.from_url(url, **options))
        made.append(jobs)
        jobs.storage.init()
        jobs.declare("greet")
        return jobs

    yield make
    for jobs in made:
        jobs.storage.close()


def test_installations_with_prefixes_live_side_by_side(empty_url: str, install: Callable[..., Jobs]) -> None:
    one, other = install(empty_url), install(empty_url, prefix="other_")
    assert_separate(one, other)
    for jobs in (one, other):
        assert [found for found in differences(jobs.storage) if jobs.storage.tables.prefix in str(found)] == []


def test_installations_with_schemas_live_side_by_side(empty_postgres_url: str, install: Callable[..., Jobs]) -> None:
    plain = install(empty_postgres_url)
    tenants = [
        install(empty_postgres_url, schema="tenant_a"),
        install(empty_postgres_url, schema="Tenant-B"),
        install(empty_postgres_url, schema="tenant_a", prefix="b_"),
    ]
    for tenant in tenants:
        assert_separate(plain, tenant)
    assert_separate(tenants[0], tenants[1])
    assert differences(tenants[1].storage) == []


def test_a_schema_of_its_own_can_be_applied_by_hand(empty_postgres_url: str) -> None:
    made = storage.postgres(empty_postgres_url, schema="tenant_a")
    apply_by_hand(made)
    assert differences(made) == []
    assert made.init() == VERSION
    made.close()


def assert_separate(one: Jobs, other: Jobs) -> None:
    """What happens in one installation is not seen in the other."""
    key = f"{internals(one).ids.new('key')}"
    written = [one.enqueue("greet", 1, idempotency_key=key), *one.enqueue_many([("greet", 2)] * 2)]
    assert other.claim("w1", limit=10) == []
    assert not other.enqueue("greet", idempotency_key=key).existing
    with one.lock("nightly"), other.lock("nightly"):
        claims = one.claim("w1", limit=10)
    assert [claim.id for claim in claims] == [job.id for job in written]
    assert all(one.complete(claim) for claim in claims)
    assert [other.complete(claim) for claim in other.claim("w1", limit=10)] == [True]


# Connecting


def test_a_sqlite_file_is_kept_in_wal_and_synced_in_full(sqlite_url: str) -> None:
    for given, level in (({}, 2), ({"synchronous": "NORMAL"}, 1), ({"synchronous": "EXTRA"}, 3)):
        made = storage.sqlite(sqlite_url, **given)
        made.init()
        with made.engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == level
        made.close()
    with pytest.raises(InvalidOption, match="survives power loss"):
        storage.sqlite(sqlite_url, synchronous="OFF")


def test_an_engine_of_the_application_is_used_and_left_open(database_url: str) -> None:
    engine = create_engine(make_url(database_url).set(drivername=create_driver(database_url)))
    jobs = Jobs(engine)
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    assert jobs.storage.engine is engine
    jobs.storage.close()
    assert jobs.get(job.id) == job
    engine.dispose()


def create_driver(url: str) -> str:
    return "sqlite" if url.startswith("sqlite") else "postgresql+psycopg"


def test_a_database_in_memory_lasts_as_long_as_its_storage() -> None:
    jobs = Jobs("sqlite://")
    jobs.storage.init()
    jobs.define("greet", lambda ctx, payload: "hello")
    job = jobs.enqueue("greet")
    assert jobs.create_worker().run_once() == 1
    assert jobs.get(job.id).result == "hello"
    jobs.storage.close()


@pytest.mark.parametrize("url", ["", "app.db", "nonsense", "oracle://u@h/d", "://"])
def test_what_is_no_database_of_ours_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption):
        Jobs(url)


def test_a_missing_driver_names_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(DriverMissing, match=r"pip install 'sloppyjobs\[postgres\]'"):
        storage.postgres("postgresql://localhost/app")


def test_a_claim_on_postgres_writes_a_job_to_the_page_where_it_is_also_after_an_upgrade(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Jobs(empty_postgres_url).storage
    monkeypatch.setattr(migrate, "VERSION", 28)
    monkeypatch.setattr(migrate, "HEAD", "0028")
    assert store.init() == 28
    monkeypatch.undo()
    with store.database.writing() as connection:
        connection.execute(text("ALTER TABLE sloppy_jobs RESET (fillfactor)"))
    assert store.init() == VERSION
    jobs = Jobs(store)
    jobs.declare("greet")
    jobs.enqueue_many([("greet", {"text": "x" * 1000}) for _ in range(60)])
    before = _pages_of_jobs(store)
    assert len(jobs.storage.claim(ClaimRequest("worker", limit=60))) == 60
    after = _pages_of_jobs(store)
    # The last pages are not full, and one may have been left to the next row by a hair.
    stayed = sum(before[id] == after[id] for id in before)
    assert len(set(before.values())) > 10 and stayed > 50
    store.close()


def _pages_of_jobs(store: SqlStore) -> dict[str, str]:
    with store.engine.connect() as connection:
        found = connection.execute(text("SELECT id, split_part(ctid::text, ',', 1) FROM sloppy_jobs"))
        return {row.id: row[1] for row in found}
