"""Enqueueing from coroutines: in the transaction of an AsyncSession or AsyncConnection, or without one."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kept_database import url_by
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs

Scene = Callable[[AsyncEngine], Awaitable[Any]]


@pytest.fixture
def jobs(database_url: str) -> Iterator[Jobs]:
    """Jobs on an initialised database of each kind."""
    made = Jobs(database_url)
    made.declare("charge", redact=("token",))
    yield made
    made.storage.close()


@pytest.fixture
def play(database_url: str) -> Callable[[Scene], Any]:
    """Runs a coroutine that is given an asynchronous engine of the application's own."""
    driver = "sqlite+aiosqlite" if database_url.startswith("sqlite") else "postgresql+psycopg"
    url = make_url(database_url).set(drivername=driver)

    async def played(scene: Scene) -> Any:
        async with _engine(url) as engine:
            return await scene(engine)

    return lambda scene: asyncio.run(played(scene))


@asynccontextmanager
async def _engine(url: Any) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url)
    try:
        yield engine
    finally:
        await engine.dispose()


def _ids(jobs: Jobs) -> set[str]:
    return {job.id for job in jobs.admin.list_jobs()}


def test_a_job_is_in_the_transaction_of_an_async_session(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> list[Any]:
        async with AsyncSession(engine) as session:
            await session.execute(text("CREATE TABLE orders (number INTEGER)"))
            await jobs.enqueue_async("charge", {"n": 0}, session=session)
            await session.rollback()
        assert _ids(jobs) == set()
        async with AsyncSession(engine) as session:
            one = await jobs.enqueue_async("charge", {"n": 1}, priority=3, idempotency_key="order", session=session)
            again = await jobs.enqueue_async("charge", {"n": 1}, idempotency_key="order", session=session)
            assert (again.id, again.existing) == (one.id, True)
            many = await jobs.enqueue_many_async((("charge", {"n": n}) for n in range(1_200)), session=session)
            keyed = [("charge", n, {"idempotency_key": f"k{n}"}) for n in range(3)]
            many += await jobs.enqueue_many_async(keyed, session=session)
            assert await asyncio.to_thread(_ids, jobs) == set()
            await session.commit()
            return [one, *many]

    written = play(scene)
    assert jobs.get(written[0].id) == written[0]
    assert len(written) == 1_204
    assert [jobs.get(job.id).status for job in written[-3:]] == ["queued"] * 3
    assert [claim.job.priority for claim in jobs.claim("w1")] == [3]


def test_a_job_is_in_the_transaction_of_an_async_connection(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> Any:
        async with engine.connect() as connection:
            await jobs.enqueue_async("charge", connection=connection)
            await connection.rollback()
            job = await jobs.enqueue_async("charge", connection=connection)
            await connection.commit()
            return job

    assert {play(scene).id} == _ids(jobs)


def test_a_workflow_is_in_the_transaction_of_the_caller(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> Any:
        async with AsyncSession(engine) as session:
            async with jobs.workflow("undone", session=session) as flow:
                flow.add("charge", after=flow.add("charge"))
            await session.rollback()
        async with AsyncSession(engine) as session:
            async with jobs.workflow("done", session=session) as flow:
                flow.add("charge", after=flow.add("charge"))
            with pytest.raises(errors.InvalidOption, match="async with"), jobs.workflow("wrong", session=session):
                pass
            await session.commit()
        async with engine.connect() as connection:
            async with jobs.workflow("by connection", connection=connection) as other:
                other.add("charge", after=flow.jobs[-1])
            await connection.commit()
        return flow, other

    flow, other = play(scene)
    assert _ids(jobs) == {job.id for job in (*flow.jobs, *other.jobs)}
    assert {found.name for found in jobs.admin.list_workflows()} == {"done", "by connection"}
    with Session(jobs.storage.engine) as session, jobs.workflow("undone", session=session) as undone:
        undone.add("charge")
    assert len(jobs.admin.list_workflows()) == 2


def test_a_signal_is_in_the_transaction_of_the_caller(jobs: Jobs, play: Callable) -> None:
    job = jobs.enqueue("charge")

    async def scene(engine: AsyncEngine) -> Any:
        async with AsyncSession(engine) as session:
            assert await jobs.signal_async(job.id, "approved", 1, session=session)
            await session.rollback()
        async with engine.connect() as connection:
            assert await jobs.signal_async(job.id, "approved", 2, connection=connection)
            assert not await jobs.signal_async(job.id, "approved", 3, connection=connection)
            await connection.commit()

    play(scene)
    assert [(step.name, step.result_preview.value) for step in jobs.admin.steps(job.id)] == [("approved", 2)]


def test_a_savepoint_takes_back_its_own_only(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> Any:
        async with AsyncSession(engine) as session:
            kept = await jobs.enqueue_async("charge", session=session)
            async with session.begin_nested() as nested:
                await jobs.enqueue_async("charge", idempotency_key="order", session=session)
                await nested.rollback()
            await session.commit()
            return kept

    assert {play(scene).id} == _ids(jobs)


def test_a_scoped_session_stands_for_that_of_its_task(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> list[str]:
        session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
        kept = [await jobs.enqueue_async("charge", session=session)]
        kept += await jobs.enqueue_many_async([("charge", 1)], session=session)
        async with jobs.workflow("nightly", session=session) as flow:
            flow.add("charge")
        await session.commit()
        await jobs.enqueue_async("charge", session=session)
        await session.rollback()
        with pytest.raises(errors.InvalidOption, match="is asynchronous"):
            jobs.enqueue("charge", session=session)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidOption, match="is asynchronous"), jobs.workflow("nightly", session=session):
            pytest.fail("a workflow was begun")
        await session.remove()
        return [job.id for job in (*kept, *flow.jobs)]

    assert set(play(scene)) == _ids(jobs)


def test_the_recipe_with_run_sync_works(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> list[Any]:
        async with AsyncSession(engine) as session:
            one = await session.run_sync(lambda s: jobs.enqueue("charge", session=s))
            await session.commit()
        async with engine.begin() as connection:
            two = await connection.run_sync(lambda c: jobs.enqueue("charge", connection=c))
        return [one.id, two.id]

    assert set(play(scene)) == _ids(jobs)


def test_without_a_transaction_the_loop_is_not_blocked(jobs: Jobs, database_url: str, play: Callable) -> None:

    async def scene(engine: AsyncEngine) -> Any:
        release = _hold_writers(database_url)
        try:
            writing = asyncio.create_task(jobs.enqueue_async("charge", idempotency_key="order"))
            ticks = 0
            while ticks < 20:
                await asyncio.sleep(0.005)
                ticks += 1
            assert not writing.done()
        finally:
            release()
        return await writing

    assert jobs.get(play(scene).id).status == "queued"


def test_a_cancelled_enqueue_ends_at_once_and_leaves_nothing_half_done(
    jobs: Jobs, database_url: str, play: Callable, eventually: Callable
) -> None:
    async def scene(engine: AsyncEngine) -> float:
        release = _hold_writers(database_url)
        try:
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(jobs.enqueue_async("charge", idempotency_key="order"), 0.2)
            return time.monotonic() - began
        finally:
            release()

    # Leaving the loop waits for its threads, so that what they did is known now.
    assert play(scene) < 10
    job = jobs.enqueue("charge", idempotency_key="order")
    assert (_ids(jobs), job.existing) == ({job.id}, True)
    assert eventually(lambda: jobs.storage.engine.pool.checkedout() == 0)


def test_waiting_does_not_block_the_loop(jobs: Jobs, play: Callable) -> None:
    jobs.define("work", lambda ctx, payload: payload)
    worker = jobs.create_worker(concurrency=1, poll_interval=0.05)

    async def scene(engine: AsyncEngine) -> Any:
        many = await jobs.enqueue_many_async([("work", number) for number in range(50)])
        with pytest.raises(errors.WaitTimeout):
            await jobs.wait_async(many[0].id, timeout=0.05)
        # More waiters than the loop has threads.
        waiting = asyncio.gather(*(jobs.wait_async(job, timeout=60) for job in many))
        await asyncio.sleep(0)
        worker.start()
        return await waiting

    try:
        assert [job.result for job in play(scene)] == list(range(50))
    finally:
        worker.stop()


def test_the_wrong_kind_of_transaction_is_refused(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> None:
        async with AsyncSession(engine) as session, engine.connect() as connection:
            with pytest.raises(errors.InvalidOption, match="enqueue_async"):
                jobs.enqueue("charge", session=session)
            with pytest.raises(errors.InvalidOption, match="enqueue_async"):
                jobs.enqueue("charge", connection=connection)
            with pytest.raises(errors.InvalidOption, match="exclude each other"):
                await jobs.enqueue_async("charge", session=session, connection=connection)
            with pytest.raises(errors.InvalidOption, match="nonesuch"):
                await jobs.enqueue_many_async([("charge", 1, {"nonesuch": 1})], session=session)
        with Session(jobs.storage.engine) as plain, pytest.raises(errors.InvalidOption, match="AsyncSession"):
            await jobs.enqueue_async("charge", session=plain)

    play(scene)
    assert _ids(jobs) == set()


def test_another_database_is_refused(jobs: Jobs, tmp_path: Any) -> None:
    async def scene() -> None:
        async with (
            _engine(f"sqlite+aiosqlite:///{tmp_path / 'other.db'}") as engine,
            AsyncSession(engine) as session,
        ):
            with pytest.raises(errors.InvalidOption, match="another database"):
                await jobs.enqueue_async("charge", session=session)

    asyncio.run(scene())


def test_other_asynchronous_drivers_are_refused_by_name(jobs: Jobs, play: Callable) -> None:
    async def scene(engine: AsyncEngine) -> None:
        # The driver itself is not needed: what it is called decides, before anything is sent.
        engine.sync_engine.dialect.driver = "asyncpg"
        async with engine.connect() as connection:
            with pytest.raises(errors.InvalidOption, match=r"driver asyncpg: use create_async_engine\('postgresql"):
                await jobs.enqueue_async("charge", connection=connection)

    play(scene)


@pytest.mark.parametrize("driver", ["psycopg2", "pg8000"])
def test_jobs_by_another_driver_take_part_in_a_psycopg_session(driver: str, postgres_url: str) -> None:
    jobs = Jobs(url_by(driver, postgres_url))
    jobs.declare("charge")

    async def scene() -> Any:
        async with _engine(url_by("psycopg_async", postgres_url)) as engine, AsyncSession(engine) as session:
            job = await jobs.enqueue_async("charge", session=session)
            await session.commit()
            return job

    assert {asyncio.run(scene()).id} == _ids(jobs)
    jobs.storage.close()


def _hold_writers(url: str) -> Callable[[], None]:
    """Keep every enqueue waiting until the answer is called."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(make_url(url).database, isolation_level=None, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
    else:
        import psycopg

        connection = psycopg.connect(url)
        connection.execute("LOCK TABLE sloppy_jobs IN ACCESS EXCLUSIVE MODE")

    def release() -> None:
        connection.rollback()
        connection.close()

    return release
