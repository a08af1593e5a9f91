"""What becomes of finished jobs: a soft delete first, and later removal for good, or a move to the archive.

Everything goes in bounded steps. A look follows the index of lists, which is in the order of creation, and sifts
by the age that matters; a look that was stopped at its bound is gone on with next time, so that many old jobs
which finished lately never hide the others. A step locks its rows in id order and passes over what others hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, insert, literal_column, select, update

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.conflicts import all_changed
from sloppyjobs.storage.database import Database, cursor_of
from sloppyjobs.storage.jobs import rows, settlement_sql
from sloppyjobs.storage.jobs.followups import Edge, Followups, bits_of
from sloppyjobs.storage.ports.operators import Command, Moved
from sloppyjobs.storage.ports.reads import Key
from sloppyjobs.storage.reads.keyset import Keyset, Walk, Walked
from sloppyjobs.storage.schema.columns import JOB_COLUMNS

STEP = 500
"""Rows that one transaction moves; more would keep other writers waiting."""
LOOKS = 10
"""Bounded looks along an index in one call."""
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
        self._places: dict[str, Key] = {}

    def soft_delete(self, status: Status, before: datetime, limit: int, command: Command) -> Moved:
        """Walk up to ``limit`` jobs of a finished status that ended before an instant to ``deleted``."""
        self.database.ensure_schema()
        walk = self._aged(status, "finished_at", before)
        return self._in_steps(status.value, walk, limit, lambda c, ids: self._delete(c, status, before, ids, command))

    def purge(self, before: datetime, limit: int, *, archive: bool) -> Moved:
        """Remove up to ``limit`` jobs that were deleted before an instant, with everything that belongs to them."""
        self.database.ensure_schema()
        walk = self._aged(Status.DELETED, "updated_at", before)
        return self._in_steps("deleted", walk, limit, lambda c, ids: self._remove(c, before, ids, archive))

    # Looking

    def _in_steps(self, place: str, walk: Walk, limit: int, step: Step) -> Moved:
        keys, more = self.look(place, walk, limit)
        jobs = sorted(key[-1] for key in keys)
        chunks = [jobs[start : start + STEP] for start in range(0, len(jobs), STEP)]
        return Moved(sum(self._step(step, chunk) for chunk in chunks), more)

    def _step(self, step: Step, ids: Sequence[str]) -> int:
        # By the primary keys only, whatever the statistics say of the tables.
        return self.database.write(lambda connection: step(self.database.bounded(connection), ids))

    def look(self, place: str, walk: Walk, limit: int) -> tuple[list[Key], bool]:
        """Up to ``limit`` keys of a sifting walk, from where the last look under this name was stopped.

        The end of a walk leads back to its beginning. The flag says that not everything was looked at.
        """
        found: dict[Key, None] = {}
        after = self._places.pop(place, None)
        whole = after is None
        for _ in range(LOOKS):
            walked = self._look_once(walk, after, limit - len(found))
            found |= dict.fromkeys(walked.found)
            after = walked.resume
            if after is None and whole:
                return list(found), False
            whole = whole or after is None
            if len(found) >= limit:
                break
        if after is not None:
            self._places[place] = after
        return list(found), True

    def _look_once(self, walk: Walk, after: Key | None, limit: int) -> Walked:
        return self.database.read(
            lambda c: self.keyset.read(self.database.bounded(c), [walk], after=after, descending=False, limit=limit)
        )

    def _aged(self, status: Status, column: str, before: datetime) -> Walk:
        c = self.tables.jobs.c
        # Literally in the SQL text, so that the partial index serves; nothing ends before it was created.
        where: tuple[ColumnElement[bool], ...] = (
            literal_column(self.tables.style.in_list(status)),
            c.created_at < before,
        )
        return Walk(where, (c.created_at, c.id), ((c[column], lambda given: given < before),))

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
        """Lock those that are still what the look saw, and that nobody else has locked."""
        c = self.tables.jobs.c
        query = select(c.id, c.followups).where(c.id.in_(ids), c.status == status.value, aged).order_by(c.id)
        return {row.id: row.followups for row in connection.execute(self.dialect.locked(query, skip=True))}

    def _follow_up(self, connection: Connection, held: Held, source: Status, target: Status | None) -> None:
        flagged = [Edge(job_id, source, target, bits_of(bits)) for job_id, bits in held.items() if bits is not None]
        if flagged:
            self.followups.after(connection, flagged)

    # Removing

    def _remove(self, connection: Connection, before: datetime, ids: Sequence[str], archive: bool) -> int:
        jobs = self.tables.jobs
        held = self._hold(connection, ids, Status.DELETED, jobs.c.updated_at < before)
        if not held:
            return 0
        removed = list(held)
        if archive:
            self._archive(connection, removed)
        for table in (self.tables.logs, self.tables.events, self.tables.attempts):
            connection.execute(delete(table).where(table.c.job_id.in_(removed)))
        gone = delete(jobs).where(jobs.c.id.in_(removed), jobs.c.status == Status.DELETED.value)
        all_changed(connection.execute(gone).rowcount, len(held))
        self._follow_up(connection, held, Status.DELETED, None)
        return len(held)

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
        ]
        names = [*kept, "archived_at", "history"]
        # The payload is copied inside the database: it can be large, and nobody here needs to see it.
        copy = insert(archive).from_select(names, select(*copied).where(jobs.c.id == bindparam("job")))
        histories = self._histories(connection, ids)
        connection.execute(
            copy, [{"job": job_id, "archived": now, "history_json": histories[job_id]} for job_id in ids]
        )

    def _histories(self, connection: Connection, ids: Sequence[str]) -> dict[str, str]:
        attempts, events, logs = self.tables.attempts, self.tables.events, self.tables.logs
        of_attempts = self._latest(connection, attempts, rows.ATTEMPT_FIELDS, "attempt_number", ids)
        of_events = self._latest(connection, events, rows.EVENT_FIELDS, "id", ids)
        of_logs = self._latest(connection, logs, _LOG_FIELDS, "id", ids)
        histories = {}
        for job_id, ran, walked, said in zip(ids, of_attempts, of_events, of_logs, strict=True):
            history = {
                "attempts": [rows.attempt(row) for row in ran],
                "events": [rows.event(row) for row in walked],
                "logs": [dict(zip(_LOG_FIELDS, row, strict=True)) for row in said],
            }
            histories[job_id] = msgspec.json.encode(history).decode()
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


_LOG_FIELDS = ("attempt_number", "level", "message", "fields", "created_at")


def _deleted_event(job_id: str, status: Status, command: Command) -> tuple[Any, ...]:
    return job_id, "deleted", status.value, Status.DELETED.value, None, None, command.actor, command.reason
