"""Enqueueing in PostgreSQL: one job by one statement, some that are alike by one statement too, more by COPY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from sloppyjobs import errors
from sloppyjobs.model import Job, NewJob
from sloppyjobs.states import Status
from sloppyjobs.storage.database import cursor_of, driver_of
from sloppyjobs.storage.dialects import postgres_copy, postgres_sql
from sloppyjobs.storage.dialects.postgres_arrays import taking_arrays, text_array
from sloppyjobs.storage.dialects.postgres_drivers import refuse_autocommit
from sloppyjobs.storage.dialects.postgres_lines import Lines, OwnLines, PooledLines
from sloppyjobs.storage.enqueue import INSERT_TRIES, Written, alike, as_written, keyed, placed, terms_values
from sloppyjobs.storage.storage import SqlStorage

INSERTED = 1500
"""Jobs that one statement inserts. It costs more for each job than a COPY, which costs more to begin with."""

COPIED = 10_000
"""Jobs in one COPY; the server prepares room for a thousand at each."""


class PostgresEnqueue(SqlStorage):
    """How jobs are written, as fast as their number allows."""

    _lines: Lines

    @cached_property
    def _sql(self) -> postgres_sql.Statements:
        """The statements over the storage's tables."""
        raise NotImplementedError

    @cached_property
    def _known_queues(self) -> set[str]:
        """Queues that had their row when this process last enqueued to them."""
        return set()

    def _stand_on(self, engine: Engine, *, ours: bool) -> None:
        super()._stand_on(engine, ours=ours)
        self._lines = OwnLines(engine) if ours else PooledLines(engine)

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """One job, or some that are alike, in one statement; others by COPY, except where a key must be respected."""
        refuse_autocommit(connection)
        self.ensure_schema(connection)
        if len(new) == 1:
            return [self._insert_one(new[0], connection)]
        if connection is not None or keyed(new):
            return super().insert_jobs(new, connection)
        try:
            return self._again(lambda: (self._insert_alone if _are_alike(new) else self._copy_alone)(new))
        except DBAPIError as error:
            if not self.dialect.is_duplicate(error):
                raise
            # The ids are random: only a run of this very call whose answer was lost can have written them.
            return self.write(lambda c: self._insert_all(c, new, rerun=True))

    def _insert_one(self, new: NewJob, connection: Connection | None) -> Job:
        values = terms_values(new.terms)
        values |= {"id": new.id, "payload": new.payload, "now": self._injected_now()}
        # The way to write a queue's row where it is missing is long, even where it is not missing.
        known = new.terms.queue in self._known_queues
        statement = self._sql.insert_in_known if known else self._sql.insert_one
        for _ in range(INSERT_TRIES):
            row = self._on_hot_cursor(lambda cursor: _first_row(cursor, statement, values), connection)
            if row is not None:
                return self._inserted(new, row, connection)
            # A key or an id matched, and the other transaction has ended by now: only a new statement sees its row.
            # The id is random, so it is that of an earlier run of this statement, whose answer was lost.
            found = self.read(lambda c: self._holders(c, [new], ids=True), connection)
            if found:
                return Written([], found).answers([new])[0]
        raise errors.JobsError(f"the job that has the key {new.terms.idempotency_key!r} cannot be found; try again")

    def _inserted(self, new: NewJob, row: Any, connection: Connection | None) -> Job:
        status, run_at, created_at = Status(row[0]), self.from_driver(row[1]), self.from_driver(row[2])
        assert run_at is not None and created_at is not None
        queue, has_row = new.terms.queue, row[3]
        if not has_row:
            self._on_hot_cursor(lambda cursor: self.see_queues(cursor, {queue}, created_at), connection)
        elif connection is None:
            self._known_queues.add(queue)
        return as_written(new, status, run_at, created_at)

    def _on_hot_cursor(self, work: Callable[[Any], Any], connection: Connection | None) -> Any:
        if connection is not None:
            with self.naming_outages(), self.translating(connection):
                return work(cursor_of(connection))

        def attempt() -> Any:
            with self._lines.lent() as line:
                return work(line.cursor)

        return self._again(attempt)

    def _insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        driver = driver_of(connection)
        if _are_alike(new):
            self._insert_alike(taking_arrays(driver.cursor()), new, now)
            return placed(new, now, self.step)
        jobs = self._copy(driver, new, now)
        self._after_copy(driver, jobs, now)
        return jobs

    def _insert_alone(self, new: Sequence[NewJob]) -> list[Job]:
        """In a transaction of its own; the answer is made while the server works."""
        with self._lines.lent() as (driver, cursor):
            now = self.by_clock(driver.execute("SELECT clock_timestamp()", prepare=True).fetchone()[0])
            with driver.pipeline():
                self._insert_alike(cursor, new, now)
                return placed(new, now, self.step)

    def _insert_alike(self, cursor: Any, new: Sequence[NewJob], now: datetime) -> None:
        encoding = cursor.connection.info.encoding
        values = {
            **terms_values(new[0].terms),
            "ids": text_array([job.id for job in new], encoding),
            "payloads": text_array([job.payload for job in new], encoding),
            "now": now,
            "step": self.step,
        }
        cursor.execute(self._sql.insert_alike, values, prepare=True)

    def _copy_alone(self, new: Sequence[NewJob]) -> list[Job]:
        """In a transaction of its own, with as few round trips as can be."""
        with self._lines.lent() as (driver, _):
            with driver.pipeline():
                driver.execute("BEGIN")
                clock = driver.execute("SELECT clock_timestamp()", prepare=True)
            now = self.by_clock(clock.fetchone()[0])
            jobs: list[Job] = []
            for start in range(0, len(new), COPIED):
                jobs += self._copy(driver, new[start : start + COPIED], now + start * self.step)
            with driver.pipeline():
                self._after_copy(driver, jobs, now)
                driver.execute("COMMIT")
        return jobs

    def _copy(self, driver: Any, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """Write jobs and their first events."""
        encoding, step = driver.info.encoding, self.step
        columns = postgres_copy.columns(new)
        with driver.cursor().copy(postgres_sql.copy_into(self._sql.jobs, columns)) as stream:
            for part in postgres_copy.job_rows(new, columns, now, step, encoding):
                stream.write(part)
            # The server is still writing.
            jobs = placed(new, now, step)
            events = postgres_copy.event_rows(jobs, now, step, encoding)
        with driver.cursor().copy(self._sql.copy_events) as stream:
            stream.write(events)
        return jobs

    def _after_copy(self, driver: Any, jobs: Sequence[Job], now: datetime) -> None:
        values = {"queues": sorted({job.queue for job in jobs}), "now": now}
        driver.execute(self._sql.after_copy, values, prepare=True)

    def _injected_now(self) -> datetime | None:
        return None if self._test_clock is None else self._test_clock.now()


def _first_row(cursor: Any, statement: str, values: dict[str, Any]) -> Any:
    cursor.execute(statement, values, prepare=True)
    return cursor.fetchone()


def _are_alike(new: Sequence[NewJob]) -> bool:
    """Whether they go in by one statement."""
    return len(new) <= INSERTED and alike(new)
