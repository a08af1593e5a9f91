"""How many statements an enqueue adds to a transaction of the caller: one on psycopg 3, whatever the transaction is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session

from sloppyjobs import Jobs

asked: list[str] = []


class Recording(psycopg.Cursor[Any]):
    """A cursor that keeps what it executes."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(str(query))
        return super().execute(query, *arguments, **options)


@pytest.fixture
def jobs(postgres_url: str) -> Iterator[Jobs]:
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    engine: Engine = create_engine(url, connect_args={"cursor_factory": Recording})
    found = Jobs(engine)
    found.init()
    found.declare("greet")
    yield found
    engine.dispose()


@pytest.mark.parametrize("options", [{}, {"idempotency_key": "order-1"}, {"delay": 60, "priority": 3}])
def test_an_enqueue_in_a_session_is_one_statement_that_writes_no_row_of_a_known_queue(
    jobs: Jobs, options: dict[str, Any]
) -> None:
    with Session(jobs.storage.engine) as session:
        jobs.enqueue("greet", session=session)
        session.rollback()
        jobs.enqueue("greet", session=session)
        session.commit()
        session.connection()
        asked.clear()
        jobs.enqueue("greet", session=session, **options)
        [statement] = asked
        session.commit()
    assert "INSERT INTO sloppy_jobs" in statement
    assert "INSERT INTO sloppy_job_queues" not in statement
