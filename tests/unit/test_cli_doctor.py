"""The doctor: what it finds, what it advises, and its exit code; and the reads on PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, event

from sloppyjobs import storage
from sloppyjobs.cli import main
from sloppyjobs.cli.target import Target
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.jobs import Jobs


@pytest.fixture
def jobs(database_url: str):
    jobs = Jobs(storage.from_url(database_url))
    jobs.declare("greet")
    yield jobs
    jobs.storage.close()


def _run(jobs: Jobs, *arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [*arguments, "--json"], obj=Target(given=jobs))
    assert result.exit_code == code, result.output + repr(result.exception)
    return json.loads(result.stdout)


def _checks(jobs: Jobs, code: int = 0) -> dict[str, tuple[str, str]]:
    document = _run(jobs, "doctor", code=code)
    assert document["ok"] is (code == 0)
    return {one["check"]: (one["status"], one["detail"]) for one in document["checks"]}


def _alter(jobs: Jobs, *statements: str) -> None:
    with jobs.storage.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def _work(jobs: Jobs) -> None:
    """A worker for everything, as far as its row says."""
    jobs.storage.workers.register(
        WorkerInfo(
            id="worker_here",
            hostname="h",
            pid=1,
            queues=("*",),
            names=("greet",),
            concurrency=1,
            heartbeat=5.0,
            version="0",
            status="running",
        )
    )


def test_a_healthy_database_passes_every_check(jobs: Jobs) -> None:
    jobs.enqueue("greet")
    _work(jobs)
    checks = _checks(jobs)
    assert "FAIL" not in {status for status, _ in checks.values()}
    common = {"schema", "clock", "indexes", "claim plan", "queues", "handlers", "workers", "schedules"}
    own = {"journal", "durability", "busy time-out", "file"}
    if jobs.storage.dialect.name == "postgresql":
        own = {"driver", "server", "connections", "isolation", "autovacuum", "rights"}
    assert checks.keys() == common | own
    assert "ix_sloppy_jobs_claim" in checks["claim plan"][1]


def test_a_visit_is_the_first_thing_that_a_process_does(database_url: str) -> None:
    result = CliRunner().invoke(main, ["--database", database_url, "doctor", "--json"])
    checks = {one["check"]: one for one in json.loads(result.stdout)["checks"]}
    assert (checks["claim plan"]["status"], result.exit_code) == ("ok", 0), checks["claim plan"]


def test_missing_rights_are_named(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP ROLE IF EXISTS sloppy_reader")
        connection.exec_driver_sql("CREATE ROLE sloppy_reader")
        connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO sloppy_reader")
    engine.dispose()

    @event.listens_for(engine, "connect")
    def become_reader(driver: Any, _record: Any) -> None:
        driver.cursor().execute("SET ROLE sloppy_reader")
        driver.commit()

    [found] = [one for one in storage.from_url(engine).doctor.diagnose() if one.check == "rights"]
    assert (found.status, found.detail[:32]) == ("FAIL", "missing: INSERT on sloppy_job_al")
    assert "GRANT SELECT, INSERT, UPDATE, DELETE" in str(found.hint)
    engine.dispose()
    with create_engine(postgres_url).begin() as connection:
        connection.exec_driver_sql("DROP OWNED BY sloppy_reader")
        connection.exec_driver_sql("DROP ROLE sloppy_reader")


def test_people_get_a_hint_for_what_is_wrong(jobs: Jobs) -> None:
    jobs.enqueue("greet", queue="lonely")
    result = CliRunner().invoke(main, ["doctor"], obj=Target(given=jobs))
    assert result.exit_code == 1
    assert "FAIL  queues" in result.stdout and "lonely" in result.stdout and "→ start `sloppyjobs" in result.stdout


def test_jobs_that_no_live_worker_can_run_are_named_and_counted(jobs: Jobs) -> None:
    _work(jobs)
    jobs.declare("resize")
    jobs.enqueue("greet")
    jobs.enqueue_many([("resize", {})] * 3)
    jobs.enqueue("resize", queue="media")
    document = _run(jobs, "doctor", code=1)
    [found] = [one for one in document["checks"] if one["check"] == "handlers"]
    assert found["status"] == "FAIL"
    assert "resize (3 in default), resize (1 in media)" in found["detail"] and "greet" not in found["detail"]
    assert "start a worker whose code defines these names" in found["hint"]


def test_a_queue_without_any_worker_is_told_once(jobs: Jobs) -> None:
    jobs.enqueue("greet", queue="lonely")
    checks = _checks(jobs, code=1)
    assert (checks["queues"][0], checks["handlers"][0]) == ("FAIL", "ok")


def test_a_missing_index_fails(jobs: Jobs) -> None:
    _alter(jobs, "DROP INDEX ix_sloppy_jobs_lease")
    assert _checks(jobs, code=1)["indexes"] == ("FAIL", "missing: ix_sloppy_jobs_lease")


def test_a_claim_that_cannot_go_by_its_index_fails(jobs: Jobs) -> None:
    _alter(jobs, "DROP INDEX ix_sloppy_jobs_claim")
    checks = _checks(jobs, code=1)
    assert checks["indexes"][0] == "FAIL"
    if jobs.storage.dialect.name == "sqlite":
        assert checks["claim plan"][0] == "FAIL"


def test_a_schema_of_another_version_fails_and_ends_the_visit(jobs: Jobs) -> None:
    _alter(jobs, "UPDATE sloppy_job_schema SET version_num = '9999'")
    checks = _checks(Jobs(jobs.storage), code=1)
    assert checks == {"schema": ("FAIL", checks["schema"][1])} and "9999" in checks["schema"][1]


def test_late_and_failed_schedules_and_stale_workers_are_found(jobs: Jobs) -> None:
    _work(jobs)
    jobs.recurring("late", "greet", every=60)
    jobs.recurring("broken", "greet", every=60)
    _alter(
        jobs,
        "UPDATE sloppy_recurring_jobs SET next_run_at = '2020-01-01T00:00:00.000000Z' WHERE name = 'late'",
        "UPDATE sloppy_recurring_jobs SET last_error = 'no', last_error_at = next_run_at WHERE name = 'broken'",
        "UPDATE sloppy_job_workers SET heartbeat_at = '2020-01-01T00:00:00.000000Z'",
    )
    document = _run(jobs, "doctor", code=1)
    found = [one for one in document["checks"] if one["check"] in ("schedules", "workers")]
    assert [one["status"] for one in found] == ["warn", "FAIL", "FAIL"]
    assert ["worker_here" in found[0]["detail"], "late" in found[1]["detail"], "broken" in found[2]["detail"]] == [
        True
    ] * 3


def test_sqlite_settings_that_lose_or_block_are_found(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
    jobs = Jobs(engine)
    jobs.storage.init()
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    path.chmod(0o644)
    checks = _checks(jobs, code=1)
    assert checks["journal"][0] == "FAIL"
    assert (checks["busy time-out"][0], checks["file"][0]) == ("warn", "warn")
    path.chmod(0o600)
    assert _checks(jobs, code=1)["file"] == ("ok", "-rw-------")
    engine.dispose()


def test_postgresql_settings_that_slow_workers_down_are_found(postgres_url: str) -> None:
    engine = create_engine(
        postgres_url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="REPEATABLE READ"
    )
    jobs = Jobs(engine)
    _alter(jobs, "ALTER TABLE sloppy_jobs RESET (autovacuum_vacuum_threshold)")
    checks = _checks(jobs)
    assert checks["isolation"] == ("warn", "repeatable read")
    assert checks["autovacuum"][0] == "warn"
    engine.dispose()


@pytest.mark.parametrize(
    "command", ["status", "list", "dead", "workers", "locks", "audit", "queues", "recurring", "tick", "cleanup"]
)
def test_commands_work_on_postgresql(command: str, postgres_url: str) -> None:
    jobs = Jobs(postgres_url)
    jobs.declare("greet")
    jobs.enqueue("greet", {"password": "canary"}, max_attempts=1)
    [claim] = jobs.claim("worker-1")
    jobs.fail(claim, ValueError("no"))
    assert isinstance(_run(jobs, command), dict)
    shown = _run(jobs, "show", claim.id)
    assert shown["status"] == "dead" and shown["payload_preview"]["value"] == {"password": "[redacted]"}
