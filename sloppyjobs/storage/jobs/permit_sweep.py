"""The sweep of permits and lines: what the edges of jobs did not see to, a bounded number at a time.

It lets jobs go on whose partitions have room: by a rate, with the time; by a limit that was raised or is gone; and
where somebody gave a permit back while somebody else parked. It removes permits whose jobs do not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, delete, literal_column, select

from sloppyjobs.domain import limits
from sloppyjobs.domain.limits import Partition
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.permit_line import PermitLine
from sloppyjobs.storage.jobs.permits import Permits

EVERY = timedelta(seconds=0.25)
"""How often a worker looks at lines, by the clock in force."""
PARTITIONS = 100
"""Lines that one sweep looks at; the next one goes on from there."""
TOGETHER = 20
"""Lines that one transaction releases from."""
CLOCKS_APART = timedelta(seconds=10)
"""How far the clocks of a database's nodes may differ: each must not take the others' buckets for too empty ones."""
PERMITS = 500
"""Permits that one sweep looks at."""


class Due(NamedTuple):
    """How many jobs were released, and in how many seconds there is something to do again."""

    released: int = 0
    next_in: float | None = None


class PermitSweep:
    """Recomputes who may go on."""

    def __init__(self, database: Database, permits: Permits) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.permits = permits
        self.line: PermitLine = permits.line
        self._swept_at: datetime | None = None
        self._after: Partition | None = None
        self._after_permit: tuple[str, str, int] | None = None

    def due(self, now: datetime) -> bool:
        """Whether the last sweep is long enough ago."""
        return self._swept_at is None or not timedelta(0) <= now - self._swept_at < EVERY

    def sweep(self, now: datetime) -> Due:
        """Remove permits whose jobs do not run, then let those go on for whom there is room. Looks before it writes."""
        self._swept_at = now
        self.remove_orphans()
        partitions = self._lines()
        if not partitions:
            return Due()
        ready, late, next_in = self.database.read(lambda c: self._ready(c, partitions))
        for start in range(0, len(late), TOGETHER):
            self.database.write(lambda c, part=late[start : start + TOGETHER]: self._refill(c, part, CLOCKS_APART))  # type: ignore[misc]
        released = 0
        for start in range(0, len(ready), TOGETHER):
            part = ready[start : start + TOGETHER]
            released += self.database.write(lambda c, part=part: self._release(c, part))  # type: ignore[misc]
        return Due(released, 0.0 if len(partitions) == PARTITIONS else next_in)

    def release(self, resource: str) -> int:
        """Let go on who may by a limit that was just changed; a sweep does what this leaves."""
        own = self.partitions_of(resource)[:TOGETHER]

        def work(connection: Connection) -> int:
            self._refill(connection, own)
            return self._release(connection, own)

        return self.database.write(work) if own else 0

    def partitions_of(self, resource: str) -> list[Partition]:
        """The partitions of a resource in which jobs wait, up to so many as a sweep looks at."""
        found = self.database.read(lambda c: self._partitions_after(c, (resource, None)))
        return [partition for partition in found if partition[0] == resource]

    def _release(self, connection: Connection, partitions: Sequence[Partition]) -> int:
        self.dialect.plan_by_index(connection)
        return self.line.release(connection, partitions, self.database.now(connection))

    def _refill(
        self, connection: Connection, partitions: Sequence[Partition], tolerated: timedelta = timedelta(0)
    ) -> None:
        self.dialect.plan_by_index(connection)
        self.line.refill(connection, partitions, self.database.now(connection), tolerated)

    def _ready(
        self, connection: Connection, partitions: Sequence[Partition]
    ) -> tuple[list[Partition], list[Partition], float | None]:
        """The lines that may move now; those whose buckets are emptier than they can be; when a token comes next."""
        now = self.database.now(connection)
        known = self.line.limits_of(connection, {resource for resource, _ in partitions})
        states = self.line.states(connection, partitions, known, now)
        ready = [partition for partition, state in states.items() if state.room is None or state.room > 0]
        full_at = self.line.full_at(connection, partitions)
        late = [
            one
            for one, moment in full_at.items()
            if one[0] in known and limits.emptied(known[one[0]], moment, now, CLOCKS_APART)
        ]
        coming = [
            limits.next_token_at(known[partition[0]], full_at.get(partition), now)
            for partition in partitions
            if partition[0] in known and partition not in ready
        ]
        soonest = min((moment for moment in coming if moment is not None), default=None)
        return ready, late, None if soonest is None else max(0.0, (soonest - now).total_seconds())

    # Lines

    def _lines(self) -> list[Partition]:
        """The next lines, from where the last sweep stopped."""
        found = self.database.read(lambda c: self._partitions_after(c, self._after))
        if len(found) < PARTITIONS and self._after is not None:
            known = set(found)
            again = self.database.read(lambda c: self._partitions_after(c, None))
            found += [partition for partition in again if partition not in known][: PARTITIONS - len(found)]
        self._after = found[-1] if len(found) == PARTITIONS else None
        return found

    def _partitions_after(self, connection: Connection, after: tuple[str, str | None] | None) -> list[Partition]:
        """Up to so many partitions with lines, by one index probe each; a resource without a partition begins there."""
        cursor = cursor_of(connection)
        next_resource = self.database.prepared("next resource", self._next_resource)
        next_partition = self.database.prepared("next partition", self._next_partition)
        first_partition = self.database.prepared("first partition", self._first_partition)
        found: list[Partition] = []
        resource, partition = ("", None) if after is None else after
        if after is None:
            rows = next_resource.rows(cursor, {"after_resource": resource})
            if not rows:
                return []
            resource = rows[0][0]
        while len(found) < PARTITIONS:
            if partition is None:
                rows = first_partition.rows(cursor, {"of_resource": resource})
            else:
                rows = next_partition.rows(cursor, {"of_resource": resource, "after_partition": partition})
            if rows:
                partition = rows[0][0]
                found.append((resource, partition))
                continue
            rows = next_resource.rows(cursor, {"after_resource": resource})
            if not rows:
                break
            resource, partition = rows[0][0], None
        return found

    # Permits

    def remove_orphans(self) -> int:
        """Remove permits whose jobs do not run any more; how many it was."""
        rows = self.database.read(self._next_permits)
        last = rows[-1] if len(rows) == PERMITS else None
        self._after_permit = None if last is None else (last.resource, last.partition_key, last.slot)
        idle = [row for row in rows if row.status != Status.PROCESSING.value]
        return self.database.write(lambda c: self._remove(c, idle)) if idle else 0

    def _next_permits(self, connection: Connection) -> list[Any]:
        permits, jobs = self.tables.permits, self.tables.jobs
        c = permits.c
        key = (c.resource, c.partition_key, c.slot)
        query = (
            select(*key, c.job_id, c.taken_at, jobs.c.status)
            .select_from(permits.outerjoin(jobs, jobs.c.id == c.job_id))
            .order_by(*key)
            .limit(PERMITS)
        )
        if self._after_permit is not None:
            query = query.where(self.dialect.beyond(key, self._after_permit))
        return list(connection.execute(query))

    def _remove(self, connection: Connection, rows: Sequence[Any]) -> int:
        """Those whose jobs, locked now, do not run; and the first of their lines go on."""
        self.dialect.plan_by_index(connection)
        states = self.permits.transitions.lock_states(connection, sorted({row.job_id for row in rows}))
        c = self.tables.permits.c
        removed, partitions = 0, set[Partition]()
        for row in sorted(rows, key=lambda row: (row.resource, row.partition_key, row.slot)):
            state = states.get(row.job_id)
            if state is not None and state.status is Status.PROCESSING:
                continue
            # By the instant, too: a claim that goes on with a permit of before has written another one.
            same = (c.resource == row.resource, c.partition_key == row.partition_key, c.slot == row.slot)
            gone = delete(self.tables.permits).where(*same, c.job_id == row.job_id, c.taken_at == row.taken_at)
            removed += connection.execute(gone).rowcount
            partitions.add((row.resource, row.partition_key))
        self.line.release(connection, sorted(partitions), self.database.now(connection))
        return removed

    # Statements

    def _next_resource(self) -> Select[Any]:
        c = self.tables.parked.c
        query = select(c.resource).where(c.released == literal_column("0"), c.resource > bindparam("after_resource"))
        return self.dialect.first(query.order_by(c.released, c.resource))

    def _first_partition(self) -> Select[Any]:
        c = self.tables.parked.c
        query = select(c.partition_key).where(c.released == literal_column("0"), c.resource == bindparam("of_resource"))
        return self.dialect.first(query.order_by(c.released, c.resource, c.partition_key))

    def _next_partition(self) -> Select[Any]:
        c = self.tables.parked.c
        query = select(c.partition_key).where(
            c.released == literal_column("0"),
            c.resource == bindparam("of_resource"),
            c.partition_key > bindparam("after_partition"),
        )
        return self.dialect.first(query.order_by(c.released, c.resource, c.partition_key))
