"""Commands with their trail: what an operator did, to what, when and why, in the transaction that did it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from sloppyjobs import errors
from sloppyjobs.storage.commands import Decide
from sloppyjobs.storage.database import cursor_of
from sloppyjobs.storage.walking import Key, Sieve, Walk, Walked, Walking


class Order(NamedTuple):
    """A command as somebody gave it."""

    action: str
    actor: str | None = None
    reason: str | None = None


class Outcome(NamedTuple):
    """What a command did to one of many jobs: nothing where ``skipped`` says why."""

    job_id: str
    skipped: str | None = None


class Auditing(Walking):
    """Commands on jobs and queues, and the append-only trail of them."""

    def command_job(self, job_id: str, decide: Decide, order: Order) -> bool:
        """Command one job; False when there was nothing to do, and then nothing is written."""
        self.ensure_schema()

        def work(connection: Connection) -> bool:
            before, step = self.command(connection, job_id, decide, actor=order.actor, message=order.reason)
            if step is None:
                return False
            detail = {"from": before.status.value, "to": step.target.value}
            self._write_audit(connection, order, "job", job_id, detail)
            return True

        return self.write(work)

    def command_jobs(self, ids: Sequence[str], decide: Decide, order: Order) -> list[Outcome]:
        """Command several jobs in one transaction, each fenced on its own."""
        # In id order, so that two of these never wait for each other in a ring.
        return self.write(lambda c: [self._command_one(c, job_id, decide, order) for job_id in sorted(ids)])

    def _command_one(self, connection: Connection, job_id: str, decide: Decide, order: Order) -> Outcome:
        try:
            before, step = self.command(connection, job_id, decide, actor=order.actor, message=order.reason)
        except errors.UnknownJob:
            return Outcome(job_id, "unknown")
        except errors.InvalidTransition as error:
            return Outcome(job_id, str(error))
        return Outcome(job_id, None if step is not None else f"already {before.status}")

    def record_audit(
        self,
        order: Order,
        target_type: str,
        target: str,
        detail: Mapping[str, Any],
        connection: Connection | None = None,
    ) -> None:
        """Write an entry, in the transaction of what it tells of or in one of its own."""
        self.write(lambda c: self._write_audit(c, order, target_type, target, detail), connection)

    def set_queue_paused(self, name: str, paused: bool, until: datetime | None, order: Order) -> bool:
        """Pause a queue, which need not exist yet, or resume it; False when it was so already."""
        self.ensure_schema()

        def work(connection: Connection) -> bool:
            now = self.now(connection)
            queues = self.tables.queues
            self._see_queues(cursor_of(connection), [name], self.to_driver(now))
            query = select(queues.c.paused_at, queues.c.paused_until).where(queues.c.name == name)
            was_at, was_until = connection.execute(self.locked(query)).one()
            was_paused = was_at is not None and (was_until is None or was_until > now)
            if was_paused is paused and (not paused or was_until == until):
                return False
            values = {"paused_at": (was_at if was_paused else now) if paused else None, "paused_until": until}
            connection.execute(update(queues).where(queues.c.name == name).values(values))
            detail = {"until": until.isoformat()} if until is not None else {}
            self._write_audit(connection, order, "queue", name, detail)
            if not paused:
                self.announce(connection)
            return True

        return self.write(work)

    def audit_entries(
        self, target: str | None, actor: str | None, after: Key | None, *, backward: bool, limit: int
    ) -> tuple[list[Row[Any]], Key | None]:
        """Entries beyond a key, latest first or backward, and the key after which to go on."""
        self.ensure_schema()
        return self.read(lambda c: self._audit_entries(self.bounded(c), target, actor, after, backward, limit))

    def _audit_entries(
        self,
        connection: Connection,
        target: str | None,
        actor: str | None,
        after: Key | None,
        backward: bool,
        limit: int,
    ) -> tuple[list[Row[Any]], Key | None]:
        audit = self.tables.audit
        walk = self.audit_walk(target, actor)
        walked: Walked = self.walk(connection, [walk], after=after, descending=not backward, limit=limit)
        ids = [key[0] for key in walked.found]
        query = select(audit).where(audit.c.id.in_(ids))
        found = {row.id: row for row in connection.execute(query)} if ids else {}
        return [found[number] for number in ids if number in found], walked.resume

    def audit_walk(self, target: str | None, actor: str | None) -> Walk:
        """The walk over the entries of a target, an actor, or all."""
        c = self.tables.audit.c
        where = () if target is None else (c.target == target,)
        sieves: tuple[Sieve, ...] = () if actor is None else ((c.actor, lambda given: given == actor),)
        return Walk(where, (c.id,), sieves)

    def _write_audit(
        self,
        connection: Connection,
        order: Order,
        target_type: str,
        target: str,
        detail: Mapping[str, Any],
    ) -> None:
        connection.execute(
            insert(self.tables.audit).values(
                created_at=self.now(connection),
                actor=order.actor,
                action=order.action,
                target_type=target_type,
                target=target,
                reason=order.reason,
                detail=msgspec.json.encode(detail).decode() if detail else None,
            )
        )
