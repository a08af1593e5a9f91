"""How many statements an enqueue adds to a transaction of the caller: one by psycopg 3, psycopg2 and in coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import psycopg2.extensions
import pytest
from kept_database import url_by
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from sloppyjobs import Jobs

asked: list[str] = []

OPTIONS = pytest.mark.parametrize(
    "options",
    [{}, {"idempotency_key": "order-1"}, {"delay": 60, "priority": 3, "metadata": {"a": "50 %"}, "timeout": 1.5}],
    ids=["plain", "with a key", "with options"],
)


class ByPsycopg(psycopg.Cursor[Any]):
    """A cursor that keeps what it executes."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(str(query))
        return super().execute(query, *arguments, **options)


class ByPsycopg2(psycopg2.extensions.cursor):
    """A cursor that keeps what it executes."""

    def execute(self, query: Any, *arguments: Any) -> Any:
        asked.append(str(query))
        return super().execute(query, *arguments)


class InCoroutines(psycopg.AsyncCursor[Any]):
    """A cursor that keeps what it executes."""

    async def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(str(query))
        return await super().execute(query, *arguments, **options)


def check(statements: list[str]) -> None:
    [statement] = statements
    assert "INSERT INTO sloppy_jobs" in statement
    assert "INSERT INTO sloppy_job_queues" not in statement


@OPTIONS
@pytest.mark.parametrize(("name", "cursor"), [("psycopg", ByPsycopg), ("psycopg2", ByPsycopg2)])
def test_an_enqueue_in_a_session_is_one_statement_that_writes_no_row_of_a_known_queue(
    postgres_url: str, make_engine: Callable[..., Engine], name: str, cursor: Any, options: dict[str, Any]
) -> None:
    engine = make_engine(url_by(name, postgres_url), connect_args={"cursor_factory": cursor})
    jobs = Jobs(engine)
    jobs.declare("greet")
    with Session(engine) as session:
        jobs.enqueue("greet", session=session)
        session.rollback()
        jobs.enqueue("greet", session=session)
        session.commit()
        session.connection()
        asked.clear()
        job = jobs.enqueue("greet", session=session, **options)
        check(asked)
        session.commit()
    assert jobs.get(job.id) == job


@OPTIONS
def test_an_enqueue_in_an_async_session_is_one_statement_too(
    postgres_url: str, make_jobs: Callable[..., Jobs], options: dict[str, Any]
) -> None:
    jobs = make_jobs(postgres_url)
    jobs.declare("greet")

    async def enqueue() -> Any:
        engine = create_async_engine(url_by("psycopg", postgres_url), connect_args={"cursor_factory": InCoroutines})
        async with AsyncSession(engine) as session:
            await jobs.enqueue_async("greet", session=session)
            await session.commit()
            await session.connection()
            asked.clear()
            job = await jobs.enqueue_async("greet", session=session, **options)
            check(asked)
            await session.commit()
        await engine.dispose()
        return job

    job = asyncio.run(enqueue())
    assert jobs.get(job.id) == job
