"""Limits as rows: written, changed, removed, and read with those who hold their permits and those who wait."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, delete, func, select, update

from sloppyjobs.domain import limits as domain
from sloppyjobs.domain.limits import Limit
from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database, bounded_read
from sloppyjobs.storage.jobs.permit_sweep import PermitSweep
from sloppyjobs.storage.jobs.permits import Permits
from sloppyjobs.storage.jobs.rows import possible_id
from sloppyjobs.storage.ports.limits import (
    Held,
    LineHead,
    LineState,
    StoredLimit,
    Usage,
    possible_name,
    unknown_limit,
)
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.reads.keyset import Scan
from sloppyjobs.storage.upkeep.retention import Retention

COUNTED = 10_000
"""Where the count of a line stops."""
HOLDERS = 20
"""Holders of permits that an explanation knows."""

_FIELDS = (
    *("name", "concurrency", "rate", "per_seconds", "declared", "declared_as"),
    *("application", "vanished_at", "created_at", "updated_at"),
)


class Limits:
    """What resources allow."""

    def __init__(
        self, database: Database, permits: Permits, sweep: PermitSweep, audit: Audit, retention: Retention
    ) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.permits = permits
        self.sweep = sweep
        self.audit = audit
        self.retention = retention

    # Writing

    def register(self, limit: Limit, *, declared: bool = False, application: str | None = None) -> StoredLimit:
        """Write a limit, or change the one of that name."""
        self.database.ensure_schema()
        stored = self.database.write(lambda c: self._register(c, limit, declared, application))
        self.sweep.release(limit.name)
        return stored

    def _register(self, connection: Connection, limit: Limit, declared: bool, application: str | None) -> StoredLimit:
        table, now = self.tables.limits, self.database.now(connection)
        said = msgspec.json.encode(limit).decode()
        while True:
            known = self._find(connection, limit.name, lock=True)
            if known is None:
                row = {"name": limit.name, **_values(limit), "declared": declared, "created_at": now, "updated_at": now}
                row |= {"declared_as": said if declared else None, "application": application}
                if connection.execute(self.dialect.insert_if_absent(table, tuple(row)), row).rowcount == 1:
                    break
                continue
            values: dict[str, Any] = {"vanished_at": None, "updated_at": now}
            if declared:
                values |= {"declared": True, "declared_as": said, "application": application}
            if not declared or known.declared_as != limit:
                values |= _values(limit)
            elif known.vanished_at is None:
                # Nothing new: a start of a worker writes nothing.
                break
            connection.execute(update(table).where(table.c.name == limit.name).values(values))
            break
        return self._require(connection, limit.name)

    def ensure(self, name: str) -> None:
        """Write a limit of that name that allows everything, unless there is one."""
        self.database.ensure_schema()

        def work(connection: Connection) -> None:
            now = self.database.now(connection)
            row = {"name": name, "declared": False, "created_at": now, "updated_at": now}
            connection.execute(self.dialect.insert_if_absent(self.tables.limits, tuple(row)), row)

        self.database.write(work)

    def change(self, limit: Limit, command: Command) -> StoredLimit:
        """Change a limit that is there, with an entry in the audit trail."""
        self.database.ensure_schema()

        def work(connection: Connection) -> StoredLimit:
            known = self._require(connection, limit.name, lock=True)
            if known.limit == limit and known.vanished_at is None:
                return known
            table, now = self.tables.limits, self.database.now(connection)
            values = {**_values(limit), "vanished_at": None, "updated_at": now}
            connection.execute(update(table).where(table.c.name == limit.name).values(values))
            detail = {"from": _told(known.limit), "to": _told(limit)}
            self.audit.write(connection, command, "limit", limit.name, detail)
            return self._require(connection, limit.name)

        stored = self.database.write(work)
        self.sweep.release(limit.name)
        return stored

    def delete(self, name: str, command: Command) -> StoredLimit:
        """Remove a limit; whoever waits for its permits goes on."""
        self.database.ensure_schema()
        before: list[StoredLimit] = []

        def work(connection: Connection) -> StoredLimit:
            known = self._find(connection, name, lock=True)
            if known is None:
                if before:
                    # An earlier run of this transaction was committed, although nobody was told.
                    return before[0]
                raise unknown_limit(name)
            before[:] = [known]
            connection.execute(delete(self.tables.limits).where(self.tables.limits.c.name == name))
            self.audit.write(connection, command, "limit", name, {"from": _told(known.limit)})
            return known

        gone = self.database.write(work)
        self.sweep.release(name)
        return gone

    def mark_vanished(self, names: Collection[str], application: str | None) -> list[str]:
        """Let the application's declared limits end that are not among ``names``; which these were."""
        c = self.tables.limits.c

        def work(connection: Connection) -> list[str]:
            ours = c.application.is_(None) if application is None else c.application == application
            query = select(c.name).where(c.declared, c.vanished_at.is_(None), ours)
            gone = sorted(set(connection.execute(query).scalars()) - set(names))
            now = self.database.now(connection)
            for name in gone:
                values = {"vanished_at": now, "updated_at": now}
                connection.execute(update(self.tables.limits).where(c.name == name).values(values))
            return gone

        gone = self.database.write(work)
        for name in gone:
            self.sweep.release(name)
        return gone

    def release_permit(self, job_id: str, command: Command) -> bool:
        """Take the permit away from a job, which may run on; False where it holds none."""
        self.database.ensure_schema()
        wanted = possible_id(job_id)

        def work(connection: Connection) -> bool:
            self.dialect.plan_by_index(connection)
            states = self.permits.transitions.lock_states(connection, [wanted])
            c = self.tables.permits.c
            held = connection.execute(select(c.resource, c.partition_key).where(c.job_id == wanted)).first()
            if held is None:
                return False
            self.permits.give_back(connection, [wanted], self.database.now(connection))
            state = states.get(wanted)
            detail = {
                "resource": held.resource,
                "partition": held.partition_key or None,
                "status": None if state is None else state.status.value,
            }
            self.audit.write(connection, command, "job", wanted, detail)
            return True

        return self.database.write(work)

    # Repair

    def repair(self, limit: int) -> int:
        """Remove permits, rows of lines and buckets that belong to nothing any more; how many it was."""
        c = self.tables.parked.c
        scan = Scan((), (c.job_id,))
        rows, _ = self.retention.continue_scan("parked", scan, limit)
        ids = [key[0] for key in rows]
        mended = self.database.write(lambda connection: self._remove_strays(connection, ids)) if ids else 0
        c = self.tables.buckets.c
        full = select(c.resource, c.partition_key).where(c.full_at < self.database.clock.now())
        full = full.order_by(c.full_at, c.resource, c.partition_key).limit(limit)
        for row in self.database.read(lambda connection: connection.execute(full).all()):
            same = (c.resource == row.resource, c.partition_key == row.partition_key)
            gone = delete(self.tables.buckets).where(*same, c.full_at < self.database.clock.now())
            self.database.write(lambda connection, gone=gone: connection.execute(gone).rowcount)  # type: ignore[misc]
        return mended + self.sweep.remove_orphans()

    def enter_lines(self, ids: Sequence[str]) -> int:
        """Put those of these jobs that wait for a permit and stand in no line into theirs; how many it was."""

        def work(connection: Connection) -> int:
            self.dialect.plan_by_index(connection)
            states = self.permits.transitions.lock_states(connection, ids)
            waits = [
                id
                for id, state in states.items()
                if state.status is Status.WAITING and state.waiting_for == WaitingFor.PERMIT
            ]
            missing = sorted(set(waits) - self.permits.line.released_among(connection, waits)) if waits else []
            if missing:
                partitions = self.permits.line.enter(connection, missing)
                self.permits.line.release(connection, partitions, self.database.now(connection))
            return len(missing)

        return self.database.write(work) if ids else 0

    def _remove_strays(self, connection: Connection, ids: Sequence[str]) -> int:
        self.dialect.plan_by_index(connection)
        states = self.permits.transitions.lock_states(connection, ids)
        strays = [id for id in ids if id not in states or states[id].status not in (Status.WAITING, Status.QUEUED)]
        self.permits.line.leave(connection, strays)
        return len(strays)

    # Reading

    def get(self, name: str) -> StoredLimit:
        """The limit of that name, or ``UnknownLimit``."""
        self.database.ensure_schema()
        return self.database.read(lambda c: self._require(c, name))

    def page(self, limit: int, after: str | None = None, *, backward: bool = False) -> list[StoredLimit]:
        """Up to ``limit`` limits in the order of their names or backward, beyond a name."""
        self.database.ensure_schema()
        name = self.tables.limits.c.name
        query = self._select().order_by(name.desc() if backward else name).limit(limit)
        if after is not None:
            query = query.where(name < after if backward else name > after)
        return self.database.read(lambda c: [_stored(row) for row in c.execute(query)])

    def usage(self, names: Sequence[str]) -> dict[str, Usage]:
        """How much of these limits is in use."""
        return {name: self._usage(name) for name in names}

    @bounded_read
    def _usage(self, connection: Connection, name: str) -> Usage:
        permits, parked = self.tables.permits.c, self.tables.parked.c
        held = self._counted(connection, select(permits.slot).where(permits.resource == name))
        waiting = self._counted(connection, select(parked.job_id).where(parked.released == 0, parked.resource == name))
        return Usage(held[0], *waiting)

    @bounded_read
    def holders(self, connection: Connection, name: str, limit: int) -> list[Held]:
        """Who holds permits of a resource, partition by partition."""
        c = self.tables.permits.c
        query = self._holders().where(c.resource == name).order_by(c.partition_key, c.slot).limit(limit)
        return [Held(*row) for row in connection.execute(query)]

    def lines(self, name: str, limit: int) -> list[tuple[str, int, bool]]:
        """Partitions in which jobs wait, and how many."""
        self.database.ensure_schema()
        found = [partition for resource, partition in self.sweep.partitions_of(name) if resource == name][:limit]
        return [(partition, *self._line(name, partition)) for partition in found]

    @bounded_read
    def _line(self, connection: Connection, name: str, partition: str) -> tuple[int, bool]:
        c = self.tables.parked.c
        same = (c.released == 0, c.resource == name, c.partition_key == partition)
        return self._counted(connection, select(c.job_id).where(*same))

    def heads(self, name: str, limit: int) -> list[LineHead]:
        """Who is first in the lines of a resource, up to so many lines."""
        self.database.ensure_schema()
        found = [self._head(name, partition) for _, partition in self.sweep.partitions_of(name)[:limit]]
        return [head for head in found if head is not None]

    @bounded_read
    def _head(self, connection: Connection, name: str, partition: str) -> LineHead | None:
        c, jobs = self.tables.parked.c, self.tables.jobs
        joined = self.tables.parked.outerjoin(jobs, jobs.c.id == c.job_id)
        query = select(c.partition_key, c.job_id, jobs.c.name, jobs.c.queue, jobs.c.updated_at).select_from(joined)
        query = query.where(c.released == 0, c.resource == name, c.partition_key == partition)
        row = connection.execute(query.order_by(c.place, c.run_at, c.created_at, c.job_id).limit(1)).first()
        if row is None:
            return None
        p = self.tables.permits.c
        held = self._counted(connection, select(p.slot).where(p.resource == name, p.partition_key == partition))
        in_line = (c.released == 0, c.resource == name, c.partition_key == partition)
        return LineHead(*row, *self._counted(connection, select(c.job_id).where(*in_line)), held[0])

    @bounded_read
    def tokens(self, connection: Connection, name: str, partitions: Sequence[str]) -> dict[str, int]:
        """How many jobs of these partitions may start now by the rate; empty where there is none."""
        limit = self.permits.line.limits_of(connection, {name}).get(name)
        if limit is None or limit.rate is None:
            return {}
        full_at = self.permits.line.full_at(connection, [(name, partition) for partition in partitions])
        now = self.database.now(connection)
        return {one: domain.tokens(limit, full_at.get((name, one)), now) or 0 for one in partitions}

    @bounded_read
    def line_of(self, connection: Connection, job_id: str, resource: str, partition: str) -> LineState:
        """What a job that needs a permit has before it."""
        now = self.database.now(connection)
        key = (resource, partition)
        known = self.permits.line.limits_of(connection, {resource})
        full_at = self.permits.line.full_at(connection, [key])
        c, p = self.tables.parked.c, self.tables.permits.c
        order = (c.place, c.run_at, c.created_at, c.job_id)
        own = connection.execute(select(*order).where(c.job_id == job_id, c.released == 0)).first()
        ahead, more = 0, False
        if own is not None:
            # Along the index, and before this job.
            before = self.dialect.beyond(order, tuple(own), descending=True)
            same = (c.released == 0, c.resource == resource, c.partition_key == partition)
            ahead, more = self._counted(connection, select(c.job_id).where(*same, before))
        of_partition = (p.resource == resource, p.partition_key == partition)
        # Read to its end: some drivers allow one open result at a time.
        holders = connection.execute(self._holders().where(*of_partition).order_by(p.slot).limit(HOLDERS)).all()
        held = self._counted(connection, select(p.slot).where(*of_partition))[0]
        limit = known.get(resource)
        token = None if limit is None else domain.next_token_at(limit, full_at.get(key), now)
        return LineState(key, limit, ahead, more, [Held(*row) for row in holders], held, token)

    def _counted(self, connection: Connection, query: Select[Any]) -> tuple[int, bool]:
        bounded = query.limit(COUNTED + 1).subquery()
        number: int = connection.execute(select(func.count()).select_from(bounded)).scalar_one()
        return min(number, COUNTED), number > COUNTED

    def _holders(self) -> Select[Any]:
        c, jobs = self.tables.permits.c, self.tables.jobs
        joined = self.tables.permits.outerjoin(jobs, jobs.c.id == c.job_id)
        columns = (c.partition_key, c.slot, c.job_id, c.taken_at, jobs.c.name, jobs.c.queue, jobs.c.locked_by)
        return select(*columns).select_from(joined)

    def _select(self) -> Select[Any]:
        return select(*(self.tables.limits.c[name] for name in _FIELDS))

    def _find(self, connection: Connection, name: str, *, lock: bool = False) -> StoredLimit | None:
        query = self._select().where(self.tables.limits.c.name == name)
        row = connection.execute(self.dialect.locked(query) if lock else query).first()
        return None if row is None else _stored(row)

    def _require(self, connection: Connection, name: str, *, lock: bool = False) -> StoredLimit:
        found = self._find(connection, possible_name(name), lock=lock)
        if found is None:
            raise unknown_limit(name)
        return found


def _values(limit: Limit) -> dict[str, Any]:
    return {"concurrency": limit.concurrency, "rate": limit.rate, "per_seconds": limit.per}


def _told(limit: Limit) -> dict[str, Any]:
    """What the audit trail keeps of a limit."""
    return {"concurrency": limit.concurrency, "rate": limit.rate, "per": limit.per}


def _stored(row: Any) -> StoredLimit:
    limit = domain.from_row(row.name, row.concurrency, row.rate, row.per_seconds)
    said = None if row.declared_as is None else _declared(row.declared_as)
    return StoredLimit(
        limit, bool(row.declared), said, row.application, row.vanished_at, row.created_at, row.updated_at
    )


def _declared(text: str) -> Limit | None:
    try:
        return msgspec.json.decode(text, type=Limit)
    except msgspec.MsgspecError:
        # Somebody has changed it by hand: what the code says next is something new.
        return None
