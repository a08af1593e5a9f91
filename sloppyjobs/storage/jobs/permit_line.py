"""The lines of jobs that wait for permits, one for each partition of a resource, and who goes on from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    Select,
    Subquery,
    Text,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain import limits
from sloppyjobs.domain.limits import NO_PARTITION, Limit, LimitState, Partition, from_row
from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Conflict, all_changed, cursor_of
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import Move, Step

RELEASED_AT_ONCE = 500
"""Jobs of one partition that one transaction lets go on."""
CLAIMED_WITHIN = timedelta(seconds=5)
"""For how long a permit is left to the job that was released for it; then another one is released as well."""

_PARTITION: Mapping[str, TypeEngine[Any]] = {"resource": Text(), "partition_key": Text()}
_UNBLOCKED = Step(Status.QUEUED, "unblocked")


class PermitLine:
    """Who waits for the permits of which partition."""

    def __init__(self, database: Database, transitions: Transitions) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.transitions = transitions

    # What partitions have

    def limits_of(self, connection: Connection, names: Collection[str]) -> dict[str, Limit]:
        """The limits of these resources; those that have none, or whose code is gone, are missing."""
        if not names:
            return {}
        query = self.database.prepared("limits", self._limits)
        found = query.rows(cursor_of(connection), {"names": self.dialect.list_param(sorted(names))})
        return {row[0]: from_row(*row) for row in found}

    def full_at(self, connection: Connection, partitions: Sequence[Partition]) -> dict[Partition, datetime]:
        """When the buckets of these partitions are full again; those that were never used are missing."""
        found: dict[Partition, datetime] = {}
        if not partitions:
            return found
        query = self.database.prepared("buckets", self._buckets)
        for resource, partition, full_at in query.rows(cursor_of(connection), {"given": _json(partitions)}):
            moment = self.database.from_driver(full_at)
            if moment is not None:
                found[resource, partition] = moment
        return found

    def set_full_at(
        self, connection: Connection, partition: Partition, before: datetime | None, after: datetime
    ) -> None:
        """Take tokens; ``Conflict`` where somebody else has taken some since."""
        buckets, (resource, key) = self.tables.buckets, partition
        if before is not None:
            c = buckets.c
            same = (c.resource == resource, c.partition_key == key, c.full_at == before)
            all_changed(connection.execute(update(buckets).where(*same).values(full_at=after)).rowcount, 1)
            return
        self.dialect.ensure_begun(connection)
        try:
            with connection.begin_nested():
                connection.execute(insert(buckets).values(resource=resource, partition_key=key, full_at=after))
        except DBAPIError as error:
            if not self.dialect.is_duplicate(error):
                raise
            raise Conflict("somebody else has taken tokens of this bucket") from None

    def refill(
        self, connection: Connection, partitions: Sequence[Partition], now: datetime, tolerated: timedelta
    ) -> None:
        """Begin anew with empty buckets where rows say that they are emptier than that, by more than is tolerated."""
        known = self.limits_of(connection, {resource for resource, _ in partitions})
        for partition, full_at in sorted(self.full_at(connection, partitions).items()):
            limit = known.get(partition[0])
            after = None if limit is None else limits.emptied(limit, full_at, now, tolerated)
            if after is not None:
                self.set_full_at(connection, partition, full_at, after)

    def first_places(self, connection: Connection, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The place of the first job in each line; lines that are empty are missing."""
        query = self.database.prepared("first places", self._first_places)
        found = query.rows(cursor_of(connection), {"given": _json(partitions)})
        return {(resource, partition): place for resource, partition, place in found if place is not None}

    def states(
        self, connection: Connection, partitions: Sequence[Partition], known: Mapping[str, Limit], now: datetime
    ) -> dict[Partition, LimitState]:
        """What these partitions have left for jobs in their lines; of those without a limit, anything."""
        given, cursor = {"given": _json(partitions)}, cursor_of(connection)
        held = self._counts(self.database.prepared("count permits", self._count_permits).rows(cursor, given))
        recent = self.database.to_driver(now - CLAIMED_WITHIN)
        query = self.database.prepared("count released", self._count_released)
        released = self._counts(query.rows(cursor, {**given, "recent": recent}))
        full_at = self.full_at(connection, partitions)
        states: dict[Partition, LimitState] = {}
        for partition in partitions:
            limit = known.get(partition[0])
            if limit is None:
                states[partition] = LimitState(None, None)
                continue
            coming = released.get(partition, 0)
            tokens = limits.tokens(limit, full_at.get(partition), now)
            states[partition] = LimitState(
                None if limit.concurrency is None else limit.concurrency - held.get(partition, 0) - coming,
                None if tokens is None else tokens - coming,
            )
        return states

    @staticmethod
    def _counts(found: Sequence[Sequence[Any]]) -> dict[Partition, int]:
        return {(resource, partition): number for resource, partition, number in found}

    # Who goes on

    def release(self, connection: Connection, partitions: Sequence[Partition], now: datetime) -> int:
        """Let the first of these lines go on, as many as have room; how many it was."""
        waiting = sorted(self.first_places(connection, partitions))
        if not waiting:
            return 0
        known = self.limits_of(connection, {resource for resource, _ in waiting})
        moved = 0
        for partition, state in self.states(connection, waiting, known, now).items():
            room = RELEASED_AT_ONCE if state.room is None else min(state.room, RELEASED_AT_ONCE)
            if room > 0:
                moved += self._release_first(connection, partition, room, now)
        return moved

    def _release_first(self, connection: Connection, partition: Partition, number: int, now: datetime) -> int:
        query = self.database.prepared("heads of line", self._heads_of_line)
        values = {"of_resource": partition[0], "of_partition": partition[1], "most": number}
        ids = [row[0] for row in query.rows(cursor_of(connection), values)]
        states = self.transitions.lock_states(connection, ids, skip=True) if ids else {}
        parked: list[Move] = [(state, _UNBLOCKED) for state in states.values() if waits_for_permit(state)]
        if parked:
            self.transitions.write_moves(connection, parked, now, actor=None, message=None)
            self._mark_released(connection, [state.id for state, _ in parked], now)
        # What left the line by another way: by hand, or between two statements.
        stray = [state.id for state in states.values() if not waits_for_permit(state)]
        if stray:
            self.leave(connection, stray)
        return len(parked)

    def _mark_released(self, connection: Connection, ids: Sequence[str], now: datetime) -> None:
        statement = self.database.prepared("mark released", self._mark)
        values = {"ids": self.dialect.list_param(ids), "now": self.database.to_driver(now)}
        statement.run(cursor_of(connection), values)

    # Who stands in line

    def released_among(self, connection: Connection, ids: Sequence[str]) -> set[str]:
        """Those of these jobs that stood in a line before."""
        query = self.database.prepared("rows of line", self._rows_of_line)
        return {row[0] for row in query.rows(cursor_of(connection), {"ids": self.dialect.list_param(ids)})}

    def leave(self, connection: Connection, ids: Sequence[str]) -> None:
        """Remove these jobs from their lines."""
        if ids:
            statement = self.database.prepared("leave line", self._leave)
            statement.run(cursor_of(connection), {"ids": self.dialect.list_param(ids)})

    def enter(self, connection: Connection, ids: Sequence[str]) -> list[Partition]:
        """Put those of these jobs that wait for a permit into their lines; which lines these are."""
        self.leave(connection, ids)
        values = {"ids": self.dialect.list_param(ids)}
        self.database.prepared("enter line", self._enter).run(cursor_of(connection), values)
        found = self.database.prepared("lines of jobs", self._lines_of).rows(cursor_of(connection), values)
        return sorted({(resource, partition) for resource, partition in found})

    # Statements

    def given_partitions(self) -> Subquery:
        """The partitions that a statement is given."""
        return self.dialect.given_rows("given", _PARTITION)

    def _limits(self) -> Select[Any]:
        c = self.tables.limits.c
        query = select(c.name, c.concurrency, c.rate, c.per_seconds)
        return query.where(self.dialect.any_of(c.name, "names"), c.vanished_at.is_(None))

    def _buckets(self) -> Select[Any]:
        return self._of_given(self.tables.buckets, self.tables.buckets.c.full_at)

    def _count_permits(self) -> Select[Any]:
        c = self.tables.permits.c
        return self._of_given(self.tables.permits, func.count()).group_by(c.resource, c.partition_key)

    def _count_released(self) -> Select[Any]:
        c = self.tables.parked.c
        query = self._of_given(self.tables.parked, func.count())
        recent = (c.released == literal_column("1"), c.released_at > bindparam("recent", type_=c.released_at.type))
        return query.where(*recent).group_by(c.resource, c.partition_key)

    def _of_given(self, table: Any, column: Any) -> Select[Any]:
        c, given = table.c, self.given_partitions()
        same = and_(
            self.dialect.same_key(c.resource, given.c.resource),
            self.dialect.same_key(c.partition_key, given.c.partition_key),
        )
        return select(c.resource, c.partition_key, column).select_from(given.join(table, same))

    def _first_places(self) -> Select[Any]:
        c, given = self.tables.parked.c, self.given_partitions()
        first = (
            select(c.place)
            .where(
                c.released == literal_column("0"),
                self.dialect.same_key(c.resource, given.c.resource),
                self.dialect.same_key(c.partition_key, given.c.partition_key),
            )
            .order_by(*self._in_line())
            .correlate(given)
        )
        return select(given.c.resource, given.c.partition_key, self.dialect.first(first).scalar_subquery())

    def _heads_of_line(self) -> Select[Any]:
        c = self.tables.parked.c
        query = select(c.job_id).where(
            c.released == literal_column("0"),
            c.resource == bindparam("of_resource"),
            c.partition_key == bindparam("of_partition"),
        )
        return query.order_by(*self._in_line()).limit(bindparam("most"))

    def _in_line(self) -> Sequence[Any]:
        c = self.tables.parked.c
        # All columns of the index, for planners to see that it has the order.
        return c.released, c.resource, c.partition_key, c.place, c.run_at, c.created_at, c.job_id

    def _mark(self) -> Any:
        parked = self.tables.parked
        values = {"released": literal_column("1"), "released_at": bindparam("now", type_=parked.c.released_at.type)}
        return update(parked).where(self.dialect.any_of(parked.c.job_id, "ids")).values(values)

    def _rows_of_line(self) -> Select[Any]:
        c = self.tables.parked.c
        return select(c.job_id).where(self.dialect.any_of(c.job_id, "ids"))

    def _lines_of(self) -> Select[Any]:
        c = self.tables.parked.c
        return select(c.resource, c.partition_key).where(self.dialect.any_of(c.job_id, "ids"))

    def _leave(self) -> Any:
        parked = self.tables.parked
        return delete(parked).where(self.dialect.any_of(parked.c.job_id, "ids"))

    def _enter(self) -> Any:
        jobs, parked = self.tables.jobs.c, self.tables.parked
        columns = {
            "job_id": jobs.id,
            "resource": jobs.resource,
            "partition_key": func.coalesce(jobs.partition_key, literal_column(f"'{NO_PARTITION}'")),
            "place": -jobs.priority,
            "run_at": jobs.run_at,
            "created_at": jobs.created_at,
            "released": literal_column("0"),
            "released_at": null(),
        }
        waiting = (
            jobs.status == literal_column(f"'{Status.WAITING.value}'"),
            jobs.waiting_for == literal_column(f"'{WaitingFor.PERMIT.value}'"),
            jobs.resource.is_not(None),
        )
        chosen = select(*columns.values()).where(self.dialect.any_of(jobs.id, "ids"), *waiting)
        return insert(parked).from_select(list(columns), chosen)


def waits_for_permit(state: Any) -> bool:
    """Whether a job waits for a permit, and for nothing else."""
    return bool(state.status is Status.WAITING and state.waiting_for == WaitingFor.PERMIT)


def _json(partitions: Sequence[Partition]) -> str:
    return msgspec.json.encode(partitions).decode()
