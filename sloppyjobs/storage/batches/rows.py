"""Batches as they are read: the rows and their numbers, at a bounded cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, exists, func, select

from sloppyjobs import errors
from sloppyjobs.domain.batches import BatchRow, BatchStatus, MemberState, Tally
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.ports.batches import BatchCounts, BatchFound, BatchQuery
from sloppyjobs.storage.ports.reads import Key, Scope
from sloppyjobs.storage.reads.keyset import Filter, Keyset, Scan

DUE = 100
"""Batches with a command to carry out that are read at once."""


class BatchRows:
    """Bounded reads of batches and their numbers."""

    def __init__(self, database: Database, keyset: Keyset) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.keyset = keyset

    @bounded_read
    def get(self, connection: Connection, batch_id: str, scope: Scope) -> BatchFound:
        """A batch with its numbers in these queues; ``UnknownBatch`` where there is none, or none there."""
        row = self.find(connection, batch_id)
        counts = self._counts(connection, [batch_id], scope)
        if scope is not None and batch_id not in counts:
            raise unknown(batch_id)
        return BatchFound(row, counts.get(batch_id, BatchCounts()))

    @bounded_read
    def queues(self, connection: Connection, batch_id: str) -> list[str]:
        """The queues that members of a batch are in, or were."""
        c = self.tables.batch_counts.c
        return sorted(connection.execute(select(c.queue).where(c.batch_id == batch_id).distinct()).scalars())

    @bounded_read
    def page(
        self, connection: Connection, wanted: BatchQuery, after: Key | None, *, backward: bool, limit: int
    ) -> tuple[Sequence[BatchFound], Key | None]:
        """Batches beyond a key, latest first or backward, and the key after which to go on."""
        page = self.keyset.read(connection, [self.scan(wanted)], after=after, descending=not backward, limit=limit)
        ids = [key[-1] for key in page.found]
        c = self.tables.batches.c
        found = connection.execute(select(*_columns(c)).where(c.id.in_(ids))) if ids else ()
        rows = {row[0]: batch_row(row) for row in found}
        counts = self._counts(connection, ids, wanted.scope) if ids else {}
        return [BatchFound(rows[id], counts.get(id, BatchCounts())) for id in ids if id in rows], page.resume

    @bounded_read
    def dead_members(self, connection: Connection, batch_id: str, limit: int) -> list[str]:
        """The first members of a batch that are dead."""
        return self.members(connection, batch_id, MemberState.DEAD, limit)

    def scan(self, wanted: BatchQuery) -> Scan:
        """The scan that finds what is wanted: by status, or all in the order of their ids."""
        c, counts = self.tables.batches.c, self.tables.batch_counts.c
        where = [] if wanted.status is None else [c.status == wanted.status.value]
        if wanted.scope is not None:
            seen = exists().where(counts.batch_id == c.id, counts.queue.in_(list(wanted.scope)))
            where.append(seen)
        filters: list[Filter] = []
        if wanted.name is not None:
            filters.append((c.name, lambda given: given == wanted.name))
        return Scan(tuple(where), (c.id,), tuple(filters), () if wanted.status is None else (c.status,))

    # Inside of transactions

    def find(self, connection: Connection, batch_id: str, *, skip_locked: bool = False) -> BatchRow:
        """The row of a batch, or ``UnknownBatch``. ``skip_locked`` locks it; what others have locked is not found."""
        c = self.tables.batches.c
        query: Any = select(*_columns(c)).where(c.id == batch_id)
        row = connection.execute(self.dialect.locked(query, skip=True) if skip_locked else query).first()
        if row is None:
            raise unknown(batch_id)
        return batch_row(row)

    def tally(self, connection: Connection, batch_id: str) -> Tally:
        """The numbers of a batch."""
        return self._counts(connection, [batch_id], None).get(batch_id, BatchCounts()).tally

    def members(
        self, connection: Connection, batch_id: str, state: MemberState, limit: int, after: str | None = None
    ) -> list[str]:
        """The first members of a batch that are outstanding, or dead."""
        c = self.tables.batch_members.c
        query = select(c.job_id).where(c.batch_id == batch_id, c.state == int(state))
        if after is not None:
            query = query.where(c.job_id > after)
        return list(connection.execute(query.order_by(c.job_id).limit(limit)).scalars())

    def is_over(self, connection: Connection, batch_id: str) -> bool:
        """Whether a batch is sealed and nothing of it is outstanding, although it has not ended."""
        query = self.database.prepared("batch is over", self._outstanding)
        rows = query.rows(cursor_of(connection), {"batch": batch_id})
        return bool(rows) and rows[0][0] == BatchStatus.RUNNING.value and rows[0][1] is None

    def _outstanding(self) -> Select[Any]:
        c, batches = self.tables.batch_members.c, self.tables.batches.c
        same = (c.batch_id == bindparam("batch"), c.state == int(MemberState.OUTSTANDING))
        # From the end: members are claimed in the order of their ids, and rows that were removed are still in the way.
        last = self.dialect.first(select(c.job_id).where(*same).order_by(c.job_id.desc())).scalar_subquery()
        return select(batches.status, last).where(batches.id == bindparam("batch"))

    def due_actions(self) -> list[str]:
        """Batches with a command to carry out."""
        c = self.tables.batches.c
        query = select(c.id).where(c.action.is_not(None)).order_by(c.action, c.id).limit(DUE)
        return self.database.read(lambda connection: list(connection.execute(query).scalars()))

    def _counts(self, connection: Connection, ids: Sequence[str], scope: Scope) -> dict[str, BatchCounts]:
        c = self.tables.batch_counts.c
        sums = [func.sum(c[name]) for name in Tally._fields]
        query = select(c.batch_id, func.min(c.first_at), func.max(c.last_at), *sums).where(c.batch_id.in_(ids))
        if scope is not None:
            query = query.where(c.queue.in_(list(scope)))
        found = connection.execute(query.group_by(c.batch_id))
        return {row[0]: BatchCounts(Tally(*map(int, row[3:])), row[1], row[2]) for row in found}


def unknown(batch_id: str) -> errors.UnknownBatch:
    """There is no such batch."""
    return errors.UnknownBatch(f"there is no batch {batch_id!r}")


def batch_row(row: Any) -> BatchRow:
    """A row of the table as a value; what cannot be read of it has a substitute, and is named."""
    id, name, word, stored, *others = row
    found = BatchRow(id, name, BatchStatus.OPEN, 1.0, *others)
    damage = []
    try:
        status = BatchStatus(word)
    except ValueError:
        damage.append(f"status is {word!r:.100}, which is none")
        status = BatchStatus.OPEN if found.sealed_at is None else BatchStatus.RUNNING
        status = status if found.finished_at is None else BatchStatus.FAILED
    try:
        rate = float(stored)
        if not 0 <= rate <= 1:
            raise ValueError(stored)
    except (TypeError, ValueError):
        damage.append(f"success_rate is {stored!r:.100}, which is no share")
        rate = 1.0
    return found._replace(status=status, success_rate=rate, damage="; ".join(damage) or None)


def _columns(c: Any) -> list[Any]:
    return [c[name] for name in BatchRow._fields if name != "damage"]
