"""A database that is away is one error on every public path, and it says whether the work may have been done."""

from __future__ import annotations

import pickle
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from proxy import FaultyProxy
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError

from sloppyjobs import Jobs, StorageUnavailable, errors, storage
from sloppyjobs.domain.model import Claim

Call = Callable[[Jobs, Claim], object]

READS: dict[str, Call] = {
    "get": lambda jobs, claim: jobs.get(claim.id),
    "wait": lambda jobs, claim: jobs.wait(claim.id, 60),
    "fires": lambda jobs, _claim: jobs.fires("nightly"),
    "the clock": lambda jobs, _claim: jobs.storage.clock.now(),
    "overview": lambda jobs, _claim: jobs.admin.overview(),
    "list_jobs": lambda jobs, _claim: jobs.admin.list_jobs(),
    "get_job": lambda jobs, claim: jobs.admin.get_job(claim.id),
    "explain": lambda jobs, claim: jobs.admin.explain(claim.id),
    "list_locks": lambda jobs, _claim: jobs.admin.list_locks(),
}
WRITES: dict[str, Call] = {
    "enqueue": lambda jobs, _claim: jobs.enqueue("greet"),
    "enqueue with a key": lambda jobs, _claim: jobs.enqueue("greet", idempotency_key="k"),
    "enqueue_many": lambda jobs, _claim: jobs.enqueue_many([("greet", {})] * 3),
    "enqueue_many of all sorts": lambda jobs, _claim: jobs.enqueue_many(
        [("greet", {}, {"priority": n}) for n in range(3)]
    ),
    "enqueue_many with keys": lambda jobs, _claim: jobs.enqueue_many([("greet", {}, {"idempotency_key": "k"})] * 2),
    "recurring": lambda jobs, _claim: jobs.recurring("nightly", "greet", cron="0 2 * * *"),
    "tick_recurring": lambda jobs, _claim: jobs.tick_recurring(),
    "claim": lambda jobs, _claim: jobs.claim("other"),
    "heartbeat": lambda jobs, claim: jobs.heartbeat(claim),
    "complete": lambda jobs, claim: jobs.complete(claim),
    "fail": lambda jobs, claim: jobs.fail(claim, "no"),
    "lock": lambda jobs, _claim: jobs.locks("me").acquire("nightly"),
    "cancel": lambda jobs, claim: jobs.admin.cancel(claim.id),
    "pause_queue": lambda jobs, _claim: jobs.admin.pause_queue("default"),
    "bulk": lambda jobs, _claim: jobs.admin.bulk("cancel", {"status": "queued"}),
    "cleanup": lambda jobs, _claim: jobs.admin.cleanup(),
    "init": lambda jobs, _claim: jobs.init() if hasattr(jobs, "init") else jobs.storage.init(),
    "run_once": lambda jobs, _claim: jobs.create_worker().run_once(),
}


@pytest.fixture
def jobs(proxied_url: str) -> Iterator[Jobs]:
    made = Jobs(proxied_url)
    made.define("greet", lambda _ctx, _payload: None)
    yield made
    made.storage.close()


@pytest.fixture
def claim(jobs: Jobs) -> Claim:
    jobs.enqueue("greet")
    (claim,) = jobs.claim("worker")
    return claim


@pytest.mark.parametrize("ours", [True, False], ids=["our engine", "the application's engine"])
def test_a_server_that_is_down_is_one_error_and_nothing_was_changed(
    jobs: Jobs, claim: Claim, proxy: FaultyProxy, proxied_url: str, *, ours: bool
) -> None:
    if not ours:
        jobs = _on_an_engine(jobs, proxied_url)
        jobs.get(claim.id)
    jobs.storage.engine.dispose()
    proxy.refuse = True
    other: dict[str, BaseException | None] = {}
    for name, call in (READS | WRITES).items():
        try:
            call(jobs, claim)
            other[name] = None
        except StorageUnavailable as error:
            assert error.code == "SLOPPY_E_JOBS_STORAGE_UNAVAILABLE"
            assert error.maybe_done is False and "nothing was changed" in str(error), name
            assert isinstance(error, DBAPIError) and isinstance(error, errors.JobsError)
            assert isinstance(error.orig, psycopg.OperationalError)
        except Exception as error:
            other[name] = error
    assert other == {}


@pytest.mark.parametrize("call", ["enqueue", "enqueue_many", "enqueue_many of all sorts"])
def test_a_lost_answer_to_a_transaction_of_one_statement_leaves_doubt(
    jobs: Jobs, claim: Claim, proxy: FaultyProxy, call: str
) -> None:
    proxy.drop_answer_to("INTO sloppy_job")
    proxy.refuse = True
    with pytest.raises(StorageUnavailable, match="may have been done") as raised:
        WRITES[call](jobs, claim)
    assert raised.value.maybe_done is True
    assert proxy.answers_dropped == 1


@pytest.mark.parametrize("call", ["enqueue_many with keys", "pause_queue", "lock"])
def test_a_lost_answer_to_commit_leaves_doubt(jobs: Jobs, claim: Claim, proxy: FaultyProxy, call: str) -> None:
    proxy.drop_commit_answers()
    proxy.refuse = True
    with pytest.raises(StorageUnavailable, match="may have been done") as raised:
        WRITES[call](jobs, claim)
    assert raised.value.maybe_done is True
    assert proxy.commits_dropped == 1


