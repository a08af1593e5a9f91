"""Commands with their trail: what an operator did, to what, when and why, in the transaction that did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select, update

from sloppyjobs import errors
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.commands import Commands
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.jobs.rows import possible_id
from sloppyjobs.storage.ports.operators import AuditFilter, AuditRow, Command, Decide, Outcome, Taken
from sloppyjobs.storage.ports.reads import Key
from sloppyjobs.storage.reads.keyset import Filter, Keyset, KeysetPage, Scan

_OVERLAP = timedelta(hours=1)


class Audit:
    """Commands on jobs and queues, and the append-only trail of them."""

    def __init__(self, database: Database, commands: Commands, keyset: Keyset, inserts: Insert) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.commands = commands
        self.keyset = keyset
        self.inserts = inserts

    def command_job(self, job_id: str, decide: Decide, command: Command) -> bool:
        """Command one job; False when there was nothing to do, and then nothing is written."""
        self.database.ensure_schema()
        tried: list[datetime] = []

        def work(connection: Connection) -> bool:
            [taken] = self._command(connection, [possible_id(job_id)], decide, command, None, tried)
            if taken.refused is not None:
                raise taken.refused
            if taken.step is None or taken.before is None:
                return taken.repeated
            detail = {"from": taken.before.status.value, "to": taken.step.target.value}
            self.write(connection, command, "job", job_id, detail)
            return True

        return self.database.write(work)

    def command_jobs(
        self,
        ids: Sequence[str],
        decide: Decide,
        command: Command,
        *,
        since: int,
        detail: Callable[[Sequence[Outcome]], Mapping[str, Any]],
    ) -> list[Outcome]:
        """Command several jobs in one transaction, each fenced on its own, and audit them as one entry.

        Jobs that have an event after ``since`` (see ``begin_command``) are left alone. When the answer to COMMIT is
        lost, what was done is recognised as done, and not done again.
        """
        tried: list[datetime] = []

        def work(connection: Connection) -> list[Outcome]:
            taken = self._command(connection, ids, decide, command, since, tried)
            outcomes = [outcome(one) for one in taken]
            if not any(one.repeated for one in taken):
                self.write(connection, command, "jobs", f"bulk {command.action}", detail(outcomes))
            return outcomes

        return self.database.write(work)

    def begin_command(self) -> int:
        """The mark from which a command on many jobs counts what others change meanwhile."""
        self.database.ensure_schema()
        return self.database.write(self.dialect.event_mark)

    def _command(
        self,
        connection: Connection,
        ids: Sequence[str],
        decide: Decide,
        command: Command,
        since: int | None,
        tried: list[datetime],
    ) -> list[Taken]:
        return self.commands.command(
            connection, ids, decide, actor=command.actor, message=command.reason, since=since, tried=tried
        )

    def record(self, command: Command, target_type: str, target: str, detail: Mapping[str, Any]) -> None:
        """Write an entry of something that is done already."""
        self.database.write(lambda c: self.write(c, command, target_type, target, detail))

    def set_queue_paused(self, name: str, paused: bool, until: datetime | None, command: Command) -> bool:
        """Pause a queue, which need not exist yet, or resume it; False when it was so already."""
        self.database.ensure_schema()

        def work(connection: Connection) -> bool:
            now = self.database.now(connection)
            queues = self.tables.queues
            self.inserts.add_queues(cursor_of(connection), [name], self.database.to_driver(now))
            query = select(queues.c.paused_at, queues.c.paused_until).where(queues.c.name == name)
            was_at, was_until = connection.execute(self.dialect.locked(query)).one()
            was_paused = was_at is not None and (was_until is None or was_until > now)
            if was_paused is paused and (not paused or was_until == until):
                return False
            values = {
                "paused_at": (was_at if was_paused else now) if paused else None,
                "paused_until": until,
                "paused_by": command.actor if paused else None,
                "pause_reason": command.reason if paused else None,
            }
            connection.execute(update(queues).where(queues.c.name == name).values(values))
            detail = {"until": until.isoformat()} if until is not None else {}
            self.write(connection, command, "queue", name, detail)
            if not paused:
                self.dialect.announce(connection)
            return True

        return self.database.write(work)

    def entries(
        self, wanted: AuditFilter, after: Key | None, *, backward: bool, limit: int
    ) -> tuple[list[AuditRow], Key | None]:
        """Entries beyond a key, latest first or backward, and the key after which to go on."""
        self.database.ensure_schema()
        return self.database.read(
            lambda c: self._audit_entries(self.database.bounded(c), wanted, after, backward, limit)
        )

    def _audit_entries(
        self, connection: Connection, wanted: AuditFilter, after: Key | None, backward: bool, limit: int
    ) -> tuple[list[AuditRow], Key | None]:
        audit = self.tables.audit
        scan = self.audit_scan(wanted)
        page: KeysetPage = self.keyset.read(connection, [scan], after=after, descending=not backward, limit=limit)
        ids = [key[0] for key in page.found]
        # The last entry that was read says whether the range is over.
        last = [] if page.resume is None else [page.resume[0]]
        query = select(*(audit.c[name] for name in AuditRow._fields)).where(audit.c.id.in_([*ids, *last]))
        found = {row.id: AuditRow(*row) for row in connection.execute(query)} if ids or last else {}
        rows = [found[number] for number in ids if number in found]
        over = any(_beyond(found[number].created_at, wanted, backward) for number in last if number in found)
        return rows, None if over else page.resume

    def audit_scan(self, wanted: AuditFilter) -> Scan:
        """The scan of the entries of a target, or of all; every other condition is a filter."""
        c = self.tables.audit.c
        where = () if wanted.target is None else (c.target == wanted.target,)
        filters: list[Filter] = []
        if wanted.actor is not None:
            filters.append((c.actor, lambda given: given == wanted.actor))
        if wanted.action is not None:
            filters.append((c.action, lambda given: given == wanted.action))
        if wanted.created_from is not None:
            filters.append((c.created_at, lambda given: given >= wanted.created_from))
        if wanted.created_to is not None:
            filters.append((c.created_at, lambda given: given < wanted.created_to))
        return Scan(where, (c.id,), tuple(filters))

    def write(
        self,
        connection: Connection,
        command: Command,
        target_type: str,
        target: str,
        detail: Mapping[str, Any],
    ) -> None:
        """Write an entry in the transaction of what it tells of."""
        connection.execute(
            insert(self.tables.audit).values(
                created_at=self.database.now(connection),
                actor=command.actor,
                action=command.action,
                target_type=target_type,
                target=target,
                reason=command.reason,
                detail=msgspec.json.encode(detail).decode() if detail else None,
            )
        )


def _beyond(moment: datetime, wanted: AuditFilter, backward: bool) -> bool:
    """Whether no entry further on is in the range. Numbers and times agree but for what transactions overlap."""
    if backward:
        return wanted.created_to is not None and moment > wanted.created_to + _OVERLAP
    return wanted.created_from is not None and moment < wanted.created_from - _OVERLAP


def outcome(taken: Taken) -> Outcome:
    """What a command did to one job, in the words of a tally."""
    if isinstance(taken.refused, errors.UnknownJob):
        return Outcome(taken.job_id, "unknown")
    if taken.refused is not None:
        # Without names, where that can be said: reasons are counted.
        return Outcome(taken.job_id, getattr(taken.refused, "reason", None) or str(taken.refused))
    if taken.step is None and not taken.repeated and taken.before is not None:
        return Outcome(taken.job_id, f"already {taken.before.status}")
    return Outcome(taken.job_id)
