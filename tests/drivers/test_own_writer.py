"""SQLite: whoever has written and not committed would wait for himself, and is told so at once."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from sloppyjobs import AsyncContext, errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing import drain

TOLD = "transaction of this thread has written"


@pytest.fixture
def file(tmp_path: Path, prepare_sqlite: Callable[[Path], str]) -> Path:
    """A file with our tables and one of the application's."""
    made = Jobs(prepare_sqlite(tmp_path / "app.db"))
    with made.storage.engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER)"))
        connection.execute(text("INSERT INTO orders VALUES (0)"))
    made.storage.close()
    return tmp_path / "app.db"


@pytest.fixture
def make_engine(file: Path) -> Iterator[Callable[..., Engine]]:
    """Makes engines of the application over the file."""
    made: list[Engine] = []

    def make(**options: Any) -> Engine:
        made.append(create_engine(f"sqlite:///{file}", **options))
        return made[-1]

    yield make
    for engine in made:
        engine.dispose()


@pytest.fixture(params=["engine", "url"])
def scene(
    request: pytest.FixtureRequest, file: Path, make_engine: Callable[..., Engine]
) -> Iterator[tuple[Jobs, Engine]]:
    """Jobs on the application's engine, or on one of their own over the same file; and the application's engine."""
    engine = make_engine(connect_args={"timeout": 60})
    jobs = Jobs(engine if request.param == "engine" else f"sqlite:///{file}")
    jobs.declare("charge")
    yield jobs, engine
    jobs.storage.close()


def _insert(session: Any) -> None:
    session.execute(text("INSERT INTO orders VALUES (1)"))


@pytest.mark.parametrize("holder", [Session, Engine.connect])
def test_an_enqueue_beside_the_own_open_transaction_is_refused_at_once(
    scene: tuple[Jobs, Engine], holder: Callable[[Engine], Any]
) -> None:
    jobs, engine = scene
    with holder(engine) as transaction:
        _insert(transaction)
        began = time.monotonic()
        for ask in (
            lambda: jobs.enqueue("charge"),
            lambda: jobs.enqueue_many([("charge", 1)]),
            lambda: jobs.locks("me").acquire("a"),
        ):
            with pytest.raises(errors.InvalidOption, match=TOLD):
                ask()
        assert time.monotonic() - began < 10
        transaction.commit()
        # And what comes after the commit, or in the transaction, goes on as ever.
        assert jobs.enqueue("charge").status == "queued"
    with Session(engine) as session:
        _insert(session)
        assert jobs.enqueue("charge", session=session).status == "queued"
        session.rollback()
        assert jobs.enqueue("charge").status == "queued"


def test_a_transaction_that_has_only_read_is_no_obstacle(scene: tuple[Jobs, Engine]) -> None:
    jobs, engine = scene
    with Session(engine) as session:
        session.execute(text("SELECT * FROM orders")).all()
        assert jobs.enqueue("charge").status == "queued"


def test_a_read_transaction_that_really_began_is_no_obstacle(file: Path, make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()

    @event.listens_for(engine, "connect")
    def by_hand(driver: Any, _record: Any) -> None:
        driver.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    jobs = Jobs(f"sqlite:///{file}")
    jobs.declare("charge")
    with engine.connect() as connection:
        _insert(connection)
        connection.commit()
        connection.execute(text("SELECT * FROM orders")).all()
        assert jobs.enqueue("charge").status == "queued"
        connection.rollback()
        _insert(connection)
        with pytest.raises(errors.InvalidOption, match=TOLD):
            jobs.enqueue("charge")
    jobs.storage.close()


def test_another_threads_transaction_is_waited_for(scene: tuple[Jobs, Engine]) -> None:
    jobs, engine = scene
    written, leave = threading.Event(), threading.Event()

    def other() -> None:
        with Session(engine) as session:
            _insert(session)
            written.set()
            leave.wait(30)
            session.commit()

    thread = threading.Thread(target=other)
    thread.start()
    assert written.wait(30)
    threading.Timer(0.2, leave.set).start()
    assert jobs.enqueue("charge").status == "queued"
    thread.join()


def test_another_files_transaction_is_no_obstacle(scene: tuple[Jobs, Engine], tmp_path: Path) -> None:
    jobs, _ = scene
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with other.connect() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER)"))
        _insert(connection)
        assert jobs.enqueue("charge").status == "queued"
    other.dispose()


def test_a_transaction_that_was_given_up_is_no_obstacle(scene: tuple[Jobs, Engine]) -> None:
    jobs, engine = scene
    with engine.connect() as connection:
        _insert(connection)
        connection.invalidate()
        assert jobs.enqueue("charge").status == "queued"


def test_a_task_that_has_written_is_told_and_another_task_waits(scene: tuple[Jobs, Engine], file: Path) -> None:
    jobs, _ = scene

    async def played() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        async with AsyncSession(engine) as session:
            await session.execute(text("INSERT INTO orders VALUES (1)"))
            with pytest.raises(errors.InvalidOption, match=TOLD):
                await jobs.enqueue_async("charge")
            other = asyncio.create_task(jobs.enqueue_async("charge"))
            await asyncio.sleep(0.1)
            assert not other.done()
            await session.commit()
            assert (await other).status == "queued"
            assert (await jobs.enqueue_async("charge")).status == "queued"
        await engine.dispose()

    asyncio.run(played())


def test_batches_of_a_task_that_has_written_are_refused_at_once_too(scene: tuple[Jobs, Engine], file: Path) -> None:
    jobs, _ = scene

    async def played() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        opened = await jobs.open_batch_async("import")
        async with AsyncSession(engine) as session:
            await session.execute(text("INSERT INTO orders VALUES (1)"))
            with pytest.raises(errors.InvalidOption, match=TOLD):
                async with jobs.batch("nightly"):
                    pytest.fail("the batch was written")
            with pytest.raises(errors.InvalidOption, match=TOLD):
                await opened.seal_async()
            await session.rollback()
        await engine.dispose()

    asyncio.run(played())


def test_a_coroutine_handler_that_has_written_is_told_by_its_steps_and_its_batch(
    scene: tuple[Jobs, Engine], file: Path
) -> None:
    jobs, _ = scene

    @jobs.define("import")
    async def handler(ctx: AsyncContext, payload: None) -> list[str]:
        told = []
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        async with AsyncSession(engine) as session:
            await session.execute(text("INSERT INTO orders VALUES (1)"))
            for call in (ctx.step("count", int), ctx.batch.enqueue_async("charge"), ctx.sleep("rest", 1)):
                try:
                    await call
                except errors.InvalidOption as error:
                    told.append(str(error))
            await session.rollback()
        await engine.dispose()
        return told

    with jobs.batch("nightly") as batch:
        job = batch.enqueue("import")
    assert drain(jobs) == 1
    told = jobs.get(job.id).result
    assert len(told) == 3
    assert all(re.search(TOLD, text) for text in told)
