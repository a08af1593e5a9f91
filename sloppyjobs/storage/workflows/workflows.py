"""Workflows: written whole with their jobs, commanded as one, and removed with the last of their jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import count
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from sloppyjobs.domain.model import Job, NewJob
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.workflows import NewWorkflow
from sloppyjobs.storage.admin.audit import Audit, outcome
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.commands import Commands
from sloppyjobs.storage.jobs.linked_insert import LinkedInsert
from sloppyjobs.storage.ports.operators import Command, Decide, Outcome
from sloppyjobs.storage.reads.keyset import Keyset, Scan
from sloppyjobs.storage.upkeep.retention import Retention
from sloppyjobs.storage.workflows.reads import WorkflowReads, possible_id, unknown
from sloppyjobs.storage.workflows.status import OPEN_ROW, as_number

CHUNK = 500
"""Jobs in one transaction of a command: few enough that nobody waits long for their locks."""


class Workflows(WorkflowReads):
    """Named graphs of jobs."""

    def __init__(
        self,
        database: Database,
        keyset: Keyset,
        inserts: LinkedInsert,
        commands: Commands,
        audit: Audit,
        retention: Retention,
    ) -> None:
        super().__init__(database, keyset)
        self.inserts = inserts
        self.commands = commands
        self.audit = audit
        self.retention = retention

    def insert(self, workflow: NewWorkflow, new: Sequence[NewJob], connection: Connection | None = None) -> list[Job]:
        """Write a workflow and all its jobs, or nothing; ``InvalidWorkflow`` where a parent is unknown."""

        def write_row(connection: Connection, now: datetime) -> None:
            row = {"status": OPEN_ROW, "created_at": now, **msgspec.structs.asdict(workflow)}
            connection.execute(insert(self.tables.workflows).values(row))

        return self.inserts.insert_jobs(self.database.dialect.as_kept(new), connection, whole=write_row)

    # Commands

    def command(
        self, workflow_id: str, statuses: Sequence[Status], decide: Decide, command: Command, *, cancelling: bool
    ) -> list[Outcome]:
        """Decide for each job that has one of these statuses, in short transactions, each with its audit entry.

        Those that were added last come first: none of them is let go by the end of a job that is cancelled after it.
        """
        self.database.ensure_schema()
        self.get(workflow_id)
        done: list[Outcome] = []
        after: str | None = None
        for number in count():
            ids = self._members_before(workflow_id, statuses, after)
            if ids:
                done += self._command(workflow_id, ids, decide, command, cancelling=cancelling and number == 0)
            if len(ids) < CHUNK:
                return done
            after = min(ids)
        return done

    def _command(
        self, workflow_id: str, ids: Sequence[str], decide: Decide, command: Command, *, cancelling: bool
    ) -> list[Outcome]:
        tried: list[datetime] = []

        def work(connection: Connection) -> list[Outcome]:
            taken = self.commands.command(
                connection, ids, decide, actor=command.actor, message=command.reason, tried=tried
            )
            if any(one.repeated for one in taken):
                return [outcome(one) for one in taken]
            outcomes = [outcome(one) for one in taken]
            moved = [one for one in outcomes if one.skipped is None]
            if not moved:
                return outcomes
            if cancelling:
                self._mark_cancelled(connection, workflow_id, command)
            skipped = Counter(one.skipped for one in outcomes if one.skipped is not None)
            detail = {"matched": len(ids), "done": len(moved), "skipped": dict(skipped)}
            self.audit.write(connection, command, "workflow", workflow_id, detail)
            return outcomes

        return self.database.write(work)

    def _mark_cancelled(self, connection: Connection, workflow_id: str, command: Command) -> None:
        table = self.tables.workflows
        values = {
            "cancelled_at": self.database.now(connection),
            "cancelled_by": command.actor,
            "cancel_reason": command.reason,
        }
        marked = connection.execute(update(table).where(table.c.id == workflow_id).values(values)).rowcount
        if not marked:
            raise unknown(workflow_id)

    def _members_before(self, workflow_id: str, statuses: Sequence[Status], after: str | None) -> list[str]:
        """The members with the highest ids below one."""
        c = self.tables.jobs.c
        where = [c.workflow_id == possible_id(workflow_id), *((c.id < after,) if after is not None else ())]
        queries = [
            select(c.id).where(*where, c.status == status.value).order_by(c.id.desc()).limit(CHUNK)
            for status in statuses
        ]
        found = self.database.read(lambda connection: self.keyset.each(connection, queries))
        return sorted((row[0] for answer in found for row in answer), reverse=True)[:CHUNK]

    # Upkeep

    def record_ended(self, limit: int) -> int:
        """Write down how workflows ended whose jobs will not move any more; how many it was.

        None of these statuses is left again, so that nothing needs to be locked.
        """
        c = self.tables.workflows.c
        members = ((as_number(self.state.may_go_on()), _is(0)), (as_number(self.state.has_members()), _is(1)))
        scan = Scan((c.status == OPEN_ROW,), (c.created_at, c.id), members, prefix=(c.status,))
        keys, _ = self.retention.continue_scan("ended workflows", scan, limit)
        return (
            self.database.write(lambda connection: self._record(connection, [key[-1] for key in keys])) if keys else 0
        )

    def _record(self, connection: Connection, ids: Sequence[str]) -> int:
        table = self.tables.workflows
        recorded = 0
        for found in self.read(connection, ids).values():
            values = {
                "status": found.status.value,
                "counts": msgspec.json.encode(found.counts).decode(),
                "finished_at": found.finished_at,
            }
            still_open = (table.c.id == found.id, table.c.status == OPEN_ROW)
            recorded += connection.execute(update(table).where(*still_open).values(values)).rowcount
        return recorded

    def remove_empty(self, limit: int) -> int:
        """Remove workflows whose last job was purged; how many it was."""
        c = self.tables.workflows.c
        scan = Scan((), (c.created_at, c.id), ((as_number(self.state.has_members()), _is(0)),))
        keys, _ = self.retention.continue_scan("empty workflows", scan, limit)
        ids = [key[-1] for key in keys]

        def work(connection: Connection) -> int:
            chunks = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
            gone = [delete(self.tables.workflows).where(c.id.in_(chunk)) for chunk in chunks]
            return sum(connection.execute(statement).rowcount for statement in gone)

        return self.database.write(work) if ids else 0


def _is(number: int) -> Any:
    return lambda given: given == number
