"""Enqueueing in PostgreSQL: one job by one statement, many by one for some thousands of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.storage.batches.members import shard_of_process
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.dialects.postgres import linked_rows, statements
from sloppyjobs.storage.dialects.postgres.arrays import Array, taking_arrays, text_array
from sloppyjobs.storage.dialects.postgres.autocommit_pool import AutocommitPool
from sloppyjobs.storage.dialects.postgres.bulk_part import Part, parts_of
from sloppyjobs.storage.dialects.postgres.drivers import pipeline
from sloppyjobs.storage.dialects.postgres.single_insert import SingleInsert
from sloppyjobs.storage.driver import driver_of
from sloppyjobs.storage.jobs.insert import Written, first_of_each_key, keyed
from sloppyjobs.storage.jobs.keys import business_keys
from sloppyjobs.storage.jobs.new_rows import NewRows


class PostgresInsert(SingleInsert):
    """How jobs are written by psycopg 3, as fast as their number allows."""

    def __init__(self, database: Database, *, pool: AutocommitPool, sql: statements.Statements) -> None:
        super().__init__(database, sql=sql)
        self._pool = pool

    def insert_jobs(self, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """By as few statements as can be. Where a key is taken, all are looked at first."""
        if connection is not None or len(new) == 1:
            return super().insert_jobs(new, connection)
        self.database.ensure_schema()
        fresh = first_of_each_key(new) if keyed(new) else new
        written = self._insert_at_once(fresh)
        if written is None:
            return self.database.write(lambda c: self.insert_all(c, new, rerun=True))
        return written if fresh is new else Written(written, []).answers(new)

    def insert_members(
        self, new: Sequence[NewJob], connection: Connection | None = None, *, rerun: bool = False
    ) -> list[Job]:
        """As plain jobs are, where all of them are added to one open batch; else by the common way."""
        batch_id = None if rerun or connection is not None or keyed(new) else _common_batch(new)
        if batch_id is None:
            return super().insert_members(new, connection, rerun=rerun)
        self.database.ensure_schema()
        written = self._insert_at_once(new, batch_id)
        # The common way says why the batch takes no jobs.
        return super().insert_members(new, rerun=True) if written is None else written

    def shortens(self, new: Sequence[NewJob]) -> bool:
        """Jobs with business keys and tags."""
        return linked_rows.only_keys_and_tags(new)

    def insert_shortly(self, new: Sequence[NewJob]) -> list[Job] | None:
        """As plain jobs are, with a statement for the rows of keys before them, and one for those of tags after."""
        return self._insert_at_once(new, linked=True)

    def _insert_at_once(
        self, new: Sequence[NewJob], batch_id: str | None = None, *, linked: bool = False
    ) -> list[Job] | None:
        """None where a key is taken, the batch takes no jobs, or an earlier run of this call was committed."""
        try:
            return self.database.retry(lambda: self._insert_in_own_transaction(new, batch_id, linked=linked))
        except DBAPIError as error:
            if not self.dialect.is_duplicate(error):
                raise
            # The ids are random: only a run of this very call whose answer was lost can have written them. And a key
            # may have been taken since it was looked for.
            return None

    def _on_cursor(self, work: Callable[[Any], Any], connection: Connection | None) -> Any:
        if connection is not None:
            return super()._on_cursor(work, connection)

        def attempt() -> Any:
            with self._pool.checkout() as (_, cursor):
                return work(cursor)

        return self.database.retry(attempt)

    def _first_row(self, cursor: Any, statement: str, values: dict[str, Any]) -> Any:
        cursor.execute(statement, values, prepare=True)
        return cursor.fetchone()

    def insert_rows(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> list[Job]:
        """All of them in one statement."""
        driver = driver_of(connection)
        part = Part.of(new, driver.info.encoding)
        taking_arrays(driver.cursor()).execute(*part.statement(self._sql, now, self.database.step), prepare=True)
        return part.rows.jobs()

    def add_members(self, connection: Connection, batch_id: str, job_ids: Sequence[str]) -> None:
        """As an array, which is cheaper to read than JSON."""
        self._send_members(driver_of(connection), batch_id, job_ids)

    def _send_members(self, driver: Any, batch_id: str, job_ids: Sequence[str]) -> None:
        values = {"batch": batch_id, "ids": text_array(job_ids, driver.info.encoding)}
        taking_arrays(driver.cursor()).execute(self._sql.add_members, values, prepare=True)

    def _insert_in_own_transaction(
        self, new: Sequence[NewJob], batch_id: str | None, *, linked: bool
    ) -> list[Job] | None:
        """In a transaction of its own, with as few round trips as can be.

        None where a key is taken, or the batch takes no jobs.
        """
        keys = [key for job in new if (key := job.terms.idempotency_key) is not None] if keyed(new) else []
        # In the order in which they are taken.
        wanted = sorted(business_keys(new)) if linked else []
        with self._pool.checkout() as (driver, cursor):
            encoding = driver.info.encoding
            with pipeline(driver):
                cursor.execute("BEGIN")
                clock = driver.execute(statements.CLOCK_OF_INSERT, prepare=True)
                looked = [self._find_taken(driver, self._sql.taken_key, text_array(keys, encoding))] if keys else []
                taking = text_array(wanted, encoding)
                if wanted:
                    looked.append(self._find_taken(driver, self._sql.taken_business_key, taking))
                admitted = None if batch_id is None else self._admit(driver, batch_id)
                # Most of the first statement is made while the server answers.
                parts = parts_of(new)
                first = Part.of(next(parts), encoding)
            key_taken = any(taken.fetchone() is not None for taken in looked)
            if key_taken or (admitted is not None and admitted.rowcount != 1):
                driver.execute("ROLLBACK")
                return None
            now = self.database.by_clock(clock.fetchone()[0])
            with pipeline(driver):
                if wanted:
                    self._send_keys(cursor, new, taking, now)
                made = self._send_inserts(cursor, first, parts, now, batch_id)
                if batch_id is not None:
                    self._count_members(driver, batch_id, new)
                if linked:
                    self._send_tags(cursor, new, now)
                cursor.execute("COMMIT")
                # The answer is made while the server works.
                return [job for rows in made for job in rows.jobs()]

    def _send_inserts(
        self, cursor: Any, first: Part, others: Iterator[Sequence[NewJob]], now: datetime, batch_id: str | None
    ) -> list[NewRows]:
        """Part by part: the server writes one while the next is made."""
        encoding = cursor.connection.info.encoding
        made: list[NewRows] = []
        for part in chain([first], (Part.of(one, encoding) for one in others)):
            cursor.execute(*part.statement(self._sql, now, self.database.step, batch_id), prepare=True)
            made.append(part.rows)
            now += len(part.rows.ids) * self.database.step
        return made

    def _send_keys(self, cursor: Any, new: Sequence[NewJob], keys: Array, now: datetime) -> None:
        values = linked_rows.key_values(new, keys, now, cursor.connection.info.encoding)
        cursor.execute(self._sql.insert_keys, values, prepare=True)

    def _send_tags(self, cursor: Any, new: Sequence[NewJob], now: datetime) -> None:
        values = linked_rows.tag_values(new, now, self.database.step, cursor.connection.info.encoding)
        if values is not None:
            cursor.execute(self._sql.insert_tags, values, prepare=True)

    def _find_taken(self, driver: Any, statement: str, keys: Array) -> Any:
        """Ask whether a job has one of these keys: to try, and to be refused, would be an error in the server's log."""
        driver.execute(statements.PLAN_BY_INDEX, prepare=True)
        cursor = taking_arrays(driver.cursor())
        return cursor.execute(statement, {"keys": keys}, prepare=True)

    def _admit(self, driver: Any, batch_id: str) -> Any:
        return driver.execute(self._sql.admit, {"batch": batch_id, "now": self.database.injected_now()}, prepare=True)

    def _count_members(self, driver: Any, batch_id: str, new: Sequence[NewJob]) -> None:
        for queue, number in sorted(Counter(job.terms.queue for job in new).items()):
            values = {"batch": batch_id, "queue": queue, "number": number, "shard": shard_of_process()}
            driver.execute(self._sql.count_members, values, prepare=True)


def _common_batch(new: Sequence[NewJob]) -> str | None:
    """The batch to which all of these jobs are added from outside, if there is one."""
    added = {(terms.batch_id, terms.batch_adder) for terms in {id(job.terms): job.terms for job in new}.values()}
    batch_id, adder = added.pop()
    return batch_id if not added and adder is None else None
