"""Enqueueing in PostgreSQL: one job by one statement, some that are alike by one statement too, more by COPY."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from sloppyjobs import errors
from sloppyjobs.model import Job, NewJob
from sloppyjobs.states import Status
from sloppyjobs.storage.database import as_sqlalchemy, cursor_of, driver_of
from sloppyjobs.storage.dialects import postgres_copy, postgres_sql
from sloppyjobs.storage.dialects.postgres_arrays import taking_arrays, text_array
from sloppyjobs.storage.enqueue import as_written, due_at_once, keyed, placed
from sloppyjobs.storage.storage import SqlStorage

INSERTED = 1500
"""Jobs that one statement inserts. It costs more for each job than a COPY, which costs more to begin with."""

COPIED = 10_000
"""Jobs in one COPY; the server prepares room for a thousand at each."""

_IDLE = 0
"""libpq's word for a connection outside any transaction."""


class PostgresEnqueue(SqlStorage):
    """How jobs are written, as fast as their number allows."""

    _sql: postgres_sql.Statements

    @property
    def step(self) -> timedelta:
        """A microsecond: jobs that are enqueued together are claimed in their order, and the indexes know no id."""
        return timedelta(microseconds=1 if self._test_clock is None else 0)

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """One job, or some that are alike, in one statement; others by COPY, except where a key must be respected."""
        if connection is not None and _autocommits(connection):
            raise errors.InvalidOption(
                "connection=…: it is in autocommit mode, there is no transaction to enqueue in; begin one, or pass none"
            )
        self.ensure_schema(connection)
        if len(new) == 1:
            return [self._insert_one(new[0], connection)]
        if connection is not None or keyed(new):
            return super().insert_jobs(new, connection)
        return self._again(lambda: (self._insert_alone if _are_alike(new) else self._copy_alone)(new))

    def _insert_one(self, new: NewJob, connection: Connection | None) -> Job:
        values = postgres_sql.terms_values(new.terms)
        values |= {"id": new.id, "payload": new.payload, "now": self._injected_now()}
        while True:
            row = self._on_hot_cursor(lambda cursor: self._fetch_inserted(cursor, values), connection)
            if row is not None:
                status, run_at, created_at = Status(row[0]), self.from_driver(row[1]), self.from_driver(row[2])
                assert run_at is not None and created_at is not None
                return as_written(new, status, run_at, created_at)
            # A key or an id matched, and the other transaction has ended by now: only a new statement sees its row.
            found = self._existing(new, connection)
            if found is not None:
                return found

    def _fetch_inserted(self, cursor: Any, values: dict[str, Any]) -> Any:
        cursor.execute(self._sql.insert_one, values, prepare=True)
        return cursor.fetchone()

    def _existing(self, new: NewJob, connection: Connection | None) -> Job | None:
        if new.terms.idempotency_key is not None:
            return self.job_by_key(new.terms.idempotency_key, connection)
        return self.get_job(new.id, connection)

    def _on_hot_cursor(self, work: Callable[[Any], Any], connection: Connection | None) -> Any:
        if connection is not None:
            with self.translating(connection):
                return work(cursor_of(connection))

        def attempt() -> Any:
            with self._driver() as driver:
                return work(driver.cursor())

        return self._again(attempt)

    @contextmanager
    def _driver(self) -> Iterator[Any]:
        """A connection of the driver's own, in autocommit mode; what SQLAlchemy does around it costs too much here."""
        pooled = self.engine.raw_connection()
        driver: Any = pooled.driver_connection
        try:
            driver.autocommit = True
            yield driver
        except self.engine.dialect.loaded_dbapi.Error as error:
            broken = self.engine.dialect.is_disconnect(error, pooled, None)
            if broken:
                pooled.invalidate(error)
            raise as_sqlalchemy(error, self.engine, broken=broken) from error
        finally:
            if pooled.is_valid:
                if driver.info.transaction_status != _IDLE:
                    driver.rollback()
                driver.autocommit = False
            pooled.close()

    def _insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        driver = driver_of(connection)
        if _are_alike(new):
            self._insert_alike(driver, new, now)
            return placed(new, now, self.step)
        jobs = self._copy(driver, new, now)
        self._after_copy(driver, jobs, now)
        return jobs

    def _insert_alone(self, new: Sequence[NewJob]) -> list[Job]:
        """In a transaction of its own; the answer is made while the server works."""
        with self._driver() as driver:
            now = self.by_clock(driver.execute("SELECT clock_timestamp()", prepare=True).fetchone()[0])
            with driver.pipeline():
                self._insert_alike(driver, new, now)
                return placed(new, now, self.step)

    def _insert_alike(self, driver: Any, new: Sequence[NewJob], now: datetime) -> None:
        encoding = driver.info.encoding
        values = {
            **postgres_sql.terms_values(new[0].terms),
            "ids": text_array([job.id for job in new], encoding),
            "payloads": text_array([job.payload for job in new], encoding),
            "now": now,
            "step": self.step,
        }
        taking_arrays(driver.cursor()).execute(self._sql.insert_alike, values, prepare=True)

    def _copy_alone(self, new: Sequence[NewJob]) -> list[Job]:
        """In a transaction of its own, with as few round trips as can be."""
        with self._driver() as driver:
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


def _autocommits(connection: Connection) -> bool:
    driver: Any = connection.connection.driver_connection
    return bool(driver.autocommit)


def _are_alike(new: Sequence[NewJob]) -> bool:
    """Whether one statement can insert them: all of them on the same terms, and due at once."""
    if not 0 < len(new) <= INSERTED:
        return False
    terms = new[0].terms
    return due_at_once(terms) and all(job.terms is terms for job in new)
