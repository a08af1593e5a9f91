"""The life of a batch: opened, sealed, ended. The end is decided by one transaction, which writes the callbacks.

Whoever ends members looks afterwards, when that is committed, whether any are left: of two that end the last ones, the
later one sees none. A process that dies between the two leaves the end to the sweep.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, or_, select, update

from sloppyjobs import errors
from sloppyjobs.domain.batches import (
    BatchRow,
    BatchStatus,
    MemberState,
    NewBatch,
    decode_callbacks,
    due_callbacks,
    encode_callbacks,
    verdict,
)
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.storage.batches.rows import BatchRows
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.unavailable import DatabaseError

log = get_logger("sloppyjobs.batches")


class Batches:
    """Batches, as those who fill them and those who end their members know them."""

    def __init__(self, database: Database, rows: BatchRows, inserts: Insert) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.rows = rows
        self.inserts = inserts
        self._swept: str | None = None

    def open(self, new: NewBatch, connection: Connection | None = None) -> None:
        """Write a batch that takes members; an id that is there already is an earlier run of this transaction."""
        if connection is not None:
            self.dialect.refuse_caller(connection)
        self.database.ensure_schema(connection)
        batches = self.tables.batches

        def work(c: Connection) -> None:
            if c.execute(select(batches.c.id).where(batches.c.id == new.id)).first() is not None:
                return
            now = self.database.now(c)
            values = {
                "id": new.id,
                "name": new.name,
                "status": BatchStatus.OPEN.value,
                "success_rate": new.success_rate,
                "callbacks": encode_callbacks(new.callbacks),
                "metadata": new.metadata,
                "created_at": now,
                "updated_at": now,
            }
            c.execute(insert(batches).values(values))

        self.database.write(work, connection)

    def seal(self, batch_id: str, connection: Connection | None = None) -> BatchRow:
        """Let it take no further members from outside; a batch with nothing outstanding ends. Safe to repeat."""
        if connection is not None:
            self.dialect.refuse_caller(connection)
        self.database.ensure_schema(connection)
        return self.database.write(lambda c: self.seal_in(c, batch_id), connection)

    def seal_in(self, connection: Connection, batch_id: str) -> BatchRow:
        """The same inside a transaction that is open already."""
        batches = self.tables.batches
        now = self.database.now(connection)
        same = (batches.c.id == batch_id, batches.c.status == BatchStatus.OPEN.value)
        values = {"status": BatchStatus.RUNNING.value, "sealed_at": now, "updated_at": now}
        if connection.execute(update(batches).where(*same).values(values)).rowcount == 1:
            self.end_in(connection, batch_id)
            # The last member may end at this moment, and whoever ends it sees a batch that is not sealed.
            self.database.after_commit(connection, self.end_over, {batch_id})
        return self.rows.find(connection, batch_id)

    # The end

    def end_over(self, batch_ids: Collection[str]) -> None:
        """End those of these batches that are sealed and have nothing outstanding. Never raises: there is the sweep."""
        try:
            for batch_id in sorted(batch_ids):
                if self.database.read(lambda c, one=batch_id: self.rows.is_over(c, one)):  # type: ignore[misc]
                    self.database.write(lambda c, one=batch_id: self.end_in(c, one))  # type: ignore[misc]
        except (errors.JobsError, DatabaseError):
            log.warning(
                "a batch whose members have all ended could not be ended; it will be tried again", exc_info=True
            )

    def end_in(self, connection: Connection, batch_id: str) -> bool:
        """End a batch if it is over; True for the one transaction that does.

        Its row is written to before its members are looked for: whoever adds, retries or ends at the same time is met
        here.
        """
        batches, c = self.tables.batches, self.tables.batches.c
        now = self.database.now(connection)
        # Members are retried in steps, between which nothing may be outstanding.
        idle = or_(c.action.is_(None), c.action == "cancel")
        running = (c.id == batch_id, c.status == BatchStatus.RUNNING.value, idle)
        if connection.execute(update(batches).where(*running).values(updated_at=now)).rowcount != 1:
            return False
        if self.rows.members(connection, batch_id, MemberState.OUTSTANDING, 1):
            return False
        self._end(connection, self.rows.find(connection, batch_id), now)
        return True

    def _end(self, connection: Connection, batch: BatchRow, now: datetime) -> None:
        tally = self.rows.tally(connection, batch.id)
        status = verdict(tally, batch.success_rate, cancelled=batch.cancelled_at is not None)
        due = due_callbacks(
            status,
            ended_before=batch.first_ended_at is not None,
            succeeded_before=batch.succeeded_at is not None,
        )
        values: dict[str, Any] = {
            "status": status.value,
            "finished_at": now,
            "first_ended_at": batch.first_ended_at or now,
            "first_status": batch.first_status or status.value,
            "succeeded_at": batch.succeeded_at or (now if status is BatchStatus.SUCCEEDED else None),
            "action": None,
            "action_after": None,
        }
        batches = self.tables.batches
        connection.execute(update(batches).where(batches.c.id == batch.id).values(values))
        callbacks = decode_callbacks(batch.callbacks)
        new = [callbacks[kind] for kind in due if kind in callbacks]
        if new:
            # Their ids are known beforehand: one that is there already is not written again.
            self.inserts.insert_all(connection, new, rerun=True)

    def sweep(self, limit: int) -> int:
        """End batches that are over, of up to ``limit`` that are running; the next call looks at the next ones."""
        c = self.tables.batches.c
        query = select(c.id).where(c.status == BatchStatus.RUNNING.value)
        if self._swept is not None:
            query = query.where(c.id > self._swept)
        query = query.order_by(c.id).limit(limit)
        ids = self.database.read(lambda connection: list(connection.execute(query).scalars()))
        self._swept = ids[-1] if len(ids) == limit else None
        over = self.database.read(lambda connection: [one for one in ids if self.rows.is_over(connection, one)])
        return sum(self.database.write(lambda connection, one=one: self.end_in(connection, one)) for one in over)  # type: ignore[misc]
