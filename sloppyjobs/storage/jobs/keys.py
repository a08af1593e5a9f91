"""The rows of business keys: each names the job that has the key.

Whoever writes a key's row first has the key; others wait for that transaction and then see the row. The step that ends
a job removes its row, and an operator's retry writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Connection, Integer, Text, and_, bindparam, delete, insert, or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.domain.business_keys import Holder, Verdict, verdict
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import AlikeJobs, NewJob
from sloppyjobs.domain.states import FINISHED
from sloppyjobs.domain.stored_words import status_or_none
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Conflict, cursor_of
from sloppyjobs.storage.jobs.followups import Edge, Followups
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.style import nearest

_ROW: Mapping[str, TypeEngine[Any]] = {
    "key": Text(),
    "job_id": Text(),
    "until_start": Integer(),
    "reserved_until": Instant(),
    "created_at": Instant(),
}


class Keys:
    """Which job has which business key."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables

    def follow(self, followups: Followups) -> None:
        """See to the keys of jobs that end or are retried."""
        for bit in (Followup.KEY, Followup.PENDING_KEY):
            followups.add(bit, self._follow_up)
        followups.add_refusal(Followup.KEY, self._refuse_taken)

    # Taking

    def holders(self, connection: Connection, keys: Sequence[str]) -> dict[str, Holder]:
        """Who has these keys."""
        query = self.database.prepared("holders of keys", self._holders)
        found = query.rows(cursor_of(connection), {"keys": self.dialect.list_param(keys)}) if keys else []
        return {row[0]: self._read_holder(*row) for row in found}

    def _holders(self) -> Any:
        rows, jobs = self.tables.keys, self.tables.jobs
        of_key = (rows.c.key, rows.c.job_id, rows.c.until_start, rows.c.reserved_until)
        with_job = rows.outerjoin(jobs, jobs.c.id == rows.c.job_id)
        query = select(*of_key, jobs.c.status, jobs.c.attempt_count).select_from(with_job)
        return query.where(self.dialect.any_of(rows.c.key, "keys"))

    def _read_holder(self, key: str, job_id: str, until_start: int, until: Any, status: Any, attempts: Any) -> Holder:
        try:
            reserved_until = self.database.from_driver(until)
        except ValueError:
            reserved_until = nearest(str(until))
        return Holder(key, job_id, bool(until_start), reserved_until, status_or_none(status), attempts or 0)

    def reserve(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> bool:
        """Write the rows of these jobs' keys, in the order of the keys; False where somebody was faster with one.

        In that order, so that two who take the same keys wait for each other in one direction.
        """
        moment = self.database.to_driver(now)
        rows = [(*row, moment) for row in key_rows(new, now, self.database.to_driver)]
        return self._insert(connection, rows)

    def hand_over(self, connection: Connection, holder: Holder, new: NewJob, now: datetime) -> bool:
        """Give a key that one job has to another; False where the one does not have it any more."""
        rows = self.tables.keys
        terms = new.terms
        values = {
            "job_id": new.id,
            "until_start": int(terms.unique == "pending"),
            "reserved_until": _window(terms.unique_for, now),
            "created_at": now,
        }
        same = (rows.c.key == holder.key, rows.c.job_id == holder.job_id)
        return connection.execute(update(rows).where(*same).values(values)).rowcount == 1

    def give_up(self, connection: Connection, owners: Mapping[str, str]) -> None:
        """Remove the rows of keys where they name these jobs, given by key."""
        if not owners:
            return
        c = self.tables.keys.c
        theirs = delete(self.tables.keys).where(
            self.dialect.any_of(c.key, "keys"), self.dialect.any_of(c.job_id, "ids")
        )
        list_param = self.dialect.list_param
        connection.execute(
            theirs, {"keys": list_param(sorted(owners)), "ids": list_param(sorted(set(owners.values())))}
        )

    def _insert(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
        self.dialect.ensure_begun(connection)
        # One writer cannot be forestalled since it has looked; and SQLite undoes a refused statement by itself.
        savepoint = nullcontext() if self.dialect.one_writer else connection.begin_nested()
        try:
            with savepoint, self.database.translating(connection):
                self.write_rows(cursor_of(connection), rows)
        except DBAPIError as error:
            if not self.dialect.is_duplicate(error):
                raise
            return False
        return True

    def write_rows(self, cursor: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert these rows, in their order."""
        statement = self.database.prepared("reserve keys", self._reserve_keys)
        statement.run(cursor, {"given": msgspec.json.encode(rows).decode()})

    def _reserve_keys(self) -> Any:
        given = self.dialect.given_rows("given", _ROW)
        return insert(self.tables.keys).from_select(list(_ROW), select(*(given.c[name] for name in _ROW)))

    # What happens with the jobs

    def _follow_up(self, connection: Connection, edges: Sequence[Edge]) -> None:
        ended = [edge.job_id for edge in edges if edge.target is None or edge.target in FINISHED]
        retried = [edge.job_id for edge in edges if _is_retried(edge) and edge.bits & Followup.KEY]
        now = self.database.now(connection)
        if ended:
            self.give_up(connection, self._held_by(connection, ended, now))
        if retried:
            self._take_again(connection, retried, now)

    def _held_by(self, connection: Connection, job_ids: Sequence[str], now: datetime) -> dict[str, str]:
        """The keys that have rows which name these jobs and whose windows are over, with the jobs.

        Read before they are removed: a row of the same key that names another job may be locked by somebody who waits
        for one of these.
        """
        query = self.database.prepared("keys of jobs", self._keys_of_jobs)
        values = {"ids": self.dialect.list_param(sorted(job_ids)), "now": self.database.to_driver(now)}
        return dict(query.rows(cursor_of(connection), values))

    def _keys_of_jobs(self) -> Any:
        rows, jobs = self.tables.keys.c, self.tables.jobs.c
        theirs = and_(self.dialect.same_key(rows.key, jobs.business_key), rows.job_id == jobs.id)
        now = bindparam("now", type_=rows.reserved_until.type)
        over = or_(rows.reserved_until.is_(None), rows.reserved_until <= now)
        query = select(rows.key, rows.job_id).select_from(self.tables.jobs.join(self.tables.keys, theirs))
        return query.where(self.dialect.any_of(jobs.id, "ids"), over)

    def _take_again(self, connection: Connection, job_ids: Sequence[str], now: datetime) -> None:
        """Write the rows of jobs that live again; ``Conflict`` where a key was taken since it was looked for."""
        wanted = {key: job_id for job_id, key in self._keys_of(connection, job_ids).items()}
        held = self.holders(connection, list(wanted))
        stale = [holder for key, holder in held.items() if holder.job_id != wanted[key] and not _keeps(holder, now)]
        self.give_up(connection, {holder.key: holder.job_id for holder in stale})
        kept = held.keys() - {holder.key for holder in stale}
        moment = self.database.to_driver(now)
        missing = [(key, wanted[key], 0, None, moment) for key in sorted(wanted.keys() - kept)]
        others = any(held[key].job_id != wanted[key] for key in kept)
        if others or (missing and not self._insert(connection, missing)):
            raise Conflict("a business key was taken meanwhile")

    def _refuse_taken(self, connection: Connection, edges: Sequence[Edge]) -> Mapping[str, errors.JobsError]:
        """Jobs that would live again while another one has their key; of several with one key, the first lives."""
        wanted = self._keys_of(connection, [edge.job_id for edge in edges if _is_retried(edge)])
        if not wanted:
            return {}
        now = self.database.now(connection)
        held = self.holders(connection, sorted(set(wanted.values())))
        taken = {key: holder.job_id for key, holder in held.items() if _keeps(holder, now)}
        refused: dict[str, errors.JobsError] = {}
        for job_id, key in sorted(wanted.items()):
            other = taken.setdefault(key, job_id)
            if other != job_id:
                refused[job_id] = errors.KeyConflict(
                    f"job {job_id} cannot be retried: its business key {key!r} is taken by job {other}",
                    job_id=other,
                    reason="its business key is taken",
                )
        return refused

    def _keys_of(self, connection: Connection, job_ids: Sequence[str]) -> dict[str, str]:
        """The keys of these jobs, by their ids."""
        c = self.tables.jobs.c
        query = select(c.id, c.business_key).where(c.id.in_(job_ids), c.business_key.is_not(None))
        return {row.id: row.business_key for row in connection.execute(query)} if job_ids else {}


def business_keys(new: Sequence[NewJob]) -> list[str]:
    """The business keys of these jobs."""
    return [key for job in new if (key := job.terms.business_key) is not None] if may_have_keys(new) else []


def may_have_keys(new: Sequence[NewJob]) -> bool:
    """Whether any of these jobs may have a business key: False where it is known without looking at each."""
    if isinstance(new, AlikeJobs) and "business_key" not in new.differing:
        return new[0].terms.business_key is not None
    return bool(new)


def key_rows(
    new: Sequence[NewJob], now: datetime, to_driver: Callable[[datetime], Any] = lambda instant: instant
) -> list[tuple[str, str, int, Any]]:
    """Key, job, ``until_start`` and ``reserved_until`` of those of these jobs that have keys, in the order of these.

    What is the same in many rows is made once.
    """
    ends: dict[tuple[str, float | None], tuple[int, Any]] = {}
    found: list[tuple[str, str, int, Any]] = []
    for job in new:
        terms = job.terms
        if terms.business_key is None:
            continue
        kept = terms.unique, terms.unique_for
        if kept not in ends:
            window = _window(terms.unique_for, now)
            ends[kept] = int(terms.unique == "pending"), None if window is None else to_driver(window)
        found.append((terms.business_key, job.id, *ends[kept]))
    found.sort(key=itemgetter(0))
    return found


def _window(seconds: float | None, now: datetime) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _is_retried(edge: Edge) -> bool:
    """Whether the job had ended, and lives again."""
    return edge.source in FINISHED and edge.target is not None and edge.target not in FINISHED


def _keeps(holder: Holder, now: datetime) -> bool:
    return verdict(holder, "reject", now) is Verdict.REJECT
