"""What becomes of finished jobs: a soft delete first, and later removal for good, or a move to the archive.

Everything goes in bounded batches. A scan follows the index of lists, which is in the order of creation, and filters by
age; one that stopped at its bound is continued by the next call, so that many old jobs which finished lately never hide
the others. A batch locks its rows in id order and skips what others have locked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)

from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import Event
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.workflows import OPEN
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs import rows, settlement_sql
from sloppyjobs.storage.jobs.followups import Edge, Followups, bits_of
from sloppyjobs.storage.jobs.tags import remove_tags
from sloppyjobs.storage.ports.operators import Command, Moved
from sloppyjobs.storage.ports.reads import Key
from sloppyjobs.storage.reads.keyset import Keyset, KeysetPage, Scan
from sloppyjobs.storage.schema.columns import JOB_COLUMNS

STEP = 500
"""Rows that one transaction moves; more would keep other writers waiting."""
SCANS = 10
"""Bounded scans of an index in one call."""
HISTORY = 1_000
"""Attempts, events and log lines of one job that its archived history keeps, the latest of each."""
ROWS = 50_000
"""Rows of history that are read at once."""

Held = dict[str, int | None]
"""Jobs by their ids, in order, and what hangs on each."""

Step = Callable[[Connection, Sequence[str]], int]
"""Moves these jobs in one transaction, and says how many it was."""


class Retention:
    """The soft delete of finished jobs, and the removal of deleted ones."""

    def __init__(self, database: Database, keyset: Keyset, followups: Followups) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.keyset = keyset
        self.followups = followups
        self._resume_at: dict[str, Key] = {}

    def soft_delete(self, status: Status, before: datetime, limit: int, command: Command) -> Moved:
        """Mark up to ``limit`` jobs of a finished status that ended before an instant as ``deleted``."""
        self.database.ensure_schema()
        scan = self._aged(status, "finished_at", before)
        return self._in_steps(status.value, scan, limit, lambda c, ids: self._delete(c, status, before, ids, command))

    def purge(self, before: datetime, limit: int, *, archive: bool) -> Moved:
        """Remove up to ``limit`` jobs that were deleted before an instant, with everything that belongs to them.

        Not those of which something is needed still: a result by a job that may run, a business key by its window.
        """
        self.database.ensure_schema()
        scan = self._aged(Status.DELETED, "updated_at", before)
        scan = scan._replace(filters=(*scan.filters, (self._needed(), lambda needed: needed == 0)))
        return self._in_steps("deleted", scan, limit, lambda c, ids: self._remove(c, before, ids, archive))

    # Scanning

    def _in_steps(self, place: str, scan: Scan, limit: int, step: Step) -> Moved:
        keys, more = self.continue_scan(place, scan, limit)
        jobs = sorted(key[-1] for key in keys)
        chunks = [jobs[start : start + STEP] for start in range(0, len(jobs), STEP)]
        return Moved(sum(self._step(step, chunk) for chunk in chunks), more)

    def _step(self, step: Step, ids: Sequence[str]) -> int:
        # By the primary keys only, whatever the statistics say of the tables.
        return self.database.write(lambda connection: step(self.database.bounded(connection), ids))

    def continue_scan(self, place: str, scan: Scan, limit: int) -> tuple[list[Key], bool]:
        """Up to ``limit`` keys of a scan with filters, from where the last one under this name stopped.

        At its end a scan starts over. The flag says that not everything was read.
        """
        found: dict[Key, None] = {}
        after = self._resume_at.pop(place, None)
        whole = after is None
        for _ in range(SCANS):
            page = self._scan_once(scan, after, limit - len(found))
            found |= dict.fromkeys(page.found)
            after = page.resume
            if after is None and whole:
                return list(found), False
            whole = whole or after is None
            if len(found) >= limit:
                break
        if after is not None:
            self._resume_at[place] = after
        return list(found), True

    def _scan_once(self, scan: Scan, after: Key | None, limit: int) -> KeysetPage:
        return self.database.read(
            lambda c: self.keyset.read(self.database.bounded(c), [scan], after=after, descending=False, limit=limit)
        )

    def _aged(self, status: Status, column: str, before: datetime) -> Scan:
        c = self.tables.jobs.c
        # Literally in the SQL text, so that the partial index serves; nothing ends before it was created.
        where: tuple[ColumnElement[bool], ...] = (
            literal_column(self.tables.style.in_list(status)),
            c.created_at < before,
        )
        return Scan(where, (c.created_at, c.id), ((c[column], lambda given: given < before),))

    # Deleting

    def _delete(
        self, connection: Connection, status: Status, before: datetime, ids: Sequence[str], command: Command
    ) -> int:
        jobs = self.tables.jobs
        held = self._hold(connection, ids, status, jobs.c.finished_at < before)
        if not held:
            return 0
        now = self.database.now(connection)
        values = {"status": Status.DELETED.value, "updated_at": now}
        delete_softly = update(jobs).where(jobs.c.id.in_(list(held)), jobs.c.status == status.value).values(values)
        all_changed(connection.execute(delete_softly).rowcount, len(held))
        events = [_deleted_event(job_id, status, command) for job_id in held]
        settlement_sql.write_edges(self.database, cursor_of(connection), events, self.database.to_driver(now))
        self._follow_up(connection, held, status, Status.DELETED)
        return len(held)

    def _hold(self, connection: Connection, ids: Sequence[str], status: Status, aged: Any) -> Held:
        """Lock those that are still as they were read, and that nobody else has locked."""
        c = self.tables.jobs.c
        query = select(c.id, c.followups).where(c.id.in_(ids), c.status == status.value, aged).order_by(c.id)
        return {row.id: row.followups for row in connection.execute(self.dialect.locked(query, skip=True))}

    def _follow_up(self, connection: Connection, held: Held, source: Status, target: Status | None) -> None:
        flagged = [Edge(job_id, source, target, bits_of(bits)) for job_id, bits in held.items() if bits is not None]
        if flagged:
            self.followups.after(connection, flagged)

    # Removing

    def _remove(self, connection: Connection, before: datetime, ids: Sequence[str], archive: bool) -> int:
        tables, jobs = self.tables, self.tables.jobs
        held = self._without_needed(connection, self._hold(connection, ids, Status.DELETED, jobs.c.updated_at < before))
        if not held:
            return 0
        removed = list(held)
        if archive:
            self._archive(connection, removed)
        remove_tags(self.database, connection, removed)
        for table in (tables.logs, tables.events, tables.attempts, tables.steps):
            connection.execute(delete(table).where(table.c.job_id.in_(removed)))
        edges = self.tables.dependencies
        for end in (edges.c.child_id, edges.c.parent_id):
            connection.execute(delete(edges).where(end.in_(removed)))
        # Before the jobs: what hangs on one is found by what its row says.
        self._follow_up(connection, held, Status.DELETED, None)
        gone = delete(jobs).where(jobs.c.id.in_(removed), jobs.c.status == Status.DELETED.value)
        all_changed(connection.execute(gone).rowcount, len(held))
        return len(held)

    def _without_needed(self, connection: Connection, held: Held) -> Held:
        """Those of these jobs of which nobody needs anything, now that their rows are locked."""
        c = self.tables.jobs.c
        query = select(c.id).where(c.id.in_(list(held)), self._needed() == 1)
        needed = set(connection.execute(query).scalars()) if held else ()
        return {job_id: bits for job_id, bits in held.items() if job_id not in needed}

    def _needed(self) -> ColumnElement[int]:
        """1 for a job whose result another one may read that has not ended for good, or whose key is still reserved."""
        c, edges, keys = self.tables.jobs.c, self.tables.dependencies.c, self.tables.keys.c
        child = self.tables.jobs.alias("child").c
        may_run = child.status.in_([status.value for status in OPEN])
        awaited = exists().where(edges.parent_id == c.id, child.id == edges.child_id, may_run)
        same_key = self.dialect.same_key(keys.key, c.business_key)
        reserved = exists().where(same_key, keys.job_id == c.id, keys.reserved_until > self.database.clock.now())
        keyed = func.coalesce(c.followups, 0).bitwise_and(int(_KEYED)) != 0
        # No bit says of a job that had ended before somebody began to wait for it that it is a parent.
        return case((keyed & reserved, 1), (awaited, 1), else_=0)

    def _archive(self, connection: Connection, ids: Sequence[str]) -> None:
        jobs, archive = self.tables.jobs, self.tables.archive
        now = self.database.now(connection)
        # A job that was put back by hand and ends here again replaces what was kept of it.
        connection.execute(delete(archive).where(archive.c.id.in_(ids)))
        kept = [column.name for column in JOB_COLUMNS if column.archived]
        copied = [
            *rows.columns(jobs, kept),
            bindparam("archived", type_=archive.c.archived_at.type),
            bindparam("history_json"),
            bindparam("ended", type_=archive.c.ended_as.type),
        ]
        names = [*kept, "archived_at", "history", "ended_as"]
        # The payload is copied inside the database: it can be large, and nobody here needs to see it.
        copy = insert(archive).from_select(names, select(*copied).where(jobs.c.id == bindparam("job")))
        histories = self._histories(connection, ids)
        connection.execute(copy, [{"job": job_id, "archived": now, **histories[job_id]} for job_id in ids])

    def _histories(self, connection: Connection, ids: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """The history of each job, and how the job had ended before it was deleted."""
        attempts, events, logs = self.tables.attempts, self.tables.events, self.tables.logs
        of_attempts = self._latest(connection, attempts, rows.ATTEMPT_FIELDS, "attempt_number", ids)
        of_events = self._latest(connection, events, rows.EVENT_FIELDS, "id", ids)
        of_logs = self._latest(connection, logs, _LOG_FIELDS, "id", ids)
        of_steps = self._latest(connection, self.tables.steps, _STEP_FIELDS, "place", ids)
        histories = {}
        found = zip(ids, of_attempts, of_events, of_logs, of_steps, strict=True)
        for job_id, attempts_of, events_of, logs_of, steps_of in found:
            told = [rows.event(row) for row in events_of]
            history = {
                "attempts": [rows.attempt(row) for row in attempts_of],
                "events": told,
                "logs": [dict(zip(_LOG_FIELDS, row, strict=True)) for row in logs_of],
            }
            if steps_of:
                history["steps"] = [dict(zip(_STEP_FIELDS, row, strict=True)) for row in steps_of]
            text = msgspec.json.encode(history).decode()
            histories[job_id] = {"history_json": text, "ended": _ended_as(told)}
        return histories

    def _latest(
        self, connection: Connection, table: Table, fields: Sequence[str], key: str, ids: Sequence[str]
    ) -> list[list[Sequence[Any]]]:
        """The latest rows of each job, oldest first."""
        columns = [table.c.job_id, table.c[key], *rows.columns(table, fields)]
        found = connection.execute(select(*columns).where(table.c.job_id.in_(ids)).limit(ROWS + 1)).all()
        if len(found) > ROWS:
            # Some job has very many: then each is asked for on its own.
            queries = [
                select(*columns).where(table.c.job_id == job_id).order_by(table.c[key].desc()).limit(HISTORY)
                for job_id in ids
            ]
            found = [row for answer in self.keyset.each(connection, queries) for row in answer]  # type: ignore[misc]
        of_job: dict[str, list[Sequence[Any]]] = {job_id: [] for job_id in ids}
        for row in sorted(found, key=lambda row: row[1]):
            of_job[row[0]].append(row[2:])
        return [of_job[job_id][-HISTORY:] for job_id in ids]


_KEYED = Followup.KEY | Followup.PENDING_KEY
_LOG_FIELDS = ("attempt_number", "level", "message", "fields", "created_at")


_STEP_FIELDS = ("kind", "name", "state", "attempt_number", "created_at", "finished_at", "run_seconds", "size")
"""What is kept of steps: not their results."""


def _ended_as(events: Sequence[Event]) -> str | None:
    """The status that a job was deleted from."""
    sources = [event.from_status for event in events if event.to_status is Status.DELETED]
    return sources[-1].value if sources and sources[-1] is not None else None


def _deleted_event(job_id: str, status: Status, command: Command) -> tuple[Any, ...]:
    return job_id, "deleted", status.value, Status.DELETED.value, None, None, command.actor, command.reason