def test_a_transaction_that_is_cut_before_its_commit_was_not_done(
    jobs: Jobs, claim: Claim, proxy: FaultyProxy, postgres_url: str, eventually: Callable[..., Any]
) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as threads, psycopg.connect(postgres_url) as holder:
        holder.execute("LOCK TABLE sloppy_job_queues IN ACCESS EXCLUSIVE MODE")
        asked = threads.submit(jobs.admin.pause_queue, "default")
        with psycopg.connect(postgres_url, autocommit=True) as onlooker:
            eventually(lambda: onlooker.execute(waiting).fetchone())
        proxy.refuse = True
        proxy.reset()
        with pytest.raises(StorageUnavailable, match="nothing was changed") as raised:
            asked.result(30)
        holder.rollback()
    assert raised.value.maybe_done is False


def test_the_callers_own_transaction_gets_the_same_error(jobs: Jobs, proxy: FaultyProxy, proxied_url: str) -> None:
    jobs = _on_an_engine(jobs, proxied_url)
    with jobs.storage.engine.connect() as connection:
        jobs.enqueue("greet", connection=connection)
        proxy.refuse = True
        proxy.reset()
        with pytest.raises(StorageUnavailable) as raised:
            jobs.enqueue("greet", connection=connection)
        assert raised.value.maybe_done is False, "whoever has not committed has nothing"
        connection.rollback()


def test_the_error_travels_between_processes(jobs: Jobs, proxy: FaultyProxy) -> None:
    proxy.refuse = True
    with pytest.raises(StorageUnavailable) as raised:
        jobs.get("job_1")
    copied = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(copied, StorageUnavailable) and isinstance(copied, DBAPIError)
    assert (str(copied), copied.maybe_done, copied.code) == (str(raised.value), False, raised.value.code)


# SQLite


@pytest.fixture
def file(sqlite_url: str) -> Path:
    made = storage.sqlite(sqlite_url)
    made.init()
    made.close()
    return Path(sqlite_url.removeprefix("sqlite:///"))


def _sqlite(url: str) -> Jobs:
    jobs = Jobs(url)
    jobs.declare("greet")
    return jobs


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    jobs = _sqlite(f"sqlite:///{tmp_path}")
    for call in (lambda: jobs.enqueue("greet"), lambda: jobs.get("job_1"), jobs.storage.init, jobs.admin.overview):
        with pytest.raises(StorageUnavailable, match="unable to open") as raised:
            call()
        assert isinstance(raised.value, DBAPIError) and raised.value.maybe_done is False


def test_a_file_that_can_only_be_read(file: Path) -> None:
    jobs = _sqlite(f"sqlite:///file:{file}?mode=ro&uri=true")
    assert not jobs.admin.list_jobs().items
    with pytest.raises(StorageUnavailable, match=r"is read-only.*nothing was changed") as raised:
        jobs.enqueue("greet")
    assert isinstance(raised.value, DBAPIError) and raised.value.maybe_done is False
    jobs.storage.close()


@pytest.mark.parametrize("ways", ["kept connection", "pool"])
def test_a_full_disk(file: Path, ways: str) -> None:
    jobs = _sqlite(f"sqlite:///{file}")
    jobs.enqueue("greet")
    engine = jobs.storage.engine
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    event.listen(engine, "connect", lambda driver, _record: driver.execute(f"PRAGMA max_page_count = {pages}"))
    engine.dispose()
    large = ("greet", {"much": "x" * 500_000})
    with pytest.raises(StorageUnavailable, match=r"full.*nothing was changed") as raised:
        jobs.enqueue(*large) if ways == "kept connection" else jobs.enqueue_many([large, large])
    assert isinstance(raised.value, DBAPIError) and raised.value.maybe_done is False
    assert len(jobs.admin.list_jobs().items) == 1
    jobs.storage.close()


def test_a_file_that_somebody_else_keeps_locked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sloppyjobs.storage.dialects.sqlite.transactions", "sloppyjobs.storage.database"):
        monkeypatch.setattr(f"{module}.RETRY_SECONDS", 0.2)
    jobs = _sqlite(f"sqlite:///{file}")
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        other = sqlite3.connect(file)
        other.execute("BEGIN IMMEDIATE")
        held.set()
        leave.wait(30)
        other.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(hold)
        assert held.wait(30)
        try:
            with pytest.raises(StorageUnavailable, match="has been writing") as raised:
                jobs.enqueue("greet")
        finally:
            leave.set()
    assert isinstance(raised.value, DBAPIError) and raised.value.maybe_done is False
    jobs.storage.close()


def _on_an_engine(jobs: Jobs, url: str) -> Jobs:
    """The same jobs on an engine of the application's."""
    jobs.storage.close()
    other = Jobs(create_engine(url.replace("postgresql://", "postgresql+psycopg://")))
    other.define("greet", lambda _ctx, _payload: None)
    return other
