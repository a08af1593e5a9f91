"""The lower bound of an enqueue: what PostgreSQL takes for a job and its first event, with nothing around it.

In a session, SQLAlchemy's part is below that bound too: beginning, executing one statement, committing.

No ids are made, no payload is checked or encoded, and no job is answered: the statements of the library are sent with
values that were made before. What these writes take against a peer, no client can mend.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from sqlalchemy.orm import sessionmaker

from benchmarks.ours import prepare
from benchmarks.stopwatch import rate
from sloppyjobs import Jobs
from sloppyjobs.domain.model import AlikeJobs, NewJob, Terms
from sloppyjobs.ids import Ids
from sloppyjobs.storage.dialects.postgres import statements
from sloppyjobs.storage.dialects.postgres.arrays import taking_arrays
from sloppyjobs.storage.dialects.postgres.bulk_part import Part
from sloppyjobs.storage.jobs.new_rows import TERMS, of_terms
from sloppyjobs.storage.schema.tables import Tables

__all__ = ["enqueue_bulk", "enqueue_in_session", "prepare"]

STEP = timedelta(microseconds=1)


def enqueue_bulk(url: str, jobs: int, call: int) -> dict[str, Any]:
    """One statement and one commit for each ``call`` jobs."""
    sql = statements.statements(Tables(), "sloppy_jobs")
    with psycopg.connect(url, autocommit=True) as connection:
        first, *calls = _calls(sql, jobs, call, connection.info.encoding)
        cursor = taking_arrays(connection.cursor())

        def write(statement: str, values: dict[str, Any]) -> None:
            with connection.pipeline():
                cursor.execute("BEGIN")
                cursor.execute(statements.CLOCK_OF_INSERT, prepare=True)
                cursor.execute(statement, values, prepare=True)
                cursor.execute("COMMIT")

        def write_all() -> None:
            for one in calls:
                write(*one)

        # The one by which the server comes to know the statement.
        write(*first)
        return rate(jobs, url, write_all)


def enqueue_in_session(url: str, jobs: int) -> dict[str, Any]:
    """Each job by one statement in a transaction of a SQLAlchemy session, as an application executes its own."""
    made = Jobs(url)
    made.declare("noop")
    made.enqueue("noop", {"n": -1})
    sessions = sessionmaker(made.storage.engine)
    statement = statements.statements(Tables(), "public.sloppy_jobs").insert_in_known
    first, *values = _values(jobs + 1)

    def write(one: dict[str, Any]) -> None:
        with sessions.begin() as session:
            session.connection().exec_driver_sql(statement, one).one()

    write(first)
    return rate(jobs, url, lambda: [write(one) for one in values])


def _values(number: int) -> list[dict[str, Any]]:
    ids = Ids(lambda: int(datetime.now(UTC).timestamp() * 1000)).many("job", number)
    terms = dict(zip(TERMS, of_terms(Terms("noop", "default")), strict=True)) | {
        "now": None,
        "run_at": None,
        "delay": 0.0,
    }
    return [{**terms, "id": id, "payload": f'{{"n":{place}}}'} for place, id in enumerate(ids)]


def _calls(sql: statements.Statements, jobs: int, call: int, encoding: str) -> list[tuple[str, dict[str, Any]]]:
    """A statement of one job, and those of the calls, each with its values."""
    now = datetime.now(UTC)
    ids = Ids(lambda: int(now.timestamp() * 1000)).many("job", jobs + 1)
    terms = Terms("noop", "default")
    new = [NewJob(id, f'{{"n":{number}}}', terms) for number, id in enumerate(ids)]
    made = []
    for start in (0, *range(1, jobs + 1, call)):
        some = new[start : start + call] if start else new[:1]
        part = Part.of(AlikeJobs.of(some, frozenset()), encoding)
        made.append(part.statement(sql, now + start * STEP, STEP))
    return made
