"""Enqueueing while answers are lost: what was written is recognised, and nothing is written twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from proxy import FaultyProxy
from sqlalchemy import create_engine, func, select
from sqlalchemy.exc import DBAPIError

from sloppyjobs import Jobs, storage
from sloppyjobs.domain.model import Job
from sloppyjobs.internals import internals
from sloppyjobs.storage.dialects.postgres.bulk_part import PART
from sloppyjobs.storage.dialects.postgres.insert import PostgresInsert

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def jobs(proxied_url: str) -> Iterator[Jobs]:
    """Through the proxy."""
    made = _declared(storage.postgres(proxied_url))
    yield made
    made.storage.close()


def _declared(made: storage.SqlStore) -> Jobs:
    jobs = Jobs(made)
    jobs.declare("greet")
    jobs.declare("mail", queue="mails")
    return jobs


def written(jobs: Jobs) -> dict[str, int]:
    """How many rows there are."""
    tables = jobs.storage.tables
    with jobs.storage.engine.connect() as connection:
        return {
            table.name.removeprefix("sloppy_"): connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (tables.jobs, tables.events)
        }


def plain(number: int) -> list[tuple[Any, ...]]:
    return [("greet", {"n": n}) for n in range(number)]


def keyed(number: int) -> list[tuple[Any, ...]]:
    return [("greet", {"n": n}, {"idempotency_key": f"key-{n}"}) for n in range(number)]


FORMS = {
    "alike, by one statement": plain(3),
    "alike, by several": plain(PART + 100),
    "different": [*plain(2), ("mail", None, {"priority": 3})],
    "keyed": keyed(3),
    "keyed and not": [*plain(2), *keyed(2), ("mail", None)],
    "linked, by one statement": [("greet", n, {"business_key": f"order-{n}", "tags": ("a", "b")}) for n in range(3)],
    "linked, by several": [("greet", n, {"business_key": f"order-{n}", "tags": ("a",)}) for n in range(PART + 100)],
    "more than a chunk": [*plain(1500), *keyed(10)],
}


@pytest.mark.parametrize("items", FORMS.values(), ids=FORMS.keys())
def test_many_are_written_once_when_the_answer_is_lost(
    proxy: FaultyProxy, jobs: Jobs, items: list[tuple[Any, ...]]
) -> None:
    jobs.enqueue("greet")
    proxy.drop_answer_to("INTO sloppy_job_queues")
    told = jobs.enqueue_many(items)
    assert proxy.answers_dropped == 1
    assert written(jobs) == {"jobs": len(items) + 1, "job_events": len(items) + 1}
    assert len({job.id for job in told}) == len(items)
    assert [job.existing for job in told] == [False] * len(items)
    assert [job.idempotency_key for job in told] == [(item[2:] or [{}])[0].get("idempotency_key") for item in items]


def test_of_two_with_one_key_only_the_second_was_there_already(proxy: FaultyProxy, jobs: Jobs) -> None:
    proxy.drop_answer_to("INTO sloppy_job_queues")
    first, second, other = jobs.enqueue_many([*keyed(1), *keyed(1), *plain(1)])
    assert proxy.answers_dropped == 1
    assert [job.existing for job in (first, second, other)] == [False, True, False]
    assert second.id == first.id


@pytest.mark.parametrize("options", [{}, {"idempotency_key": "order-1"}], ids=["plain", "keyed"])
@pytest.mark.parametrize("known", [False, True], ids=["new queue", "known queue"])
def test_one_is_written_once_when_the_answer_is_lost(
    proxy: FaultyProxy, jobs: Jobs, known: bool, options: dict[str, Any]
) -> None:
    if known:
        jobs.enqueue("greet")
    before = written(jobs)["jobs"]
    proxy.drop_answer_to("INSERT INTO sloppy_jobs")
    job = jobs.enqueue("greet", {"n": 1}, **options)
    assert proxy.answers_dropped == 1
    assert job.existing is False
    assert written(jobs)["jobs"] == before + 1
    assert jobs.get(job.id) == job


def test_a_key_that_somebody_else_had_is_still_somebody_elses(proxy: FaultyProxy, jobs: Jobs) -> None:
    first = jobs.enqueue("greet", idempotency_key="order-1")
    proxy.drop_answer_to("INSERT INTO sloppy_jobs")
    second = jobs.enqueue("greet", idempotency_key="order-1")
    assert (second.id, second.existing) == (first.id, True)


def test_a_job_recognises_the_business_key_that_it_has_taken(proxy: FaultyProxy, jobs: Jobs) -> None:
    old = jobs.enqueue("greet", business_key="b")
    options = {"on_conflict": "replace"}
    proxy.drop_answer_to("COMMIT")
    told = jobs.enqueue_many([("greet", n, {"business_key": key, **options}) for n, key in enumerate("abc")])
    assert proxy.answers_dropped == 1
    assert [job.existing for job in told] == [False] * 3
    assert written(jobs)["jobs"] == 4
    assert (told[1].supersedes, jobs.get(old.id).superseded_by) == (old.id, told[1].id)
    again = jobs.enqueue_many([("greet", 1, {"business_key": key}) for key in "abc"])
    assert [job.id for job in again] == [job.id for job in told]


@pytest.mark.parametrize("number", [3, PART + 100], ids=["by one statement", "by several"])
@pytest.mark.parametrize("sealed", [False, True], ids=["open", "sealed since"])
def test_members_of_a_batch_are_written_once_when_the_answer_is_lost(
    proxy: FaultyProxy, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, number: int, sealed: bool
) -> None:
    batch = jobs.open_batch("import")
    insert_once = PostgresInsert._insert_in_own_transaction

    def insert_and_seal(*arguments: Any, **options: Any) -> Any:
        try:
            return insert_once(*arguments, **options)
        finally:
            if sealed:
                batch.seal()

    monkeypatch.setattr(PostgresInsert, "_insert_in_own_transaction", insert_and_seal)
    proxy.drop_commit_answers()
    found = batch.enqueue_many(plain(number))
    assert proxy.commits_dropped == 1
    assert not any(job.existing for job in found)
    assert written(jobs) == {"jobs": number, "job_events": number}
    seen = jobs.admin.get_batch(batch.id)
    assert (seen.total, seen.outstanding) == (number, number)


def test_a_workflow_is_written_once_when_the_answer_is_lost(proxy: FaultyProxy, jobs: Jobs) -> None:
    jobs.enqueue("mail")
    proxy.drop_answer_to("COMMIT")
    with jobs.workflow("nightly") as flow:
        first = flow.add("greet")
        for _ in range(1500):
            flow.add("mail", after=first)
    assert proxy.answers_dropped == 1
    assert written(jobs) == {"jobs": 1502, "job_events": 1502}
    assert len({job.id for job in flow.jobs}) == 1501
    assert [found.id for found in jobs.admin.list_workflows()] == [flow.id]
    assert jobs.admin.get_workflow(flow.id).counts == {"queued": 1, "waiting": 1500}


def test_a_cancelled_workflow_recognises_its_own_work(proxy: FaultyProxy, jobs: Jobs) -> None:
    with jobs.workflow("nightly") as flow:
        flow.add("mail", after=flow.add("greet"))
    proxy.drop_answer_to("COMMIT")
    done = jobs.admin.cancel_workflow(flow.id, actor="ada")
    assert proxy.answers_dropped == 1
    assert (done.done, done.skipped) == (2, {})
    assert len(jobs.admin.audit(flow.id)) == 1
    assert jobs.admin.get_workflow(flow.id).cancelled_by == "ada"


def test_an_observer_is_told_once(proxy: FaultyProxy, jobs: Jobs) -> None:
    told: list[Job] = []
    internals(jobs).observers.append(lambda _new, job, _committed: told.append(job))
    proxy.drop_answer_to("INTO sloppy_job_queues")
    jobs.enqueue_many([*plain(2), *keyed(2)])
    assert len(told) == 4


# Keys and snapshots


@pytest.fixture(params=["REPEATABLE READ", "SERIALIZABLE"])
def strict(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Jobs]:
    """On an engine of the application whose transactions see only what was there when they began."""
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, isolation_level=request.param)
    yield _declared(storage.postgres(engine))
    engine.dispose()


@pytest.mark.parametrize("items", [keyed(1), keyed(3), [*plain(1), *keyed(2)]], ids=["one", "keyed", "keyed and not"])
def test_a_key_that_the_callers_snapshot_cannot_see_is_a_serialization_failure(
    strict: Jobs, items: list[tuple[Any, ...]]
) -> None:
    def enqueue(connection: Any) -> list[Job]:
        if len(items) == 1:
            return [strict.enqueue(items[0][0], items[0][1], connection=connection, **items[0][2])]
        return strict.enqueue_many(items, connection=connection)

    with strict.storage.engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1 FROM sloppy_jobs").all()
        winner = strict.enqueue("mail", idempotency_key="key-0")
        with pytest.raises(DBAPIError) as caught:
            enqueue(connection)
        assert getattr(caught.value.orig, "sqlstate", None) == "40001"
        connection.rollback()
        # As applications at this level do: the same transaction once more.
        again = enqueue(connection)
        connection.commit()
    assert [job.id for job in again if job.existing] == [winner.id]
    assert written(strict)["jobs"] == len(items)


def test_alone_it_finds_the_winner_at_every_isolation_level(strict: Jobs, eventually: Callable[..., Any]) -> None:
    first = strict.enqueue("mail", idempotency_key="key-0")

    def somebody_waits() -> int:
        with strict.storage.engine.connect() as other:
            return other.exec_driver_sql(WAITING).scalar_one()

    with ThreadPoolExecutor(1) as pool, strict.storage.engine.connect() as connection:
        held = strict.enqueue("mail", idempotency_key="key-1", connection=connection)
        waiting = pool.submit(strict.enqueue_many, [*keyed(3), *plain(1)])
        eventually(somebody_waits)
        connection.commit()
        told = waiting.result(timeout=30)
    assert [job.existing for job in told] == [True, True, False, False]
    assert [job.id for job in told[:2]] == [first.id, held.id]
    assert written(strict)["jobs"] == 4


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
