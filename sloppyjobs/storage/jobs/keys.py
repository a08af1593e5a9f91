"""The rows of business keys: each names the job that has the key.

Whoever writes a key's row first has the key; others wait for that transaction and then see the row. The step that ends
a job removes its row, and an operator's retry writes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, Integer, Text, delete, insert, or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.domain.business_keys import Holder, Verdict, verdict
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Conflict, cursor_of
from sloppyjobs.storage.jobs.followups import Edge, Followups
from sloppyjobs.storage.schema.instants import Instant

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
        rows, jobs = self.tables.keys, self.tables.jobs
        query = (
            select(
                rows.c.key,
                rows.c.job_id,
                rows.c.until_start,
                rows.c.reserved_until,
                jobs.c.status,
                jobs.c.attempt_count,
            )
            .select_from(rows.outerjoin(jobs, jobs.c.id == rows.c.job_id))
            .where(self.dialect.any_of(rows.c.key, "keys"))
        )
        found = connection.execute(query, {"keys": self.dialect.list_param(keys)})
        return {row[0]: _holder(*row) for row in found}

    def reserve(self, connection: Connection, new: Sequence[NewJob], now: datetime) -> bool:
        """Write the rows of these jobs' keys, in the order of the keys; False where somebody was faster with one.

        In that order, so that two who take the same keys wait for each other in one direction.
        """
        to_driver = self.database.to_driver
        rows = [self.row(job, now) for job in sorted(new, key=self.order)]
        return self._insert(
            connection, [(*row, None if u is None else to_driver(u), to_driver(n)) for *row, u, n in rows]
        )

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

    def give_up(self, connection: Connection, job_ids: Sequence[str]) -> None:
        """Remove the rows of jobs that were not written after all."""
        connection.execute(delete(self.tables.keys).where(self.tables.keys.c.job_id.in_(job_ids)))

    def _insert(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
        statement = self.database.prepared("reserve keys", self._reserve_keys)
        self.dialect.ensure_begun(connection)
        try:
            with connection.begin_nested(), self.database.translating(connection):
                statement.run(cursor_of(connection), {"given": msgspec.json.encode(rows).decode()})
        except DBAPIError as error:
            if not self.dialect.is_duplicate(error):
                raise
            return False
        return True

    @staticmethod
    def order(new: NewJob) -> str:
        """What the rows of new jobs are sorted by when they are written."""
        return new.terms.business_key or ""

    @staticmethod
    def row(new: NewJob, now: datetime) -> tuple[str | None, str, int, datetime | None, datetime]:
        """The row of a new job's key."""
        terms = new.terms
        return terms.business_key, new.id, int(terms.unique == "pending"), _window(terms.unique_for, now), now

    def _reserve_keys(self) -> Any:
        given = self.dialect.given_rows("given", _ROW)
        return insert(self.tables.keys).from_select(list(_ROW), select(*(given.c[name] for name in _ROW)))

    # What happens with the jobs

    def _follow_up(self, connection: Connection, edges: Sequence[Edge]) -> None:
        ended = [edge.job_id for edge in edges if edge.target is None or edge.target in FINISHED]
        retried = [edge.job_id for edge in edges if _is_retried(edge) and edge.bits & Followup.KEY]
        now = self.database.now(connection)
        if ended:
            c = self.tables.keys.c
            over = or_(c.reserved_until.is_(None), c.reserved_until <= now)
            connection.execute(delete(self.tables.keys).where(c.job_id.in_(sorted(ended)), over))
        if retried:
            self._take_again(connection, retried, now)

    def _take_again(self, connection: Connection, job_ids: Sequence[str], now: datetime) -> None:
        """Write the rows of jobs that live again; ``Conflict`` where a key was taken since it was looked for."""
        wanted = {key: job_id for job_id, key in self._keys_of(connection, job_ids).items()}
        held = self.holders(connection, list(wanted))
        stale = [holder for key, holder in held.items() if holder.job_id != wanted[key] and not _keeps(holder, now)]
        self.give_up(connection, [holder.job_id for holder in stale])
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


def _holder(
    key: str, job_id: str, until_start: int, reserved_until: datetime | None, status: Any, attempts: Any
) -> Holder:
    known = None if status is None else Status(status)
    return Holder(key, job_id, bool(until_start), reserved_until, known, attempts or 0)


def _window(seconds: float | None, now: datetime) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _is_retried(edge: Edge) -> bool:
    """Whether the job had ended, and lives again."""
    return edge.source in FINISHED and edge.target is not None and edge.target not in FINISHED


def _keeps(holder: Holder, now: datetime) -> bool:
    return verdict(holder, "reject", now) is Verdict.REJECT
