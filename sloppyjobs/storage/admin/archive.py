"""The archive: searched along an index each, read one by one, and restored.

A restored job is a new one. The archived row remembers its id; the conditional update of that row decides between two
who restore it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, null, select, update

from sloppyjobs import errors
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.payload_summary import START
from sloppyjobs.domain.states import FINISHED
from sloppyjobs.domain.stored_words import status_or_none
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import salvage
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.linked_insert import LinkedInsert
from sloppyjobs.storage.jobs.rows import possible_id
from sloppyjobs.storage.ports.archive import ArchivedJob, ArchivedMark, ArchivedRow, ArchiveFound, ArchiveQuery
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.reads import Key
from sloppyjobs.storage.reads.keyset import Filter, Keyset, Scan

_HEAVY = ("metadata", "result", "progress_fields")
_CARRIED = ("payload", "retry_policy", "followups", "history")


class Archive:
    """Jobs that were moved out of the way."""

    def __init__(
        self, database: Database, keyset: Keyset, audit: Audit, inserts: Insert, linked_inserts: LinkedInsert
    ) -> None:
        self.database = database
        self.dialect = database.dialect
        self.table = database.tables.archive
        self.keyset = keyset
        self.audit = audit
        self.inserts = inserts
        self.linked_inserts = linked_inserts

    # Reading

    def find(self, wanted: ArchiveQuery, after: Key | None, *, backward: bool, limit: int) -> ArchiveFound:
        """Up to ``limit`` archived jobs beyond a key, latest created first, or backward."""
        self.database.ensure_schema()
        scans = self.scans(wanted)

        def work(connection: Connection) -> ArchiveFound:
            bounded = self.database.bounded(connection)
            page = self.keyset.read(bounded, scans, after=after, descending=not backward, limit=limit)
            found = self._rows(bounded, [key[-1] for key in page.found])
            return ArchiveFound([(key, found[key[-1]]) for key in page.found if key[-1] in found], page.resume)

        return self.database.read(work)

    def get(self, job_id: str) -> ArchivedJob:
        """The archived job; ``UnknownJob`` where there is none."""
        self.database.ensure_schema()
        return self.database.read(lambda c: self._get(c, job_id))

    def ids_between(self, head: str, tail: str, limit: int) -> list[str]:
        """The ids that begin and end so, of at most ``limit`` that begin so."""
        self.database.ensure_schema()
        column = self.table.c.id
        # No character of an id comes after "~".
        query = select(column).where(column >= head, column < head + "~").order_by(column).limit(limit)
        return [id for id in self.database.read(lambda c: c.scalars(query).all()) if id.endswith(tail)]

    def scans(self, wanted: ArchiveQuery) -> list[Scan]:
        """The scans that find what is wanted, each along the index that narrows it most."""
        c = self.table.c
        if wanted.ids is not None:
            return [self._scan(wanted, (c.id.in_(wanted.ids),), "ids")]
        if wanted.key is not None:
            by_business_key = self._scan(wanted, (c.business_key == wanted.key,), "key")
            # Whoever has both was found by the first already.
            other: Filter = (c.business_key, lambda given: given.is_(None) | (given != wanted.key))
            by_idempotency_key = self._scan(wanted, (c.idempotency_key == wanted.key,), "key", other)
            return [by_business_key, by_idempotency_key]
        for column in ("business_key", "idempotency_key", "name"):
            value = getattr(wanted, column)
            if value is not None:
                return [self._scan(wanted, (c[column] == value,), column)]
        return [self._scan(wanted, (), "created_at")]

    def _scan(
        self, wanted: ArchiveQuery, where: tuple[ColumnElement[bool], ...], narrowed_by: str, *filters: Filter
    ) -> Scan:
        c = self.table.c
        found = list(filters)
        for column in ("business_key", "idempotency_key", "name", "queue"):
            value = getattr(wanted, column)
            if value is not None and column != narrowed_by:
                found.append(_equals(c[column], value))
        if wanted.scope is not None:
            found.append(_within(c.queue, wanted.scope))
        if wanted.created_from is not None:
            where = (*where, c.created_at >= wanted.created_from)
        if wanted.created_to is not None:
            where = (*where, c.created_at < wanted.created_to)
        prefix = (c[narrowed_by],) if narrowed_by in ("business_key", "idempotency_key", "name") else ()
        return Scan(where, (c.created_at, c.id), tuple(found), prefix)

    def _rows(self, connection: Connection, ids: Sequence[str]) -> dict[str, ArchivedRow]:
        if not ids:
            return {}
        c = self.table.c
        light = [null() if name in _HEAVY else c[name] for name in rows.JOB_FIELDS]
        # A payload may have a MiB, and a page a hundred of them.
        start = self.dialect.text_start(c.payload, START + 1)
        query = select(*light, *self._mark_columns(), start).where(c.id.in_(ids))
        try:
            return {row[0]: ArchivedRow(rows.job(row), _mark(row), _text(row[-1])) for row in connection.execute(query)}
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
        marks = self._marks(connection, ids)
        found = salvage(self.dialect, connection, ids, self.table)
        return {id: ArchivedRow(one.job, marks[id], one.payload[: START + 1]) for id, one in found.items()}

    def _get(self, connection: Connection, job_id: str) -> ArchivedJob:
        c = self.table.c
        columns = [*rows.columns(self.table, rows.JOB_FIELDS), *self._mark_columns()]
        query = select(*columns, *rows.columns(self.table, _CARRIED)).where(c.id == possible_id(job_id))
        try:
            row = connection.execute(query).one_or_none()
            if row is None:
                raise not_archived(job_id)
            return ArchivedJob(
                rows.job(row), _mark(row), _text(row.payload), row.result, row.retry_policy, row.followups, row.history
            )
        except Exception as error:
            if not self.dialect.is_unreadable(error):
                raise
            found = salvage(self.dialect, connection, [job_id], self.table).get(job_id)
            if found is None or found.job.damage is None:
                raise
            mark = self._marks(connection, [job_id])[job_id]
            return ArchivedJob(found.job, mark, found.payload, found.result, found.retry_policy, None, "{}")

    def _mark_columns(self) -> list[ColumnElement[Any]]:
        return rows.columns(self.table, ArchivedMark._fields)

    def _marks(self, connection: Connection, ids: Sequence[str]) -> dict[str, ArchivedMark]:
        query = select(self.table.c.id, *self._mark_columns()).where(self.table.c.id.in_(ids))
        return {row[0]: ArchivedMark(*row[1:]) for row in connection.execute(query)}

    # Restoring

    def restore(self, job_id: str, make: Callable[[ArchivedJob], NewJob], command: Command) -> str:
        """Write a new job that ``make`` makes of an archived one; the id of the new job."""
        self.database.ensure_schema()
        return self.database.write(lambda c: self._restore(c, job_id, make, command))

    def _restore(
        self, connection: Connection, job_id: str, make: Callable[[ArchivedJob], NewJob], command: Command
    ) -> str:
        self.dialect.ensure_begun(connection)
        archived = self._get(connection, job_id)
        new, last = make(archived), archived.mark.restored_as
        if last == new.id:
            # An earlier run of this transaction was committed, although nobody was told.
            return new.id
        self._refuse_live(connection, job_id, last)
        (self.linked_inserts if new.terms.linked else self.inserts).insert_all(connection, [new], rerun=False)
        c = self.table.c
        unchanged = (c.id == job_id, c.archived_at == archived.mark.archived_at)
        same = c.restored_as.is_(None) if last is None else c.restored_as == last
        values = {"restored_as": new.id, "restored_at": self.database.now(connection)}
        done = connection.execute(update(self.table).where(*unchanged, same).values(values)).rowcount
        all_changed(done, 1)
        self.audit.write(connection, command, "job", job_id, {"new": new.id})
        return new.id

    def _refuse_live(self, connection: Connection, job_id: str, last: str | None) -> None:
        """Once is once: as long as the restored job lives, there is no second one."""
        if last is None:
            return
        jobs = self.database.tables.jobs
        status = status_or_none(connection.scalar(select(jobs.c.status).where(jobs.c.id == last)))
        if status is not None and status not in FINISHED:
            raise errors.InvalidTransition(
                f"job {job_id} was restored already, as {last}, which is {status}", status=status
            )


def not_archived(job_id: object) -> errors.UnknownJob:
    """The error for an id that no archived job has."""
    return errors.UnknownJob(f"no archived job has the id {job_id!r}")


def _text(value: Any) -> str:
    """A payload that is text: a database may keep whatever was put into a column."""
    if not isinstance(value, str):
        raise TypeError(f"payload is of type {type(value).__name__}")
    return value


def _mark(row: Any) -> ArchivedMark:
    return ArchivedMark(row.archived_at, row.ended_as, row.restored_as, row.restored_at)


def _equals(column: Any, value: Any) -> Filter:
    return column, lambda given: given == value


def _within(column: Any, values: Sequence[str]) -> Filter:
    return column, lambda given: given.in_(values)
