"""What operators do to a batch as a whole, step by step: no step touches more members than a bound.

A command marks the batch; whoever gets its row's lock does a step, and workers go on where the caller stopped. Nothing
is done twice: a step locks its jobs and changes what is still as it should be.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, or_, update

from sloppyjobs import errors
from sloppyjobs.domain.batches import ENDED, BatchRow, BatchStatus, MemberState
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.batches.batches import Batches
from sloppyjobs.storage.batches.mending import mend
from sloppyjobs.storage.batches.rows import BatchRows
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.commands import Commands
from sloppyjobs.storage.ports.operators import Command, Decide

STEP = 500
"""Members that one transaction moves."""


class BatchCommands:
    """Cancel, retry and seal a batch."""

    def __init__(self, database: Database, batches: Batches, rows: BatchRows, commands: Commands, audit: Audit) -> None:
        self.database = database
        self.tables = database.tables
        self.batches = batches
        self.rows = rows
        self.commands = commands
        self.audit = audit

    def seal(self, batch_id: str, command: Command) -> bool:
        """Seal a batch, with an entry in the trail; False where it is sealed already."""
        self.database.ensure_schema()

        def work(connection: Connection) -> bool:
            before = self.rows.find(connection, batch_id)
            _refuse_damaged(before)
            if before.sealed_at is not None:
                return False
            self.batches.seal_in(connection, batch_id)
            self.audit.write(connection, command, "batch", batch_id, {"name": before.name})
            return True

        return self.database.write(work)

    def begin_cancel(self, batch_id: str, command: Command, connection: Connection | None = None) -> bool:
        """Mark a batch as cancelled and sealed; ``InvalidTransition`` where it has ended."""
        c = self.tables.batches.c

        def values(now: datetime, row: BatchRow) -> dict[str, Any]:
            return {
                "status": BatchStatus.RUNNING.value,
                "action": "cancel",
                "cancelled_at": now,
                "sealed_at": row.sealed_at or now,
            }

        def refuse(row: BatchRow) -> None:
            if row.status in ENDED:
                raise errors.InvalidTransition(f"Batch {batch_id} has ended ({row.status}) and cannot be cancelled")

        live = c.status.in_([BatchStatus.OPEN.value, BatchStatus.RUNNING.value])
        idle = (live, or_(c.action.is_(None), c.action != "cancel"))
        return self._begin(batch_id, command, "cancel", idle, refuse, values, connection)

    def begin_retry(self, batch_id: str, command: Command) -> bool:
        """Mark a batch; ``InvalidTransition`` where no member is dead, or it is being cancelled."""
        c = self.tables.batches.c

        def refuse(row: BatchRow) -> None:
            if row.action == "cancel":
                raise errors.InvalidTransition(
                    f"Batch {batch_id} is being cancelled; retry its dead jobs when it has ended"
                )

        def values(_now: datetime, _row: BatchRow) -> dict[str, Any]:
            return {"action": "retry", "action_after": None}

        return self._begin(batch_id, command, "retry", (c.action.is_(None),), refuse, values)

    def _begin(
        self,
        batch_id: str,
        command: Command,
        action: str,
        idle: tuple[Any, ...],
        refuse: Callable[[BatchRow], None],
        values: Callable[[datetime, BatchRow], dict[str, Any]],
        connection: Connection | None = None,
    ) -> bool:
        self.database.ensure_schema(connection)
        batches = self.tables.batches

        def work(connection: Connection) -> bool:
            row = self.rows.find(connection, batch_id)
            _refuse_damaged(row)
            if row.action == action:
                return False
            refuse(row)
            if action == "retry" and not self.rows.members(connection, batch_id, MemberState.DEAD, 1):
                raise errors.InvalidTransition(f"No job of batch {batch_id} is dead")
            now = self.database.now(connection)
            given = {**values(now, row), "actor": command.actor, "reason": command.reason, "updated_at": now}
            done = connection.execute(update(batches).where(batches.c.id == batch_id, *idle).values(given)).rowcount
            if done != 1:
                return False
            self.audit.write(connection, command, "batch", batch_id, {"name": row.name})
            return True

        return self.database.write(work, connection)

    # Steps

    def advance(self, batch_id: str, cancel: Decide, retry: Decide, steps: int) -> int:
        """Carry out what was begun: up to ``steps`` transactions, until there is no more to do."""
        moved = 0
        for _ in range(steps):
            done = self.database.write(lambda connection: self._step(connection, batch_id, cancel, retry))
            if done is None:
                break
            moved += done
        self.batches.end_over([batch_id])
        return moved

    def _step(self, connection: Connection, batch_id: str, cancel: Decide, retry: Decide) -> int | None:
        try:
            row = self.rows.find(connection, batch_id, skip_locked=True)
        except errors.UnknownBatch:
            # Somebody else is at it.
            return None
        match row.action:
            case "cancel":
                return self._cancel(connection, row, cancel)
            case "retry":
                return self._retry(connection, row, retry)
        return None

    def _cancel(self, connection: Connection, row: BatchRow, decide: Decide) -> int | None:
        ids = self.rows.members(connection, row.id, MemberState.OUTSTANDING, STEP)
        if not ids:
            if row.status is BatchStatus.RUNNING:
                self.batches.end_in(connection, row.id)
            return None
        taken = self.commands.command(connection, ids, decide, actor=row.actor, message=row.reason)
        # Rows of jobs that have ended otherwise would be met again by every step.
        mend(self.database, connection, row.id, [one.job_id for one in taken if one.step is None])
        return sum(one.step is not None for one in taken)

    def _retry(self, connection: Connection, row: BatchRow, decide: Decide) -> int | None:
        ids = self.rows.members(connection, row.id, MemberState.DEAD, STEP, row.action_after)
        moved = 0
        if ids:
            taken = self.commands.command(connection, ids, decide, actor=row.actor, message=row.reason)
            moved = sum(one.step is not None for one in taken)
        over = len(ids) < STEP
        batches = self.tables.batches
        values = {"action": None if over else "retry", "action_after": None if over else ids[-1]}
        connection.execute(update(batches).where(batches.c.id == row.id).values(values))
        return None if over and not moved else moved


def _refuse_damaged(row: BatchRow) -> None:
    if row.damage is not None:
        raise errors.InvalidTransition(
            f"Batch {row.id} has a damaged row: {row.damage}; somebody has changed it by hand"
        )
